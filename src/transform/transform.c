/* See transform.h. */
#include "transform/transform.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/sealed.h"
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_TRIES = 3, MOST_DEATHS = 10, STOP_MS = 1000 };
static const uint64_t warning_ns = UINT64_C(30000000000);

/* What the reader knows of a task itself: processes can write to the board. */
struct task {
    uint32_t ring, slot, begin, count;
    uint64_t serial;
    uint32_t tries;    /* processes that had it and died */
    uint64_t since_ns; /* when it was first seen taken; 0: it is not */
};

struct worker {
    struct transform_process process;
    uint64_t start_ns;
    uint32_t deaths;   /* in a row, without a batch that it did */
    uint64_t stuck_ns; /* since when it has had a batch of a session that is over; 0: it has not */
    bool begun;        /* it has been told of the session */
    bool warned;
};

/* Steps of one ring, counted from the session's begin: so many were submitted, and taken. */
struct steps {
    uint64_t base, filled, taken; /* base: of sequence 0 */
    uint32_t *left;               /* [slot_count] tasks of the slot's step that are not done */
};

struct transform {
    struct transform_options options;
    struct board_shape shape;
    bool divides;           /* a step may be several tasks */
    struct worker *workers; /* [options.count] */
    /* Of a session: */
    const struct ring **rings; /* [ring_count]; each borrowed */
    struct steps *steps;       /* [ring_count] */
    uint32_t ring_count, session;
    struct ring_layout layout;
    struct board *board; /* NULL: there is no session */
    uint32_t task_count; /* as made: the board is others' to write to, too */
    int board_fd, token_fd, done_fd;
    uint32_t part_count; /* most tasks of a step */
    struct task *tasks;  /* [task_count] part p of slot s of ring r: (r * slots + s) * parts + p */
    uint32_t *live;      /* [live_count] indices of tasks that are not done */
    uint32_t live_count;
    uint64_t submitted;
    uint64_t spent_ns;
};

/* Sessions
 * ------------------------------------------------------------------------------------------- */

/* Processes take no more of the session. */
static void withdraw(const struct transform *t)
{
    for (uint32_t i = 0; i < t->live_count; i++) {
        uint64_t ready = BOARD_READY;
        atomic_compare_exchange_strong(&t->board->tasks[t->live[i]].word, &ready, BOARD_FREE);
    }
}

/* Who still has a batch of a session that ends: nobody looks at its tasks any more. */
static void note_stuck(struct transform *t)
{
    for (uint32_t i = 0; i < t->live_count; i++) {
        uint64_t word = atomic_load(&t->board->tasks[t->live[i]].word);
        uint32_t w = board_process_of(word);
        if (board_state_of(word) == BOARD_TAKEN && w < t->options.count &&
            t->workers[w].stuck_ns == 0)
            t->workers[w].stuck_ns = clock_now_ns();
    }
}

void transform_end(struct transform *t)
{
    withdraw(t);
    note_stuck(t);
    for (uint32_t r = 0; r < t->ring_count; r++)
        free(t->steps[r].left);
    if (t->board)
        munmap(t->board, board_bytes(t->task_count));
    free(t->steps);
    free(t->rings);
    free(t->tasks);
    free(t->live);
    fd_close(&t->board_fd);
    fd_close(&t->token_fd);
    fd_close(&t->done_fd);
    t->rings = NULL;
    t->steps = NULL;
    t->tasks = NULL;
    t->live = NULL;
    t->board = NULL;
    t->ring_count = t->live_count = 0;
    for (uint32_t w = 0; w < t->options.count; w++)
        t->workers[w].begun = false;
}

/* How many tasks a step of a full batch is: so many that processes have two each, with the steps of
 * all slots. */
static uint32_t parts_of(const struct transform *t, uint32_t sample_count)
{
    uint64_t steps = max_u64((uint64_t)t->ring_count * t->layout.slot_count, 1);
    uint64_t parts = (2 * (uint64_t)t->options.count + steps - 1) / steps;
    if (!t->divides)
        parts = 1;
    return (uint32_t)max_u64(1, min_u64(parts, sample_count));
}

static enum status make_board(struct transform *t, struct error *err)
{
    t->part_count = parts_of(t, t->layout.batch_size);
    uint64_t count = max_u64((uint64_t)t->ring_count * t->layout.slot_count * t->part_count, 1);
    t->board_fd = memfd_create("penstock-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (t->board_fd >= 0)
        errno = count > UINT32_MAX / 2
                    ? EOVERFLOW
                    : posix_fallocate(t->board_fd, 0, (off_t)board_bytes((uint32_t)count));
    if (t->board_fd < 0 || errno != 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "make a board of %" PRIu64 " tasks", count);
    enum status status = sealed_make(t->board_fd, err);
    if (status != STATUS_OK)
        return status;
    void *memory =
        memory_map_file(t->board_fd, board_bytes((uint32_t)count), PROT_READ | PROT_WRITE);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map a board of %" PRIu64 " tasks", count);
    t->board = memory;
    t->board->magic = BOARD_MAGIC;
    t->board->version = BOARD_VERSION;
    t->board->task_count = t->task_count = (uint32_t)count;
    t->tasks = calloc(count, sizeof *t->tasks);
    t->live = calloc(count, sizeof *t->live);
    return t->tasks && t->live ? STATUS_OK
                               : error_set(err, STATUS_NO_MEMORY, "no memory for tasks");
}

enum status transform_begin(struct transform *t, const struct ring *const *rings, uint32_t count,
                            const struct ring_layout *layout, struct error *err)
{
    transform_end(t);
    t->session++;
    t->layout = *layout;
    t->rings = calloc(count + 1u, sizeof(struct ring *));
    t->steps = calloc(count + 1u, sizeof *t->steps);
    bool fits = t->rings && t->steps;
    for (uint32_t r = 0; fits && r < count; r++) {
        t->rings[r] = rings[r];
        t->steps[r].left = calloc(layout->slot_count, sizeof *t->steps[r].left);
        t->ring_count = r + 1;
        fits = t->steps[r].left != NULL;
    }
    if (!fits)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the steps of a transform");
    t->token_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (t->token_fd < 0)
        return error_set_errno(err, STATUS_IO, "make an eventfd for a transform");
    enum status status = wakeup_new(&t->done_fd, err);
    return status == STATUS_OK ? make_board(t, err) : status;
}

/* Processes
 * ------------------------------------------------------------------------------------------- */

static enum status start(const struct transform *t, struct worker *worker, struct error *err)
{
    worker->start_ns = clock_now_ns();
    worker->begun = worker->warned = false;
    return transform_process_start(&t->options.command, &worker->process, err);
}

enum status transform_new(const struct transform_options *options, const struct board_shape *shape,
                          struct transform **ret_transform, struct error *err)
{
    struct transform *t = calloc(1, sizeof *t);
    struct worker *workers = calloc(options->count, sizeof *workers);
    if (!t || !workers) {
        free(t);
        free(workers);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    }
    *t = (struct transform){.options = *options,
                            .shape = *shape,
                            .divides = true,
                            .workers = workers,
                            .board_fd = -1,
                            .token_fd = -1,
                            .done_fd = -1};
    for (uint32_t o = 0; o < shape->output_count; o++)
        t->divides &= shape->outputs[o].most_items == 0;
    for (uint32_t w = 0; w < options->count; w++)
        workers[w].process.socket = -1;
    enum status status = STATUS_OK;
    for (uint32_t w = 0; status == STATUS_OK && w < options->count; w++)
        status = start(t, &workers[w], err);
    if (status == STATUS_OK)
        *ret_transform = t;
    else
        transform_free(t);
    return status;
}

void transform_free(struct transform *t)
{
    if (!t)
        return;
    transform_end(t);
    for (uint32_t w = 0; w < t->options.count; w++) /* all hear it, before one is waited for */
        fd_close(&t->workers[w].process.socket);
    const uint64_t ms_ns = 1000000, start_ns = clock_now_ns();
    for (uint32_t w = 0; w < t->options.count; w++) {
        uint64_t passed_ms = (clock_now_ns() - start_ns) / ms_ns;
        transform_process_stop(&t->workers[w].process,
                               (uint32_t)(passed_ms < STOP_MS ? STOP_MS - passed_ms : 0));
    }
    free(t->workers);
    free(t);
}

bool transform_owns(const struct transform *t, pid_t pid)
{
    for (uint32_t w = 0; t && w < t->options.count; w++)
        if (t->workers[w].process.pid == pid)
            return true;
    return false;
}

/* Tells a process of the session. */
static enum status tell_session(const struct transform *t, uint32_t w, struct error *err)
{
    int socket = t->workers[w].process.socket;
    struct board_message *message = calloc(1, sizeof *message);
    if (!message)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a message");
    const int fds[BOARD_MOST_FDS] = {t->board_fd, t->token_fd, t->done_fd};
    message->type = BOARD_BEGIN;
    message->process = w;
    message->session = t->session;
    message->count = t->ring_count;
    message->shape = t->shape;
    enum status status = board_send(socket, message, fds, MSG_DONTWAIT, err);
    message->type = BOARD_RING;
    for (uint32_t r = 0; status == STATUS_OK && r < t->ring_count; r++) {
        const int ring_fds[BOARD_MOST_FDS] = {t->rings[r]->memfd, -1, -1};
        message->count = r;
        status = board_send(socket, message, ring_fds, MSG_DONTWAIT, err);
    }
    free(message);
    return status;
}

/* Tasks
 * ------------------------------------------------------------------------------------------- */

static void give_tokens(const struct transform *t, uint64_t count)
{
    if (count > 0 && write(t->token_fd, &count, sizeof count) < 0)
        return; /* it has as many as it holds: more than there are tasks */
}

/* Shows a task to processes. */
static void show(const struct transform *t, uint32_t index)
{
    const struct task *task = &t->tasks[index];
    struct board_task *shown = &t->board->tasks[index];
    shown->ring = task->ring;
    shown->slot = task->slot;
    shown->begin = task->begin;
    shown->count = task->count;
    shown->serial = task->serial;
    atomic_store(&shown->word, BOARD_READY);
    atomic_fetch_add(&t->board->shown, 1);
}

bool transform_slot_free(const struct transform *t, uint32_t ring, uint64_t sequence)
{
    const struct steps *steps = &t->steps[ring];
    return steps->base + sequence < steps->taken + t->layout.slot_count;
}

void transform_submit(struct transform *t, uint32_t ring, uint32_t sample_count)
{
    struct steps *steps = &t->steps[ring];
    uint32_t number = (uint32_t)(steps->filled % t->layout.slot_count);
    uint32_t parts = parts_of(t, sample_count);
    uint32_t first = (ring * t->layout.slot_count + number) * t->part_count;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t begin = (uint32_t)((uint64_t)sample_count * p / parts);
        uint32_t end = (uint32_t)((uint64_t)sample_count * (p + 1) / parts);
        t->tasks[first + p] = (struct task){.ring = ring,
                                            .slot = number,
                                            .begin = begin,
                                            .count = end - begin,
                                            .serial = t->submitted++};
        t->live[t->live_count++] = first + p;
        show(t, first + p);
    }
    steps->left[number] = parts;
    steps->filled++;
    give_tokens(t, parts);
}

bool transform_cancel(struct transform *t)
{
    withdraw(t);
    for (uint32_t i = 0; i < t->live_count; i++)
        if (board_state_of(atomic_load(&t->board->tasks[t->live[i]].word)) == BOARD_TAKEN)
            return false;
    t->live_count = 0;
    for (uint32_t r = 0; r < t->ring_count; r++)
        t->steps[r].filled = t->steps[r].base = t->steps[r].taken;
    return true;
}

uint64_t transform_done(const struct transform *t, uint32_t ring)
{
    const struct steps *steps = &t->steps[ring];
    uint64_t step = steps->taken;
    while (step < steps->filled && steps->left[step % t->layout.slot_count] == 0)
        step++;
    return step - steps->taken;
}

void transform_take(struct transform *t, uint32_t ring)
{
    t->steps[ring].taken++;
}

uint64_t transform_spent_ns(const struct transform *t)
{
    return t->spent_ns;
}

/* "samples 4 to 7 of epoch 0 step 3", of the task's slot. */
static void append_task(const struct transform *t, const struct task *task, struct text *out)
{
    const unsigned char *slot = ring_slot(t->rings[task->ring], task->slot);
    const struct slot_header *header = (const void *)slot;
    const uint64_t *indices = (const void *)(slot + t->layout.indices_offset);
    text_append(out, "%" PRIu32 " sample%s of epoch %" PRIu64 " step %" PRIu64, task->count,
                count_plural(task->count), header->epoch, header->step);
    if (task->count > 0)
        text_append(out, ", the first with index %" PRIu64, indices[task->begin]);
}

/* Marks what is done, in any order. */
static bool count_done(struct transform *t)
{
    uint32_t before = t->live_count;
    for (uint32_t i = 0; i < t->live_count;) {
        const struct task *task = &t->tasks[t->live[i]];
        struct board_task *shown = &t->board->tasks[t->live[i]];
        uint64_t word = atomic_load(&shown->word);
        if (board_state_of(word) != BOARD_DONE) {
            i++;
            continue;
        }
        if (board_process_of(word) < t->options.count)
            t->workers[board_process_of(word)].deaths = 0;
        t->spent_ns += min_u64(atomic_load(&shown->spent_ns), t->options.timeout_ns);
        t->steps[task->ring].left[task->slot]--;
        atomic_store(&shown->word, BOARD_FREE);
        t->live[i] = t->live[--t->live_count];
    }
    return t->live_count < before;
}

/* Trouble
 * ------------------------------------------------------------------------------------------- */

/* What a process said of a sample that it cannot do. */
static enum status report(const struct transform *t, const struct board_message *message,
                          struct error *err)
{
    struct text who = {0};
    if (t->board && message->task < t->task_count) {
        const struct task *task = &t->tasks[message->task];
        const unsigned char *slot = ring_slot(t->rings[task->ring], task->slot);
        const struct slot_header *header = (const void *)slot;
        const uint64_t *indices = (const void *)(slot + t->layout.indices_offset);
        if (message->sample < t->layout.batch_size)
            text_append(
                &who, " at the sample with index %" PRIu64 " (epoch %" PRIu64 " step %" PRIu64 ")",
                indices[message->sample], header->epoch, header->step);
        else
            text_append(&who, " at epoch %" PRIu64 " step %" PRIu64, header->epoch, header->step);
    }
    error_set(err, STATUS_INVALID, "delivery.transform failed%s: %s", who.data ? who.data : "",
              message->text);
    text_done(&who);
    return STATUS_INVALID;
}

/* Whether nobody has a task once process `w` is gone: it had the task, or has left nonsense there.
 */
static bool is_lost(const struct transform *t, uint64_t word, uint32_t w)
{
    enum board_state state = board_state_of(word);
    uint32_t process = board_process_of(word);
    bool is_taken = state == BOARD_TAKEN && process < t->options.count;
    return is_taken ? process == w
                    : state != BOARD_READY && state != BOARD_DONE && state != BOARD_FAILED;
}

/* A process is gone: what it had is for another one. */
static enum status give_back(struct transform *t, uint32_t w, const char *what, struct error *err)
{
    enum status status = STATUS_OK;
    uint64_t again = 0;
    for (uint32_t i = 0; i < t->live_count; i++) {
        struct task *task = &t->tasks[t->live[i]];
        if (!is_lost(t, atomic_load(&t->board->tasks[t->live[i]].word), w))
            continue;
        if (++task->tries == MOST_TRIES && status == STATUS_OK) {
            struct text which = {0};
            append_task(t, task, &which);
            status =
                error_set(err, STATUS_LOST,
                          "a process of delivery.transform %s, as %d before it did at the same "
                          "batch: %s",
                          what, MOST_TRIES - 1, which.data ? which.data : "");
            text_done(&which);
        }
        task->since_ns = 0;
        show(t, t->live[i]);
        again++;
    }
    /* It may have read a token and taken no task. */
    if (t->board)
        give_tokens(t, again + 1);
    return status;
}

static enum status replace(struct transform *t, uint32_t w, const char *what, struct error *err)
{
    struct worker *worker = &t->workers[w];
    bool was_ready = worker->process.ready;
    bool may_again = was_ready || transform_process_was_killed(&worker->process);
    char said[128];
    snprintf(said, sizeof said, "%s", what);
    transform_process_stop(&worker->process, 0); /* before others get what it had */
    enum status status = give_back(t, w, said, err);
    worker->stuck_ns = 0;
    if (status == STATUS_OK && (!may_again || ++worker->deaths >= MOST_DEATHS))
        status = error_set(
            err, STATUS_LOST, "a process of delivery.transform %s before it %s: '%s'", said,
            was_ready ? "had done a batch" : "was ready", text_shown(t->options.command.text).text);
    if (status != STATUS_OK)
        return status;
    fprintf(stderr, "penstock-reader: %s: a process of delivery.transform %s; started again\n",
            t->options.who, said);
    return start(t, worker, err);
}

/* What comes from a process, until there is nothing. */
static enum status hear(struct transform *t, uint32_t w, bool *active, struct error *err)
{
    struct worker *worker = &t->workers[w];
    struct board_message *message = malloc(sizeof *message);
    if (!message)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a message");
    enum status status;
    struct error heard;
    while ((status = board_receive(worker->process.socket, message, NULL, MSG_DONTWAIT, &heard)) ==
           STATUS_OK) {
        *active = true;
        if (message->type == BOARD_HELLO) {
            worker->process.ready = true;
            worker->stuck_ns = 0;
        }
        if (message->type == BOARD_TROUBLE && message->session == t->session && t->board) {
            status = report(t, message, err);
            break;
        }
    }
    free(message);
    if (status == STATUS_TIMEOUT && !transform_process_has_ended(&worker->process))
        return STATUS_OK;
    if (status == STATUS_TIMEOUT) /* what it has started has its socket */
        status = STATUS_LOST;
    if (status == STATUS_INVALID)
        return status;
    if (status != STATUS_LOST)
        return error_set(err, status, "%s", heard.message);
    *active = true;
    for (int i = 0; i < 200 && !transform_process_has_ended(&worker->process); i++)
        clock_sleep_ns(1000000);
    return replace(t, w,
                   worker->process.ended ? transform_process_ending(&worker->process)
                                         : "has closed its socket",
                   err);
}

/* The oldest task that a process has had for long. */
static enum status check_times(struct transform *t, struct error *err)
{
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < t->live_count; i++) {
        struct task *task = &t->tasks[t->live[i]];
        uint64_t word = atomic_load(&t->board->tasks[t->live[i]].word);
        uint32_t w = board_process_of(word);
        if (board_state_of(word) != BOARD_TAKEN || w >= t->options.count)
            continue;
        if (task->since_ns == 0)
            task->since_ns = now_ns;
        uint64_t held_ns = now_ns - task->since_ns;
        struct worker *worker = &t->workers[w];
        if (held_ns > warning_ns && !worker->warned) {
            struct text which = {0};
            append_task(t, task, &which);
            fprintf(stderr,
                    "penstock-reader: %s: a process of delivery.transform (pid %d) has had %s for "
                    "%.0f s; after %.0f s it is started again (delivery.transform.timeout)\n",
                    t->options.who, (int)worker->process.pid, which.data ? which.data : "a batch",
                    (double)warning_ns / 1e9, (double)t->options.timeout_ns / 1e9);
            text_done(&which);
            worker->warned = true;
        }
        if (held_ns > t->options.timeout_ns)
            return replace(t, w, "hung", err);
    }
    for (uint32_t w = 0; w < t->options.count; w++) {
        uint64_t stuck_ns = t->workers[w].stuck_ns;
        if (stuck_ns > 0 && now_ns - stuck_ns > t->options.timeout_ns)
            return replace(t, w, "hung", err);
    }
    for (uint32_t w = 0; w < t->options.count; w++)
        if (!t->workers[w].process.ready && now_ns - t->workers[w].start_ns > t->options.timeout_ns)
            return error_set(err, STATUS_TIMEOUT,
                             "a process of delivery.transform was not ready after %.0f s "
                             "(delivery.transform.timeout): does '%s' call penstock.transform?",
                             (double)t->options.timeout_ns / 1e9,
                             text_shown(t->options.command.text).text);
    return STATUS_OK;
}

enum status transform_progress(struct transform *t, bool looks, bool *active, struct error *err)
{
    enum status status = STATUS_OK;
    if (t->board)
        wakeup_drain(t->done_fd);
    if (t->board && count_done(t))
        *active = true;
    uint64_t failed = 0;
    for (uint32_t i = 0; i < t->live_count; i++)
        failed += board_state_of(atomic_load(&t->board->tasks[t->live[i]].word)) == BOARD_FAILED;
    if (!looks && failed == 0)
        return STATUS_OK;
    for (uint32_t w = 0; status == STATUS_OK && w < t->options.count; w++)
        status = hear(t, w, active, err);
    for (uint32_t w = 0; status == STATUS_OK && t->board && w < t->options.count; w++)
        if (t->workers[w].process.ready && !t->workers[w].begun) {
            status = tell_session(t, w, err);
            t->workers[w].begun = true;
            if (status == STATUS_LOST)
                status = STATUS_OK; /* found by hear() */
            if (status == STATUS_TIMEOUT)
                status = replace(t, w, "reads no messages", err);
        }
    if (status == STATUS_OK && failed > 0)
        status = error_set(err, STATUS_INVALID, "delivery.transform failed, and did not say why");
    return status == STATUS_OK ? check_times(t, err) : status;
}

size_t transform_pollfds(const struct transform *t, struct pollfd *fds, size_t capacity)
{
    size_t count = 0;
    if (t->board && count < capacity)
        fds[count++] = (struct pollfd){.fd = t->done_fd, .events = POLLIN};
    for (uint32_t w = 0; w < t->options.count && count < capacity; w++)
        fds[count++] = (struct pollfd){.fd = t->workers[w].process.socket, .events = POLLIN};
    return count;
}
