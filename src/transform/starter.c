/* See starter.h. */
#include "transform/starter.h"

#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

enum start_state { START_NONE, START_ASKED, START_DONE };

struct start {
    enum start_state state;
    enum status status;
    struct error error;
    struct transform_process process;
};

struct starter {
    const struct transform_command *command;
    uint32_t count;
    pthread_t thread;
    bool runs; /* main thread: there is a thread */
    pthread_mutex_t mutex;
    pthread_cond_t asked;
    bool ends;            /* under the mutex, and so are */
    struct start *starts; /* [count] */
};

enum status starter_new(const struct transform_command *command, uint32_t count,
                        struct starter **ret_starter, struct error *err)
{
    struct starter *starter = calloc(1, sizeof *starter);
    struct start *starts = calloc(count, sizeof *starts);
    if (!starter || !starts) {
        free(starter);
        free(starts);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a transform");
    }
    *starter = (struct starter){.command = command, .count = count, .starts = starts};
    pthread_mutex_init(&starter->mutex, NULL);
    thread_cond_init(&starter->asked);
    *ret_starter = starter;
    return STATUS_OK;
}

void starter_free(struct starter *starter)
{
    if (!starter)
        return;
    pthread_mutex_lock(&starter->mutex);
    starter->ends = true;
    pthread_cond_signal(&starter->asked);
    pthread_mutex_unlock(&starter->mutex);
    if (starter->runs)
        pthread_join(starter->thread, NULL);
    for (uint32_t i = 0; i < starter->count; i++)
        if (starter->starts[i].state == START_DONE && starter->starts[i].status == STATUS_OK)
            transform_process_stop(&starter->starts[i].process, 0);
    pthread_cond_destroy(&starter->asked);
    pthread_mutex_destroy(&starter->mutex);
    free(starter->starts);
    free(starter);
}

static struct start *find_asked(const struct starter *starter)
{
    for (uint32_t i = 0; i < starter->count; i++)
        if (starter->starts[i].state == START_ASKED)
            return &starter->starts[i];
    return NULL;
}

static void *run(void *argument)
{
    struct starter *starter = argument;
    pthread_mutex_lock(&starter->mutex);
    while (!starter->ends) {
        struct start *start = find_asked(starter), made = {.state = START_DONE};
        if (!start) {
            pthread_cond_wait(&starter->asked, &starter->mutex);
            continue;
        }
        pthread_mutex_unlock(&starter->mutex);
        made.status = transform_process_start(starter->command, &made.process, &made.error);
        pthread_mutex_lock(&starter->mutex);
        *start = made;
    }
    pthread_mutex_unlock(&starter->mutex);
    return NULL;
}

enum status starter_ask(struct starter *starter, uint32_t number, struct error *err)
{
    if (!starter->runs)
        starter->runs = thread_start("starter", run, starter, &starter->thread);
    if (!starter->runs)
        return error_set_errno(err, STATUS_IO, "start a thread for a transform");
    pthread_mutex_lock(&starter->mutex);
    starter->starts[number].state = START_ASKED;
    pthread_cond_signal(&starter->asked);
    pthread_mutex_unlock(&starter->mutex);
    return STATUS_OK;
}

bool starter_take(struct starter *starter, uint32_t number, struct transform_process *ret_process,
                  enum status *ret_status, struct error *err)
{
    struct start *start = &starter->starts[number];
    pthread_mutex_lock(&starter->mutex);
    bool is_done = start->state == START_DONE;
    if (is_done && start->status == STATUS_OK)
        *ret_process = start->process;
    else if (is_done && err)
        *err = start->error;
    if (is_done)
        *ret_status = start->status;
    if (is_done)
        start->state = START_NONE;
    pthread_mutex_unlock(&starter->mutex);
    return is_done;
}

bool starter_owns(struct starter *starter, pid_t pid)
{
    bool owns = false;
    pthread_mutex_lock(&starter->mutex);
    for (uint32_t i = 0; i < starter->count; i++)
        owns |= starter->starts[i].state == START_DONE && starter->starts[i].process.pid == pid;
    pthread_mutex_unlock(&starter->mutex);
    return owns;
}
