/* SPDX-License-Identifier: Apache-2.0 */
#include "common/opt.h"

#include "tests/support/check.h"

struct values {
    bool flag;
    int64_t count;
    double rate;
    const char *name;
    int mode;
    struct opt_list items;
};

#define ROW(field) offsetof(struct values, field)
static const struct opt table[] = {
    {"flag", OPT_BOOL, ROW(flag), "true", 0, 0, NULL, NULL, "a flag", false},
    {"count", OPT_INT, ROW(count), "4", 1, 10, NULL, "N", "a count", false},
    {"rate", OPT_FLOAT, ROW(rate), "0.5", 0, 1e18, NULL, "X", "a rate", false},
    {"name", OPT_STRING, ROW(name), NULL, 0, 0, NULL, "TEXT", "a name", true},
    {"mode", OPT_CHOICE, ROW(mode), "slow", 0, 0, "fast|slow", NULL, "a mode", false},
    {"items", OPT_LIST, ROW(items), "x,y", 0, 0, NULL, "A,B", "items", false},
};

static void defaults_apply_and_assignments_replace_them(void **state)
{
    struct values v = {0};
    struct opt_set s;
    ft_error err;
    struct buf b = {0};
    (void)state;
    ASSERT_OK(opt_set_init(&s, table, ARRAY_LEN(table), &v, &err));
    assert_true(v.flag && v.count == 4 && v.rate == 0.5 && v.name == NULL && v.mode == 1);
    assert_int_equal(v.items.n, 2);
    ASSERT_FAILS(opt_check_required(&s, "--", &err), FT_EUSAGE, "--name is required: a name");
    ASSERT_OK(opt_assign(&s, opt_find(&s, STR("items")), STR("p"), &err));
    ASSERT_OK(opt_assign(&s, opt_find(&s, STR("items")), STR("q,r"), &err));
    assert_int_equal(v.items.n, 3);
    assert_string_equal(v.items.items[2], "r");
    ASSERT_OK(opt_assign(&s, opt_find(&s, STR("mode")), STR("fast"), &err));
    assert_int_equal(v.mode, 0);
    assert_true(opt_given(&s, "mode") && !opt_given(&s, "rate"));
    opt_value_json(&b, &s, opt_find(&s, STR("items")));
    opt_value_json(&b, &s, opt_find(&s, STR("mode")));
    opt_value_json(&b, &s, opt_find(&s, STR("name")));
    assert_true(str_is(buf_view(&b), "[\"p\", \"q\", \"r\"]\"fast\"null"));
    buf_free(&b);
    ASSERT_OK(opt_reset(&s, opt_find(&s, STR("items")), &err));
    ASSERT_OK(opt_reset(&s, opt_find(&s, STR("mode")), &err));
    assert_true(v.items.n == 2 && v.mode == 1 && !opt_given(&s, "mode"));
    opt_set_destroy(&s);
}

static void appended_items_keep_their_commas(void **state)
{
    struct values v = {0};
    struct opt_set s;
    ft_error err;
    (void)state;
    ASSERT_OK(opt_set_init(&s, table, ARRAY_LEN(table), &v, &err));
    ASSERT_OK(opt_append(&s, opt_find(&s, STR("items")), STR("a, b"), &err));
    ASSERT_OK(opt_append(&s, opt_find(&s, STR("items")), STR(""), &err));
    assert_int_equal(v.items.n, 2);
    assert_string_equal(v.items.items[0], "a, b");
    ASSERT_FAILS(opt_append(&s, opt_find(&s, STR("items")), (str){"a\0", 2}, &err), FT_EUSAGE,
                 "NUL");
    opt_set_destroy(&s);
}

static void numbers_are_written_shortest_and_exact(void **state)
{
    static const struct {
        const char *given, *written;
    } cases[] = {{"0.0002", "0.0002"},
                 {"1e-8", "1e-08"},
                 {"0.30000000000000004", "0.30000000000000004"},
                 {"2", "2"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct values v = {0};
        struct opt_set s;
        struct buf b = {0};
        ft_error err;
        ASSERT_OK(opt_set_init(&s, table, ARRAY_LEN(table), &v, &err));
        ASSERT_OK(opt_assign(&s, opt_find(&s, STR("rate")), str_from(cases[i].given), &err));
        opt_value_json(&b, &s, opt_find(&s, STR("rate")));
        assert_true(str_is(buf_view(&b), cases[i].written));
        buf_free(&b);
        opt_set_destroy(&s);
    }
}

static void bad_values_say_what_is_expected(void **state)
{
    static const struct {
        const char *name, *text, *message;
    } cases[] = {
        {"flag", "yes", "flag: 'yes' is not valid, expected true or false"},
        {"count", "11", "expected a number from 1 to 10"},
        {"count", "1.5", "expected a whole number"},
        {"count", "", "expected a whole number"},
        {"rate", "-1", "expected a number of at least 0"},
        {"rate", "fast", "expected a number"},
        {"mode", "medium", "expected one of fast|slow"},
    };
    struct values v = {0};
    struct opt_set s;
    ft_error err;
    (void)state;
    ASSERT_OK(opt_set_init(&s, table, ARRAY_LEN(table), &v, &err));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ASSERT_FAILS(
            opt_assign(&s, opt_find(&s, str_from(cases[i].name)), str_from(cases[i].text), &err),
            FT_EUSAGE, cases[i].message);
    ASSERT_FAILS(opt_unknown(&s, "option", STR("cuont"), &err), FT_EUSAGE, "did you mean 'count'?");
    opt_set_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_apply_and_assignments_replace_them),
        cmocka_unit_test(appended_items_keep_their_commas),
        cmocka_unit_test(numbers_are_written_shortest_and_exact),
        cmocka_unit_test(bad_values_say_what_is_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
