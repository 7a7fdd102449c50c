/* See digest.h. */
#include "scan/digest.h"

#include "base/number.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

enum { SHORT_BYTES = 16, RUN_BYTES = 64 << 10 };

/* Runs are hashed as they lie in memory, and the definition says little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian machines need a swap here");

uint64_t digest_granule(uint64_t sample_bytes)
{
    uint64_t granule = 1;
    while (granule * sample_bytes < SHORT_BYTES)
        granule *= 2;
    return granule;
}

static void add_run(struct digest_sum *sum, uint64_t offset, const void *bytes, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, offset);
    digest_merge(sum, &(struct digest_sum){hash.low64, hash.high64});
}

/* `unit` bytes at a time, each cut into runs from its own start. */
static void add_units(struct digest_sum *sum, uint64_t offset, uint64_t unit,
                      const unsigned char *bytes, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += unit) {
        uint64_t unit_bytes = min_u64(size - at, unit);
        for (uint64_t run = 0; run < unit_bytes; run += RUN_BYTES) {
            add_run(sum, offset + at + run, bytes + at + run, min_u64(unit_bytes - run, RUN_BYTES));
        }
    }
}

void digest_add(struct digest_sum *sum, uint64_t sample_bytes, uint64_t begin, uint64_t count,
                const void *samples)
{
    add_units(sum, begin * sample_bytes, digest_granule(sample_bytes) * sample_bytes, samples,
              count * sample_bytes);
}

void digest_merge(struct digest_sum *sum, const struct digest_sum *part)
{
    sum->low += part->low;
    sum->high += part->high + (sum->low < part->low);
}

static struct digest_text format(uint64_t high, uint64_t low)
{
    struct digest_text text;
    snprintf(text.text, sizeof text.text, "%016" PRIx64 "%016" PRIx64, high, low);
    return text;
}

struct digest_text digest_sum_format(const struct digest_sum *sum)
{
    return format(sum->high, sum->low);
}

struct digest_text digest_of_text(const char *text, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(text, size);
    return format(hash.high64, hash.low64);
}

struct digest_text digest_of_array(const struct zarr_array *array, const struct digest_sum *sum)
{
    struct text text = {0};
    text_append(&text, "penstock-content-1 %s ", dtype_name(array->dtype));
    for (int i = 0; i < array->rank && !array->is_scalar; i++)
        text_append(&text, "%s%" PRIu64, i ? "x" : "", array->shape[i]);
    if (array->item_length > 0)
        text_append(&text, "x%" PRIu64, array->item_length);
    text_append(&text, " %s", digest_sum_format(sum).text);
    struct digest_text digest = digest_of_text(text.data, text.length);
    text_done(&text);
    return digest;
}
