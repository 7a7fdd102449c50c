/* Rows that the readers which want them load by themselves (EACH, ways.h), instead of getting
 * samples from the owner. Inside src/plan; the assigner (assign.c) is the only user. Plain
 * functions; one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_EACH_H
#define PENSTOCK_PLAN_ASSIGN_EACH_H

#include <stdbool.h>
#include <stdint.h>

struct assigner;
struct assigner_task;

/* Whether a row that its home has in memory is not to be sent. Notes what becomes of the row;
 * *ret_owner: its owner and way. */
bool each_takes_kept(struct assigner *assigner, const struct assigner_task *task,
                     uint64_t window_row, uint32_t home, uint16_t *ret_owner);

/* Gives a row of several samples to all who want them, if that is best. `sender` would send it.
 * False: nothing has been done. */
bool each_takes_other(struct assigner *assigner, const struct assigner_task *task,
                      uint64_t window_row, uint32_t sender, bool keep);

/* Whether `reader` wants samples of the row that was looked at last. */
bool each_loads(const struct assigner *assigner, uint32_t reader);

#endif
