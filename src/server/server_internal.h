/* What the server's files share: server.c (opening, listening, telling), pending.c (connections
 * that are no trainers yet), hello.c (whether they may become one), trainer.c, session.c (rings,
 * and one session after another), slots.c. Not for others. */
#ifndef PENSTOCK_SERVER_INTERNAL_H
#define PENSTOCK_SERVER_INTERNAL_H

#include "delivery/cursor_page.h"
#include "delivery/protocol.h"
#include "delivery/ring.h"
#include "server/server.h"

enum { MAX_PENDING = 64 };

/* Accepted, but without a HELLO yet, or waiting for the next session. */
struct pending {
    int socket;
    pid_t pid;
    uint64_t accepted_ns;
    bool waits;
    struct protocol_hello hello; /* of one that waits */
    struct cursor_page page;     /* that came with it */
};

struct trainer {
    int socket; /* -1 once closed or lost */
    pid_t pid;
    uint32_t rank;
    enum server_peer state;
    enum protocol_wish wish;
    uint64_t wished;   /* cursor, unless fresh */
    uint64_t first;    /* cursor of its first batch */
    uint64_t given;    /* the cursor behind the last batch that it may have */
    uint32_t told;     /* how many trainers it was last told are there */
    uint64_t told_ns;  /* when that was */
    bool failed;       /* it is lost, and has said why itself */
    bool done;         /* it has asked for more than the last batch */
    struct ring ring;  /* from server_start() on */
    int publish_fd;    /* eventfd that wakes the trainer */
    int release_fd;    /* eventfd that wakes this process */
    uint64_t head;     /* slots published: the truth, shared memory has a copy */
    uint64_t tail;     /* as last seen in shared memory and found possible */
    uint64_t released; /* likewise, in its page */
    struct cursor_page page;
    struct error error; /* why it is lost */
    struct protocol_goodbye goodbye;
};

struct server {
    char *run_dir;
    int dir, lock, listener; /* owned */
    uint32_t reader, max_trainers;
    struct ring_layout layout;
    struct ring_service service;
    uint64_t reconnect_ms;
    server_read_state *read_state;
    void *state_argument;
    ring_memory_fill *fill;
    void *fill_argument;
    uint64_t alive_ns;    /* when processes were last looked for */
    uint64_t accept_ns;   /* no connection is accepted before that; 0: there was none too many */
    struct error warning; /* until it is taken */
    struct pending pending[MAX_PENDING];
    uint32_t pending_count;
    struct trainer *trainers; /* [max_trainers] */
    uint32_t trainer_count;
    struct trainer *parting; /* [max_trainers] of the last session: they may say goodbye yet */
    uint32_t parting_count;
    uint64_t
        *left; /* [world_size] cursor + 1 of one that has hung up, until it is taken; 0: none */
    bool started, finished;
    struct error outcome; /* once finished */
};

/* Accepts connections, hears HELLOs, and makes trainers of who says one: *active is set where
 * anything moved. Only a refusal of a trainer is the caller's business: then REFUSED. */
MUST_USE enum status server_hear_pending(struct server *server, bool *active, struct error *err);

/* Drops connections that are no trainers yet; they are told the outcome, unless it is NULL. */
void server_drop_pending(struct server *server, const struct error *outcome);

/* Whether the service can do what a HELLO asks for. *ret_cursor stays as it is if the trainer is
 * fresh; *ret_waits: not now, but in the next session. REFUSED: with the cause. Once the service
 * has finished, its outcome. */
MUST_USE enum status hello_judge(const struct server *server, const struct protocol_hello *hello,
                                 uint64_t *ret_cursor, bool *ret_waits, struct error *err);

/* Reads the trainers' sockets and tails; returns whether anything moved. */
bool server_hear_trainers(struct server *server);

/* Forgets a trainer that hung up before delivery began. */
void server_forget(struct server *server, struct trainer *trainer);

/* Between sessions: reads the sockets of those that were connected in the last one. */
void server_hear_parting(struct server *server);
void server_drop_parting(struct server *server, uint32_t index);

/* One has hung up when no session is under way: who comes fresh instead goes on there. */
void server_note_left(struct server *server, const struct trainer *trainer);

/* Where the session starts. */
uint64_t server_start_cursor(const struct server *server);

/* NULL: none, or not here. */
struct trainer *trainer_of_rank(const struct server *server, uint32_t rank);

/* Tells a peer that it is refused, or lost, and why; or how many trainers are awaited. Best effort:
 * one that cannot be told is gone, or does not listen, which is found by server_progress(). */
void peer_fail(int socket, const struct error *error);
void peer_wait(const struct server *server, int socket, uint32_t connected, uint32_t expected);

/* Reads a trainer's socket; returns whether anything came. `look_for_process`: it may be gone
 * although its socket is open. */
bool trainer_hear(const struct server *server, struct trainer *trainer, bool look_for_process);

/* The tail in shared memory if it is possible and did not go back, else false. */
bool trainer_read_tail(const struct trainer *trainer, uint64_t *ret_tail);

/* Marks a trainer lost and closes its socket; one that lives is told why. */
void trainer_lose(struct trainer *trainer, const struct error *error);

/* Looks at what the trainer has released; the impossible makes it lost. Returns whether it moved.
 */
bool trainer_check_tail(struct trainer *trainer);

/* The cursor behind the last batch that it has released, in order. */
uint64_t trainer_cursor(const struct trainer *trainer);

/* Frees what a trainer has; a zeroed one with descriptors -1 is fine. */
void trainer_done(struct trainer *trainer);

#endif
