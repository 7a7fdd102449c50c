/* How many rows of a window each reader has time for. Inside src/plan; the assigner (assign.c) is
 * the only user.
 *
 * Time is shared by pace: a reader's even share is what it reads while all others read theirs.
 * Rows that are near no reader, or whose near reader has no buffers left, go to readers that have
 * fewer than their share.
 * A reader that others wait for gives near rows away, if these would take it a quarter longer than
 * its share: as many as make it even, spread over the window. Paces are moving averages of what
 * readers tell; as long as they have told little, it has to be more than a quarter.
 * Waits alone say little: the slowest reader is always waited for, even one that is slower by 3%.
 * And a row that another reader reads has to be sent, too.
 *
 * Plain functions; one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_ASSIGN_SLOW_H
#define PENSTOCK_PLAN_ASSIGN_ASSIGN_SLOW_H

#include <stdbool.h>
#include <stdint.h>

struct assigner;
struct assigner_task;
struct candidate;

/* Notes how long a row takes a reader, as the reader tells. */
void slow_note_pace(struct candidate *reader, uint64_t row_ns);

/* Settles how many of the rows without an owner each reader gives away, or has time for. */
void slow_share(struct assigner *assigner, const struct assigner_task *task);

/* Whether another reader is to read the next row that is near `reader`. To be called once for each
 * such row. */
bool slow_gives_away(struct candidate *reader);

#endif
