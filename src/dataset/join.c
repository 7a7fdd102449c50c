/* See join.h. */
#include "dataset/join.h"

#include <inttypes.h>
#include <stdio.h>

static enum status refuse(const struct join *join, uint64_t position, int64_t value,
                          struct error *err)
{
    char text[32];
    if (join->index->dtype == DTYPE_UINT64)
        snprintf(text, sizeof text, "%" PRIu64, (uint64_t)value);
    else
        snprintf(text, sizeof text, "%" PRId64, value);
    return error_set(
        err, STATUS_INVALID,
        "array '%s' position %" PRIu64 ": index %s is out of range: array '%s' has %" PRIu64 "%s",
        join->index->path, position, text, join->array->path, join->elements, join->unit);
}

unsigned char *join_items(const struct join *join, int64_t *out)
{
    const struct zarr_array *index = join->index;
    return (unsigned char *)out + index->shape[0] * (sizeof *out - index->item_bytes);
}

/* Narrower integers were read to the end of `out`, and are widened from its start: the write of
 * item i ends where item i + 1 is read, or before. */
enum status join_settle(const struct join *join, int64_t *out, struct error *err)
{
    const unsigned char *items = join_items(join, out);
    for (uint64_t i = 0; i < join->index->shape[0]; i++) {
        int64_t value =
            join->matches ? join->matches[i] : dtype_integer(join->index->dtype, items, i);
        if (join->matches && value < 0)
            value = 0;
        if ((uint64_t)value >= join->elements) /* negative ones too */
            return refuse(join, i, value, err);
        out[i] = (int64_t)join->first + value;
    }
    return STATUS_OK;
}
