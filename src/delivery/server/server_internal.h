/* For the server's own files: server.c (opens, listens, tells trainers), pending.c (connections
 * that are no trainers yet), hello.c (judges whether a connection may become a trainer), trainer.c
 * (one trainer), session.c (begins and ends sessions), rings.c (makes rings), slots.c (publishes
 * slots). The server's thread alone. */
#ifndef PENSTOCK_SERVER_INTERNAL_H
#define PENSTOCK_SERVER_INTERNAL_H

#include "delivery/ring/cursor_page.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"
#include "delivery/server/server.h"

enum { MAX_PENDING = 64 };

/* An accepted connection that has sent no HELLO yet, or that waits for the next session. */
struct pending {
    int socket;
    pid_t pid;
    uint64_t accepted_ns;
    bool waits;                  /* its HELLO has come, and it waits for the next session */
    struct protocol_hello hello; /* while it waits */
    struct cursor_page page;     /* that came with the HELLO */
};

/* The ring of a group: all of its trainers that this reader serves have the same slots. */
struct group_ring {
    uint32_t group;
    struct ring ring;      /* owned */
    uint32_t first_member; /* in server.members */
    uint32_t member_count;
    uint64_t base; /* the slot of sequence 0: how many were published when the server was last told
                    * to skip */
    uint64_t head; /* slots published; this is the true number, and shared memory has copies */
};

struct trainer {
    int socket; /* owned; -1 once the trainer is closed or lost */
    pid_t pid;
    uint32_t rank;
    uint32_t world_size; /* as its HELLO said */
    enum server_peer state;
    enum protocol_wish wish;
    uint64_t wished;           /* the cursor that it asked for; 0 with WISH_FRESH */
    uint64_t first;            /* cursor of its first batch; UINT64_MAX: where the session starts */
    uint64_t given;            /* the cursor behind the last batch that it may have */
    uint32_t told;             /* the number of connected trainers that it was last told */
    uint64_t told_ns;          /* when it was told */
    bool failed;               /* it said itself that it failed */
    bool done;                 /* it has asked for more than the last batch */
    struct group_ring *shared; /* its group's ring, from server_start() on; before: NULL */
    struct ring_control *control; /* its own in that ring */
    int publish_fd;               /* eventfd that wakes the trainer */
    int release_fd;               /* eventfd that wakes this process */
    uint64_t wanted;              /* it wants no batch before this cursor; 0: it wants all */
    uint64_t skipped_from;        /* the cursor where it was when it last skipped */
    bool skipped;                 /* until server_take_skip() */
    bool gave;                    /* until server_take_given() */
    struct protocol_give result;
    int result_fd;     /* owned while `gave` */
    uint64_t head;     /* slots published for it */
    uint64_t tail;     /* last possible value seen in shared memory */
    uint64_t released; /* last possible cursor seen in its page */
    struct cursor_page page;
    struct error error; /* of a lost trainer: why */
    struct protocol_goodbye goodbye;
};

struct server {
    char *run_dir;
    int dir, lock, listener; /* owned */
    uint32_t reader, max_trainers;
    uint32_t least_world_size, most_world_size; /* that a HELLO may have */
    struct ring_layout layout;
    struct ring_service service;
    uint64_t reconnect_ms;
    uint32_t reserve_slots;
    bool takes_results;
    bool sessions_follow; /* a trainer that connects during a session waits for the next one */
    server_read_state *read_state;
    void *state_argument;
    server_describe *describe;
    void *describe_argument;
    ring_memory_fill *fill;
    void *fill_argument;
    int handout;          /* owned; -1: none */
    uint64_t alive_ns;    /* when the trainers' processes were last looked for */
    uint64_t accept_ns;   /* no connection is accepted before this time; 0: descriptors have never
                           * run out */
    struct error warning; /* for server_take_warning(); status OK: none */
    struct pending pending[MAX_PENDING];
    uint32_t pending_count;
    struct trainer *trainers; /* [max_trainers] */
    uint32_t trainer_count;
    struct group_ring *rings; /* [max_trainers]; from server_start() on */
    uint32_t ring_count;
    uint32_t *members;       /* [max_trainers] indices of trainers, those of each ring together */
    struct trainer *parting; /* [max_trainers] trainers of the last session, which may still say
                              * goodbye */
    uint32_t parting_count;
    uint64_t *left; /* [most_world_size] cursor + 1 of a trainer that has hung up, until
                     * server_take_parted(); 0: none */
    bool started, finished;
    struct error outcome; /* of server_finish(), once `finished` */
};

/* Accepts connections, reads HELLOs, and makes trainers of the connections that sent one. Sets
 * *active if anything moved, and leaves it alone if not. REFUSED: as server_progress(). No other
 * failure of a connection is returned. */
MUST_USE enum status server_hear_pending(struct server *server, bool *active, struct error *err);

/* Closes the connections that are no trainers yet, and tells them `outcome` first, unless `outcome`
 * is NULL. */
void server_drop_pending(struct server *server, const struct error *outcome);

/* Whether the service can do what a HELLO of process `pid` asks for. OK: it can, in the next
 * session if *ret_waits. *ret_cursor is the trainer's cursor, and is left alone with WISH_FRESH.
 * REFUSED: it cannot; the message says why. Any other status: of server_finish(). */
MUST_USE enum status hello_judge(const struct server *server, const struct protocol_hello *hello,
                                 pid_t pid, uint64_t *ret_cursor, bool *ret_waits,
                                 struct error *err);

/* Makes the rank of a HELLO what its coordinates say, if it has any. REFUSED: it tells some that do
 * not fit. */
MUST_USE enum status hello_settle_rank(const struct server *server, struct protocol_hello *hello,
                                       struct error *err);

/* Reads the sockets and tails of all trainers. True if anything moved. */
bool server_hear_trainers(struct server *server);

/* Takes a trainer that hung up before server_start() out of the list. */
void server_forget(struct server *server, struct trainer *trainer);

/* Drops the trainers, of this session and the one before, that have another world size. */
void server_drop_others(struct server *server, uint32_t world_size);

/* Between sessions: reads the sockets of `parting`, the trainers of the last session; drops one of
 * them. */
void server_hear_parting(struct server *server);
void server_drop_parting(struct server *server, uint32_t index);

/* Notes the cursor of a trainer that hung up between sessions: a fresh process of its rank goes on
 * there. */
void server_note_left(struct server *server, const struct trainer *trainer);

/* The cursor where the session starts. */
uint64_t server_start_cursor(const struct server *server);

/* The trainer of a rank; NULL: this reader has none. */
struct trainer *trainer_of_rank(const struct server *server, uint32_t rank);

/* peer_fail() tells a peer why it is refused or lost; peer_wait() tells a peer that `connected` of
 * `expected` trainers are there. A failure to send is ignored: server_progress() finds a peer that
 * is gone. */
void peer_fail(int socket, const struct error *error);
void peer_wait(const struct server *server, int socket, uint32_t connected, uint32_t expected);

/* Reads one message of a connected trainer, and changes its state. True if anything came.
 * `look_for_process`: also looks whether the process lives, since a forked child can keep a dead
 * trainer's socket open. */
bool trainer_hear(const struct server *server, struct trainer *trainer, bool look_for_process);

/* Reads the tail in shared memory. False: the tail is impossible, or has gone back. */
bool trainer_read_tail(const struct trainer *trainer, uint64_t *ret_tail);

/* Marks a trainer lost, and closes its socket. With a status other than LOST the trainer lives, and
 * is told `error` first. */
void trainer_lose(struct trainer *trainer, const struct error *error);

/* The cursor in the trainer's page, which may be impossible. A trainer that skips sends its SKIP
 * before it stores the cursor. */
uint64_t trainer_page_cursor(const struct trainer *trainer);

/* Reads the trainer's tail, and takes the cursor that its page had before its messages were heard.
 * A cursor below the last one seen is old: the last one counts. An impossible value makes the
 * trainer lost. True if anything moved. */
bool trainer_check_tail(struct trainer *trainer, uint64_t cursor);

/* The cursor behind the last batch that the trainer has released in order. */
uint64_t trainer_cursor(const struct trainer *trainer);

/* Closes a trainer's descriptors and unmaps its page. A trainer that is zero but for descriptors of
 * -1 is fine. */
void trainer_done(struct trainer *trainer);

/* Makes the rings of all trainers in the list, and frees them. Errors as of server_start(). */
MUST_USE enum status server_make_rings(struct server *server, struct error *err);
void server_free_rings(struct server *server);

#endif
