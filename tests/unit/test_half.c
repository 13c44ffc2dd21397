/* SPDX-License-Identifier: Apache-2.0 */
#include "common/half.h"

#include <math.h>

#include "tests/support/check.h"

static void every_half_survives_the_round_trip(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = f16_to_f32((uint16_t)h), b = bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(f16_to_f32(f32_to_f16(f))));
        else
            assert_int_equal(f32_to_f16(f), h);
        if (isnan(b))
            assert_true(isnan(bf16_to_f32(f32_to_bf16(b))));
        else
            assert_int_equal(f32_to_bf16(b), h);
    }
}

/* Between two neighbours: the nearer one wins, the middle goes to the even one. */
static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        float lo = f16_to_f32((uint16_t)h), hi = f16_to_f32((uint16_t)(h + 1));
        float mid = (float)(((double)lo + (double)hi) / 2);
        assert_int_equal(f32_to_f16(mid), h + (h & 1));
        assert_int_equal(f32_to_f16(nextafterf(mid, 0)), h);
        assert_int_equal(f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
        assert_int_equal(f32_to_f16(-mid), 0x8000 | (h + (h & 1)));
    }
    assert_int_equal(f32_to_f16(65519.99f), 0x7BFF);
    assert_int_equal(f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(f32_to_f16(0x1p-25f), 0);
    assert_int_equal(f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(f32_to_bf16(bits_to_f32(0x3F808000)), 0x3F80);
    assert_int_equal(f32_to_bf16(bits_to_f32(0x3F818000)), 0x3F82);
    assert_int_equal(f32_to_bf16(bits_to_f32(0x7F7FFFFF)), 0x7F80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives_the_round_trip),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
