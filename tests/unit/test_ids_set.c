/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ids_set.h"

#include "common/rng.h"
#include "tests/support/check.h"

static hash128 hash_at(uint64_t i)
{
    return (hash128){rng_u64(1, 0, i), rng_u64(1, 1, i)};
}

static void every_hash_is_new_once(void **state)
{
    enum { N = 20000 };
    struct ids_set s;
    ft_error err;
    (void)state;
    ASSERT_OK(ids_set_create(&s, N, &err));
    for (uint64_t i = 0; i < N; i++) {
        assert_false(ids_set_has(&s, hash_at(i)));
        assert_true(ids_set_add(&s, hash_at(i)));
        assert_false(ids_set_add(&s, hash_at(i / 2)));
    }
    for (uint64_t i = 0; i < N; i++)
        assert_true(ids_set_has(&s, hash_at(i)) && !ids_set_has(&s, hash_at(i + N)));
    ids_set_free(&s);
}

/* Hashes that all want the last slot wrap around; zero, which marks a free slot, is a hash, too. */
static void the_ends_of_the_table_are_no_exception(void **state)
{
    struct ids_set s;
    ft_error err;
    (void)state;
    ASSERT_OK(ids_set_create(&s, 10, &err));
    for (uint64_t i = 0; i < 9; i++)
        assert_true(ids_set_add(&s, (hash128){i, UINT64_MAX}));
    assert_true(ids_set_add(&s, (hash128){0, 0}));
    assert_false(ids_set_add(&s, (hash128){0, 0}));
    assert_true(ids_set_has(&s, (hash128){8, UINT64_MAX}) && ids_set_has(&s, (hash128){0, 0}));
    assert_false(ids_set_has(&s, (hash128){9, UINT64_MAX}));
    ids_set_free(&s);
    ASSERT_OK(ids_set_create(&s, 0, &err));
    assert_false(ids_set_has(&s, (hash128){1, 1}));
    ids_set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hash_is_new_once),
        cmocka_unit_test(the_ends_of_the_table_are_no_exception),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
