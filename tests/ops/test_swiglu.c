/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/support/numeric.h"

struct swiglu_case {
    int64_t n;
    float *x, *d_y; /* x: gate then up */
};

static double value(double gate, double up)
{
    return gate / (1 + exp(-gate)) * up;
}

static double loss(const void *ctx, const double *x)
{
    const struct swiglu_case *c = ctx;
    double sum = 0;
    for (int64_t i = 0; i < c->n; i++)
        sum += value(x[i], x[c->n + i]) * (double)c->d_y[i];
    return sum;
}

static void run(struct backend *be, const void *ctx, float *out)
{
    const struct swiglu_case *c = ctx;
    float *grads = out + c->n; /* gate then up, in place */
    memcpy(grads, c->x, 2 * (size_t)c->n * sizeof *grads);
    struct tensor gate = tensor_f32("gate", grads, 1, c->n);
    struct tensor up = tensor_f32("up", grads + c->n, 1, c->n);
    op_swiglu_fwd(be, tensor_f32("y", out, 1, c->n), gate, up);
    op_swiglu_bwd(be, gate, up, tensor_f32("d_y", c->d_y, 1, c->n));
}

static void value_and_gradient_match_central_differences(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 15, 64, 333};
    for (size_t s = 0; s < ARRAY_LEN(lengths); s++) {
        int64_t n = lengths[s];
        struct swiglu_case c = {n, random_f32(2 * n, 1, 2), random_f32(n, 2, 1)};
        double *y = zeros_f64(n), *grads = zeros_f64(2 * n);
        for (int64_t i = 0; i < n; i++)
            y[i] = value((double)c.x[i], (double)c.x[n + i]);
        central_differences(grads, c.x, 2 * n, loss, &c);
        const struct expected parts[] = {
            {"y", n, y, 2e-7}, {"d_gate", n, grads, 2e-7}, {"d_up", n, grads + n, 2e-7}};
        check_op(run, &c, parts, ARRAY_LEN(parts), true);
    }
}

static void every_element_is_within_the_tolerance_even_far_out(void **state)
{
    (void)state;
    enum { N = 60000 };
    float *x = zeros_f32(2 * N), *y = zeros_f32(N);
    double *expected = zeros_f64(N);
    for (int64_t i = 0; i < N; i++) {
        x[i] = (float)(i - N / 2) * 0.0028f; /* -84 ... 84 */
        x[N + i] = 1.25f;
        expected[i] = value((double)x[i], 1.25);
    }
    struct backend *be = open_cpu(2, MATMUL_FAST);
    op_swiglu_fwd(be, tensor_f32("y", y, 1, N), tensor_f32("gate", x, 1, N),
                  tensor_f32("up", x + N, 1, N));
    sync_ok(be);
    backend_close(be);
    assert_true(max_relative_error(y, expected, N) <= 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradient_match_central_differences),
        cmocka_unit_test(every_element_is_within_the_tolerance_even_far_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
