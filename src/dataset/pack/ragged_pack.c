/* Ragged fields as bytes, and back: with what the scan of their offsets has found, so that ranks
 * that unpack a dataset read no offsets. See pack_internal.h. */
#include "dataset/pack/pack_internal.h"

#include "dataset/fields/slices.h"
#include "dataset/panel.h"

static const char *ragged_path(const struct ragged_array *array)
{
    return array->node->array.path;
}

/* The paths of some columns, as a list. */
static void put_columns(struct text *out, const struct ragged_origin *origin, size_t count)
{
    struct text list = {0};
    for (size_t c = 0; c < count; c++)
        text_list_put(&list, ragged_path(&origin->columns[c]));
    pack_string(out, list.data ? list.data : "");
    text_done(&list);
}

static void put_panel(struct text *out, const struct ragged_panel *panel)
{
    struct text indices = {0};
    if (panel)
        slices_put(&panel->slice, &indices);
    packed_put_number(out, panel ? panel->column : 0);
    pack_string(out, indices.data ? indices.data : "");
    text_done(&indices);
}

static void put_ragged(struct text *out, const struct dataset *dataset,
                       const struct ragged_origin *origin)
{
    bool is_dense = origin->deliver.form == RAGGED_DENSE;
    size_t others = origin->column_count - origin->has_values;
    pack_string(out, origin->name);
    pack_string(out, ragged_path(&origin->offsets));
    put_columns(out, origin, origin->index_count);
    put_columns(out, origin, origin->index_count > 0 ? 0 : others);
    pack_string(out, origin->has_values ? ragged_path(&origin->columns[others]) : "");
    pack_string(out, origin->index.node ? ragged_path(&origin->index) : "");
    pack_own_store(out, dataset, origin->own_store);
    packed_put_run(out, &origin->deliver, sizeof origin->deliver);
    packed_put_number(out, is_dense ? origin->cell : origin->convert.to);
    pack_real(out, origin->has_values ? origin->convert.scale : 0);
    pack_real(out, origin->convert.offset);
    packed_put_run(out, origin->steps, origin->step_count * sizeof *origin->steps);
    packed_put_run(out, origin->lengths, sizeof *origin->lengths);
    packed_put_run(out, origin->list.bytes, origin->list.size);
    packed_put_number(out, origin->is_held);
    put_panel(out, origin->panel);
}

void ragged_pack(struct text *out, const struct dataset *dataset)
{
    packed_put_number(out, dataset->ragged_count);
    for (size_t r = 0; r < dataset->ragged_count; r++)
        put_ragged(out, dataset, &dataset->private->ragged_origins[r]);
}

static bool take_panel(struct packed *packed, struct dataset_field_spec *spec)
{
    static const char *const axes[RAGGED_MAX_RANK] = {"1", "2", "3", "4", "5", "6", "7", "8"};
    struct dataset_slice_spec slice;
    uint64_t column;
    if (!packed_take_number(packed, &column) || column >= RAGGED_MAX_RANK ||
        !packed_take_string(packed, &slice.indices))
        return false;
    slice.axis = axes[column];
    if (*slice.indices)
        spec->slices[spec->slice_count++] = slice;
    return true;
}

/* The spec's steps and lengths are malloc'ed, the caller's, on failure too. */
static bool take_ragged(struct packed *packed, struct dataset_field_spec *spec)
{
    struct dataset_ragged_spec *ragged = &spec->ragged;
    size_t size, count;
    const char *deliver, *list;
    void *steps, *lengths;
    uint64_t cast, is_held;
    if (!packed_take_string(packed, &spec->name) || !unpack_text(packed, &ragged->offsets) ||
        !unpack_text(packed, &ragged->index) || !unpack_text(packed, &ragged->columns) ||
        !unpack_text(packed, &ragged->values) || !unpack_text(packed, &spec->index) ||
        !unpack_text(packed, &spec->store) || !packed_take_run(packed, &deliver, &size) ||
        size != sizeof spec->deliver || !packed_take_number(packed, &cast) ||
        !unpack_real(packed, &spec->scale) || !unpack_real(packed, &spec->offset) ||
        !unpack_items(packed, sizeof *spec->steps, &steps, &spec->step_count))
        return false;
    memcpy(&spec->deliver, deliver, size);
    spec->array = spec->name;
    spec->cast = (enum dtype)cast;
    spec->steps = steps;
    if (!unpack_items(packed, sizeof(struct ragged_lengths), &lengths, &count))
        return false;
    ragged->lengths = lengths;
    if (!packed_take_run(packed, &list, &ragged->list_bytes) ||
        !packed_take_number(packed, &is_held) || is_held > 1)
        return false;
    ragged->list = list;
    ragged->is_held = is_held;
    return ragged->offsets && count == 1 && take_panel(packed, spec);
}

bool ragged_unpack(struct packed *packed, struct dataset_field_spec *specs, uint64_t *count)
{
    uint64_t ragged_count;
    if (!packed_take_number(packed, &ragged_count) || ragged_count > RAGGED_MAX_FIELDS ||
        *count + ragged_count > DATASET_MAX_FIELDS)
        return false;
    for (uint64_t r = 0; r < ragged_count; r++)
        if (!take_ragged(packed, &specs[(*count)++]))
            return false;
    return true;
}
