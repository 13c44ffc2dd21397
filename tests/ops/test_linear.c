/* SPDX-License-Identifier: Apache-2.0 */
#include "common/mem.h"
#include "tests/support/numeric.h"

struct linear_case {
    int64_t rows, in, out;
    struct weight w;
    float *values, *bias, *x, *d_y, *start;
};

static void reference(double *y, const struct linear_case *c, const double *x)
{
    for (int64_t t = 0; t < c->rows; t++)
        for (int64_t o = 0; o < c->out; o++) {
            double sum = (double)c->bias[o];
            for (int64_t i = 0; i < c->in; i++)
                sum += x[t * c->in + i] * (double)c->values[o * c->in + i];
            y[t * c->out + o] = sum;
        }
}

static double loss(const void *ctx, const double *x)
{
    const struct linear_case *c = ctx;
    double *y = mem_alloc((size_t)(c->rows * c->out), sizeof *y), sum = 0;
    reference(y, c, x);
    for (int64_t i = 0; i < c->rows * c->out; i++)
        sum += y[i] * (double)c->d_y[i];
    mem_free(y);
    return sum;
}

/* y with bias, y without, d_x, start + d_x */
static void run(struct backend *be, const void *ctx, float *out)
{
    const struct linear_case *c = ctx;
    int64_t n_y = c->rows * c->out, n_x = c->rows * c->in;
    struct tensor x = tensor_f32("x", c->x, c->rows, c->in);
    struct tensor d_y = tensor_f32("d_y", c->d_y, c->rows, c->out);
    op_linear_fwd(be, tensor_f32("y", out, c->rows, c->out), x, &c->w,
                  tensor_f32("bias", c->bias, 1, c->out));
    op_linear_bwd(be, tensor_f32("d_x", out + n_y, c->rows, c->in), d_y, &c->w, false);
    struct tensor sum = tensor_f32("d_x", out + n_y + n_x, c->rows, c->in);
    memcpy(sum.data, c->start, (size_t)n_x * sizeof(float));
    op_linear_bwd(be, sum, d_y, &c->w, true);
}

static void check_layer(enum dtype type, int64_t rows, int64_t in, int64_t out)
{
    int64_t n_x = rows * in, n_y = rows * out;
    struct linear_case c = {.rows = rows,
                            .in = in,
                            .out = out,
                            .w = random_weight(type, out, in, 1),
                            .bias = random_f32(out, 2, 1),
                            .x = random_f32(n_x, 3, 1),
                            .d_y = random_f32(n_y, 4, 1),
                            .start = random_f32(n_x, 5, 1)};
    c.values = weight_values(&c.w);
    double *x = zeros_f64(n_x), *y = zeros_f64(n_y), *d_x = zeros_f64(n_x), *sum = zeros_f64(n_x);
    for (int64_t i = 0; i < n_x; i++)
        x[i] = (double)c.x[i];
    reference(y, &c, x);
    central_differences(d_x, c.x, n_x, loss, &c);
    for (int64_t i = 0; i < n_x; i++)
        sum[i] = d_x[i] + (double)c.start[i];
    const struct expected parts[] = {
        {"y", n_y, y, 1e-6}, {"d_x", n_x, d_x, 1e-6}, {"d_x added", n_x, sum, 1e-6}};
    check_op(run, &c, parts, ARRAY_LEN(parts), false);
}

static void value_and_gradient_match_central_differences_for_every_stored_type(void **state)
{
    (void)state;
    for (int type = 0; type < DTYPES; type++)
        check_layer((enum dtype)type, 3, FT_MAX(dtype_block((enum dtype)type), (int64_t)5), 6);
}

static void awkward_shapes(void **state)
{
    (void)state;
    check_layer(DT_F32, 1, 1, 1);
    check_layer(DT_NF4, 1, 65, 3);
    check_layer(DT_NF4, 6, 33, 7);
    check_layer(DT_BF16, 2, 3, 100);
}

static void a_weight_of_another_shape_is_refused(void **state)
{
    (void)state;
    float x[6] = {0}, y[8] = {0};
    struct weight w = random_weight(DT_F32, 4, 5, 1);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_linear_fwd(be, tensor_f32("y", y, 2, 4), tensor_f32("x", x, 2, 3), &w, tensor_none());
    sync_fails(be, "linear_fwd: f32 is [4, 5], expected [4, 3]");
    op_linear_bwd(be, tensor_none(), tensor_f32("d_y", y, 2, 4), &w, false);
    sync_fails(be, "linear_bwd: tensor is missing");
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradient_match_central_differences_for_every_stored_type),
        cmocka_unit_test(awkward_shapes),
        cmocka_unit_test(a_weight_of_another_shape_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
