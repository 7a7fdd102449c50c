/* See pace.h. */
#include "rounds/pace.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"

#include <stdlib.h>

enum {
    LEAST_PATIENCE = 16, /* samples */
    MOST_PATIENCE = 4096,
};

struct pace_sample {
    uint64_t row_ns;     /* time in one thread / threads, of late; 0: none read yet */
    uint64_t waited_for; /* whether rounds waited for its reads, of late */
};
enum { SAMPLE_NUMBERS = sizeof(struct pace_sample) / sizeof(uint64_t) };

struct pace {
    const struct job *job;
    const struct session *session;
    uint64_t posted, passed; /* meetings */
    bool has_news;           /* for the assigners, in `all` */
    uint64_t interval;       /* rounds between two: as many as have PACE_ROUNDS steps, or stripes */
    MPI_Request met, gathered; /* of the last meeting: all are there; rank 0 has their samples */
    struct pace_sample mine;
    uint64_t seen_rows, seen_ns;   /* as of the last pace sample */
    double recent_rows, recent_ns; /* decaying sums */
    uint64_t now_ns, sample_ns;    /* of the last call, of the last pace sample */
    uint64_t waited_ns;            /* for reads, since the last pace sample */
    uint32_t patience;             /* samples until it is forgotten that it was waited for */
    uint32_t next_patience;
    struct pace_sample all[]; /* [readers] on rank 0 */
};

_Static_assert(sizeof(struct pace_sample) == SAMPLE_NUMBERS * sizeof(uint64_t), "sent as numbers");

enum status pace_new(const struct session *session, struct pace **ret_pace, struct error *err)
{
    const struct job *job = session->job;
    size_t samples = job->comm.rank == 0 ? (size_t)job->comm.size : 0;
    struct pace *pace = calloc(1, sizeof *pace + samples * sizeof pace->all[0]);
    if (!pace)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the pace of %d reader%s",
                         job->comm.size, count_plural((uint64_t)job->comm.size));
    pace->job = job;
    pace->session = session;
    pace->interval = max_u64(PACE_ROUNDS / job->setup.shape.steps_per_round, 1);
    pace->met = pace->gathered = MPI_REQUEST_NULL;
    pace->next_patience = LEAST_PATIENCE / 2; /* doubled as it is first used */
    pace->now_ns = pace->sample_ns = clock_now_ns();
    *ret_pace = pace;
    return STATUS_OK;
}

void pace_free(struct pace *pace)
{
    free(pace);
}

/* On average. */
static uint64_t decoded_row_bytes(const struct job *job)
{
    const struct dataset *dataset = job->dataset;
    uint64_t bytes = job->setup.demand.ragged.mean_row_bytes;
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW)
            bytes += dataset->fields[f].sample_bytes * dataset->row_length;
    return max_u64(bytes, 1); /* ragged fields may have no item at all */
}

/* How long a row took this reader of late: older rows count less and less. */
static uint64_t row_ns(struct pace *pace)
{
    struct pool_stats stats;
    pool_stats(pace->job->pool, &stats);
    uint64_t ns = stats.read.read_ns + stats.read.decode_ns;
    uint64_t rows = stats.read.decoded_bytes / decoded_row_bytes(pace->job);
    if (rows > pace->seen_rows) {
        pace->recent_rows = 0.75 * pace->recent_rows + (double)(rows - pace->seen_rows);
        pace->recent_ns = 0.75 * pace->recent_ns + (double)(ns - pace->seen_ns);
        pace->seen_rows = rows;
        pace->seen_ns = ns;
    }
    if (rows == 0)
        return 0;
    double workers = pool_worker_count(pace->job->pool);
    return max_u64((uint64_t)(pace->recent_ns / pace->recent_rows / workers), 1);
}

/* Whether rounds waited for this reader's reads in more than a tenth of the time since the last
 * pace sample, or of one of those before: a reader that has been relieved is not to be burdened
 * again at once, and each time that it falls behind again, twice as late. */
static bool note_waits(struct pace *pace)
{
    bool waited = pace->waited_ns > (pace->now_ns - pace->sample_ns) / 10;
    if (waited && pace->patience == 0 && pace->next_patience < MOST_PATIENCE)
        pace->next_patience *= 2;
    if (waited)
        pace->patience = pace->next_patience;
    else if (pace->patience > 0)
        pace->patience--;
    pace->sample_ns = pace->now_ns;
    pace->waited_ns = 0;
    return pace->patience > 0;
}

static void tell_assigner(struct pace *pace)
{
    const struct partition_assigner *partitions = pace->session->assigners;
    for (uint32_t r = 0; partitions && r < (uint32_t)pace->job->comm.size; r++) {
        const struct partition_assigner *partition = &partitions[job_partition_of(pace->job, r)];
        assigner_note_pace(partition->assigner, partition->numbers[r], pace->all[r].row_ns,
                           pace->all[r].waited_for > 0);
    }
}

void pace_progress(struct pace *pace, uint64_t published, bool waits_for_reads, bool is_assigning)
{
    uint64_t now_ns = clock_now_ns();
    pace->waited_ns += waits_for_reads ? now_ns - pace->now_ns : 0;
    pace->now_ns = now_ns;
    if (pace->posted > pace->passed) {
        bool have_met = comm_test(&pace->job->comm, &pace->met);
        if (!comm_test(&pace->job->comm, &pace->gathered) || !have_met)
            return;
        pace->passed++;
        pace->has_news = true;
    }
    if (pace->has_news && !is_assigning) {
        tell_assigner(pace);
        pace->has_news = false;
    }
    if (pace->posted < published / pace->interval) {
        pace->mine = (struct pace_sample){row_ns(pace), note_waits(pace)};
        pace->has_news = false; /* newer ones come to the same place */
        MPI_Igather(&pace->mine, SAMPLE_NUMBERS, MPI_UINT64_T, pace->all, SAMPLE_NUMBERS,
                    MPI_UINT64_T, 0, pace->job->comm.pace, &pace->gathered);
        MPI_Ibarrier(pace->job->comm.pace, &pace->met);
        pace->posted++;
    }
}

bool pace_allows(const struct pace *pace, uint64_t serial)
{
    return serial < pace->passed * pace->interval + UINT64_C(2) * PACE_ROUNDS;
}

bool pace_settled(const struct pace *pace, uint64_t published)
{
    return pace->passed == published / pace->interval;
}
