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
#include "delivery/ring/layout.h"
#include "mesh/cut.h"

/* How a field is cut. */
struct share_field {
    uint32_t axis_count;              /* 0: it is whole */
    uint32_t axes[RING_MAX_CUT_AXES]; /* [axis_count] of a sample, rising */
    uint32_t cuts[RING_MAX_CUT_AXES]; /* [axis_count] in shares.cuts */
};

struct shares {
    struct mesh mesh;
    const struct config_share *rules; /* [rule_count], borrowed from the configuration */
    size_t rule_count;
    struct cut cuts[CONFIG_MAX_CUTS];
    struct share_field fields[DATASET_MAX_FIELDS]; /* those of the dataset */
    size_t field_count;
    const char *owners[DATASET_MAX_FIELDS]; /* the name by which rules call each field; borrowed
                                             * from the dataset */
};

/* `config` and `dataset` are borrowed while the shares live. INVALID: a rule is for a field that is
 * not there, or an axis that samples do not have; the parts do not divide an axis, and the message
 * names field, axis and cut; a field of which no trainer has anything; a ragged field that is cut;
 * more parts than a ring holds. */
MUST_USE enum status shares_settle(const struct config *config, const struct dataset *dataset,
                                   struct shares *ret_shares, struct error *err);

/* How many parts a field has; 0: it is whole. */
uint32_t shares_part_count(const struct shares *shares, size_t field);

/* The indices along the k-th cut axis of a field that has `length` there, in one of its parts. */
struct cut_run shares_run_of(const struct shares *shares, size_t field, uint32_t k, uint64_t length,
                             uint32_t part);

/* Sets cut axes and parts of the fields of a layout that is not settled yet, and how many members a
 * ring may have. */
void shares_lay_out(const struct shares *shares, struct ring_layout *layout);

/* What a rank has: a server_describe() whose argument is the shares. */
void shares_describe(void *shares, uint32_t rank, struct ring_member *ret_member);

#endif
