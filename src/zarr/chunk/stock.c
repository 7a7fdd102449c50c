/* See stock.h. */
#include "zarr/chunk/stock.h"

#include "base/number.h"
#include "base/size.h"
#include "zarr/chunk/separator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOOKS_MOST = 64 };

static uint64_t span_of(const struct zarr_array *array, int axis)
{
    return array->shard_level_count > 0 ? array->shard_levels[0].spans[axis] : 1;
}

static uint64_t values_along(const struct zarr_array *array, int axis)
{
    return size_divide_up(array->chunk_counts[axis], span_of(array, axis));
}

uint64_t zarr_value_count(const struct zarr_array *array)
{
    uint64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= values_along(array, i); /* at most the number of items, which fits */
    return count;
}

void zarr_value_key(const struct zarr_array *array, uint64_t number, char ret_key[ZARR_KEY_BYTES])
{
    uint64_t chunk[ZARR_MAX_RANK] = {0};
    for (int i = array->rank - 1; i >= 0; i--) {
        chunk[i] = number % values_along(array, i) * span_of(array, i);
        number /= values_along(array, i);
    }
    zarr_chunk_key(array, chunk, ret_key);
}

/* Listing
 * ------------------------------------------------------------------------------------------- */

/* A folder whose names are being visited: those of the axes from `axis` on. */
struct listing {
    const struct store *store;
    const struct zarr_array *array;
    zarr_visit_value *visit;
    void *argument;
    uint32_t part, part_count;
    int axis;
    uint64_t number; /* of the axes before */
    char folder[ZARR_KEY_BYTES];
};

/* A number as keys have it, below `end`, at *at, which is moved behind. */
static bool take_number(const char **at, uint64_t end, uint64_t *ret_number)
{
    const char *digits = *at;
    uint64_t number = 0;
    if (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
        return false;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        number = number * 10 + (uint64_t)(**at - '0');
        if (number >= end)
            return false;
    }
    *ret_number = number;
    return *at > digits;
}

static enum status list_folder(struct listing *listing, struct error *err);

/* A name that is one number: a folder, or of the last axis a value. */
static enum status visit_nested(const char *name, uint64_t content, void *argument,
                                struct error *err)
{
    struct listing *above = argument, below = *above;
    const struct zarr_array *array = above->array;
    uint64_t index, length = strlen(above->folder);
    if (!take_number(&name, values_along(array, above->axis), &index) || *name ||
        (above->axis == 0 && array->rank > 1 && index % above->part_count != above->part))
        return STATUS_OK;
    below.number = above->number * values_along(array, above->axis) + index;
    if (++below.axis == array->rank)
        return above->visit(below.number, content, above->argument, err);
    snprintf(below.folder + length, sizeof below.folder - length, "%s%" PRIu64, length ? "/" : "",
             index);
    return list_folder(&below, err);
}

/* A name with the numbers of all axes: "0.0", "c.0.0". */
static enum status visit_flat(const char *name, uint64_t content, void *argument, struct error *err)
{
    const struct listing *listing = argument;
    const struct zarr_array *array = listing->array;
    uint64_t number = 0, index;
    if (array->key_prefixed) {
        if (name[0] != 'c' || name[1] != array->key_separator)
            return STATUS_OK;
        name += 2;
    }
    for (int i = 0; i < array->rank; i++) {
        if (i > 0 && *name++ != array->key_separator)
            return STATUS_OK;
        if (!take_number(&name, values_along(array, i), &index))
            return STATUS_OK;
        number = number * values_along(array, i) + index;
    }
    return *name ? STATUS_OK : listing->visit(number, content, listing->argument, err);
}

static enum status list_folder(struct listing *listing, struct error *err)
{
    bool nested = listing->array->key_separator == '/';
    enum status status = store_names(listing->store, listing->folder,
                                     nested ? visit_nested : visit_flat, listing, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status zarr_list_stock(const struct store *store, const struct zarr_array *array,
                            uint32_t part, uint32_t part_count, zarr_visit_value *visit,
                            void *argument, struct error *err)
{
    struct listing listing = {.store = store,
                              .array = array,
                              .visit = visit,
                              .argument = argument,
                              .part = part,
                              .part_count = part_count};
    bool nested = array->key_separator == '/', has_parts = nested && array->rank > 1;
    const struct zarr_path path = zarr_array_store_path(array);
    if (part > 0 && !has_parts)
        return STATUS_OK;
    snprintf(listing.folder, sizeof listing.folder, "%s%s", path.text,
             !nested || !array->key_prefixed ? ""
             : path.text[0]                  ? "/c"
                                             : "c");
    return list_folder(&listing, err);
}

/* Looking
 * ------------------------------------------------------------------------------------------- */

static enum status note_one(uint64_t number, uint64_t content, void *argument, struct error *err)
{
    bool *found = argument;
    (void)number, (void)content;
    *found = true;
    return error_set(err, STATUS_ENDED, "one is enough");
}

bool zarr_has_stock(const struct store *store, const struct zarr_array *array)
{
    uint64_t count = zarr_value_count(array), looks = min_u64(count, LOOKS_MOST);
    bool found = false;
    for (uint64_t look = 0; look < looks; look++) {
        uint64_t number =
            looks > 1 ? (uint64_t)((unsigned __int128)(count - 1) * look / (looks - 1)) : 0;
        char key[ZARR_KEY_BYTES];
        struct store_info info;
        zarr_value_key(array, number, key);
        if (store_stat(store, key, &info, NULL) != STATUS_NOT_FOUND)
            return true;
    }
    if (looks < count)
        (void)!zarr_list_stock(store, array, 0, 1, note_one, &found, NULL);
    return found;
}

void zarr_describe_no_stock(const struct store *store, const struct zarr_array *array,
                            struct text *out)
{
    char own[ZARR_KEY_BYTES], other[ZARR_KEY_BYTES];
    if (zarr_finds_other_separator(store, array, own, other))
        zarr_describe_other_separator(own, other, out);
    else
        text_append(out, "no chunk at all is there: every item is the fill value; a run refuses "
                         "the array, unless errors.missing_chunk: fill is set");
}
