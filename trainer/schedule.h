/* SPDX-License-Identifier: Apache-2.0
 * Learning rate as a closed form of the step, counted in optimiser steps. */
#ifndef TRAINER_SCHEDULE_H
#define TRAINER_SCHEDULE_H

#include "trainer/train_options.h"

struct schedule {
    enum schedule_kind kind;
    int64_t total, warmup; /* steps; 0 <= warmup <= total */
    double peak, min_ratio;
};

/* The schedule.* and optimizer.lr keys for a run of total steps. */
void schedule_init(struct schedule *out, const struct train_options *o, bool warmup_steps_given,
                   int64_t total);

/* Rate of step i from 0. Warm-up: from 1e-5 of the peak linearly to the peak at step warmup - 1.
 * Then from the peak at step `warmup` along half a cosine, or a line, towards peak * min_ratio,
 * which it would reach at step `total`. */
double schedule_lr(const struct schedule *s, int64_t step);

#endif
