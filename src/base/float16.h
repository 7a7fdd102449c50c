/* 16-bit floats as their bits: float16 (IEEE 754 binary16) and bfloat16 (the upper half of a
 * float).
 *
 * Rounding is to nearest, ties to even, denormal numbers included; too large becomes infinity. A
 * NaN becomes a quiet one with the same sign and the upper bits of the payload. Pure, safe from any
 * thread; the functions count on the default rounding mode.
 */
#ifndef PENSTOCK_BASE_FLOAT16_H
#define PENSTOCK_BASE_FLOAT16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Exact, NaNs to the bit. A denormal number is a multiple of the least one; any other has another
 * exponent in float. Both are computed and masks choose one, for vector code. */
static inline float float16_to_float(uint16_t half)
{
    const uint32_t rebias = (uint32_t)(127 - 15) << 23;
    uint32_t magnitude = half & 0x7fff;
    uint32_t is_denormal = -(uint32_t)(magnitude < 0x0400);
    uint32_t is_special = -(uint32_t)(magnitude >= 0x7c00);
    float value = (float)(int32_t)magnitude * 0x1p-24f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= is_denormal;
    bits |= ((magnitude << 13) + rebias + (rebias & is_special)) & ~is_denormal;
    bits |= (uint32_t)(half & 0x8000) << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t float16_from_float(float value)
{
    uint32_t bits, half;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) { /* NaN */
        half = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x477ff000) { /* 65520 and more */
        half = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below 2^-14: the sum rounds to multiples of 2^-24 */
        float x;
        memcpy(&x, &magnitude, sizeof x);
        x += 0.5f;
        memcpy(&half, &x, sizeof half);
        half -= 0x3f000000;
    } else {
        half = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13;
    }
    return (uint16_t)(sign | half);
}

static inline float bfloat16_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t bfloat16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* Rounded to odd: toward zero, and the last bit is set if the result is not exact. A second
 * rounding to nearest, to at most 22 bits, then gives the same as one rounding from the double. */
static inline float float_rounded_to_odd(double value)
{
    float result = (float)value;
    double back = result;
    uint32_t bits;
    memcpy(&bits, &result, sizeof bits);
    bits -= fabs(back) > fabs(value);
    bits |= back < value || back > value;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static inline uint16_t float16_from_double(double value)
{
    return float16_from_float(float_rounded_to_odd(value));
}

static inline uint16_t bfloat16_from_double(double value)
{
    return bfloat16_from_float(float_rounded_to_odd(value));
}

#endif
