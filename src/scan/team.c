/* See team.h. */
#include "scan/team.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/thread.h"

#include <stdbool.h>
#include <stdlib.h>

enum { MAX_THREADS = 1024 };

/* Pieces that a thread has to itself, until another one has nothing left. */
struct share {
    uint64_t next, end;
};

struct match {
    const struct team *team;
    uint32_t thread_count;
    _Atomic uint32_t joined;
    pthread_mutex_t share_mutex;
    struct share *shares; /* [thread_count] */
    _Atomic uint64_t done;
    _Atomic uint32_t running;
    _Atomic bool stopped;
    pthread_mutex_t error_mutex;
    struct error error; /* the first one */
};

/* Half of what the thread has that is furthest behind. */
static struct share share_of_others(struct match *match)
{
    struct share *most = match->shares;
    for (uint32_t i = 1; i < match->thread_count; i++)
        if (match->shares[i].end - match->shares[i].next > most->end - most->next)
            most = &match->shares[i];
    uint64_t left = most->end - most->next;
    struct share half = {most->next + left / 2, most->end};
    most->end = half.next;
    return half;
}

static bool take_piece(struct match *match, struct share *own, uint64_t *ret_number)
{
    pthread_mutex_lock(&match->share_mutex);
    if (own->next == own->end)
        *own = share_of_others(match);
    bool has_one = own->next < own->end;
    if (has_one)
        *ret_number = own->next++;
    pthread_mutex_unlock(&match->share_mutex);
    return has_one;
}

static enum status work(struct match *match, void *state, struct error *err)
{
    const struct team *team = match->team;
    struct share *own = &match->shares[match->joined++];
    enum status status = STATUS_OK;
    uint64_t number;
    while (status == STATUS_OK && !match->stopped && take_piece(match, own, &number)) {
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
    if (status == STATUS_OK) {
        status = work(match, state, &err);
        match->team->stop(match->team->argument, state);
    }
    if (status != STATUS_OK) {
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
    match.shares = calloc(count + 1, sizeof *match.shares);
    if (!threads || !match.shares) {
        free(threads);
        free(match.shares);
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u thread%s", count,
                         count_plural(count));
    }
    match.thread_count = count;
    for (uint32_t i = 0; i < count; i++)
        match.shares[i] = (struct share){share_begin(team->work_count, i, count),
                                         share_begin(team->work_count, i + 1, count)};
    pthread_mutex_init(&match.share_mutex, NULL);
    pthread_mutex_init(&match.error_mutex, NULL);
    error_clear(&match.error);
    match.running = count;
    while (started < count && thread_start("team", play, &match, &threads[started]))
        started++;
    match.running -= count - started;
    if (started > 0)
        watch(&match);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(match.shares);
    pthread_mutex_destroy(&match.share_mutex);
    pthread_mutex_destroy(&match.error_mutex);
    if (count > 0 && started == 0)
        return error_set(err, STATUS_IO, "cannot start any thread");
    if (match.error.status != STATUS_OK && err)
        *err = match.error;
    return (enum status)match.error.status;
}
