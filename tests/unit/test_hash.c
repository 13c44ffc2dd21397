/* SPDX-License-Identifier: Apache-2.0 */
#include "common/hash.h"

#include "tests/support/check.h"

/* Published XXH3 values: the formats depend on them. */
static void digests_are_those_of_xxh3(void **state)
{
    char hex[HASH_HEX_LEN + 1];
    (void)state;
    assert_true(hash64("", 0) == UINT64_C(0x2d06800538d394c2));
    hash128_hex(hex, hash128_of("", 0));
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void streaming_equals_one_call_and_hex_round_trips(void **state)
{
    static uint8_t data[10000];
    struct hasher *h;
    ft_error err;
    char hex[HASH_HEX_LEN + 1];
    hash128 parsed;
    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    ASSERT_OK(hasher_create(&h, &err));
    for (size_t i = 0, n = 1; i < sizeof data; i += n, n = n * 2 + 1)
        hasher_update(h, data + i, FT_MIN(n, sizeof data - i));
    assert_true(hash128_eq(hasher_digest(h), hash128_of(data, sizeof data)));
    hash128_hex(hex, hasher_digest(h));
    assert_true(hash128_parse(&parsed, str_from(hex)));
    assert_true(hash128_eq(parsed, hasher_digest(h)));
    assert_false(hash128_parse(&parsed, STR("99AA06D3014798D86001C324468D497F")));
    assert_false(hash128_parse(&parsed, STR("99")));
    hasher_destroy(h);
}

static hash128 two_fields(str a, str b)
{
    struct hasher *h;
    ft_error err;
    ASSERT_OK(hasher_create(&h, &err));
    hasher_field(h, a);
    hasher_field(h, b);
    hash128 d = hasher_digest(h);
    hasher_destroy(h);
    return d;
}

static void fields_do_not_run_together(void **state)
{
    (void)state;
    assert_false(hash128_eq(two_fields(STR("ab"), STR("c")), two_fields(STR("a"), STR("bc"))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_xxh3),
        cmocka_unit_test(streaming_equals_one_call_and_hex_round_trips),
        cmocka_unit_test(fields_do_not_run_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
