/* SPDX-License-Identifier: Apache-2.0
 * The reference matrix product. The product of two floats is exact in double and every element of C
 * is one running sum over ascending k, so nothing about the machine can change a bit: not the
 * vector width, and not even fused multiply-adds. */
#include "trainer/cpu/matmul.h"

#include <string.h>

enum { BLOCK = 64 };

/* sum[j] += a * b[j] */
ALWAYS_INLINE void axpy(double *restrict sum, double a, const float *restrict b, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        sum[j] += a * (double)b[j];
}

ALWAYS_INLINE void store(float *c, const double *sum, int64_t n, float alpha, bool accumulate)
{
    for (int64_t j = 0; j < n; j++) {
        float v = (float)((double)alpha * sum[j]);
        c[j] = accumulate ? c[j] + v : v;
    }
}

/* dst[p, j] = B[k0 + p, j0 + j] */
static void fetch_b(const struct matmul_operand *b, int64_t k0, int64_t nk, int64_t j0, int64_t nj,
                    float dst[BLOCK][BLOCK])
{
    float w[BLOCK][BLOCK];
    if (b->weight != NULL && !b->transposed) {
        cpu_weight_decode(b->weight, k0, nk, j0, nj, dst[0], BLOCK);
        return;
    }
    if (b->weight != NULL)
        cpu_weight_decode(b->weight, j0, nj, k0, nk, w[0], BLOCK);
    for (int64_t p = 0; p < nk; p++)
        for (int64_t j = 0; j < nj; j++)
            dst[p][j] = b->weight != NULL
                            ? w[j][p]
                            : b->data[(k0 + p) * b->row_stride + (j0 + j) * b->col_stride];
}

struct block {
    const struct matmul *p;
    int64_t i0, ni, j0, nj;
};

ALWAYS_INLINE void block_rows_body(const struct block *b, int64_t k0, int64_t nk,
                                   float (*right)[BLOCK], double (*sum)[BLOCK])
{
    const struct matmul_operand *a = &b->p->a;
    for (int64_t i = 0; i < b->ni; i++)
        for (int64_t p = 0; p < nk; p++)
            axpy(sum[i], (double)a->data[(b->i0 + i) * a->row_stride + (k0 + p) * a->col_stride],
                 right[p], BLOCK);
}
CPU_TIERED(block_rows,
           (const struct block *b, int64_t k0, int64_t nk, float (*right)[BLOCK],
            double (*sum)[BLOCK]),
           (b, k0, nk, right, sum))

static void block_product(void *ctx, int task)
{
    const struct matmul *p = ctx;
    int64_t across = (p->n + BLOCK - 1) / BLOCK;
    struct block b = {.p = p, .i0 = task / across * BLOCK, .j0 = task % across * BLOCK};
    double sum[BLOCK][BLOCK] = {{0}};
    float right[BLOCK][BLOCK] = {{0}};
    b.ni = FT_MIN(p->m - b.i0, (int64_t)BLOCK);
    b.nj = FT_MIN(p->n - b.j0, (int64_t)BLOCK);
    for (int64_t k0 = 0; k0 < p->k; k0 += BLOCK) {
        int64_t nk = FT_MIN(p->k - k0, (int64_t)BLOCK);
        fetch_b(&p->b, k0, nk, b.j0, b.nj, right);
        block_rows(&b, k0, nk, right, sum);
    }
    for (int64_t i = 0; i < b.ni; i++)
        store(p->c + (b.i0 + i) * p->ldc + b.j0, sum[i], b.nj, p->alpha, p->accumulate);
}

void matmul_ref(struct backend *be, const struct matmul *p)
{
    int64_t blocks = ((p->m + BLOCK - 1) / BLOCK) * ((p->n + BLOCK - 1) / BLOCK);
    pool_run(cpu_of(be)->pool, (int)blocks, block_product, (void *)p);
}

ALWAYS_INLINE void tile_ref_tiered_body(const struct tile *t)
{
    double sum[TILE_MAX_N];
    for (int64_t i = 0; i < t->m; i++) {
        memset(sum, 0, (size_t)t->n * sizeof *sum);
        for (int64_t p = 0; p < t->k; p++)
            axpy(sum, (double)t->a[i * t->a_row + p * t->a_col], t->b + p * t->ldb, t->n);
        store(t->c + i * t->ldc, sum, t->n, t->alpha, t->accumulate);
    }
}
CPU_TIERED(tile_ref_tiered, (const struct tile *t), (t))

void tile_ref(const struct tile *t)
{
    tile_ref_tiered(t);
}
