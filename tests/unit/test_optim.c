/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/optim.h"

#include <math.h>

#include "tests/support/check.h"

enum { N = 16 };

static float values[N], gradients[N];
static const struct param_tensor tensors[] = {
    {.offset = 0, .rows = 2, .cols = 3},
    {.offset = 8, .rows = 1, .cols = 4, .is_b = true},
};
static struct model_params params = {values, gradients, N, ARRAY_LEN(tensors), tensors};

static struct optim open_optim(struct backend **be)
{
    const struct backend_options o = {1, MATMUL_REFERENCE};
    struct optim optim;
    ft_error err;
    memset(values, 0, sizeof values);
    memset(gradients, 0, sizeof gradients);
    ASSERT_OK(backend_open(be, "cpu", &o, &err));
    ASSERT_OK(optim_open(&optim, *be, &params, &err));
    return optim;
}

static void the_norm_is_over_all_tensors(void **state)
{
    struct backend *be;
    struct optim o = open_optim(&be);
    double norm;
    ft_error err;
    (void)state;
    gradients[0] = 3;
    gradients[11] = -4;
    ASSERT_OK(optim_gradient_norm(&norm, &o, &err));
    assert_true(norm == 5);
    gradients[2] = INFINITY;
    ASSERT_OK(optim_gradient_norm(&norm, &o, &err));
    assert_true(isnan(norm));
    optim_zero_gradients(&o);
    ASSERT_OK(optim_gradient_norm(&norm, &o, &err));
    assert_true(norm == 0);
    optim_close(&o);
    backend_close(be);
}

/* The first step of AdamW moves by lr against the sign of the gradient, whatever its size. */
static void a_step_follows_adamw_and_counts(void **state)
{
    const struct train_options options = {
        .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 0}};
    struct backend *be;
    struct optim o = open_optim(&be);
    ft_error err;
    (void)state;
    gradients[0] = 2;
    gradients[9] = -0.5f;
    ASSERT_OK(optim_step(&o, &options, 0.01, 3, &err));
    assert_true(fabs(values[0] + 0.01) < 1e-7 && fabs(values[9] - 0.01) < 1e-7);
    assert_true(values[1] == 0 && o.updates == 1);
    assert_true(fabs(o.m[0] - 0.2) < 1e-7 && fabs(o.v[0] - 0.004) < 1e-8);
    optim_close(&o);
    backend_close(be);
}

static void clipping_scales_to_the_largest_norm_only_when_above(void **state)
{
    const struct train_options options = {
        .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 1}};
    struct backend *be;
    struct optim o = open_optim(&be);
    ft_error err;
    (void)state;
    gradients[0] = 4;
    ASSERT_OK(optim_step(&o, &options, 0, 4, &err));
    assert_true(fabs(gradients[0] - 4 / (4 + 1e-6)) < 1e-6);
    gradients[0] = 0.5f;
    ASSERT_OK(optim_step(&o, &options, 0, 0.5, &err));
    assert_true(gradients[0] == 0.5f && o.updates == 2);
    optim_close(&o);
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_norm_is_over_all_tensors),
        cmocka_unit_test(a_step_follows_adamw_and_counts),
        cmocka_unit_test(clipping_scales_to_the_largest_norm_only_when_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
