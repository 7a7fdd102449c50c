/* See normal.h. Items pass through the first-level cache. */
#include "zarr/metadata/normal.h"

#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum dtype normal_work_type(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_INT32:
    case DTYPE_INT64:
    case DTYPE_UINT32:
    case DTYPE_UINT64:
    case DTYPE_FLOAT64:
        return DTYPE_FLOAT64;
    default:
        return DTYPE_FLOAT32;
    }
}

static bool same_table(const void *a, const void *b, size_t bytes)
{
    return !a == !b && (!a || memcmp(a, b, bytes) == 0);
}

bool normal_same(const struct zarr_normal *a, const struct zarr_normal *b)
{
    if (!a || !b)
        return a == b;
    size_t bytes = a->count * dtype_bytes(a->work);

    return a->work == b->work && a->from == b->from && a->missing_count == b->missing_count &&
           memcmp(a->missing, b->missing, sizeof a->missing) == 0 && a->count == b->count &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0 &&
           same_table(a->mean, b->mean, bytes) && same_table(a->std, b->std, bytes);
}

void normal_identify(const struct zarr_normal *normal, struct text *out)
{
    size_t bytes = normal->count * dtype_bytes(normal->work);
    for (int i = 0; i < normal->missing_count; i++)
        text_append(out, " missing %a", normal->missing[i]);
    text_append(out, " mean %016" PRIx64, normal->mean ? XXH3_64bits(normal->mean, bytes) : 0);
    text_append(out, " std %016" PRIx64 " by", normal->std ? XXH3_64bits(normal->std, bytes) : 0);
    for (int i = 0; i < NORMAL_MAX_RANK; i++)
        text_append(out, " %zu", normal->strides[i]);
}

/* The loops of one work type. Entries that are all the same, and those that lie one behind another,
 * are loops that compilers vectorise. */
#define NORMAL_LOOPS(type, name)                                                        \
    static void name##_missing(type *items, size_t count, type missing)                 \
    {                                                                                   \
        for (size_t i = 0; i < count; i++)                                              \
            items[i] = items[i] < missing || items[i] > missing ? items[i] : (type)NAN; \
    }                                                                                   \
                                                                                        \
    static void name##_mean(type *items, size_t count, const type *mean, size_t stride) \
    {                                                                                   \
        if (stride == 0)                                                                \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] -= *mean;                                                      \
        else if (stride == 1)                                                           \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] -= mean[i];                                                    \
        else                                                                            \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] -= mean[i * stride];                                           \
    }                                                                                   \
                                                                                        \
    static void name##_std(type *items, size_t count, const type *std, size_t stride)   \
    {                                                                                   \
        if (stride == 0)                                                                \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] /= *std;                                                       \
        else if (stride == 1)                                                           \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] /= std[i];                                                     \
        else                                                                            \
            for (size_t i = 0; i < count; i++)                                          \
                items[i] /= std[i * stride];                                            \
    }

NORMAL_LOOPS(float, float32)
NORMAL_LOOPS(double, float64)

static void mark_missing(const struct zarr_normal *normal, void *items, size_t count)
{
    for (int i = 0; i < normal->missing_count; i++) {
        if (normal->work == DTYPE_FLOAT32)
            float32_missing(items, count, (float)normal->missing[i]);
        else
            float64_missing(items, count, normal->missing[i]);
    }
}

static void divide(const struct zarr_normal *normal, size_t entry, size_t stride, void *items,
                   size_t count)
{
    if (normal->work == DTYPE_FLOAT32) {
        if (normal->mean)
            float32_mean(items, count, (const float *)normal->mean + entry, stride);
        if (normal->std)
            float32_std(items, count, (const float *)normal->std + entry, stride);
        return;
    }
    if (normal->mean)
        float64_mean(items, count, (const double *)normal->mean + entry, stride);
    if (normal->std)
        float64_std(items, count, (const double *)normal->std + entry, stride);
}

void normal_items(const struct zarr_normal *normal, const struct convert *convert, size_t entry,
                  size_t stride, const void *in, size_t count, void *out)
{
    double numbers[NORMAL_ITEMS], scaled[NORMAL_ITEMS];
    enum dtype work = normal->work;
    const struct convert load = {.from = convert->from, .to = work, .scale = 1.0};
    const struct convert scale = {
        .from = work, .to = work, .scale = convert->scale, .offset = convert->offset};
    const struct convert store = {.from = work, .to = convert->to, .scale = 1.0};
    bool scales = convert_is_needed(&scale);
    void *items = scales ? scaled : numbers;
    assert(count <= NORMAL_ITEMS);
    convert_items(&load, in, count, numbers);
    mark_missing(normal, numbers, count);
    if (scales)
        convert_items(&scale, numbers, count, scaled);
    divide(normal, entry, stride, items, count);
    convert_items(&store, items, count, out);
}
