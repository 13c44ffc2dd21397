/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/support/numeric.h"

enum { N = 1003, STEPS = 5 };

static const struct adamw_step base_step = {
    .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};

static float *gradient(int step)
{
    return random_f32(N, (uint64_t)(100 + step), 0.01);
}

/* p, m, v after STEPS steps */
static void run(struct backend *be, const void *ctx, float *out)
{
    struct tensor p = tensor_f32("p", out, 1, N), m = tensor_f32("m", out + N, 1, N);
    struct tensor v = tensor_f32("v", out + 2 * N, 1, N);
    float *const *grads = ctx;
    memcpy(out, random_f32(N, 1, 1), sizeof(float[N]));
    memset(out + N, 0, 2 * sizeof(float[N]));
    for (int step = 0; step < STEPS; step++) {
        struct adamw_step s = base_step;
        s.t = step + 1;
        op_adamw(be, p, m, v, tensor_f32("g", grads[step], 1, N), &s);
    }
}

static void the_formula_in_double_agrees_on_every_instruction_set(void **state)
{
    (void)state;
    float *start = random_f32(N, 1, 1), *grads[STEPS];
    double *expected = zeros_f64(3 * N), *p = expected, *m = p + N, *v = m + N;
    for (int64_t i = 0; i < N; i++)
        p[i] = (double)start[i];
    for (int step = 0; step < STEPS; step++) {
        grads[step] = gradient(step);
        for (int64_t i = 0; i < N; i++) {
            double g = (double)grads[step][i], t = step + 1;
            p[i] *= 1 - base_step.lr * base_step.weight_decay;
            m[i] += (1 - base_step.beta1) * (g - m[i]);
            v[i] = base_step.beta2 * v[i] + (1 - base_step.beta2) * g * g;
            double denominator = sqrt(v[i]) / sqrt(1 - pow(base_step.beta2, t)) + base_step.eps;
            p[i] -= base_step.lr / (1 - pow(base_step.beta1, t)) * m[i] / denominator;
        }
    }
    const struct expected parts[] = {{"p", N, p, 2e-7}, {"m", N, m, 2e-7}, {"v", N, v, 2e-7}};
    check_op(run, grads, parts, ARRAY_LEN(parts), true);
}

/* Values computed by hand for one step: g = 2 from zero moments moves p by lr, whatever g is. */
static void the_first_step_moves_by_the_learning_rate(void **state)
{
    (void)state;
    float p = 1, m = 0, v = 0, g = 2;
    struct adamw_step s = {.lr = 0.5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 1};
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_adamw(be, tensor_f32("p", &p, 1, 1), tensor_f32("m", &m, 1, 1), tensor_f32("v", &v, 1, 1),
             tensor_f32("g", &g, 1, 1), &s);
    sync_ok(be);
    backend_close(be);
    assert_true(fabs((double)p - 0.5) < 1e-6);
    assert_true(fabs((double)m - 0.2) < 1e-7 && fabs((double)v - 0.004) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formula_in_double_agrees_on_every_instruction_set),
        cmocka_unit_test(the_first_step_moves_by_the_learning_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
