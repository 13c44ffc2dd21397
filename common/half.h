/* SPDX-License-Identifier: Apache-2.0
 * IEEE binary16 and bfloat16 <-> binary32. Widening is exact; narrowing rounds to nearest even.
 * NaN stays NaN. Dependency-free so that device code can share it. */
#ifndef COMMON_HALF_H
#define COMMON_HALF_H

#include <stdint.h>
#include <string.h>

static inline float bits_to_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float bf16_to_f32(uint16_t h)
{
    return bits_to_f32((uint32_t)h << 16);
}

static inline uint16_t f32_to_bf16(float f)
{
    uint32_t b = f32_to_bits(f);
    if ((b & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(b >> 16 | 0x40);
    return (uint16_t)((b + 0x7FFFu + (b >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023u;
    if (exponent == 31)
        return bits_to_f32(sign | 0x7F800000u | mantissa << 13);
    if (exponent != 0)
        return bits_to_f32(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Subnormal: mantissa * 2^-24 is exact in binary32. */
    float magnitude = (float)mantissa * 0x1p-24f;
    return bits_to_f32(sign | f32_to_bits(magnitude));
}

static inline uint16_t f32_to_f16(float f)
{
    uint32_t b = f32_to_bits(f), sign = b >> 16 & 0x8000, a = b & 0x7FFFFFFFu;
    if (a > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00);
    if (a >= 0x477FF000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (a < 0x38800000u) { /* below 2^-14: a subnormal of half precision */
        /* Adding 0.5 aligns the unit of the last place with 2^-24 and rounds to nearest even. */
        uint32_t r = f32_to_bits(bits_to_f32(a) + 0.5f) - 0x3F000000u;
        return (uint16_t)(sign | r);
    }
    a += 0xFFFu + (a >> 13 & 1);
    return (uint16_t)(sign | (a - (112u << 23)) >> 13);
}

#endif
