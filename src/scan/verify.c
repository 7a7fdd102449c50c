/* See verify.h. Threads share the result: counters are added up when a thread ends, bad chunks are
 * listed under a mutex. */
#include "scan/verify.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "codec/vlen.h"
#include "scan/slabs.h"
#include "scan/team.h"
#include "zarr/chunk/chunk.h"
#include "zarr/chunk/values.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Less than this is not worth a turn. */
static const uint64_t wanted_slab_bytes = 4 << 20;

/* What is set aside for a chunk of values of variable length, if there is so much memory: only the
 * chunk tells how much it takes. */
static const uint64_t wanted_values_bytes = 256 << 20;

struct work {
    struct slabs slabs;
    uint64_t first_slab; /* number of its first among those of all arrays */
};

struct verification {
    const struct store *store;
    const struct verify_options *options;
    struct verify_result *result;
    struct work *works;  /* [array_count] */
    uint64_t slab_bytes; /* of the largest slab */
    uint64_t share;      /* memory of one thread */
    _Atomic uint64_t decoded_bytes;
    pthread_mutex_t mutex; /* of the result */
};

/* The state of one thread. */
struct verifier {
    struct zarr_faults faults; /* first: see skip() */
    struct verification *verification;
    size_t array; /* that the reader is for */
    struct zarr_chunk_reader *reader;
    uint64_t stored_bytes;
    void *slab;
};

/* Sizes
 * ------------------------------------------------------------------------------------------- */

static struct slabs_demand demand_of(const struct zarr_array *array)
{
    uint64_t sample_bytes = zarr_array_sample_bytes(array);
    uint64_t granule = digest_granule(sample_bytes);
    uint64_t period = common_multiple(min_u64(array->chunk_shape[0], array->shape[0]), granule);
    return (struct slabs_demand){
        .sample_count = array->shape[0],
        .sample_bytes = sample_bytes,
        .period = period,
        .granule = granule > 1 ? period : 1,
        .wanted_bytes = wanted_slab_bytes,
    };
}

/* The memory of one thread that reads each chunk once, and the least that it can do with. */
static void sum_memory(const struct store *store, const struct zarr_node *const *nodes,
                       size_t node_count, uint64_t *ret_whole, uint64_t *ret_least)
{
    *ret_whole = *ret_least = 0;
    for (size_t i = 0; i < node_count; i++) {
        const struct zarr_array *array = &nodes[i]->array;
        if (array->is_empty)
            continue;
        if (array->is_vlen) {
            *ret_whole = max_u64(*ret_whole, wanted_values_bytes);
            continue;
        }
        struct slabs_demand demand = demand_of(array);
        uint64_t reader = zarr_chunk_reader_bytes(store, &array, 1);
        uint64_t whole = slabs_whole_bytes(&demand);
        if (whole < wanted_slab_bytes)
            whole = min_u64(wanted_slab_bytes, demand.sample_count * demand.sample_bytes);
        whole = add_sat(whole, reader);
        uint64_t little = add_sat(slabs_least_bytes(&demand), reader);
        *ret_whole = *ret_whole < whole ? whole : *ret_whole;
        *ret_least = *ret_least < little ? little : *ret_least;
    }
}

enum status verify_settle(const struct store *store, const struct zarr_node *const *nodes,
                          size_t node_count, const struct verify_options *options,
                          uint32_t *ret_thread_count, uint64_t *ret_memory_bytes, struct error *err)
{
    uint64_t whole, little, share;
    uint32_t count = options->thread_count;
    sum_memory(store, nodes, node_count, &whole, &little);
    enum status status = share_memory(options->memory_bytes, whole, little, &count, &share, err);
    if (status != STATUS_OK)
        return status;
    bool has_values = false;
    for (size_t i = 0; i < node_count; i++)
        has_values |= nodes[i]->array.is_vlen;
    *ret_thread_count = count;
    *ret_memory_bytes = count * (has_values ? share : min_u64(share, whole));
    return STATUS_OK;
}

/* Cuts all arrays into slabs for threads that have `share` each; returns how many. */
static uint64_t cut_all(struct verification *verification, uint64_t share)
{
    uint64_t count = 0;
    for (size_t i = 0; i < verification->result->array_count; i++) {
        const struct zarr_array *array = &verification->result->arrays[i].node->array;
        struct work *work = &verification->works[i];
        if (array->is_vlen || array->is_empty) { /* chunk by chunk; of none, nothing */
            work->slabs =
                (struct slabs){.slabs_in_a_group = 1, .count = zarr_array_chunk_count(array)};
            work->first_slab = count;
            count += work->slabs.count;
            continue;
        }
        struct slabs_demand demand = demand_of(array);
        work->slabs =
            slabs_cut(&demand, share - zarr_chunk_reader_bytes(verification->store, &array, 1));
        work->first_slab = count;
        count += work->slabs.count;
        uint64_t bytes =
            min_u64(work->slabs.slab_length, demand.sample_count) * demand.sample_bytes;
        if (verification->slab_bytes < bytes)
            verification->slab_bytes = bytes;
    }
    return count;
}

/* Bad chunks
 * ------------------------------------------------------------------------------------------- */

static uint64_t chunk_number(const struct zarr_array *array, const uint64_t *chunk_index)
{
    uint64_t number = 0;
    for (int i = 0; i < array->rank; i++)
        number = number * array->chunk_counts[i] + chunk_index[i];
    return number;
}

/* Counts it, and takes it into the list; false: there is no room. */
static bool note_bad(struct verification *verification, const struct verify_bad *bad)
{
    struct verify_result *result = verification->result;
    struct verify_array *array = &result->arrays[bad->array];
    array->bad_count++;
    result->bad_chunk_count++;
    if (result->bad_count == VERIFY_MAX_BAD)
        return false;
    if ((result->bad_count & (result->bad_count - 1)) == 0) {
        size_t capacity = result->bad_count ? 2 * result->bad_count : 1;
        struct verify_bad *list = realloc(result->bad, capacity * sizeof *list);
        if (!list)
            return false;
        result->bad = list;
    }
    result->bad[result->bad_count++] = *bad;
    return true;
}

/* Whether the chunk is listed already: it may be read for several slabs, and be bad in any. */
static bool is_noted(const struct verification *verification, size_t array, uint64_t number)
{
    const struct verify_result *result = verification->result;
    if (verification->works[array].slabs.slabs_in_a_group == 1)
        return false;
    for (size_t i = result->bad_count; i > 0; i--)
        if (result->bad[i - 1].number == number && result->bad[i - 1].array == array)
            return true;
    return false;
}

static void bad_done(struct verify_bad *bad)
{
    free(bad->chunk);
    free(bad->key);
    free(bad->cause);
}

/* Told by the reader of a chunk that cannot be had. */
static enum status skip(struct zarr_faults *faults, const struct zarr_array *array,
                        const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                        const struct error *cause, struct error *err)
{
    struct verifier *verifier = (struct verifier *)faults;
    struct verification *verification = verifier->verification;
    char key[ZARR_KEY_BYTES];
    bool kept = false;
    (void)begin;
    (void)end;
    zarr_chunk_key(array, chunk_index, key);
    struct verify_bad bad = {
        .array = verifier->array,
        .number = chunk_number(array, chunk_index),
        .chunk = strdup(zarr_index_format(array, chunk_index).text),
        .key = strdup(key),
        .cause = strdup(cause->message),
    };
    if (!bad.chunk || !bad.key || !bad.cause) {
        bad_done(&bad);
        return error_set(err, STATUS_NO_MEMORY, "no memory to list bad chunks");
    }
    pthread_mutex_lock(&verification->mutex);
    if (!is_noted(verification, bad.array, bad.number))
        kept = note_bad(verification, &bad);
    pthread_mutex_unlock(&verification->mutex);
    if (!kept)
        bad_done(&bad);
    return STATUS_OK;
}

static int compare_bad(const void *a, const void *b)
{
    const struct verify_bad *x = a, *y = b;
    if (x->array != y->array)
        return x->array < y->array ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Threads
 * ------------------------------------------------------------------------------------------- */

static enum status use_array(struct verifier *verifier, size_t array, struct error *err)
{
    const struct zarr_array *zarr = &verifier->verification->result->arrays[array].node->array;
    if (verifier->reader && verifier->array == array)
        return STATUS_OK;
    zarr_chunk_reader_free(verifier->reader);
    verifier->reader = NULL;
    verifier->array = array;
    struct zarr_read_options options = zarr_read_defaults;
    options.lists_only = zarr->is_vlen;
    enum status status = zarr_chunk_reader_new_with(verifier->verification->store, &zarr, 1,
                                                    &options, &verifier->reader, err);
    if (status == STATUS_OK)
        zarr_chunk_reader_use_faults(verifier->reader, &verifier->faults);
    return status;
}

static void stop(void *argument, void *state)
{
    struct verification *verification = argument;
    struct verifier *verifier = state;
    pthread_mutex_lock(&verification->mutex);
    verification->result->stored_bytes += verifier->stored_bytes;
    pthread_mutex_unlock(&verification->mutex);
    zarr_chunk_reader_free(verifier->reader);
    memory_unmap(verifier->slab, verification->slab_bytes);
    free(verifier);
}

static enum status start(void *argument, void **ret_state, struct error *err)
{
    struct verification *verification = argument;
    struct verifier *verifier = calloc(1, sizeof *verifier);
    if (!verifier)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    verifier->verification = verification;
    verifier->faults.missing_is_bad = verification->options->missing_is_bad;
    verifier->faults.skip = skip;
    enum status status = memory_map(verification->slab_bytes, "samples", &verifier->slab, err);
    if (status != STATUS_OK) {
        free(verifier);
        return status;
    }
    *ret_state = verifier;
    return STATUS_OK;
}

/* The memory of a chunk of values: a thread's share. */
struct values_memory {
    struct codec_memory memory; /* first: see take() */
    size_t share, taken;
};

static enum status take(struct codec_memory *memory, size_t bytes, struct error *err)
{
    struct values_memory *values = (struct values_memory *)memory;
    if (bytes > values->share - values->taken) {
        memory->is_short = true;
        return error_set(err, STATUS_NO_MEMORY, "%s more, beside %s", size_format(bytes).text,
                         size_format(values->taken).text);
    }
    values->taken += bytes;
    return STATUS_OK;
}

static void give(struct codec_memory *memory, size_t bytes)
{
    ((struct values_memory *)memory)->taken -= bytes;
}

static enum status read_values(struct verifier *verifier, const struct zarr_array *array,
                               uint64_t chunk, const char *key, struct zarr_values *ret_values,
                               struct error *err)
{
    const struct verification *verification = verifier->verification;
    struct values_memory memory = {
        .memory = {.take = take, .give = give, .limit = verification->share},
        .share = verification->share};
    enum status status = zarr_values_read(verification->store,
                                          array->shard_level_count > 0 ? verifier->reader : NULL,
                                          array, &chunk, key, &memory.memory, ret_values, err);
    if (memory.memory.is_short && (status == STATUS_CORRUPT || status == STATUS_NO_MEMORY)) {
        struct error cause = *err;
        return error_set(err, STATUS_NO_MEMORY,
                         "array '%s' chunk %" PRIu64 ": a thread has %s for it: %s: raise --memory",
                         array->path, chunk, size_format(verification->share).text, cause.message);
    }
    if (status == STATUS_OK)
        status = vlen_measure(ret_values->bytes, ret_values->size, array->chunk_shape[0],
                              array->item_bytes, NULL, err);
    return status;
}

/* A chunk of values of variable length. */
static enum status verify_values(struct verifier *verifier, struct verify_array *target,
                                 uint64_t chunk, struct error *err)
{
    struct verification *verification = verifier->verification;
    const struct zarr_array *array = &target->node->array;
    struct zarr_values values = {0};
    char key[ZARR_KEY_BYTES];
    struct error cause;
    zarr_chunk_key(array, &chunk, key);
    enum status status = read_values(verifier, array, chunk, key, &values, &cause);
    if (status == STATUS_CORRUPT && store_retry(verification->store, 0, &cause)) {
        free(values.bytes);
        values = (struct zarr_values){0};
        status = read_values(verifier, array, chunk, key, &values, &cause);
    }
    free(values.bytes);
    verifier->stored_bytes += values.stored_bytes;
    verification->decoded_bytes += values.size;
    if (status == STATUS_NOT_FOUND) {
        pthread_mutex_lock(&verification->mutex);
        target->missing_count++;
        pthread_mutex_unlock(&verification->mutex);
        if (!verification->options->missing_is_bad && !array->vlen_has_fill)
            return STATUS_OK;
        status = error_set(&cause, STATUS_CORRUPT, "the chunk is missing");
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    if (status == STATUS_NO_MEMORY || status == STATUS_UNSUPPORTED || status == STATUS_LOST) {
        *err = cause;
        return status;
    }
    error_prefix(&cause, status, "array '%s' chunk %" PRIu64 ": ", array->path, chunk);
    return skip(&verifier->faults, array, &chunk, chunk, chunk + 1, &cause, err);
}

static enum status run(void *argument, void *state, uint64_t number, struct error *err)
{
    struct verification *verification = argument;
    struct verifier *verifier = state;
    size_t i = 0;
    while (i + 1 < verification->result->array_count &&
           number >= verification->works[i + 1].first_slab)
        i++;
    const struct work *work = &verification->works[i];
    struct verify_array *target = &verification->result->arrays[i];
    const struct zarr_array *array = &target->node->array;
    if (array->is_vlen) {
        enum status status = use_array(verifier, i, err);
        return status != STATUS_OK
                   ? status
                   : verify_values(verifier, target, number - work->first_slab, err);
    }
    uint64_t begin, end, sample_bytes = zarr_array_sample_bytes(array);
    bool first = slabs_range(&work->slabs, number - work->first_slab, &begin, &end);

    enum status status = use_array(verifier, i, err);
    struct zarr_read_stats stats = {0};
    if (status == STATUS_OK)
        status =
            zarr_read_samples(verifier->reader, array, begin, end, verifier->slab, &stats, err);
    if (status != STATUS_OK)
        return status;
    struct digest_sum sum = {0};
    if (verification->options->digest)
        digest_add(&sum, sample_bytes, begin, end - begin, verifier->slab);
    pthread_mutex_lock(&verification->mutex);
    digest_merge(&target->sum, &sum);
    target->missing_count += first ? stats.missing_chunk_count : 0;
    pthread_mutex_unlock(&verification->mutex);
    verifier->stored_bytes += stats.stored_bytes;
    verification->decoded_bytes += (end - begin) * sample_bytes;
    return STATUS_OK;
}

/* The whole
 * ------------------------------------------------------------------------------------------- */

static void settle_digests(struct verify_result *result)
{
    struct text lines = {0};
    bool all = true;
    for (size_t i = 0; i < result->array_count; i++) {
        struct verify_array *array = &result->arrays[i];
        bool has_digest = array->bad_count == 0 && !array->node->array.is_vlen;
        all = all && has_digest;
        if (!has_digest)
            continue;
        array->digest = digest_of_array(&array->node->array, &array->sum);
        text_append(&lines, "%s %s\n", array->node->array.path, array->digest.text);
    }
    if (all && lines.data)
        result->digest = digest_of_text(lines.data, lines.length);
    text_done(&lines);
}

static enum status verify_all(struct verification *verification, struct error *err)
{
    struct verify_result *result = verification->result;
    struct team team = {
        .thread_count = result->thread_count,
        .work_count = cut_all(verification, verification->share),
        .label = "verifying",
        .unit = "slabs",
        .bytes = &verification->decoded_bytes,
        .argument = verification,
        .start = start,
        .run = run,
        .stop = stop,
    };
    uint64_t start_ns = clock_now_ns();
    enum status status = team_run(&team, err);
    result->elapsed_ns = clock_now_ns() - start_ns;
    result->decoded_bytes = verification->decoded_bytes;
    for (size_t i = 0; i < result->array_count; i++)
        result->missing_count += result->arrays[i].missing_count;
    if (result->bad_count > 0)
        qsort(result->bad, result->bad_count, sizeof *result->bad, compare_bad);
    if (status == STATUS_OK && verification->options->digest)
        settle_digests(result);
    return status;
}

enum status verify_run(const struct store *store, const struct zarr_node *const *nodes,
                       size_t node_count, const struct verify_options *options,
                       struct verify_result *ret_result, struct error *err)
{
    struct verify_result result = {.array_count = node_count};
    struct verification verification = {
        .store = store, .options = options, .result = &result, .slab_bytes = 1};
    assert(node_count > 0);
    enum status status = verify_settle(store, nodes, node_count, options, &result.thread_count,
                                       &result.memory_bytes, err);
    if (status != STATUS_OK)
        return status;
    result.arrays = calloc(node_count, sizeof *result.arrays);
    verification.works = calloc(node_count, sizeof *verification.works);
    if (!result.arrays || !verification.works) {
        free(result.arrays);
        free(verification.works);
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu arrays", node_count);
    }
    for (size_t i = 0; i < node_count; i++) {
        result.arrays[i].node = nodes[i];
        result.arrays[i].chunk_count = zarr_array_chunk_count(&nodes[i]->array);
        result.chunk_count += result.arrays[i].chunk_count;
    }
    pthread_mutex_init(&verification.mutex, NULL);
    verification.share = options->memory_bytes / result.thread_count;
    status = verify_all(&verification, err);
    pthread_mutex_destroy(&verification.mutex);
    free(verification.works);
    if (status != STATUS_OK)
        verify_result_done(&result);
    else
        *ret_result = result;
    return status;
}

void verify_result_done(struct verify_result *result)
{
    for (size_t i = 0; i < result->bad_count; i++)
        bad_done(&result->bad[i]);
    free(result->bad);
    free(result->arrays);
    *result = (struct verify_result){0};
}
