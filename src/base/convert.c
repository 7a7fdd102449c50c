/* See convert.h: which loops, and blocks of items through them. */
#include "base/convert.h"

#include "base/convert_internal.h"
#include "base/number.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { BLOCK_ITEMS = 512 };

#ifdef __x86_64__
/* clang 14 knows no "f16c" in __builtin_cpu_supports(), which vouches for the registers' state. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct convert_loops *convert_variant(enum convert_variant variant)
{
    switch (variant) {
    case CONVERT_PORTABLE:
        return &convert_portable;
#ifdef __x86_64__
    case CONVERT_AVX2:
        return has_avx2() ? &convert_avx2 : NULL;
    case CONVERT_AVX512:
        return has_avx512() ? &convert_avx512 : NULL;
#endif
    default:
        return NULL;
    }
}

const char *convert_variant_name(enum convert_variant variant)
{
    static const char *const names[CONVERT_VARIANTS] = {"portable", "avx2", "avx512"};
    return names[variant];
}

/* Found out once: cpuid is slow in virtual machines. Whoever comes first at the same time finds the
 * same. */
static const struct convert_loops *best_loops(void)
{
    static const struct convert_loops *_Atomic best;
    const struct convert_loops *loops = atomic_load_explicit(&best, memory_order_relaxed);
    for (int variant = CONVERT_VARIANTS - 1; !loops && variant >= 0; variant--)
        loops = convert_variant((enum convert_variant)variant);
    atomic_store_explicit(&best, loops, memory_order_relaxed);
    return loops;
}

/* Whether the work type is double. */
static bool work_is_wide(enum dtype from)
{
    return dtype_bytes(from) > 2 && from != DTYPE_FLOAT32;
}

bool convert_is_possible(enum dtype from, enum dtype to)
{
    return (unsigned)from < CONVERT_DTYPES && (unsigned)to < CONVERT_DTYPES &&
           convert_portable.load[from] && convert_portable.store_float[to];
}

static bool scales(const struct convert *convert)
{
    return convert->scale < 1.0 || convert->scale > 1.0 || convert->offset < 0.0 ||
           convert->offset > 0.0;
}

bool convert_is_needed(const struct convert *convert)
{
    return convert->to != DTYPE_NONE && (convert->from != convert->to || scales(convert));
}

/* A block that is not scaled, and has the work type already or is to have it, takes one step. */
static void convert_block(const struct convert_loops *loops, const struct convert *convert,
                          const void *in, size_t count, void *out)
{
    bool wide = work_is_wide(convert->from), scaled = scales(convert);
    enum dtype work = wide ? DTYPE_FLOAT64 : DTYPE_FLOAT32;
    void (*store)(const void *, size_t, void *) =
        wide ? loops->store_double[convert->to] : loops->store_float[convert->to];
    union {
        float narrow[BLOCK_ITEMS];
        double wide[BLOCK_ITEMS];
    } block;
    if (!scaled && convert->from == work) {
        store(in, count, out);
        return;
    }
    if (!scaled && convert->to == work) {
        loops->load[convert->from](in, count, out);
        return;
    }
    if (convert->from != work) {
        loops->load[convert->from](in, count, &block);
        in = &block;
    }
    if (scaled && wide)
        loops->scale_double(in, count, convert->scale, convert->offset, block.wide);
    else if (scaled)
        loops->scale_float(in, count, (float)convert->scale, (float)convert->offset, block.narrow);
    store(&block, count, out);
}

void convert_items_by(const struct convert_loops *loops, const struct convert *convert,
                      const void *in, size_t count, void *out)
{
    size_t in_bytes = dtype_bytes(convert->from), out_bytes = dtype_bytes(convert->to);
    assert(convert_is_possible(convert->from, convert->to));
    for (size_t done = 0; done < count; done += BLOCK_ITEMS) {
        convert_block(loops, convert, (const unsigned char *)in + done * in_bytes,
                      min_u64(count - done, BLOCK_ITEMS), (unsigned char *)out + done * out_bytes);
    }
}

void convert_items(const struct convert *convert, const void *in, size_t count, void *out)
{
    convert_items_by(best_loops(), convert, in, count, out);
}

void convert_swap_by(const struct convert_loops *loops, void *data, size_t size, size_t unit_bytes)
{
    assert(unit_bytes > 0 && size % unit_bytes == 0);
    switch (unit_bytes) {
    case 1:
        return;
    case 2:
        loops->swap_2(data, size);
        return;
    case 4:
        loops->swap_4(data, size);
        return;
    case 8:
        loops->swap_8(data, size);
        return;
    case 16:
        loops->swap_16(data, size);
        return;
    default:
        assert(!"a unit has 1, 2, 4, 8 or 16 bytes");
    }
}

void convert_swap(void *data, size_t size, size_t unit_bytes)
{
    convert_swap_by(best_loops(), data, size, unit_bytes);
}
