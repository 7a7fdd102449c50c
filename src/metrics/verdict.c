/* See verdict.h. */
#include "metrics/verdict.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const double second_ns = 1e9;
static const double no_wait = 0.01; /* a share below this is none */

double metrics_seconds(const struct metrics_pair *pair)
{
    return pair->after->now_ms > pair->before->now_ms
               ? (double)(pair->after->now_ms - pair->before->now_ms) / 1000
               : 0;
}

double metrics_rate(const struct metrics_pair *pair, uint64_t before, uint64_t after)
{
    double seconds = metrics_seconds(pair);
    return seconds > 0 && after > before ? (double)(after - before) / seconds : 0;
}

static double within_1(double share)
{
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static const struct metrics_trainer *earlier(const struct metrics_pair *pair, uint32_t rank)
{
    for (uint32_t i = 0; i < pair->before->trainer_count; i++)
        if (pair->before->trainers[i].rank == rank)
            return &pair->before->trainers[i];
    return NULL;
}

double metrics_wait_share(const struct metrics_pair *pair, uint32_t index)
{
    static const struct metrics_trainer none;
    const struct metrics_trainer *now = &pair->after->trainers[index];
    const struct metrics_trainer *then = earlier(pair, now->rank);
    if (!then)
        then = &none;
    if (now->values.waiting && now->values.batches == then->values.batches)
        return metrics_seconds(pair) > 0 ? 1 : 0;
    return within_1(metrics_rate(pair, then->values.wait, now->values.wait) / second_ns);
}

double metrics_blocked_share(const struct metrics_pair *pair, enum metrics_cause cause)
{
    double rate = 0;
    switch (cause) {
    case CAUSE_STORAGE:
        rate = METRICS_RATE(pair, blocked_storage_ns);
        break;
    case CAUSE_DECODE:
        rate = METRICS_RATE(pair, blocked_decode_ns);
        break;
    case CAUSE_MEMORY:
        rate = METRICS_RATE(pair, blocked_memory_ns);
        break;
    case CAUSE_NETWORK:
        rate = METRICS_RATE(pair, blocked_network_ns);
        break;
    case CAUSE_TRANSFORM:
        rate = METRICS_RATE(pair, blocked_transform_ns);
        break;
    case CAUSE_TRAINERS:
        rate = METRICS_RATE(pair, blocked_trainers_ns);
        break;
    case CAUSE_PLANNING:
        rate = METRICS_RATE(pair, blocked_planning_ns);
        break;
    case CAUSE_COUNT:
        break;
    }
    return within_1(rate / second_ns);
}

double metrics_busy_share(const struct metrics_pair *pair)
{
    uint64_t workers = pair->after->values.workers;
    double rate = METRICS_RATE(pair, read_ns) + METRICS_RATE(pair, decode_ns) +
                  METRICS_RATE(pair, copy_ns) + METRICS_RATE(pair, plan_ns);
    return workers ? within_1(rate / second_ns / (double)workers) : 0;
}

const char *metrics_cause_name(enum metrics_cause cause)
{
    static const char *const names[] = {"storage",   "decode",   "memory",  "network",
                                        "transform", "trainers", "planning"};
    return cause < CAUSE_COUNT ? names[cause] : "nothing";
}

/* What bounds the run: of the network's shares the least counts, as a reader that waits for the
 * slowest one's rows takes that for the network; of all others the most. *ret_reader has the most.
 */
static enum metrics_cause find_cause(const struct metrics_pair *pairs, size_t count,
                                     size_t *ret_reader)
{
    enum metrics_cause most = CAUSE_COUNT;
    double most_share = 0;
    for (int c = 0; c < CAUSE_COUNT; c++) {
        double share = c == CAUSE_NETWORK ? 1 : 0;
        size_t reader = 0;
        for (size_t r = 0; r < count; r++) {
            double here = metrics_blocked_share(&pairs[r], (enum metrics_cause)c);
            if (c == CAUSE_NETWORK ? here < share : here > share) {
                share = here;
                reader = r;
            }
        }
        if (share > most_share) {
            most_share = share;
            most = (enum metrics_cause)c;
            *ret_reader = reader;
        }
    }
    return most;
}

/* Decoding is the limit only where the workers do little else and are never idle. */
static void advise_threads(const struct metrics_pair *pairs, size_t count, size_t reader,
                           uint32_t cores, struct metrics_verdict *verdict, struct text *text)
{
    const double busy_enough = 0.8, most_share = 0.9;
    if (metrics_busy_share(&pairs[reader]) < busy_enough)
        return;
    double share = verdict->wait_share < most_share ? verdict->wait_share : most_share;
    const char *node = pairs[reader].after->node;
    uint64_t workers = pairs[reader].after->values.workers, used = 0, readers = 0;
    uint64_t more = (uint64_t)((double)workers * share / (1 - share) + 0.999);
    for (size_t r = 0; r < count; r++)
        if (strcmp(pairs[r].after->node, node) == 0) {
            used += pairs[r].after->values.workers + pairs[r].after->trainer_count;
            readers++;
        }
    if (more == 0)
        return;
    if (used + more * readers <= cores) {
        verdict->more_threads = (uint32_t)more;
        text_append(text, "; %" PRIu64 " more thread%s a reader would do (readers.threads)", more,
                    count_plural(more));
    } else {
        text_append(text,
                    "; that takes about %" PRIu64
                    " more thread%s a reader, for which its node has no cores",
                    more, count_plural(more));
    }
}

/* As many processes of the transform as are busy now, for the time in which training does not wait.
 */
static void advise_processes(const struct metrics_pair *pair, struct metrics_verdict *verdict,
                             struct text *text)
{
    const double most_share = 0.9;
    double share = verdict->wait_share < most_share ? verdict->wait_share : most_share;
    double busy = METRICS_RATE(pair, transform_ns) / second_ns;
    if (busy > 0.5)
        text_append(text, "; about %.0f processes a reader would do (delivery.transform.processes)",
                    busy / (1 - share) + 0.999);
}

/* Who holds up all: the connected trainer with batches at hand whose last release is the longest
 * ago, by the clock of its node. */
static bool find_straggler(const struct metrics_pair *pairs, size_t count, uint32_t *ret_rank)
{
    uint64_t longest_ms = 0;
    bool found = false;
    for (size_t r = 0; r < count; r++)
        for (uint32_t t = 0; t < pairs[r].after->trainer_count; t++) {
            const struct metrics_trainer *trainer = &pairs[r].after->trainers[t];
            bool has_work = trainer->connected && !trainer->values.waiting &&
                            trainer->values.ready + trainer->values.held > 0;
            uint64_t now_ms = pairs[r].after->now_ms, released_ms = trainer->values.released_ms;
            uint64_t age_ms = now_ms > released_ms ? now_ms - released_ms : 0;
            if (has_work && (!found || age_ms > longest_ms)) {
                found = true;
                longest_ms = age_ms;
                *ret_rank = trainer->rank;
            }
        }
    return found;
}

static void advise(const struct metrics_pair *pairs, size_t count, size_t reader, uint32_t cores,
                   struct metrics_verdict *verdict, struct text *text)
{
    double store = 0, retries = 0;
    uint32_t rank;
    for (size_t r = 0; r < count; r++) {
        store += METRICS_RATE(&pairs[r], stored_bytes);
        retries += METRICS_RATE(&pairs[r], store_retries) * metrics_seconds(&pairs[r]);
    }
    if (verdict->cause == CAUSE_DECODE)
        advise_threads(pairs, count, reader, cores, verdict, text);
    if (verdict->cause == CAUSE_TRANSFORM)
        advise_processes(&pairs[reader], verdict, text);
    if (verdict->cause == CAUSE_STORAGE)
        text_append(text, "; the store gives %s/s", size_format((uint64_t)store).text);
    if (verdict->cause == CAUSE_STORAGE && retries >= 1)
        text_append(text, ", and %.0f requests were tried again", retries);
    if (verdict->cause == CAUSE_TRAINERS && find_straggler(pairs, count, &rank))
        text_append(text, "; trainer %" PRIu32 " keeps the others waiting", rank);
}

static void find_most_waiting(const struct metrics_pair *pairs, size_t count,
                              struct metrics_verdict *verdict)
{
    for (size_t r = 0; r < count; r++)
        for (uint32_t t = 0; t < pairs[r].after->trainer_count; t++) {
            double share = metrics_wait_share(&pairs[r], t);
            if (share > verdict->wait_share) {
                verdict->wait_share = share;
                verdict->rank = pairs[r].after->trainers[t].rank;
            }
        }
}

static bool any_serves(const struct metrics_pair *pairs, size_t count)
{
    for (size_t r = 0; r < count; r++)
        if (pairs[r].after->state == METRICS_SERVING)
            return true;
    return false;
}

struct metrics_verdict metrics_judge(const struct metrics_pair *pairs, size_t count, uint32_t cores)
{
    struct metrics_verdict verdict = {.cause = CAUSE_COUNT};
    struct text text = {0};
    size_t reader = 0;
    double seconds = 0;
    for (size_t r = 0; r < count; r++)
        seconds = metrics_seconds(&pairs[r]) > seconds ? metrics_seconds(&pairs[r]) : seconds;
    find_most_waiting(pairs, count, &verdict);
    if (!any_serves(pairs, count)) {
        text_append(&text, "trainers are waited for");
    } else if (seconds <= 0) {
        text_append(&text, "nothing has been written for a while: the readers are held up");
    } else if (verdict.wait_share < no_wait) {
        text_append(&text, "training does not wait for data");
    } else {
        verdict.cause = find_cause(pairs, count, &reader);
        text_append(&text, "training waits %.0f%% of the time: %s", 100 * verdict.wait_share,
                    metrics_cause_name(verdict.cause));
        advise(pairs, count, reader, cores, &verdict, &text);
    }
    snprintf(verdict.text, sizeof verdict.text, "%s", text.data);
    text_done(&text);
    return verdict;
}
