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
    MESSAGE_VERSION = 1,
    WELCOME_FDS = 3, /* ring memory, eventfd of publishes, eventfd of releases */
};

enum message_type {
    MESSAGE_HELLO = 1,
    MESSAGE_WAIT,
    MESSAGE_WELCOME,
    MESSAGE_GOODBYE,
    MESSAGE_END,
    MESSAGE_FAIL,
};

struct message_hello {
    uint32_t rank, world_size;
};

struct message_wait {
    uint32_t connected, expected;
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
        struct message_goodbye goodbye;
        struct error fail;
    };
};

/* Sends a message of which `type` and the body are filled in. `fds`: WELCOME_FDS of them with
 * WELCOME, else NULL. TIMEOUT: the peer does not read. LOST: it is gone. IO. */
MUST_USE enum status message_send(int socket, const struct message *message, const int *fds,
                                  struct error *err);

/* Receives one message. `ret_fds` gets the descriptors of a WELCOME, which are the caller's then;
 * with NULL a WELCOME is a breach of the protocol. TIMEOUT: none there. LOST: the peer closed or
 * died. UNSUPPORTED: another version. PROTOCOL: nonsense. IO. */
MUST_USE enum status message_receive(int socket, struct message *ret_message,
                                     int ret_fds[WELCOME_FDS], struct error *err);

/* The user and process at the other end of a connected Unix socket, as the kernel knows them. */
MUST_USE enum status peer_credentials(int socket, uid_t *ret_uid, pid_t *ret_pid,
                                      struct error *err);

/* Whether a process of that user may talk to this one: the same user only. */
bool peer_allowed(uid_t uid);

#endif
