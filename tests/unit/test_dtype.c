/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/dtype.h"

#include <math.h>
#include <stdlib.h>

#include "common/cpu.h"
#include "common/file.h"
#include "common/half.h"
#include "common/rng.h"
#include "tests/support/check.h"

static void assert_same(float found, float expected, const char *what, int64_t i)
{
    bool same = isnan(expected) ? isnan(found) : f32_to_bits(found) == f32_to_bits(expected);
    if (!same)
        fail_msg("%s, element %lld: %a, expected %a", what, (long long)i, (double)found,
                 (double)expected);
}

/* One byte off alignment, in a block of exactly the right size. */
static void check_golden(enum dtype t, enum cpu_tier tier)
{
    char path[96];
    struct arena a = {0};
    str file;
    ft_error err;
    size_t bytes;
    snprintf(path, sizeof path, "tests/golden/dequant/%s.bin", dtype_name(t));
    ASSERT_OK(file_read_all(&file, &a, path, 1 << 20, &err));
    int64_t n = (int64_t)load_u64le(file.ptr);
    assert_true(dtype_bytes(t, n, &bytes));
    assert_int_equal(file.len, 8 + bytes + (size_t)n * 4);
    uint8_t *stored = malloc(bytes + 1);
    float *found = malloc((size_t)n * sizeof *found);
    memcpy(stored + 1, file.ptr + 8, bytes);
    cpu_tier_limit(tier);
    dtype_decode(t, stored + 1, n, found);
    cpu_tier_limit(CPU_TIERS);
    for (int64_t i = 0; i < n; i++)
        assert_same(found[i], bits_to_f32(load_u32le(file.ptr + 8 + bytes + 4 * i)), path, i);
    free(stored);
    free(found);
    arena_destroy(&a);
}

static void every_type_decodes_as_the_gguf_package_on_every_tier(void **state)
{
    (void)state;
    for (int t = 0; t < DT_NF4; t++)
        for (int tier = 0; tier < CPU_TIERS; tier++)
            check_golden((enum dtype)t, (enum cpu_tier)tier);
}

static void every_half_decodes_exactly_on_every_tier(void **state)
{
    static uint8_t stored[65536 * 2];
    static float found[65536];
    (void)state;
    for (int i = 0; i < 65536; i++) {
        stored[2 * i] = (uint8_t)i;
        stored[2 * i + 1] = (uint8_t)(i >> 8);
    }
    for (int tier = 0; tier < CPU_TIERS; tier++) {
        cpu_tier_limit((enum cpu_tier)tier);
        dtype_decode(DT_F16, stored, 65536, found);
        for (int i = 0; i < 65536; i++)
            assert_same(found[i], f16_to_f32((uint16_t)i), "f16", i);
        dtype_decode(DT_BF16, stored, 65536, found);
        for (int i = 0; i < 65536; i++)
            assert_same(found[i], bf16_to_f32((uint16_t)i), "bf16", i);
    }
    cpu_tier_limit(CPU_TIERS);
}

static void nothing_is_written_beyond_the_elements(void **state)
{
    uint8_t stored[34] = {0};
    float dst[33] = {[32] = 7};
    (void)state;
    dtype_decode(DT_Q8_0, stored, 32, dst);
    assert_true(dst[32] == 7);
    dst[0] = 7;
    dtype_decode(DT_F16, stored, 0, dst);
    assert_true(dst[0] == 7);
}

static void names_and_sizes_agree(void **state)
{
    enum dtype t;
    size_t bytes;
    (void)state;
    for (int i = 0; i < DTYPES; i++) {
        assert_true(dtype_from_name(&t, str_from(dtype_name((enum dtype)i))));
        assert_int_equal(t, i);
        assert_true(dtype_bytes(t, 3 * dtype_block(t), &bytes));
        assert_int_equal(bytes, 3 * dtype_block_bytes(t));
        assert_true(dtype_block(t) == 1 || !dtype_bytes(t, dtype_block(t) - 1, &bytes));
        assert_false(dtype_bytes(t, -dtype_block(t), &bytes));
    }
    assert_false(dtype_from_name(&t, STR("Q4_0")));
    assert_false(dtype_from_name(&t, STR("")));
    assert_false(dtype_bytes(DT_F32, INT64_MAX, &bytes));
}

/* Random blocks, of which every fourth has scales, or values, from the top of their range. */
static void finite_is_what_decodes_to_finite_values(void **state)
{
    uint8_t stored[256];
    float decoded[256];
    (void)state;
    for (int t = 0; t < DT_NF4; t++) {
        size_t bytes = dtype_block_bytes((enum dtype)t);
        int64_t n = dtype_block((enum dtype)t);
        int finite = 0;
        for (uint64_t k = 0; k < 4000; k++) {
            for (size_t i = 0; i < bytes; i++)
                stored[i] = (uint8_t)rng_u64(7, k, i);
            if (k % 4 == 0)
                stored[rng_u64(8, k, 0) % bytes] |= 0x7C;
            bool expected = true;
            dtype_decode((enum dtype)t, stored, n, decoded);
            for (int64_t i = 0; i < n; i++)
                expected &= isfinite(decoded[i]) != 0;
            if (dtype_all_finite((enum dtype)t, stored, n) != expected)
                fail_msg("%s, block %llu", dtype_name((enum dtype)t), (unsigned long long)k);
            finite += expected;
        }
        assert_in_range(finite, 3000, 3999); /* both cases occur */
    }
    assert_true(dtype_all_finite(DT_F16, "\0\x7B\0\x7C", 1));
    assert_false(dtype_all_finite(DT_F16, "\0\x7B\0\x7C", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_decodes_as_the_gguf_package_on_every_tier),
        cmocka_unit_test(every_half_decodes_exactly_on_every_tier),
        cmocka_unit_test(nothing_is_written_beyond_the_elements),
        cmocka_unit_test(finite_is_what_decodes_to_finite_values),
        cmocka_unit_test(names_and_sizes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
