/* SPDX-License-Identifier: Apache-2.0
 * Chooses between the matrix products. */
#include "trainer/cpu/matmul_kernels.h"

void cpu_matmul(struct backend *be, const struct matmul *p)
{
    if (cpu_of(be)->matmul == MATMUL_REFERENCE)
        matmul_ref(be, p);
    else if (matmul_amx_fits(p))
        matmul_amx(be, p);
    else
        matmul_fast(be, p);
}

void cpu_tile(const struct backend *be, const struct tile *t)
{
    FT_ASSERT(t->n <= TILE_MAX_N && t->k <= TILE_MAX_K);
    if (((const struct cpu_backend *)be)->matmul == MATMUL_REFERENCE)
        tile_ref(t);
    else
        tile_fast(t);
}

void cpu_transpose(float *dst, int64_t ld_dst, const float *src, int64_t ld_src, int64_t rows,
                   int64_t cols)
{
    matmul_kernels()->transpose(src, ld_src, rows, cols, dst, ld_dst, false);
}
