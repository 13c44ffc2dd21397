/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "common/mem.h"
#include "tests/support/numeric.h"

struct head_case {
    int64_t rows, hidden, vocab, chunk;
    struct weight w;
    float *values, *x;
    int32_t *targets;
};

static const double loss_scale = 0.125;

static double row_loss(const struct head_case *c, const double *x, int64_t t)
{
    double sum = 0, target = 0;
    for (int64_t o = 0; o < c->vocab; o++) {
        double logit = 0;
        for (int64_t i = 0; i < c->hidden; i++)
            logit += x[t * c->hidden + i] * (double)c->values[o * c->hidden + i];
        sum += exp(logit);
        target = o == c->targets[t] ? logit : target;
    }
    return log(sum) - target;
}

static double loss(const void *ctx, const double *x)
{
    const struct head_case *c = ctx;
    double sum = 0;
    for (int64_t t = 0; t < c->rows; t++)
        sum += row_loss(c, x, t);
    return loss_scale * sum;
}

/* per-row losses, then d_x */
static void run(struct backend *be, const void *ctx, float *out)
{
    const struct head_case *c = ctx;
    float *logits = mem_alloc_aligned((size_t)(c->chunk * c->vocab) * sizeof *logits);
    struct tensor scratch = tensor_f32("logits", logits, c->chunk, c->vocab);
    struct tensor x = tensor_f32("x", c->x, c->rows, c->hidden);
    double all = 0, evaluated = 0;
    for (int64_t t = 0; t < c->rows; t++) {
        double one = 0;
        op_head_loss(be, &one, tensor_none(), tensor_rows(x, t, 1), &c->w, c->targets + t,
                     loss_scale, scratch);
        out[t] = (float)one;
    }
    op_head_loss(be, &all, tensor_f32("d_x", out + c->rows, c->rows, c->hidden), x, &c->w,
                 c->targets, loss_scale, scratch);
    op_head_loss(be, &evaluated, tensor_none(), x, &c->w, c->targets, loss_scale, scratch);
    assert_true(all == evaluated);
    double sum = 0;
    for (int64_t t = 0; t < c->rows; t++)
        sum += (double)out[t];
    assert_true(fabs(all - sum) <= 5e-6 * sum);
    mem_free(logits);
}

static void check_head(enum dtype type, int64_t rows, int64_t hidden, int64_t vocab, int64_t chunk)
{
    int64_t n = rows * hidden;
    struct head_case c = {.rows = rows,
                          .hidden = hidden,
                          .vocab = vocab,
                          .chunk = chunk,
                          .w = random_weight(type, vocab, hidden, 1),
                          .x = random_f32(n, 2, 2)};
    int32_t targets[64];
    for (int64_t t = 0; t < rows; t++)
        targets[t] = (int32_t)(t * 7 % vocab);
    c.targets = targets;
    c.values = weight_values(&c.w);
    double *x = zeros_f64(n), *losses = zeros_f64(rows), *d_x = zeros_f64(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)c.x[i];
    for (int64_t t = 0; t < rows; t++)
        losses[t] = row_loss(&c, x, t);
    central_differences(d_x, c.x, n, loss, &c);
    const struct expected parts[] = {{"loss", rows, losses, 2e-6}, {"d_x", n, d_x, 2e-6}};
    check_op(run, &c, parts, ARRAY_LEN(parts), false);
}

static void loss_and_gradient_match_central_differences(void **state)
{
    (void)state;
    check_head(DT_F32, 1, 3, 2, 1);
    check_head(DT_F32, 5, 8, 33, 2);
    check_head(DT_Q8_0, 7, 32, 100, 3);
    check_head(DT_F16, 6, 5, 17, 64);
}

static void a_large_vocabulary_stays_accurate(void **state)
{
    (void)state;
    enum { ROWS = 4, HIDDEN = 16, VOCAB = 128256 };
    int32_t targets[ROWS] = {0, 1, 77777, VOCAB - 1};
    struct head_case c = {.rows = ROWS,
                          .hidden = HIDDEN,
                          .vocab = VOCAB,
                          .w = random_weight(DT_F32, VOCAB, HIDDEN, 1),
                          .x = random_f32(ROWS * HIDDEN, 2, 8),
                          .targets = targets};
    float *logits = zeros_f32(2 * VOCAB);
    double x[ROWS * HIDDEN];
    c.values = weight_values(&c.w);
    for (int64_t i = 0; i < ROWS * HIDDEN; i++)
        x[i] = (double)c.x[i];
    struct backend *be = open_cpu(2, MATMUL_FAST);
    for (int64_t t = 0; t < ROWS; t++) {
        double got = 0, expected = row_loss(&c, x, t);
        op_head_loss(be, &got, tensor_none(), tensor_f32("x", c.x + t * HIDDEN, 1, HIDDEN), &c.w,
                     targets + t, 1, tensor_f32("logits", logits, 2, VOCAB));
        sync_ok(be);
        assert_true(fabs(got - expected) <= 5e-6 * expected);
    }
    backend_close(be);
}

static void a_target_outside_the_vocabulary_is_latched(void **state)
{
    (void)state;
    float x[4] = {0}, logits[3];
    int32_t target = 3;
    double sum = 0;
    struct weight w = random_weight(DT_F32, 3, 4, 1);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_head_loss(be, &sum, tensor_none(), tensor_f32("x", x, 1, 4), &w, &target, 1,
                 tensor_f32("logits", logits, 1, 3));
    sync_fails(be, "head_loss: row 0: index 3 is outside [0, 3)");
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradient_match_central_differences),
        cmocka_unit_test(a_large_vocabulary_stays_accurate),
        cmocka_unit_test(a_target_outside_the_vocabulary_is_latched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
