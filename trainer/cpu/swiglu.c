/* SPDX-License-Identifier: Apache-2.0
 * SwiGLU. With s = 1 / (1 + e^-g):
 *
 *     y = (g s) u        d_u = d_y g s        d_g = d_y u s (1 + g (1 - s)) */
#include "trainer/cpu/vec_math.h"

struct swiglu {
    float *gate, *up, *out;
    const float *d_y;
};

ALWAYS_INLINE void swiglu_fwd_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct swiglu *j = ctx;
    const float *gate = j->gate, *up = j->up;
    float *restrict y = j->out;
    for (int64_t i = from; i < to; i++)
        y[i] = gate[i] / (1.0f + exp_f32(-gate[i])) * up[i];
}
CPU_RANGE(swiglu_fwd_range)

void cpu_swiglu_fwd(struct backend *be, float *y, const float *gate, const float *up, int64_t n)
{
    struct swiglu j = {.gate = (float *)gate, .up = (float *)up, .out = y};
    cpu_range(be, n, 8, swiglu_fwd_range, &j);
}

ALWAYS_INLINE void swiglu_bwd_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct swiglu *j = ctx;
    float *restrict gate = j->gate, *restrict up = j->up;
    const float *restrict d_y = j->d_y;
    for (int64_t i = from; i < to; i++) {
        float g = gate[i], s = 1.0f / (1.0f + exp_f32(-g)), d = d_y[i];
        gate[i] = d * up[i] * s * (1.0f + g * (1.0f - s));
        up[i] = d * (g * s);
    }
}
CPU_RANGE(swiglu_bwd_range)

void cpu_swiglu_bwd(struct backend *be, float *gate, float *up, const float *d_y, int64_t n)
{
    struct swiglu j = {.gate = gate, .up = up, .d_y = d_y};
    cpu_range(be, n, 12, swiglu_bwd_range, &j);
}
