/* See tasks.h. */
#include "transform/tasks.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/sealed.h"
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* Sessions
 * ------------------------------------------------------------------------------------------- */

void tasks_init(struct tasks *tasks, uint32_t process_count, bool divides,
                const struct mask_rule *rule)
{
    *tasks = (struct tasks){.process_count = process_count,
                            .divides = divides,
                            .rule = *rule,
                            .board_fd = -1,
                            .token_fd = -1,
                            .done_fd = -1};
}

void tasks_end(struct tasks *tasks)
{
    tasks_withdraw(tasks);
    for (uint32_t r = 0; r < tasks->ring_count; r++)
        free(tasks->steps[r].left);
    if (tasks->board)
        munmap(tasks->board, board_bytes(tasks->count));
    free(tasks->steps);
    free(tasks->rings);
    free(tasks->all);
    free(tasks->live);
    free(tasks->bad);
    fd_close(&tasks->board_fd);
    fd_close(&tasks->token_fd);
    fd_close(&tasks->done_fd);
    tasks->rings = NULL;
    tasks->steps = NULL;
    tasks->all = NULL;
    tasks->live = NULL;
    tasks->bad = NULL;
    tasks->board = NULL;
    tasks->ring_count = tasks->live_count = 0;
}

/* How many tasks a step of a full batch is: so many that processes have two each, with the steps of
 * all slots. */
static uint32_t parts_of(const struct tasks *tasks, uint32_t sample_count)
{
    uint64_t steps = max_u64((uint64_t)tasks->ring_count * tasks->layout.slot_count, 1);
    uint64_t parts = (2 * (uint64_t)tasks->process_count + steps - 1) / steps;
    if (!tasks->divides)
        parts = 1;
    return (uint32_t)max_u64(1, min_u64(parts, sample_count));
}

static enum status make_board(struct tasks *tasks, struct error *err)
{
    tasks->part_count = parts_of(tasks, tasks->layout.batch_size);
    uint64_t count =
        max_u64((uint64_t)tasks->ring_count * tasks->layout.slot_count * tasks->part_count, 1);
    tasks->board_fd = memfd_create("penstock-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (tasks->board_fd >= 0)
        errno = count > UINT32_MAX / 2
                    ? EOVERFLOW
                    : posix_fallocate(tasks->board_fd, 0, (off_t)board_bytes((uint32_t)count));
    if (tasks->board_fd < 0 || errno != 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "make a board of %" PRIu64 " tasks", count);
    enum status status = sealed_make(tasks->board_fd, err);
    if (status != STATUS_OK)
        return status;
    void *memory =
        memory_map_file(tasks->board_fd, board_bytes((uint32_t)count), PROT_READ | PROT_WRITE);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map a board of %" PRIu64 " tasks", count);
    tasks->board = memory;
    tasks->board->magic = BOARD_MAGIC;
    tasks->board->version = BOARD_VERSION;
    tasks->board->task_count = tasks->count = (uint32_t)count;
    tasks->all = calloc(count, sizeof *tasks->all);
    tasks->live = calloc(count, sizeof *tasks->live);
    return tasks->all && tasks->live ? STATUS_OK
                                     : error_set(err, STATUS_NO_MEMORY, "no memory for tasks");
}

enum status tasks_begin(struct tasks *tasks, const struct ring *const *rings, uint32_t count,
                        const struct ring_layout *layout, struct error *err)
{
    tasks_end(tasks);
    tasks->layout = *layout;
    tasks->rings = calloc(count + 1u, sizeof(struct ring *));
    tasks->steps = calloc(count + 1u, sizeof *tasks->steps);
    bool fits = tasks->rings && tasks->steps;
    for (uint32_t r = 0; fits && r < count; r++) {
        tasks->rings[r] = rings[r];
        tasks->steps[r].left = calloc(layout->slot_count, sizeof *tasks->steps[r].left);
        tasks->ring_count = r + 1;
        fits = tasks->steps[r].left != NULL;
    }
    if (fits && tasks->rule.log)
        fits = (tasks->bad =
                    calloc(count * (uint64_t)layout->slot_count + 1, layout->batch_size)) != NULL;
    if (!fits)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the steps of a transform");
    tasks->token_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (tasks->token_fd < 0)
        return error_set_errno(err, STATUS_IO, "make an eventfd for a transform");
    enum status status = wakeup_new(&tasks->done_fd, err);
    return status == STATUS_OK ? make_board(tasks, err) : status;
}

/* Showing
 * ------------------------------------------------------------------------------------------- */

uint64_t tasks_word(const struct tasks *tasks, uint32_t i)
{
    return atomic_load(&tasks->board->tasks[tasks->live[i]].word);
}

void tasks_give_tokens(const struct tasks *tasks, uint64_t count)
{
    if (count > 0 && write(tasks->token_fd, &count, sizeof count) < 0)
        return; /* it has as many as it holds: more than there are tasks */
}

static void show(const struct tasks *tasks, uint32_t index)
{
    const struct task *task = &tasks->all[index];
    struct board_task *shown = &tasks->board->tasks[index];
    shown->ring = task->ring;
    shown->slot = task->slot;
    shown->begin = task->begin;
    shown->count = task->count;
    shown->serial = task->serial;
    atomic_store(&shown->word, BOARD_READY);
    atomic_fetch_add(&tasks->board->shown, 1);
}

/* Of the samples of a slot; NULL: nothing is masked. */
static unsigned char *bad_of(const struct tasks *tasks, const struct task *task)
{
    uint64_t slot = (uint64_t)task->ring * tasks->layout.slot_count + task->slot;
    return tasks->bad ? tasks->bad + slot * tasks->layout.batch_size : NULL;
}

static void forget_bad(const struct tasks *tasks, const struct task *task)
{
    unsigned char *bad = bad_of(tasks, task);
    if (bad)
        memset(bad + task->begin, 0, task->count);
}

void tasks_show_again(struct tasks *tasks, uint32_t i)
{
    struct task *task = &tasks->all[tasks->live[i]];
    task->since_ns = 0;
    task->is_partly = false;
    forget_bad(tasks, task);
    show(tasks, tasks->live[i]);
}

void tasks_withdraw(const struct tasks *tasks)
{
    for (uint32_t i = 0; i < tasks->live_count; i++) {
        uint64_t ready = BOARD_READY;
        atomic_compare_exchange_strong(&tasks->board->tasks[tasks->live[i]].word, &ready,
                                       BOARD_FREE);
    }
}

/* Steps
 * ------------------------------------------------------------------------------------------- */

bool tasks_slot_free(const struct tasks *tasks, uint32_t ring, uint64_t sequence)
{
    const struct steps *steps = &tasks->steps[ring];
    return steps->base + sequence < steps->taken + tasks->layout.slot_count;
}

void tasks_submit(struct tasks *tasks, uint32_t ring, uint32_t sample_count)
{
    struct steps *steps = &tasks->steps[ring];
    uint32_t number = (uint32_t)(steps->filled % tasks->layout.slot_count);
    uint32_t parts = parts_of(tasks, sample_count);
    uint32_t first = (ring * tasks->layout.slot_count + number) * tasks->part_count;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t begin = (uint32_t)((uint64_t)sample_count * p / parts);
        uint32_t end = (uint32_t)((uint64_t)sample_count * (p + 1) / parts);
        tasks->all[first + p] = (struct task){.ring = ring,
                                              .slot = number,
                                              .begin = begin,
                                              .count = end - begin,
                                              .serial = tasks->submitted++};
        tasks->live[tasks->live_count++] = first + p;
        show(tasks, first + p);
    }
    steps->left[number] = parts;
    steps->filled++;
    tasks_give_tokens(tasks, parts);
}

bool tasks_cancel(struct tasks *tasks)
{
    tasks_withdraw(tasks);
    for (uint32_t i = 0; i < tasks->live_count; i++)
        if (board_state_of(tasks_word(tasks, i)) == BOARD_TAKEN)
            return false;
    for (uint32_t i = 0; i < tasks->live_count; i++)
        forget_bad(tasks, &tasks->all[tasks->live[i]]);
    tasks->live_count = 0;
    for (uint32_t r = 0; r < tasks->ring_count; r++)
        tasks->steps[r].filled = tasks->steps[r].base = tasks->steps[r].taken;
    return true;
}

enum status tasks_note_bad(struct tasks *tasks, uint32_t process, uint64_t index, uint32_t sample,
                           const struct error *cause, struct error *err)
{
    if (!tasks->board || index >= tasks->count || !tasks->bad)
        return STATUS_OK;
    const struct task *task = &tasks->all[index];
    uint64_t word = atomic_load(&tasks->board->tasks[index].word);
    bool has_it = board_process_of(word) == process &&
                  (board_state_of(word) == BOARD_TAKEN || board_state_of(word) == BOARD_PARTLY);
    if (!has_it || sample < task->begin || sample - task->begin >= task->count)
        return STATUS_OK;
    bad_of(tasks, task)[sample] = 1;
    return mask_list(&tasks->rule, &tasks->layout, ring_slot(tasks->rings[task->ring], task->slot),
                     sample, cause, err);
}

static void mask_bad(const struct tasks *tasks, const struct task *task)
{
    const unsigned char *bad = bad_of(tasks, task);
    for (uint32_t i = task->begin; bad && i < task->begin + task->count; i++)
        if (bad[i])
            mask_sample(&tasks->rule, &tasks->layout,
                        ring_slot(tasks->rings[task->ring], task->slot), i);
    forget_bad(tasks, task);
}

void tasks_finish(struct tasks *tasks, uint32_t i)
{
    const struct task *task = &tasks->all[tasks->live[i]];
    mask_bad(tasks, task);
    tasks->steps[task->ring].left[task->slot]--;
    atomic_store(&tasks->board->tasks[tasks->live[i]].word, BOARD_FREE);
    tasks->live[i] = tasks->live[--tasks->live_count];
}

uint64_t tasks_done(const struct tasks *tasks, uint32_t ring)
{
    const struct steps *steps = &tasks->steps[ring];
    uint64_t step = steps->taken;
    while (step < steps->filled && steps->left[step % tasks->layout.slot_count] == 0)
        step++;
    return step - steps->taken;
}

void tasks_take(struct tasks *tasks, uint32_t ring)
{
    tasks->steps[ring].taken++;
}

/* Words
 * ------------------------------------------------------------------------------------------- */

/* What a task's slot says of itself. */
static const struct slot_header *slot_of(const struct tasks *tasks, const struct task *task,
                                         const uint64_t **ret_indices)
{
    const unsigned char *slot = ring_slot(tasks->rings[task->ring], task->slot);
    *ret_indices = (const void *)(slot + tasks->layout.indices_offset);
    return (const void *)slot;
}

void tasks_append(const struct tasks *tasks, const struct task *task, struct text *out)
{
    const uint64_t *indices;
    const struct slot_header *header = slot_of(tasks, task, &indices);
    text_append(out, "%" PRIu32 " sample%s of epoch %" PRIu64 " step %" PRIu64, task->count,
                count_plural(task->count), header->epoch, header->step);
    if (task->count > 0)
        text_append(out, ", the first with index %" PRIu64, indices[task->begin]);
}

void tasks_append_sample(const struct tasks *tasks, uint64_t index, uint32_t sample,
                         struct text *out)
{
    const uint64_t *indices;
    if (!tasks->board || index >= tasks->count)
        return;
    const struct slot_header *header = slot_of(tasks, &tasks->all[index], &indices);
    if (sample < tasks->layout.batch_size)
        text_append(out,
                    " at the sample with index %" PRIu64 " (epoch %" PRIu64 " step %" PRIu64 ")",
                    indices[sample], header->epoch, header->step);
    else
        text_append(out, " at epoch %" PRIu64 " step %" PRIu64, header->epoch, header->step);
}
