/* The messages of the handshake; see server.h for who sends which, and when.
 *
 * One message is one packet of a SOCK_SEQPACKET Unix socket: magic, version, type, and a body of
 * the fixed size that belongs to its type. Never blocks. Received messages are checked completely
 * (length, type, number of descriptors) before the caller sees them.
 */
#ifndef PENSTOCK_DELIVERY_PROTOCOL_H
#define PENSTOCK_DELIVERY_PROTOCOL_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROTOCOL_MAGIC = 0x4d534e50, /* "PNSM", little endian */
    PROTOCOL_VERSION = 4,
    PROTOCOL_STATE_BYTES = 2048,
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
};

/* From where on a trainer wants its batches. */
enum protocol_wish {
    WISH_FRESH,    /* from where the service starts; it has no state */
    WISH_STATE,    /* from its state on: a new process with a checkpoint */
    WISH_CONTINUE, /* from its state on: a process that has lost its reader */
    WISH_COUNT
};

struct protocol_hello {
    uint32_t rank, world_size;
    uint32_t wish;                    /* enum protocol_wish */
    char state[PROTOCOL_STATE_BYTES]; /* penstock_state()'s JSON, NUL-terminated; "" if fresh */
};

struct protocol_wait {
    uint32_t connected, expected; /* trainers; 0 of 0: not known yet */
    uint64_t reconnect_ms; /* how long to try again if this reader goes away; 0: not at all */
};

struct protocol_welcome {
    uint64_t epoch, step; /* of this trainer's first batch; earlier ones in the ring are not its */
};

struct protocol_goodbye {
    uint64_t epoch, step; /* what the trainer would have asked for next */
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
        struct error fail;
    };
};

/* Sends a message of which `type` and the body are filled in. `fds`: WELCOME_FDS of them with
 * WELCOME, the cursor page's (cursor_page.h) with HELLO, else NULL. TIMEOUT: the peer does not
 * read. LOST: it is gone. IO. */
MUST_USE enum status protocol_send(int socket, const struct protocol_message *message,
                                   const int *fds, struct error *err);

/* Receives one message. `ret_fds` gets the descriptors of a WELCOME, which are the caller's then;
 * with NULL a WELCOME is a breach of the protocol, and a HELLO is always. TIMEOUT: none there.
 * LOST: the peer closed or died. UNSUPPORTED: another version. PROTOCOL: nonsense. NO_MEMORY: this
 * process has no descriptor free for one that came; the message is lost. IO. */
MUST_USE enum status protocol_receive(int socket, struct protocol_message *ret_message,
                                      int ret_fds[WELCOME_FDS], struct error *err);

/* The same where only a HELLO may come: any other is a breach. *ret_page_fd is the caller's. */
MUST_USE enum status protocol_receive_hello(int socket, struct protocol_hello *ret_hello,
                                            int *ret_page_fd, struct error *err);

/* The user and process at the other end of a connected Unix socket, as the kernel knows them. */
MUST_USE enum status peer_credentials(int socket, uid_t *ret_uid, pid_t *ret_pid,
                                      struct error *err);

/* Whether a process of that user may talk to this one: the same user only. */
bool peer_allowed(uid_t uid);

#endif
