/* SPDX-License-Identifier: Apache-2.0
 * Matrix products of the CPU backend, fp32:
 *
 *     C[m,n] = alpha * A[m,k] * B[k,n]     (+= with accumulate)
 *
 * matmul_ref.c is the specification: sums over k in double, in ascending order, rounded once; the
 * same bits on every machine. The default, and compared with it, is the fast product: matmul_amx.c
 * for large products on machines with AMX, else matmul_fast.c. In all of them bits do not depend on
 * the number of threads. */
#ifndef TRAINER_CPU_MATMUL_H
#define TRAINER_CPU_MATMUL_H

#include "trainer/cpu/cpu.h"

/* Element (r, c) is data[r * row_stride + c * col_stride]; or, when weight is set, that of the
 * stored matrix or its transpose, decoded while it is used (B only). */
struct matmul_operand {
    const float *data;
    int64_t row_stride, col_stride;
    const struct weight *weight;
    bool transposed; /* weight only */
};

struct matmul {
    int64_t m, n, k;
    float alpha;
    bool accumulate; /* false: C is only written, whatever it holds */
    struct matmul_operand a, b;
    float *c;
    int64_t ldc;
};

static inline struct matmul_operand matmul_rows(const float *data, int64_t ld)
{
    return (struct matmul_operand){.data = data, .row_stride = ld, .col_stride = 1};
}

/* The transpose of a row-major matrix with leading dimension ld. */
static inline struct matmul_operand matmul_transposed(const float *data, int64_t ld)
{
    return (struct matmul_operand){.data = data, .row_stride = 1, .col_stride = ld};
}

static inline struct matmul_operand matmul_weight(const struct weight *w, bool transposed)
{
    return (struct matmul_operand){.weight = w, .transposed = transposed};
}

/* On all threads. */
void cpu_matmul(struct backend *be, const struct matmul *p);

/* A small product on the calling thread, operands in cache: A with any strides, B with contiguous
 * rows. n <= TILE_MAX_N, k <= TILE_MAX_K. */
enum { TILE_MAX_N = ATTENTION_MAX_HEAD_DIM, TILE_MAX_K = ATTENTION_MAX_HEAD_DIM };
struct tile {
    int64_t m, n, k;
    float alpha;
    bool accumulate;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
};
void cpu_tile(const struct backend *be, const struct tile *t);

/* dst[c * ld_dst + r] = src[r * ld_src + c] */
void cpu_transpose(float *dst, int64_t ld_dst, const float *src, int64_t ld_src, int64_t rows,
                   int64_t cols);

/* matmul_ref.c */
void matmul_ref(struct backend *be, const struct matmul *p);
void tile_ref(const struct tile *t);

/* matmul_fast.c */
void matmul_fast(struct backend *be, const struct matmul *p);
void tile_fast(const struct tile *t);
size_t matmul_fast_bytes(int n_threads); /* of workspace, enough for any shape */

/* matmul_amx.c: the fast product where it pays and the machine has AMX. */
bool matmul_amx_fits(const struct matmul *p);
void matmul_amx(struct backend *be, const struct matmul *p);
size_t matmul_amx_bytes(int n_threads);

#endif
