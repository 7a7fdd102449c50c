/* See separator.h. */
#include "zarr/chunk/separator.h"

#include <string.h>

enum { LOOKS_MOST = 8 };

/* How many chunks are looked for, spread over the array. */
static uint64_t count_looks(const struct zarr_array *array)
{
    uint64_t count = zarr_array_chunk_count(array);
    return count < LOOKS_MOST ? count : LOOKS_MOST;
}

/* The key of chunk number `look` of those. */
static void key_of(const struct zarr_array *array, uint64_t look, char ret_key[ZARR_KEY_BYTES])
{
    uint64_t index[ZARR_MAX_RANK], looks = count_looks(array);
    uint64_t number = looks > 1 ? (zarr_array_chunk_count(array) - 1) / (looks - 1) * look : 0;
    for (int i = array->rank - 1; i >= 0; i--) {
        index[i] = number % array->chunk_counts[i];
        number /= array->chunk_counts[i];
    }
    zarr_chunk_key(array, index, ret_key);
}

/* NOT_FOUND: none of them is there; OK: *ret_key is. */
static enum status look_for(const struct store *store, const struct zarr_array *array,
                            char ret_key[ZARR_KEY_BYTES])
{
    enum status status = STATUS_NOT_FOUND;
    for (uint64_t look = 0; look < count_looks(array) && status == STATUS_NOT_FOUND; look++) {
        struct store_info info;
        key_of(array, look, ret_key);
        status = store_stat(store, ret_key, &info, NULL);
    }
    return status;
}

bool zarr_finds_other_separator(const struct store *store, const struct zarr_array *array,
                                char ret_own[ZARR_KEY_BYTES], char ret_other[ZARR_KEY_BYTES])
{
    struct zarr_array other = *array;
    if (array->format != ZARR_V2 || array->rank < 2 ||
        look_for(store, array, ret_own) != STATUS_NOT_FOUND)
        return false;
    key_of(array, 0, ret_own);
    other.key_separator = array->key_separator == '.' ? '/' : '.';
    return look_for(store, &other, ret_other) == STATUS_OK;
}

void zarr_describe_other_separator(const char *own, const char *other, struct text *out)
{
    char separator =
        strlen(own) > 0 && strchr(strrchr(own, '/') ? strrchr(own, '/') : own, '.') ? '/' : '.';
    text_append(out,
                "no chunk is found under names such as '%s', which the metadata says, but '%s' is "
                "there: all samples are the fill value; set \"dimension_separator\": \"%c\" in its "
                ".zarray",
                text_shown(own).text, text_shown(other).text, separator);
}
