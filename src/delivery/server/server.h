/* The reader's side of delivery: accepts trainers on a Unix socket, gives each trainer a ring, and
 * publishes slots.
 *
 * delivery/ring/protocol.h has the messages, and delivery/ring/rundir.h the directory of the
 * sockets.
 *
 * A session is one stretch of delivery, from server_start() to server_restart() or server_free().
 * After server_restart() trainers find their sockets closed, and connect again for the next
 * session. Nobody waits for a trainer that said goodbye: it stays in the list as closed, and the
 * next session makes a ring for it that nobody reads.
 *
 * A cursor is a step counted from epoch 0 on: epoch * steps_per_epoch + step.
 *
 * One thread, the owner, calls everything here. Nothing blocks but server_new(), and server_start()
 * while it makes memory. A single trainer's error (an impossible message, an impossible tail) makes
 * that trainer lost and nobody else; the owner asks server_trainer_state(). The number of
 * connections without a HELLO and their time for it are limited: a trainer gets in within 4 s past
 * 1,000 silent connections. Where this process may open no more files, the server tries to accept
 * four times a second, and does not poll its socket in between.
 */
#ifndef PENSTOCK_DELIVERY_SERVER_SERVER_H
#define PENSTOCK_DELIVERY_SERVER_SERVER_H

#include "base/error.h"
#include "delivery/ring/layout.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"
#include "delivery/ring/waits.h"
#include "delivery/server/ring_memory.h"

#include <poll.h>
#include <stdbool.h>

struct server;

/* A caller's function that reads the state `json` in the HELLO of a trainer of rank `rank`, and
 * says whether this service can go on from it: OK with *ret_cursor, or an error that becomes
 * REFUSED. `goes_on`: the trainer has lost its reader (WISH_CONTINUE); only such a trainer may be
 * at the end of all epochs. */
typedef enum status server_read_state(void *argument, uint32_t rank, const char *json, bool goes_on,
                                      uint64_t *ret_cursor, struct error *err);

/* A caller's function that says which fields, and which parts of them, a trainer of that rank has.
 * `ret_member` has all fields whole before. */
typedef void server_describe(void *argument, uint32_t rank, struct ring_member *ret_member);

struct server_options {
    const char *run_dir;   /* made with mode 0700 if it is missing; borrowed during the call */
    uint32_t reader;       /* MPI rank; in the socket's name */
    const char *mark;      /* of what has started this reader (delivery/ring/rundir.h); NULL: none;
                            * borrowed during the call */
    uint32_t max_trainers; /* most trainers that this reader serves */
    uint32_t least_trainers; /* of all readers together, in a session; 0: service->world_size, which
                              * is the most */
    const struct ring_layout *layout;   /* from ring_layout_settle(); copied */
    const struct ring_service *service; /* of all trainers: `group` is set for each group's ring;
                                         * copied */
    uint64_t reconnect_ms;  /* how long trainers look for a reader that went away; 0: not at all.
                             * Above 0 sessions follow one another, and a trainer that connects
                             * during a session waits for the next one */
    uint32_t reserve_slots; /* of layout->spare_slots: not used but after server_skip(), until a
                             * trainer has released what came before. So it may still lease a batch
                             * from before while it waits for the next one */
    bool sessions_follow;   /* true: a trainer that connects during a session waits for the next one
                             * although reconnect_ms is 0 */
    server_read_state *read_state; /* NULL: trainers with a state are refused */
    void *state_argument;          /* borrowed while the server lives */
    server_describe *describe;     /* NULL: trainers have all fields, whole */
    void *describe_argument;       /* borrowed while the server lives */
    ring_memory_fill *fill;        /* makes pages present; NULL: server_start()'s thread does */
    void *fill_argument;           /* borrowed while the server lives */
    bool takes_results; /* trainers are encoders, and give results (server_take_given()) */
    const int *handout; /* memfd for all trainers (delivery/ring/handout.h), duplicated;
                         * NULL: none */
};

/* Makes the run directory, unless it exists, and the reader's socket in it. A dead reader's socket
 * is replaced. REFUSED: the directory is a symbolic link, belongs to another user or is open to
 * others; or a live reader has this number, and the message names its pid. IO: the directory or the
 * socket cannot be made. NO_MEMORY. INVALID and others: the layout is not settled. */
MUST_USE enum status server_new(const struct server_options *options, struct server **ret_server,
                                struct error *err);

/* Lets trainers connect. To be called when all readers of the node have their sockets: so a trainer
 * that connects to one has seen all, and has chosen among all. IO: listen() failed. */
MUST_USE enum status server_listen(struct server *server, struct error *err);

/* Accepts connections, reads sockets and tails, and answers. *ret_active, which is always set:
 * whether anything happened. REFUSED, the one failure: a trainer asked for the wrong world size,
 * for a rank that is taken here, or with another run's state. That trainer has been told `err` and
 * dropped; each such trainer is reported once. */
MUST_USE enum status server_progress(struct server *server, bool *ret_active, struct error *err);

/* Takes a warning for the log. False: there is none. Each warning is given once. */
bool server_take_warning(struct server *server, struct error *ret_warning);

/* Fills in what to poll for reading: *ret_sockets entries for the listening socket and all
 * connections, then the trainers' release eventfds. Returns how many entries were filled, at most
 * `capacity`. A release is nothing that server_progress() has to look at. */
size_t server_pollfds(const struct server *server, struct pollfd *fds, size_t capacity,
                      size_t *ret_sockets);

/* Trainers in the list: those that have said HELLO, and those that said goodbye in an earlier
 * session. `trainer` here and below is an index in the list, below the count. Until server_start()
 * a trainer that hangs up leaves the list, and the trainers behind it move up. From server_start()
 * on indices stay until the session ends. The pid is of the process that connected. */
uint32_t server_trainer_count(const struct server *server);
uint32_t server_trainer_rank(const struct server *server, uint32_t trainer);
pid_t server_trainer_pid(const struct server *server, uint32_t trainer);

/* What the trainer asked for. *ret_cursor is always set: its cursor, 0 with WISH_FRESH. A trainer
 * that said goodbye counts as WISH_CONTINUE at the end of all epochs. */
enum protocol_wish server_trainer_wish(const struct server *server, uint32_t trainer,
                                       uint64_t *ret_cursor);

/* Before server_start(): the cursor where the session starts, and the cursor of one trainer's first
 * batch. A trainer without one begins where the session starts. */
void server_set_start(struct server *server, uint64_t cursor);
void server_set_first(struct server *server, uint32_t trainer, uint64_t cursor);

/* Before server_start(): the world size of the connected trainers in the list; 0: there are none.
 * With least_trainers it may be another than the session before had: a trainer that comes with
 * another world size than those in the list takes their place, and they are told so. */
uint32_t server_world_size(const struct server *server);

/* How many of the trainers in the list are connected. */
uint32_t server_connected_count(const struct server *server);

/* Before server_start(): the session is one of so many trainers, of that mesh. What is known of
 * trainers of another world size is forgotten. */
void server_resize(struct server *server, const struct mesh *mesh);

/* Before the first server_start(), or that behind server_resize(): the locality that the rings'
 * headers have. */
void server_set_locality(struct server *server, uint32_t locality);

/* Tells the trainers in the list that `connected` of `expected` trainers are there: when the number
 * changes, and ten times a second as a sign of life. A trainer that has not read the last message
 * is left out, so that its socket has room for messages that matter. To be called again and again
 * until server_start(). */
void server_announce(struct server *server, uint32_t connected, uint32_t expected);

/* Before server_start(): the layout of the session's rings, settled, of the same fields. */
void server_set_layout(struct server *server, const struct ring_layout *layout);

/* Begins a session: makes a ring for every group of the trainers in the list
 * (ring_memory_create()), and sends WELCOME to those that are connected. From now on a trainer that
 * connects is refused, or waits for the next session where reconnect_ms is above 0. Blocks while
 * rings are made. NO_MEMORY: a ring does not fit; the message has the sizes. IO: a system call
 * failed. */
MUST_USE enum status server_start(struct server *server, struct error *err);

/* The rings, from server_start() on: one for each group that has trainers here, in the order in
 * which the list names the groups first. A ring's first trainer is an index in the list. */
uint32_t server_ring_count(const struct server *server);
uint32_t server_ring_group(const struct server *server, uint32_t ring);
uint32_t server_ring_first_trainer(const struct server *server, uint32_t ring);

/* A ring's slots. `sequence` counts them from 0 since the session began, or since server_skip().
 * Slots are published in order, and several may be filled at once. Slot `sequence` is free when it
 * lies less than slot_count ahead of the tails of all of the ring's trainers. Closed and lost
 * trainers do not count: where all are, every slot is free. The memory stays until server_restart()
 * or server_free(), so that an exchange under way can go on writing. */
bool server_slot_free(const struct server *server, uint32_t ring, uint64_t sequence);
void *server_slot(const struct server *server, uint32_t ring, uint64_t sequence);

/* A trainer that skips batches (SKIP) wants none before a cursor of its own. server_take_skip()
 * gives each such message once: the trainer was at *ret_from, and goes on at *ret_to.
 * server_trainer_wanted(): the trainer wants no batch before this cursor; 0: it has skipped none in
 * this session. server_skip(): the trainers' next slots, whose sequences begin again at 0, hold the
 * steps from `cursor` on. No trainer may want an earlier one, and no thread be writing to a ring.
 */
bool server_take_skip(struct server *server, uint32_t trainer, uint64_t *ret_from,
                      uint64_t *ret_to);
uint64_t server_trainer_wanted(const struct server *server, uint32_t trainer);
void server_skip(struct server *server, uint64_t cursor);

/* With takes_results: takes what the trainer has given for a batch, in the order in which it gave.
 * *ret_memfd is the caller's: the peer made it, and nothing about it is checked. False: there is
 * nothing now. While there is something, the trainer's further messages wait, and
 * server_trainer_seen() stays. */
bool server_take_given(struct server *server, uint32_t trainer, struct protocol_give *ret_given,
                       int *ret_memfd);

/* A ring's memory. Borrowed until server_restart() or server_free(). */
const struct ring *server_ring(const struct server *server, uint32_t ring);

/* The kind of pages of a ring. */
enum ring_pages server_ring_pages(const struct server *server, uint32_t ring);

/* Publishes the ring's next slot, whose sequence is the number of slots published so far, and wakes
 * trainers that sleep. The slot, header included, must be filled. Closed and lost trainers are left
 * out. */
void server_publish(struct server *server, uint32_t ring);

/* The state of a trainer. */
enum server_peer {
    SERVER_PEER_CONNECTED,
    SERVER_PEER_CLOSED, /* said goodbye, in this session or an earlier one */
    SERVER_PEER_LOST,   /* died, failed, or broke the protocol */
};
/* *ret_error (NULL: not wanted) is set only for a lost trainer: why it is lost. */
enum server_peer server_trainer_state(const struct server *server, uint32_t trainer,
                                      struct error *ret_error);

/* Whether a lost trainer said itself that it failed, with penstock_fail(): nobody knows the cause
 * better. */
bool server_trainer_failed(const struct server *server, uint32_t trainer);

/* Where a closed trainer stopped: the epoch and step that it would have asked for next. Only for
 * SERVER_PEER_CLOSED. */
void server_trainer_goodbye(const struct server *server, uint32_t trainer, uint64_t *ret_epoch,
                            uint64_t *ret_step);

/* The cursor behind the last batch that a trainer has released in order, up to now or to its death.
 * Before server_start() the number means something only for WISH_CONTINUE. */
uint64_t server_trainer_cursor(const struct server *server, uint32_t trainer);

/* The same as server_progress() saw last: what the trainer has skipped before this cursor was
 * heard.
 */
uint64_t server_trainer_seen(const struct server *server, uint32_t trainer);

/* Whether the trainer has had its last batch: has released all batches, has asked for more than the
 * last one, or said goodbye. */
bool server_trainer_done(const struct server *server, uint32_t trainer);

/* Whether a process waits for the next session to replace a closed or lost trainer of this reader.
 */
bool server_trainer_returns(const struct server *server);

/* Batches that are published and not released in order; 0 unless the trainer is connected. */
uint64_t server_trainer_backlog(const struct server *server, uint32_t trainer);

/* What a trainer's ring shows, from server_start() on. The trainer writes most of this, and nobody
 * relies on the numbers. All 0 for a trainer without a ring. */
struct server_ring_view {
    struct waits_seen waits; /* since the session began */
    uint32_t slots;          /* that the trainer may lease */
    uint32_t ready_slots;    /* published, and not taken */
    uint32_t leased_slots;   /* taken, and not released in order */
    bool waiting;            /* the trainer sleeps in penstock_next() */
};
struct server_ring_view server_trainer_ring(const struct server *server, uint32_t trainer);

/* Asks each trainer to signal its release eventfd as soon as the slot of `sequence` is free: at its
 * next release if that is so already, and when its ring is empty at the latest. server_disarm()
 * asks no longer, and takes the signals that came. base/waker.h says in which order to arm, look
 * and sleep. Nothing happens outside a session. */
void server_arm(struct server *server, uint64_t sequence);
void server_disarm(struct server *server);

/* Tells all trainers that no more batches will be published. With STATUS_ENDED in a session,
 * trainers first consume the published batches. With another status, or before server_start(), they
 * fail at once with `outcome`. Connections without a HELLO, and trainers that connect later, are
 * told `outcome` too. After STATUS_ENDED a lost trainer becomes closed when another process of its
 * rank has been told. */
void server_finish(struct server *server, const struct error *outcome);

/* Ends the session for the next one: unmaps the rings, and closes the sockets, so that trainers
 * connect again. A goodbye that is on its way is still heard, until server_start(). No thread may
 * be writing to a ring. */
void server_restart(struct server *server);

/* Between sessions: takes one trainer that hung up without a goodbye as the last session ended or
 * after it, with its rank and the cursor behind the last batch that it has released in order.
 * False: there is none. After a session's end a trainer goes on until its ring is empty, and
 * connects again; it may die at any time. */
bool server_take_parted(struct server *server, uint32_t *ret_rank, uint64_t *ret_cursor);

/* Between sessions: a trainer of rank `rank` is waited for again, although one said goodbye. */
void server_expect(struct server *server, uint32_t rank);

/* Removes the socket and the lock file, and the run directory if it is empty. Rings stay: for a
 * process that is about to exit while other threads may still write to them. server_free() may
 * follow. */
void server_leave(struct server *server);

/* server_leave(), then closes and frees everything, rings included. NULL is fine. */
void server_free(struct server *server);

#endif
