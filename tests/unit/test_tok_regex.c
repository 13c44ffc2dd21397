/* SPDX-License-Identifier: Apache-2.0
 * The rewriting of patterns: both dialects, what is refused, what is bounded. That the cuts are
 * those of the reference is shown by tests/reference/diff_pretok.py. */
#include "formats/tok/regex.h"

#include "common/buf.h"
#include "common/mem.h"
#include "common/rng.h"
#include "formats/tok/pretok_patterns.h"
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

/* --- scanners ---------------------------------------------------------------------------------
 */

#define ONIG(text)                                                                                 \
    {                                                                                              \
        .kind = PRETOK_SPLIT, .dialect = PRETOK_ONIGURUMA, .pattern = { text, sizeof(text) - 1 }   \
    }

static const struct {
    size_t n;
    struct pretok_stage stages[6];
} known[] = {
    {1, {{.kind = PRETOK_BYTE_LEVEL}}},
    {2, {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {1, {ONIG(PATTERN_LLAMA3)}},
    {1, {ONIG(PATTERN_QWEN2)}},
    {1, {ONIG(PATTERN_CL100K)}},
    {1, {ONIG(PATTERN_O200K)}},
    {1, {ONIG(PATTERN_TEKKEN)}},
    {6,
     {ONIG(PATTERN_DEEPSEEK_LINES),
      ONIG(PATTERN_DEEPSEEK_LETTERS),
      ONIG(PATTERN_DEEPSEEK_PUNCTUATION),
      ONIG(PATTERN_DEEPSEEK_END),
      ONIG(PATTERN_DEEPSEEK_CJK),
      {.kind = PRETOK_DIGITS}}},
    {3,
     {ONIG(PATTERN_DEEPSEEK3_NUMBERS), ONIG(PATTERN_DEEPSEEK3_KANA),
      ONIG(PATTERN_DEEPSEEK3_WORDS)}},
};

enum { MAX_TEXT = 1024 };

/* Known lists have a scanner; the engine for unknown ones must cut the same. */
static void compare(const struct pretok *scanner, const struct pretok_stages *engine,
                    struct pretok_pieces *pieces, str text)
{
    ft_error err;
    ASSERT_OK(pretok_stages_cut(pieces, engine, (const uint8_t *)text.ptr, 0, text.len,
                                classify_select(CPU_PORTABLE), &err));
    for (enum cpu_tier tier = CPU_PORTABLE; tier <= cpu_tier(); tier++) {
        struct pretok_scan scan = {
            .text = (const uint8_t *)text.ptr, .to = text.len, .classify = classify_select(tier)};
        size_t at = 0;
        while (scan.at < scan.to) {
            uint32_t ends[PRETOK_BATCH];
            size_t n = scanner->next(&scan, ends);
            for (size_t i = 0; i < n; i++, at++)
                if (at >= pieces->n || ends[i] != pieces->items[at].to)
                    fail_msg("%s, %s: piece %zu of \"%.*s\"", scanner->name, cpu_tier_name(tier),
                             at, STR_ARG(text));
        }
        assert_int_equal(at, pieces->n);
    }
}

/* Texts of few kinds of parts meet the borders of patterns, long ones those of blocks. */
static size_t random_text(char text[MAX_TEXT], uint64_t k)
{
    static const char *const parts[] = {
        "a",      "Z",      "hello",  "World",  " ",      " ",      "  ",         "\n",
        "\r\n",   "\t",     "'s",     "'LL",    "'re",    "'",      "'\u017F",    "1",
        "234",    "/",      "!",      "...",    "(",      "\x01",   "\u00A0",     "\u3000",
        "\u2028", "\u0665", "\u2460", "\u4E00", "\u3042", "\u30FB", "\u00E9",     "\u1EC7",
        "\u0301", "\uFF01", "\u2019", "\u2014", "\u02B0", "\u01C5", "\U0001F600", "\u200B",
    };
    size_t n = 0, n_parts = rng_u64(5, k, 0) % 100, kinds = 2 + rng_u64(5, k, 1) % 40;
    for (uint64_t i = 0; i < n_parts; i++) {
        uint64_t kind = rng_u64(5, k, 2 + i) % kinds;
        const char *part = parts[(kind * 7 + k) % ARRAY_LEN(parts)];
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static void the_engine_cuts_as_the_scanners_do(void **state)
{
    struct pretok_pieces pieces = {0};
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct pretok *scanner = pretok_find(known[i].stages, known[i].n);
        struct pretok_stages *engine;
        assert_non_null(scanner);
        ASSERT_OK(pretok_stages_create(&engine, known[i].stages, known[i].n, &err));
        for (uint64_t k = 0; k < 20000; k++) {
            char text[MAX_TEXT];
            size_t n = random_text(text, k);
            compare(scanner, engine, &pieces, (str){text, n});
        }
        pretok_stages_destroy(engine);
    }
    pretok_pieces_free(&pieces);
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
