/* See dataset.h: arrays that are held whole. One process a node fills their memory once; all
 * processes of the node read the memory. */
#include "dataset/hold_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum status refuse_index(const struct store_field *here, uint64_t position, int64_t value,
                                struct error *err)
{
    char text[32];

    if (here->index.dtype == DTYPE_UINT64)
        snprintf(text, sizeof text, "%" PRIu64, (uint64_t)value);
    else
        snprintf(text, sizeof text, "%" PRId64, value);
    return error_set(err, STATUS_INVALID,
                     "array '%s' position %" PRIu64
                     ": index %s is out of range: array '%s' has %" PRIu64 " along its sample axis",
                     here->index.path, position, text, here->array.path, here->array.shape[0]);
}

/* Where an index array is read to: the end of the int64[its samples] at `out` that it becomes. */
static unsigned char *narrow_items(const struct zarr_array *index, int64_t *out)
{
    return (unsigned char *)out + index->shape[0] * (sizeof *out - index->item_bytes);
}

/* Narrower integers were read to the end of `out`, and are widened from its start: the write of
 * item i ends where item i + 1 is read, or before. */
static enum status widen_index(const struct store_field *here, int64_t *out, struct error *err)
{
    const unsigned char *items = narrow_items(&here->index, out);

    for (uint64_t i = 0; i < here->index.shape[0]; i++) {
        int64_t value = dtype_integer(here->index.dtype, items, i);

        if ((uint64_t)value >= here->array.shape[0]) /* negative ones too */
            return refuse_index(here, i, value, err);
        out[i] = (int64_t)here->first_element + value;
    }
    return STATUS_OK;
}

/* What is held: for each field and store an array, and for a joined field an index behind the
 * array. */
struct held_list {
    struct hold_array *arrays; /* [count], owned */
    const struct store_field *
        *indexed;      /* [count], owned: of an index, where it belongs; else NULL */
    int64_t **indices; /* [count], owned: of an index, what it becomes */
    size_t count;
};

static void add_array(struct held_list *list, const struct zarr_array *array, unsigned char *out)
{
    list->arrays[list->count++] = (struct hold_array){array, out};
}

/* The arrays of all stores lie one after another; those of a joined field are followed by all
 * indices, which count in them all. */
static void add_field(struct held_list *list, const struct dataset *dataset,
                      const struct field_origin *origin, unsigned char *memory)
{
    const struct dataset_private *private = dataset->private;
    unsigned char *elements = memory + origin->held_offset;
    int64_t *indices = (int64_t *)(void *)(memory + origin->index_offset);

    for (size_t s = 0; s < private->store_count; s++) {
        const struct store_field *here = &origin->store_fields[s];

        add_array(list, &here->array, elements);
        elements += here->array.total_bytes;
        if (!origin->index)
            continue;
        list->indexed[list->count] = here;
        list->indices[list->count] = indices + private->first_frame[s];
        add_array(list, &here->index, narrow_items(&here->index, list->indices[list->count]));
    }
}

static uint64_t *offsets_of(const struct ragged_origin *origin, const unsigned char *memory)
{
    return (uint64_t *)(void *)(memory + origin->held_offset);
}

/* Where the offsets of a store are read to: the end of their part of the memory. In front of the
 * part there is one place for each store before, so that no two stores read to the same place. */
static unsigned char *offsets_items(const struct dataset *dataset,
                                    const struct ragged_origin *origin, size_t store,
                                    const unsigned char *memory)
{
    const struct zarr_array *view = &origin->offsets.views[store];
    uint64_t *part = offsets_of(origin, memory) + dataset->store_frames[store] + store;

    return (unsigned char *)part + view->shape[0] * (sizeof *part - view->item_bytes);
}

/* Checks what was read, and numbers it through all stores. Fields that are held whole are read
 * here. */
static enum status settle_offsets(const struct dataset *dataset,
                                  const struct dataset_hold_options *options, unsigned char *memory,
                                  struct error *err)
{
    enum status status = STATUS_OK;

    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        uint64_t *offsets = offsets_of(origin, memory);

        if (origin->is_held)
            status =
                ragged_held_load(dataset, r, offsets, memory + origin->items_offset, options, err);
        for (size_t s = 0; s < dataset->store_count && status == STATUS_OK && !origin->is_held; s++)
            status = ragged_take_offsets(origin, s, offsets_items(dataset, origin, s, memory),
                                         offsets + dataset->store_frames[s], err);
        if (status == STATUS_OK &&
            ragged_hash_offsets(offsets, dataset->frame_count) != origin->lengths->offsets_hash)
            status = error_set(err, STATUS_INVALID,
                               "array '%s' has other offsets now than when the dataset was opened: "
                               "it was written anew; start the run again",
                               origin->offsets.views[0].path);
        if (status != STATUS_OK)
            error_prefix(err, status, "field '%s': ", origin->name);
    }
    return status;
}

static enum status list_held(const struct dataset *dataset, unsigned char *memory,
                             struct held_list *ret_list, struct error *err)
{
    size_t most = (2 * dataset->field_count + dataset->ragged_count) * dataset->store_count;
    struct held_list list = {.arrays = calloc(most, sizeof *list.arrays),
                             .indexed = calloc(most, sizeof *list.indexed),
                             .indices = calloc(most, sizeof *list.indices)};

    *ret_list = list;
    if (!list.arrays || !list.indexed || !list.indices)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list held arrays");
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->fields[i].source == FIELD_HELD && dataset->fields[i].row_leader == i)
            add_field(ret_list, dataset, &dataset->private->origins[i], memory);
    for (size_t r = 0; r < dataset->ragged_count; r++)
        for (size_t s = 0; s < dataset->store_count; s++) {
            const struct ragged_origin *origin = &dataset->private->ragged_origins[r];

            if (origin->is_held)
                continue;
            add_array(ret_list, &origin->offsets.views[s],
                      offsets_items(dataset, origin, s, memory));
        }
    return STATUS_OK;
}

static void held_list_done(struct held_list *list)
{
    free(list->arrays);
    free(list->indexed);
    free(list->indices);
}

/* Loads what is listed, then settles the indices, those before an array that could not be read
 * first: the first thing that is wrong is the error. */
static enum status hold_listed(const struct dataset *dataset, const struct held_list *list,
                               const struct dataset_hold_options *options, struct error *err)
{
    struct error unread;
    size_t failed;
    enum status status = hold_load(dataset, list->arrays, list->count, options, &failed, &unread);

    if (status != STATUS_OK && failed == list->count)
        failed = 0; /* nothing is there */
    for (size_t i = 0; i < failed; i++)
        if (list->indexed[i] && widen_index(list->indexed[i], list->indices[i], err) != STATUS_OK)
            return STATUS_INVALID;
    if (status != STATUS_OK && err)
        *err = unread;
    return status;
}

static uint64_t count_chunks(const struct dataset *dataset)
{
    uint64_t count = 0;

    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];

        if (dataset->fields[i].source != FIELD_HELD || dataset->fields[i].row_leader != i)
            continue;
        for (size_t s = 0; s < dataset->store_count; s++) {
            count += hold_chunks(&origin->store_fields[s].array);
            count += origin->index ? hold_chunks(&origin->store_fields[s].index) : 0;
        }
    }
    for (size_t r = 0; r < dataset->ragged_count; r++)
        for (size_t s = 0; s < dataset->store_count; s++)
            if (!dataset->private->ragged_origins[r].is_held)
                count += hold_chunks(&dataset->private->ragged_origins[r].offsets.views[s]);
    return count;
}

/* Whom the holding of a mix tells its progress. */
struct mix_progress {
    const struct dataset_hold_options *options;
    uint64_t chunks_before, bytes_before; /* of the sources before */
    uint64_t bytes;                       /* of these, and of the one under way */
    uint64_t chunk_count;                 /* of all sources */
};

static void add_progress(void *argument, uint64_t chunks, uint64_t chunk_count, uint64_t bytes)
{
    struct mix_progress *sum = argument;

    (void)chunk_count;
    sum->bytes = sum->bytes_before + bytes;
    if (sum->options->progress)
        sum->options->progress(sum->options->argument, sum->chunks_before + chunks,
                               sum->chunk_count, sum->bytes);
}

static enum status hold_mix(struct dataset *mix, const struct dataset_hold_options *options,
                            void *memory, struct error *err)
{
    struct mix_progress sum = {.options = options};
    struct dataset_hold_options each = *options;
    enum status status = STATUS_OK;

    each.progress = add_progress;
    each.argument = &sum;
    for (uint32_t d = 0; d < mix->source_count; d++)
        sum.chunk_count += count_chunks(mix->sources[d]);
    for (uint32_t d = 0; d < mix->source_count && status == STATUS_OK; d++) {
        status = dataset_hold_with(mix->sources[d], &each,
                                   (unsigned char *)memory + mix->private->source_held[d], err);
        sum.chunks_before += count_chunks(mix->sources[d]);
        sum.bytes_before = sum.bytes;
    }
    return status;
}

enum status dataset_hold_with(struct dataset *dataset, const struct dataset_hold_options *options,
                              void *memory, struct error *err)
{
    struct held_list list;

    if (dataset->source_count > 0)
        return hold_mix(dataset, options, memory, err);

    if (dataset->held_bytes == 0)
        return STATUS_OK;
    enum status status = list_held(dataset, memory, &list, err);
    if (status == STATUS_OK && list.count > 0)
        status = hold_listed(dataset, &list, options, err);
    held_list_done(&list);
    if (status == STATUS_OK)
        status = settle_offsets(dataset, options, memory, err);
    if (status != STATUS_OK && dataset->mask)
        status = error_prefix(err, status, "held whole, which errors.bad_sample cannot mask: ");
    if (status == STATUS_OK)
        dataset_attach(dataset, memory);
    return status;
}

enum status dataset_hold(struct dataset *dataset, void *memory, struct error *err)
{
    const struct dataset_hold_options options = {.thread_count = 1, .memory_bytes = UINT64_MAX};

    return dataset_hold_with(dataset, &options, memory, err);
}

void dataset_attach(struct dataset *dataset, const void *memory)
{
    bool is_mix = dataset->source_count > 0; /* whose sources have the offsets */

    dataset->private->held = memory;
    for (size_t r = 0; r < dataset->ragged_count && !is_mix; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];

        dataset->private->raggeds[r].offsets = offsets_of(origin, memory);
        if (origin->is_held)
            dataset->private->raggeds[r].held_items =
                (const unsigned char *)memory + origin->items_offset;
    }
    for (uint32_t d = 0; d < dataset->source_count; d++)
        dataset_attach(dataset->sources[d],
                       (const unsigned char *)memory + dataset->private->source_held[d]);
}

const void *dataset_held_sample(const struct dataset *dataset, size_t field, uint64_t index)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    const unsigned char *held = dataset->private->held;

    assert(held && index < dataset->frame_count);
    if (origin->index)
        index = (uint64_t)((const int64_t *)(const void *)(held + origin->index_offset))[index];
    return held + origin->held_offset + index * dataset->fields[field].frame_bytes;
}
