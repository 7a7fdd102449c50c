/* See hold_internal.h: loading arrays whole by several threads. The arrays are cut into stretches,
 * runs of whole chunks along the sample axis. Each thread takes the next stretch, fetches it if the
 * store is remote, and decodes it to where it belongs. So while one thread decodes, others fetch.
 *
 * Stretches are taken in order. A thread that fails ends the taking: all stretches before the first
 * that failed are loaded then, and the error is the one that a single thread would have met.
 */
#include "dataset/hold/hold_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 100 };

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
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    /* Under `mutex`: */
    struct stretch next; /* the next stretch begins here */
    uint32_t running;    /* threads */
    bool stopping;       /* no further stretch is taken */
    struct stretch failed;
    enum status status; /* of the first stretch that failed */
    struct error error;
    uint64_t chunks, bytes; /* loaded so far */
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

static bool take_stretch(struct load *load, struct stretch *ret_stretch)
{
    pthread_mutex_lock(&load->mutex);
    struct stretch *next = &load->next;
    while (next->array < load->array_count &&
           next->begin >= load->arrays[next->array].array->shape[0])
        *next = (struct stretch){.array = next->array + 1};
    bool found = !load->stopping && next->array < load->array_count;
    if (found) {
        const struct zarr_array *array = load->arrays[next->array].array;
        next->end = min_u64(next->begin + stretch_samples(load, array), array->shape[0]);
        *ret_stretch = *next;
        next->begin = next->end;
    }
    pthread_mutex_unlock(&load->mutex);
    return found;
}

static bool is_before(const struct stretch *a, const struct stretch *b)
{
    return a->array != b->array ? a->array < b->array : a->begin < b->begin;
}

static void end_stretch(struct load *load, const struct stretch *stretch, enum status status,
                        const struct error *error)
{
    const struct zarr_array *array = load->arrays[stretch->array].array;

    pthread_mutex_lock(&load->mutex);
    if (status == STATUS_OK) {
        load->chunks += chunks_of(array, stretch->begin, stretch->end);
        load->bytes += (stretch->end - stretch->begin) * zarr_array_sample_bytes(array);
    } else if (load->status == STATUS_OK || is_before(stretch, &load->failed)) {
        load->status = status;
        load->error = *error;
        load->failed = *stretch;
        load->stopping = true;
    }
    pthread_mutex_unlock(&load->mutex);
}

/* Threads
 * ---------------------------------------------------------------------------------------------- */

struct loader {
    struct load *load;
    pthread_t thread;
    struct zarr_faults faults;
    struct zarr_chunk_reader *reader;
    struct hold_fetcher *fetcher; /* NULL: nothing is fetched ahead */
};

static enum status list_arrays(const struct load *load, const struct zarr_array ***ret_list,
                               struct error *err)
{
    const struct zarr_array **list = calloc(load->array_count, sizeof(struct zarr_array *));

    if (!list)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read held arrays");
    for (size_t i = 0; i < load->array_count; i++)
        list[i] = load->arrays[i].array;
    *ret_list = list;
    return STATUS_OK;
}

static enum status prepare(struct loader *loader, struct error *err)
{
    struct load *load = loader->load;
    const struct dataset_private *private = load->dataset->private;
    const struct zarr_array **list;

    enum status status = list_arrays(load, &list, err);
    if (status != STATUS_OK)
        return status;
    status = zarr_chunk_reader_new_with(private->store, list, load->array_count, &private->read,
                                        &loader->reader, err);
    free(list);
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
    struct loader *loader = argument;
    struct load *load = loader->load;
    struct stretch stretch = {0}; /* a thread that cannot work is the first to fail */
    struct error err;

    error_clear(&err);
    enum status status = prepare(loader, &err);
    if (status != STATUS_OK)
        end_stretch(load, &stretch, status, &err);
    while (status == STATUS_OK && take_stretch(load, &stretch)) {
        status = read_stretch(loader, &stretch, &err);
        end_stretch(load, &stretch, status, &err);
    }
    zarr_chunk_reader_free(loader->reader);
    hold_fetcher_free(loader->fetcher);
    pthread_mutex_lock(&load->mutex);
    load->running--;
    pthread_cond_signal(&load->ended);
    pthread_mutex_unlock(&load->mutex);
    return NULL;
}

/* Returns how many threads were started. */
static uint32_t start_threads(struct load *load, struct loader *loaders, int *ret_failure)
{
    uint32_t started = 0;

    load->running = load->thread_count;
    while (started < load->thread_count) {
        struct loader *loader = &loaders[started];
        loader->load = load;
        if (!thread_start("held", work, loader, &loader->thread)) {
            *ret_failure = errno;
            break;
        }
        started++;
    }
    pthread_mutex_lock(&load->mutex);
    load->running -= load->thread_count - started;
    pthread_mutex_unlock(&load->mutex);
    return started;
}

static void tell_progress(struct load *load, const struct dataset_hold_options *options)
{
    pthread_mutex_lock(&load->mutex);
    uint64_t chunks = load->chunks, bytes = load->bytes;
    pthread_mutex_unlock(&load->mutex);
    if (options->progress)
        options->progress(options->argument, chunks, load->chunk_count, bytes);
}

/* Waits for a thread to end, but not for long. True: threads are left. */
static bool wait_for_threads(struct load *load)
{
    struct timespec until = thread_deadline(LOOK_MS * UINT64_C(1000000));

    pthread_mutex_lock(&load->mutex);
    int waited = 0;
    while (load->running > 0 && waited == 0)
        waited = pthread_cond_timedwait(&load->ended, &load->mutex, &until);
    bool more = load->running > 0;
    pthread_mutex_unlock(&load->mutex);
    return more;
}

static enum status run(struct load *load, const struct dataset_hold_options *options,
                       struct error *err)
{
    struct loader *loaders = calloc(load->thread_count, sizeof *loaders);
    int failure = 0;

    if (!loaders)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read held arrays");
    uint32_t started = start_threads(load, loaders, &failure);
    while (wait_for_threads(load))
        tell_progress(load, options);
    tell_progress(load, options);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(loaders[i].thread, NULL);
    free(loaders);
    if (started == 0)
        return error_set(err, STATUS_IO, "start a thread to read held arrays: %s",
                         strerror(failure));
    if (load->status != STATUS_OK && err)
        *err = load->error;
    return load->status;
}

/* As many threads as asked for, if their memory allows; each with an equal share of what may be on
 * its way. */
static enum status share_memory(struct load *load, const struct dataset_hold_options *options,
                                struct error *err)
{
    const struct dataset_private *private = load->dataset->private;
    const struct zarr_array **list;
    enum status status = list_arrays(load, &list, err);

    if (status != STATUS_OK)
        return status;
    size_t each =
        zarr_chunk_reader_bytes_with(private->store, list, load->array_count, &private->read);
    free(list);
    bool remote = store_is_remote(private->store);
    if (remote)
        each += hold_fetcher_bytes();
    uint64_t memory = options->memory_bytes;
    uint64_t threads = remote ? memory / 2 / each : memory / each; /* half of it for chunks */
    threads = min_u64(threads, options->thread_count);
    load->thread_count = threads > 0 ? (uint32_t)threads : 1;
    if (!remote)
        return STATUS_OK;
    uint64_t rest = memory > load->thread_count * each ? memory - load->thread_count * each : 1;
    load->fetch_bytes = min_u64(rest, private->settings.fetch_bytes) / load->thread_count;
    load->fetch_bytes += load->fetch_bytes == 0;
    return STATUS_OK;
}

enum status hold_load(const struct dataset *dataset, const struct hold_array *arrays, size_t count,
                      const struct dataset_hold_options *options, size_t *ret_failed,
                      struct error *err)
{
    struct load load = {.dataset = dataset, .arrays = arrays, .array_count = count};

    *ret_failed = count;
    enum status status = share_memory(&load, options, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        load.chunk_count += hold_chunks(arrays[i].array);
    thread_cond_init(&load.ended);
    pthread_mutex_init(&load.mutex, NULL);
    status = run(&load, options, err);
    if (load.status != STATUS_OK)
        *ret_failed = load.failed.array;
    pthread_mutex_destroy(&load.mutex);
    pthread_cond_destroy(&load.ended);
    return status;
}
