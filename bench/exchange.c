/* penstock-bench-exchange: the exchange that readers use (mpi/rounds/exchange.h), packed and
 * zero-copy, against a bare MPI_Alltoallv.
 *
 * Every rank sends every other rank messages of a given size, made of records of a given size that
 * lie scattered in a pool ("rows") larger than any cache, and that must end scattered in a ring of
 * batches ("slots"). All variants of one combination of sizes run one after another, and all that
 * several times, so that a machine that is slower for a while is slower for all. Each measurement
 * is one line of JSON on standard output: bytes received by a rank a second, by the slowest rank's
 * time. Run it under mpirun; bench/run.sh exchange makes tables of it.
 *
 * One thread a rank does everything, copies too. A reader has workers that copy while MPI's thread
 * communicates.
 */
#include "rounds/exchange.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/rounds/round.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SIZES = 16,
    LANES = 2,       /* rounds in flight */
    SLOT_ROUNDS = 4, /* of the ring that records end in */
    POOL_BYTES = 192 << 20,
    LEAST_ROUNDS = 4,
    LEAST_ZERO_COPY_BYTES = 4096, /* a message for each smaller record takes minutes */
};

struct arguments {
    uint64_t messages[MAX_SIZES], records[MAX_SIZES];
    size_t message_count, record_count;
    uint64_t repeats, volume_bytes;
};

/* One combination of sizes, and the memory that all its variants use. */
struct scene {
    struct comm comm;
    uint64_t message_bytes, record_bytes;
    uint64_t count;  /* records of a message */
    uint64_t rounds; /* of one measurement */
    unsigned char *pool, *slots;
    unsigned char *send[LANES], *receive[LANES];
    size_t pool_bytes, slots_bytes, staging_bytes;
    uint32_t *sources; /* [pool records] shuffled */
    uint64_t source_count;
    uint32_t *batch_indices;     /* [ranks * count] where a round's records go within its slots */
    int *counts, *displacements; /* in bytes, alike in both directions */
    bool copies;                 /* from rows and to slots; else from buffer to buffer */
    struct exchange *packed, *zero_copy;
};

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

static void shuffle(uint32_t *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = (uint32_t)i;
    for (uint64_t i = count; i > 1; i--) {
        uint64_t j = draw(i);
        uint32_t value = values[i - 1];
        values[i - 1] = values[j];
        values[j] = value;
    }
}

static unsigned char *source(const struct scene *s, uint64_t round, int peer, uint64_t i)
{
    uint64_t at = (round * (uint64_t)s->comm.size + (uint64_t)peer) * s->count + i;
    return s->pool + s->sources[at % s->source_count] * s->record_bytes;
}

static unsigned char *destination(const struct scene *s, uint64_t round, int peer, uint64_t i)
{
    uint64_t records = (uint64_t)s->comm.size * s->count;
    uint64_t batch_index = s->batch_indices[(uint64_t)peer * s->count + i];
    return s->slots + (round % SLOT_ROUNDS * records + batch_index) * s->record_bytes;
}

static void pack(const struct scene *s, uint64_t round, unsigned char *buffer)
{
    for (int peer = 0; peer < s->comm.size; peer++)
        for (uint64_t i = 0; peer != s->comm.rank && i < s->count; i++)
            memcpy(buffer + (uint64_t)s->displacements[peer] + i * s->record_bytes,
                   source(s, round, peer, i), s->record_bytes);
}

static void scatter(const struct scene *s, uint64_t round, const unsigned char *buffer)
{
    for (int peer = 0; peer < s->comm.size; peer++)
        for (uint64_t i = 0; peer != s->comm.rank && i < s->count; i++)
            memcpy(destination(s, round, peer, i),
                   buffer + (uint64_t)s->displacements[peer] + i * s->record_bytes,
                   s->record_bytes);
}

/* As the reader's main thread does while an exchange is under way: see service.c. */
static void wait_a_little(uint64_t idle_ns)
{
    if (idle_ns >= 20000)
        clock_sleep_ns(idle_ns < 1000000 ? 50000 : 1000000);
}

struct variant {
    const char *name;
    void (*run)(struct scene *scene);
    bool copies; /* of the scene */
};

/* With two buffers each way, in turn, as two rounds in flight have. */
static void run_bare(struct scene *s)
{
    for (uint64_t round = 0; round < s->rounds; round++)
        MPI_Alltoallv(s->send[round % LANES], s->counts, s->displacements, MPI_BYTE,
                      s->receive[round % LANES], s->counts, s->displacements, MPI_BYTE,
                      s->comm.rounds);
}

static void start_packed(struct scene *s, uint64_t round)
{
    uint32_t lane = (uint32_t)(round % LANES);
    if (s->copies)
        pack(s, round, exchange_send_buffer(s->packed, lane, EXCHANGE_RECORDS));
    exchange_open(s->packed, lane);
    exchange_post(s->packed, lane);
}

static bool finish_packed(struct scene *s, uint64_t round)
{
    uint32_t lane = (uint32_t)(round % LANES);
    if (!exchange_test(s->packed, lane))
        return false;
    if (s->copies)
        scatter(s, round, exchange_receive_buffer(s->packed, lane, EXCHANGE_RECORDS));
    return true;
}

static void start_zero_copy(struct scene *s, uint64_t round)
{
    uint32_t lane = (uint32_t)(round % LANES);
    exchange_open(s->zero_copy, lane);
    for (uint64_t i = 0; i < s->count; i++)
        for (int peer = 0; peer < s->comm.size; peer++)
            if (peer != s->comm.rank)
                exchange_receive(s->zero_copy, lane, peer, destination(s, round, peer, i),
                                 s->record_bytes);
    for (uint64_t i = 0; i < s->count; i++)
        for (int peer = 0; peer < s->comm.size; peer++)
            if (peer != s->comm.rank)
                exchange_send(s->zero_copy, lane, peer, source(s, round, peer, i), s->record_bytes);
}

static bool finish_zero_copy(struct scene *s, uint64_t round)
{
    return exchange_test(s->zero_copy, (uint32_t)(round % LANES));
}

/* Starts rounds as lanes are free, ends them in order, and sleeps between looks as a reader does.
 */
static void run_lanes(struct scene *s, void (*start)(struct scene *, uint64_t round),
                      bool (*finish)(struct scene *, uint64_t round))
{
    const uint64_t busy_ns = 5000; /* a look at MPI that took longer has moved data */
    uint64_t started = 0, finished = 0, active_ns = clock_now_ns();
    while (finished < s->rounds) {
        uint64_t start_ns = clock_now_ns();
        bool active = false;
        if (started < s->rounds && started < finished + LANES) {
            start(s, started++);
            active = true;
        }
        if (finished < started && finish(s, finished)) {
            finished++;
            active = true;
        }
        uint64_t now_ns = clock_now_ns();
        if (active || now_ns - start_ns > busy_ns)
            active_ns = now_ns;
        else
            wait_a_little(now_ns - active_ns);
    }
}

static void run_packed(struct scene *s)
{
    run_lanes(s, start_packed, finish_packed);
}

static void run_zero_copy(struct scene *s)
{
    run_lanes(s, start_zero_copy, finish_zero_copy);
}

static const struct variant variants[] = {
    {"bare", run_bare, false},
    {"exchange", run_packed, false},
    {"packed", run_packed, true},
    {"zero_copy", run_zero_copy, true},
};
enum { VARIANT_COUNT = sizeof variants / sizeof variants[0] };

static void *map(size_t bytes)
{
    void *memory;
    struct error err;
    if (memory_map(bytes, "benchmark", &memory, &err) != STATUS_OK) {
        fprintf(stderr, "penstock-bench-exchange: %s\n", err.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memory_touch(memory, bytes);
    return memory;
}

static struct exchange *new_exchange(const struct scene *s, bool zero_copy)
{
    struct exchange *exchange;
    struct error err;
    uint64_t samples = s->count * (uint64_t)(s->comm.size - 1);
    struct exchange_sizes sizes = {.send_samples = samples,
                                   .receive_samples = samples,
                                   .record_bytes = zero_copy ? 0 : s->record_bytes};
    if (zero_copy) {
        sizes.sample_messages = size_divide_up(s->record_bytes, ROUND_MESSAGE_BYTES);
        sizes.message_bytes = min_u64(s->record_bytes, ROUND_MESSAGE_BYTES);
    }
    if (exchange_new(&s->comm, LANES, &sizes, &exchange, &err) != STATUS_OK) {
        fprintf(stderr, "penstock-bench-exchange: %s\n", err.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        size_t bytes;
        unsigned char *buffers = exchange_buffers(exchange, lane, &bytes);
        memory_touch(buffers, bytes);
    }
    return exchange;
}

static void set_counts(struct scene *s)
{
    int at = 0;
    s->counts = calloc((size_t)s->comm.size, sizeof(int));
    s->displacements = calloc((size_t)s->comm.size, sizeof(int));
    for (int peer = 0; peer < s->comm.size; peer++) {
        s->displacements[peer] = at;
        s->counts[peer] = peer == s->comm.rank ? 0 : (int)(s->count * s->record_bytes);
        at += s->counts[peer];
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        struct exchange_counts counts = exchange_counts(s->packed, lane, EXCHANGE_RECORDS);
        for (int peer = 0; peer < s->comm.size; peer++) {
            int records = peer == s->comm.rank ? 0 : (int)s->count;
            counts.send_counts[peer] = counts.receive_counts[peer] = records;
            counts.send_displacements[peer] = counts.receive_displacements[peer] =
                (int)(s->displacements[peer] / (int)s->record_bytes);
        }
    }
}

static void scene_init(struct scene *s, const struct arguments *arguments)
{
    uint64_t size = (uint64_t)s->comm.size;
    s->count = s->message_bytes / s->record_bytes;
    uint64_t round_bytes = s->count * s->record_bytes * size;
    s->rounds = arguments->volume_bytes / round_bytes;
    s->rounds = s->rounds < LEAST_ROUNDS ? LEAST_ROUNDS : s->rounds;
    s->pool_bytes =
        size_round_up(POOL_BYTES > 2 * round_bytes ? POOL_BYTES : 2 * round_bytes, s->record_bytes);
    s->slots_bytes = SLOT_ROUNDS * round_bytes;
    s->staging_bytes = round_bytes;
    s->pool = map(s->pool_bytes);
    s->slots = map(s->slots_bytes);
    for (int i = 0; i < LANES; i++) {
        s->send[i] = map(s->staging_bytes);
        s->receive[i] = map(s->staging_bytes);
    }
    s->source_count = s->pool_bytes / s->record_bytes;
    s->sources = map(s->source_count * sizeof *s->sources);
    s->batch_indices = map(size * s->count * sizeof *s->batch_indices);
    shuffle(s->sources, s->source_count);
    shuffle(s->batch_indices, size * s->count);
    s->packed = new_exchange(s, false);
    s->zero_copy = new_exchange(s, true);
    set_counts(s);
}

static void scene_done(struct scene *s)
{
    exchange_free(s->zero_copy);
    exchange_free(s->packed);
    free(s->displacements);
    free(s->counts);
    memory_unmap(s->batch_indices, (uint64_t)s->comm.size * s->count * sizeof *s->batch_indices);
    memory_unmap(s->sources, s->source_count * sizeof *s->sources);
    for (int i = 0; i < LANES; i++) {
        memory_unmap(s->receive[i], s->staging_bytes);
        memory_unmap(s->send[i], s->staging_bytes);
    }
    memory_unmap(s->slots, s->slots_bytes);
    memory_unmap(s->pool, s->pool_bytes);
}

static void measure(struct scene *s, const struct variant *variant)
{
    enum { SECONDS, CPU };
    s->copies = variant->copies;
    double took[2];
    MPI_Barrier(s->comm.world);
    uint64_t start_ns = clock_now_ns(), start_cpu_ns = clock_process_cpu_ns();
    variant->run(s);
    took[SECONDS] = (double)(clock_now_ns() - start_ns) / 1e9;
    took[CPU] = (double)(clock_process_cpu_ns() - start_cpu_ns) / 1e9;
    MPI_Allreduce(MPI_IN_PLACE, took, 2, MPI_DOUBLE, MPI_MAX, s->comm.world);
    double bytes = (double)(s->rounds * s->count * s->record_bytes) * (s->comm.size - 1);
    if (s->comm.rank == 0)
        printf("{\"ranks\":%d,\"message_bytes\":%" PRIu64 ",\"record_bytes\":%" PRIu64
               ",\"variant\":\"%s\",\"bytes_per_s\":%.0f,\"cpu_s_per_gb\":%.4f}\n",
               s->comm.size, s->message_bytes, s->record_bytes, variant->name,
               bytes / took[SECONDS], took[CPU] / bytes * 1e9);
    fflush(stdout);
}

static void measure_sizes(struct scene *s, const struct arguments *arguments)
{
    bool zero_copy = s->record_bytes >= LEAST_ZERO_COPY_BYTES;
    scene_init(s, arguments);
    for (uint64_t repeat = 0; repeat < arguments->repeats; repeat++)
        for (size_t i = 0; i < VARIANT_COUNT; i++)
            if (zero_copy || variants[i].run != run_zero_copy)
                measure(s, &variants[i]);
    scene_done(s);
}

static const struct argp_option options[] = {
    {"message", 'm', "BYTES", 0, "from each rank to each other in a round; may be repeated (1MiB)",
     0},
    {"record", 'r', "BYTES", 0,
     "of one record, a multiple of 16; may be repeated (16KiB); larger than a message is left out",
     0},
    {"repeats", 'n', "N", 0, "how often all variants are measured (5)", 0},
    {"volume", 'v', "BYTES", 0, "that a rank sends in one measurement, about (256MiB)", 0},
    {0}};

static uint64_t parse_size(const char *text, struct argp_state *state)
{
    uint64_t bytes;
    struct error err;
    if (size_parse(text, &bytes, &err) != STATUS_OK || bytes == 0)
        argp_error(state, "'%s' is not a size", text);
    return bytes;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'm':
    case 'r': {
        size_t *count = key == 'm' ? &arguments->message_count : &arguments->record_count;
        if (*count == MAX_SIZES)
            argp_error(state, "more than %d sizes", MAX_SIZES);
        (key == 'm' ? arguments->messages : arguments->records)[(*count)++] =
            parse_size(value, state);
        return 0;
    }
    case 'n':
        arguments->repeats = parse_size(value, state);
        return 0;
    case 'v':
        arguments->volume_bytes = parse_size(value, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Measures the exchange of records between MPI ranks; see docs/inside/exchange.md."};
    struct arguments arguments = {.repeats = 5, .volume_bytes = UINT64_C(256) << 20};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (arguments.message_count == 0)
        arguments.messages[arguments.message_count++] = 1 << 20;
    if (arguments.record_count == 0)
        arguments.records[arguments.record_count++] = 16 << 10;
    static struct scene scene;
    struct comm comm;
    struct error err;
    if (comm_init(1, &comm, &err) != STATUS_OK) {
        fprintf(stderr, "penstock-bench-exchange: %s\n", err.message);
        return EXIT_FAILURE;
    }
    random_state += (uint64_t)comm.rank;
    for (size_t m = 0; m < arguments.message_count; m++)
        for (size_t r = 0; r < arguments.record_count; r++) {
            if (arguments.records[r] > arguments.messages[m])
                continue;
            scene = (struct scene){.comm = comm,
                                   .message_bytes = arguments.messages[m],
                                   .record_bytes = arguments.records[r]};
            measure_sizes(&scene, &arguments);
        }
    comm_done(&comm);
    return EXIT_SUCCESS;
}
