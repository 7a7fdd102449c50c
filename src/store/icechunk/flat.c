/* See flat.h. */
#include "store/icechunk/flat.h"

#include <string.h>

/* Whether `bytes` lie at `at`; if not, the buffer is bad. */
static bool has(struct flat *flat, uint64_t at, uint64_t bytes)
{
    if (at <= flat->size && bytes <= flat->size - at)
        return true;
    flat->bad = true;
    return false;
}

/* Follows the offset that lies at `at`. 0: the offset is none, or leads out. */
static uint32_t follow(struct flat *flat, uint64_t at)
{
    if (!has(flat, at, 4))
        return 0;
    uint64_t target = at + flat_u32(flat->bytes + at);
    if (target == at || !has(flat, target, 4) || target > UINT32_MAX) {
        flat->bad = true;
        return 0;
    }
    return (uint32_t)target;
}

uint32_t flat_root(struct flat *flat, const char *identifier)
{
    if (!has(flat, 0, 8) || memcmp(flat->bytes + 4, identifier, 4) != 0) {
        flat->bad = true;
        return 0;
    }
    return follow(flat, 0);
}

/* Where a table's field lies, `bytes` long; 0: the table has none. */
static uint64_t field_at(struct flat *flat, uint32_t table, int entry, size_t bytes)
{
    if (table == 0 || !has(flat, table, 4))
        return 0;
    int64_t vtable = (int64_t)table - (int32_t)flat_u32(flat->bytes + table);
    if (vtable < 0 || !has(flat, (uint64_t)vtable, 4)) {
        flat->bad = true;
        return 0;
    }
    const unsigned char *entries = flat->bytes + vtable;
    uint32_t size = entries[0] | (uint32_t)entries[1] << 8, at = 4 + 2 * (uint32_t)entry;
    if (size < 4 || !has(flat, (uint64_t)vtable, size)) {
        flat->bad = true;
        return 0;
    }
    uint32_t offset = at + 2 <= size ? entries[at] | (uint32_t)entries[at + 1] << 8 : 0;
    return offset > 0 && has(flat, (uint64_t)table + offset, bytes) ? (uint64_t)table + offset : 0;
}

uint64_t flat_number(struct flat *flat, uint32_t table, int entry, int bytes, uint64_t preset)
{
    uint64_t at = field_at(flat, table, entry, (size_t)bytes), number = 0;
    if (at == 0)
        return preset;
    for (int i = bytes; i-- > 0;)
        number = number << 8 | flat->bytes[at + (uint64_t)i];
    return number;
}

uint32_t flat_table(struct flat *flat, uint32_t table, int entry)
{
    uint64_t at = field_at(flat, table, entry, 4);
    return at ? follow(flat, at) : 0;
}

/* The items of a vector, which lie behind their count. */
static uint32_t items_at(struct flat *flat, uint32_t vector, size_t item_bytes, uint32_t *ret_count)
{
    *ret_count = 0;
    if (vector == 0)
        return 0;
    uint32_t count = flat_u32(flat->bytes + vector); /* follow() has looked */
    if (!has(flat, (uint64_t)vector + 4, (uint64_t)count * item_bytes))
        return 0;
    *ret_count = count;
    return vector + 4;
}

uint32_t flat_vector(struct flat *flat, uint32_t table, int entry, size_t item_bytes,
                     uint32_t *ret_count)
{
    return items_at(flat, flat_table(flat, table, entry), item_bytes, ret_count);
}

uint32_t flat_item(struct flat *flat, uint32_t vector, uint32_t i)
{
    return vector ? follow(flat, (uint64_t)vector + UINT64_C(4) * i) : 0;
}

const unsigned char *flat_struct(struct flat *flat, uint32_t table, int entry, size_t bytes)
{
    uint64_t at = field_at(flat, table, entry, bytes);
    return at ? flat->bytes + at : NULL;
}

const unsigned char *flat_bytes(struct flat *flat, uint32_t table, int entry, uint32_t *ret_size)
{
    uint32_t at = flat_vector(flat, table, entry, 1, ret_size);
    return at ? flat->bytes + at : NULL;
}
