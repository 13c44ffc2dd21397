/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "common/mem.h"
#include "tests/support/numeric.h"

struct lora_case {
    int64_t rows, in, out, rank;
    double dropout;
    float *params; /* x, then A, then B: what the loss is differentiated by */
    float *d_y, *start;
};

enum { KEY = 77, STREAM = 5 };
static const double scaling = 0.75;

static bool kept(const struct lora_case *c, int64_t element)
{
    uint32_t word = lora_dropout_word(KEY, STREAM, (uint64_t)element);
    return word >= (uint32_t)(c->dropout * 0x1p32);
}

/* y without the base: scaling * B A drop(x) */
static void reference(double *y, const struct lora_case *c, const double *x)
{
    const double *a = x + c->rows * c->in, *b = a + c->rank * c->in;
    for (int64_t t = 0; t < c->rows; t++)
        for (int64_t o = 0; o < c->out; o++) {
            double sum = 0;
            for (int64_t r = 0; r < c->rank; r++)
                for (int64_t i = 0; i < c->in; i++)
                    if (kept(c, t * c->in + i))
                        sum += b[o * c->rank + r] * a[r * c->in + i] * x[t * c->in + i];
            y[t * c->out + o] = scaling * sum / (1 - c->dropout);
        }
}

static double loss(const void *ctx, const double *x)
{
    const struct lora_case *c = ctx;
    double *y = mem_alloc((size_t)(c->rows * c->out), sizeof *y), sum = 0;
    reference(y, c, x);
    for (int64_t i = 0; i < c->rows * c->out; i++)
        sum += y[i] * (double)c->d_y[i];
    mem_free(y);
    return sum;
}

/* start + y; start + d_x, d_a, d_b, one after another as the parameters are */
static void run(struct backend *be, const void *ctx, float *out)
{
    const struct lora_case *c = ctx;
    int64_t n_x = c->rows * c->in, n_a = c->rank * c->in, n_b = c->out * c->rank;
    float *a = c->params + n_x, *b = a + n_a, *grads = out + c->rows * c->out;
    float *hidden = mem_alloc_aligned((size_t)(2 * c->rows * c->rank) * sizeof *hidden);
    float *dropped = mem_alloc_aligned((size_t)n_x * sizeof *dropped);
    struct lora l = {.a = tensor_f32("a", a, c->rank, c->in),
                     .b = tensor_f32("b", b, c->out, c->rank),
                     .scaling = scaling,
                     .dropout = c->dropout,
                     .key = KEY,
                     .stream = STREAM};
    struct lora_scratch scratch = {tensor_f32("hidden", hidden, 2 * c->rows, c->rank),
                                   tensor_f32("dropped", dropped, c->rows, c->in)};
    struct tensor x = tensor_f32("x", c->params, c->rows, c->in);
    struct tensor d_y = tensor_f32("d_y", c->d_y, c->rows, c->out);
    memcpy(out, c->start, (size_t)(c->rows * c->out + n_x + n_a + n_b) * sizeof *out);
    op_lora_fwd(be, tensor_f32("y", out, c->rows, c->out), x, &l, scratch);
    op_lora_bwd(be, tensor_f32("d_x", grads, c->rows, c->in),
                tensor_f32("d_a", grads + n_x, c->rank, c->in),
                tensor_f32("d_b", grads + n_x + n_a, c->out, c->rank), d_y, x, &l, scratch);
    mem_free(hidden);
    mem_free(dropped);
}

static void check_lora(int64_t rows, int64_t in, int64_t out, int64_t rank, double dropout)
{
    int64_t n_x = rows * in, n_a = rank * in, n_b = out * rank, n_y = rows * out;
    int64_t n = n_x + n_a + n_b;
    struct lora_case c = {.rows = rows,
                          .in = in,
                          .out = out,
                          .rank = rank,
                          .dropout = dropout,
                          .params = random_f32(n, 1, 1),
                          .d_y = random_f32(n_y, 2, 1),
                          .start = random_f32(n_y + n, 3, 1)};
    double *x = zeros_f64(n), *expected = zeros_f64(n_y + n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)c.params[i];
    reference(expected, &c, x);
    central_differences(expected + n_y, c.params, n, loss, &c);
    for (int64_t i = 0; i < n_y + n; i++)
        expected[i] += (double)c.start[i];
    const struct expected parts[] = {{"y", n_y, expected, 1e-6},
                                     {"d_x", n_x, expected + n_y, 1e-6},
                                     {"d_a", n_a, expected + n_y + n_x, 1e-6},
                                     {"d_b", n_b, expected + n_y + n_x + n_a, 1e-6}};
    check_op(run, &c, parts, ARRAY_LEN(parts), false);
}

static void value_and_gradients_match_central_differences(void **state)
{
    (void)state;
    check_lora(1, 1, 1, 1, 0);
    check_lora(5, 33, 18, 4, 0);
    check_lora(3, 64, 7, 8, 0);
    check_lora(17, 10, 3, 2, 0);
}

static void dropout_drops_the_same_features_forward_and_backward(void **state)
{
    (void)state;
    check_lora(4, 33, 18, 4, 0.25);
    check_lora(7, 5, 3, 2, 0.5);
    check_lora(2, 64, 5, 8, 0.1);
}

static void dropout_keeps_the_stated_share(void **state)
{
    (void)state;
    const struct lora_case c = {.dropout = 0.1};
    int64_t dropped = 0, n = 200000;
    for (int64_t i = 0; i < n; i++)
        dropped += !kept(&c, i);
    assert_true(fabs((double)dropped / (double)n - 0.1) < 0.003);
}

static void the_gradient_of_the_input_may_be_left_out(void **state)
{
    (void)state;
    enum { ROWS = 3, IN = 8, OUT = 5, RANK = 2 };
    float *x = random_f32(ROWS * IN, 1, 1), *d_y = random_f32(ROWS * OUT, 2, 1);
    float *params = random_f32(RANK * (IN + OUT), 3, 1), grads[2][RANK * (IN + OUT)] = {{0}};
    float hidden[2 * ROWS * RANK], d_x[ROWS * IN] = {0};
    struct lora l = {.a = tensor_f32("a", params, RANK, IN),
                     .b = tensor_f32("b", params + RANK * IN, OUT, RANK),
                     .scaling = scaling};
    struct lora_scratch scratch = {.hidden = tensor_f32("hidden", hidden, 2 * ROWS, RANK)};
    struct backend *be = open_cpu(1, MATMUL_FAST);
    for (int i = 0; i < 2; i++)
        op_lora_bwd(be, i == 0 ? tensor_f32("d_x", d_x, ROWS, IN) : tensor_none(),
                    tensor_f32("d_a", grads[i], RANK, IN),
                    tensor_f32("d_b", grads[i] + RANK * IN, OUT, RANK),
                    tensor_f32("d_y", d_y, ROWS, OUT), tensor_f32("x", x, ROWS, IN), &l, scratch);
    sync_ok(be);
    backend_close(be);
    assert_memory_equal(grads[0], grads[1], sizeof grads[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradients_match_central_differences),
        cmocka_unit_test(dropout_drops_the_same_features_forward_and_backward),
        cmocka_unit_test(dropout_keeps_the_stated_share),
        cmocka_unit_test(the_gradient_of_the_input_may_be_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
