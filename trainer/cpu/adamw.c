/* SPDX-License-Identifier: Apache-2.0
 * AdamW in the order PyTorch computes it, element by element in fp32:
 *
 *     p *= 1 - lr wd
 *     m += (1 - b1) (g - m)
 *     v  = b2 v + (1 - b2) g g
 *     p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)
 *
 * The scalars are formed in double on the host and rounded once. */
#include <math.h>

#include "trainer/cpu/cpu.h"

struct adamw {
    float *p, *m, *v;
    const float *g;
    float decay, new_m, keep_v, new_v, root_correction, eps, step;
};

ALWAYS_INLINE void adamw_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct adamw *j = ctx;
    float *restrict p = j->p, *restrict m = j->m, *restrict v = j->v;
    const float *restrict g = j->g;
    float decay = j->decay, new_m = j->new_m, keep_v = j->keep_v, new_v = j->new_v;
    float root_correction = j->root_correction, eps = j->eps, step = j->step;
    for (int64_t i = from; i < to; i++) {
        float m_i = m[i] + new_m * (g[i] - m[i]);
        float v_i = keep_v * v[i] + new_v * g[i] * g[i];
        float denominator = __builtin_sqrtf(v_i) / root_correction + eps;
        m[i] = m_i;
        v[i] = v_i;
        p[i] = p[i] * decay - step * m_i / denominator;
    }
}
CPU_RANGE(adamw_range)

void cpu_adamw(struct backend *be, float *p, float *m, float *v, const float *g, int64_t n,
               const struct adamw_step *s)
{
    double t = (double)s->t;
    struct adamw j = {
        .p = p,
        .m = m,
        .v = v,
        .g = g,
        .decay = (float)(1 - s->lr * s->weight_decay),
        .new_m = (float)(1 - s->beta1),
        .keep_v = (float)s->beta2,
        .new_v = (float)(1 - s->beta2),
        .root_correction = (float)sqrt(1 - pow(s->beta2, t)),
        .eps = (float)s->eps,
        .step = (float)(s->lr / (1 - pow(s->beta1, t))),
    };
    cpu_range(be, n, 4, adamw_range, &j);
}
