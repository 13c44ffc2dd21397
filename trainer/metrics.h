/* SPDX-License-Identifier: Apache-2.0
 * metrics.jsonl and the loss picture drawn from it. */
#ifndef TRAINER_METRICS_H
#define TRAINER_METRICS_H

#include "trainer/step_log.h"

/* Growing columns of a plot. */
struct metrics_series {
    double *x, *y;
    size_t n, cap;
};

struct metrics {
    struct step_log log;
    struct metrics_series train, eval; /* loss by step, of the whole history */
};

struct step_record {
    int64_t step; /* from 1 */
    double epoch; /* passes over the data at the end of the step */
    double loss;  /* per trained token; not used when trained_tokens is 0 */
    double lr, grad_norm;
    int64_t tokens, trained_tokens;
    double seconds;
};

/* Opens the file of a run that stands at keep_step with its last evaluation at keep_eval_step, and
 * cuts off what came later. A new run has -1 in both. */
FT_NODISCARD ft_status metrics_open(struct metrics *out, const char *path, int64_t keep_step,
                                    int64_t keep_eval_step, ft_error *err);
void metrics_close(struct metrics *m); /* also after a failed open */

FT_NODISCARD ft_status metrics_step(struct metrics *m, const struct step_record *r, ft_error *err);
FT_NODISCARD ft_status metrics_eval(struct metrics *m, int64_t step, double loss, int64_t n_tokens,
                                    double seconds, ft_error *err);
FT_NODISCARD ft_status metrics_sync(struct metrics *m, ft_error *err);

/* Writes the training loss (raw and smoothed) and the evaluation loss as an SVG picture. */
FT_NODISCARD ft_status metrics_draw(const struct metrics *m, const char *path, ft_error *err);

/* Appends a finite number, or null for what JSON cannot hold. */
void metrics_number(struct buf *b, double v);

#endif
