/* SPDX-License-Identifier: Apache-2.0 */
#include "common/str.h"

#include "tests/support/check.h"

static void numbers_are_parsed_whole_or_not_at_all(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-1", true, -1},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1x", false, 0},
        {"+1", false, 0},
        {"0x10", false, 0},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t v = 0;
        assert_int_equal(str_to_i64(str_from(cases[i].text), &v), cases[i].ok);
        assert_true(v == cases[i].value);
    }
    double d;
    assert_true(str_to_f64(STR("2e-4"), &d) && d == 2e-4);
    assert_true(str_to_f64(STR("-.5"), &d) && d == -0.5);
    assert_false(str_to_f64(STR("nan"), &d));
    assert_false(str_to_f64(STR("inf"), &d));
    assert_false(str_to_f64(STR("1e999"), &d));
    assert_false(str_to_f64(STR("0x1p3"), &d));
    assert_false(str_to_f64(STR("1,5"), &d));
    assert_false(str_to_f64(STR("1\0"), &d));
}

static void utf8_accepts_exactly_rfc3629(void **state)
{
    char text[4];
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        size_t n = str_utf8_put(text, c), len = 0;
        bool surrogate = c >= 0xD800 && c < 0xE000;
        assert_int_equal(str_utf8_invalid_at((str){text, n}), surrogate ? 0 : n);
        if (!surrogate) {
            assert_int_equal(str_utf8_next((str){text, n}, &len), c);
            assert_int_equal(len, n);
        }
        for (size_t cut = 1; cut < n; cut++)
            assert_int_equal(str_utf8_invalid_at((str){text, cut}), 0);
    }
    assert_int_equal(str_utf8_invalid_at(STR("\xC0\x80")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("\xC1\xBF")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("\xE0\x9F\xBF")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("\xF0\x8F\xBF\xBF")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("\xF4\x90\x80\x80")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("\xF5\x80\x80\x80")), 0);
    assert_int_equal(str_utf8_invalid_at(STR("12345678\x80")), 8);
    assert_int_equal(str_utf8_invalid_at(STR("1234567\xC3\xA9z\xFF")), 10);
}

static void nearest_finds_typing_errors_only(void **state)
{
    static const char *const names[] = {"max-length", "tokenizer", "threads"};
    (void)state;
    assert_string_equal(str_nearest(STR("max-lenght"), names, 3), "max-length");
    assert_string_equal(str_nearest(STR("tokeniser"), names, 3), "tokenizer");
    assert_null(str_nearest(STR("banana"), names, 3));
    assert_null(str_nearest(STR(""), names, 3));
}

static void cut_walks_fields(void **state)
{
    str rest = STR("a,,b");
    (void)state;
    assert_true(str_is(str_cut(&rest, ','), "a"));
    assert_true(str_is(str_cut(&rest, ','), ""));
    assert_true(str_is(str_cut(&rest, ','), "b"));
    assert_int_equal(rest.len, 0);
    assert_true(str_is(str_trim(STR(" \t x y\r\n")), "x y"));
    assert_true(str_is(str_trim(STR("  ")), ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_parsed_whole_or_not_at_all),
        cmocka_unit_test(utf8_accepts_exactly_rfc3629),
        cmocka_unit_test(nearest_finds_typing_errors_only),
        cmocka_unit_test(cut_walks_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
