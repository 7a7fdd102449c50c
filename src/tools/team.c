/* See team.h. */
#include "tools/team.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/progress.h"
#include "base/size.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024 };

struct match {
    const struct team *team;
    _Atomic uint64_t next, done;
    _Atomic uint32_t running;
    _Atomic bool stopped;
    pthread_mutex_t error_mutex;
    struct error error; /* the first one */
};

static enum status work(struct match *match, void *state, struct error *err)
{
    const struct team *team = match->team;
    enum status status = STATUS_OK;
    while (!status && !match->stopped) {
        uint64_t number = match->next++;
        if (number >= team->work_count)
            break;
        status = team->run(team->argument, state, number, err);
        match->done += status == STATUS_OK;
    }
    return status;
}

static void *play(void *argument)
{
    struct match *match = argument;
    struct error err;
    void *state = NULL;
    error_clear(&err);
    enum status status = match->team->start(match->team->argument, &state, &err);
    if (!status) {
        status = work(match, state, &err);
        match->team->stop(match->team->argument, state);
    }
    if (status) {
        pthread_mutex_lock(&match->error_mutex);
        if (match->error.status == STATUS_OK)
            match->error = err;
        pthread_mutex_unlock(&match->error_mutex);
        match->stopped = true;
    }
    match->running--;
    return NULL;
}

static void watch(struct match *match)
{
    const struct team *team = match->team;
    struct progress progress;
    progress_init(&progress, team->label, team->unit, team->work_count);
    for (uint64_t sleep_ns = 100000; match->running > 0;) {
        clock_sleep_ns(sleep_ns);
        sleep_ns = sleep_ns < 20000000 ? 2 * sleep_ns : sleep_ns;
        progress_update(&progress, match->done, team->bytes ? *team->bytes : 0);
    }
    progress_done(&progress);
}

enum status team_run(const struct team *team, struct error *err)
{
    struct match match = {.team = team};
    uint32_t most = min_u32(team->thread_count, MAX_THREADS);
    uint32_t count = (uint32_t)min_u64(most, team->work_count), started = 0;
    pthread_t *threads = calloc(count + 1, sizeof *threads);
    if (!threads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u thread%s", count,
                         count_plural(count));
    pthread_mutex_init(&match.error_mutex, NULL);
    error_clear(&match.error);
    match.running = count;
    while (started < count && pthread_create(&threads[started], NULL, play, &match) == 0)
        started++;
    match.running -= count - started;
    if (started > 0)
        watch(&match);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    pthread_mutex_destroy(&match.error_mutex);
    if (count > 0 && started == 0)
        return error_set(err, STATUS_IO, "cannot start any thread");
    if (match.error.status != STATUS_OK && err)
        *err = match.error;
    return (enum status)match.error.status;
}
