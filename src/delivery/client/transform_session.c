/* What the reader says to a process of its transform, and what the board shows it. See
 * transform_internal.h. */
#include "delivery/client/transform_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/sealed.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sessions
 * ------------------------------------------------------------------------------------------- */

void transform_leave(struct penstock_transform *t)
{
    for (uint32_t r = 0; r < t->ring_count; r++)
        ring_done(&t->rings[r]);
    free(t->rings);
    if (t->board)
        munmap(t->board, t->board_bytes);
    fd_close(&t->token_fd);
    fd_close(&t->done_fd);
    t->rings = NULL;
    t->board = NULL;
    t->ring_count = t->ring_room = 0;
    t->duty = DUTY_NONE;
}

static enum status map_board(struct penstock_transform *t, int memfd, struct error *err)
{
    uint64_t bytes = 0;
    bool sound = sealed_check(memfd, &bytes) && bytes >= sizeof(struct board);
    void *memory = sound ? memory_map_file(memfd, bytes, PROT_READ | PROT_WRITE) : MAP_FAILED;
    if (memory == MAP_FAILED)
        return error_set(err, STATUS_PROTOCOL, "transform: the board cannot be mapped");
    t->board = memory;
    t->board_bytes = bytes;
    if (t->board->magic != BOARD_MAGIC || t->board->version != BOARD_VERSION ||
        board_bytes(t->task_count = t->board->task_count) != bytes || t->task_count == 0)
        return error_set(err, STATUS_PROTOCOL, "transform: the memory that came is no board");
    return STATUS_OK;
}

/* Takes `fds`. */
static enum status begin(struct penstock_transform *t, const struct board_message *message,
                         int *fds, struct error *err)
{
    transform_leave(t);
    t->process = message->process;
    t->session = message->session;
    t->masks = message->masks != 0;
    t->shape = message->shape;
    t->token_fd = fds[1];
    t->done_fd = fds[2];
    fds[1] = fds[2] = -1;
    t->ring_room = message->count;
    t->rings = calloc(message->count ? message->count : 1, sizeof *t->rings);
    if (!t->rings)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for rings");
    return map_board(t, fds[0], err);
}

/* Takes fds[0]. */
static enum status add_ring(struct penstock_transform *t, int *fds, struct error *err)
{
    struct ring_header *header = malloc(sizeof *header);
    if (!header || t->ring_count == t->ring_room) {
        free(header);
        return error_set(err, STATUS_PROTOCOL, "transform: a ring that nobody waits for");
    }
    enum status status = ring_open_whole(fds[0], &t->rings[t->ring_count], header, err);
    fds[0] = -1;
    if (status == STATUS_OK) {
        t->ring_count++;
        t->layout = header->layout;
    }
    free(header);
    return status;
}

static enum status start_trial(struct penstock_transform *t, const struct board_message *message,
                               int *fds, struct error *err)
{
    transform_leave(t);
    t->shape = message->shape;
    t->ring_room = 1;
    t->rings = calloc(1, sizeof *t->rings);
    if (!t->rings)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for a ring");
    enum status status = add_ring(t, fds, err);
    if (status != STATUS_OK)
        return status;
    t->duty = DUTY_TRIAL;
    const unsigned char *slot = ring_slot(&t->rings[0], 0);
    struct slot_header header;
    memcpy(&header, slot, sizeof header);
    return transform_fill_batch(t, ring_slot(&t->rings[0], 0), 0, header.sample_count, err);
}

/* Tasks
 * ------------------------------------------------------------------------------------------- */

/* The oldest task that nobody has; NULL: there is none. */
static struct board_task *find_task(const struct penstock_transform *t)
{
    struct board_task *oldest = NULL;
    for (uint32_t i = 0; i < t->task_count; i++) {
        struct board_task *task = &t->board->tasks[i];
        if (board_state_of(atomic_load(&task->word)) == BOARD_READY &&
            (!oldest || task->serial < oldest->serial))
            oldest = task;
    }
    return oldest;
}

static bool take_task(struct penstock_transform *t)
{
    for (;;) {
        uint64_t shown = atomic_load(&t->board->shown), ready = BOARD_READY;
        struct board_task *task = find_task(t);
        t->task = task;
        if (task && atomic_compare_exchange_strong(&task->word, &ready,
                                                   board_word(BOARD_TAKEN, t->process)))
            break;
        if (!task && atomic_load(&t->board->shown) == shown)
            return false;
    }
    t->start_ns = clock_now_ns();
    t->duty = DUTY_TASK;
    t->is_partly = false;
    return true;
}

static enum status start_task(struct penstock_transform *t, struct error *err)
{
    const struct board_task *task = t->task;
    if (task->ring >= t->ring_count || task->slot >= t->rings[task->ring].slot_count)
        return error_set(err, STATUS_PROTOCOL, "transform: a task that makes no sense");
    return transform_fill_batch(t, ring_slot(&t->rings[task->ring], task->slot), task->begin,
                                task->count, err);
}

/* Waiting
 * ------------------------------------------------------------------------------------------- */

static enum status hear(struct penstock_transform *t, struct error *err)
{
    struct board_message *message = malloc(sizeof *message);
    int fds[BOARD_MOST_FDS] = {-1, -1, -1};
    if (!message)
        return error_set(err, STATUS_NO_MEMORY, "transform: no memory for a message");
    enum status status = board_receive(t->socket, message, fds, MSG_DONTWAIT, err);
    const struct board_message here = {.type = BOARD_HELLO};
    if (status == STATUS_OK && message->type == BOARD_TRIAL) {
        status = start_trial(t, message, fds, err);
    } else if (status == STATUS_OK && message->type == BOARD_BEGIN) {
        status = begin(t, message, fds, err);
        if (status == STATUS_OK)
            status = board_send(t->socket, &here, NULL, 0, err);
    } else if (status == STATUS_OK && message->type == BOARD_RING) {
        status = add_ring(t, fds, err);
    } else if (status == STATUS_OK) {
        status =
            error_set(err, STATUS_PROTOCOL, "transform: a message of type %" PRIu32, message->type);
    }
    for (int i = 0; i < BOARD_MOST_FDS; i++)
        fd_close(&fds[i]);
    free(message);
    if (status == STATUS_LOST)
        return error_set(err, STATUS_ENDED, "the reader has ended this transform, or is gone");
    return status == STATUS_TIMEOUT ? STATUS_OK : status;
}

/* A token stands for a task that was submitted. Without one, or with one of a task that somebody
 * else has taken meanwhile, there is nothing. */
static bool take_token(const struct penstock_transform *t)
{
    uint64_t one;
    return read(t->token_fd, &one, sizeof one) == sizeof one;
}

enum status transform_wait(struct penstock_transform *t, struct error *err)
{
    while (t->duty == DUTY_NONE) {
        bool serves = t->board && t->ring_count == t->ring_room;
        struct pollfd fds[2] = {{.fd = t->socket, .events = POLLIN},
                                {.fd = serves ? t->token_fd : -1, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return error_set_errno(err, STATUS_IO, "transform: wait for a batch");
        enum status status = fds[0].revents ? hear(t, err) : STATUS_OK;
        if (status != STATUS_OK)
            return status;
        if (!fds[0].revents && fds[1].revents && take_token(t) && take_task(t))
            status = start_task(t, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
