/* A rechunking: making a dataset (making.h) of another's arrays. See rechunk.h. */
#include "workshop/making/rechunk.h"

#include "workshop/making/making.h"
#include "workshop/making/rechunk_internal.h"
#include "zarr/chunk/chunk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The source of samples
 * ------------------------------------------------------------------------------------------- */

/* A thread's; its chunk reader is for one array at a time. */
struct array_reader {
    const struct store *store;
    const struct zarr_array *array; /* NULL: none yet */
    struct zarr_chunk_reader *chunks;
};

static uint64_t reader_bytes(const void *argument, const struct target *target)
{
    return zarr_chunk_reader_bytes(argument, &target->source, 1);
}

static enum status open_reader(void *argument, void **ret_reader, struct error *err)
{
    struct array_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    reader->store = argument;
    *ret_reader = reader;
    return STATUS_OK;
}

static void close_reader(void *argument)
{
    struct array_reader *reader = argument;
    zarr_chunk_reader_free(reader->chunks);
    free(reader);
}

static enum status use_array(struct array_reader *reader, const struct zarr_array *array,
                             struct error *err)
{
    if (reader->array == array)
        return STATUS_OK;
    zarr_chunk_reader_free(reader->chunks);
    reader->chunks = NULL;
    reader->array = NULL;
    struct zarr_read_options options = zarr_read_defaults;
    options.keeps = true; /* encoders get parts of chunks, one after another */
    enum status status =
        zarr_chunk_reader_new_with(reader->store, &array, 1, &options, &reader->chunks, err);
    if (status == STATUS_OK)
        reader->array = array;
    return status;
}

static enum status read_samples(void *argument, const struct target *target, uint64_t begin,
                                uint64_t end, void *samples, struct error *err)
{
    struct array_reader *reader = argument;
    struct zarr_read_stats stats = {0};
    enum status status = use_array(reader, target->source, err);
    return status != STATUS_OK ? status
                               : zarr_read_samples(reader->chunks, target->source, begin, end,
                                                   samples, &stats, err);
}

struct sample_source rechunk_source(const struct store *store)
{
    return (struct sample_source){
        .argument = (void *)(uintptr_t)store, /* which readers only read */
        .reader_bytes = reader_bytes,
        .open = open_reader,
        .read = read_samples,
        .close = close_reader,
    };
}

struct rechunk {
    const struct rechunk_options *options;
    const struct store *source; /* borrowed */
    struct zarr_hierarchy *hierarchy;
    struct targets targets;
};

/* The destination
 * ------------------------------------------------------------------------------------------- */

/* The real path of what may not be there yet (returned, malloc'ed); NULL: nor is its folder. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL), *folder, *joined = NULL;
    size_t end = strlen(path);
    if (real)
        return real;
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t name = end;
    while (name > 0 && path[name - 1] != '/')
        name--;
    char *above = name > 0 ? strndup(path, name) : strdup(".");
    folder = above ? realpath(above, NULL) : NULL;
    if (folder && asprintf(&joined, "%s/%.*s", folder, (int)(end - name), path + name) < 0)
        joined = NULL;
    free(above);
    free(folder);
    return joined;
}

/* Both are real paths. */
static bool lies_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Whether the real path `path` is within the source in `folder`, or within one of its arrays, which
 * may be links to elsewhere. */
static bool is_in_source(const struct zarr_hierarchy *hierarchy, const char *folder,
                         const char *path)
{
    bool inside = lies_in(path, folder);
    for (size_t i = 0; i < hierarchy->node_count && !inside; i++) {
        char name[2 * PATH_MAX];
        if (hierarchy->nodes[i].status != STATUS_OK)
            continue;
        snprintf(name, sizeof name, "%s/%s", folder,
                 zarr_array_store_path(&hierarchy->nodes[i].array).text);
        char *array = realpath(name, NULL);
        inside = array && lies_in(path, array);
        free(array);
    }
    return inside;
}

enum status rechunk_check_apart(const struct store *store, const struct zarr_hierarchy *hierarchy,
                                const struct making_options *making, struct error *err)
{
    static const char scheme[] = "file://";
    struct text source = {0};
    enum status status = store_identify(store, &source, err);
    char *destination = NULL;
    if (status == STATUS_OK)
        status = making_path(making->destination, &destination, err);
    if (status == STATUS_OK && strncmp(source.data, scheme, strlen(scheme)) == 0) {
        source.data[--source.length] = '\0'; /* of the new line */
        char *path = real_path(destination);
        if (path && is_in_source(hierarchy, source.data + strlen(scheme), path))
            status = error_set(err, STATUS_INVALID,
                               "'%s' lies in the source '%s': choose another destination",
                               destination, source.data + strlen(scheme));
        free(path); /* without one: opening will say why */
    }
    free(destination);
    text_done(&source);
    return status;
}

static enum status rechunk_all(struct rechunk *rechunk, struct making_result *result,
                               struct error *err)
{
    const struct rechunk_options *options = rechunk->options;
    struct zarr_wanted wanted = {.paths = (const char *const *)options->paths.names,
                                 .path_count = options->paths.count};
    enum status status =
        zarr_hierarchy_open_wanted(rechunk->source, &wanted, &rechunk->hierarchy, err);
    if (status == STATUS_OK)
        status = targets_make(options, rechunk->source, rechunk->hierarchy, &rechunk->targets, err);
    if (status == STATUS_OK)
        status = rechunk_check_apart(rechunk->source, rechunk->hierarchy, &options->making, err);
    return status != STATUS_OK ? status
                               : making_run(&options->making, &rechunk->targets, result, err);
}

enum status rechunk_run(const struct rechunk_options *options, const struct store *source,
                        struct making_result *ret_result, struct error *err)
{
    struct rechunk rechunk = {.options = options, .source = source};
    enum status status = rechunk_all(&rechunk, ret_result, err);
    targets_done(&rechunk.targets);
    zarr_hierarchy_free(rechunk.hierarchy);
    return status;
}
