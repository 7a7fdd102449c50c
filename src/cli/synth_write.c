/* Writes a synthetic dataset: chunks by several threads, metadata around them.
 *
 * The group's mark is written first and the arrays' documents last, so that a dataset that was cut
 * short can be overwritten but not be taken for a whole one. Each document is parsed by our own
 * reader, whose view of the array then says how chunks are named and encoded: what is written is
 * what is read.
 *
 * Threads take chunks by number from one counter; the main thread draws the progress and joins
 * them. The first failure stops all.
 */
#include "base/clock.h"
#include "base/progress.h"
#include "base/size.h"
#include "cli/synth_documents.h"

#include <json-c/json.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    const struct synth_dataset *dataset;
    struct store *store;
    struct text documents[SYNTH_MAX_ARRAYS];
    struct zarr_array arrays[SYNTH_MAX_ARRAYS];
    uint64_t first_chunks[SYNTH_MAX_ARRAYS + 1]; /* number of each array's first; last: of all */
    size_t chunk_bytes, stored_bytes;            /* the most that any chunk takes */
    _Atomic uint64_t next_chunk, done_chunks, written_bytes;
    _Atomic bool stopped;
    pthread_mutex_t error_mutex;
    struct error error; /* the first one; status OK if there is none */
};

/* The configuration (returned) of what the command line calls `name`, and the codec's bare name. */
static struct json_object *make_configuration(const struct synth_dataset *dataset, const char *name,
                                              const char **ret_name)
{
    struct json_object *json = json_object_new_object();
    const char *level = "level";
    if (strncmp(name, "blosc-", 6) == 0) {
        json_object_object_add(json, "cname", json_object_new_string(name + 6));
        json_object_object_add(json, "shuffle", json_object_new_string(dataset->shuffle));
        level = "clevel";
        name = "blosc";
    } else if (strcmp(name, "lz4") == 0) {
        level = "acceleration";
    }
    if (dataset->level != SYNTH_LEVEL_AUTO && strcmp(name, "crc32c") != 0)
        json_object_object_add(json, level, json_object_new_int(dataset->level));
    *ret_name = name;
    return json;
}

static enum status add_codec(const struct synth_dataset *dataset, const char *name,
                             size_t item_bytes, struct codec_chain *chain, struct error *err)
{
    const char *bare = NULL;
    struct json_object *json = make_configuration(dataset, name, &bare);
    char full[64]; /* v3 knows every codec of ours by its numcodecs name, and the standard ones by
                      another */
    snprintf(full, sizeof full, "%s%s", dataset->format == ZARR_V3 ? "numcodecs." : "", bare);
    enum status status =
        codec_chain_add(chain, (enum codec_format)dataset->format, full, json, item_bytes, err);
    json_object_put(json);
    return status;
}

/* "zstd+crc32c" step by step. */
static enum status make_chain(const struct synth_dataset *dataset, size_t item_bytes,
                              struct codec_chain *ret_chain, struct error *err)
{
    struct codec_chain chain = {0};
    char names[128];
    snprintf(names, sizeof names, "%s", dataset->codec);
    char *rest = names, *name;
    while ((name = strsep(&rest, "+"))) {
        if (strcmp(name, "none") == 0)
            continue;
        enum status status = add_codec(dataset, name, item_bytes, &chain, err);
        if (status)
            return error_prefix(err, status, "--codec %s: ", dataset->codec);
    }
    if (dataset->format == ZARR_V2 && chain.step_count > 1)
        return error_set(err, STATUS_INVALID,
                         "--codec %s: Zarr v2 has one compressor; use --format 3", dataset->codec);
    *ret_chain = chain;
    return STATUS_OK;
}

static enum status describe_array(struct writer *writer, size_t i, struct error *err)
{
    const struct synth_array *array = &writer->dataset->arrays[i];
    struct codec_chain codecs;
    enum status status = make_chain(writer->dataset, dtype_bytes(array->dtype), &codecs, err);
    if (status)
        return status;
    struct text *document = &writer->documents[i];
    synth_array_document(array, writer->dataset->format, &codecs, document);
    struct zarr_array *parsed = &writer->arrays[i];
    status = zarr_array_parse(writer->dataset->format, array->name, document->data,
                              document->length, parsed, err);
    if (status)
        return error_prefix(err, status, "array '%s': ", array->name);
    size_t stored_bytes = codec_chain_stored_bound(&parsed->codecs, parsed->chunk_bytes);
    if (writer->chunk_bytes < parsed->chunk_bytes)
        writer->chunk_bytes = parsed->chunk_bytes;
    if (writer->stored_bytes < stored_bytes)
        writer->stored_bytes = stored_bytes;
    writer->first_chunks[i + 1] = writer->first_chunks[i] + zarr_array_chunk_count(parsed);
    return STATUS_OK;
}

/* Chunk `number` of the array, entries one after another; behind the array's end it is zero. */
static void fill_chunk(const struct synth_array *array, const struct zarr_array *parsed,
                       uint64_t number, unsigned char *ret_chunk)
{
    size_t entry_bytes = array->entry_items * parsed->item_bytes;
    for (uint64_t i = 0; i < array->chunk_length; i++) {
        uint64_t index = number * array->chunk_length + i;
        if (index < array->shape[0])
            array->fill(array, index, ret_chunk + i * entry_bytes);
        else
            memset(ret_chunk + i * entry_bytes, 0, entry_bytes);
    }
    if (parsed->byte_swapped)
        bytes_swap(ret_chunk, parsed->chunk_bytes, dtype_swap_bytes(parsed->dtype));
}

static enum status write_chunk(struct writer *writer, uint64_t number, unsigned char *chunk,
                               unsigned char *stored, struct error *err)
{
    size_t i = 0;
    while (number >= writer->first_chunks[i + 1])
        i++;
    const struct zarr_array *parsed = &writer->arrays[i];
    uint64_t index[ZARR_MAX_RANK] = {number - writer->first_chunks[i]};
    char key[ZARR_KEY_BYTES];
    zarr_chunk_key(parsed, index, key);
    fill_chunk(&writer->dataset->arrays[i], parsed, index[0], chunk);

    size_t stored_size = 0;
    enum status status = codec_encode(&parsed->codecs, chunk, parsed->chunk_bytes, stored,
                                      writer->stored_bytes, &stored_size, err);
    if (status == STATUS_OK)
        status = store_put(writer->store, key, stored, stored_size, err);
    if (status == STATUS_OK)
        writer->written_bytes += stored_size;
    return status;
}

static void stop_with(struct writer *writer, const struct error *err)
{
    pthread_mutex_lock(&writer->error_mutex);
    if (writer->error.status == STATUS_OK)
        writer->error = *err;
    pthread_mutex_unlock(&writer->error_mutex);
    writer->stopped = true;
}

static void *write_chunks(void *argument)
{
    struct writer *writer = argument;
    struct error err;
    enum status status = STATUS_OK;
    unsigned char *chunk = malloc(writer->chunk_bytes);
    unsigned char *stored = malloc(writer->stored_bytes);
    if (!chunk || !stored)
        status =
            error_set(&err, STATUS_NO_MEMORY, "no memory for chunks of %s; make --chunk smaller",
                      size_format(writer->chunk_bytes).text);
    uint64_t total = writer->first_chunks[writer->dataset->array_count];
    while (status == STATUS_OK && !writer->stopped) {
        uint64_t number = writer->next_chunk++;
        if (number >= total)
            break;
        status = write_chunk(writer, number, chunk, stored, &err);
        if (status == STATUS_OK)
            writer->done_chunks++;
    }
    if (status != STATUS_OK)
        stop_with(writer, &err);
    free(stored);
    free(chunk);
    return NULL;
}

static void watch(struct writer *writer)
{
    uint64_t total = writer->first_chunks[writer->dataset->array_count];
    struct progress progress;
    progress_init(&progress, "writing", "chunks", total);
    while (writer->done_chunks < total && !writer->stopped) {
        progress_update(&progress, writer->done_chunks, writer->written_bytes);
        clock_sleep_ns(20 * 1000 * 1000);
    }
    progress_done(&progress);
}

static enum status run_threads(struct writer *writer, struct error *err)
{
    uint32_t count = writer->dataset->thread_count, started = 0;
    pthread_t *threads = calloc(count, sizeof *threads);
    if (!threads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u thread%s", count,
                         count_plural(count));
    while (started < count && pthread_create(&threads[started], NULL, write_chunks, writer) == 0)
        started++;
    if (started > 0)
        watch(writer);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    if (started == 0)
        return error_set(err, STATUS_IO, "cannot start any thread");
    if (writer->error.status != STATUS_OK && err)
        *err = writer->error;
    return (enum status)writer->error.status;
}

static uint64_t decoded_bytes(const struct writer *writer)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < writer->dataset->array_count; i++)
        sum += writer->arrays[i].total_bytes;
    return sum;
}

static enum status write_all(struct writer *writer, struct error *err)
{
    const struct synth_dataset *dataset = writer->dataset;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->array_count && !status; i++)
        status = describe_array(writer, i, err);
    if (!status)
        status = store_create(dataset->directory, dataset->overwrite, &writer->store, err);
    if (!status)
        status = synth_put_group(writer->store, dataset->format, err);
    if (!status)
        status = run_threads(writer, err);
    if (!status)
        status = synth_put_metadata(writer->store, dataset, writer->documents, err);
    return status;
}

enum status synth_write(const struct synth_dataset *dataset, struct synth_result *ret_result,
                        struct error *err)
{
    struct writer writer = {.dataset = dataset};
    pthread_mutex_init(&writer.error_mutex, NULL);
    error_clear(&writer.error);
    enum status status = write_all(&writer, err);
    if (status == STATUS_OK)
        *ret_result = (struct synth_result){.chunk_count = writer.done_chunks,
                                            .decoded_bytes = decoded_bytes(&writer),
                                            .stored_bytes = writer.written_bytes};
    for (size_t i = 0; i < dataset->array_count; i++)
        text_done(&writer.documents[i]);
    store_free(writer.store);
    pthread_mutex_destroy(&writer.error_mutex);
    return status;
}
