/* What follows from the arrays of ragged fields: pages, rows, and what is delivered. Pure; called
 * while opening. */
#include "dataset/ragged/ragged_layout.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/panel.h"
#include "dataset/ragged/ragged_open.h"
#include "zarr/chunk/chunk.h"

#include <string.h>

enum { PAGE_ALIGNMENT = 64 };

/* No sample, row or page is larger. */
#define LIMIT_BYTES ((uint64_t)1 << 48)

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The field that delivers a column; field_count: none. */
static size_t find_field(const struct dataset *dataset, const struct ragged_origin *origin,
                         size_t column)
{
    size_t i = 0;
    while (i < dataset->field_count && !(dataset->private->origins[i].is_items &&
                                         dataset->private->origins[i].ragged == origin &&
                                         dataset->private->origins[i].column == column))
        i++;
    return i;
}

static size_t find_lengths_field(const struct dataset *dataset, const struct ragged_origin *origin)
{
    const struct field_origin *origins = dataset->private->origins;
    enum field_made made = origin->deliver.form == RAGGED_CSR ? MADE_OFFSETS : MADE_LENGTH;
    size_t i = 0;
    while (i < dataset->field_count &&
           (origins[i].ragged != origin || origins[i].is_items || origins[i].made != made))
        i++;
    return i;
}

/* Pages
 * ---------------------------------------------------------------------------------------------- */

/* Chunks of one store are at most as long as this. */
static uint64_t longest_chunk(const struct dataset *dataset, const struct ragged_origin *origin)
{
    uint64_t longest = 1;
    for (size_t c = 0; c < origin->column_count; c++)
        for (size_t s = 0; s < dataset->store_count; s++) {
            const struct zarr_array *view = &origin->columns[c].views[s];
            longest = max_u64(longest, min_u64(view->chunk_shape[0], view->shape[0]));
        }
    return longest;
}

/* Small chunks share a page, so that shards' chunks are read together. Of the chunks that a row has
 * at least a page is no large part. */
static uint64_t page_items(uint64_t chunk, uint64_t item_bytes)
{
    const uint64_t page_bytes = (uint64_t)256 << 10, most_chunks = 4;
    return chunk * max_u64(min_u64(page_bytes / item_bytes / chunk, most_chunks), 1);
}

/* Values of a page, which is about as large as one value. Rows of short ones are small. */
static uint64_t values_page_items(const struct dataset *dataset, const struct ragged_origin *origin)
{
    const uint64_t least_bytes = (uint64_t)16 << 10, most_bytes = (uint64_t)256 << 10;
    size_t item_bytes = origin->columns[0].views[0].item_bytes;
    uint64_t bytes = mul_sat(origin->first_item[dataset->store_count], item_bytes) /
                     ragged_entries_before(origin, dataset->store_count);
    return max_u64(min_u64(max_u64(bytes, least_bytes), most_bytes) / item_bytes, 1);
}

static enum status refuse_size(const struct ragged *ragged, struct error *err)
{
    return error_set(err, STATUS_INVALID, "field '%s': its samples or chunks are beyond any memory",
                     ragged->name);
}

/* An item as it is read needs room, too, before it is clamped. */
static size_t room_of(const struct ragged_origin *origin, const struct ragged_column *column,
                      size_t c)
{
    return max_u64(column->item_bytes, zarr_array_sample_bytes(&origin->columns[c].views[0]));
}

/* The length of a column's chunks, if its items may be narrow. Those of a dense tensor, and of a
 * panel, are looked at as they are read. */
static uint64_t narrow_length(size_t store_count, const struct ragged_origin *origin,
                              const struct ragged *ragged, size_t c)
{
    const struct zarr_array *views = origin->columns[c].views;
    uint64_t length = views[0].chunk_shape[0];
    for (size_t s = 0; s < store_count; s++)
        if (!zarr_array_may_be_narrow(&views[s]) || views[s].chunk_shape[0] != length)
            return 0;
    bool is_whole = ragged->form == RAGGED_DENSE || origin->panel || origin->is_vlen;
    return !is_whole && ragged->page_items % length == 0 ? length : 0;
}

static enum status lay_out_pages(size_t stores, const struct ragged_origin *origin, uint64_t items,
                                 struct ragged *ragged, struct error *err)
{
    uint64_t at = 0, bytes;
    ragged->page_items = items;
    for (size_t c = 0; c < ragged->column_count; c++) {
        ragged->columns[c].page_offset = at;
        if (!size_multiply(ragged->page_items, room_of(origin, &ragged->columns[c], c), &bytes) ||
            bytes > LIMIT_BYTES)
            return refuse_size(ragged, err);
        at = size_round_up(at + bytes, PAGE_ALIGNMENT);
    }
    ragged->columns_bytes = at;
    for (size_t c = 0; c < ragged->column_count; c++) {
        struct ragged_column *column = &ragged->columns[c];
        column->width_items = narrow_length(stores, origin, ragged, c);
        column->widths_offset = at;
        if (column->width_items > 0)
            at += items / column->width_items * sizeof(enum narrow_width);
    }
    ragged->page_bytes = size_round_up(at, PAGE_ALIGNMENT);
    return STATUS_OK;
}

/* Fields
 * ---------------------------------------------------------------------------------------------- */

static enum dtype column_dtype(const struct ragged_origin *origin, size_t c)
{
    bool is_values = origin->has_values && c + 1 == origin->column_count;
    bool is_dense = origin->deliver.form == RAGGED_DENSE;
    return is_values && is_dense ? origin->cell : origin->columns[c].views[0].dtype;
}

static size_t column_bytes(const struct ragged_origin *origin, size_t c)
{
    const struct zarr_array *view = &origin->columns[c].views[0];
    return column_dtype(origin, c) == view->dtype ? zarr_array_sample_bytes(view)
                                                  : dtype_bytes(column_dtype(origin, c));
}

static void lay_out_columns(const struct dataset *dataset, const struct ragged_origin *origin,
                            struct ragged *ragged)
{
    ragged->column_count = origin->column_count;
    ragged->values = origin->has_values ? origin->column_count - 1 : origin->column_count;
    for (size_t c = 0; c < origin->column_count; c++) {
        ragged->columns[c] =
            (struct ragged_column){.name = name_of(origin->columns[c].node->array.path),
                                   .dtype = column_dtype(origin, c),
                                   .item_bytes = column_bytes(origin, c),
                                   .field = find_field(dataset, origin, c)};
        ragged->trailer_item_bytes += ragged->columns[c].item_bytes;
    }
}

/* Stored items lie in pages of whole chunks; those of the panel, which are few, in small pages. The
 * panel's indices are in its tensor, wherever stored ones point. */
static enum status lay_out_panel(size_t stores, const struct ragged_origin *origin,
                                 struct ragged *ragged, uint64_t items, struct error *err)
{
    const uint64_t page_bytes = (uint64_t)16 << 10;
    struct ragged_panel *panel = origin->panel;
    ragged->panel_count = panel->count;
    panel->stored = *ragged;
    panel->stored.dense_shape[panel->column] = 0;
    enum status status = lay_out_pages(stores, origin, items, &panel->stored, err);
    items = min_u64(items, max_u64(page_bytes / ragged->trailer_item_bytes, 1));
    return status == STATUS_OK ? lay_out_pages(stores, origin, items, ragged, err) : status;
}

/* Rows have no pages of it, and samples no trailer. */
static void hold(struct ragged *ragged)
{
    ragged->is_held = true;
    ragged->page_items = 1;
    ragged->trailer_item_bytes = 0;
}

static enum status lay_out_one(const struct dataset *dataset, const struct ragged_origin *origin,
                               struct ragged *ragged, struct error *err)
{
    const struct dataset_deliver_spec *deliver = &origin->deliver;
    *ragged = (struct ragged){.name = origin->name,
                              .form = deliver->form,
                              .combine = deliver->combine,
                              .truncates = deliver->truncates,
                              .pad_items = deliver->pad_items,
                              .multiple = deliver->multiple,
                              .dense_rank = deliver->form == RAGGED_DENSE ? deliver->dense_rank : 0,
                              .step_count = origin->step_count,
                              .steps = origin->steps,
                              .fills_zero = dataset->private->fill == SAMPLES_FILL_ZERO,
                              .lengths_field = find_lengths_field(dataset, origin),
                              .item_count = origin->first_item[dataset->store_count]};
    ragged->dense_items = deliver->form == RAGGED_DENSE ? 1 : 0;
    for (int axis = 0; axis < ragged->dense_rank; axis++) {
        ragged->dense_shape[axis] = deliver->dense_shape[axis];
        ragged->dense_items *= deliver->dense_shape[axis];
    }
    lay_out_columns(dataset, origin, ragged);
    if (origin->is_held) {
        hold(ragged);
        return STATUS_OK;
    }
    uint64_t items = origin->is_vlen
                         ? values_page_items(dataset, origin)
                         : page_items(longest_chunk(dataset, origin), ragged->trailer_item_bytes);
    if (origin->panel)
        return lay_out_panel(dataset->store_count, origin, ragged, items, err);
    return lay_out_pages(dataset->store_count, origin, items, ragged, err);
}

enum status ragged_lay_out(struct dataset *dataset, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++)
        status = lay_out_one(dataset, &dataset->private->ragged_origins[r],
                             &dataset->private->raggeds[r], err);
    dataset->ragged = dataset->ragged_count > 0 ? dataset->private->raggeds : NULL;
    return status;
}

void ragged_hold(struct dataset *dataset, size_t r)
{
    dataset->private->ragged_origins[r].is_held = true;
    hold(&dataset->private->raggeds[r]);
}

/* All pages take as much memory as the largest one: the others have as many chunks as fit. */
enum status ragged_settle_pages(struct dataset *dataset, struct error *err)
{
    enum status status = STATUS_OK;
    size_t most_bytes = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        if (!dataset->ragged[r].is_held)
            most_bytes = max_u64(most_bytes, dataset->ragged[r].columns_bytes);
    for (size_t r = 0; r < dataset->ragged_count && status == STATUS_OK; r++) {
        struct ragged *ragged = &dataset->private->raggeds[r];
        if (ragged->is_held)
            continue;
        uint64_t items = ragged->page_items * (most_bytes / ragged->columns_bytes);

        status = lay_out_pages(dataset->store_count, &dataset->private->ragged_origins[r], items,
                               ragged, err);
        dataset->page_bytes = max_u64(dataset->page_bytes, ragged->page_bytes);
    }
    return status;
}

static const struct ragged *ragged_of(const struct dataset *dataset,
                                      const struct ragged_origin *origin)
{
    return &dataset->ragged[origin - dataset->private->ragged_origins];
}

static void describe_item(const struct zarr_array *view, struct dataset_field *field)
{
    for (int axis = 1; axis < view->rank; axis++)
        field->shape[field->rank++] = view->shape[axis];
    if (view->item_length > 0)
        field->shape[field->rank++] = view->item_length;
}

void ragged_describe(const struct dataset *dataset, size_t i, struct dataset_field *field)
{
    const struct field_origin *of = &dataset->private->origins[i];
    const struct ragged_origin *origin = of->ragged;
    const struct ragged *ragged = ragged_of(dataset, origin);
    field->source = FIELD_RAGGED;
    field->fill = dataset->private->fill; /* of RAGGED_CSR, too, which has no axis of steps */
    field->ragged = ragged;
    field->column = of->column;
    if (ragged->form == RAGGED_DENSE) {
        field->dtype = origin->cell;
        field->rank = ragged->dense_rank;
        memcpy(field->shape, ragged->dense_shape, sizeof ragged->dense_shape);
        field->frame_bytes = ragged->dense_items * dtype_bytes(field->dtype);
        return;
    }
    field->dtype = ragged->columns[of->column].dtype;
    field->frame_bytes = ragged->columns[of->column].item_bytes;
    if (ragged->form == RAGGED_PAD) {
        field->shape[field->rank++] = ragged->pad_items;
        field->frame_bytes *= ragged->pad_items;
    }
    describe_item(&origin->columns[of->column].views[0], field);
}

/* Rows
 * ---------------------------------------------------------------------------------------------- */

static uint64_t stored_items(const struct dataset *dataset, const struct ragged *ragged)
{
    size_t r = (size_t)(ragged - dataset->ragged);
    return dataset->private->ragged_origins[r].first_item[dataset->store_count];
}

uint64_t ragged_frame_bytes(const struct dataset *dataset, const struct ragged *ragged)
{
    unsigned __int128 bytes =
        (unsigned __int128)stored_items(dataset, ragged) * ragged_item_bytes(ragged);
    return max_u64((uint64_t)(bytes / dataset->frame_count), 1);
}

const struct ragged *ragged_leader(const struct dataset *dataset)
{
    const struct ragged *leader = NULL;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        if (ragged_is_weighed(&dataset->private->ragged_origins[r]) &&
            (!leader || ragged_frame_bytes(dataset, &dataset->ragged[r]) >
                            ragged_frame_bytes(dataset, leader)))
            leader = &dataset->ragged[r];
    return leader;
}

/* A chunk is cut at both ends of a row, and decoded for both rows: 20 chunks make this cost 5%. */
uint64_t ragged_row_length(const struct dataset *dataset, const struct ragged *ragged,
                           uint64_t *ret_chunks)
{
    const uint64_t most_bytes = (uint64_t)64 << 20, most_chunks = 20;
    const struct ragged_origin *origin =
        &dataset->private->ragged_origins[ragged - dataset->ragged];
    uint64_t chunk = longest_chunk(dataset, origin), chunks = dataset->private->row_chunks;
    uint64_t items = max_u64(stored_items(dataset, ragged), 1); /* of none: all frames are a row */
    if (chunks == 0)
        chunks = min_u64(most_bytes / ragged->trailer_item_bytes / chunk, most_chunks);
    chunks = min_u64(max_u64(chunks, 1), size_divide_up(items, chunk));
    unsigned __int128 frames = (unsigned __int128)chunks * chunk * dataset->frame_count / items;

    *ret_chunks = chunks;
    return frames < 1 ? 1 : frames > UINT32_MAX ? UINT32_MAX : (uint64_t)frames;
}

void ragged_note_late(struct dataset *dataset)
{
    const uint64_t least_bytes = (uint64_t)16 << 20; /* a large part of the last cache */
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        bool is_late = ragged->form != RAGGED_DENSE && !origin->panel && !origin->is_vlen &&
                       ragged_row_bytes(dataset) >= least_bytes;
        for (size_t c = 0; c < origin->column_count; c++)
            for (size_t s = 0; s < dataset->store_count; s++)
                origin->columns[c].views[s].is_read_late = is_late;
    }
}

uint64_t ragged_row_bytes(const struct dataset *dataset)
{
    uint64_t bytes = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        bool is_weighed = ragged_is_weighed(&dataset->private->ragged_origins[r]);
        unsigned __int128 all = (unsigned __int128)ragged->item_count *
                                (is_weighed ? ragged_item_bytes(ragged) : 0) * dataset->row_length /
                                dataset->frame_count;
        bytes += all > LIMIT_BYTES ? LIMIT_BYTES : (uint64_t)all;
    }
    return bytes;
}
