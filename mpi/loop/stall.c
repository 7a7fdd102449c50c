/* See stall.h. */
#include "loop/stall.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

static const uint64_t second_ns = 1000000000;

/* What a trainer did last. */
struct last {
    uint64_t cursor; /* behind its last release */
    uint64_t since_ns;
};

struct stall {
    const struct session *session;
    uint64_t looked_ns;
    uint64_t cursor;    /* of the stall that was warned of */
    uint64_t next_ns;   /* how long it has to last for the next warning; 0: none was given */
    struct last last[]; /* [trainer_count] */
};

enum status stall_new(const struct session *session, struct stall **ret_stall, struct error *err)
{
    struct stall *stall = calloc(1, sizeof *stall + session->trainer_count * sizeof stall->last[0]);
    if (!stall)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the service");
    stall->session = session;
    *ret_stall = stall;
    return STATUS_OK;
}

void stall_free(struct stall *stall)
{
    free(stall);
}

/* Whether the trainer has batches and is not through. */
static bool is_busy(const struct job *job, uint32_t peer)
{
    return server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CONNECTED &&
           server_trainer_backlog(job->server, peer) > 0 && !server_trainer_done(job->server, peer);
}

static void update(struct stall *stall, uint64_t now_ns)
{
    for (uint32_t peer = 0; peer < stall->session->trainer_count; peer++) {
        struct last *last = &stall->last[peer];
        uint64_t cursor = server_trainer_cursor(stall->session->job->server, peer);
        if (last->since_ns == 0 || cursor != last->cursor || !is_busy(stall->session->job, peer))
            *last = (struct last){.cursor = cursor, .since_ns = now_ns};
    }
}

/* The least cursor of any trainer that has batches, and how long it has not moved. */
static bool find_least(const struct stall *stall, uint64_t now_ns, struct last *ret_least)
{
    struct last least = {.cursor = UINT64_MAX};
    for (uint32_t peer = 0; peer < stall->session->trainer_count; peer++)
        if (is_busy(stall->session->job, peer) && stall->last[peer].cursor < least.cursor)
            least = stall->last[peer];
    *ret_least = (struct last){.cursor = least.cursor, .since_ns = now_ns - least.since_ns};
    return least.cursor != UINT64_MAX;
}

static void describe(const struct stall *stall, const struct last *least, struct error *ret_warning)
{
    enum { MOST_NAMES = 8 };
    const struct job *job = stall->session->job;
    uint32_t named = 0;
    struct text names = {0};
    for (uint32_t peer = 0; peer < stall->session->trainer_count; peer++)
        if (is_busy(job, peer) && stall->last[peer].cursor == least->cursor && named++ < MOST_NAMES)
            text_append(&names, "%s%" PRIu32 " (process %ld)", named > 1 ? ", " : "",
                        server_trainer_rank(job->server, peer),
                        (long)server_trainer_pid(job->server, peer));
    uint64_t steps = job->setup.service.steps_per_epoch;
    error_set(ret_warning, STATUS_TIMEOUT,
              "all wait for trainer %s%s: no batch was released for %" PRIu64
              " s, since epoch %" PRIu64 " step %" PRIu64,
              names.data ? names.data : "", named > MOST_NAMES ? " and more" : "",
              least->since_ns / second_ns, least->cursor / steps, least->cursor % steps);
    text_done(&names);
}

bool stall_look(struct stall *stall, uint64_t now_ns, bool waiting, struct error *ret_warning,
                bool *ret_first)
{
    uint64_t patience_ns = stall->session->job->config.stall_warning_s * second_ns;
    struct last least;
    if (patience_ns == 0 || now_ns - stall->looked_ns < second_ns / 2)
        return false;
    stall->looked_ns = now_ns;
    update(stall, now_ns);
    if (!waiting || !find_least(stall, now_ns, &least))
        return false;
    if (stall->next_ns == 0 || least.cursor != stall->cursor) {
        stall->cursor = least.cursor;
        stall->next_ns = patience_ns;
    }
    if (least.since_ns < stall->next_ns)
        return false;
    *ret_first = stall->next_ns == patience_ns;
    while (stall->next_ns <= least.since_ns)
        stall->next_ns *= 2;
    describe(stall, &least, ret_warning);
    return true;
}
