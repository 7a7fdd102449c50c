/* See transform.h. */
#include "transform/transform.h"

#include "base/number.h"
#include "delivery/ring/wakeup.h"
#include "transform/tasks.h"
#include "transform/workers.h"

#include <stdlib.h>

struct transform {
    struct tasks tasks;
    struct workers workers;
    uint64_t spent_ns;
};

enum status transform_new(const struct transform_options *options, const struct board_shape *shape,
                          struct transform **ret_transform, struct error *err)
{
    bool divides = true;
    struct transform *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    for (uint32_t o = 0; o < shape->output_count; o++)
        divides &= shape->outputs[o].most_items == 0;
    tasks_init(&t->tasks, options->count, divides, &options->rule);
    enum status status = workers_init(&t->workers, options, shape, &t->tasks, err);
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
    tasks_end(&t->tasks);
    workers_done(&t->workers);
    free(t);
}

enum status transform_begin(struct transform *t, const struct ring *const *rings, uint32_t count,
                            const struct ring_layout *layout, struct error *err)
{
    transform_end(t);
    workers_begin_session(&t->workers);
    return tasks_begin(&t->tasks, rings, count, layout, err);
}

void transform_end(struct transform *t)
{
    workers_end_session(&t->workers);
    tasks_end(&t->tasks);
}

bool transform_cancel(struct transform *t)
{
    return tasks_cancel(&t->tasks);
}

bool transform_slot_free(const struct transform *t, uint32_t ring, uint64_t sequence)
{
    return tasks_slot_free(&t->tasks, ring, sequence);
}

void transform_submit(struct transform *t, uint32_t ring, uint32_t sample_count)
{
    tasks_submit(&t->tasks, ring, sample_count);
}

uint64_t transform_done(const struct transform *t, uint32_t ring)
{
    return tasks_done(&t->tasks, ring);
}

void transform_take(struct transform *t, uint32_t ring)
{
    tasks_take(&t->tasks, ring);
}

uint64_t transform_spent_ns(const struct transform *t)
{
    return t->spent_ns;
}

bool transform_owns(const struct transform *t, pid_t pid)
{
    return t && workers_own(&t->workers, pid);
}

/* Marks what is done, in any order. What is done but for bad samples waits until these are heard
 * of. *ret_failed: how many have failed; *ret_partly: how many wait. */
static bool count_done(struct transform *t, uint64_t *ret_failed, uint64_t *ret_partly)
{
    struct tasks *tasks = &t->tasks;
    uint32_t before = tasks->live_count;
    *ret_failed = *ret_partly = 0;
    for (uint32_t i = 0; i < tasks->live_count;) {
        const struct board_task *shown = &tasks->board->tasks[tasks->live[i]];
        uint64_t word = tasks_word(tasks, i);
        struct task *task = &tasks->all[tasks->live[i]];
        bool was_partly = task->is_partly;
        task->is_partly = board_state_of(word) == BOARD_PARTLY;
        *ret_failed += board_state_of(word) == BOARD_FAILED;
        *ret_partly += task->is_partly && !was_partly;
        if (board_state_of(word) != BOARD_DONE && !(task->is_partly && was_partly)) {
            i++;
            continue;
        }
        workers_note_done(&t->workers, board_process_of(word));
        t->spent_ns += min_u64(atomic_load(&shown->spent_ns), t->workers.options.timeout_ns);
        tasks_finish(tasks, i);
    }
    return tasks->live_count < before;
}

enum status transform_progress(struct transform *t, bool looks, bool *active, struct error *err)
{
    uint64_t failed = 0, partly = 0;
    if (t->tasks.board)
        wakeup_drain(t->tasks.done_fd);
    if (t->tasks.board && count_done(t, &failed, &partly))
        *active = true;
    if (!looks && failed + partly == 0)
        return STATUS_OK;
    *active |= partly > 0; /* they are done in the next turn */
    enum status status = workers_look(&t->workers, active, err);
    if (status == STATUS_OK && failed > 0)
        status = error_set(err, STATUS_INVALID, "delivery.transform failed, and did not say why");
    return status;
}

size_t transform_pollfds(const struct transform *t, struct pollfd *fds, size_t capacity)
{
    size_t count = 0;
    if (t->tasks.board && count < capacity)
        fds[count++] = (struct pollfd){.fd = t->tasks.done_fd, .events = POLLIN};
    for (uint32_t w = 0; w < t->workers.options.count && count < capacity; w++)
        fds[count++] = (struct pollfd){.fd = t->workers.list[w].process.socket, .events = POLLIN};
    return count;
}
