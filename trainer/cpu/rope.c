/* SPDX-License-Identifier: Apache-2.0
 * Rotary position embedding in the half-split layout. The angles are the same for every layer and
 * head, so cosines and sines are tabulated once per batch. */
#include <math.h>

#include "trainer/cpu/cpu.h"

struct rope_table {
    float *table;
    const float *inv_freq;
    const int32_t *positions;
    int64_t half;
};

static void table_range(void *ctx, int64_t from, int64_t to)
{
    const struct rope_table *j = ctx;
    for (int64_t t = from; t < to; t++) {
        float *cosines = j->table + t * 2 * j->half, *sines = cosines + j->half;
        for (int64_t i = 0; i < j->half; i++) {
            float angle = (float)j->positions[t] * j->inv_freq[i];
            cosines[i] = (float)cos((double)angle);
            sines[i] = (float)sin((double)angle);
        }
    }
}

void cpu_rope_table(struct backend *be, float *table, const float *inv_freq,
                    const int32_t *positions, int64_t rows, int64_t half)
{
    struct rope_table j = {table, inv_freq, positions, half};
    cpu_range(be, rows, 64 * half, table_range, &j);
}

struct rope {
    float *x;
    const float *table;
    int64_t n_heads, half;
    float sign; /* of the sines: -1 turns back */
};

ALWAYS_INLINE void rope_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct rope *j = ctx;
    for (int64_t t = from; t < to; t++) {
        const float *cosines = j->table + t * 2 * j->half, *sines = cosines + j->half;
        for (int64_t h = 0; h < j->n_heads; h++) {
            float *restrict a = j->x + (t * j->n_heads + h) * 2 * j->half, *restrict b =
                                                                               a + j->half;
            for (int64_t i = 0; i < j->half; i++) {
                float s = j->sign * sines[i], a_i = a[i], b_i = b[i];
                a[i] = a_i * cosines[i] - b_i * s;
                b[i] = b_i * cosines[i] + a_i * s;
            }
        }
    }
}
CPU_RANGE(rope_range)

void cpu_rope(struct backend *be, float *x, const float *table, int64_t rows, int64_t n_heads,
              int64_t half, bool inverse)
{
    struct rope j = {x, table, n_heads, half, inverse ? -1.0f : 1.0f};
    cpu_range(be, rows, 2 * n_heads * half, rope_range, &j);
}
