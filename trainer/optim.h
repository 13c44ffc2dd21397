/* SPDX-License-Identifier: Apache-2.0
 * AdamW over the flat adapter parameters, and the gradient's norm. */
#ifndef TRAINER_OPTIM_H
#define TRAINER_OPTIM_H

#include "trainer/model.h"
#include "trainer/train_options.h"

struct optim {
    struct backend *be;
    struct model_params *params;
    float *m, *v;    /* [params->n] */
    int64_t updates; /* steps taken: AdamW's t */
    double *sums;    /* [params->n_tensors], scratch of the norm */
};

/* params must outlive the optimiser. */
FT_NODISCARD ft_status optim_open(struct optim *out, struct backend *be,
                                  struct model_params *params, ft_error *err);
void optim_close(struct optim *o); /* a zeroed one is fine */

void optim_zero_gradients(struct optim *o);
/* Norm of the norms of the tensors; NaN when a gradient is not finite. */
FT_NODISCARD ft_status optim_gradient_norm(double *out, struct optim *o, ft_error *err);
/* One update with gradients scaled by min(1, clip / (norm + 1e-6)) unless clip is 0. */
FT_NODISCARD ft_status optim_step(struct optim *o, const struct train_options *options, double lr,
                                  double norm, ft_error *err);

#endif
