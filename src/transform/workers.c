/* See workers.h. */
#include "transform/workers.h"

#include "base/clock.h"
#include "base/text.h"
#include "delivery/ring/fdpass.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { STOP_MS = 1000 };
static const uint64_t warning_ns = UINT64_C(30000000000);

enum status workers_init(struct workers *workers, const struct transform_options *options,
                         const struct board_shape *shape, struct tasks *tasks, struct error *err)
{
    *workers = (struct workers){.options = *options, .shape = *shape, .tasks = tasks};
    workers->list = calloc(options->count, sizeof *workers->list);
    workers->message = calloc(1, sizeof *workers->message);
    if (!workers->list || !workers->message)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    for (uint32_t w = 0; w < options->count; w++)
        workers->list[w] = (struct worker){.process.socket = -1, .start_ns = clock_now_ns()};
    enum status status = STATUS_OK;
    for (uint32_t w = 0; status == STATUS_OK && w < options->count; w++)
        status = transform_process_start(&options->command, &workers->list[w].process, err);
    return status;
}

void workers_done(struct workers *workers)
{
    const uint64_t ms_ns = 1000000, start_ns = clock_now_ns();
    uint32_t count = workers->list ? workers->options.count : 0;
    for (uint32_t w = 0; w < count; w++) /* all hear it, before one is waited for */
        fd_close(&workers->list[w].process.socket);
    for (uint32_t w = 0; w < count; w++) {
        uint64_t passed_ms = (clock_now_ns() - start_ns) / ms_ns;
        transform_process_stop(&workers->list[w].process,
                               (uint32_t)(passed_ms < STOP_MS ? STOP_MS - passed_ms : 0));
    }
    free(workers->list);
    free(workers->message);
    workers->list = NULL;
    workers->message = NULL;
}

/* Sessions
 * ------------------------------------------------------------------------------------------- */

/* Who still has a batch: nobody looks at its tasks any more. */
static void note_stuck(struct workers *workers)
{
    const struct tasks *tasks = workers->tasks;
    for (uint32_t i = 0; i < tasks->live_count; i++) {
        uint64_t word = tasks_word(tasks, i);
        uint32_t w = board_process_of(word);
        if (board_state_of(word) == BOARD_TAKEN && w < workers->options.count &&
            workers->list[w].stuck_ns == 0)
            workers->list[w].stuck_ns = clock_now_ns();
    }
}

void workers_end_session(struct workers *workers)
{
    tasks_withdraw(workers->tasks);
    note_stuck(workers);
    for (uint32_t w = 0; w < workers->options.count; w++)
        workers->list[w].begun = false;
}

void workers_begin_session(struct workers *workers)
{
    workers->session++;
}

static enum status tell_session(const struct workers *workers, uint32_t w, struct error *err)
{
    const struct tasks *tasks = workers->tasks;
    int socket = workers->list[w].process.socket;
    struct board_message *message = workers->message;
    const int fds[BOARD_MOST_FDS] = {tasks->board_fd, tasks->token_fd, tasks->done_fd};
    *message = (struct board_message){.type = BOARD_BEGIN,
                                      .process = w,
                                      .session = workers->session,
                                      .count = tasks->ring_count,
                                      .masks = workers->options.rule.log != NULL,
                                      .shape = workers->shape};
    enum status status = board_send(socket, message, fds, MSG_DONTWAIT, err);
    message->type = BOARD_RING;
    for (uint32_t r = 0; status == STATUS_OK && r < tasks->ring_count; r++) {
        const int ring_fds[BOARD_MOST_FDS] = {tasks->rings[r]->memfd, -1, -1};
        message->count = r;
        status = board_send(socket, message, ring_fds, MSG_DONTWAIT, err);
    }
    return status;
}

bool workers_own(const struct workers *workers, pid_t pid)
{
    for (uint32_t w = 0; w < workers->options.count; w++)
        if (workers->list[w].process.pid == pid)
            return true;
    return false;
}

void workers_note_done(struct workers *workers, uint32_t w)
{
    workers->dead_count = 0;
    if (w < workers->options.count)
        workers->list[w].deaths = 0;
}

/* What they say
 * ------------------------------------------------------------------------------------------- */

/* A sample, or a batch, that process `w` cannot do. */
static enum status report(const struct workers *workers, uint32_t w,
                          const struct board_message *message, struct error *err)
{
    struct text where = {0};
    struct error said;
    tasks_append_sample(workers->tasks, message->task, message->sample, &where);
    error_set(&said, STATUS_INVALID, "delivery.transform failed%s: %s",
              where.data ? where.data : "", message->text);
    text_done(&where);
    if (message->type == BOARD_BAD)
        return tasks_note_bad(workers->tasks, w, message->task, message->sample, &said, err);
    *err = said;
    return STATUS_INVALID;
}

/* What comes from a process, until there is nothing. */
static enum status hear(struct workers *workers, uint32_t w, bool *active, struct error *err)
{
    struct worker *worker = &workers->list[w];
    struct board_message *message = workers->message;
    enum status status;
    struct error heard;
    while ((status = board_receive(worker->process.socket, message, NULL, MSG_DONTWAIT, &heard)) ==
           STATUS_OK) {
        *active = true;
        if (message->type == BOARD_HELLO) {
            worker->process.ready = true;
            worker->stuck_ns = 0;
        }
        bool is_report = message->type == BOARD_TROUBLE || message->type == BOARD_BAD;
        if (is_report && message->session == workers->session && workers->tasks->board &&
            (status = report(workers, w, message, err)) != STATUS_OK)
            return status;
    }
    /* One that has ended may have left its socket with what it started. */
    if (status == STATUS_LOST ||
        (status == STATUS_TIMEOUT && transform_process_has_ended(&worker->process))) {
        workers_give_up(workers, w, 0);
        status = STATUS_TIMEOUT;
    }
    return status == STATUS_TIMEOUT ? STATUS_OK : error_set(err, status, "%s", heard.message);
}

/* The clock
 * ------------------------------------------------------------------------------------------- */

static void warn(const struct workers *workers, struct worker *worker, const struct task *task)
{
    struct text which = {0};
    tasks_append(workers->tasks, task, &which);
    fprintf(stderr,
            "penstock-reader: %s: a process of delivery.transform (pid %d) has had %s for %.0f s; "
            "after %.0f s it is started again (delivery.transform.timeout)\n",
            workers->options.who, (int)worker->process.pid, which.data ? which.data : "a batch",
            (double)warning_ns / 1e9, (double)workers->options.timeout_ns / 1e9);
    text_done(&which);
    worker->warned = true;
}

/* Who has had a batch for too long. */
static void check_tasks(struct workers *workers, uint64_t now_ns)
{
    const struct tasks *tasks = workers->tasks;
    for (uint32_t i = 0; i < tasks->live_count; i++) {
        struct task *task = &tasks->all[tasks->live[i]];
        uint64_t word = tasks_word(tasks, i);
        uint32_t w = board_process_of(word);
        if (board_state_of(word) != BOARD_TAKEN || w >= workers->options.count ||
            workers->list[w].gone_ns > 0)
            continue;
        if (task->since_ns == 0)
            task->since_ns = now_ns;
        uint64_t held_ns = now_ns - task->since_ns;
        if (held_ns > warning_ns && !workers->list[w].warned)
            warn(workers, &workers->list[w], task);
        if (held_ns > workers->options.timeout_ns)
            workers_give_up(workers, w, ENDING_HUNG);
    }
}

static enum status check_times(struct workers *workers, struct error *err)
{
    const uint64_t now_ns = clock_now_ns(), timeout_ns = workers->options.timeout_ns;
    check_tasks(workers, now_ns);
    for (uint32_t w = 0; w < workers->options.count; w++) {
        const struct worker *worker = &workers->list[w];
        if (worker->gone_ns > 0)
            continue;
        if (worker->stuck_ns > 0 && now_ns > worker->stuck_ns + timeout_ns)
            workers_give_up(workers, w, ENDING_HUNG);
        else if (!worker->process.ready && now_ns > worker->start_ns + timeout_ns)
            return error_set(err, STATUS_TIMEOUT,
                             "a process of delivery.transform was not ready after %.0f s "
                             "(delivery.transform.timeout): does '%s' call penstock.transform?",
                             (double)timeout_ns / 1e9,
                             text_shown(workers->options.command.text).text);
    }
    return STATUS_OK;
}

/* Those that are ready and do not know of the session yet. */
static enum status tell_new(struct workers *workers, uint32_t w, struct error *err)
{
    struct worker *worker = &workers->list[w];
    if (!workers->tasks->board || !worker->process.ready || worker->begun)
        return STATUS_OK;
    enum status status = tell_session(workers, w, err);
    worker->begun = true;
    if (status == STATUS_TIMEOUT)
        workers_give_up(workers, w, ENDING_DEAF);
    /* hear() finds one that is lost */
    return status == STATUS_LOST || status == STATUS_TIMEOUT ? STATUS_OK : status;
}

/* On a busy machine a start takes milliseconds, so messages move before the next one. */
static enum status start_again(struct workers *workers, uint32_t w, bool *active, struct error *err)
{
    struct worker *worker = &workers->list[w];
    worker->starts = false;
    *active = true;
    return transform_process_start(&workers->options.command, &worker->process, err);
}

enum status workers_look(struct workers *workers, bool *active, struct error *err)
{
    enum status status = STATUS_OK;
    bool started = false;
    for (uint32_t w = 0; status == STATUS_OK && w < workers->options.count; w++) {
        struct worker *worker = &workers->list[w];
        if (worker->starts && !started) {
            status = start_again(workers, w, active, err);
            started = true;
        } else if (worker->starts)
            continue;
        else if (worker->gone_ns > 0)
            status = workers_look_at_gone(workers, w, active, err);
        else
            status = hear(workers, w, active, err);
        if (status == STATUS_OK && !worker->starts && worker->gone_ns == 0)
            status = tell_new(workers, w, err);
    }
    return status == STATUS_OK ? check_times(workers, err) : status;
}
