/* See rates.h. */
#include "rates.h"

#include "base/clock.h"
#include "base/size.h"
#include "job_internal.h"
#include "pace.h"

#include <assert.h>
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
    double rounds = samples / (double)plan->global_batch * job->setup.shape.stripes_per_step /
                    job->setup.shape.steps_per_round;
    return (uint32_t)fmin(rounds / PACE_ROUNDS, MOST_AHEAD) + 1;
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

/* --- links, at the start ---------------------------------------------------------------------- */

enum { PIECE_BYTES = 256 << 10, UNDER_WAY = 4, LEAST_PIECES = 4, MOST_PIECES = 256, TRIES = 3 };
static const uint64_t ENOUGH_NS = 30000000;
static const double NO_LINK_BYTE_NS = 1e-3;

/* Sends pieces to the reader `shift` ranks further, and receives as many. */
static void move_pieces(const struct job *job, int shift, unsigned char *memory, int pieces)
{
    const struct comm *comm = &job->comm;
    int to = (comm->rank + shift) % comm->size;
    int from = (comm->rank - shift + comm->size) % comm->size;
    MPI_Request requests[UNDER_WAY][2];
    for (int piece = 0; piece < pieces + UNDER_WAY; piece++) {
        int lane = piece % UNDER_WAY;
        if (piece >= UNDER_WAY) {
            comm_wait(comm, &requests[lane][0]);
            comm_wait(comm, &requests[lane][1]);
        }
        if (piece >= pieces)
            continue;
        MPI_Irecv(memory + (size_t)(lane + 1) * PIECE_BYTES, PIECE_BYTES, MPI_BYTE, from, piece,
                  comm->pace, &requests[lane][0]);
        MPI_Isend(memory, PIECE_BYTES, MPI_BYTE, to, piece, comm->pace, &requests[lane][1]);
    }
}

/* Collective: how long a byte takes, in more and more bytes until that takes long enough to be
 * measured. Connections are made by the first of them. A try that something else disturbed does not
 * count: the shortest does. */
static double probe_link(struct job *job, unsigned char *memory)
{
    const struct comm *comm = &job->comm;
    /* The same on all readers; on another node, where ranks are in blocks. */
    int shift = (int)job_reduce(comm, (uint64_t)comm->node_size, MPI_MAX, comm->world);
    double byte_ns = 0;
    uint64_t longest_ns = 0;
    for (int pieces = LEAST_PIECES, tries = 0; tries < TRIES;) {
        MPI_Request request;
        MPI_Ibarrier(comm->world, &request);
        comm_wait(comm, &request);
        uint64_t start_ns = clock_now_ns();
        move_pieces(job, shift, memory, pieces);
        uint64_t took_ns = clock_now_ns() - start_ns;
        double took = (double)took_ns / ((double)pieces * PIECE_BYTES);
        longest_ns = job_reduce(comm, took_ns, MPI_MAX, comm->world);
        if (longest_ns < ENOUGH_NS && pieces < MOST_PIECES) {
            pieces *= 2;
            continue;
        }
        byte_ns = tries++ == 0 || took < byte_ns ? took : byte_ns;
    }
    return byte_ns;
}

enum status rates_probe_links(struct job *job, struct error *err)
{
    const struct comm *comm = &job->comm;
    unsigned char *memory = calloc(UNDER_WAY + 1, PIECE_BYTES);
    double *all = calloc((size_t)comm->size, sizeof *all);
    enum status status = STATUS_OK;
    if (!memory || !all)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to measure the links");
    status = comm_agree(comm, status, err);
    if (status == STATUS_OK) {
        /* Within a node there is no link: sending takes processor time alone. */
        double byte_ns = comm->node_size == comm->size ? NO_LINK_BYTE_NS : probe_link(job, memory);
        MPI_Request request;
        MPI_Igather(&byte_ns, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, comm->world, &request);
        comm_wait(comm, &request);
    }
    assert(status != STATUS_OK || all); /* comm_agree() says OK only where every rank has it */
    for (int r = 0; status == STATUS_OK && job->assigner && r < comm->size; r++)
        assigner_note_rates(job->assigner, (uint32_t)r, &(struct ways_rates){.byte_ns = all[r]});
    free(all);
    free(memory);
    return status;
}
