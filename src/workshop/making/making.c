/* See making.h. */
#include "workshop/making/making.h"

#include "base/clock.h"
#include "base/number.h"
#include "scan/advice.h"
#include "scan/team.h"
#include "store/store.h"
#include "workshop/making/journal.h"
#include "workshop/making/slab_writer.h"
#include "zarr/hierarchy/hierarchy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct making {
    const struct making_options *options;
    char *path; /* owned: of the destination */
    struct targets *targets;
    struct store *destination;
    struct journal journal;
    bool journal_is_open;
    uint64_t slab_bytes, largest_slab;
    bool *done;              /* [slab_count], when this call began */
    struct digest_sum *sums; /* of those */
    _Atomic uint64_t read_bytes, found_count;
    size_t largest;                                   /* array, by its bytes */
    _Atomic uint64_t largest_decoded, largest_stored; /* of that array, written in this call */
};

/* Memory
 * ------------------------------------------------------------------------------------------- */

/* Memory of a thread beside its slab, of any array. */
static uint64_t other_bytes(const struct making *making)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < making->targets->count; i++)
        bytes = max_u64(bytes, target_thread_bytes(making->targets, &making->targets->arrays[i],
                                                   making->options->verify));
    return bytes;
}

/* Slabs as this process would have them; the plan may have others. */
static enum status settle_slabs(struct making *making, struct making_result *result,
                                struct error *err)
{
    uint64_t whole = 0, little = 0, other = other_bytes(making), share;
    for (size_t i = 0; i < making->targets->count; i++) {
        const struct slabs_demand *demand = &making->targets->arrays[i].demand;
        uint64_t wanted = slabs_whole_bytes(demand), all = demand->sample_count;
        all *= demand->sample_bytes;
        if (wanted < demand->wanted_bytes)
            wanted = min_u64(demand->wanted_bytes, all);
        whole = max_u64(whole, add_sat(wanted, other));
        little = max_u64(little, add_sat(slabs_least_bytes(demand), other));
    }
    result->thread_count = making->options->thread_count;
    enum status status = share_memory(making->options->memory_bytes, whole, little,
                                      &result->thread_count, &share, err);
    if (status == STATUS_OK)
        making->slab_bytes = min_u64(share, whole) - other;
    return status;
}

/* Cuts by what the plan says, and sees that this process has room for it. */
static enum status cut_slabs(struct making *making, struct making_result *result, struct error *err)
{
    struct targets *targets = making->targets;
    targets_cut(targets, making->slab_bytes);
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->arrays[i];
        uint64_t length = target->slabs.slab_length, all = target->demand.sample_count;
        making->largest_slab =
            max_u64(making->largest_slab, min_u64(length, all) * target->demand.sample_bytes);
    }
    uint64_t each = making->largest_slab + other_bytes(making), share;
    enum status status =
        share_memory(making->options->memory_bytes, each, each, &result->thread_count, &share, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s' was begun with more memory: ", making->path);
    result->memory_bytes = each * result->thread_count;
    result->slab_count = targets->slab_count;
    making->done = calloc(targets->slab_count, sizeof *making->done);
    making->sums = calloc(targets->slab_count, sizeof *making->sums);
    if (!making->done || !making->sums)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " slabs",
                         targets->slab_count);
    return STATUS_OK;
}

/* Opening
 * ------------------------------------------------------------------------------------------- */

/* Whether another part of the same work has finished everything before this one began. */
static bool is_complete(const struct making *making)
{
    const struct text *root = &making->targets->root_document;
    struct store *store = NULL;
    char *text = NULL;
    size_t size = 0;
    bool complete = false;
    if (journal_has_plan(making->path, making->targets->folder) ||
        store_open(making->path, &store, NULL) != STATUS_OK)
        return false;
    if (store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, NULL) ==
        STATUS_OK)
        complete = size == root->length && memcmp(text, root->data, size) == 0;
    free(text);
    store_free(store);
    return complete;
}

static enum status open_destination(struct making *making, struct error *err)
{
    enum status status = journal_open(making->path, making->targets, making->options->part,
                                      &making->slab_bytes, &making->journal, err);
    if (status != STATUS_OK)
        return status;
    making->journal_is_open = true;
    return store_open(making->path, &making->destination, err);
}

/* Slabs
 * ------------------------------------------------------------------------------------------- */

static enum status start(void *argument, void **ret_state, struct error *err)
{
    struct making *making = argument;
    struct slab_writer *writer = NULL;
    enum status status = slab_writer_new(making->destination, making->targets, making->largest_slab,
                                         making->options->verify, &writer, err);
    if (status == STATUS_OK)
        *ret_state = writer;
    return status;
}

static void stop(void *argument, void *state)
{
    (void)argument;
    slab_writer_free(state);
}

static bool is_late(const struct making *making, uint64_t slab)
{
    return making->targets->arrays[targets_find(making->targets, slab)].late;
}

/* Parts have slabs that follow one another: those of one video, say. */
static uint64_t part_begin(const struct making *making, uint64_t part)
{
    return share_begin(making->targets->slab_count, part, making->options->part_count);
}

/* Piece `number` of this part. */
static enum status run(void *argument, void *state, uint64_t number, struct error *err)
{
    struct making *making = argument;
    uint64_t slab = part_begin(making, making->options->part) + number;
    struct slab_bytes bytes = {0};
    struct digest_sum sum;
    if (is_late(making, slab))
        return STATUS_OK;
    if (making->done[slab] &&
        (!making->options->verify || slab_is_written(state, slab, &making->sums[slab]))) {
        making->found_count++;
        return STATUS_OK;
    }
    enum status status = slab_write(state, slab, &sum, &bytes, err);
    if (status == STATUS_OK)
        status = journal_add(&making->journal, slab, &sum, err);
    making->read_bytes += bytes.decoded;
    if (targets_find(making->targets, slab) == making->largest) {
        making->largest_decoded += bytes.decoded;
        making->largest_stored += bytes.stored;
    }
    return status;
}

static size_t find_largest(const struct targets *targets)
{
    size_t largest = 0;
    for (size_t i = 1; i < targets->count; i++)
        if (targets->arrays[i].array.total_bytes > targets->arrays[largest].array.total_bytes)
            largest = i;
    return largest;
}

/* What the chunks that this call wrote say about their codec and length. */
static void set_hint(const struct making *making, struct making_result *result)
{
    struct text hint = {0}, rechunk = {0};
    if (making->largest_decoded == 0)
        return;
    text_append(&rechunk, "penstock rechunk ");
    text_append_word(&rechunk, making->options->destination);
    text_append(&rechunk, " DST");
    const struct zarr_array *array = &making->targets->arrays[making->largest].array;
    advice_describe(array, (double)making->largest_stored / (double)making->largest_decoded,
                    rechunk.data, &hint);
    advice_describe_chunks(array, rechunk.data, &hint);
    if (hint.data && hint.length < sizeof result->hint)
        memcpy(result->hint, hint.data, hint.length + 1);
    text_done(&hint);
    text_done(&rechunk);
}

static enum status write_slabs(struct making *making, struct making_result *result,
                               struct error *err)
{
    const struct making_options *options = making->options;
    struct team team = {
        .thread_count = result->thread_count,
        .work_count = part_begin(making, options->part + 1) - part_begin(making, options->part),
        .label = options->label,
        .unit = "slabs",
        .bytes = &making->read_bytes,
        .argument = making,
        .start = start,
        .run = run,
        .stop = stop,
    };
    making->largest = find_largest(making->targets);
    enum status status = team_run(&team, err);
    set_hint(making, result);
    result->decoded_bytes = making->read_bytes;
    result->slabs_found = making->found_count;
    return status;
}

/* The end
 * ------------------------------------------------------------------------------------------- */

static enum status put_document(const struct making *making, const char *path,
                                const struct text *document, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%s%szarr.json", path, *path ? "/" : "");
    return store_put(making->destination, key, document->data, document->length, err);
}

/* All files are on the disk before the root's document makes them a dataset. */
static enum status put_documents(const struct making *making, struct error *err)
{
    const struct targets *targets = making->targets;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < targets->count && status == STATUS_OK; i++)
        if (targets->arrays[i].array.path[0])
            status = put_document(making, targets->arrays[i].array.path,
                                  &targets->arrays[i].document, err);
    for (size_t i = 0; i < targets->group_count && status == STATUS_OK; i++)
        if (targets->groups[i].path[0])
            status =
                put_document(making, targets->groups[i].path, &targets->groups[i].document, err);
    if (status == STATUS_OK && syncfs(making->journal.folder_fd) < 0)
        status = error_set_errno(err, STATUS_IO, "sync '%s'", making->path);
    if (status == STATUS_OK)
        status = put_document(making, "", &targets->root_document, err);
    return status;
}

static struct digest_text digest_targets(const struct making *making)
{
    const struct targets *targets = making->targets;
    struct text lines = {0};
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->arrays[i];
        struct digest_sum sum = {0};
        for (uint64_t slab = 0; slab < target->slabs.count; slab++)
            digest_merge(&sum, &making->sums[target->first_slab + slab]);
        text_append(&lines, "%s %s\n", target->array.path,
                    digest_of_array(&target->array, &sum).text);
    }
    struct digest_text digest = digest_of_text(lines.data, lines.length);
    text_done(&lines);
    return digest;
}

/* Writes the slabs of late targets, which are small. */
static enum status write_late(struct making *making, struct error *err)
{
    const struct targets *targets = making->targets;
    struct slab_writer *writer = NULL;
    enum status status = STATUS_OK;
    if (targets->source.before_late)
        status = targets->source.before_late(targets->source.argument, err);
    if (status == STATUS_OK)
        status = slab_writer_new(making->destination, targets, making->largest_slab,
                                 making->options->verify, &writer, err);
    for (uint64_t slab = 0; slab < targets->slab_count && status == STATUS_OK; slab++) {
        struct slab_bytes bytes = {0};
        if (is_late(making, slab))
            status = slab_write(writer, slab, &making->sums[slab], &bytes, err);
    }
    slab_writer_free(writer);
    return status;
}

/* Writes the metadata if all parts are done; the one that does it has the lock. */
static enum status finish(struct making *making, struct making_result *result, struct error *err)
{
    uint64_t count = making->targets->slab_count;
    enum status status = journal_lock(&making->journal, err);
    if (status != STATUS_OK)
        return status;
    if (!journal_has_plan(making->path, making->targets->folder)) {
        result->already_complete = true;
        journal_remove(&making->journal, making->path);
        return STATUS_OK;
    }
    memset(making->done, 0, count * sizeof *making->done);
    status = journal_read(&making->journal, count, making->done, making->sums, err);
    for (uint64_t i = 0; i < count; i++)
        result->slabs_left += !making->done[i] && !is_late(making, i);
    if (status != STATUS_OK || result->slabs_left > 0)
        return status;
    status = write_late(making, err);
    if (status == STATUS_OK)
        status = put_documents(making, err);
    if (status != STATUS_OK)
        return status;
    result->digest = digest_targets(making);
    journal_remove(&making->journal, making->path);
    return STATUS_OK;
}

static enum status make_all(struct making *making, struct making_result *result, struct error *err)
{
    bool shared = making->options->part_count > 1;
    if (shared && is_complete(making)) {
        result->already_complete = true;
        return STATUS_OK;
    }
    enum status status = settle_slabs(making, result, err);
    if (status == STATUS_OK)
        status = open_destination(making, err);
    if (status != STATUS_OK && shared && is_complete(making)) {
        result->already_complete = true; /* in this very moment */
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = cut_slabs(making, result, err);
    if (status == STATUS_OK)
        status = journal_read(&making->journal, making->targets->slab_count, making->done,
                              making->sums, err);
    if (status == STATUS_OK)
        status = write_slabs(making, result, err);
    return status != STATUS_OK ? status : finish(making, result, err);
}

bool making_has_ended(const char *path, const char *folder, const char *request)
{
    struct store *store = NULL;
    char *text = NULL;
    size_t size = 0;
    bool complete = false;
    if (journal_has_plan(path, folder) || store_open(path, &store, NULL) != STATUS_OK)
        return false;
    if (store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, NULL) ==
        STATUS_OK)
        complete = strstr(text, request) != NULL;
    free(text);
    store_free(store);
    return complete;
}

enum status making_path(const char *destination, char **ret_path, struct error *err)
{
    return store_path(destination, ret_path, err);
}

enum status making_run(const struct making_options *options, struct targets *targets,
                       struct making_result *ret_result, struct error *err)
{
    struct making making = {.options = options, .targets = targets};
    struct making_result result = {0};
    uint64_t start_ns = clock_now_ns();
    enum status status = making_path(options->destination, &making.path, err);
    if (status == STATUS_OK)
        status = make_all(&making, &result, err);
    result.elapsed_ns = clock_now_ns() - start_ns;
    if (status == STATUS_OK)
        *ret_result = result;
    store_free(making.destination);
    if (making.journal_is_open)
        journal_close(&making.journal);
    free(making.done);
    free(making.sums);
    free(making.path);
    return status;
}
