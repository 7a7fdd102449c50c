/* The messages between a trainer and its reader.
 *
 *     trainer                             reader
 *     HELLO {rank, world_size, wish}  ->         SO_PEERCRED tells whose process it is
 *       + memfd of its cursor page
 *                                     <-  WAIT {connected, expected, reconnect}
 *                                                at once, and now and then, for progress
 *                                     <-  HANDOUT + memfd of constants and attributes
 *                                                once all trainers are there, before WELCOME
 *                                     <-  WELCOME {first step, member} + memfd of the ring + 2
 *                                         eventfds
 *                                                once all trainers are there; or FAIL {error}
 *     DONE                            ->         it has had all batches, and asks for more
 *     SKIP {from, to}                 ->         it wants no batch between the two steps
 *     GIVE {step, dtype, shape}       ->         what an encoder has made of a batch
 *       + memfd of the items
 *     GOODBYE {epoch, step}           ->         at close; or FAIL {error}: why it failed
 *                                     <-  END, or FAIL {error}, at any time
 *
 * One message is one packet of a SOCK_SEQPACKET Unix socket, which keeps messages apart and tells
 * of a peer's death at once. A packet is magic, version, type, and a body of the fixed size that
 * belongs to its type; descriptors come beside it (SCM_RIGHTS). No function here blocks. A received
 * message is checked (length, type, number of descriptors, a HELLO's wish and texts) before the
 * caller sees it. Sockets are borrowed. Any thread; on one socket one thread at a time may send,
 * and one may receive.
 */
#ifndef PENSTOCK_DELIVERY_RING_PROTOCOL_H
#define PENSTOCK_DELIVERY_RING_PROTOCOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROTOCOL_MAGIC = 0x4d534e50, /* "PNSM", little endian */
    PROTOCOL_VERSION = 7,
    PROTOCOL_STATE_BYTES = 2048,
    PROTOCOL_COORDINATES_BYTES = 512,
    PROTOCOL_MOST_RECONNECT_MS = 86400000, /* a day, as delivery.reconnect_timeout */
    WELCOME_FDS = 3, /* ring memory, eventfd of publishes, eventfd of releases */
};

enum protocol_type {
    PROTOCOL_HELLO = 1,
    PROTOCOL_WAIT,
    PROTOCOL_WELCOME,
    PROTOCOL_GOODBYE,
    PROTOCOL_END,
    PROTOCOL_FAIL,
    PROTOCOL_DONE,
    PROTOCOL_HANDOUT,
    PROTOCOL_SKIP,
    PROTOCOL_GIVE,
};

/* Which batch a trainer wants first. */
enum protocol_wish {
    WISH_FRESH,    /* where the service starts: the trainer has no state */
    WISH_STATE,    /* at its state: a new process with a checkpoint */
    WISH_CONTINUE, /* at its state: a process that has lost its reader, or a new one with its
                    * predecessor's cursor */
    WISH_COUNT
};

struct protocol_hello {
    uint32_t rank, world_size;
    uint32_t wish;                                /* enum protocol_wish */
    char coordinates[PROTOCOL_COORDINATES_BYTES]; /* in the mesh, as mesh_read_coordinates() reads
                                                   * them, NUL-terminated; "": those of the rank */
    char state[PROTOCOL_STATE_BYTES]; /* JSON of penstock_state(), NUL-terminated; "" with
                                       * WISH_FRESH only */
};

struct protocol_wait {
    uint32_t connected, expected; /* trainers that are there, of all; 0 of 0: not known yet */
    uint64_t reconnect_ms; /* how long to look for a reader if this one goes away; 0: not at all */
};

struct protocol_welcome {
    uint64_t epoch, step; /* of this trainer's first batch; the trainer passes over earlier batches
                           * in the ring */
    uint32_t member;      /* which member of the ring it is */
    uint32_t reserved;
};

struct protocol_goodbye {
    uint64_t epoch, step; /* of the batch that the trainer would have asked for next */
};

struct protocol_skip {
    uint64_t from_epoch, from_step; /* of the batch that the trainer would have asked for next */
    uint64_t epoch, step; /* of the batch that the trainer asks for instead: a later one */
};

enum { PROTOCOL_GIVE_MAX_RANK = 8 };

/* The items are in C order and native byte order in the memfd, whose size is sealed. */
struct protocol_give {
    uint64_t epoch, step; /* of the batch */
    uint32_t dtype,
        rank; /* rank: 1 to PROTOCOL_GIVE_MAX_RANK, which is checked; dtype: any number */
    uint64_t shape[PROTOCOL_GIVE_MAX_RANK]; /* the first axis is that of the batch's samples */
};

struct protocol_message {
    uint32_t magic;
    uint32_t version;
    uint32_t type; /* enum protocol_type */
    uint32_t reserved;
    union {
        struct protocol_hello hello;
        struct protocol_wait wait;
        struct protocol_welcome welcome;
        struct protocol_goodbye goodbye;
        struct protocol_skip skip;
        struct protocol_give give;
        struct error fail;
    };
};

/* Sends a message; the caller has filled in `type` and the body. `fds`: WELCOME_FDS descriptors
 * with WELCOME, one with HELLO (the cursor page's), HANDOUT (handout.h) and GIVE, else NULL; the
 * caller keeps them. INVALID: no
 * message has that type. TIMEOUT: the socket is full, since the peer does not read. LOST: the peer
 * closed its socket. IO: any other failure. */
MUST_USE enum status protocol_send(int socket, const struct protocol_message *message,
                                   const int *fds, struct error *err);

/* Receives one message. `ret_fds` gets the descriptors of a WELCOME, or the one of a HANDOUT,
 * which are the caller's. On failure all descriptors are closed. TIMEOUT: no message is there.
 * LOST: the peer closed its socket or died. UNSUPPORTED: the message has another protocol version.
 * PROTOCOL: an impossible message, a HELLO, or a WELCOME or a HANDOUT where `ret_fds` is NULL.
 * NO_MEMORY: this process may open no more files; the message is lost. IO: any other failure. */
MUST_USE enum status protocol_receive(int socket, struct protocol_message *ret_message,
                                      int ret_fds[WELCOME_FDS], struct error *err);

/* The same for a reader, to which GIVE may come: *ret_fd is the descriptor of a GIVE, which is the
 * caller's, and -1 with every other message. */
MUST_USE enum status protocol_receive_given(int socket, struct protocol_message *ret_message,
                                            int *ret_fd, struct error *err);

/* Receives a trainer's first message, which must be a HELLO. *ret_page_fd, the descriptor of the
 * cursor page, is the caller's. Errors as protocol_receive(); PROTOCOL also for any other message.
 */
MUST_USE enum status protocol_receive_hello(int socket, struct protocol_hello *ret_hello,
                                            int *ret_page_fd, struct error *err);

/* The user and the process at the other end of a connected Unix socket, as the kernel knows them.
 * IO: the kernel does not say. */
MUST_USE enum status peer_credentials(int socket, uid_t *ret_uid, pid_t *ret_pid,
                                      struct error *err);

/* Whether a process of `uid` may talk to this process: only one of the same user may. */
bool peer_allowed(uid_t uid);

#endif
