/* Assignment of rows to readers by rank 0, window by window: which reader reads and sends a row,
 * and which rows stay in memory. docs/inside/design.md has the reasons ("Who reads a row, and what
 * travels").
 *
 * The readers' memory is one cache of rows, and rank 0 has its home table: a row that a reader with
 * room reads stays there until the end. Each row is near a reader: the reader of the trainer that
 * it is near (locality.h), or one that serves no trainer, each of which takes its part of all rows.
 * With order.placement fixed a row of one sample is near the reader whose trainer gets the sample
 * in this epoch, and other rows are near none. A row that has no home is given
 *
 *   - to its near reader, to keep it, if that one has room; else to the next reader in turn that
 *     has room;
 *   - where no reader has room, to its near reader, which drops it after use, unless that one holds
 *     up the others and is slower by far; else to the next reader in turn that has time for it
 *     (assign_slow.h).
 *
 * No reader is given more than `most_rows` of one window to read, so that the row buffers it needs
 * are known before the start. If each of R readers has room for ceil(M / R) rows of M, and for a
 * window's rows, all rows find a home in the first epoch.
 *
 * An assigner holds 2 bytes a row where rows are kept; a window takes O(rows + R), and O(R) for
 * each row that its near reader does not take. Owned by one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_ASSIGN_H
#define PENSTOCK_PLAN_ASSIGN_ASSIGN_H

#include "plan/order/plan.h"

enum {
    ASSIGN_KEEP = 0x8000, /* the owner keeps the row after use */
    ASSIGN_READER_MASK = 0x7fff,
    ASSIGN_MAX_READERS = 0x7ffe
};

/* The reader that has a row with this owner in memory. */
static inline uint32_t assign_reader(uint16_t owner)
{
    return owner & ASSIGN_READER_MASK;
}

/* Whether that reader keeps the row. */
static inline bool assign_keeps(uint16_t owner)
{
    return owner & ASSIGN_KEEP;
}

struct assigner_options {
    const struct plan *plan; /* of a mix its own; borrowed during the call */
    uint32_t reader_count;
    uint64_t keep_rows; /* that each reader may keep */
    uint64_t most_rows; /* of a window that one reader is given to read; an even share or more */
    const uint64_t *source_most_rows; /* of a mix: the same of each source's windows; copied */
    bool kept_are_read; /* kept rows cost reading time too: they are kept as stored, and decoded */
    /* [trainers * copies]: of trainer t from t * copies on; borrowed while the assigner lives.
     * Several readers may serve one trainer of the plan, which is a group then: they take turns
     * with rows that are near it. */
    const uint32_t *reader_of_trainer;
    uint32_t copies;
};

struct assigner;

/* NO_MEMORY; INVALID: no readers or more than ASSIGN_MAX_READERS. */
MUST_USE enum status assigner_new(const struct assigner_options *options,
                                  struct assigner **ret_assigner, struct error *err);
void assigner_free(struct assigner *assigner);

/* The memory of an assigner. */
uint64_t assigner_bytes(const struct plan *plan, uint32_t reader_count, bool keep);

/* Notes the pace of a reader. `row_ns`: the time of a row in one thread, over the number of
 * threads; 0: not known yet. `is_waited_for`: whether rounds wait for this reader's reads. */
void assigner_note_pace(struct assigner *assigner, uint32_t reader, uint64_t row_ns,
                        bool is_waited_for);

/* Before assigner_go_on(): how many trainers there are from now on. */
void assigner_set_trainers(struct assigner *assigner, uint32_t trainers);

/* The run goes on at another window, earlier or later. Rows keep their homes, even rows that are
 * not read yet; readers keep their pace. `reader_of_trainer` as in the options. */
void assigner_go_on(struct assigner *assigner, const uint32_t *reader_of_trainer);

/* Owners of the window's rows: ret_owners[window_row] is the reader, with ASSIGN_KEEP set when the
 * reader keeps the row after use. Windows must be asked for in the order of the run, which may
 * start anywhere, and from the start or assigner_go_on() on once each: the choices change the
 * assigner. Of a mix: the epoch and the window are a source's, and the order is that of
 * plan_merge_next().
 */
void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *ret_owners);

/* The same in two parts. The first finds which rows [first, end) of the window are, and where
 * their homes are: several threads, each for some of the rows. The second decides, when the first
 * is done for all rows. */
void assigner_look_up(struct assigner *assigner, const struct plan_epoch *epoch,
                      const struct plan_window *window, uint64_t first, uint64_t end,
                      uint16_t *owners);
void assigner_decide(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *owners);

/* Sums over the windows assigned so far. */
struct assigner_stats {
    uint64_t rows;            /* of the windows */
    uint64_t kept_rows;       /* of those, given to readers that keep them */
    uint64_t read_rows;       /* from the store, by all readers together */
    double samples;           /* of the windows, that are delivered */
    double exchanged_samples; /* of those, to other readers, once to each: exact with rows of one
                               * sample, else as many as are to be expected of a random order. With
                               * order.placement local, of rows that their near reader does not
                               * have; the steps' imbalance is not in it */
};
void assigner_stats(const struct assigner *assigner, struct assigner_stats *ret_stats);

#endif
