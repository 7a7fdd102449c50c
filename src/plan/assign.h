/* Which reader reads and sends which row, and which rows stay in memory: decided by rank 0, window
 * by window.
 *
 * The readers' memory is one cache of rows, and this is its directory. The plan knows when each row
 * is needed next, so what stays is decided by farthest next use (Belady, IBM Systems Journal 5(2),
 * 1966), at the grain of windows: of the rows kept so far and those of this window, the ones whose
 * next window is nearest stay, as many as there is room for. A row stays with the reader that read
 * it, its home.
 *
 *     owners    | 3 | 3K| 0 | 7K| ...   a window's rows in order of slot; K: kept after use
 *     evicted   | r81 | r7 | ...        rows of other windows that are kept no longer
 *
 * A row that no reader keeps is given
 *
 *   - if it is to be kept, to a reader with room for it: the one whose trainer gets it, if it is a
 * row of one sample, else the one with the most room;
 *   - if it is not, and is a row of one sample, to the reader whose trainer gets it, so that it
 * need not cross the network, unless that one is behind and holds up the others;
 *   - else to the reader that would be done with it first, by the pace that readers report. Until
 * they do, all count as equally fast.
 *
 * No reader is given more than `most_rows` of one window, so that the row buffers it needs are
 * known before the start. If each of R readers has room for ceil(M / R) rows of M, all rows are
 * kept in the first epoch. Rows have all the same size (but the last), so balancing rows balances
 * bytes. The choices change nothing about the order of samples.
 *
 * An assigner holds 6 bytes a row and 8 a window where rows are kept, else none; a window takes
 * O(R + rows log R). Owned by one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_H
#define PENSTOCK_PLAN_ASSIGN_H

#include "plan/plan.h"

enum { ASSIGN_KEEP = 0x8000, ASSIGN_READER_MASK = 0x7fff, ASSIGN_MAX_READERS = 0x7ffe };

struct assigner_options {
    const struct plan *plan; /* borrowed during the call */
    uint32_t reader_count;
    uint64_t keep_rows; /* that each reader may keep */
    uint64_t most_rows; /* of a window that one reader is given; an even share or more */
    uint64_t epochs;    /* of the run: after the last one no row is needed again */
    bool kept_are_read; /* kept rows cost reading time too: they are kept as stored, and decoded */
    const uint32_t *reader_of_trainer; /* [trainers], borrowed while the assigner lives */
};

struct assigner;

/* NO_MEMORY; INVALID: no readers or more than ASSIGN_MAX_READERS, or 2^32 rows or more to keep some
 * of. */
MUST_USE enum status assigner_new(const struct assigner_options *options,
                                  struct assigner **ret_assigner, struct error *err);
void assigner_free(struct assigner *assigner);

/* What an assigner holds in memory. */
uint64_t assigner_bytes(const struct plan *plan, uint32_t reader_count, bool keep);

/* What a reader tells: the rows it has read since the start; the time that one takes it, that is, a
 * row's time in one thread over the number of threads, 0 if not known yet; and whether rounds wait
 * for its rows. */
void assigner_report(struct assigner *assigner, uint32_t reader, uint64_t rows_read,
                     uint64_t row_ns, bool is_waited_for);

/* Where the rows of a window are read, and which others are kept no longer. */
struct assignment {
    uint16_t *owners;  /* [window_rows] reader, with ASSIGN_KEEP when it keeps the row after use */
    uint64_t *evicted; /* [window_rows] rows, none of this window */
    uint64_t evicted_count; /* at most the window's row_count */
};

/* Fills `assignment`, whose memory is the caller's. Windows must be asked for once each, in the
 * order of the run, which may start anywhere: the choices change the assigner. */
void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, struct assignment *assignment);

/* Sums over the windows assigned so far. */
struct assigner_stats {
    uint64_t rows;            /* of the windows */
    uint64_t kept_rows;       /* of those, in some reader's memory already */
    uint64_t unread_rows;     /* of the others, that nobody needs in this epoch: PLAN_DROP */
    double samples;           /* of the windows, that are delivered */
    double exchanged_samples; /* of those, to trainers of another reader: exact with rows of one
                               * sample, else as many as are to be expected of a random order */
};
void assigner_stats(const struct assigner *assigner, struct assigner_stats *ret_stats);

#endif
