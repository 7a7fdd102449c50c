/* The messages of the handshake; see server.h for who sends which, and when.
 *
 * One message is one packet of a SOCK_SEQPACKET Unix socket: magic, version, type, and a body of
 * the fixed size that belongs to its type. Never blocks. Received messages are checked completely
 * (length, type, number of descriptors) before the caller sees them.
 */
#ifndef PENSTOCK_DELIVERY_MESSAGE_H
#define PENSTOCK_DELIVERY_MESSAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    MESSAGE_MAGIC = 0x4d534e50, /* "PNSM", little endian */
    MESSAGE_VERSION = 4,
    MESSAGE_STATE_BYTES = 2048,
    MESSAGE_MOST_RECONNECT_MS = 86400000, /* a day, as delivery.reconnect_timeout */
    WELCOME_FDS = 3, /* ring memory, eventfd of publishes, eventfd of releases */
};

enum message_type {
    MESSAGE_HELLO = 1,
    MESSAGE_WAIT,
    MESSAGE_WELCOME,
    MESSAGE_GOODBYE,
    MESSAGE_END,
    MESSAGE_FAIL,
    MESSAGE_DONE,
};

/* From where on a trainer wants its batches. */
enum message_wish {
    WISH_FRESH,    /* from where the service starts; it has no state */
    WISH_STATE,    /* from its state on: a new process with a checkpoint */
    WISH_CONTINUE, /* from its state on: a process that has lost its reader */
    WISH_COUNT
};

struct message_hello {
    uint32_t rank, world_size;
    uint32_t wish;                   /* enum message_wish */
    char state[MESSAGE_STATE_BYTES]; /* penstock_state()'s JSON, NUL-terminated; "" if fresh */
};

struct message_wait {
    uint32_t connected, expected; /* trainers; 0 of 0: not known yet */
    uint64_t reconnect_ms; /* how long to try again if this reader goes away; 0: not at all */
};

struct message_welcome {
    uint64_t epoch, step; /* of this trainer's first batch; earlier ones in the ring are not its */
};

struct message_goodbye {
    uint64_t epoch, step; /* what the trainer would have asked for next */
};

struct message {
    uint32_t magic;
    uint32_t version;
    uint32_t type; /* enum message_type */
    uint32_t reserved;
    union {
        struct message_hello hello;
        struct message_wait wait;
        struct message_welcome welcome;
        struct message_goodbye goodbye;
        struct error fail;
    };
};

/* Sends a message of which `type` and the body are filled in. `fds`: WELCOME_FDS of them with
 * WELCOME, the place page's (place_page.h) with HELLO, else NULL. TIMEOUT: the peer does not read.
 * LOST: it is gone. IO. */
MUST_USE enum status message_send(int socket, const struct message *message, const int *fds,
                                  struct error *err);

/* Receives one message. `ret_fds` gets the descriptors of a WELCOME, which are the caller's then;
 * with NULL a WELCOME is a breach of the protocol, and a HELLO is always. TIMEOUT: none there.
 * LOST: the peer closed or died. UNSUPPORTED: another version. PROTOCOL: nonsense. NO_MEMORY: this
 * process has no descriptor free for one that came; the message is lost. IO. */
MUST_USE enum status message_receive(int socket, struct message *ret_message,
                                     int ret_fds[WELCOME_FDS], struct error *err);

/* The same where only a HELLO may come: any other is a breach. *ret_page_fd is the caller's. */
MUST_USE enum status message_receive_hello(int socket, struct message_hello *ret_hello,
                                           int *ret_page_fd, struct error *err);

/* The user and process at the other end of a connected Unix socket, as the kernel knows them. */
MUST_USE enum status peer_credentials(int socket, uid_t *ret_uid, pid_t *ret_pid,
                                      struct error *err);

/* Whether a process of that user may talk to this one: the same user only. */
bool peer_allowed(uid_t uid);

#endif
