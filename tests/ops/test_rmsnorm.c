/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "common/mem.h"
#include "tests/support/numeric.h"

static const double eps = 1e-5;

struct rmsnorm_case {
    int64_t rows, cols;
    float *x, *gain, *d_y, *start; /* start: what d_x holds before */
};

static void reference(double *y, const struct rmsnorm_case *c, const double *x)
{
    for (int64_t t = 0; t < c->rows; t++, x += c->cols) {
        double squares = 0;
        for (int64_t i = 0; i < c->cols; i++)
            squares += x[i] * x[i];
        double r = 1 / sqrt(squares / (double)c->cols + eps);
        for (int64_t i = 0; i < c->cols; i++)
            *y++ = x[i] * r * (double)c->gain[i];
    }
}

static double loss(const void *ctx, const double *x)
{
    const struct rmsnorm_case *c = ctx;
    double *y = mem_alloc((size_t)(c->rows * c->cols), sizeof *y), sum = 0;
    reference(y, c, x);
    for (int64_t i = 0; i < c->rows * c->cols; i++)
        sum += y[i] * (double)c->d_y[i];
    mem_free(y);
    return sum;
}

static void run(struct backend *be, const void *ctx, float *out)
{
    const struct rmsnorm_case *c = ctx;
    int64_t n = c->rows * c->cols;
    struct tensor x = tensor_f32("x", c->x, c->rows, c->cols);
    struct tensor gain = tensor_f32("gain", c->gain, 1, c->cols);
    struct tensor y = tensor_f32("y", out, c->rows, c->cols);
    struct tensor d_x = tensor_f32("d_x", out + n, c->rows, c->cols);
    op_rmsnorm_fwd(be, y, x, gain, eps);
    memcpy(d_x.data, c->start, (size_t)n * sizeof(float));
    op_rmsnorm_bwd(be, d_x, tensor_f32("d_y", c->d_y, c->rows, c->cols), x, gain, eps);
}

static void check_shape(int64_t rows, int64_t cols)
{
    int64_t n = rows * cols;
    struct rmsnorm_case c = {
        .rows = rows,
        .cols = cols,
        .x = random_f32(n, 1, 0.7),
        .gain = random_f32(cols, 2, 1),
        .d_y = random_f32(n, 3, 1),
        .start = random_f32(n, 4, 1),
    };
    double *x = zeros_f64(n), *y = zeros_f64(n), *d_x = zeros_f64(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)c.x[i];
    reference(y, &c, x);
    central_differences(d_x, c.x, n, loss, &c);
    for (int64_t i = 0; i < n; i++)
        d_x[i] += (double)c.start[i];
    const struct expected parts[] = {{"y", n, y, 1e-7}, {"d_x", n, d_x, 2e-7}};
    check_op(run, &c, parts, ARRAY_LEN(parts), true);
}

static void value_and_gradient_match_central_differences(void **state)
{
    (void)state;
    check_shape(1, 1);
    check_shape(1, 64);
    check_shape(3, 17);
    check_shape(7, 65);
    check_shape(5, 200);
}

static void every_element_is_within_the_tolerance_of_elementwise_operators(void **state)
{
    (void)state;
    enum { ROWS = 37, COLS = 576 };
    struct rmsnorm_case c = {.rows = ROWS,
                             .cols = COLS,
                             .x = random_f32(ROWS * COLS, 5, 3),
                             .gain = random_f32(COLS, 6, 1)};
    double *x = zeros_f64(ROWS * COLS), *y = zeros_f64(ROWS * COLS);
    for (int64_t i = 0; i < ROWS * COLS; i++)
        x[i] = (double)c.x[i];
    reference(y, &c, x);
    float *out = zeros_f32(ROWS * COLS);
    struct backend *be = open_cpu(2, MATMUL_FAST);
    op_rmsnorm_fwd(be, tensor_f32("y", out, ROWS, COLS), tensor_f32("x", c.x, ROWS, COLS),
                   tensor_f32("gain", c.gain, 1, COLS), eps);
    sync_ok(be);
    backend_close(be);
    assert_true(max_relative_error(out, y, ROWS * COLS) <= 1e-6);
}

static void a_wrong_shape_is_latched_with_the_names(void **state)
{
    (void)state;
    float data[12] = {0};
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_rmsnorm_fwd(be, tensor_f32("y", data, 3, 4), tensor_f32("x", data, 4, 3),
                   tensor_f32("gain", data, 1, 3), eps);
    op_zero(be, tensor_f32("x", NULL, 1, 1)); /* ignored: the first failure stays */
    sync_fails(be, "rmsnorm_fwd: x is [4, 3], expected [3, 4]");
    sync_ok(be);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradient_match_central_differences),
        cmocka_unit_test(every_element_is_within_the_tolerance_of_elementwise_operators),
        cmocka_unit_test(a_wrong_shape_is_latched_with_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
