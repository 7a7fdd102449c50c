/* Element types of arrays: every fixed-size numeric type that Zarr v2 and v3 share.
 *
 * Pure functions, safe from any thread.
 */
#ifndef PENSTOCK_BASE_DTYPE_H
#define PENSTOCK_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, value, text (also the Zarr v3 name), bytes an item, bytes of the unit that endianness
 * swaps. The values travel in shared memory and in penstock.h: never renumber. */
#define DTYPE_TABLE(X)                  \
    X(BOOL, 1, "bool", 1, 1)            \
    X(INT8, 2, "int8", 1, 1)            \
    X(INT16, 3, "int16", 2, 2)          \
    X(INT32, 4, "int32", 4, 4)          \
    X(INT64, 5, "int64", 8, 8)          \
    X(UINT8, 6, "uint8", 1, 1)          \
    X(UINT16, 7, "uint16", 2, 2)        \
    X(UINT32, 8, "uint32", 4, 4)        \
    X(UINT64, 9, "uint64", 8, 8)        \
    X(FLOAT16, 10, "float16", 2, 2)     \
    X(BFLOAT16, 11, "bfloat16", 2, 2)   \
    X(FLOAT32, 12, "float32", 4, 4)     \
    X(FLOAT64, 13, "float64", 8, 8)     \
    X(COMPLEX64, 14, "complex64", 8, 4) \
    X(COMPLEX128, 15, "complex128", 16, 8)

enum dtype {
    DTYPE_NONE = 0,
#define DTYPE_ENUM(name, value, text, item_bytes, swap_bytes) DTYPE_##name = value,
    DTYPE_TABLE(DTYPE_ENUM)
#undef DTYPE_ENUM
};

enum { DTYPE_MAX_BYTES = 16 };

/* "float16"; "none" for DTYPE_NONE or a value out of the table. */
const char *dtype_name(enum dtype dtype);

/* The dtype of that name, DTYPE_NONE if there is none. */
enum dtype dtype_by_name(const char *name);

/* Bytes of one item (complex64: 8); 0 for DTYPE_NONE or a value out of the table. */
size_t dtype_bytes(enum dtype dtype);

/* Bytes of the unit whose byte order counts (complex64: 4). */
size_t dtype_swap_bytes(enum dtype dtype);

bool dtype_is_integer(enum dtype dtype);
bool dtype_is_floating(enum dtype dtype); /* real ones: not complex */

/* The integers of as many bytes that have a sign where these have none, and the other way. */
enum dtype dtype_other_sign(enum dtype dtype);

/* Item `i` of integers of `dtype` at `items`, sign-extended; uint64 values wrap to negative ones.
 */
int64_t dtype_integer(enum dtype dtype, const void *items, uint64_t i);

#endif
