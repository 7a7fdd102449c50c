/* Fields whose frames are found by a coordinate: see dataset_field_spec.align. The coordinate of
 * the field's own array rises, and is kept while that of the dataset's frames is read past it, in
 * any order. Called while opening, by one thread. */
#include "dataset/frames/frame_keys.h"
#include "dataset/frames/frames.h"

#include "zarr/hierarchy/axes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The matches are kept whole, and sent to all readers. */
enum { MOST_FRAMES = 1 << 26 };

struct aligning {
    const struct dataset *dataset;
    struct field_origin *origin;
    char option[DATASET_NAME_BYTES + 32];
    struct frame_coordinate *coordinate; /* that is read */
    int64_t *keys;                       /* [count], owned: of the elements, rising */
    uint64_t count;
};

static enum status take_key(const struct aligning *aligning, const void *items, uint64_t i,
                            uint64_t item, int64_t *ret_key, struct error *err)
{
    if (frame_key(aligning->coordinate, items, i, ret_key))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "item %" PRIu64 " is no %s", item,
                     aligning->coordinate->is_time ? "time" : "number");
}

static enum status take_elements(void *argument, const struct frame_array *array, uint64_t first,
                                 uint64_t count, const void *items, struct error *err)
{
    struct aligning *aligning = argument;
    int64_t *keys = aligning->keys + first;
    enum status status = STATUS_OK;
    (void)array;
    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        status = take_key(aligning, items, i, first + i, &keys[i], err);
        if (status == STATUS_OK && first + i > 0 && keys[i] <= keys[i - 1])
            status = error_set(err, STATUS_INVALID,
                               "item %" PRIu64 " is %s, after %s: the coordinate of a field that "
                               "is aligned has to rise",
                               first + i, frame_key_text(aligning->coordinate, keys[i]).text,
                               frame_key_text(aligning->coordinate, keys[i - 1]).text);
    }
    return status;
}

/* The element that a frame has; -1: none. */
static int64_t find(const struct aligning *aligning, int64_t key)
{
    const int64_t *keys = aligning->keys;
    uint64_t low = 0, high = aligning->count; /* the first element that is later */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (keys[middle] <= key)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_exact = low > 0 && keys[low - 1] == key;
    if (is_exact || aligning->origin->match == MATCH_PREVIOUS)
        return (int64_t)low - 1;
    if (aligning->origin->match == MATCH_EXACT)
        return -1;
    if (low == 0 || low == aligning->count)
        return low == 0 ? 0 : (int64_t)low - 1;
    bool is_later = frame_key_distance(aligning->coordinate, key, keys[low]) <=
                    frame_key_distance(aligning->coordinate, keys[low - 1], key);
    return (int64_t)low - !is_later;
}

static enum status take_frames(void *argument, const struct frame_array *array, uint64_t first,
                               uint64_t count, const void *items, struct error *err)
{
    struct aligning *aligning = argument;
    int64_t *matches = aligning->origin->matches + array->first + first, key;
    enum status status = STATUS_OK;
    for (uint64_t i = 0; status == STATUS_OK && i < count; i++) {
        status = take_key(aligning, items, i, first + i, &key, err);
        if (status == STATUS_OK)
            matches[i] = find(aligning, key);
    }
    return status;
}

/* Reads the coordinate `path`, with `items` items, which is compared with that of `before`. */
static enum status read_coordinate(struct aligning *aligning, size_t s, const char *path,
                                   uint64_t items, const struct frame_coordinate *before,
                                   frame_array_visit *visit, struct frame_coordinate *ret,
                                   struct error *err)
{
    enum status status =
        frame_coordinate_open(aligning->dataset, s, aligning->option, path, items, ret, err);
    if (status != STATUS_OK)
        return status;
    aligning->coordinate = ret;
    status = frame_keys_expect(ret, before, err);
    if (status == STATUS_OK)
        status = frame_array_read(&ret->array, visit, aligning, err);
    frame_coordinate_done(ret);
    return status;
}

/* The array `name` in the group of the field's own array. */
static void path_beside(const struct field_origin *origin, const char *name,
                        char ret_path[2 * ZARR_PATH_BYTES])
{
    const char *path = origin->array->array.path, *slash = strrchr(path, '/');
    snprintf(ret_path, 2 * ZARR_PATH_BYTES, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path,
             name);
}

/* The coordinate that is named as the sample axis. */
static enum status read_named(struct aligning *aligning, size_t s, struct frame_coordinate *ret,
                              struct error *err)
{
    const struct field_origin *origin = aligning->origin;
    struct zarr_axis_names names;
    char path[2 * ZARR_PATH_BYTES];
    if (!zarr_node_axis_names(origin->array, &names) || !names.names[origin->axis][0])
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: the sample axis of the array '%s' has no name, by which its "
                         "coordinate would be found",
                         aligning->option, origin->array->array.path);
    path_beside(origin, names.names[origin->axis], path);
    return read_coordinate(aligning, s, path, aligning->count, NULL, take_elements, ret, err);
}

/* The coordinate of the field's own array. */
static enum status read_own(struct aligning *aligning, size_t s, struct frame_coordinate *ret,
                            struct error *err)
{
    struct error other;
    char dates[2 * ZARR_PATH_BYTES];
    enum status status = read_named(aligning, s, ret, err);
    if (status != STATUS_NOT_FOUND)
        return status;
    path_beside(aligning->origin, "dates", dates); /* as anemoi has it */
    status = read_coordinate(aligning, s, dates, aligning->count, NULL, take_elements, ret, &other);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND && err)
        *err = other;
    return status;
}

static enum status align_store(struct aligning *aligning, size_t s, struct error *err)
{
    const struct field_origin *origin = aligning->origin;
    struct frame_coordinate own, frames;
    aligning->count = origin->store_fields[s].array.shape[0];
    aligning->keys = calloc(aligning->count, sizeof *aligning->keys);
    if (!aligning->keys)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the frames of an aligned field");
    enum status status = read_own(aligning, dataset_store_at(origin->own_store, s), &own, err);
    if (status == STATUS_OK)
        status = read_coordinate(aligning, s, origin->index->array.path, FRAME_COORDINATE_FRAMES,
                                 &own, take_frames, &frames, err);
    free(aligning->keys);
    return status;
}

static enum status align_field(struct dataset *dataset, struct field_origin *origin,
                               struct error *err)
{
    struct aligning aligning = {.dataset = dataset, .origin = origin};
    enum status status = STATUS_OK;
    snprintf(aligning.option, sizeof aligning.option, "dataset.fields.%s.align", origin->name);
    if (dataset->frame_count > MOST_FRAMES)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: there are %" PRIu64 " frames, and at most %d can be aligned",
                         aligning.option, dataset->frame_count, MOST_FRAMES);
    origin->matches = calloc(dataset->frame_count, sizeof *origin->matches);
    if (!origin->matches)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the frames of an aligned field");
    for (size_t s = 0; status == STATUS_OK && s < dataset->store_count; s++)
        status = align_store(&aligning, s, err);
    return status;
}

enum status align_settle(struct dataset *dataset, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++) {
        struct field_origin *origin = &dataset->private->origins[i];
        if (origin->is_aligned && !origin->matches)
            status = align_field(dataset, origin, err);
    }
    return status;
}
