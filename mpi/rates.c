/* See rates.h. */
#include "rates.h"

#include "base/clock.h"
#include "base/size.h"
#include "job_internal.h"
#include "pace.h"

#include <math.h>
#include <stdlib.h>

/* What is counted since the start. */
struct counted {
    struct dataset_read_stats read;
    uint64_t rows, now_ns;
};

/* Of a meeting, over all readers. */
struct meeting {
    double passed_ns, waited;       /* means; the latter a share: for reads */
    double stored_bytes, read_rows; /* sums */
    double exchange;                /* share of the time, of who waited least for the exchange */
};

struct rates {
    struct job *job;
    struct counted before;
    /* Rank 0 */
    struct meeting meeting;
    double store_bytes_per_ns;      /* of all readers together */
    double stored_bytes, read_rows; /* older ones counting less and less */
    /* Of the meetings since the assigner was told what rounds wait for. The first half of them
     * shows what had been chosen before. */
    uint32_t meetings, most_meetings;
    double passed_ns, reads_ns, links_ns;
};

enum { MOST_AHEAD = 64 /* meetings */ };
static const double LEAST_NS = 1e8; /* of meetings: else they tell of chance */
static const double SMOOTH_NS = 2e8;

static struct counted count(const struct rates *rates, uint64_t rows)
{
    struct pool_stats stats;
    pool_stats(rates->job->pool, &stats);
    return (struct counted){.read = stats.read, .rows = rows, .now_ns = clock_now_ns()};
}

/* Windows are assigned ahead: a change of choices shows only when these are over. */
static uint32_t meetings_ahead(const struct job *job)
{
    const struct plan *plan = &job->setup.plan;
    double samples = (double)job->setup.budget.planned_windows * (double)plan->window_rows *
                     (double)plan->row_length;
    double rounds = samples / (double)plan_mean_samples(plan) * job->setup.shape.stripes_per_step /
                    job->setup.shape.steps_per_round;
    return (uint32_t)fmin(rounds / (double)pace_interval(job), MOST_AHEAD) + 1;
}

enum status rates_new(struct job *job, struct rates **ret_rates, struct error *err)
{
    struct rates *rates = calloc(1, sizeof *rates);
    if (!rates)
        return error_set(err, STATUS_NO_MEMORY, "no memory for rates");
    rates->job = job;
    rates->most_meetings = 2 * meetings_ahead(job);
    rates->before = count(rates, 0);
    *ret_rates = rates;
    return STATUS_OK;
}

void rates_free(struct rates *rates)
{
    free(rates);
}
struct rate_sample rates_measure(struct rates *rates, uint64_t rows_read, uint64_t exchange_ns)
{
    struct counted now = count(rates, rows_read);
    const struct dataset_read_stats *before = &rates->before.read;
    uint64_t chunks = now.read.chunk_count - before->chunk_count;
    uint64_t from_memory = now.read.memory_chunk_count - before->memory_chunk_count;
    uint64_t rows = rows_read > rates->before.rows ? rows_read - rates->before.rows : 0;
    struct rate_sample sample = {.passed_ns = now.now_ns - rates->before.now_ns,
                                 .exchange_ns = exchange_ns,
                                 .stored_bytes = now.read.stored_bytes - before->stored_bytes,
                                 .read_rows = chunks ? rows * (chunks - from_memory) / chunks : 0};
    rates->before = now;
    return sample;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

void rates_note(struct rates *rates, uint32_t reader, const struct rate_sample *sample,
                uint64_t row_ns, double waited)
{
    struct meeting *meeting = &rates->meeting;
    double byte_ns = assigner_ways(rates->job->assigner)->rates[reader].byte_ns;
    double passed = (double)sample->passed_ns, readers = rates->job->comm.size;
    double exchange = passed > 0 ? fmin((double)sample->exchange_ns / passed, 1) : 0;
    struct ways_rates known = {.row_ns = (double)row_ns, .byte_ns = byte_ns};
    assigner_note_rates(rates->job->assigner, reader, &known);
    meeting->passed_ns += passed / readers;
    meeting->waited += waited / readers;
    meeting->stored_bytes += (double)sample->stored_bytes;
    meeting->read_rows += (double)sample->read_rows;
    meeting->exchange = reader == 0 ? exchange : fmin(meeting->exchange, exchange);
}

/* A slower rate is believed only if rounds waited for rows. */
static void learn_store(struct rates *rates)
{
    const struct meeting *meeting = &rates->meeting;
    rates->stored_bytes = 0.9 * rates->stored_bytes + meeting->stored_bytes;
    rates->read_rows = 0.9 * rates->read_rows + meeting->read_rows;
    if (meeting->stored_bytes == 0 || meeting->passed_ns == 0 || rates->read_rows == 0)
        return;
    double seen = meeting->stored_bytes / meeting->passed_ns, *known = &rates->store_bytes_per_ns;
    double weight = meeting->passed_ns / (meeting->passed_ns + SMOOTH_NS);
    if (*known == 0)
        *known = seen;
    else if (seen > *known || meeting->waited > 0.5)
        *known += weight * (seen - *known);
    struct ways_store store = {.row_bytes = rates->stored_bytes / rates->read_rows};
    store.row_ns = store.row_bytes / *known;
    assigner_note_store(rates->job->assigner, &store);
}

static void learn_waits(struct rates *rates)
{
    const struct meeting *meeting = &rates->meeting;
    if (++rates->meetings <= rates->most_meetings / 2)
        return;
    rates->passed_ns += meeting->passed_ns;
    rates->reads_ns += meeting->passed_ns * meeting->waited;
    rates->links_ns += meeting->passed_ns * meeting->exchange;
    if (rates->meetings < rates->most_meetings || rates->passed_ns < LEAST_NS)
        return;
    struct ways_waits waits = {.reads = rates->reads_ns / rates->passed_ns,
                               .links = rates->links_ns / rates->passed_ns};
    assigner_note_waits(rates->job->assigner, &waits);
    rates->passed_ns = rates->reads_ns = rates->links_ns = 0;
    rates->meetings = 0;
}

void rates_tell(struct rates *rates)
{
    if (rates->job->dataset->remote)
        learn_store(rates);
    learn_waits(rates);
    rates->meeting = (struct meeting){0};
}
