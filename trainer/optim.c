/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/optim.h"

#include <math.h>

#include "common/mem.h"
#include "trainer/ops.h"

static const double CLIP_EPS = 1e-6; /* as PyTorch's clip_grad_norm_ */

static struct tensor flat(const struct optim *o, const char *name, float *data)
{
    return tensor_f32(name, data, 1, o->params->n);
}

ft_status optim_open(struct optim *out, struct backend *be, struct model_params *params,
                     ft_error *err)
{
    size_t bytes = (size_t)params->n * sizeof(float);
    *out = (struct optim){.be = be, .params = params};
    FT_TRY(mem_new(&out->sums, params->n_tensors, sizeof *out->sums, "gradient norms", err));
    FT_TRY(backend_alloc(&out->m, be, bytes, "optimiser state", err));
    return backend_alloc(&out->v, be, bytes, "optimiser state", err);
}

void optim_close(struct optim *o)
{
    mem_free(o->sums);
    if (o->m != NULL)
        backend_free(o->be, o->m);
    if (o->v != NULL)
        backend_free(o->be, o->v);
    *o = (struct optim){0};
}

void optim_zero_gradients(struct optim *o)
{
    op_zero(o->be, flat(o, "gradients", o->params->gradients));
}

ft_status optim_gradient_norm(double *out, struct optim *o, ft_error *err)
{
    const struct model_params *p = o->params;
    uint64_t n_bad = 0;
    double total = 0;
    op_count_nonfinite(o->be, &n_bad, flat(o, "gradients", p->gradients));
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct param_tensor *t = &p->tensors[i];
        op_sum_squares(o->be, &o->sums[i],
                       tensor_f32("gradient", p->gradients + t->offset, t->rows, t->cols));
    }
    FT_TRY(backend_sync(o->be, err));
    for (size_t i = 0; i < p->n_tensors; i++)
        total += o->sums[i];
    *out = n_bad == 0 ? sqrt(total) : (double)NAN;
    return FT_OK;
}

ft_status optim_step(struct optim *o, const struct train_options *options, double lr, double norm,
                     ft_error *err)
{
    const struct adamw_step step = {
        .lr = lr,
        .beta1 = options->optimizer.beta1,
        .beta2 = options->optimizer.beta2,
        .eps = options->optimizer.eps,
        .weight_decay = options->optimizer.weight_decay,
        .t = ++o->updates,
    };
    struct tensor gradients = flat(o, "gradients", o->params->gradients);
    if (options->optimizer.clip > 0)
        op_scale(o->be, gradients, fmin(1, options->optimizer.clip / (norm + CLIP_EPS)));
    op_adamw(o->be, flat(o, "adapter", o->params->values), flat(o, "first moment", o->m),
             flat(o, "second moment", o->v), gradients, &step);
    return backend_sync(o->be, err);
}
