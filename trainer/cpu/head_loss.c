/* SPDX-License-Identifier: Apache-2.0
 * Output head, log-softmax, loss and gradient, a chunk of rows at a time, in place in the logits:
 *
 *     loss = log sum e^(l - max) + max - l[target]        d_l = softmax(l) - onehot(target)
 *
 * Losses are added up in double, in row order. */
#include "trainer/cpu/matmul.h"
#include "trainer/cpu/vec_math.h"

struct rows_loss {
    float *logits;
    double *loss; /* per row */
    const int32_t *targets;
    int64_t vocab;
    double scale;
};

ALWAYS_INLINE void loss_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct rows_loss *j = ctx;
    for (int64_t t = from; t < to; t++) {
        float *row = j->logits + t * j->vocab;
        float most = vec_max(row, j->vocab), target = row[j->targets[t]];
        for (int64_t i = 0; i < j->vocab; i++)
            row[i] = exp_f32(row[i] - most);
        double sum = vec_sum(row, j->vocab);
        j->loss[t] = log(sum) + ((double)most - (double)target);
        float factor = (float)(j->scale / sum);
        for (int64_t i = 0; i < j->vocab; i++)
            row[i] *= factor;
        row[j->targets[t]] -= (float)j->scale;
    }
}
CPU_RANGE(loss_range)

void cpu_head_loss(struct backend *be, double *loss_sum, float *d_x, const float *x,
                   const struct weight *w, const int32_t *targets, int64_t rows, double loss_scale,
                   float *logits, int64_t chunk)
{
    double *loss = (double *)(void *)cpu_of(be)->workspace;
    int64_t most = (int64_t)(cpu_of(be)->workspace_bytes / sizeof *loss);
    chunk = FT_MIN(chunk, most);
    int64_t n_chunks = (rows + chunk - 1) / chunk;
    chunk = (rows + n_chunks - 1) /
            FT_MAX(n_chunks, (int64_t)1); /* no short last one: each decodes the head anew */
    for (int64_t from = 0; from < rows; from += chunk) {
        int64_t n = FT_MIN(chunk, rows - from);
        struct rows_loss j = {logits, loss, targets + from, w->rows, loss_scale};
        cpu_linear_fwd(be, logits, x + from * w->cols, w, NULL, n);
        cpu_range(be, n, 8 * w->rows, loss_range, &j);
        for (int64_t t = 0; t < n; t++)
            *loss_sum += loss[t];
        if (d_x != NULL)
            cpu_linear_bwd(be, d_x + from * w->cols, logits, w, n, false);
    }
}
