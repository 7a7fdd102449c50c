/* Rows on their way from reader to reader as stored (ASSIGN_TAPE): the reader that keeps a row
 * sends its tape to readers that load the row themselves, and these play the tape.
 *
 * One message for each row and reader. Between two readers, rows are sent in the order in which
 * they are expected (round_window_tapes()), so that no message says which row it is; its size is
 * MPI's own. An empty message says that there is no tape: the row was not read before the last
 * session ended, or has no room; then the receiver reads the store. Memory and messages under way
 * are bounded by the budget. Receivers come upon rows in the order they are due, and senders send
 * in this order: so the row that is due first is never held up by others.
 *
 * Main thread only; nothing blocks but tapes_new().
 */
#ifndef PENSTOCK_MPI_TAPES_H
#define PENSTOCK_MPI_TAPES_H

#include "job.h"

struct tapes;

/* For one session. `job` is borrowed. NO_MEMORY. */
MUST_USE enum status tapes_new(struct job *job, struct tapes **ret_tapes, struct error *err);

/* tapes_drain() has returned true, or nothing was sent or expected. NULL is fine. */
void tapes_free(struct tapes *tapes);

/* Sends the tape of `row` to a reader. False: not now, as all buffers are under way. `ret_bytes`:
 * of the tape. */
MUST_USE bool tapes_send(struct tapes *tapes, uint32_t to, uint64_t row, uint64_t *ret_bytes);

/* Whether tapes_expect() may be called. */
bool tapes_may_expect(const struct tapes *tapes);

/* Expects the next tape from a reader, for the row of the claimed `row_buffer`, whose load begins
 * when the tape is there; ROW_NONE: the row is loaded already, and the tape is forgotten. If the
 * row has to be read from the store instead, *rows_read is increased. */
void tapes_expect(struct tapes *tapes, uint32_t from, int32_t row_buffer, uint64_t *rows_read);

/* Moves messages on, and hands rows to workers. True if anything moved. */
bool tapes_progress(struct tapes *tapes);

/* Whether a row waits for its tape; or, ROW_NONE, whether it may be that no tape can be expected.
 */
bool tapes_hold_up(const struct tapes *tapes, int32_t row_buffer);

/* Whether a message is under way. */
bool tapes_under_way(const struct tapes *tapes);

/* Ends all messages, when nothing more is to be sent or expected: all readers tell each other how
 * many they have sent and expect, and make up the difference. Rows that wait for a tape are given
 * up. Collective; true: done; otherwise call again. */
bool tapes_drain(struct tapes *tapes);

#endif
