/* SPDX-License-Identifier: Apache-2.0
 * The rewriting of patterns: both dialects, what is refused, what is bounded. That the cuts are
 * those of the reference is shown by tests/reference/diff_pretok.py. */
#include "formats/tok/regex.h"

#include "common/buf.h"
#include "common/mem.h"
#include "formats/tok/pretok_stages.h"
#include "formats/tok/unicode.h"
#include "tests/support/check.h"

/* The matches of the pattern in text, joined by "|". */
static void check_matches(const char *pattern, enum regex_dialect dialect, const char *text,
                          const char *expected)
{
    struct regex *r;
    struct buf out = {0};
    size_t start, end;
    bool found = true;
    ft_error err;
    ASSERT_OK(regex_create(&r, str_from(pattern), dialect, &err));
    struct regex_search s = {.regex = r, .text = str_from(text)};
    while (true) {
        ASSERT_OK(regex_next(&start, &end, &found, &s, &err));
        if (!found)
            break;
        buf_cstr(&out, out.len > 0 ? "|" : "");
        buf_str(&out, str_sub(str_from(text), start, end));
    }
    buf_byte(&out, 0);
    assert_string_equal((const char *)out.data, expected);
    buf_free(&out);
    regex_destroy(r);
}

static void dialects_differ_where_the_references_do(void **state)
{
    (void)state;
    check_matches("\\p{N}{1,3}+", REGEX_ONIGURUMA, "1234567", "1234567");
    check_matches("\\p{N}{1,3}+", REGEX_FANCY, "1234567", "123|456|7");
    check_matches("b$", REGEX_ONIGURUMA, "ab\nb", "b|b");
    check_matches("b$", REGEX_FANCY, "ab\nb", "b");
    check_matches("^a", REGEX_ONIGURUMA, "a\na", "a|a");
    check_matches("^a", REGEX_FANCY, "a\na", "a");
    check_matches("(a|b){2}+", REGEX_FANCY, "abab", "ab|ab");
}

static void constructs_mean_what_they_should(void **state)
{
    (void)state;
    check_matches("(?i:'s|'LL)", REGEX_ONIGURUMA, "'S'll'\u017f", "'S|'ll|'\u017f");
    check_matches("[^\\P{L}x]+", REGEX_ONIGURUMA, "ab1xy\u00e9", "ab|y\u00e9");
    check_matches("[\\w&&[^\\d]]+", REGEX_ONIGURUMA, "ab12_", "ab|_");
    check_matches("\\pL+", REGEX_FANCY, "ab1", "ab");
    check_matches("\\x41|\\x{1F600}|\\u00e9", REGEX_ONIGURUMA, "A\U0001F600\u00e9",
                  "A|\U0001F600|\u00e9");
    check_matches("x*", REGEX_ONIGURUMA, "axxb", "xx|"); /* empty ones at both ends */
    check_matches("\\p{Han}+", REGEX_ONIGURUMA, "a\u4e2d\u6587b", "\u4e2d\u6587");
}

/* U+1C89 is a letter since Unicode 16; an older library does not know it. */
static void classes_come_from_our_tables(void **state)
{
    (void)state;
    assert_true(unicode_classes(0x1C89) & UNICODE_LETTER);
    check_matches("\\p{L}+", REGEX_ONIGURUMA, "a\u1C89b", "a\u1C89b");
    check_matches("\\s", REGEX_ONIGURUMA, "a\u180Eb\u3000", "\u3000");
}

static void what_is_not_certain_is_refused_by_name(void **state)
{
    static const struct {
        const char *pattern, *message;
    } cases[] = {
        {"a\\b", "\"\\b\" at byte 1 of the pattern is not supported"},
        {"\\p{Script=Han}", "is a property without a table here"},
        {"(?i:\u00e9)", "is not supported where case is ignored"},
        {"(?<name>a)", "\"(?<\" at byte 0 of the pattern is not supported"},
        {"(a)\\1", "\"\\1\" at byte 3 of the pattern is not supported"},
        {"[[:alpha:]]", "\"[:\" at byte 1 of the pattern is not supported"},
        {"[a", "\"[a\" at byte 0 of the pattern is not closed"},
        {"(a", "a group that is not closed"},
        {"a)", "\")\" at byte 1 of the pattern closes nothing"},
        {"*", "the pattern is not valid"},
        {"", "the pattern is empty"},
        {"a\\", "has nothing behind it"},
        {"\\x{110000}", "is not a code point"},
        {"\xff", "not valid UTF-8"},
        {"\\p{L", "is not closed"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct regex *r;
        ft_error err;
        assert_int_equal(regex_create(&r, str_from(cases[i].pattern), REGEX_ONIGURUMA, &err),
                         FT_EFORMAT);
        assert_null(r);
        if (strstr(err.text, cases[i].message) == NULL)
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i].pattern, err.text, cases[i].message);
    }
}

static void a_pattern_that_never_ends_is_stopped(void **state)
{
    struct regex *r;
    ft_error err;
    char text[64];
    size_t start, end;
    bool found;
    (void)state;
    memset(text, 'a', sizeof text);
    ASSERT_OK(regex_create(&r, STR("(?:a|a|aa)+b"), REGEX_ONIGURUMA, &err));
    struct regex_search s = {.regex = r, .text = {text, sizeof text}};
    assert_int_equal(regex_next(&start, &end, &found, &s, &err), FT_ELIMIT);
    assert_non_null(strstr(err.text, "too many steps"));
    regex_destroy(r);
}

/* Known lists have a scanner; the engine for unknown ones must cut the same. */
static void the_engine_cuts_as_the_scanners_do(void **state)
{
    static const struct pretok_stage stages[] = {{.kind = PRETOK_DIGITS},
                                                 {.kind = PRETOK_BYTE_LEVEL}};
    static const char text[] = "It's 12 o'clock,\n\n  a\u00b2 \u4e2d3x  !";
    const struct pretok *scanner = pretok_find(stages, 2);
    struct pretok_stages *engine;
    struct pretok_pieces pieces = {0};
    uint32_t ends[PRETOK_BATCH];
    ft_error err;
    (void)state;
    ASSERT_OK(pretok_stages_create(&engine, stages, 2, &err));
    ASSERT_OK(pretok_stages_cut(&pieces, engine, (const uint8_t *)text, 0, sizeof text - 1,
                                classify_select(CPU_PORTABLE), &err));
    struct pretok_scan scan = {.text = (const uint8_t *)text,
                               .to = sizeof text - 1,
                               .classify = classify_select(cpu_tier())};
    size_t n = scanner->next(&scan, ends);
    assert_int_equal(n, pieces.n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ends[i], pieces.items[i].to);
    pretok_pieces_free(&pieces);
    pretok_stages_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dialects_differ_where_the_references_do),
        cmocka_unit_test(constructs_mean_what_they_should),
        cmocka_unit_test(classes_come_from_our_tables),
        cmocka_unit_test(what_is_not_certain_is_refused_by_name),
        cmocka_unit_test(a_pattern_that_never_ends_is_stopped),
        cmocka_unit_test(the_engine_cuts_as_the_scanners_do),
    };
    return cmocka_run_group_tests_name("regex", tests, NULL, NULL);
}
