/* Processes of a transform that die or hang: what they had is for others, and they are started
 * again. See workers.h. */
#include "transform/workers.h"

#include "base/clock.h"
#include "base/text.h"
#include "delivery/ring/fdpass.h"

#include <stdio.h>

enum { MOST_TRIES = 3, MOST_DEATHS = 10 };

/* So long a process may take to end once it has closed its socket. */
static const uint64_t ending_ns = 200000000;

/* Whether nobody has a task once process `w` is gone: it had the task, or has left nonsense there.
 */
static bool is_lost(const struct workers *workers, uint64_t word, uint32_t w)
{
    enum board_state state = board_state_of(word);
    uint32_t process = board_process_of(word);
    bool is_taken = state == BOARD_TAKEN && process < workers->options.count;
    return is_taken ? process == w
                    : state != BOARD_READY && state != BOARD_DONE && state != BOARD_PARTLY &&
                          state != BOARD_FAILED;
}

/* Appends ": the first was killed by signal 9 (Killed), the last hung". */
static void append_endings(int first, int last, struct text *out)
{
    if (first == last)
        text_append(out, ": the last, as the first, %s", transform_ending(last).text);
    else
        text_append(out, ": the first %s, the last %s", transform_ending(first).text,
                    transform_ending(last).text);
}

/* What process `w` had is for another one. */
static enum status give_back(struct workers *workers, uint32_t w, int ending, struct error *err)
{
    struct tasks *tasks = workers->tasks;
    enum status status = STATUS_OK;
    uint64_t again = 0;
    for (uint32_t i = 0; i < tasks->live_count; i++) {
        struct task *task = &tasks->all[tasks->live[i]];
        if (!is_lost(workers, tasks_word(tasks, i), w))
            continue;
        if (task->tries == 0)
            task->first_ending = ending;
        if (++task->tries == MOST_TRIES && status == STATUS_OK) {
            struct text which = {0};
            tasks_append(tasks, task, &which);
            append_endings(task->first_ending, ending, &which);
            status = error_set(err, STATUS_LOST,
                               "%d processes of delivery.transform died at the same batch, %s",
                               MOST_TRIES, which.data ? which.data : "");
            text_done(&which);
        }
        tasks_show_again(tasks, i);
        again++;
    }
    /* It may have read a token and taken no task. */
    if (tasks->board)
        tasks_give_tokens(tasks, again + 1);
    return status;
}

void workers_give_up(struct workers *workers, uint32_t w, int ending)
{
    struct worker *worker = &workers->list[w];
    worker->gone_ns = clock_now_ns();
    worker->ending = ending;
    if (ending != 0)
        transform_process_kill(&worker->process);
    worker->killed = ending != 0;
    fd_close(&worker->process.socket); /* or it would wake us until then */
}

/* Of all that were given up since a batch was done; those that have ended count, too. */
static enum status refuse_more(struct workers *workers, const struct worker *worker,
                               struct error *err)
{
    uint32_t count = workers->dead_count;
    for (uint32_t w = 0; w < workers->options.count; w++) {
        struct worker *other = &workers->list[w];
        if (other != worker && !other->starts)
            count += other->gone_ns > 0 || transform_process_has_ended(&other->process);
    }
    const char *command = workers->options.command.text;
    const char *before = worker->process.ready ? "had done a batch" : "was ready";
    if (count == 1)
        return error_set(err, STATUS_LOST, "a process of delivery.transform %s before it %s: '%s'",
                         transform_ending(worker->ending).text, before, text_shown(command).text);
    struct text endings = {0};
    append_endings(workers->first_ending, worker->ending, &endings);
    error_set(err, STATUS_LOST, "%u processes of delivery.transform died, one before it %s%s: '%s'",
              count, before, endings.data ? endings.data : "", text_shown(command).text);
    text_done(&endings);
    return STATUS_LOST;
}

/* One that was given up, and has ended, is started again. */
static enum status replace(struct workers *workers, uint32_t w, struct error *err)
{
    struct worker *worker = &workers->list[w];
    bool may_again = worker->process.ready || transform_process_was_killed(&worker->process);
    if (workers->dead_count++ == 0)
        workers->first_ending = worker->ending;
    enum status status = give_back(workers, w, worker->ending, err);
    if (status == STATUS_OK && (!may_again || ++worker->deaths >= MOST_DEATHS))
        status = refuse_more(workers, worker, err);
    *worker = (struct worker){.process.socket = -1,
                              .start_ns = clock_now_ns(),
                              .deaths = worker->deaths,
                              .ending = worker->ending,
                              .starts = true};
    if (status == STATUS_OK)
        fprintf(stderr, "penstock-reader: %s: a process of delivery.transform %s; started again\n",
                workers->options.who, transform_ending(worker->ending).text);
    return status;
}

enum status workers_look_at_gone(struct workers *workers, uint32_t w, bool *active,
                                 struct error *err)
{
    struct worker *worker = &workers->list[w];
    bool ended = transform_process_has_ended(&worker->process);
    if (!worker->killed && (ended || clock_now_ns() - worker->gone_ns > ending_ns)) {
        worker->ending = ended ? worker->process.status : ENDING_CLOSED;
        worker->killed = true;
        transform_process_kill(&worker->process);
    }
    if (!worker->killed || !ended)
        return STATUS_OK;
    *active = true;
    return replace(workers, w, err);
}
