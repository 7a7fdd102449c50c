/* Slices: which indices along other axes than the sample axis a field has. Called while opening, by
 * one thread. Names of coordinates become numbers here, so that other ranks need not read them. */
#include "dataset/fields/slices.h"

#include "base/number.h"
#include "dataset/fields/coordinates.h"
#include "dataset/fields/list_file.h"
#include "dataset/fields/select.h"
#include "zarr/hierarchy/axes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An axis that is sliced, in one store. */
struct sliced_axis {
    const struct dataset *dataset;
    const struct store *store;
    const struct zarr_node *node; /* NULL: of no array, and all that is known is below */
    int axis;
    uint64_t length;
    struct coordinates coordinates; /* zero: not read so far */
    bool has_names;                 /* a coordinate was looked up */
};

/* "-3" with a length of 10 is 7. False: the text up to `end` is no integer. */
static bool parse_integer(const char *text, const char *end, int64_t *ret_value)
{
    const char *digits = text + (*text == '-');
    size_t length = (size_t)(end - digits);
    if (digits >= end || length > 18 || strspn(digits, "0123456789") < length)
        return false;
    *ret_value = strtoll(text, NULL, 10);
    return true;
}

/* An end of a range; `preset` where there is nothing. False: it is no integer. */
static bool parse_end(const char *text, const char *end, int64_t preset, uint64_t length,
                      int64_t *ret_value)
{
    *ret_value = preset;
    if (text == end)
        return true;
    if (!parse_integer(text, end, ret_value))
        return false;
    *ret_value += *ret_value < 0 ? (int64_t)length : 0;
    return true;
}

static enum status take_range(const char *item, int64_t begin, int64_t end, uint64_t length,
                              struct zarr_run *ret_run, struct error *err)
{
    if (begin < 0 || end > (int64_t)length)
        return error_set(err, STATUS_INVALID,
                         "'%s' is out of range: the axis has %" PRIu64 ", from 0 on", item, length);
    if (begin >= end)
        return error_set(err, STATUS_INVALID, "'%s' is a range without any index", item);
    *ret_run = (struct zarr_run){(uint64_t)begin, (uint64_t)(end - begin)};
    return STATUS_OK;
}

static enum status take_name(struct sliced_axis *axis, const char *name, struct zarr_run *ret_run,
                             struct error *err)
{
    enum status status = STATUS_OK;
    axis->has_names = true;
    if (axis->coordinates.count == 0 && !axis->node)
        return error_set(err, STATUS_NOT_FOUND,
                         "'%s' is a name, and the columns have none: write numbers, or name the "
                         "array of names instead of the axis",
                         name);
    if (axis->coordinates.count == 0)
        status = coordinates_read(axis->dataset, axis->store, axis->node, axis->axis,
                                  &axis->coordinates, err);
    *ret_run = (struct zarr_run){.count = 1};
    if (status == STATUS_OK)
        status = coordinates_find(&axis->coordinates, name, &ret_run->first, err);
    return status;
}

/* One item: "n", "a:b", a name, or "=" and a name. */
static enum status take_item(struct sliced_axis *axis, const char *item, struct zarr_run *ret_run,
                             bool *ret_is_range, struct error *err)
{
    const char *colon = strchr(item, ':'), *end = item + strlen(item);
    uint64_t length = axis->length;
    int64_t first, behind;
    *ret_is_range = colon && parse_end(item, colon, 0, length, &first) &&
                    parse_end(colon + 1, end, (int64_t)length, length, &behind);
    if (*ret_is_range)
        return take_range(item, first, behind, length, ret_run, err);
    if (!parse_integer(item, end, &first))
        return take_name(axis, item + (*item == '='), ret_run, err);
    first += first < 0 ? (int64_t)length : 0;
    return take_range(item, first, first + 1, length, ret_run, err);
}

/* The items of `list` (base/text.h). */
static enum status take_list(struct sliced_axis *axis, const char *list, struct field_slice *ret,
                             struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    bool is_range = false;
    while (status == STATUS_OK && text_list_take(&list, &item)) {
        struct zarr_run *runs =
            realloc(ret->runs, (ret->run_count + 1) * sizeof *runs); /* few, and at the start */
        if (!runs) {
            status = error_set(err, STATUS_NO_MEMORY, "no memory for a slice");
            break;
        }
        ret->runs = runs;
        status =
            take_item(axis, item.data ? item.data : "", &runs[ret->run_count++], &is_range, err);
    }
    text_done(&item);
    if (status == STATUS_OK && ret->run_count == 0)
        status = error_set(err, STATUS_INVALID, "a list without any index");
    ret->drops = ret->run_count == 1 && !is_range;
    return status;
}

static enum status take_indices(struct sliced_axis *axis, const char *indices,
                                struct field_slice *ret, struct error *err)
{
    size_t length = strlen(indices);
    bool bracketed = length > 1 && indices[0] == '[' && indices[length - 1] == ']';
    bool is_file = indices[0] == '@';
    enum status status = STATUS_OK;
    struct text list = {0};
    if (is_file)
        status = list_file_read(indices + 1, &list, err);
    else
        text_append(&list, "%.*s", (int)(length - 2 * bracketed), indices + bracketed);
    if (status == STATUS_OK)
        status = take_list(axis, list.data ? list.data : "", ret, err);
    if (status != STATUS_OK && is_file && list.data)
        status = error_prefix(err, status, "file '%s': ", indices + 1);
    text_done(&list);
    ret->drops &= !bracketed && !is_file;
    return status;
}

enum status slices_take(const char *indices, uint64_t length, const struct coordinates *names,
                        struct field_slice *ret_slice, bool *ret_has_names, struct error *err)
{
    struct sliced_axis axis = {.length = length, .coordinates = *names};
    enum status status = take_indices(&axis, indices, ret_slice, err);
    ret_slice->drops = false;
    *ret_has_names = axis.has_names;
    return status;
}

/* Names may stand elsewhere in other stores, and each sample has to be the same. */
static enum status check_stores(const struct dataset *dataset, const struct field_origin *origin,
                                int axis, const char *indices, struct error *err)
{
    const struct field_slice *first = &origin->slices[axis];
    enum status status = STATUS_OK;
    for (size_t s = 1; s < dataset_part_count(dataset, origin->own_store) && status == STATUS_OK;
         s++) {
        struct field_slice here = {0};
        const char *name;
        struct sliced_axis there = {
            .dataset = dataset,
            .store = store_joined_at(dataset->private->store, s, &name),
            .node =
                zarr_hierarchy_find(dataset->private->hierarchies[s], origin->array->array.path),
            .axis = axis,
        };
        if (!there.node || there.node->array.rank != origin->array->array.rank)
            return STATUS_OK; /* store_fields.c will say so */
        there.length = there.node->array.shape[axis];
        status = take_indices(&there, indices, &here, err);
        if (status == STATUS_OK &&
            (here.run_count != first->run_count ||
             memcmp(here.runs, first->runs, here.run_count * sizeof *here.runs) != 0))
            status = error_set(err, STATUS_INVALID,
                               "the coordinates '%s' have these names at other indices than in the "
                               "store %s: write numbers, or one of the stores anew",
                               there.coordinates.path, dataset_store_text(dataset, 0).text);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "store %s: ", dataset_store_text(dataset, s).text);
        coordinates_done(&there.coordinates);
        free(here.runs);
    }
    return status;
}

static enum status find_axis(const struct field_origin *origin,
                             const struct dataset_slice_spec *spec, int *ret_axis,
                             struct error *err)
{
    int axis = select_axis(origin->array, spec->axis);
    if (axis < 0)
        return select_no_axis(origin->array, spec->axis, "which is to be sliced", err);
    if (axis == origin->axis)
        return error_set(err, STATUS_INVALID, "axis '%s' is the sample axis: it takes another one",
                         spec->axis);
    if (origin->slices[axis].runs)
        return error_set(err, STATUS_INVALID, "axis %d has two slices", axis);
    *ret_axis = axis;
    return STATUS_OK;
}

static enum status settle_slice(const struct dataset *dataset, struct field_origin *origin,
                                const struct dataset_slice_spec *spec, struct error *err)
{
    const char *name;
    struct sliced_axis axis = {
        .dataset = dataset,
        .store =
            store_joined_at(dataset->private->store, dataset_store_at(origin->own_store, 0), &name),
        .node = origin->array};
    enum status status = find_axis(origin, spec, &axis.axis, err);
    if (status != STATUS_OK)
        return status;
    axis.length = origin->array->array.shape[axis.axis];
    status = take_indices(&axis, spec->indices, &origin->slices[axis.axis], err);
    if (status == STATUS_OK && axis.has_names)
        status = check_stores(dataset, origin, axis.axis, spec->indices, err);
    coordinates_done(&axis.coordinates);
    return status;
}

/* The middle `length` of `count` indices, one more behind than before if that is uneven. */
static enum status crop_runs(struct field_slice *slice, uint64_t count, uint64_t length,
                             struct error *err)
{
    uint64_t skip = (count - length) / 2, left = length;
    size_t kept = 0;
    if (length > count)
        return error_set(err, STATUS_INVALID, "%" PRIu64 " indices of %" PRIu64, length, count);
    for (size_t i = 0; i < slice->run_count; i++) {
        struct zarr_run run = slice->runs[i];
        uint64_t skipped = min_u64(skip, run.count);
        run.first += skipped;
        run.count = min_u64(run.count - skipped, left);
        skip -= skipped;
        left -= run.count;
        if (run.count > 0)
            slice->runs[kept++] = run;
    }
    slice->run_count = kept;
    return STATUS_OK;
}

/* A random crop slices nothing: rows have whole frames. */
static enum status settle_random(struct field_origin *origin, int axis, uint64_t length,
                                 struct error *err)
{
    const struct field_slice *slice = &origin->slices[axis];
    uint64_t count = slice->runs ? 0 : origin->array->array.shape[axis];
    for (size_t i = 0; i < slice->run_count; i++)
        count += slice->runs[i].count;
    if (length > count)
        return error_set(err, STATUS_INVALID, "%" PRIu64 " indices of %" PRIu64, length, count);
    origin->crops[axis] = length;
    origin->is_cropped = true;
    return STATUS_OK;
}

static enum status settle_crop(struct field_origin *origin, const struct dataset_crop_spec *spec,
                               enum dataset_crop_at at, struct error *err)
{
    struct dataset_slice_spec all = {.axis = spec->axis};
    struct zarr_run *runs;
    uint64_t count = 0;
    int axis = select_axis(origin->array, spec->axis);
    if (axis < 0 || axis == origin->axis)
        return find_axis(origin, &all, &axis, err);
    if (at == CROP_RANDOM)
        return settle_random(origin, axis, spec->length, err);
    struct field_slice *slice = &origin->slices[axis];
    if (!slice->runs) {
        runs = malloc(sizeof *runs);
        if (!runs)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a crop");
        *runs = (struct zarr_run){0, origin->array->array.shape[axis]};
        slice->runs = runs;
        slice->run_count = 1;
    }
    for (size_t i = 0; i < slice->run_count; i++)
        count += slice->runs[i].count;
    return crop_runs(slice, count, spec->length, err);
}

enum status slices_settle(struct dataset *dataset, const struct dataset_options *options,
                          struct error *err)
{
    for (size_t f = 0; options->fields && f < options->field_count; f++) {
        const struct dataset_field_spec *spec = &options->fields[f];
        struct field_origin *origin = dataset_origin(dataset, spec->name);
        if (!origin)
            continue;
        for (size_t i = 0; i < spec->slice_count; i++) {
            enum status status = settle_slice(dataset, origin, &spec->slices[i], err);
            if (status != STATUS_OK)
                return error_prefix(err, status, "field '%s': slice of axis '%s': ", spec->name,
                                    spec->slices[i].axis);
        }
        origin->crop_group = spec->crop_group;
        for (size_t i = 0; i < spec->crop_count; i++) {
            enum status status = settle_crop(origin, &spec->crops[i], spec->crop_at, err);
            if (status != STATUS_OK)
                return error_prefix(err, status, "field '%s': crop of axis '%s': ", spec->name,
                                    spec->crops[i].axis);
        }
    }
    return STATUS_OK;
}

/* The axis of the array that an axis of the field's frames is; its rank: none. Axes that slices
 * drop are not among them. */
static int frame_axis(const struct field_origin *origin, int axis)
{
    int at = 1, rank = origin->array->array.rank;
    for (; at < rank && (slices_drop(origin, at) || axis > 0); at++)
        axis -= !slices_drop(origin, at);
    return at < rank ? slices_axis(origin, at) : rank;
}

/* Adds the runs of a slice that indices [first, first + count) of it are. */
static void add_runs(const struct field_slice *slice, uint64_t first, uint64_t count,
                     struct field_slice *to)
{
    for (size_t i = 0; i < slice->run_count && count > 0; i++) {
        const struct zarr_run *run = &slice->runs[i];
        if (first >= run->count) {
            first -= run->count;
            continue;
        }
        uint64_t taken = min_u64(count, run->count - first);
        to->runs[to->run_count++] = (struct zarr_run){run->first + first, taken};
        first = 0;
        count -= taken;
    }
}

/* The indices `runs` ([count]) of those that a field has along an axis of its array. */
static enum status narrow_axis(struct field_origin *origin, int axis, const struct zarr_run *runs,
                               size_t count, struct error *err)
{
    struct field_slice *slice = &origin->slices[axis], narrowed = {.drops = slice->drops};
    struct zarr_run all = {0, origin->array->array.shape[axis]};
    struct field_slice whole = {.runs = &all, .run_count = 1};
    const struct field_slice *from = slice->runs ? slice : &whole;
    narrowed.runs = calloc(count + from->run_count, sizeof *narrowed.runs);
    if (!narrowed.runs)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a slice");
    for (size_t i = 0; i < count; i++)
        add_runs(from, runs[i].first, runs[i].count, &narrowed);
    free(slice->runs);
    *slice = narrowed;
    return STATUS_OK;
}

enum status slices_narrow(struct dataset *dataset, const struct dataset_narrowing *narrowing,
                          struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; narrowing && i < narrowing->field_count; i++) {
        const struct dataset_narrowed *field = &narrowing->fields[i];
        struct field_origin *origin = dataset_origin(dataset, field->name);
        origin->is_absent = field->is_absent;
        for (int k = 0; status == STATUS_OK && k < field->axis_count; k++)
            status = narrow_axis(origin, frame_axis(origin, field->axes[k].axis),
                                 field->axes[k].runs, field->axes[k].run_count, err);
    }
    if (narrowing)
        dataset->private->row_length = narrowing->row_length;
    if (narrowing)
        dataset->private->held_fields = narrowing->held;
    return status;
}

bool dataset_may_narrow(const struct dataset *dataset, size_t field, int axis)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    if (!origin->array)
        return false;
    int of_array = frame_axis(origin, axis);
    int of_view = of_array < origin->axis ? of_array + 1 : of_array;
    return of_array < origin->array->array.rank && origin->crops[of_array] == 0 &&
           (!origin->normal || origin->normal->strides[of_view] == 0);
}

enum status slices_select(const struct field_origin *origin, const struct zarr_array *array,
                          struct store_field *here, struct zarr_view *view, struct error *err)
{
    for (int axis = 0; axis < array->rank; axis++) {
        const struct field_slice *slice = &origin->slices[axis];
        if (!slice->runs)
            continue;
        enum status status =
            zarr_selection_new(array->shape[axis], array->chunk_shape[axis], slice->runs,
                               slice->run_count, &here->selections[axis], err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': slice of axis %d: ", origin->name, axis);
        view->selections[axis] = here->selections[axis];
    }
    return STATUS_OK;
}

bool slices_same(const struct field_origin *a, const struct field_origin *b)
{
    bool same = true;
    for (int axis = 0; axis < ZARR_MAX_RANK && same; axis++) {
        const struct field_slice *left = &a->slices[axis], *right = &b->slices[axis];
        same = left->run_count == right->run_count &&
               (left->run_count == 0 ||
                memcmp(left->runs, right->runs, left->run_count * sizeof *left->runs) == 0);
    }
    return same;
}

int slices_axis(const struct field_origin *origin, int axis)
{
    return axis <= origin->axis ? axis - 1 : axis;
}

int dataset_field_axis(const struct dataset *dataset, size_t field, const char *text)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    int axis = origin->array ? select_axis(origin->array, text) : -1;
    if (axis < 0 || axis == origin->axis)
        return axis < 0 ? -1 : 0;
    return axis < origin->axis ? axis + 1 : axis;
}

void dataset_field_axis_name(const struct dataset *dataset, size_t field, int axis,
                             char ret_name[DATASET_NAME_BYTES])
{
    const struct field_origin *origin = &dataset->private->origins[field];
    struct zarr_axis_names names;
    ret_name[0] = '\0';
    if (origin->array && zarr_node_axis_names(origin->array, &names))
        snprintf(ret_name, DATASET_NAME_BYTES, "%s", names.names[slices_axis(origin, axis)]);
}

bool slices_drop(const struct field_origin *origin, int axis)
{
    return origin->slices[slices_axis(origin, axis)].drops;
}

void slices_put(const struct field_slice *slice, struct text *out)
{
    if (slice->drops) {
        text_append(out, "%" PRIu64, slice->runs[0].first);
        return;
    }
    for (size_t i = 0; i < slice->run_count; i++)
        text_append(out, "%c%" PRIu64 ":%" PRIu64, i == 0 ? '[' : ',', slice->runs[i].first,
                    slice->runs[i].first + slice->runs[i].count);
    text_append(out, "]");
}

void slices_free(struct field_origin *origin, size_t store_count)
{
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++) {
        free(origin->slices[axis].runs);
        for (size_t s = 0; origin->store_fields && s < store_count; s++)
            zarr_selection_free(origin->store_fields[s].selections[axis]);
    }
}
