/* Shares: what each trainer has of the fields of a sample.
 *
 * `only` says which trainers have a field, and a cut divides a field along one axis or two: each
 * trainer has the part that its coordinates in the mesh say. What is said of a field goes for the
 * fields that come beside it, too: "F.valid" is cut with the steps of F, and all columns of a
 * ragged field go together. Pure; any thread.
 */
#ifndef PENSTOCK_RUN_SHARES_H
#define PENSTOCK_RUN_SHARES_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "delivery/ring/board.h"
#include "delivery/ring/layout.h"
#include "mesh/cut.h"

/* The indices along a cut axis that a narrowed dataset has, of those that the whole one has. */
struct share_kept {
    size_t count; /* 0: all */
    struct zarr_run runs[NARROW_MOST_RUNS];
};

/* How a field is cut. */
struct share_field {
    uint32_t axis_count;                       /* 0: it is whole */
    uint32_t axes[RING_MAX_CUT_AXES];          /* [axis_count] of a sample, rising */
    uint32_t cuts[RING_MAX_CUT_AXES];          /* [axis_count] in shares.cuts */
    uint64_t lengths[RING_MAX_CUT_AXES];       /* [axis_count] indices, in the whole dataset */
    struct share_kept kept[RING_MAX_CUT_AXES]; /* [axis_count] see run/partitions.h */
    uint32_t items_cut; /* of a ragged field whose items are cut, 1 + the cut; else 0 */
};

struct shares {
    struct mesh mesh;
    const struct config_share *rules; /* [rule_count], borrowed from the configuration */
    size_t rule_count;
    struct cut cuts[CONFIG_MAX_CUTS];
    struct share_field fields[DATASET_MAX_FIELDS]; /* those of the dataset */
    size_t field_count;
    uint32_t first_parts[DATASET_MAX_FIELDS]; /* of the parts of all fields, one after another */
    uint64_t everywhere; /* fields that every reader delivers: ragged ones, which travel together */
    const struct board_shape *transform; /* borrowed; NULL: none. Its outputs are fields behind the
                                          * dataset's */
    const char *owners[DATASET_MAX_FIELDS]; /* the name by which rules call each field; borrowed
                                             * from the dataset */
};

/* `config` and `dataset` are borrowed while the shares live. INVALID: a rule is for a field that is
 * not there, or an axis that samples do not have; the parts do not divide an axis, and the message
 * names field, axis and cut; a field of which no trainer has anything; a ragged field is cut whose
 * samples have no pieces of equal length; more parts than a ring holds. */
MUST_USE enum status shares_settle(const struct config *config, const struct dataset *dataset,
                                   struct shares *ret_shares, struct error *err);

/* A transform's inputs and outputs are on every reader. Trainers have outputs, and of the inputs
 * those that are delivered. INVALID: an input is cut. */
MUST_USE enum status shares_transform(struct shares *shares, const struct board_shape *transform,
                                      struct error *err);

/* How many parts a field has; 0: it is whole. */
uint32_t shares_part_count(const struct shares *shares, size_t field);

/* The indices along the k-th cut axis of a field in one of its parts. */
struct cut_run shares_run_of(const struct shares *shares, size_t field, uint32_t k, uint32_t part);

/* What the trainers of a reader need: fields, and of those that are cut, parts. */
struct needs {
    uint64_t fields;                      /* bit f: field f, or some of it */
    uint64_t parts[RING_MOST_PARTS / 64]; /* bit p: part p of the parts of all fields */
};

/* Adds what a rank needs. */
void needs_add(const struct shares *shares, uint32_t rank, struct needs *needs);

static inline bool needs_field(const struct needs *needs, size_t field)
{
    return needs->fields >> field & 1;
}

static inline bool needs_part(const struct needs *needs, uint32_t part)
{
    return needs->parts[part / 64] >> (part % 64) & 1;
}

/* Says in a layout what is absent from slots; the caller settles the layout. */
void needs_lay_out(const struct needs *needs, struct ring_layout *layout);

/* Readers by what their trainers need: those of a class need the same. */
struct need_classes {
    struct needs *needs; /* [count] */
    uint32_t count;
    uint32_t *of; /* [readers] the class of each; of a reader without trainers 0 */
};

/* `reader_of_rank`: [ranks]; NULL: ranks are in blocks, as many with each reader. To be freed by
 * need_classes_done(), also after a failure. NO_MEMORY. */
MUST_USE enum status need_classes_init(struct need_classes *ret_classes,
                                       const struct shares *shares, uint32_t reader_count,
                                       const uint32_t *reader_of_rank, struct error *err);
void need_classes_done(struct need_classes *classes);

/* Sets cut axes and parts of the fields of a layout that is not settled yet, adds the fields of a
 * transform, and sets how many members a ring may have. */
void shares_lay_out(const struct shares *shares, struct ring_layout *layout);

/* What a rank has: a server_describe() whose argument is the shares. */
void shares_describe(void *shares, uint32_t rank, struct ring_member *ret_member);

#endif
