/* A rechunking from start to end. See rechunk.h. */
#include "tools/rechunk.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/number.h"
#include "tools/rechunk_internal.h"
#include "tools/team.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rechunk {
    const struct rechunk_options *options;
    const char *path;           /* of the destination */
    const struct store *source; /* borrowed */
    struct store *destination;
    struct zarr_hierarchy *hierarchy;
    struct targets targets;
    struct journal journal;
    bool journal_is_open;
    uint64_t slab_bytes, largest_slab;
    bool *done;              /* [slab_count], when this call began */
    struct digest_sum *sums; /* of those */
    _Atomic uint64_t read_bytes, found_count;
};

/* Memory
 * ------------------------------------------------------------------------------------------- */

/* Memory of a thread beside its slab, of any array. */
static uint64_t other_bytes(const struct rechunk *rechunk)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < rechunk->targets.count; i++)
        bytes = max_u64(bytes,
                        target_thread_bytes(&rechunk->targets.arrays[i], rechunk->options->verify));
    return bytes;
}

/* Slabs as this process would have them; the plan may have others. */
static enum status settle_slabs(struct rechunk *rechunk, struct rechunk_result *result,
                                struct error *err)
{
    uint64_t whole = 0, little = 0, other = other_bytes(rechunk), share;
    for (size_t i = 0; i < rechunk->targets.count; i++) {
        const struct slabs_demand *demand = &rechunk->targets.arrays[i].demand;
        uint64_t wanted = slabs_whole_bytes(demand), all = demand->sample_count;
        all *= demand->sample_bytes;
        if (wanted < demand->wanted_bytes)
            wanted = min_u64(demand->wanted_bytes, all);
        whole = max_u64(whole, add_sat(wanted, other));
        little = max_u64(little, add_sat(slabs_least_bytes(demand), other));
    }
    result->thread_count = rechunk->options->thread_count;
    enum status status = share_memory(rechunk->options->memory_bytes, whole, little,
                                      &result->thread_count, &share, err);
    if (!status)
        rechunk->slab_bytes = min_u64(share, whole) - other;
    return status;
}

/* Cuts by what the plan says, and sees that this process has room for it. */
static enum status cut_slabs(struct rechunk *rechunk, struct rechunk_result *result,
                             struct error *err)
{
    struct targets *targets = &rechunk->targets;
    targets_cut(targets, rechunk->slab_bytes);
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->arrays[i];
        uint64_t length = target->slabs.slab_length, all = target->demand.sample_count;
        rechunk->largest_slab =
            max_u64(rechunk->largest_slab, min_u64(length, all) * target->demand.sample_bytes);
    }
    uint64_t each = rechunk->largest_slab + other_bytes(rechunk), share;
    enum status status = share_memory(rechunk->options->memory_bytes, each, each,
                                      &result->thread_count, &share, err);
    if (status)
        return error_prefix(err, status, "'%s' was begun with more memory: ", rechunk->path);
    result->memory_bytes = each * result->thread_count;
    result->slab_count = targets->slab_count;
    rechunk->done = calloc(targets->slab_count, sizeof *rechunk->done);
    rechunk->sums = calloc(targets->slab_count, sizeof *rechunk->sums);
    if (!rechunk->done || !rechunk->sums)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " slabs",
                         targets->slab_count);
    return STATUS_OK;
}

/* Opening
 * ------------------------------------------------------------------------------------------- */

static bool destination_exists(const struct rechunk *rechunk, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", rechunk->path, name);
    return access(path, F_OK) == 0;
}

/* Whether another part of the same work has finished everything before this one began. */
static bool is_complete(const struct rechunk *rechunk)
{
    struct store *store = NULL;
    char *text = NULL;
    size_t size = 0;
    bool complete = false;
    if (destination_exists(rechunk, JOURNAL_FOLDER "/plan") ||
        store_open(rechunk->path, &store, NULL) != STATUS_OK)
        return false;
    if (store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, NULL) ==
        STATUS_OK)
        complete = size == rechunk->targets.root_document.length &&
                   memcmp(text, rechunk->targets.root_document.data, size) == 0;
    free(text);
    store_free(store);
    return complete;
}

static enum status open_source(struct rechunk *rechunk, struct error *err)
{
    const struct rechunk_options *options = rechunk->options;
    struct zarr_wanted wanted = {.paths = options->path_count > 0 ? options->paths : NULL,
                                 .path_count = options->path_count};
    enum status status =
        zarr_hierarchy_open_wanted(rechunk->source, &wanted, &rechunk->hierarchy, err);
    if (!status)
        status = targets_make(rechunk->options, rechunk->source, rechunk->hierarchy,
                              &rechunk->targets, err);
    return status;
}

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
static bool is_in_source(const struct rechunk *rechunk, const char *folder, const char *path)
{
    bool inside = lies_in(path, folder);
    for (size_t i = 0; i < rechunk->targets.count && !inside; i++) {
        char name[2 * PATH_MAX];
        snprintf(name, sizeof name, "%s/%s", folder,
                 zarr_array_store_path(rechunk->targets.arrays[i].source).text);
        char *array = realpath(name, NULL);
        inside = array && lies_in(path, array);
        free(array);
    }
    return inside;
}

/* Nothing is written inside the source: asked before anything is. */
static enum status check_apart(const struct rechunk *rechunk, struct error *err)
{
    static const char scheme[] = "file://";
    struct text source = {0};
    enum status status = store_identify(rechunk->source, &source, err);
    if (!status && strncmp(source.data, scheme, strlen(scheme)) == 0) {
        source.data[--source.length] = '\0'; /* of the new line */
        char *path = real_path(rechunk->path);
        if (path && is_in_source(rechunk, source.data + strlen(scheme), path))
            status = error_set(err, STATUS_INVALID,
                               "'%s' lies in the source '%s': choose another destination",
                               rechunk->path, rechunk->options->source);
        free(path); /* without one: opening will say why */
    }
    text_done(&source);
    return status;
}

static enum status open_destination(struct rechunk *rechunk, struct error *err)
{
    enum status status = check_apart(rechunk, err);
    if (!status)
        status = journal_open(rechunk->path, &rechunk->targets, rechunk->options->part,
                              &rechunk->slab_bytes, &rechunk->journal, err);
    if (status)
        return status;
    rechunk->journal_is_open = true;
    return store_open(rechunk->path, &rechunk->destination, err);
}

/* Slabs
 * ------------------------------------------------------------------------------------------- */

static enum status start(void *argument, void **ret_state, struct error *err)
{
    struct rechunk *rechunk = argument;
    struct slab_writer *writer = NULL;
    enum status status =
        slab_writer_new(rechunk->source, rechunk->destination, &rechunk->targets,
                        rechunk->largest_slab, rechunk->options->verify, &writer, err);
    if (!status)
        *ret_state = writer;
    return status;
}

static void stop(void *argument, void *state)
{
    (void)argument;
    slab_writer_free(state);
}

/* Piece `number` of this part. */
static enum status run(void *argument, void *state, uint64_t number, struct error *err)
{
    struct rechunk *rechunk = argument;
    uint64_t slab = rechunk->options->part + number * rechunk->options->part_count, bytes = 0;
    struct digest_sum sum;
    if (rechunk->done[slab] &&
        (!rechunk->options->verify || slab_is_written(state, slab, &rechunk->sums[slab]))) {
        rechunk->found_count++;
        return STATUS_OK;
    }
    enum status status = slab_write(state, slab, &sum, &bytes, err);
    if (!status)
        status = journal_add(&rechunk->journal, slab, &sum, err);
    rechunk->read_bytes += bytes;
    return status;
}

static enum status write_slabs(struct rechunk *rechunk, struct rechunk_result *result,
                               struct error *err)
{
    const struct rechunk_options *options = rechunk->options;
    uint64_t count = rechunk->targets.slab_count;
    struct team team = {
        .thread_count = result->thread_count,
        .work_count =
            count > options->part ? (count - options->part - 1) / options->part_count + 1 : 0,
        .label = "rechunking",
        .unit = "slabs",
        .bytes = &rechunk->read_bytes,
        .argument = rechunk,
        .start = start,
        .run = run,
        .stop = stop,
    };
    enum status status = team_run(&team, err);
    result->decoded_bytes = rechunk->read_bytes;
    result->slabs_found = rechunk->found_count;
    return status;
}

/* The end
 * ------------------------------------------------------------------------------------------- */

static enum status put_document(const struct rechunk *rechunk, const char *path,
                                const struct text *document, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%s%szarr.json", path, *path ? "/" : "");
    return store_put(rechunk->destination, key, document->data, document->length, err);
}

/* All files are on the disk before the root's document makes them a dataset. */
static enum status put_documents(const struct rechunk *rechunk, struct error *err)
{
    const struct targets *targets = &rechunk->targets;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < targets->count && !status; i++)
        if (targets->arrays[i].array.path[0])
            status = put_document(rechunk, targets->arrays[i].array.path,
                                  &targets->arrays[i].document, err);
    for (size_t i = 0; i < targets->group_count && !status; i++)
        if (targets->groups[i].path[0])
            status =
                put_document(rechunk, targets->groups[i].path, &targets->groups[i].document, err);
    if (!status && syncfs(rechunk->journal.folder_fd) < 0)
        status = error_set_errno(err, STATUS_IO, "sync '%s'", rechunk->path);
    if (!status)
        status = put_document(rechunk, "", &targets->root_document, err);
    return status;
}

static struct digest_text digest_targets(const struct rechunk *rechunk)
{
    const struct targets *targets = &rechunk->targets;
    struct text lines = {0};
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->arrays[i];
        struct digest_sum sum = {0};
        for (uint64_t slab = 0; slab < target->slabs.count; slab++)
            digest_merge(&sum, &rechunk->sums[target->first_slab + slab]);
        text_append(&lines, "%s %s\n", target->array.path,
                    digest_of_array(&target->array, &sum).text);
    }
    struct digest_text digest = digest_of_text(lines.data, lines.length);
    text_done(&lines);
    return digest;
}

/* Writes the metadata if all parts are done; the one that does it has the lock. */
static enum status finish(struct rechunk *rechunk, struct rechunk_result *result, struct error *err)
{
    uint64_t count = rechunk->targets.slab_count;
    enum status status = journal_lock(&rechunk->journal, err);
    if (status)
        return status;
    if (!destination_exists(rechunk, JOURNAL_FOLDER "/plan")) {
        result->already_complete = true;
        journal_remove(&rechunk->journal, rechunk->path);
        return STATUS_OK;
    }
    memset(rechunk->done, 0, count * sizeof *rechunk->done);
    status = journal_read(&rechunk->journal, count, rechunk->done, rechunk->sums, err);
    for (uint64_t i = 0; i < count; i++)
        result->slabs_left += !rechunk->done[i];
    if (status || result->slabs_left > 0)
        return status;
    status = put_documents(rechunk, err);
    if (status)
        return status;
    result->digest = digest_targets(rechunk);
    journal_remove(&rechunk->journal, rechunk->path);
    return STATUS_OK;
}

static enum status rechunk_all(struct rechunk *rechunk, struct rechunk_result *result,
                               struct error *err)
{
    enum status status = open_source(rechunk, err);
    if (status)
        return status;
    if (rechunk->options->part_count > 1 && is_complete(rechunk)) {
        result->already_complete = true;
        return STATUS_OK;
    }
    status = settle_slabs(rechunk, result, err);
    if (!status)
        status = open_destination(rechunk, err);
    if (status && rechunk->options->part_count > 1 && is_complete(rechunk)) {
        result->already_complete = true; /* in this very moment */
        return STATUS_OK;
    }
    if (!status)
        status = cut_slabs(rechunk, result, err);
    if (!status)
        status = journal_read(&rechunk->journal, rechunk->targets.slab_count, rechunk->done,
                              rechunk->sums, err);
    if (!status)
        status = write_slabs(rechunk, result, err);
    return status ? status : finish(rechunk, result, err);
}

enum status rechunk_run(const struct rechunk_options *options, const struct store *source,
                        struct rechunk_result *ret_result, struct error *err)
{
    struct rechunk rechunk = {.options = options, .source = source, .path = options->destination};
    struct rechunk_result result = {0};
    uint64_t start_ns = clock_now_ns();
    enum status status = STATUS_OK;
    if (strncmp(rechunk.path, "file://", 7) == 0)
        rechunk.path += 7;
    if (strstr(rechunk.path, "://"))
        status = error_set(err, STATUS_UNSUPPORTED,
                           "'%s': datasets are written to directories only", rechunk.path);
    if (!status)
        status = rechunk_all(&rechunk, &result, err);
    result.elapsed_ns = clock_now_ns() - start_ns;
    if (!status)
        *ret_result = result;
    store_free(rechunk.destination);
    if (rechunk.journal_is_open)
        journal_close(&rechunk.journal);
    free(rechunk.done);
    free(rechunk.sums);
    targets_done(&rechunk.targets);
    zarr_hierarchy_free(rechunk.hierarchy);
    return status;
}
