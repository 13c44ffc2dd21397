/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/support/numeric.h"

enum { ROWS = 9, HEADS = 3, HALF = 11, COLS = HEADS * 2 * HALF };

struct rope_case {
    float *x, *d_y, *inv_freq;
    int32_t positions[ROWS];
};

static struct rope_case make_case(void)
{
    struct rope_case c = {random_f32(ROWS * COLS, 1, 1),
                          random_f32(ROWS * COLS, 2, 1),
                          zeros_f32(HALF),
                          {0, 1, 2, 3, 0, 1, 700, 8191, 131071}};
    for (int i = 0; i < HALF; i++)
        c.inv_freq[i] = (float)pow(10000, -(double)i / HALF);
    return c;
}

static void reference(double *y, const struct rope_case *c, const double *x)
{
    for (int64_t t = 0; t < ROWS; t++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < HALF; i++) {
                int64_t a = t * COLS + h * 2 * HALF + i, b = a + HALF;
                double angle = (double)((float)c->positions[t] * c->inv_freq[i]);
                y[a] = x[a] * cos(angle) - x[b] * sin(angle);
                y[b] = x[b] * cos(angle) + x[a] * sin(angle);
            }
}

static double loss(const void *ctx, const double *x)
{
    const struct rope_case *c = ctx;
    double y[ROWS * COLS], sum = 0;
    reference(y, c, x);
    for (int64_t i = 0; i < ROWS * COLS; i++)
        sum += y[i] * (double)c->d_y[i];
    return sum;
}

static void run(struct backend *be, const void *ctx, float *out)
{
    const struct rope_case *c = ctx;
    float table_data[ROWS * 2 * HALF];
    struct tensor table = tensor_f32("table", table_data, ROWS, 2 * HALF);
    struct tensor y = tensor_f32("y", out, ROWS, COLS);
    struct tensor d_x = tensor_f32("d_x", out + ROWS * COLS, ROWS, COLS);
    op_rope_table(be, table, tensor_f32("inv_freq", c->inv_freq, 1, HALF), c->positions);
    memcpy(y.data, c->x, sizeof(float[ROWS * COLS]));
    op_rope(be, y, table, false);
    memcpy(d_x.data, c->d_y, sizeof(float[ROWS * COLS]));
    op_rope(be, d_x, table, true);
}

static void value_and_gradient_match_central_differences(void **state)
{
    (void)state;
    struct rope_case c = make_case();
    double *x = zeros_f64(ROWS * COLS), *y = zeros_f64(ROWS * COLS), *d_x = zeros_f64(ROWS * COLS);
    for (int64_t i = 0; i < ROWS * COLS; i++)
        x[i] = (double)c.x[i];
    reference(y, &c, x);
    central_differences(d_x, c.x, ROWS * COLS, loss, &c);
    const struct expected parts[] = {{"y", ROWS * COLS, y, 1e-7}, {"d_x", ROWS * COLS, d_x, 1e-7}};
    check_op(run, &c, parts, ARRAY_LEN(parts), true);
    float *out = zeros_f32(2 * ROWS * COLS);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    run(be, &c, out);
    sync_ok(be);
    backend_close(be);
    for (int64_t i = 0; i < ROWS * COLS; i++)
        assert_true(fabs((double)out[i] - y[i]) <= 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradient_match_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
