/* The board: how a reader hands batches to the processes that run the user's transform
 * (delivery.transform), which lie in slots of the trainers' rings.
 *
 *     reader                                            processes, any number
 *       BOARD_READY   a batch, or a part of it, is there
 *                                          BOARD_TAKEN  by a process that has read a token
 *                                          BOARD_DONE   its outputs are in the slot
 *                                          BOARD_PARTLY the same, but of samples that messages
 *                                                       before have named (BOARD_BAD)
 *       BOARD_FREE    the step goes to trainers when all of its tasks are done
 *
 * A process reads fields of a slot, its inputs, and writes others, its outputs. It writes no input:
 * so what a process had when it died is done again by another one. Descriptors come over the
 * process's socket, and messages for what happens once.
 *
 * One memfd, sealed against resizing: struct board, then the tasks, one for each part of each slot
 * of each ring. Processes take the one with the least serial first. Whoever takes a task and dies
 * leaves its number in the task's word.
 */
#ifndef PENSTOCK_DELIVERY_RING_BOARD_H
#define PENSTOCK_DELIVERY_RING_BOARD_H

#include "base/error.h"
#include "delivery/ring/layout.h"

#include <stdatomic.h>
#include <stdint.h>

enum { BOARD_VERSION = 2, BOARD_TEXT_BYTES = 3072 };

#define BOARD_MAGIC UINT64_C(0x4452414f424e4550) /* "PENBOARD", little endian */

/* Names the socket's descriptor to a process that the reader has started. */
#define BOARD_SOCKET_VARIABLE "PENSTOCK_TRANSFORM"

enum board_state { BOARD_FREE, BOARD_READY, BOARD_TAKEN, BOARD_DONE, BOARD_FAILED, BOARD_PARTLY };

/* Samples [begin, begin + count) of a slot. */
struct board_task {
    _Alignas(
        64) _Atomic uint64_t word; /* a state; with BOARD_TAKEN and behind it (1 + process) << 8 */
    uint32_t ring, slot, begin, count;
    uint64_t serial;           /* of its submission */
    _Atomic uint64_t spent_ns; /* by the process, before BOARD_DONE */
};

struct board {
    uint64_t magic;
    uint32_t version, task_count;
    _Atomic uint64_t shown; /* how often a task became BOARD_READY: who finds none looks again if it
                             * has grown meanwhile */
    struct board_task tasks[];
};

_Static_assert(sizeof(struct board) == 64, "shared layout");
_Static_assert(sizeof(struct board_task) == 64, "shared layout");

static inline uint64_t board_word(enum board_state state, uint32_t process)
{
    return (uint64_t)state | (process + UINT64_C(1)) << 8;
}
static inline enum board_state board_state_of(uint64_t word)
{
    return (enum board_state)(word & 0xff);
}
static inline uint32_t board_process_of(uint64_t word)
{
    return (uint32_t)(word >> 8) - 1;
}
static inline uint64_t board_bytes(uint32_t task_count)
{
    return sizeof(struct board) + task_count * sizeof(struct board_task);
}

/* A field that the transform gets. */
struct board_input {
    char name[RING_NAME_BYTES]; /* as the user knows it: the layout may have another one */
    uint32_t field;             /* in the ring's layout */
    uint32_t is_delivered;      /* 1: trainers get it as it is */
};

/* What the transform makes. */
struct board_output {
    char name[RING_NAME_BYTES];
    uint32_t dtype, rank;
    uint64_t shape[RING_MAX_RANK]; /* of a sample; with most_items: of an item */
    uint64_t most_items;           /* a sample has so many items at most; 0: it is not ragged */
    uint32_t same_as;              /* 1 + the number of the input that it is; 0: none */
    uint32_t field;                /* in the ring's layout, once that is known; the field behind has
                                    * the offsets of one with most_items */
};

struct board_shape {
    uint32_t input_count, output_count;
    struct board_input inputs[RING_MAX_FIELDS];
    struct board_output outputs[RING_MAX_FIELDS];
};

/* Messages, in packets of the socket, which both sides send. */
enum board_message_type {
    BOARD_HELLO = 1, /* from a process that is ready, and once it has come to a session */
    BOARD_TRIAL,     /* to it, with a ring of one slot: it answers with BOARD_OUTPUTS */
    BOARD_OUTPUTS,   /* shape: what the trial has come to */
    BOARD_BEGIN, /* to it: a session begins, with the board, and eventfds for tokens and results */
    BOARD_RING,  /* to it: one of the session's rings, in order */
    BOARD_TROUBLE, /* from it: the task, or the trial, has failed; before BOARD_FAILED */
    BOARD_BAD,     /* from it: a sample of its task cannot be done, and is to be masked */
};

struct board_message {
    uint64_t magic;
    uint32_t version, type;
    uint32_t process; /* TRIAL, BEGIN: its number */
    uint32_t count;   /* BEGIN: rings; RING: its number */
    uint64_t task;    /* TROUBLE, BAD: its index */
    uint32_t sample;  /* TROUBLE, BAD: within the slot; UINT32_MAX: of none */
    uint32_t session; /* BEGIN: its number; TROUBLE, BAD: in which it was */
    uint64_t masks;   /* BEGIN: 1: samples may be BAD */
    union {
        struct board_shape shape;    /* TRIAL, OUTPUTS, BEGIN */
        char text[BOARD_TEXT_BYTES]; /* TROUBLE, BAD: what the transform said */
    };
};

enum { BOARD_MOST_FDS = 3 };

/* Sends and receives one message, with descriptors ([BOARD_MOST_FDS], -1 behind the last; NULL:
 * none, and such as come are closed). Blocking unless `flags` has MSG_DONTWAIT. Errors as of
 * packet_send() and packet_receive(); PROTOCOL: it is no such message. UNSUPPORTED: another
 * version.
 */
MUST_USE enum status board_send(int socket, const struct board_message *message, const int *fds,
                                int flags, struct error *err);
MUST_USE enum status board_receive(int socket, struct board_message *ret_message, int *ret_fds,
                                   int flags, struct error *err);

#endif
