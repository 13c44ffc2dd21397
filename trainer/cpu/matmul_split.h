/* SPDX-License-Identifier: Apache-2.0
 * Operands for the bf16 tiles of AMX. An fp32 number is the exact sum of three bf16 numbers,
 *
 *     a = a0 + a1 + a2,   |a1| < 2^-7 |a|,   |a2| <= 2^-16 |a|
 *
 * so six products of parts, a0 b0 + a0 b1 + a1 b0 + a1 b1 + a0 b2 + a2 b0, make a product of fp32
 * accuracy: what is left out is below 2^-22 of it. a0 is a cut off and a1 is rounded; so nothing
 * finite overflows, and an infinity or NaN becomes NaN. Magnitudes below 2^-126, of parts too, are
 * zero to AMX.
 *
 * A panel holds up to 32 vectors (rows of the left operand, columns of the right one) over a range
 * of k, in steps of 32: for each part two tiles of 16 vectors. Rows of a left tile are vectors, 32
 * values of k each. Rows of a right tile are pairs of k, 16 vectors each, the two values of a
 * vector side by side. The last step is filled up with zeros; vectors that do not exist are
 * anything. */
#ifndef TRAINER_CPU_MATMUL_SPLIT_H
#define TRAINER_CPU_MATMUL_SPLIT_H

#include "trainer/cpu/matmul.h"

#ifdef __x86_64__

enum {
    SPLIT_VECTORS = 32,
    SPLIT_K = 32,
    SPLIT_PARTS = 3,
    SPLIT_TILE = 16 * SPLIT_K, /* bf16 numbers, 1 KiB */
    SPLIT_PART = 2 * SPLIT_TILE,
    SPLIT_STEP = SPLIT_PARTS * SPLIT_PART,
    SPLIT_SCRATCH = 2 * SPLIT_VECTORS, /* floats for each value of k */
};

/* Whether one of the strides is 1, or it is a weight. */
bool split_fits(const struct matmul_operand *o);

/* Rows [i, i + n) of a, columns [k0, k0 + kc); no weight. */
void split_left(uint16_t *dst, const struct matmul_operand *a, int64_t i, int64_t n, int64_t k0,
                int64_t kc, float *scratch);
/* Columns [j, j + n) of b, rows [k0, k0 + kc). For weights k0 and j are multiples of 32. */
void split_right(uint16_t *dst, const struct matmul_operand *b, int64_t j, int64_t n, int64_t k0,
                 int64_t kc, float *scratch);

#endif
#endif
