/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include "common/arena.h"
#include "tests/support/check.h"

static void appends_grow_and_pad(void **state)
{
    struct buf b = {0};
    ft_error err;
    (void)state;
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "%d,", i);
    assert_int_equal(b.len, 10 + 90 * 2 + 900 * 3 + 1000);
    buf_clear(&b);
    buf_u32le(&b, 0x01020304);
    buf_u64le(&b, 5);
    buf_pad(&b, 16);
    assert_int_equal(b.len, 16);
    assert_memory_equal(b.data, "\4\3\2\1\5\0\0\0\0\0\0\0\0\0\0\0", 16);
    ASSERT_OK(buf_status(&b, "test", &err));
    assert_null(buf_reserve(&b, SIZE_MAX - 4));
    buf_cstr(&b, "ignored after a failure");
    ASSERT_FAILS(buf_status(&b, "the test", &err), FT_EMEM, "for the test");
    assert_int_equal(b.len, 16);
    buf_free(&b);
}

static void arena_blocks_are_zeroed_aligned_and_apart(void **state)
{
    struct arena a = {0};
    uint8_t *last = NULL;
    (void)state;
    for (size_t n = 0; n < 300; n++) {
        uint8_t *p = arena_alloc(&a, n, 7);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n * 7; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, n * 7);
        assert_ptr_not_equal(p, last);
        last = p;
    }
    assert_null(arena_alloc(&a, SIZE_MAX, 2));
    assert_null(arena_alloc(&a, SIZE_MAX - 64, 1));
    assert_string_equal(arena_cstr(&a, STR("abc")), "abc");
    arena_destroy(&a);
    arena_destroy(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_grow_and_pad),
        cmocka_unit_test(arena_blocks_are_zeroed_aligned_and_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
