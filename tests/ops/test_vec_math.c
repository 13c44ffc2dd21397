/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cpu/vec_math.h"

#include "tests/support/numeric.h"

static double ulp_of(double y)
{
    int exponent;
    frexp(y, &exponent);
    return ldexp(1, FT_MAX(exponent - 24, -149));
}

/* Every 61st float of the range, both signs: 37 million of them take too long for every run. */
static void exp_is_within_one_ulp(void **state)
{
    (void)state;
    double most = 0;
    for (uint32_t bits = 0; bits <= f32_to_bits(104.0f); bits += 61)
        for (int sign = -1; sign <= 1; sign += 2) {
            float x = (float)sign * bits_to_f32(bits);
            double exact = exp((double)x);
            if (exact >= 0x1p128)
                continue;
            most = fmax(most, fabs((double)exp_f32(x) - exact) / ulp_of(exact));
        }
    print_message("largest error of exp_f32: %.4f ulp\n", most);
    assert_true(most <= 1.0);
}

static void exp_saturates_and_keeps_nan(void **state)
{
    (void)state;
    assert_true(exp_f32(-INFINITY) == 0);
    assert_true(exp_f32(-1e30f) == 0);
    assert_true(exp_f32(-104.0f) == 0);
    assert_true(exp_f32(0) == 1);
    assert_true(isinf(exp_f32(89.0f)));
    assert_true(isinf(exp_f32(INFINITY)));
    assert_true(isnan(exp_f32(NAN)));
}

static void sums_are_accurate_for_any_length(void **state)
{
    (void)state;
    float *x = random_f32(10000, 1, 1), *y = random_f32(10000, 2, 1);
    static const int64_t lengths[] = {1, 15, 16, 17, 4095, 4096, 4097, 10000};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        double squares = 0, sum = 0, dot3 = 0;
        for (int64_t j = 0; j < lengths[i]; j++) {
            squares += (double)x[j] * (double)x[j];
            sum += fabs((double)x[j]);
            dot3 += (double)x[j] * (double)y[j] * (double)y[j];
        }
        assert_true(fabs(vec_dot(x, x, lengths[i]) - squares) <= 2e-7 * squares);
        assert_true(fabs(vec_dot3(x, y, y, lengths[i]) - dot3) <= 1e-6 * squares);
        double got = 0;
        float *magnitude = zeros_f32(lengths[i]);
        for (int64_t j = 0; j < lengths[i]; j++)
            magnitude[j] = fabsf(x[j]);
        got = vec_sum(magnitude, lengths[i]);
        assert_true(fabs(got - sum) <= 2e-7 * sum);
    }
}

static void maximum_is_found_everywhere(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 70; n++)
        for (int64_t at = 0; at < n; at++) {
            float buffer[70];
            for (int64_t i = 0; i < n; i++)
                buffer[i] = -2;
            buffer[at] = -1;
            assert_true(vec_max(buffer, n) == -1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp),
        cmocka_unit_test(exp_saturates_and_keeps_nan),
        cmocka_unit_test(sums_are_accurate_for_any_length),
        cmocka_unit_test(maximum_is_found_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
