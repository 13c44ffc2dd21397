/* SPDX-License-Identifier: Apache-2.0
 * RMSNorm. With r = 1 / sqrt(mean(x^2) + eps):
 *
 *     y = (x r) gain
 *     d_x += r (gain d_y - x r^2 mean(gain d_y x)) */
#include "trainer/cpu/vec_math.h"

struct rmsnorm {
    float *out;
    const float *d_y, *x, *gain;
    int64_t cols;
    double eps;
};

ALWAYS_INLINE double inverse_rms(const float *x, int64_t n, double eps)
{
    return 1.0 / sqrt(vec_dot(x, x, n) / (double)n + eps);
}

ALWAYS_INLINE void rmsnorm_fwd_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct rmsnorm *j = ctx;
    const float *gain = j->gain;
    for (int64_t t = from; t < to; t++) {
        const float *x = j->x + t * j->cols;
        float *y = j->out + t * j->cols, r = (float)inverse_rms(x, j->cols, j->eps);
        for (int64_t i = 0; i < j->cols; i++)
            y[i] = x[i] * r * gain[i];
    }
}
CPU_RANGE(rmsnorm_fwd_range)

void cpu_rmsnorm_fwd(struct backend *be, float *y, const float *x, const float *gain, int64_t rows,
                     int64_t cols, double eps)
{
    struct rmsnorm j = {.out = y, .x = x, .gain = gain, .cols = cols, .eps = eps};
    cpu_range(be, rows, 2 * cols, rmsnorm_fwd_range, &j);
}

ALWAYS_INLINE void rmsnorm_bwd_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct rmsnorm *j = ctx;
    const float *gain = j->gain;
    for (int64_t t = from; t < to; t++) {
        const float *x = j->x + t * j->cols, *d_y = j->d_y + t * j->cols;
        float *d_x = j->out + t * j->cols;
        double rms = inverse_rms(x, j->cols, j->eps);
        double mean = vec_dot3(gain, d_y, x, j->cols) / (double)j->cols;
        float r = (float)rms, along_x = (float)(rms * rms * mean);
        for (int64_t i = 0; i < j->cols; i++)
            d_x[i] += r * (gain[i] * d_y[i] - x[i] * along_x);
    }
}
CPU_RANGE(rmsnorm_bwd_range)

void cpu_rmsnorm_bwd(struct backend *be, float *d_x, const float *d_y, const float *x,
                     const float *gain, int64_t rows, int64_t cols, double eps)
{
    struct rmsnorm j = {.out = d_x, .d_y = d_y, .x = x, .gain = gain, .cols = cols, .eps = eps};
    cpu_range(be, rows, 4 * cols, rmsnorm_bwd_range, &j);
}
