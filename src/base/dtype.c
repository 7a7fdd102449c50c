/* See dtype.h. */
#include "base/dtype.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    size_t item_bytes;
    size_t swap_bytes;
} table[] = {{"none", 0, 0},
#define DTYPE_ROW(name, value, text, item_bytes, swap_bytes) \
    [value] = {text, item_bytes, swap_bytes},
             DTYPE_TABLE(DTYPE_ROW)
#undef DTYPE_ROW
};

enum { DTYPE_COUNT = sizeof table / sizeof table[0] };

static size_t row_of(enum dtype dtype)
{
    return (size_t)dtype < DTYPE_COUNT ? (size_t)dtype : 0;
}

const char *dtype_name(enum dtype dtype)
{
    return table[row_of(dtype)].name;
}

enum dtype dtype_by_name(const char *name)
{
    for (size_t i = 1; i < DTYPE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return (enum dtype)i;
    return DTYPE_NONE;
}

size_t dtype_bytes(enum dtype dtype)
{
    return table[row_of(dtype)].item_bytes;
}

size_t dtype_swap_bytes(enum dtype dtype)
{
    return table[row_of(dtype)].swap_bytes;
}

bool dtype_is_integer(enum dtype dtype)
{
    return dtype >= DTYPE_INT8 && dtype <= DTYPE_UINT64;
}

bool dtype_is_floating(enum dtype dtype)
{
    return dtype >= DTYPE_FLOAT16 && dtype <= DTYPE_FLOAT64;
}

enum dtype dtype_other_sign(enum dtype dtype)
{
    enum { APART = DTYPE_UINT8 - DTYPE_INT8 };
    assert(dtype_is_integer(dtype));
    return (enum dtype)(dtype <= DTYPE_INT64 ? dtype + APART : dtype - APART);
}

int64_t dtype_integer(enum dtype dtype, const void *items, uint64_t i)
{
    size_t bytes = dtype_bytes(dtype);
    bool is_signed = dtype >= DTYPE_INT8 && dtype <= DTYPE_INT64;
    unsigned unused_bits = (unsigned)(64 - 8 * bytes);
    const unsigned char *item = (const unsigned char *)items + i * bytes;
    uint64_t bits = 0;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        memcpy((unsigned char *)&bits + sizeof bits - bytes, item, bytes);
    else
        memcpy(&bits, item, bytes);
    if (is_signed)
        return (int64_t)(bits << unused_bits) >> unused_bits;
    return (int64_t)bits;
}
