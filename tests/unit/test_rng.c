/* SPDX-License-Identifier: Apache-2.0 */
#include "common/rng.h"

#include "tests/support/check.h"

/* Known-answer vectors of the Philox paper's reference distribution (philox4x32, 10 rounds). */
static void philox_matches_the_published_vectors(void **state)
{
    (void)state;
    struct rng_block zero = rng_block_at(0, 0, 0);
    static const uint32_t zero_expected[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    struct rng_block ones = rng_block_at(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    static const uint32_t ones_expected[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    /* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 */
    struct rng_block pi = rng_block_at(UINT64_C(0x299f31d0a4093822), UINT64_C(0x0370734413198a2e),
                                       UINT64_C(0x85a308d3243f6a88));
    static const uint32_t pi_expected[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(zero.v, zero_expected, sizeof zero_expected);
    assert_memory_equal(ones.v, ones_expected, sizeof ones_expected);
    assert_memory_equal(pi.v, pi_expected, sizeof pi_expected);
}

static void permute_is_a_bijection_that_depends_on_key_and_stream(void **state)
{
    static uint8_t seen[5000];
    (void)state;
    for (uint64_t n = 1; n < 5000; n = n * 3 + 1) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t j = rng_permute(7, n, n, i);
            assert_true(j < n);
            assert_int_equal(seen[j]++, 0);
            assert_int_equal(rng_permute_inverse(7, n, n, j), i);
        }
    }
    int same_key = 0, same_stream = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same_key += rng_permute(1, 0, 1000, i) == rng_permute(2, 0, 1000, i);
        same_stream += rng_permute(1, 0, 1000, i) == rng_permute(1, 1, 1000, i);
    }
    assert_true(same_key < 20 && same_stream < 20);
}

static void unit_values_fill_the_interval(void **state)
{
    double sum = 0, low = 1, high = 0;
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = rng_unit(3, 4, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        low = u < low ? u : low;
        high = u > high ? u : high;
    }
    assert_true(sum > 49500 && sum < 50500 && low < 1e-3 && high > 0.999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_matches_the_published_vectors),
        cmocka_unit_test(permute_is_a_bijection_that_depends_on_key_and_stream),
        cmocka_unit_test(unit_values_fill_the_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
