/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/schedule.h"

#include <math.h>

static const double PI = 3.14159265358979323846, WARMUP_START = 1e-5;

void schedule_init(struct schedule *out, const struct train_options *o, bool warmup_steps_given,
                   int64_t total)
{
    int64_t warmup = warmup_steps_given ? o->schedule.warmup_steps
                                        : (int64_t)(o->schedule.warmup_ratio * (double)total);
    *out = (struct schedule){
        .kind = (enum schedule_kind)o->schedule.kind,
        .total = total,
        .warmup = FT_MIN(warmup, total),
        .peak = o->optimizer.lr,
        .min_ratio = o->schedule.min_lr_ratio,
    };
}

double schedule_lr(const struct schedule *s, int64_t step)
{
    if (step < s->warmup) {
        double done = s->warmup > 1 ? (double)step / (double)(s->warmup - 1) : 0;
        return s->peak * (WARMUP_START + (1 - WARMUP_START) * done);
    }
    if (s->kind == SCHEDULE_CONSTANT)
        return s->peak;
    double part = (double)(step - s->warmup) / (double)(s->total - s->warmup);
    double shape = s->kind == SCHEDULE_LINEAR ? 1 - part : (1 + cos(PI * part)) / 2;
    return s->peak * (s->min_ratio + (1 - s->min_ratio) * shape);
}
