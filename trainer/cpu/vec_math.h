/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic shared by kernels: an exponential the vectoriser can use, and sums in explicit lanes.
 * Same bits with every instruction set and vector width. */
#ifndef TRAINER_CPU_VEC_MATH_H
#define TRAINER_CPU_VEC_MATH_H

#include <math.h>
#include <string.h>

#include "common/half.h"
#include "trainer/cpu/cpu.h"

/* Vectors are passed only between inlined functions, so their calling convention is moot. */
#pragma GCC diagnostic ignored "-Wpsabi"

/* e^x within 1.0 ulp (0.97 measured over all floats); below -103.98 it is 0, above
 * 88.73 infinity, NaN stays NaN.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2. n comes from adding 1.5 * 2^23, which leaves x / ln 2
 * rounded to an integer in the low bits. ln 2 is split so that n * LN2_HIGH is exact. The
 * polynomial is the minimax one for (e^r - 1 - r) / r^2, error 0.001 ulp. 2^n is applied in two
 * factors, so that results below 2^-126 and overflow come out right. */
ALWAYS_INLINE float exp_f32(float x)
{
    const float LN2_HIGH = 0x1.63p-1f, LN2_LOW = -0x1.bd0106p-13f, ROUND = 0x1.8p23f;
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 0x1.715476p0f + ROUND;
    int32_t n = (int32_t)(f32_to_bits(shifted) - f32_to_bits(ROUND));
    float whole = shifted - ROUND;
    float r = x - whole * LN2_HIGH - whole * LN2_LOW;
    float q = 0x1.9f089cp-13f;
    q = q * r + 0x1.6d8d08p-10f;
    q = q * r + 0x1.111270p-7f;
    q = q * r + 0x1.55548ep-5f;
    q = q * r + 0x1.555554p-3f;
    q = q * r + 0.5f;
    float y = 1.0f + (r + r * r * q);
    int32_t half = n >> 1;
    return y * bits_to_f32((uint32_t)(half + 127) << 23) *
           bits_to_f32((uint32_t)(n - half + 127) << 23);
}

/* Sums run in 16 lanes, element i in lane i % 16, and are emptied into a double every SUM_BLOCK
 * elements: accurate for any length, and one order whatever the registers are. */
enum { LANES = 16, SUM_BLOCK = 4096 };
typedef float lanes_f32 __attribute__((vector_size(4 * LANES)));

ALWAYS_INLINE void lanes_load(lanes_f32 *v, const float *p, int64_t n)
{
    *v = (lanes_f32){0};
    if (n >= LANES)
        memcpy(v, p, sizeof *v);
    else
        memcpy(v, p, (size_t)n * sizeof *p);
}

ALWAYS_INLINE double lanes_sum(const lanes_f32 *v)
{
    double s = 0;
    for (int i = 0; i < LANES; i++)
        s += (double)(*v)[i];
    return s;
}

/* sum of x[i] * y[i] */
ALWAYS_INLINE double vec_dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += SUM_BLOCK) {
        int64_t to = FT_MIN(n, from + SUM_BLOCK);
        lanes_f32 acc = {0}, a, b;
        for (int64_t i = from; i < to; i += LANES) {
            lanes_load(&a, x + i, to - i);
            lanes_load(&b, y + i, to - i);
            acc += a * b;
        }
        sum += lanes_sum(&acc);
    }
    return sum;
}

/* sum of x[i] * y[i] * z[i] */
ALWAYS_INLINE double vec_dot3(const float *x, const float *y, const float *z, int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += SUM_BLOCK) {
        int64_t to = FT_MIN(n, from + SUM_BLOCK);
        lanes_f32 acc = {0}, a, b, c;
        for (int64_t i = from; i < to; i += LANES) {
            lanes_load(&a, x + i, to - i);
            lanes_load(&b, y + i, to - i);
            lanes_load(&c, z + i, to - i);
            acc += a * b * c;
        }
        sum += lanes_sum(&acc);
    }
    return sum;
}

ALWAYS_INLINE double vec_sum(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += SUM_BLOCK) {
        int64_t to = FT_MIN(n, from + SUM_BLOCK);
        lanes_f32 acc = {0}, a;
        for (int64_t i = from; i < to; i += LANES) {
            lanes_load(&a, x + i, to - i);
            acc += a;
        }
        sum += lanes_sum(&acc);
    }
    return sum;
}

/* Largest element, n > 0. NaN elements are passed over: what is computed next shows them. */
ALWAYS_INLINE float vec_max(const float *x, int64_t n)
{
    float lane[LANES], most;
    for (int l = 0; l < LANES; l++)
        lane[l] = x[l < n ? l : 0];
    for (int64_t i = LANES; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    most = lane[0];
    for (int l = 1; l < LANES; l++)
        most = lane[l] > most ? lane[l] : most;
    for (int64_t i = n / LANES * LANES; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

#endif
