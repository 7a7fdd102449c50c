/* FlatBuffers in foreign bytes: tables and vectors, each offset checked before it is followed.
 * Pure.
 *
 * A `struct flat` is one walk through a buffer. Whatever does not lie within the buffer sets `bad`,
 * and is given as absent: a caller looks at `bad` once, when its walk is over. Offsets of tables
 * and vectors lead forwards only, and no function here calls itself, so a buffer cannot hold a
 * walk.
 *
 * Source: FlatBuffers' "Internals". Tables, vectors and strings are known here by their position in
 * the buffer; 0 is none.
 */
#ifndef PENSTOCK_STORE_ICECHUNK_FLAT_H
#define PENSTOCK_STORE_ICECHUNK_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flat {
    const unsigned char *bytes; /* borrowed */
    size_t size;
    bool bad; /* something did not lie within the buffer */
};

/* The root table of a buffer whose identifier is `identifier`, four letters. */
uint32_t flat_root(struct flat *flat, const char *identifier);

/* Numbers of a table's field; `preset` if the table has no such field. */
uint64_t flat_number(struct flat *flat, uint32_t table, int entry, int bytes, uint64_t preset);

/* A table, or a vector, that a field leads to. *ret_count: of a vector's items of `item_bytes`. */
uint32_t flat_table(struct flat *flat, uint32_t table, int entry);
uint32_t flat_vector(struct flat *flat, uint32_t table, int entry, size_t item_bytes,
                     uint32_t *ret_count);

/* The table that item `i` of a vector of tables leads to, or the string, with its length. */
uint32_t flat_item(struct flat *flat, uint32_t vector, uint32_t i);

/* The bytes of a struct that lies in the table itself; NULL: absent. */
const unsigned char *flat_struct(struct flat *flat, uint32_t table, int entry, size_t bytes);

/* The bytes of a vector of bytes or of a string, without a NUL; NULL: absent. */
const unsigned char *flat_bytes(struct flat *flat, uint32_t table, int entry, uint32_t *ret_size);

/* A number where a function above gave. */
static inline uint32_t flat_u32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

#endif
