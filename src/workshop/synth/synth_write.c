/* Writes a synthetic dataset: chunks by a team of threads, metadata around them.
 *
 * The group's mark is written first and the arrays' documents last, so that a dataset that was cut
 * short can be overwritten but not be taken for a whole one. Our own reader parses each document,
 * and the parsed array says how chunks are named and encoded. So a written dataset is one that
 * Penstock reads.
 */
#include "base/convert.h"
#include "base/size.h"
#include "scan/team.h"
#include "workshop/synth/synth_documents.h"

#include <json-c/json.h>
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
    _Atomic uint64_t written_bytes;
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
        if (status != STATUS_OK)
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
    if (status != STATUS_OK)
        return status;
    struct text *document = &writer->documents[i];
    synth_array_document(array, false, writer->dataset->format, &codecs, document);
    struct zarr_array *parsed = &writer->arrays[i];
    status = zarr_array_parse(writer->dataset->format, array->name, document->data,
                              document->length, parsed, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s': ", array->name);
    if (array->text) {
        text_done(document);
        *document = (struct text){0};
        synth_array_document(array, true, writer->dataset->format, &codecs, document);
    }
    size_t stored_bytes = codec_chain_stored_bound(&parsed->codecs, parsed->chunk_bytes);
    if (writer->chunk_bytes < parsed->chunk_bytes)
        writer->chunk_bytes = parsed->chunk_bytes;
    if (writer->stored_bytes < stored_bytes)
        writer->stored_bytes = stored_bytes;
    writer->first_chunks[i + 1] = writer->first_chunks[i] + zarr_array_chunk_count(parsed);
    return STATUS_OK;
}

/* One thread's chunk, and the chunk as it is stored. */
struct buffers {
    unsigned char *chunk, *stored;
};

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
        convert_swap(ret_chunk, parsed->chunk_bytes, dtype_swap_bytes(parsed->dtype));
}

static enum status write_chunk(void *argument, void *state, uint64_t number, struct error *err)
{
    struct writer *writer = argument;
    struct buffers *buffers = state;
    size_t i = 0;
    while (number >= writer->first_chunks[i + 1])
        i++;
    const struct zarr_array *parsed = &writer->arrays[i];
    uint64_t index[ZARR_MAX_RANK] = {number - writer->first_chunks[i]};
    struct zarr_array named = *parsed;
    named.rank -= writer->dataset->arrays[i].text;
    char key[ZARR_KEY_BYTES];
    zarr_chunk_key(&named, index, key);
    fill_chunk(&writer->dataset->arrays[i], parsed, index[0], buffers->chunk);

    size_t stored_size = 0;
    enum status status = codec_encode(&parsed->codecs, buffers->chunk, parsed->chunk_bytes,
                                      buffers->stored, writer->stored_bytes, &stored_size, err);
    if (status == STATUS_OK)
        status = store_put(writer->store, key, buffers->stored, stored_size, err);
    if (status == STATUS_OK)
        writer->written_bytes += stored_size;
    return status;
}

static void buffers_free(void *argument, void *state)
{
    (void)argument;
    struct buffers *buffers = state;
    free(buffers->chunk);
    free(buffers->stored);
    free(buffers);
}

static enum status buffers_new(void *argument, void **ret_state, struct error *err)
{
    const struct writer *writer = argument;
    struct buffers *buffers = calloc(1, sizeof *buffers);
    if (buffers)
        *buffers = (struct buffers){malloc(writer->chunk_bytes), malloc(writer->stored_bytes)};
    if (!buffers || !buffers->chunk || !buffers->stored) {
        if (buffers)
            buffers_free(NULL, buffers);
        return error_set(err, STATUS_NO_MEMORY, "no memory for chunks of %s; make --chunk smaller",
                         size_format(writer->chunk_bytes).text);
    }
    *ret_state = buffers;
    return STATUS_OK;
}

static enum status run_threads(struct writer *writer, struct error *err)
{
    const struct team team = {.thread_count = writer->dataset->thread_count,
                              .work_count = writer->first_chunks[writer->dataset->array_count],
                              .label = "writing",
                              .unit = "chunks",
                              .bytes = &writer->written_bytes,
                              .argument = writer,
                              .start = buffers_new,
                              .run = write_chunk,
                              .stop = buffers_free};
    return team_run(&team, err);
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
    for (size_t i = 0; i < dataset->array_count && status == STATUS_OK; i++)
        status = describe_array(writer, i, err);
    if (status == STATUS_OK)
        status = store_create(dataset->directory, dataset->overwrite, &writer->store, err);
    if (status == STATUS_OK)
        status = synth_put_group(writer->store, dataset->format, err);
    if (status == STATUS_OK)
        status = run_threads(writer, err);
    if (status == STATUS_OK)
        status = synth_put_metadata(writer->store, dataset, writer->documents, err);
    return status;
}

enum status synth_write(const struct synth_dataset *dataset, struct synth_result *ret_result,
                        struct error *err)
{
    struct writer writer = {.dataset = dataset};
    enum status status = write_all(&writer, err);
    if (status == STATUS_OK)
        *ret_result =
            (struct synth_result){.chunk_count = writer.first_chunks[dataset->array_count],
                                  .decoded_bytes = decoded_bytes(&writer),
                                  .stored_bytes = writer.written_bytes};
    for (size_t i = 0; i < dataset->array_count; i++)
        text_done(&writer.documents[i]);
    store_free(writer.store);
    return status;
}
