/* Rows whose samples are wanted at one reader: rows of one sample, whose trainer gets the sample,
 * and with order.placement local all rows. The wanting reader reads such a row, so that nothing is
 * sent. Inside src/plan; the assigner (assign.c) is the only user.
 *
 * A reader that others wait for gives rows of the window away if what it wants takes it longer by a
 * quarter than the readers need on average, all together: as many rows as make it even, spread over
 * the window, to readers that have time to spare. Paces are moving averages of what readers tell;
 * as long as they have told little, it has to be more than a quarter.
 * Waits alone say little: the slowest reader is always waited for, even one that is slower by 3%.
 * And a row that another reader reads has to be sent, too.
 *
 * Plain functions; one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_WANTS_H
#define PENSTOCK_PLAN_ASSIGN_WANTS_H

#include <stdint.h>

struct assigner;
struct assigner_task;
struct candidate;

/* Notes how long a row takes a reader, as the reader tells. */
void wants_note_pace(struct candidate *reader, uint64_t row_ns);

/* Who wants each row of the window: sets `wanting`. */
void wants_find(struct assigner *assigner, const struct assigner_task *task);

/* Settles how many of the rows without an owner each reader gives away, or gets. */
void wants_share(struct assigner *assigner, const struct assigner_task *task);

/* The reader of the next row that `wanting` wants: itself, or one that has time to spare. To be
 * called once for each such row. */
uint32_t wants_reader(struct assigner *assigner, uint32_t wanting);

#endif
