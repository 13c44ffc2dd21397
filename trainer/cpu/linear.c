/* SPDX-License-Identifier: Apache-2.0
 * Linear layers with a frozen weight: y = x W^T + bias, d_x = d_y W. */
#include "trainer/cpu/matmul.h"

struct bias {
    float *y;
    const float *bias;
    int64_t cols;
};

ALWAYS_INLINE void bias_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct bias *j = ctx;
    const float *bias = j->bias;
    for (int64_t t = from; t < to; t++) {
        float *y = j->y + t * j->cols;
        for (int64_t i = 0; i < j->cols; i++)
            y[i] += bias[i];
    }
}
CPU_RANGE(bias_range)

void cpu_linear_fwd(struct backend *be, float *y, const float *x, const struct weight *w,
                    const float *bias, int64_t rows)
{
    struct matmul product = {
        .m = rows,
        .n = w->rows,
        .k = w->cols,
        .alpha = 1,
        .a = matmul_rows(x, w->cols),
        .b = matmul_weight(w, true),
        .c = y,
        .ldc = w->rows,
    };
    cpu_matmul(be, &product);
    if (bias != NULL) {
        struct bias j = {y, bias, w->rows};
        cpu_range(be, rows, w->rows, bias_range, &j);
    }
}

void cpu_linear_bwd(struct backend *be, float *d_x, const float *d_y, const struct weight *w,
                    int64_t rows, bool add)
{
    struct matmul product = {
        .m = rows,
        .n = w->cols,
        .k = w->rows,
        .alpha = 1,
        .accumulate = add,
        .a = matmul_rows(d_y, w->rows),
        .b = matmul_weight(w, false),
        .c = d_x,
        .ldc = w->cols,
    };
    cpu_matmul(be, &product);
}
