/* The reader's side of delivery: accepts trainers on a Unix socket, gives each a ring, publishes
 * slots.
 *
 * Run directory: 0700, owned by the user, shared by all readers of a node. Reader r listens on
 * RUN_DIR/reader-<r>.sock, a SOCK_SEQPACKET socket, so that messages keep their boundaries and a
 * peer's death is seen at once. A handshake:
 *
 *     trainer                              reader
 *     HELLO {rank, world_size, wish}     ->      uid checked by SO_PEERCRED
 *       + memfd of its cursor
 *                                        <-      WAIT {connected, expected, reconnect}   at once,
 *                                                and now and then, for progress
 *                                        <-      WELCOME {first step} + memfd + 2 eventfds
 *                                                (SCM_RIGHTS), once all are there;
 *                                                or FAIL {struct error}
 *     DONE                               ->      it has had all batches, and asks for more
 *     GOODBYE {epoch, step}              ->      at close; or FAIL {struct error}: why it failed
 *                                        <-      END, or FAIL {struct error} at any time
 *
 * A session is one stretch of delivery, from server_start() on. After server_restart() trainers
 * come again for another: those that were connected find the socket closed. Who said goodbye is not
 * waited for any more: it stays in the list as closed, and has a ring that nobody reads.
 *
 * A cursor is a step counted from epoch 0 on: epoch * steps_per_epoch + step.
 *
 * One thread owns the server: none of this blocks, everything happens in server_progress(). Errors
 * of a single trainer (nonsense on its socket, a wild tail) concern that trainer; the owner asks
 * for them. How long a silent connection may take for its HELLO, and how many may be pending, is
 * bounded: a trainer gets in within 4 s past 1,000 connections that say nothing. Without a
 * descriptor for one that connects, the server looks for one four times a second, and does not poll
 * meanwhile.
 */
#ifndef PENSTOCK_SERVER_SERVER_H
#define PENSTOCK_SERVER_SERVER_H

#include "base/error.h"
#include "delivery/layout.h"
#include "delivery/protocol.h"
#include "delivery/ring.h"
#include "server/ring_memory.h"

#include <poll.h>
#include <stdbool.h>

struct server;

/* Reads the state of a HELLO, and judges whether this service can go on from it (for a trainer that
 * goes on, the end is a cursor, too). */
typedef enum status server_read_state(void *argument, const char *json, bool goes_on,
                                      uint64_t *ret_cursor, struct error *err);

struct server_options {
    const char *run_dir;   /* created 0700 if it is not there; borrowed during the call */
    uint32_t reader;       /* MPI rank, names the socket */
    uint32_t max_trainers; /* most that this reader serves */
    const struct ring_layout *layout;   /* settled; copied */
    const struct ring_service *service; /* rank is filled in per trainer; copied */
    uint64_t reconnect_ms; /* how long trainers look for a reader again; > 0: sessions follow one
                            * another, and who comes during one is kept waiting for the next */
    server_read_state *read_state; /* NULL: trainers with a state are refused */
    void *state_argument;          /* borrowed while the server lives */
    ring_memory_fill *fill;        /* NULL: server_start()'s thread fills rings */
    void *fill_argument;           /* borrowed while the server lives */
};

/* Creates the run directory and the reader's socket there. REFUSED: the directory belongs to
 * someone else or is open to others; another live reader has this socket (its pid is named; a dead
 * one's socket is taken over). IO. */
MUST_USE enum status server_new(const struct server_options *options, struct server **ret_server,
                                struct error *err);

/* From now on trainers can connect. Only when all readers of the node have their sockets: a
 * trainer that gets through to one has then seen them all, and chosen among all. IO. */
MUST_USE enum status server_listen(struct server *server, struct error *err);

/* Accepts, reads, answers; never blocks. Returns whether anything happened. A trainer that asks for
 * the wrong world size, for a rank that is taken here or with another run's state is told so and
 * dropped; `err` then holds what it was told and the status is returned once (REFUSED); nothing
 * else fails. */
MUST_USE enum status server_progress(struct server *server, bool *ret_active, struct error *err);

/* Something that the log should say; false: nothing. Each once. */
bool server_take_warning(struct server *server, struct error *ret_warning);

/* Descriptors to poll for: the socket, the trainers' sockets, their eventfds. Returns their number,
 * at most `capacity`. */
size_t server_pollfds(const struct server *server, struct pollfd *fds, size_t capacity);

/* Trainers that have said HELLO (or goodbye in an earlier session), and their ranks. Until
 * server_start() a trainer that hangs up is forgotten (those after it move up), from then on
 * numbers stay. */
uint32_t server_trainer_count(const struct server *server);
uint32_t server_trainer_rank(const struct server *server, uint32_t trainer);
pid_t server_trainer_pid(const struct server *server, uint32_t trainer);

/* What it asked for; the cursor unless it is fresh. One that said goodbye wants to go on at the
 * end.
 */
enum protocol_wish server_trainer_wish(const struct server *server, uint32_t trainer,
                                       uint64_t *ret_cursor);

/* Before server_start(): where the session starts, and the first batch of a trainer, which is there
 * unless it is set. */
void server_set_start(struct server *server, uint64_t cursor);
void server_set_first(struct server *server, uint32_t trainer, uint64_t cursor);

/* Tells waiting trainers how many of all are connected: where that is another number, and ten times
 * a second, for a sign of life. Not those that have not read what they were told before: they hear
 * the next, and their sockets have room for what matters. */
void server_announce(struct server *server, uint32_t connected, uint32_t expected);

/* Makes every connected trainer's ring (see ring_memory_create()) and sends WELCOME. From here on
 * no trainer is accepted: late ones are told why, or wait for the next session. NO_MEMORY: with the
 * sizes. */
MUST_USE enum status server_start(struct server *server, struct error *err);

/* Slots. `sequence` counts a trainer's slots from 0; they are filled and published in order, but
 * several may be in work: slot `sequence` is free when it lies less than slot_count ahead of the
 * trainer's tail. Of a trainer that is closed or lost every slot is free, and its memory stays
 * until server_free(): an exchange under way goes on as if it lived, and what is written there goes
 * nowhere. */
bool server_slot_free(const struct server *server, uint32_t trainer, uint64_t sequence);
void *server_slot(const struct server *server, uint32_t trainer, uint64_t sequence);

/* What a trainer's ring is made of. */
enum ring_pages server_ring_pages(const struct server *server, uint32_t trainer);

/* Hands the next slot (sequence = number published so far) to the trainer and wakes it if it waits.
 * Its header must be filled. Nothing to one that is closed or lost. */
void server_publish(struct server *server, uint32_t trainer);

/* What became of a trainer. */
enum server_peer {
    SERVER_PEER_CONNECTED,
    SERVER_PEER_CLOSED, /* said GOODBYE */
    SERVER_PEER_LOST,   /* died, failed, or broke the protocol; `ret_error` says which */
};
enum server_peer server_trainer_state(const struct server *server, uint32_t trainer,
                                      struct error *ret_error);

/* Whether one that is lost has said so itself, and why: nobody knows better. */
bool server_trainer_failed(const struct server *server, uint32_t trainer);

/* Where a trainer that said GOODBYE stopped: the epoch and step it would have asked for next. */
void server_trainer_goodbye(const struct server *server, uint32_t trainer, uint64_t *ret_epoch,
                            uint64_t *ret_step);

/* The cursor behind the last batch that a trainer has released, in order: up to now, or to its
 * death. Before server_start() only of one that wishes to go on. */
uint64_t server_trainer_cursor(const struct server *server, uint32_t trainer);

/* Whether it is done with the last batch of all: has released it, asked for more, or said goodbye.
 */
bool server_trainer_done(const struct server *server, uint32_t trainer);

/* Whether a trainer waits for the next session whose rank nobody has here any more. */
bool server_trainer_returns(const struct server *server);

/* Batches published but not yet released by the trainer. */
uint64_t server_trainer_backlog(const struct server *server, uint32_t trainer);

/* Asks for (or stops asking for) a wake-up on the eventfds at the next release, see base/waker.h
 * for the order of things. */
void server_arm(struct server *server);
void server_disarm(struct server *server);

/* Tells all trainers that no more batches will be published: with STATUS_ENDED they first consume
 * what is published; with anything else they fail at once, with this error. Also to those still in
 * the handshake, and those that come later. One that is lost after an end is closed as soon as
 * another of its rank has been told. */
void server_finish(struct server *server, const struct error *outcome);

/* Ends the session without a word: rings are dropped, trainers find the socket closed and come
 * again. Until server_start() a goodbye that crosses this is heard. Nobody may be writing to a
 * ring.
 */
void server_restart(struct server *server);

/* Between sessions: the next trainer of those that have hung up since the last one, or as it ended,
 * and the cursor behind the last batch that it has released; false if there is none. A trainer goes
 * on with its ring after the session's end, until that is empty, says hello, and may die any time.
 */
bool server_take_parted(struct server *server, uint32_t *ret_rank, uint64_t *ret_cursor);

/* Between sessions: a trainer of that rank is to come again, although one said goodbye. */
void server_expect(struct server *server, uint32_t rank);

/* Removes the socket, and the run directory if it is empty, and nothing else: for a process that is
 * about to exit while other threads may still write to rings. server_free() may follow. */
void server_leave(struct server *server);

/* Closes everything, removes the socket, and the run directory if it is empty. NULL is fine. */
void server_free(struct server *server);

#endif
