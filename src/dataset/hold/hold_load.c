/* See hold_internal.h: loading arrays whole by several threads. The arrays are cut into stretches,
 * runs of whole chunks along the sample axis. Each thread takes the next stretch, fetches it if the
 * store is remote, and decodes it to where it belongs. So while one thread decodes, others fetch.
 */
#include "dataset/hold/hold_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/read/bad_frames.h"
#include "dataset/threads.h"
#include "dataset/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct stretch {
    size_t array; /* its number */
    uint64_t begin, end;
};

struct load {
    const struct dataset *dataset;
    const struct hold_array *arrays;
    size_t array_count;
    size_t fetch_bytes; /* of each thread; 0: nothing is fetched ahead */
    uint64_t chunk_count;
    uint32_t thread_count;
    const struct dataset_hold_options *options;
    const struct zarr_array **list; /* owned: the same arrays */
    pthread_t *threads;             /* owned */
    struct stretch *stretches;      /* owned */
    struct walk walk;               /* of the stretches */
    _Atomic uint64_t chunks, bytes; /* loaded so far */
};

/* Stretches
 * ---------------------------------------------------------------------------------------------- */

static uint64_t chunks_of(const struct zarr_array *array, uint64_t begin, uint64_t end)
{
    uint64_t count = size_divide_up(end, array->chunk_shape[0]) - begin / array->chunk_shape[0];
    for (int axis = 1; axis < array->rank; axis++)
        count *= zarr_array_chunks_along(array, axis);
    return count;
}

uint64_t hold_chunks(const struct zarr_array *array)
{
    return chunks_of(array, 0, array->shape[0]);
}

/* How many samples a stretch has: an equal share for each thread, but no more than can be fetched
 * at once. Where nothing is fetched a quarter of that, since threads may be of different speed. */
static uint64_t stretch_samples(const struct load *load, const struct zarr_array *array)
{
    uint64_t fetched =
        load->fetch_bytes ? hold_fetcher_samples(load->dataset, array, load->fetch_bytes) : 0;
    uint64_t shares = (fetched > 0 ? 1 : 4) * (uint64_t)load->thread_count;
    uint64_t samples = size_divide_up(array->chunk_counts[0], shares) * array->chunk_shape[0];
    return fetched > 0 ? min_u64(samples, fetched) : samples;
}

/* Cuts arrays into stretches, which it counts, and notes unless `stretches` is NULL. */
static uint64_t cut_arrays(const struct load *load, struct stretch *stretches)
{
    uint64_t count = 0;
    for (size_t i = 0; i < load->array_count; i++) {
        const struct zarr_array *array = load->arrays[i].array;
        uint64_t samples = array->shape[0] > 0 ? stretch_samples(load, array) : 0;
        for (uint64_t begin = 0; begin < array->shape[0]; begin += samples, count++)
            if (stretches)
                stretches[count] =
                    (struct stretch){i, begin, min_u64(begin + samples, array->shape[0])};
    }
    return count;
}

static void note_loaded(struct load *load, const struct stretch *stretch)
{
    const struct zarr_array *array = load->arrays[stretch->array].array;
    load->chunks += chunks_of(array, stretch->begin, stretch->end);
    load->bytes += (stretch->end - stretch->begin) * zarr_array_sample_bytes(array);
}

/* Threads
 * ---------------------------------------------------------------------------------------------- */

struct loader {
    struct load *load;
    struct zarr_faults faults;
    struct zarr_chunk_reader *reader;
    struct hold_fetcher *fetcher; /* NULL: nothing is fetched ahead */
};

static enum status prepare(struct loader *loader, struct error *err)
{
    struct load *load = loader->load;
    const struct dataset_private *private = load->dataset->private;
    enum status status = zarr_chunk_reader_new_with(private->store, load->list, load->array_count,
                                                    &private->read, &loader->reader, err);
    if (status == STATUS_OK && load->fetch_bytes > 0)
        status = hold_fetcher_new(load->dataset, load->fetch_bytes, &loader->fetcher, err);
    if (status != STATUS_OK)
        return status;
    loader->faults.missing_is_bad = private->missing_is_bad;
    zarr_chunk_reader_use_cache(loader->reader, private->cache);
    zarr_chunk_reader_use_faults(loader->reader, &loader->faults);
    return STATUS_OK;
}

static enum status read_stretch(struct loader *loader, const struct stretch *stretch,
                                struct error *err)
{
    const struct hold_array *held = &loader->load->arrays[stretch->array];
    unsigned char *out = held->out + stretch->begin * zarr_array_sample_bytes(held->array);
    struct zarr_read_stats stats = {0};
    if (loader->fetcher && hold_fetcher_samples(loader->load->dataset, held->array, 1) > 0)
        zarr_chunk_reader_use_fetched(
            loader->reader,
            hold_fetch(loader->fetcher, loader->reader, held->array, stretch->begin, stretch->end));
    enum status status = zarr_read_samples(loader->reader, held->array, stretch->begin,
                                           stretch->end, out, &stats, err);
    zarr_chunk_reader_use_fetched(loader->reader, NULL);
    if (stats.missing_chunk_count > 0 && held->field == SIZE_MAX)
        note_filled_ragged(loader->load->dataset, held->ragged, stats.missing_chunk_count);
    else
        note_filled(loader->load->dataset, held->field, stats.missing_chunk_count);
    return status;
}

static void *work(void *argument)
{
    struct load *load = argument;
    struct loader loader = {.load = load};
    struct error err;
    uint64_t i;
    error_clear(&err);
    enum status status = prepare(&loader, &err);
    if (status != STATUS_OK) /* a thread that cannot work is the first to fail */
        walk_end(&load->walk, 0, status, &err);
    while (status == STATUS_OK && walk_take(&load->walk, &i)) {
        status = read_stretch(&loader, &load->stretches[i], &err);
        if (status == STATUS_OK)
            note_loaded(load, &load->stretches[i]);
        walk_end(&load->walk, i, status, &err);
    }
    zarr_chunk_reader_free(loader.reader);
    hold_fetcher_free(loader.fetcher);
    return NULL;
}

static void tell_progress(void *argument)
{
    struct load *load = argument;
    if (load->options->progress)
        load->options->progress(load->options->argument, load->chunks, load->chunk_count,
                                load->bytes);
}

/* As many threads as asked for, if their memory allows; each with an equal share of what may be on
 * its way. */
static void share_memory(struct load *load)
{
    const struct dataset_private *private = load->dataset->private;
    size_t each =
        zarr_chunk_reader_bytes_with(private->store, load->list, load->array_count, &private->read);
    bool remote = store_is_remote(private->store);
    if (remote)
        each += hold_fetcher_bytes();
    uint64_t memory = load->options->memory_bytes;
    uint64_t threads = remote ? memory / 2 / each : memory / each; /* half of it for chunks */
    threads = min_u64(threads, load->options->thread_count);
    load->thread_count = threads > 0 ? (uint32_t)threads : 1;
    if (!remote)
        return;
    uint64_t rest = memory > load->thread_count * each ? memory - load->thread_count * each : 1;
    load->fetch_bytes = min_u64(rest, private->settings.fetch_bytes) / load->thread_count;
    load->fetch_bytes += load->fetch_bytes == 0;
}

static enum status set_up(struct load *load, struct error *err)
{
    uint64_t count = 0; /* stretches */
    load->list = calloc(load->array_count, sizeof(struct zarr_array *));
    for (size_t i = 0; load->list && i < load->array_count; i++) {
        load->list[i] = load->arrays[i].array;
        load->chunk_count += hold_chunks(load->list[i]);
    }
    if (load->list) {
        share_memory(load);
        count = cut_arrays(load, NULL);
        load->stretches = calloc(count + 1, sizeof *load->stretches); /* 0 may fail */
        load->threads = calloc(load->thread_count, sizeof *load->threads);
    }
    if (!load->stretches || !load->threads)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read held arrays");
    (void)cut_arrays(load, load->stretches);
    walk_init(&load->walk, count);
    return STATUS_OK;
}

static enum status run(struct load *load, size_t *ret_failed, struct error *err)
{
    uint64_t started = threads_start(load->threads, load->thread_count, "held", work, load);
    int failure = errno;
    threads_await(load->threads, started, tell_progress, load);
    tell_progress(load);
    enum status status = walk_done(&load->walk, err);
    if (started == 0)
        return error_set(err, STATUS_IO, "start a thread to read held arrays: %s",
                         strerror(failure));
    if (status != STATUS_OK)
        *ret_failed = load->stretches[load->walk.failed].array;
    return status;
}

enum status hold_load(const struct dataset *dataset, const struct hold_array *arrays, size_t count,
                      const struct dataset_hold_options *options, size_t *ret_failed,
                      struct error *err)
{
    struct load load = {
        .dataset = dataset, .arrays = arrays, .array_count = count, .options = options};
    *ret_failed = count;
    enum status status = set_up(&load, err);
    if (status == STATUS_OK)
        status = run(&load, ret_failed, err);
    free(load.threads);
    free(load.stretches);
    free(load.list);
    return status;
}
