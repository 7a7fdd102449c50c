/* For the transform's own files; penstock_transform.h is for others. One thread.
 *
 *     transform.c          the public interface: what the program says
 *     transform_session.c  what the reader says: a trial, sessions, rings; waiting
 *     transform_batch.c    what the program sees of a slot
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_TRANSFORM_INTERNAL_H
#define PENSTOCK_DELIVERY_CLIENT_TRANSFORM_INTERNAL_H

#include "penstock_transform.h"

#include "base/error.h"
#include "delivery/ring/board.h"
#include "delivery/ring/ring.h"

/* What is being worked on. */
enum duty { DUTY_NONE, DUTY_TRIAL, DUTY_TASK };

struct penstock_transform {
    int socket, token_fd, done_fd; /* owned; -1: none */
    uint32_t process, session;
    struct ring *rings; /* [ring_count], owned */
    uint32_t ring_count, ring_room;
    struct ring_layout layout; /* of all rings */
    struct board_shape shape;
    struct board *board; /* mapped; NULL: no session has begun */
    uint64_t board_bytes;
    uint32_t task_count; /* as checked */
    bool masks;          /* samples may be bad */
    enum duty duty;
    bool is_partly; /* the task has bad samples */
    struct board_task *task;
    uint64_t start_ns;
    struct penstock_transform_batch batch;
    struct penstock_field fields[RING_MAX_FIELDS];
    struct penstock_output outputs[RING_MAX_FIELDS];
    struct error error;
};

/* transform_session.c: waits until there is a batch, or a trial; then t->batch and t->duty say
 * what. ENDED: the reader has ended this transform, or is gone. Errors of messages, PROTOCOL,
 * NO_MEMORY, IO. */
MUST_USE enum status transform_wait(struct penstock_transform *t, struct error *err);

/* Unmaps and closes what is a session's or a trial's. */
void transform_leave(struct penstock_transform *t);

/* transform_batch.c: samples [first, first + count) of a slot as t->batch. PROTOCOL: they, or the
 * numbers of fields, are not those of the layout. */
MUST_USE enum status transform_fill_batch(struct penstock_transform *t, unsigned char *slot,
                                          uint32_t first, uint32_t count, struct error *err);

#endif
