/* Which reader reads and sends which row: decided by rank 0, window by window.
 *
 * A row that a reader keeps in memory goes to that reader. The other rows of the window are given
 * out evenly: to readers with room to keep them first, to the one that keeps the fewest; then to
 * the one with the fewest rows in the window. No reader gets more of them than ceil(rows /
 * readers), so that the row buffers a reader needs are known before the start. A reader that has
 * room keeps what it reads: that becomes the row's home for all later epochs. If each of R readers
 * has room for ceil(M / R) rows of M, all rows find a home in the first epoch. Rows all have the
 * same size (but the last), so balancing rows balances bytes.
 *
 * The assigner holds 2 bytes a row; a window takes O(R + rows log R). Owned by one thread.
 */
#ifndef PENSTOCK_PLAN_ASSIGN_H
#define PENSTOCK_PLAN_ASSIGN_H

#include "plan/plan.h"

enum { ASSIGN_KEEP = 0x8000, ASSIGN_READER_MASK = 0x7fff, ASSIGN_MAX_READERS = 0x7fff };

struct assigner;

/* `keep_rows[r]`: rows that reader r may keep for later epochs (borrowed during the call only).
 * NO_MEMORY; INVALID: no readers or more than ASSIGN_MAX_READERS. */
MUST_USE enum status assigner_new(const struct plan *plan, uint32_t reader_count,
                                  const uint64_t *keep_rows, struct assigner **ret_assigner,
                                  struct error *err);
void assigner_free(struct assigner *assigner);

/* Owners of the window's rows: ret_owners[slot] is the reader, with ASSIGN_KEEP set when the reader
 * keeps the row after use. Windows must be asked for once each, in order: the choices change the
 * assigner. */
void assigner_window(struct assigner *assigner, const struct plan_epoch *epoch,
                     const struct plan_window *window, uint16_t *ret_owners);

#endif
