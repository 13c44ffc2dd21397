/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/json.h"

#include "tests/support/check.h"

static void bad_text_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "x: line 1, column 1: not JSON: the text ends too early"},
        {"{", "the text ends too early"},
        {"{\"a\": 1,\n  'b': 2}", "x: line 2, column 3: not JSON: strings need double quotes"},
        {"{\"a\": 1,}", "line 1, column 9: not JSON: trailing comma"},
        {"[1, 2 ,\n]", "line 2, column 1: not JSON: trailing comma"},
        {"[,]", "unexpected character"},
        {"[1, NaN]", "line 1, column 5: not JSON: NaN/Infinity is not JSON"},
        {"[1, -Infinity]", "NaN/Infinity is not JSON"},
        {"{\"a\":1} x", "line 1, column 9: not JSON: text after the value"},
        {"{\"a\":1}{\"a\":1}", "line 1, column 8: not JSON: text after the value"},
        {"[1,\n2,\n+3]", "line 3, column 1"},
        {"[\"\\ud83d\"]", "not JSON: lone surrogate escape"},
        {"[\"\\udc00\"]", "not JSON: lone surrogate escape"},
        {"[\"\\x41\"]", "not JSON: unknown escape"},
        {"[\"a\nb\"]", "line 1, column 4: not JSON: raw control character"},
        {"[1,\x14 2]", "line 1, column 4: not JSON: control character between values"},
        {"\"\xC0\x80\"", "column 2: not JSON: invalid UTF-8"},
        {"\"\xFF\"", "invalid UTF-8"},
        {"{\"k\": 1, \"k\": 2}", "the key \"k\" appears twice"},
        {"[{\"a\": {\"k\": 1, \"z\": 2, \"k\": 2}}]", "the key \"k\" appears twice"},
        {"{} // c", "not JSON"},
    };
    struct json_doc *doc;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_FAILS(json_parse(&doc, "x", str_from(cases[i].text), JSON_STRICT, &err), FT_EFORMAT,
                     cases[i].message);
        assert_null(doc);
    }
    ASSERT_FAILS(json_parse(&doc, "x", STR("[\"a\0b\"]"), JSON_STRICT, &err), FT_EFORMAT,
                 "control character");
    char deep[4000];
    memset(deep, '[', sizeof deep);
    ASSERT_FAILS(json_parse(&doc, "x", (str){deep, sizeof deep}, JSON_STRICT, &err), FT_EFORMAT,
                 "column 1001: not JSON: nesting deeper than 1000");
}

static void strings_keep_nul_and_escapes(void **state)
{
    struct json_doc *doc;
    ft_error err;
    str s;
    (void)state;
    ASSERT_OK(json_parse(&doc, "x",
                         STR("{\"a\": \"x\\u0000y\\u0000\", \"b\": \"\\\\u0000\", "
                             "\"c\": \"\\ud83e\\udd99\\\"\\/\"}"),
                         JSON_STRICT, &err));
    assert_true(json_str(json_get(json_root(doc), "a"), &s));
    assert_int_equal(s.len, 4);
    assert_memory_equal(s.ptr, "x\0y\0", 4);
    assert_true(json_str(json_get(json_root(doc), "b"), &s) && str_is(s, "\\u0000"));
    assert_true(json_str(json_get(json_root(doc), "c"), &s) && str_is(s, "\xF0\x9F\xA6\x99\"/"));
    json_close(doc);
}

static void a_byte_order_mark_and_comments_are_skipped(void **state)
{
    struct json_doc *doc;
    ft_error err;
    int64_t v;
    (void)state;
    ASSERT_OK(json_parse(&doc, "x",
                         STR("\xEF\xBB\xBF{ // one\n \"a\": /* two\n */ 7, \"u\": \"http://x\" }"),
                         JSON_COMMENTS, &err));
    ASSERT_OK(json_need_i64(&v, json_root(doc), "a", 0, 10, &err));
    assert_int_equal(v, 7);
    json_close(doc);
    ASSERT_FAILS(json_parse(&doc, "x", STR("{} /* x"), JSON_COMMENTS, &err), FT_EFORMAT,
                 "comment without an end");
}

static void checked_members_name_the_key_and_the_kind(void **state)
{
    struct json_doc *doc;
    ft_error err;
    const json *v;
    int64_t i;
    str s;
    (void)state;
    ASSERT_OK(json_parse(&doc, "x", STR("{\"n\": 1.5, \"big\": 1e300, \"z\": null, \"i\": 3}"),
                         JSON_STRICT, &err));
    const json *root = json_root(doc);
    ASSERT_FAILS(json_need_i64(&i, root, "n", 0, 9, &err), FT_EFORMAT, "\"n\": 1.5 is not a whole");
    ASSERT_FAILS(json_need_i64(&i, root, "big", 0, 9, &err), FT_EFORMAT, "\"big\"");
    ASSERT_FAILS(json_need_i64(&i, root, "i", 4, 9, &err), FT_EFORMAT, "from 4 to 9");
    ASSERT_FAILS(json_need_str(&s, root, "i", &err), FT_EFORMAT,
                 "expected a string, found a number");
    ASSERT_FAILS(json_need(&v, root, "q", JSON_OBJECT, &err), FT_EFORMAT, "\"q\" is missing");
    ASSERT_OK(json_opt_i64(&i, root, "z", 5, 0, 9, &err));
    assert_int_equal(i, 5);
    assert_null(json_get(json_get(root, "absent"), "deeper"));
    json_close(doc);
}

static void written_strings_read_back(void **state)
{
    struct buf b = {0};
    struct json_doc *doc;
    ft_error err;
    str s, text = STR("q\"\\\n\t\x01\x7F \xC3\xA9\xF0\x9F\xA6\x99");
    (void)state;
    json_write_str(&b, text);
    ASSERT_OK(json_parse(&doc, "x", buf_view(&b), JSON_STRICT, &err));
    assert_true(json_str(json_root(doc), &s) && str_eq(s, text));
    json_close(doc);
    buf_clear(&b);
    json_write_str(&b, STR("\xFFz\xE2\x82"));
    assert_true(str_is(buf_view(&b), "\"\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\""));
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_text_is_refused_with_its_place),
        cmocka_unit_test(strings_keep_nul_and_escapes),
        cmocka_unit_test(a_byte_order_mark_and_comments_are_skipped),
        cmocka_unit_test(checked_members_name_the_key_and_the_kind),
        cmocka_unit_test(written_strings_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
