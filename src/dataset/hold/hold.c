/* See dataset.h: arrays that are held whole. One process a node fills their memory once; all
 * processes of the node read the memory. */
#include "dataset/hold/hold_internal.h"
#include "dataset/join.h"
#include "dataset/ragged/panel_open.h"
#include "dataset/ragged/ragged_offsets.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/ragged/ragged_vlen.h"

#include <assert.h>
#include <stdlib.h>

/* What is held: for each field and store an array, and for a joined field an index behind the
 * array; for each ragged field and store the offsets, and of what is joined the columns, then the
 * index. */
struct held_list {
    struct hold_array *arrays; /* [count], owned */
    struct join *joins;        /* [count], owned: of an index; else zeros */
    int64_t **indices;         /* [count], owned: of an index, what it becomes */
    size_t count;
    size_t field, ragged; /* of what is added now, as of struct hold_array */
};

static void add_array(struct held_list *list, const struct zarr_array *array, unsigned char *out)
{
    list->arrays[list->count++] = (struct hold_array){array, out, list->field, list->ragged};
}

static void add_index(struct held_list *list, struct join join, int64_t *out)
{
    list->joins[list->count] = join;
    list->indices[list->count] = out;
    add_array(list, join.index, join_items(&join, out));
}

/* The arrays of all stores lie one after another (one alone, of a field's own store); those of a
 * joined field are followed by all indices, which count in them all. */
static void add_field(struct held_list *list, const struct dataset *dataset,
                      const struct field_origin *origin, unsigned char *memory)
{
    const struct dataset_private *private = dataset->private;
    unsigned char *elements = memory + origin->held_offset;
    int64_t *indices = (int64_t *)(void *)(memory + origin->index_offset);
    for (size_t s = 0; s < private->store_count; s++) {
        const struct store_field *here = &origin->store_fields[s];
        if (s < dataset_part_count(dataset, origin->own_store))
            add_array(list, &here->array, elements);
        elements += here->array.total_bytes;
        if (origin->index)
            add_index(list,
                      (struct join){.index = &here->index,
                                    .array = &here->array,
                                    .elements = here->array.shape[0],
                                    .first = here->first_element,
                                    .unit = " along its sample axis",
                                    .matches = origin->matches
                                                   ? origin->matches + private->first_frame[s]
                                                   : NULL},
                      indices + private->first_frame[s]);
    }
}

/* As they are stored. */
static uint64_t *offsets_of(const struct ragged_origin *origin, const unsigned char *memory)
{
    size_t offset = origin->panel ? origin->panel->held_offset : origin->held_offset;
    return (uint64_t *)(void *)(memory + offset);
}

/* Where the offsets of a store are read to: the end of their part of the memory. In front of the
 * part there is one place for each store before, so that no two stores read to the same place. */
static unsigned char *offsets_items(const struct ragged_origin *origin, size_t store,
                                    const unsigned char *memory)
{
    const struct zarr_array *view = &origin->offsets.views[store];
    uint64_t *part = offsets_of(origin, memory) + ragged_entries_before(origin, store) + store;
    return (unsigned char *)part + view->shape[0] * (sizeof *part - view->item_bytes);
}

/* NULL: the field is not joined. */
static int64_t *entries_of(const struct ragged_origin *origin, const unsigned char *memory)
{
    return origin->index.node ? (int64_t *)(void *)(memory + origin->index_offset) : NULL;
}

/* The offsets of the panel, as scanned. */
static enum status settle_panel(const struct dataset *dataset, const struct ragged_origin *origin,
                                unsigned char *memory, struct error *err)
{
    size_t at = 0;
    length_list_offsets(&origin->list, &at, ragged_entries_before(origin, dataset->store_count),
                        (uint64_t *)(void *)(memory + origin->held_offset));
    if (!length_list_is_taken(&origin->list, at))
        return error_set(err, STATUS_CORRUPT, "packed dataset: its lengths are not valid");
    return STATUS_OK;
}

/* Checks what was read, and numbers it through all stores. Values of variable length are read here,
 * or only their lengths are taken. */
static enum status settle_offsets(const struct dataset *dataset,
                                  const struct dataset_hold_options *options, unsigned char *memory,
                                  struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        uint64_t *offsets = offsets_of(origin, memory);
        if (origin->is_vlen)
            status = ragged_vlen_load(dataset, r, offsets, memory + origin->items_offset[0],
                                      options, err);
        for (size_t s = 0; s < dataset->store_count && status == STATUS_OK && !origin->is_vlen; s++)
            status = ragged_take_offsets(origin, s, offsets_items(origin, s, memory),
                                         offsets + ragged_entries_before(origin, s), err);
        if (status == STATUS_OK &&
            ragged_hash_offsets(offsets, ragged_entries_before(origin, dataset->store_count),
                                entries_of(origin, memory),
                                dataset->frame_count) != origin->lengths->offsets_hash)
            status = error_set(err, STATUS_INVALID,
                               "array '%s'%s%s%s has other offsets now than when the dataset was "
                               "opened: it was written anew; start the run again",
                               origin->offsets.views[0].path, origin->index.node ? " by '" : "",
                               origin->index.node ? origin->index.views[0].path : "",
                               origin->index.node ? "'" : "");
        if (status == STATUS_OK && origin->panel)
            status = settle_panel(dataset, origin, memory, err);
        if (status != STATUS_OK)
            error_prefix(err, status, "field '%s': ", origin->name);
    }
    return status;
}

static void add_ragged(struct held_list *list, const struct dataset *dataset,
                       const struct ragged_origin *origin, unsigned char *memory)
{
    bool is_listed = origin->is_held && !origin->is_vlen;
    for (size_t s = 0; s < dataset->store_count; s++) {
        if (!origin->is_vlen)
            add_array(list, &origin->offsets.views[s], offsets_items(origin, s, memory));
        for (size_t c = 0; c < origin->column_count && is_listed; c++) {
            const struct zarr_array *view = &origin->columns[c].views[s];
            size_t before = origin->first_item[s] * zarr_array_sample_bytes(view);
            add_array(list, view, memory + origin->items_offset[c] + before);
        }
        if (origin->index.node)
            add_index(list, ragged_join(origin, s),
                      entries_of(origin, memory) + dataset->store_frames[s]);
    }
}

/* Arrays that are held of a ragged field, in one store. */
enum { RAGGED_HELD_ARRAYS = RAGGED_MAX_COLUMNS + 2 };

static enum status list_held(const struct dataset *dataset, unsigned char *memory,
                             struct held_list *ret_list, struct error *err)
{
    size_t most = (2 * dataset->field_count + RAGGED_HELD_ARRAYS * dataset->ragged_count) *
                  dataset->store_count;
    struct held_list list = {.arrays = calloc(most, sizeof *list.arrays),
                             .joins = calloc(most, sizeof *list.joins),
                             .indices = calloc(most, sizeof *list.indices)};
    *ret_list = list;
    if (!list.arrays || !list.joins || !list.indices)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list held arrays");
    for (size_t i = 0; i < dataset->field_count; i++) {
        ret_list->field = i;
        if (dataset->fields[i].source == FIELD_HELD && dataset->fields[i].row_leader == i)
            add_field(ret_list, dataset, &dataset->private->origins[i], memory);
    }
    ret_list->field = SIZE_MAX;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        ret_list->ragged = r;
        add_ragged(ret_list, dataset, &dataset->private->ragged_origins[r], memory);
    }
    return STATUS_OK;
}

static void held_list_done(struct held_list *list)
{
    free(list->arrays);
    free(list->joins);
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
        if (list->indices[i] && join_settle(&list->joins[i], list->indices[i], err) != STATUS_OK)
            return STATUS_INVALID;
    if (status != STATUS_OK && err)
        *err = unread;
    return status;
}

/* Of values of variable length the index alone: their own chunks are counted by nobody. */
static uint64_t ragged_hold_chunks(const struct ragged_origin *origin, size_t store)
{
    uint64_t count = origin->is_vlen ? 0 : hold_chunks(&origin->offsets.views[store]);
    for (size_t c = 0; c < origin->column_count && origin->is_held && !origin->is_vlen; c++)
        count += hold_chunks(&origin->columns[c].views[store]);
    return count + (origin->index.node ? hold_chunks(&origin->index.views[store]) : 0);
}

static uint64_t count_chunks(const struct dataset *dataset)
{
    uint64_t count = 0;
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (dataset->fields[i].source != FIELD_HELD || dataset->fields[i].row_leader != i)
            continue;
        for (size_t s = 0; s < dataset->store_count; s++) {
            if (s < dataset_part_count(dataset, origin->own_store))
                count += hold_chunks(&origin->store_fields[s].array);
            count += origin->index ? hold_chunks(&origin->store_fields[s].index) : 0;
        }
    }
    for (size_t r = 0; r < dataset->ragged_count; r++)
        for (size_t s = 0; s < dataset->store_count; s++)
            count += ragged_hold_chunks(&dataset->private->ragged_origins[r], s);
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
        struct ragged *ragged = &dataset->private->raggeds[r];
        ragged->offsets =
            (const uint64_t *)(const void *)((const unsigned char *)memory + origin->held_offset);
        if (origin->panel)
            origin->panel->stored.offsets = offsets_of(origin, memory);
        if (origin->is_vlen)
            ragged_vlen_attach(dataset, r, ragged->offsets);
        ragged->entries = entries_of(origin, memory);
        for (size_t c = 0; c < origin->column_count && origin->is_held; c++)
            ragged->held_items[c] = (const unsigned char *)memory + origin->items_offset[c];
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
