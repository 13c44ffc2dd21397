/* SPDX-License-Identifier: Apache-2.0
 * Sums over whole tensors. A tensor is cut into blocks of fixed size, whose results are added in
 * order: the same bits for any number of threads. */
#include "trainer/cpu/vec_math.h"

enum { REDUCE_BLOCK = 16 * SUM_BLOCK, BLOCKS_AT_ONCE = 256 };

struct reduce {
    const float *x;
    int64_t n;
    double result[BLOCKS_AT_ONCE]; /* counts too: a block holds far less than 2^53 elements */
};

ALWAYS_INLINE int64_t block_length(const struct reduce *j, int64_t block)
{
    return FT_MIN((int64_t)REDUCE_BLOCK, j->n - block * REDUCE_BLOCK);
}

ALWAYS_INLINE void squares_range_body(void *ctx, int64_t from, int64_t to)
{
    struct reduce *j = ctx;
    for (int64_t b = from; b < to; b++) {
        const float *x = j->x + b * REDUCE_BLOCK;
        j->result[b] = vec_dot(x, x, block_length(j, b));
    }
}
CPU_RANGE(squares_range)

ALWAYS_INLINE void nonfinite_range_body(void *ctx, int64_t from, int64_t to)
{
    struct reduce *j = ctx;
    for (int64_t b = from; b < to; b++) {
        const float *x = j->x + b * REDUCE_BLOCK;
        int64_t n = block_length(j, b);
        uint32_t count = 0;
        for (int64_t i = 0; i < n; i++)
            count += (f32_to_bits(x[i]) & 0x7F800000u) == 0x7F800000u;
        j->result[b] = count;
    }
}
CPU_RANGE(nonfinite_range)

static double reduce(struct backend *be, const float *x, int64_t n,
                     void (*fn)(void *ctx, int64_t from, int64_t to))
{
    double sum = 0;
    for (int64_t from = 0; from < n; from += (int64_t)REDUCE_BLOCK * BLOCKS_AT_ONCE) {
        struct reduce j = {.x = x + from, .n = n - from};
        int64_t blocks = FT_MIN((int64_t)BLOCKS_AT_ONCE, (j.n + REDUCE_BLOCK - 1) / REDUCE_BLOCK);
        cpu_range(be, blocks, REDUCE_BLOCK, fn, &j);
        for (int64_t b = 0; b < blocks; b++)
            sum += j.result[b];
    }
    return sum;
}

void cpu_sum_squares(struct backend *be, double *sum, const float *x, int64_t n)
{
    *sum = reduce(be, x, n, squares_range);
}

void cpu_count_nonfinite(struct backend *be, uint64_t *count, const float *x, int64_t n)
{
    *count = (uint64_t)reduce(be, x, n, nonfinite_range);
}
