/* SPDX-License-Identifier: Apache-2.0
 * The innermost pieces of matmul_fast.c, one set per instruction set.
 *
 * A micro-kernel computes a tile of the result from a "left" operand, read one scalar at a time and
 * broadcast, and a "right" operand, read as vectors. Broadcasting works from any layout; the right
 * operand has its rows contiguous. Each element is one running sum over ascending k with fused
 * multiply-adds where the machine has them. */
#ifndef TRAINER_CPU_MATMUL_KERNELS_H
#define TRAINER_CPU_MATMUL_KERNELS_H

#include <string.h>

#include "trainer/cpu/matmul.h"

enum {
    MATMUL_MAX_MR = 16,
    MATMUL_MAX_NR = 48,
    MATMUL_DOT_ROWS = 4,
    MATMUL_FEW_ROWS = 4, /* up to this m, a B whose columns lie along k is handled by dots */
};

/* c[rows, vectors * lanes] = alpha * left[rows, k] * right[k, ...]     (+= with accumulate) */
struct micro_tile {
    int64_t k;
    const float *a;
    int64_t a_rs, a_cs; /* distance of rows and columns */
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    float alpha;
    bool accumulate;
};

struct matmul_kernels {
    int mr, nr, lanes; /* largest tile, floats of a vector */
    int mr_narrow;     /* rows of a tile that is a single vector wide */
    void (*tile)(int rows, int vectors, const struct micro_tile *t);
    /* dst[c * ld_dst + r] (+)= src[r * ld_src + c] */
    void (*transpose)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst,
                      int64_t ld_dst, bool add);
    /* dst[r * ld_dst + c] = src[r * ld_src + c]; short rows that lie far apart */
    void (*copy)(const float *src, int64_t ld_src, int64_t rows, int64_t cols, float *dst,
                 int64_t ld_dst);
    /* out[r * n_x + i] = sum over k of w[r * ldw + k] * x[i * ldx + k]; rows <= MATMUL_DOT_ROWS,
     * n_x <= MATMUL_FEW_ROWS */
    void (*dots)(int64_t k, const float *w, int64_t ldw, int rows, const float *x, int64_t ldx,
                 int n_x, float *out);
};

/* The set for cpu_tier(). */
const struct matmul_kernels *matmul_kernels(void);

static inline void matmul_copy_rows(const float *src, int64_t ld_src, int64_t rows, int64_t cols,
                                    float *dst, int64_t ld_dst)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(dst + r * ld_dst, src + r * ld_src, (size_t)cols * sizeof *dst);
}

#endif
