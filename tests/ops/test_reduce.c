/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tests/support/numeric.h"

struct vector {
    float *x;
    int64_t n;
};

static void run(struct backend *be, const void *ctx, float *out)
{
    const struct vector *c = ctx;
    double sum;
    op_sum_squares(be, &sum, tensor_f32("x", c->x, 1, c->n));
    out[0] = (float)sum;
}

static void sums_match_double_for_any_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 17, 4096, 65536, 65537, 500001};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct vector c = {random_f32(lengths[i], 1, 1), lengths[i]};
        double expected = 0;
        for (int64_t j = 0; j < c.n; j++)
            expected += (double)c.x[j] * (double)c.x[j];
        const struct expected part = {"sum", 1, &expected, 1e-6};
        check_op(run, &c, &part, 1, true);
    }
}

static void every_nonfinite_element_is_counted(void **state)
{
    (void)state;
    int64_t n = 300000;
    float *x = random_f32(n, 1, 1);
    uint64_t count;
    struct backend *be = open_cpu(3, MATMUL_FAST);
    op_count_nonfinite(be, &count, tensor_f32("x", x, 1, n));
    sync_ok(be);
    assert_int_equal(count, 0);
    x[0] = NAN;
    x[65536] = INFINITY;
    x[n - 1] = -INFINITY;
    x[5] = 3.4e38f;
    op_count_nonfinite(be, &count, tensor_f32("x", x, 1, n));
    sync_ok(be);
    assert_int_equal(count, 3);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_match_double_for_any_length),
        cmocka_unit_test(every_nonfinite_element_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
