/* The exchange of penstock-reader as an SMPI program: every rank is one reader, all run in one
 * process and one thread of the simulator, and time is simulated.
 *
 *     exchange_smpi SCHEDULE RECORD_BYTES STEPS_PER_ROUND MESSAGE_NS BYTE_PS TEST_NS
 *
 * What it does is what mpi/rounds/exchange.c makes Open MPI do: two rounds in flight; a round
 * posts, to peers in order of rank, one send and one receive where there is something to send and
 * to receive (the schedule of MPI_Ialltoallv, which SMPI's own has not: it sends empty messages,
 * too). Receives cost the MPI thread MESSAGE_NS, and so do sends, and both BYTE_PS a byte; a fourth
 * of a round's is taken at a time, because each point of time at which messages start costs the
 * simulator as much as all messages under way. A round whose last message is in is seen TEST_NS
 * later. Reading, packing and scattering take no time: what is simulated is the exchange alone.
 *
 * Messages have no contents: SMPI folds the buffers (SMPI_SHARED_MALLOC) and copies nothing. Prints
 * one JSON object: the seconds that all rounds took, the slowest rank's.
 */
#include "schedule.h"

#include <fcntl.h>
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LANES = 2, PORTIONS = 4 };

struct lane {
    int count;             /* of requests */
    MPI_Request *requests; /* [2 * ranks] */
    uint64_t *received;    /* [2 * ranks] bytes of a receive, 0 for a send */
};

struct simulation {
    int rank, size;
    const struct schedule_header *header;
    const uint8_t *counts;
    uint64_t record_bytes;
    uint32_t steps_per_round, round_count;
    double message_s, byte_s, test_s;
    unsigned char *payload; /* folded: its contents are nobody's */
    struct lane lanes[LANES];
};

static void fail(const char *what)
{
    fprintf(stderr, "exchange_smpi: error: %s\n", what);
    exit(EXIT_FAILURE);
}

static void pause_s(double seconds)
{
    uint64_t ns = (uint64_t)(seconds * 1e9 + 0.5);
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
    if (ns > 0)
        nanosleep(&time, NULL);
}

static uint64_t message_bytes(const struct simulation *s, uint32_t round, int from, int to)
{
    size_t size = (size_t)s->size;
    const uint8_t *step = s->counts + (size_t)round * s->steps_per_round * size * size;
    uint64_t records = 0;
    for (uint32_t i = 0; i < s->steps_per_round; i++, step += size * size)
        records += step[(size_t)from * size + (size_t)to];
    return records * s->record_bytes;
}

static double message_cost(const struct simulation *s, uint64_t bytes)
{
    return bytes > 0 ? s->message_s + (double)bytes * s->byte_s : 0;
}

static void post_to(struct simulation *s, struct lane *lane, uint32_t round, int peer)
{
    uint64_t out = message_bytes(s, round, s->rank, peer);
    uint64_t in = message_bytes(s, round, peer, s->rank);
    if (out > 0) {
        lane->received[lane->count] = 0;
        MPI_Isend(s->payload, (int)out, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                  &lane->requests[lane->count++]);
    }
    if (in > 0) {
        lane->received[lane->count] = in;
        MPI_Irecv(s->payload, (int)in, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                  &lane->requests[lane->count++]);
    }
}

static void post(struct simulation *s, uint32_t round)
{
    struct lane *lane = &s->lanes[round % LANES];
    lane->count = 0;
    for (int portion = 0; portion < PORTIONS; portion++) {
        int begin = portion * s->size / PORTIONS, end = (portion + 1) * s->size / PORTIONS;
        double seconds = 0;
        for (int peer = begin; peer < end; peer++)
            if (peer != s->rank)
                seconds += message_cost(s, message_bytes(s, round, s->rank, peer));
        pause_s(seconds);
        for (int peer = begin; peer < end; peer++)
            if (peer != s->rank)
                post_to(s, lane, round, peer);
    }
}

/* Waits for a round's messages, one after another: all have to come, so that the order does not
 * matter to when the last is in; and takes the time that their receipt costs. (MPI_Waitall would
 * do, but SMPI's takes time that grows with the square of the requests.) */
static void complete(struct simulation *s, uint32_t round)
{
    struct lane *lane = &s->lanes[round % LANES];
    for (int portion = 0; portion < PORTIONS; portion++) {
        int begin = portion * lane->count / PORTIONS, end = (portion + 1) * lane->count / PORTIONS;
        double seconds = 0;
        for (int i = begin; i < end; i++) {
            MPI_Wait(&lane->requests[i], MPI_STATUS_IGNORE);
            seconds += message_cost(s, lane->received[i]);
        }
        pause_s(seconds);
    }
    pause_s(s->test_s);
}

static double run(struct simulation *s)
{
    uint32_t posted = 0;
    double start = MPI_Wtime();
    for (uint32_t round = 0; round < s->round_count; round++) {
        while (posted < s->round_count && posted < round + LANES)
            post(s, posted++);
        complete(s, round);
    }
    return MPI_Wtime() - start;
}

static void map_schedule(struct simulation *s, const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        fail("the schedule cannot be opened");
    s->header = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (s->header == MAP_FAILED || (size_t)status.st_size < sizeof *s->header ||
        memcmp(s->header->magic, SCHEDULE_MAGIC, sizeof s->header->magic) != 0)
        fail("not a schedule");
    size_t readers = s->header->reader_count;
    if ((size_t)status.st_size < sizeof *s->header + readers * readers * s->header->step_count)
        fail("the schedule is cut short");
    if ((int)readers != s->size)
        fail("the schedule is for another number of readers");
    s->counts = (const uint8_t *)(s->header + 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 7)
        fail("usage: exchange_smpi SCHEDULE RECORD_BYTES STEPS_PER_ROUND MESSAGE_NS BYTE_PS "
             "TEST_NS");
    struct simulation s = {.record_bytes = strtoull(argv[2], NULL, 10),
                           .steps_per_round = (uint32_t)strtoul(argv[3], NULL, 10),
                           .message_s = strtod(argv[4], NULL) * 1e-9,
                           .byte_s = strtod(argv[5], NULL) * 1e-12,
                           .test_s = strtod(argv[6], NULL) * 1e-9};
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.size);
    map_schedule(&s, argv[1]);
    s.round_count = s.header->step_count / s.steps_per_round;
    size_t most_requests = 2 * (size_t)s.size;
    for (int i = 0; i < LANES; i++) {
        s.lanes[i].requests = calloc(most_requests, sizeof(MPI_Request));
        s.lanes[i].received = calloc(most_requests, sizeof(uint64_t));
        if (!s.lanes[i].requests || !s.lanes[i].received)
            fail("out of memory");
    }
    /* A message is at most a whole round of one reader. */
    s.payload = SMPI_SHARED_MALLOC(s.record_bytes * s.steps_per_round * UINT8_MAX);
    if (!s.payload)
        fail("out of memory");

    double seconds = run(&s), slowest = 0;
    MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (s.rank == 0)
        printf("{\"rounds\":%u,\"seconds\":%.9f}\n", s.round_count, slowest);
    SMPI_SHARED_FREE(s.payload);
    for (int i = 0; i < LANES; i++) {
        free(s.lanes[i].received);
        free(s.lanes[i].requests);
    }
    MPI_Finalize();
    return EXIT_SUCCESS;
}
