/* The loops of convert.h, compiled once for each instruction set: convert_portable.c and its like
 * define CONVERT_LOOPS, the table's name, and include this. See CMakeLists.txt for the flags: the
 * compiler vectorises what is plain C here, with contraction to fused operations switched off, so
 * that all variants round alike. Conversions of float16 are instructions where there are some.
 */
#include "base/convert_internal.h"
#include "base/float16.h"

#include <stdint.h>
#include <string.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

/* Items need not be aligned: memcpy is a load or a store here. */
#define DEFINE_LOOP(name, type, work, expression)             \
    static void name(const void *in, size_t count, void *out) \
    {                                                         \
        const unsigned char *from = in;                       \
        unsigned char *to = out;                              \
        for (size_t i = 0; i < count; i++) {                  \
            type x;                                           \
            memcpy(&x, from + i * sizeof x, sizeof x);        \
            work y = (work)(expression);                      \
            memcpy(to + i * sizeof y, &y, sizeof y);          \
        }                                                     \
    }

DEFINE_LOOP(load_bool, uint8_t, float, x != 0)
DEFINE_LOOP(load_int8, int8_t, float, x)
DEFINE_LOOP(load_int16, int16_t, float, x)
DEFINE_LOOP(load_int32, int32_t, double, x)
DEFINE_LOOP(load_int64, int64_t, double, x)
DEFINE_LOOP(load_uint8, uint8_t, float, x)
DEFINE_LOOP(load_uint16, uint16_t, float, x)
DEFINE_LOOP(load_uint32, uint32_t, double, x)
DEFINE_LOOP(load_uint64, uint64_t, double, x)

static void copy_4(const void *in, size_t count, void *out)
{
    memcpy(out, in, count * 4);
}

static void copy_8(const void *in, size_t count, void *out)
{
    memcpy(out, in, count * 8);
}

#ifdef __F16C__

static void load_float16(const void *in, size_t count, void *out)
{
    const uint16_t *from = in;
    float *to = out;
    size_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#endif
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
    for (; i < count; i++) {
        uint16_t x;
        memcpy(&x, from + i, sizeof x);
        float y = _cvtsh_ss(x);
        memcpy(to + i, &y, sizeof y);
    }
}

static void float_to_float16(const void *in, size_t count, void *out)
{
    const float *from = in;
    uint16_t *to = out;
    size_t i = 0;
#ifdef __AVX512F__
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < count; i++) {
        float x;
        memcpy(&x, from + i, sizeof x);
        uint16_t y = _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
        memcpy(to + i, &y, sizeof y);
    }
}

#else

/* A signalling NaN becomes a quiet one, as by the instruction. */
static inline float quiet_float16_to_float(uint16_t half)
{
    float value = float16_to_float(half);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits |= (uint32_t)((half & 0x7fff) > 0x7c00) << 22;
    memcpy(&value, &bits, sizeof value);
    return value;
}

DEFINE_LOOP(load_float16, uint16_t, float, quiet_float16_to_float(x))
DEFINE_LOOP(float_to_float16, float, uint16_t, float16_from_float(x))

#endif

DEFINE_LOOP(load_bfloat16, uint16_t, float, bfloat16_to_float(x))
DEFINE_LOOP(float_to_bfloat16, float, uint16_t, bfloat16_from_float(x))
DEFINE_LOOP(float_to_float64, float, double, x)
DEFINE_LOOP(double_to_float32, double, float, x)

static void narrow_to_odd(const double *in, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = float_rounded_to_odd(in[i]);
}

/* Like narrow_to_odd(), for numbers that are no denormal floats, where the last bit is always
 * bit 29. */
static void narrow_normal_to_odd(const uint64_t *in, size_t count, float *out)
{
    const uint64_t below = (UINT64_C(1) << 29) - 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = (in[i] & ~below) | (uint64_t)((in[i] & below) != 0) << 29;
        double x;
        memcpy(&x, &bits, sizeof x);
        out[i] = (float)x;
    }
}

/* Whether there are numbers other than 0 below the least float that is not denormal, 2^-126. */
static bool has_tiny(const uint64_t *in, size_t count)
{
    uint64_t tiny = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t magnitude = in[i] & (UINT64_MAX >> 1);
        tiny |= (uint64_t)(magnitude - 1 < (UINT64_C(897) << 52) - 1);
    }
    return tiny != 0;
}

enum { ODD_ITEMS = 256 };

static void double_to_16(const unsigned char *from, size_t count, unsigned char *to,
                         void (*store)(const void *, size_t, void *))
{
    union {
        double numbers[ODD_ITEMS];
        uint64_t bits[ODD_ITEMS];
    } wide;
    float odd[ODD_ITEMS];
    for (size_t done = 0; done < count; done += ODD_ITEMS) {
        size_t n = count - done < ODD_ITEMS ? count - done : ODD_ITEMS;
        memcpy(&wide, from + done * sizeof(double), n * sizeof(double));
        if (has_tiny(wide.bits, n))
            narrow_to_odd(wide.numbers, n, odd);
        else
            narrow_normal_to_odd(wide.bits, n, odd);
        store(odd, n, to + done * 2);
    }
}

static void double_to_float16(const void *in, size_t count, void *out)
{
    double_to_16(in, count, out, float_to_float16);
}

static void double_to_bfloat16(const void *in, size_t count, void *out)
{
    double_to_16(in, count, out, float_to_bfloat16);
}

#define DEFINE_SCALE(type)                                                                     \
    static void scale_##type(const void *in, size_t count, type scale, type offset, type *out) \
    {                                                                                          \
        const unsigned char *from = in;                                                        \
        for (size_t i = 0; i < count; i++) {                                                   \
            type x;                                                                            \
            memcpy(&x, from + i * sizeof x, sizeof x);                                         \
            out[i] = x * scale + offset;                                                       \
        }                                                                                      \
    }

DEFINE_SCALE(float)
DEFINE_SCALE(double)

#define DEFINE_SWAP(bytes, bits)                                    \
    static void swap_##bytes(unsigned char *data, size_t size)      \
    {                                                               \
        for (size_t i = 0; i < size; i += sizeof(uint##bits##_t)) { \
            uint##bits##_t value;                                   \
            memcpy(&value, data + i, sizeof value);                 \
            value = __builtin_bswap##bits(value);                   \
            memcpy(data + i, &value, sizeof value);                 \
        }                                                           \
    }

DEFINE_SWAP(2, 16)
DEFINE_SWAP(4, 32)
DEFINE_SWAP(8, 64)

static void swap_16(unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i += 16) {
        uint64_t low, high;
        memcpy(&low, data + i, 8);
        memcpy(&high, data + i + 8, 8);
        low = __builtin_bswap64(low);
        high = __builtin_bswap64(high);
        memcpy(data + i, &high, 8);
        memcpy(data + i + 8, &low, 8);
    }
}

const struct convert_loops CONVERT_LOOPS = {
    .load = {[DTYPE_BOOL] = load_bool,
             [DTYPE_INT8] = load_int8,
             [DTYPE_INT16] = load_int16,
             [DTYPE_INT32] = load_int32,
             [DTYPE_INT64] = load_int64,
             [DTYPE_UINT8] = load_uint8,
             [DTYPE_UINT16] = load_uint16,
             [DTYPE_UINT32] = load_uint32,
             [DTYPE_UINT64] = load_uint64,
             [DTYPE_FLOAT16] = load_float16,
             [DTYPE_BFLOAT16] = load_bfloat16,
             [DTYPE_FLOAT32] = copy_4,
             [DTYPE_FLOAT64] = copy_8},
    .store_float = {[DTYPE_FLOAT16] = float_to_float16,
                    [DTYPE_BFLOAT16] = float_to_bfloat16,
                    [DTYPE_FLOAT32] = copy_4,
                    [DTYPE_FLOAT64] = float_to_float64},
    .store_double = {[DTYPE_FLOAT16] = double_to_float16,
                     [DTYPE_BFLOAT16] = double_to_bfloat16,
                     [DTYPE_FLOAT32] = double_to_float32,
                     [DTYPE_FLOAT64] = copy_8},
    .scale_float = scale_float,
    .scale_double = scale_double,
    .swap_2 = swap_2,
    .swap_4 = swap_4,
    .swap_8 = swap_8,
    .swap_16 = swap_16,
};
