/* penstock-bench-rechunk: what rechunking is bounded by, and rechunking, one after another.
 *
 * decode: all slabs of the source into memory. encode: from there into the target's values, which
 * go nowhere. rechunk: the whole, into a directory, without and with reading back. Each with the
 * same threads, slabs and codecs; the pieces are those of rechunk itself. Prints one JSON object,
 * in MB of decoded bytes a second.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "scan/team.h"
#include "workshop/making/rechunk_internal.h"
#include "workshop/making/slab_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench {
    struct rechunk_options options;
    struct store *store;
    struct zarr_hierarchy *hierarchy;
    struct targets targets;
    unsigned char *samples; /* of all arrays */
    uint64_t *offsets;      /* [arrays] in these */
    uint64_t total_bytes, slab_bytes;
    bool encode;
};

static enum status start(void *argument, void **ret_state, struct error *err)
{
    struct bench *bench = argument;
    struct slab_writer *writer = NULL;
    enum status status =
        slab_writer_new(NULL, &bench->targets, bench->slab_bytes, false, &writer, err);
    if (status == STATUS_OK)
        *ret_state = writer;
    return status;
}

static void stop(void *argument, void *state)
{
    (void)argument;
    slab_writer_free(state);
}

static enum status run(void *argument, void *state, uint64_t number, struct error *err)
{
    struct bench *bench = argument;
    size_t i = targets_find(&bench->targets, number);
    const struct target *target = &bench->targets.arrays[i];
    uint64_t begin, end;
    slabs_range(&target->slabs, number - target->first_slab, &begin, &end);
    unsigned char *samples =
        bench->samples + bench->offsets[i] + begin * target->demand.sample_bytes;
    return bench->encode ? slab_encode(state, number, samples, err)
                         : slab_read(state, number, samples, err);
}

/* MB/s of one half. */
static enum status measure(struct bench *bench, bool encode, double *ret_rate, struct error *err)
{
    struct team team = {
        .thread_count = bench->options.making.thread_count,
        .work_count = bench->targets.slab_count,
        .label = encode ? "encoding" : "decoding",
        .unit = "slabs",
        .argument = bench,
        .start = start,
        .run = run,
        .stop = stop,
    };
    bench->encode = encode;
    uint64_t start_ns = clock_now_ns();
    enum status status = team_run(&team, err);
    *ret_rate = (double)bench->total_bytes * 1e3 / (double)(clock_now_ns() - start_ns);
    return status;
}

/* MB/s of the whole; the directory must not be there. */
static enum status measure_whole(struct bench *bench, bool verify, const char *suffix,
                                 double *ret_rate, struct error *err)
{
    struct rechunk_options options = bench->options;
    struct making_result result;
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", bench->options.making.destination, suffix);
    options.making.destination = path;
    options.making.verify = verify;
    enum status status = rechunk_run(&options, bench->store, &result, err);
    if (status == STATUS_OK)
        *ret_rate = (double)bench->total_bytes * 1e3 / (double)result.elapsed_ns;
    return status;
}

static enum status prepare(struct bench *bench, struct error *err)
{
    enum status status = store_open(bench->options.source, &bench->store, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open(bench->store, &bench->hierarchy, err);
    if (status == STATUS_OK)
        status =
            targets_make(&bench->options, bench->store, bench->hierarchy, &bench->targets, err);
    if (status != STATUS_OK)
        return status;
    bench->offsets = calloc(bench->targets.count, sizeof *bench->offsets);
    if (!bench->offsets)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu arrays", bench->targets.count);
    for (size_t i = 0; i < bench->targets.count; i++) {
        const struct slabs_demand *demand = &bench->targets.arrays[i].demand;
        uint64_t bytes = slabs_whole_bytes(demand);
        bench->offsets[i] = bench->total_bytes;
        bench->total_bytes += demand->sample_count * demand->sample_bytes;
        if (bytes < demand->wanted_bytes)
            bytes = demand->wanted_bytes;
        bench->slab_bytes = bytes > bench->slab_bytes ? bytes : bench->slab_bytes;
    }
    targets_cut(&bench->targets, bench->slab_bytes);
    void *samples = NULL;
    status = memory_map(bench->total_bytes, "samples", &samples, err);
    if (status == STATUS_OK)
        memory_touch(samples, bench->total_bytes);
    bench->samples = samples;
    return status;
}

static enum status measure_all(struct bench *bench, struct error *err)
{
    double decode = 0, encode = 0, whole = 0, verified = 0;
    enum status status = prepare(bench, err);
    if (status == STATUS_OK)
        status = measure(bench, false, &decode, err);
    if (status == STATUS_OK)
        status = measure(bench, true, &encode, err);
    if (status == STATUS_OK)
        status = measure_whole(bench, false, "plain", &whole, err);
    if (status == STATUS_OK)
        status = measure_whole(bench, true, "verified", &verified, err);
    if (status == STATUS_OK)
        printf("{\"decode\": %.1f, \"encode\": %.1f, \"rechunk\": %.1f, \"verified\": %.1f}\n",
               decode, encode, whole, verified);
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .options = {.making = {.part_count = 1, .label = "rechunking"},
                    .level = RECHUNK_LEVEL_AUTO},
    };
    struct error err;
    if (argc != 7) {
        fprintf(stderr,
                "Usage: %s SRC DST CHUNK CODEC LEVEL THREADS\n"
                "Writes DST.plain and DST.verified, which must not be there.\n",
                argv[0]);
        return 64;
    }
    bench.options.source = argv[1];
    bench.options.making.destination = argv[2];
    bench.options.chunk = (struct rechunk_shape){1, {strtoull(argv[3], NULL, 10)}};
    bench.options.codec = argv[4];
    bench.options.level = (int)strtol(argv[5], NULL, 10);
    bench.options.making.thread_count = (uint32_t)strtoul(argv[6], NULL, 10);
    bench.options.making.memory_bytes = memory_available_bytes() / 2;
    enum status status = measure_all(&bench, &err);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", argv[0], err.message);
    memory_unmap(bench.samples, bench.total_bytes);
    free(bench.offsets);
    targets_done(&bench.targets);
    zarr_hierarchy_free(bench.hierarchy);
    store_free(bench.store);
    return status != STATUS_OK ? EXIT_FAILURE : EXIT_SUCCESS;
}
