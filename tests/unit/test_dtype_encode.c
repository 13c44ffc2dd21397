/* SPDX-License-Identifier: Apache-2.0
 * Narrowing of whole arrays: one rounding each, in place or not, and the first value that does not
 * fit is reported. */
#include <math.h>

#include "common/half.h"
#include "formats/dtype.h"
#include "tests/support/check.h"

static void values_are_rounded_as_single_values_are(void **state)
{
    (void)state;
    const float x[] = {0, -0.0f, 1, 1.0f / 3, -65504, 0x1p-25f, 3.14159274f, 1e-8f};
    uint16_t half[8], brain[8];
    assert_int_equal(dtype_encode(DT_F16, x, 8, half), 8);
    assert_int_equal(dtype_encode(DT_BF16, x, 8, brain), 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(half[i], f32_to_f16(x[i]));
        assert_int_equal(brain[i], f32_to_bf16(x[i]));
    }
}

static void encoding_in_place_gives_the_same_bytes(void **state)
{
    (void)state;
    const float x[] = {1.5f, -2.25f, 1.0f / 3, 1000};
    float in_place[4];
    uint16_t apart[4];
    for (enum dtype t = DT_F16; t <= DT_BF16; t++) {
        memcpy(in_place, x, sizeof x);
        dtype_encode(t, x, 4, apart);
        dtype_encode(t, in_place, 4, in_place);
        assert_memory_equal(in_place, apart, sizeof apart);
    }
    memcpy(in_place, x, sizeof x);
    assert_int_equal(dtype_encode(DT_F32, in_place, 4, in_place), 4);
    assert_memory_equal(in_place, x, sizeof x);
}

static void the_first_value_that_is_not_finite_in_the_type_is_reported(void **state)
{
    (void)state;
    const float x[] = {1, 65519, 65520, NAN, 3.4e38f};
    uint8_t out[sizeof x];
    assert_int_equal(dtype_encode(DT_F16, x, 5, out), 2);
    assert_int_equal(dtype_encode(DT_F16, x, 2, out), 2);
    assert_int_equal(dtype_encode(DT_BF16, x, 5, out), 3);
    assert_int_equal(dtype_encode(DT_BF16, x + 4, 1, out), 0); /* rounds up to infinity */
    assert_int_equal(dtype_encode(DT_F32, x, 5, out), 3);
    assert_int_equal(dtype_encode(DT_F32, x + 4, 1, out), 1);
    assert_int_equal(dtype_encode(DT_F32, x, 0, out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_rounded_as_single_values_are),
        cmocka_unit_test(encoding_in_place_gives_the_same_bytes),
        cmocka_unit_test(the_first_value_that_is_not_finite_in_the_type_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
