/* See rates.h. What threads waited for a processor is in /proc/self/task/.../schedstat, where the
 * kernel has it: then processors are known to be short, whoever takes them. */
#include "rates.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "job_internal.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_THREADS = 16, MILLION = 1000000 };

/* Processor time, in ns. */
struct processor {
    uint64_t all;        /* of this process */
    uint64_t main;       /* of the main thread */
    uint64_t ran, delay; /* of the threads looked at: ran, and waited for a processor */
};

/* What is counted since the start. */
struct counted {
    struct processor processor;
    struct dataset_read_stats read;
    uint64_t busy_ns, rows, moved[2];
    uint64_t now_ns;
};

/* Rank 0: one reader. */
struct link {
    double probed, byte_ns; /* as measured at the start, and of late */
    struct rate_sample sample;
    uint64_t row_ns;
};

struct rates {
    struct job *job;
    int threads[MOST_THREADS]; /* files, the main thread's first */
    int thread_count;
    struct counted before;
    double work_share, run_share; /* of the workers' busy time in which they ran; of the time that
                                   * threads wanted to run */
    double byte_cpu_ns;
    uint64_t moved[2]; /* sent and received bytes */
    uint64_t waited_ppm;
    double store_bytes_per_ns; /* rank 0: of all readers together */
    struct link links[];       /* [readers], rank 0 */
};

static void open_thread(struct rates *rates, const char *id)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", id);
    int file = rates->thread_count < MOST_THREADS ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0)
        rates->threads[rates->thread_count++] = file;
}

static void open_threads(struct rates *rates)
{
    char me[24];
    snprintf(me, sizeof me, "%ld", (long)getpid());
    open_thread(rates, me);
    DIR *folder = rates->thread_count ? opendir("/proc/self/task") : NULL;
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, me) != 0)
            open_thread(rates, entry->d_name);
    if (folder)
        closedir(folder);
}

static struct processor read_processor(const struct rates *rates)
{
    struct processor processor = {.all = clock_process_cpu_ns()};
    for (int i = 0; i < rates->thread_count; i++) {
        char text[96];
        ssize_t length = pread(rates->threads[i], text, sizeof text - 1, 0);
        unsigned long long ran = 0, delay = 0;
        text[length > 0 ? length : 0] = 0;
        if (sscanf(text, "%llu %llu", &ran, &delay) != 2)
            continue;
        processor.main = i == 0 ? ran : processor.main;
        processor.ran += ran;
        processor.delay += delay;
    }
    return processor;
}

static uint64_t row_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW)
            bytes += dataset->fields[f].sample_bytes * dataset->row_length;
    return bytes ? bytes : 1;
}

static struct counted count(const struct rates *rates)
{
    struct pool_stats stats;
    pool_stats(rates->job->pool, &stats);
    return (struct counted){.processor = read_processor(rates),
                            .read = stats.read,
                            .busy_ns = stats.busy_ns,
                            .rows = stats.read.decoded_bytes / row_bytes(rates->job->dataset),
                            .moved = {rates->moved[0], rates->moved[1]},
                            .now_ns = clock_now_ns()};
}

enum status rates_new(struct job *job, struct rates **ret_rates, struct error *err)
{
    size_t readers = job->assigner ? (size_t)job->comm.size : 0;
    struct rates *rates = calloc(1, sizeof *rates + readers * sizeof rates->links[0]);
    if (!rates)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rates of %zu reader%s", readers,
                         count_plural(readers));
    rates->job = job;
    rates->work_share = rates->run_share = 1;
    for (size_t r = 0; r < readers; r++) {
        struct ways_rates known = assigner_rates(job->assigner, (uint32_t)r);
        rates->links[r].probed = rates->links[r].byte_ns = known.byte_ns;
    }
    open_threads(rates);
    rates->before = count(rates);
    *ret_rates = rates;
    return STATUS_OK;
}

void rates_free(struct rates *rates)
{
    if (!rates)
        return;
    for (int i = 0; i < rates->thread_count; i++)
        close(rates->threads[i]);
    free(rates);
}

void rates_note_moved(struct rates *rates, uint64_t sent_records, uint64_t received_records)
{
    rates->moved[0] += sent_records * rates->job->setup.record_bytes;
    rates->moved[1] += received_records * rates->job->setup.record_bytes;
}

/* --- one reader ------------------------------------------------------------------------------- */

static void approach(double *value, double measured)
{
    *value = *value > 0 ? 0.75 * *value + 0.25 * measured : measured;
}

/* How much of the time in which they want to run threads do run; and what moving takes. */
static void measure_processors(struct rates *rates, const struct counted *now)
{
    const struct counted *before = &rates->before;
    double ran = (double)(now->processor.ran - before->processor.ran);
    double delay = (double)(now->processor.delay - before->processor.delay);
    double all = (double)(now->processor.all - before->processor.all);
    double main = (double)(now->processor.main - before->processor.main);
    double busy = (double)(now->busy_ns - before->busy_ns);
    if (ran + delay > 0)
        approach(&rates->run_share, ran / (ran + delay));
    if (busy > 0 && main > 0 && all > main)
        approach(&rates->work_share, (all - main) / busy < 1 ? (all - main) / busy : 1);
    double moved = (double)(now->moved[0] - before->moved[0] + now->moved[1] - before->moved[1]);
    if (moved > 4e6 && main > 0) /* else the main thread did more than move */
        approach(&rates->byte_cpu_ns, main / moved);
}

struct rate_sample rates_measure(struct rates *rates, uint64_t row_ns, uint64_t exchange_ns)
{
    struct counted now = count(rates);
    const struct counted *before = &rates->before;
    measure_processors(rates, &now);
    uint64_t passed = now.now_ns - before->now_ns;
    uint64_t stored = now.read.stored_bytes - before->read.stored_bytes;
    uint64_t disk = now.read.disk_bytes - before->read.disk_bytes;
    uint64_t memory = now.read.memory_bytes - before->read.memory_bytes;
    uint64_t rows = now.rows - before->rows;
    double workers = pool_worker_count(rates->job->pool);
    struct rate_sample sample = {
        .row_cpu_ns = (uint64_t)((double)row_ns * workers * rates->work_share),
        .byte_cpu_fs = (uint64_t)(rates->byte_cpu_ns * MILLION),
        .cores_milli = (uint64_t)(rates->run_share * (workers + 1) * 1000),
        .moved_bytes = max_u64(now.moved[0] - before->moved[0], now.moved[1] - before->moved[1]),
        .passed_ns = passed,
        .exchange_ppm = passed ? exchange_ns * MILLION / passed : 0,
        .stored_bytes = stored,
        .fetch_ppm = stored + disk ? stored * MILLION / (stored + disk) : 0,
        .row_stored_bytes = rows ? (stored + disk + memory) / rows : 0};
    rates->before = now;
    return sample;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

void rates_note(struct rates *rates, uint32_t reader, const struct rate_sample *sample,
                uint64_t row_ns, uint64_t waited_ppm)
{
    rates->links[reader].sample = *sample;
    rates->links[reader].row_ns = row_ns;
    rates->waited_ppm = waited_ppm;
}

/* What the links carried of late: the limit, or less. What is not confirmed is forgotten. */
static void learn_links(struct rates *rates)
{
    uint64_t least_ppm = UINT64_MAX;
    if (rates->job->comm.node_size == rates->job->comm.size)
        return;
    for (int r = 0; r < rates->job->comm.size; r++)
        least_ppm = min_u64(least_ppm, rates->links[r].sample.exchange_ppm);
    for (int r = 0; r < rates->job->comm.size; r++) {
        struct link *link = &rates->links[r];
        if (link->sample.moved_bytes == 0 || link->sample.passed_ns == 0)
            continue;
        double seen = (double)link->sample.passed_ns / (double)link->sample.moved_bytes;
        if (least_ppm > MILLION / 2)
            link->byte_ns = 1 / (0.75 / link->byte_ns + 0.25 / seen);
        else if (seen < link->byte_ns)
            link->byte_ns = seen;
        link->byte_ns += (link->probed - link->byte_ns) / 100;
    }
}

/* The time of the store for a row, all readers together. */
static double store_row_ns(struct rates *rates)
{
    double bytes = 0, passed = 0, row = 0, share = 0;
    int readers = rates->job->comm.size;
    for (int r = 0; r < readers; r++) {
        const struct rate_sample *sample = &rates->links[r].sample;
        bytes += (double)sample->stored_bytes;
        passed += (double)sample->passed_ns / readers;
        row += (double)sample->row_stored_bytes / readers;
        share += (double)sample->fetch_ppm / MILLION / readers;
    }
    if (bytes == 0 || passed == 0)
        return 0;
    double rate = bytes / passed;
    if (rate > rates->store_bytes_per_ns || rates->waited_ppm > MILLION / 3)
        approach(&rates->store_bytes_per_ns, rate);
    return row * share / rates->store_bytes_per_ns;
}

void rates_tell(struct rates *rates)
{
    struct assigner *assigner = rates->job->assigner;
    learn_links(rates);
    for (int r = 0; r < rates->job->comm.size; r++) {
        const struct link *link = &rates->links[r];
        struct ways_rates known = {.row_ns = (double)link->row_ns,
                                   .row_cpu_ns = (double)link->sample.row_cpu_ns,
                                   .byte_ns = link->byte_ns,
                                   .byte_cpu_ns = (double)link->sample.byte_cpu_fs / MILLION,
                                   .cores = (double)link->sample.cores_milli / 1000};
        assigner_note_rates(assigner, (uint32_t)r, &known);
    }
    if (rates->job->dataset->remote)
        assigner_note_store(assigner, store_row_ns(rates));
}

/* --- links, at the start ---------------------------------------------------------------------- */

enum { PIECE_BYTES = 256 << 10, UNDER_WAY = 4, LEAST_PIECES = 4, MOST_PIECES = 64, TRIES = 3 };
static const uint64_t ENOUGH_NS = 8000000;
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
