/* See ragged_scatter.h. A block of items at a time: first the number of each item's cell, column by
 * column, then the values. */
#include "run/ragged_scatter.h"

#include "base/copy.h"
#include "base/float16.h"
#include "base/size.h"

#include <assert.h>
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    BLOCK = 1024,
    CLEARED_TOGETHER = 64 << 10, /* bytes: a part of a core's own cache */
    CLEARED_PAST = 16 << 20,     /* at once: above a core's part of the last cache */
    SPREAD_BYTES = 768 << 10,    /* cells of a block that are further apart are fetched first */
};

/* Columns and cells lie at any address. */
#define UNALIGNED __attribute__((aligned(1), may_alias))

/* The numbers of the cells of a block's items. */
struct block {
    size_t count;
    uint32_t cells[BLOCK];
};

struct span {
    uint32_t first, last;
};

/* type of items: name, C type */
#define INDEX_TYPES(X)  \
    X(BOOL, uint8_t)    \
    X(INT8, int8_t)     \
    X(INT16, int16_t)   \
    X(INT32, int32_t)   \
    X(INT64, int64_t)   \
    X(UINT8, uint8_t)   \
    X(UINT16, uint16_t) \
    X(UINT32, uint32_t) \
    X(UINT64, uint64_t)

/* The loops over indices. Cells have fewer than 32 bits, so that what overflows comes right. */
typedef void add_indices(struct block *block, const void *column, uint32_t stride);
struct index_loops {
    add_indices *add[DTYPE_UINT64 + 1]; /* by dtype */
    struct span (*span)(const struct block *block);
};

#define ADD_INDICES(variant, target, name, type)                                       \
    target static void add_##name##_##variant(struct block *block, const void *column, \
                                              uint32_t stride)                         \
    {                                                                                  \
        typedef type UNALIGNED index_type;                                             \
        const index_type *indices = column;                                            \
        for (size_t i = 0; i < block->count; i++)                                      \
            block->cells[i] += (uint32_t)indices[i] * stride;                          \
    }
#define INDEX_LOOPS(variant, target)                                    \
    target static struct span span_##variant(const struct block *block) \
    {                                                                   \
        struct span span = {UINT32_MAX, 0};                             \
        for (size_t i = 0; i < block->count; i++) {                     \
            uint32_t cell = block->cells[i];                            \
            span.first = cell < span.first ? cell : span.first;         \
            span.last = cell > span.last ? cell : span.last;            \
        }                                                               \
        return span;                                                    \
    }
#define ADD_PORTABLE(name, type)   ADD_INDICES(portable, , name, type)
#define ADDER_PORTABLE(name, type) [DTYPE_##name] = add_##name##_portable,
INDEX_TYPES(ADD_PORTABLE)
INDEX_LOOPS(portable, )
static const struct index_loops portable_loops = {{INDEX_TYPES(ADDER_PORTABLE)}, span_portable};

#ifdef __x86_64__
#define AVX2                   __attribute__((target("avx2")))
#define ADD_AVX2(name, type)   ADD_INDICES(avx2, AVX2, name, type)
#define ADDER_AVX2(name, type) [DTYPE_##name] = add_##name##_avx2,
INDEX_TYPES(ADD_AVX2)
INDEX_LOOPS(avx2, AVX2)
static const struct index_loops avx2_loops = {{INDEX_TYPES(ADDER_AVX2)}, span_avx2};

static const struct index_loops *best_loops(void)
{
    return __builtin_cpu_supports("avx2") ? &avx2_loops : &portable_loops;
}
#else
static const struct index_loops *best_loops(void)
{
    return &portable_loops;
}
#endif

/* How values of one cell are combined. */
#define SATURATING_SIGNED(name, type, least, most)                                \
    static inline type sum_of_##name(type a, type b)                              \
    {                                                                             \
        type sum;                                                                 \
        return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? least : most) : sum; \
    }
SATURATING_SIGNED(INT8, int8_t, INT8_MIN, INT8_MAX)
SATURATING_SIGNED(INT16, int16_t, INT16_MIN, INT16_MAX)
SATURATING_SIGNED(INT32, int32_t, INT32_MIN, INT32_MAX)
SATURATING_SIGNED(INT64, int64_t, INT64_MIN, INT64_MAX)

#define SATURATING_UNSIGNED(name, type, most)                   \
    static inline type sum_of_##name(type a, type b)            \
    {                                                           \
        type sum;                                               \
        return __builtin_add_overflow(a, b, &sum) ? most : sum; \
    }
SATURATING_UNSIGNED(UINT8, uint8_t, UINT8_MAX)
SATURATING_UNSIGNED(UINT16, uint16_t, UINT16_MAX)
SATURATING_UNSIGNED(UINT32, uint32_t, UINT32_MAX)
SATURATING_UNSIGNED(UINT64, uint64_t, UINT64_MAX)

static inline uint8_t sum_of_BOOL(uint8_t a, uint8_t b)
{
    return a | b;
}

/* Whether a + b is b. Most cells have one item, and conversions cost more than the rest. */
static inline bool is_zero_half(uint16_t a, uint16_t b)
{
    return a == 0 && b != 0x8000; /* 0 + -0 is 0 */
}

static inline uint16_t sum_of_FLOAT16(uint16_t a, uint16_t b)
{
    return is_zero_half(a, b) ? b : float16_from_float(float16_to_float(a) + float16_to_float(b));
}

static inline uint16_t sum_of_BFLOAT16(uint16_t a, uint16_t b)
{
    return is_zero_half(a, b) ? b
                              : bfloat16_from_float(bfloat16_to_float(a) + bfloat16_to_float(b));
}

static inline float sum_of_FLOAT32(float a, float b)
{
    return a + b;
}

static inline double sum_of_FLOAT64(double a, double b)
{
    return a + b;
}

static inline float complex sum_of_COMPLEX64(float complex a, float complex b)
{
    return a + b;
}

static inline double complex sum_of_COMPLEX128(double complex a, double complex b)
{
    return a + b;
}

/* Whether `b` takes the place of `a`. */
#define ABOVE_INTEGER(name, type)                      \
    static inline bool is_above_##name(type b, type a) \
    {                                                  \
        return b > a;                                  \
    }
INDEX_TYPES(ABOVE_INTEGER)
#undef ABOVE_INTEGER

static inline bool is_above_FLOAT32(float b, float a)
{
    return b > a || isnan(b);
}

static inline bool is_above_FLOAT64(double b, double a)
{
    return b > a || isnan(b);
}

static inline bool is_above_FLOAT16(uint16_t b, uint16_t a)
{
    return is_above_FLOAT32(float16_to_float(b), float16_to_float(a));
}

static inline bool is_above_BFLOAT16(uint16_t b, uint16_t a)
{
    return is_above_FLOAT32(bfloat16_to_float(b), bfloat16_to_float(a));
}

/* Real parts first, as NumPy. */
static inline bool is_above_COMPLEX128(double complex b, double complex a)
{
    return creal(b) > creal(a) || (creal(b) == creal(a) && cimag(b) > cimag(a)) ||
           isnan(creal(b)) || isnan(cimag(b));
}

static inline bool is_above_COMPLEX64(float complex b, float complex a)
{
    return is_above_COMPLEX128(b, a);
}

/* type of values: name, C type, 1, whether 0 is the least value */
#define VALUE_TYPES(X)                    \
    X(BOOL, uint8_t, 1, true)             \
    X(INT8, int8_t, 1, false)             \
    X(INT16, int16_t, 1, false)           \
    X(INT32, int32_t, 1, false)           \
    X(INT64, int64_t, 1, false)           \
    X(UINT8, uint8_t, 1, true)            \
    X(UINT16, uint16_t, 1, true)          \
    X(UINT32, uint32_t, 1, true)          \
    X(UINT64, uint64_t, 1, true)          \
    X(FLOAT16, uint16_t, 0x3c00, false)   \
    X(BFLOAT16, uint16_t, 0x3f80, false)  \
    X(FLOAT32, float, 1, false)           \
    X(FLOAT64, double, 1, false)          \
    X(COMPLEX64, float complex, 1, false) \
    X(COMPLEX128, double complex, 1, false)

/* `has_values` false: all items have the value at `values`. Two loops, since each is faster than
 * one for both. */
#define PUT_EACH(value_at, expression)                  \
    for (size_t i = 0; i < count; i++) {                \
        value_type *cell = &to[block->cells[i]];        \
        value_type old = *cell, value = from[value_at]; \
        (void)old;                                      \
        *cell = (expression);                           \
    }
#define PUT_VALUES(what, name, type, expression)                                              \
    static void what##_##name(const struct block *block, const void *values, bool has_values, \
                              void *cells)                                                    \
    {                                                                                         \
        typedef type UNALIGNED value_type;                                                    \
        const value_type *from = values;                                                      \
        value_type *to = cells;                                                               \
        size_t count = block->count;                                                          \
        if (has_values)                                                                       \
            PUT_EACH(i, expression)                                                           \
        else                                                                                  \
            PUT_EACH(0, expression)                                                           \
    }
#define PUT_TYPE(name, type, one, is_least_zero)                           \
    PUT_VALUES(sum, name, type, sum_of_##name(old, value))                 \
    PUT_VALUES(last, name, type, value)                                    \
    PUT_VALUES(max, name, type, is_above_##name(value, old) ? value : old) \
    static const type one_##name = one;
VALUE_TYPES(PUT_TYPE)
#undef PUT_TYPE

typedef void put_values(const struct block *block, const void *values, bool has_values,
                        void *cells);

static const struct value_kind {
    put_values *put[3]; /* [enum ragged_combine] */
    const void *one;
    bool is_least_zero;
} kinds[] = {
#define KIND(name, type, one, is_least_zero) \
    [DTYPE_##name] = {{sum_##name, last_##name, max_##name}, &one_##name, is_least_zero},
    VALUE_TYPES(KIND)
#undef KIND
};

/* One tensor that is being made. */
struct scatter {
    const struct ragged *ragged;
    const struct value_kind *kind;
    const struct index_loops *loops;
    size_t item_bytes, dense_bytes;
    uint32_t strides[RAGGED_MAX_RANK];
    unsigned char *cells;
    size_t cleared; /* bytes */
};

static void set_strides(struct scatter *scatter)
{
    uint64_t stride = 1;
    for (int axis = scatter->ragged->dense_rank - 1; axis >= 0; axis--) {
        scatter->strides[axis] = (uint32_t)stride;
        stride *= scatter->ragged->dense_shape[axis];
    }
}

static void find_cells(const struct scatter *scatter, const struct ragged_piece *piece, uint64_t at,
                       struct block *block)
{
    const struct ragged *ragged = scatter->ragged;
    memset(block->cells, 0, block->count * sizeof block->cells[0]);
    for (size_t c = 0, axis = 0; c < ragged->column_count; c++) {
        const struct ragged_column *column = &ragged->columns[c];
        if (c != ragged->values)
            scatter->loops->add[column->dtype](block, piece->columns[c] + at * column->item_bytes,
                                               scatter->strides[axis++]);
    }
}

static void clear_up_to(struct scatter *scatter, size_t bytes)
{
    size_t end = size_round_up(bytes, CLEARED_TOGETHER);
    if (end > scatter->dense_bytes)
        end = scatter->dense_bytes;
    if (end <= scatter->cleared)
        return;
    if (end - scatter->cleared >= CLEARED_PAST)
        clear_stream(scatter->cells + scatter->cleared, end - scatter->cleared);
    else
        memset(scatter->cells + scatter->cleared, 0, end - scatter->cleared);
    scatter->cleared = end;
}

/* Items in no order find their cells far apart, in a cache that all cores share or in memory: they
 * would wait for one after another. */
static void fetch_cells(const struct scatter *scatter, const struct block *block)
{
    for (size_t i = 0; i < block->count; i++)
        __builtin_prefetch(scatter->cells + block->cells[i] * scatter->item_bytes, 0, 2);
}

static void put_piece(struct scatter *scatter, const struct ragged_piece *piece,
                      enum ragged_combine combine)
{
    size_t values = scatter->ragged->values;
    bool has_values = values < scatter->ragged->column_count;
    struct block block;
    for (uint64_t at = 0; at < piece->count; at += block.count) {
        block.count = min_u64(piece->count - at, BLOCK);
        find_cells(scatter, piece, at, &block);
        struct span span = scatter->loops->span(&block);
        clear_up_to(scatter, ((size_t)span.last + 1) * scatter->item_bytes);
        if ((span.last - span.first) * scatter->item_bytes > SPREAD_BYTES)
            fetch_cells(scatter, &block);
        scatter->kind->put[combine](&block,
                                    has_values ? piece->columns[values] + at * scatter->item_bytes
                                               : scatter->kind->one,
                                    has_values, scatter->cells);
    }
}

static void put_items(struct scatter *scatter, const struct ragged_items *items,
                      enum ragged_combine combine)
{
    struct ragged_piece piece;
    for (uint64_t at = 0; at < items->count; at += piece.count) {
        ragged_items_piece(scatter->ragged, items, at, &piece);
        put_piece(scatter, &piece, combine);
    }
}

void ragged_scatter(const struct ragged *ragged, enum dtype dtype, const struct ragged_items *items,
                    unsigned char *cells)
{
    struct scatter scatter = {.ragged = ragged,
                              .kind = &kinds[dtype],
                              .loops = best_loops(),
                              .item_bytes = dtype_bytes(dtype),
                              .dense_bytes = ragged->dense_items * dtype_bytes(dtype),
                              .cells = cells};
    assert(ragged->dense_items <= UINT32_MAX);
    for (size_t c = 0; c < ragged->column_count; c++)
        assert(ragged->columns[c].width_items == 0); /* so that no column is narrow */
    set_strides(&scatter);
    /* Where all values may be below zero, cells first have any one of them. */
    if (ragged->combine == RAGGED_MAX && !scatter.kind->is_least_zero)
        put_items(&scatter, items, RAGGED_LAST);
    put_items(&scatter, items, ragged->combine);
    clear_up_to(&scatter, scatter.dense_bytes);
}
