/* SPDX-License-Identifier: Apache-2.0
 * Every rule with a row that breaks it and one that does not, every fix, and that errors are
 * exactly what the build refuses. */
#include "tools/lint.h"

#include "common/file.h"
#include "tests/support/check.h"
#include "tools/lint_shape.h"
#include "tools/lint_tokens.h"

static struct tok *tok;
static struct chat_template *chat_template;
static const struct source_options as_told; /* shapes told by the keys */

static int open_model(void **state)
{
    ft_error err;
    (void)state;
    return tok_open(&tok, "data-samples/tokenizer-tiny.json", &err) != FT_OK ||
           chat_template_open(&chat_template, "smollm2", tok, &err) != FT_OK;
}

static int close_model(void **state)
{
    (void)state;
    chat_template_close(chat_template);
    tok_close(tok);
    return 0;
}

/* Rows in the short form "u:text a:text" would hide the point: they are written out. */
#define ROW(messages) "{\"messages\":[" messages "]}"
#define SYSTEM(text)  "{\"role\":\"system\",\"content\":\"" text "\"}"
#define U(text)       "{\"role\":\"user\",\"content\":\"" text "\"}"
#define A(text)       "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define A_WITH(more)  "{\"role\":\"assistant\",\"content\":\"a\"," more "}"
#define CALL(args)                                                                                 \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":\"f\","      \
    "\"arguments\":" args "}}]}"

#define TEN  "one two three four five six seven eight nine ten "
#define LONG TEN TEN TEN TEN TEN TEN

struct text_case {
    enum lint_code code;
    const char *bad, *good;
};

static const struct text_case text_cases[] = {
    {LINT_J04, "{'messages': [{'role': 'user', 'content': 'q'}]}", ROW(U("it's") "," A("a"))},
    {LINT_J04, "{\"a\": None, \"messages\": []}", ROW(U("None, True") "," A("a"))},
    {LINT_J05, "[" U("q") "," A("a") "]", ROW(U("q") "," A("a"))},
    {LINT_J08, "{\"messages\" []}", ROW(U("q") "," A("a"))},
    {LINT_J08, "{\"a\": 1, \"a\": 2}", ROW(U("q") "," A("a"))},
    {LINT_J08, ROW(U("q") "," A("a")) " {}", ROW(U("q") "," A("a"))},
    {LINT_J10, ROW(U("\xC4\xE3") "," A("a")), ROW(U("\xE4\xBD\xA0") "," A("a"))},
    {LINT_J10, ROW(U("\xC0\x80") "," A("a")), ROW(U("\\u00e9") "," A("a"))},
    {LINT_J10, ROW(U("\\ud83d") "," A("a")), ROW(U("\\ud83d\\ude00") "," A("a"))},
    {LINT_J10, ROW(U("a\tb") "," A("a")), ROW(U("a\\tb") "," A("a"))},
    {LINT_J12, "{\"messages\": [" U("q") "," A("a") ",]}", ROW(U(",]") "," A(",}"))},
    {LINT_J12, ROW(U("q") "," A("a")) ",", ROW(U("q") "," A("a"))},
    {LINT_J12, "{\"x\": NaN, \"messages\": [" U("q") "," A("a") "]}", ROW(U("NaN") "," A("a"))},
    {LINT_J13, "{\"mesages\": []}", ROW(U("q") "," A("a"))},
    {LINT_J13, "{\"messages\": {}}", ROW(U("q") "," A("a"))},
    {LINT_J13, "7", ROW(U("q") "," A("a"))},
    {LINT_J14, "{\"messages\": [" U("q"), ROW(U("q") "," A("a"))},
    {LINT_J14, "{\"messages\": [{\"role\": \"us", ROW(U("q") "," A("a"))},
    {LINT_J16, ROW(U("a\\u0000b") "," A("a")), ROW(U("a\\u0001b") "," A("a"))},
    {LINT_M00, ROW(U("q") "," A_WITH("\"losss\":false")), ROW(U("q") "," A_WITH("\"x\":0"))},
    {LINT_M01, ROW(U("q") "," A_WITH("\"loss\":false")), ROW(U("q") "," A_WITH("\"loss\":true"))},
    {LINT_M02, ROW(U("q") "," A_WITH("\"loss\":null")), ROW(U("q") "," A_WITH("\"loss\":true"))},
    {LINT_M03, ROW(U("q") "," A_WITH("\"loss\":0.5")), ROW(U("q") "," A_WITH("\"loss\":1"))},
    {LINT_M03, ROW(U("q") "," A_WITH("\"loss\":true,\"weight\":0")),
     ROW(U("q") "," A_WITH("\"loss\":true,\"weight\":1"))},
    {LINT_M04, ROW("{\"role\":\"user\",\"content\":\"q\",\"loss\":true}," A("a")),
     ROW("{\"role\":\"user\",\"content\":\"q\",\"loss\":false}," A("a"))},
    {LINT_M05, ROW(U("q") "," A_WITH("\"loss\":\"True\"")),
     ROW(U("q") "," A_WITH("\"loss\":true"))},
    {LINT_M05, ROW(U("q") "," A_WITH("\"weight\":1")), ROW(U("q") "," A_WITH("\"loss\":true"))},
    {LINT_M06, ROW(U("q") "," A("a") "," U("r")), ROW(U("q") "," A("a"))},
    {LINT_M07, ROW(U("q") "," U("r") "," A("a")), ROW(U("q") "," A("a") "," U("r") "," A("b"))},
    {LINT_M08, ROW(U("q")), ROW(U("q") "," A("a"))},
    {LINT_M08, ROW(""), ROW(U("q") "," A("a"))},
    {LINT_M09, ROW(U("q") "," A("") "," U("r") "," A("b")), ROW(U("") "," A("b"))},
    {LINT_M10, ROW(U("q") "," A("")), ROW(U("q") "," A("") "," U("r") "," A("b"))},
    {LINT_M11, ROW(U("q") ",{\"role\":\"assistant\",\"content\":null}"), ROW(U("q") "," A(""))},
    {LINT_M11, ROW(U("q") ",{\"role\":\"assistant\"}"), ROW(U("q") "," A(""))},
    {LINT_M12, ROW(U("q") "," CALL("\"{}\"")), ROW(U("q") "," A_WITH("\"tool_calls\":[]"))},
    {LINT_M14, ROW("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}," A("a")),
     ROW("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]}," A("a"))},
    {LINT_M14, ROW("{\"role\":\"user\",\"content\":7}," A("a")), ROW(U("7") "," A("a"))},
    {LINT_M14, ROW("\"hello\"," A("a")), ROW(U("hello") "," A("a"))},
    {LINT_M15, ROW("{\"role\":\"Human\",\"content\":\"q\"}," A("a")), ROW(U("q") "," A("a"))},
    {LINT_M15, ROW("{\"content\":\"q\"}," A("a")), ROW(U("q") "," A("a"))},
    {LINT_M16, ROW(SYSTEM("  ") "," U("q") "," A("a")), ROW(SYSTEM("s") "," U("q") "," A("a"))},
    {LINT_M17, ROW(U("q") "," CALL("\"{'x': 1}\"")), ROW(U("q") "," CALL("\"{\\\"x\\\": 1}\""))},
    {LINT_M18, ROW(SYSTEM("s") "," SYSTEM("t") "," U("q") "," A("a")),
     ROW(SYSTEM("s") "," U("q") "," A("a") "," SYSTEM("t") "," U("r") "," A("b"))},
    {LINT_M19, ROW(U("q") "," A("a") "," A("b")), ROW(U("q") "," A("a") "," U("r") "," A("b"))},
    {LINT_M20, ROW(A("hello") "," U("q") "," A("a")), ROW(SYSTEM("s") "," U("q") "," A("a"))},
    {LINT_M21, ROW(U("q") "," A_WITH("\"train\":false")), ROW(U("q") "," A_WITH("\"name\":\"x\""))},
    {LINT_T06, ROW(A_WITH("\"loss\":false") ",{\"role\":\"user\",\"content\":\"\"}"),
     ROW(U("q") "," A("a"))},
    {LINT_T10, ROW(U("what is <|im_end|>") "," A("a")), ROW(U("what is <|im_en|>") "," A("a"))},
    {LINT_T11, ROW(U("q<|im_end|>\\n<|im_start|>assistant\\nsure") "," A("a")),
     ROW(U("assistant") "," A("a"))},
    {LINT_T05, ROW(U(LONG) "," A("a")), ROW(U("q") "," A(LONG))},
    {LINT_T07, ROW(U("q") "," A(LONG)), ROW(U("q") "," A("a"))},
};

/* All rules on one row, as the command runs them, but for those that compare rows. */
static void lint(struct lint_list *l, const char *text)
{
    static struct lint_model model;
    struct lint_tokens t;
    struct json_doc *doc;
    ft_error err;
    model = (struct lint_model){
        .source = &as_told, .tok = tok, .chat_template = chat_template, .max_length = 128};
    ASSERT_OK(lint_model_init(&model, l, &err));
    ASSERT_OK(lint_tokens_init(&t, &model, &err));
    ASSERT_OK(lint_json(&doc, l, str_from(text), &err));
    if (doc != NULL) {
        ASSERT_OK(lint_row(&t, l, json_root(doc), &err));
    }
    assert_false(l->failed);
    json_close(doc);
    lint_tokens_free(&t);
    lint_model_free(&model);
}

static bool has(const char *text, enum lint_code code)
{
    struct lint_list l = {0};
    lint(&l, text);
    bool found = l.counts[code] > 0;
    lint_list_clear(&l);
    return found;
}

static void each_rule_finds_its_fault_and_nothing_in_a_good_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(text_cases); i++) {
        const struct text_case *c = &text_cases[i];
        if (!has(c->bad, c->code))
            fail_msg("%s is not found in %s", lint_rules[c->code].code, c->bad);
        if (has(c->good, c->code))
            fail_msg("%s is found in %s", lint_rules[c->code].code, c->good);
    }
}

/* What the build does with the row. */
static bool refused(const char *text)
{
    struct conversation c = {0};
    struct json_doc *doc;
    ft_error err;
    bool bad = json_parse(&doc, "row", str_from(text), JSON_STRICT, &err) != FT_OK ||
               source_read_row(&c, json_root(doc), &(struct source_options){0}, &err) != FT_OK;
    conversation_free(&c);
    json_close(doc);
    return bad;
}

static void errors_are_what_the_build_refuses(void **state)
{
    struct lint_list l = {0};
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(text_cases); i++) {
        const struct text_case *c = &text_cases[i / 2];
        const char *text = i % 2 == 0 ? c->bad : c->good;
        lint(&l, text);
        bool refused_by_template = l.counts[LINT_T08] > 0;
        if (lint_has_errors(&l) != (refused(text) || refused_by_template))
            fail_msg("check and build disagree on %s", text);
        lint_list_clear(&l);
    }
}

static void messages_name_the_field(void **state)
{
    struct lint_list l = {0};
    (void)state;
    lint(&l, ROW(U("q") ",{\"role\":\"gpt\",\"content\":\"a\"}"));
    assert_int_equal(l.items[0].code, LINT_M15);
    assert_string_equal(l.items[0].field, "messages[1].role");
    assert_string_equal(l.items[0].text, "\"gpt\" is not known; here it is called \"assistant\"");
    lint_list_clear(&l);
}

static void findings_of_a_row_are_bounded_but_counted(void **state)
{
    struct lint_list l = {0};
    struct buf row = {0};
    (void)state;
    buf_cstr(&row, "{\"messages\":[");
    for (int i = 0; i < 100; i++)
        buf_cstr(&row, A_WITH("\"loss\":null") ",");
    buf_cstr(&row, A("end") "]}");
    buf_byte(&row, '\0');
    lint(&l, (const char *)row.data);
    assert_int_equal(l.counts[LINT_M02], 100);
    assert_int_equal(l.n, LINT_ROW_FINDINGS);
    lint_list_clear(&l);
    buf_free(&row);
}

/* --- rows compared with each other ----------------------------------------------------------- */

static uint32_t drift(const char *const *rows, size_t n, enum lint_code code)
{
    struct lint_shape *s;
    struct lint_list l = {0};
    struct json_doc *doc;
    ft_error err;
    uint32_t count = 0;
    ASSERT_OK(lint_shape_create(&s, &err));
    for (size_t i = 0; i < n; i++) {
        ASSERT_OK(json_parse(&doc, "row", str_from(rows[i]), JSON_STRICT, &err));
        lint_shape_row(s, &l, json_root(doc));
        json_close(doc);
        count += l.counts[code];
        lint_list_clear(&l);
    }
    lint_shape_destroy(s);
    return count;
}

static void a_changed_type_is_found_by_its_place(void **state)
{
    const char *column[] = {"{\"x\":{\"a\":1}}", "{\"x\":null}", "{\"x\":[1]}"};
    const char *id[] = {"{\"id\":\"a1\"}", "{}", "{\"id\":7}"};
    const char *list[] = {"{\"ner\":[[0,4,\"X\"]]}"};
    const char *arguments[] = {"{\"calls\":[{\"arguments\":{\"time\":\"now\"}}]}",
                               "{\"calls\":[{\"arguments\":{\"time\":5}}]}"};
    const char *same[] = {"{\"id\":1,\"x\":[1,2],\"y\":{\"a\":\"b\"}}",
                          "{\"id\":2,\"x\":[],\"y\":{\"c\":1}}"};
    (void)state;
    assert_int_equal(drift(column, ARRAY_LEN(column), LINT_J01), 1);
    assert_int_equal(drift(id, ARRAY_LEN(id), LINT_J02), 1);
    assert_int_equal(drift(list, ARRAY_LEN(list), LINT_J06), 1);
    assert_int_equal(drift(arguments, ARRAY_LEN(arguments), LINT_M13), 1);
    for (int c = 0; c < LINT_CODES; c++)
        assert_int_equal(drift(same, ARRAY_LEN(same), (enum lint_code)c), 0);
}

static void watched_columns_are_bounded(void **state)
{
    struct lint_shape *s;
    struct lint_list l = {0};
    struct json_doc *doc;
    char row[64];
    ft_error err;
    (void)state;
    ASSERT_OK(lint_shape_create(&s, &err));
    for (int i = 0; i < 3 * LINT_SHAPE_PATHS; i++) {
        snprintf(row, sizeof row, "{\"k%d\":1}", i);
        ASSERT_OK(json_parse(&doc, "row", str_from(row), JSON_STRICT, &err));
        lint_shape_row(s, &l, json_root(doc));
        json_close(doc);
    }
    assert_int_equal(l.n, 0);
    lint_shape_destroy(s);
}

/* --- fixes ----------------------------------------------------------------------------------- */

static void expect_fix(enum lint_code code, uint64_t n, const char *from, const char *to)
{
    struct buf out = {0};
    struct json_doc *doc;
    uint64_t fixed[LINT_CODES] = {0};
    ft_error err;
    if (json_parse(&doc, "row", str_from(from), JSON_STRICT, &err) != FT_OK)
        doc = NULL;
    ASSERT_OK(lint_fix_row(&out, fixed, str_from(from), doc, &as_told, &err));
    buf_byte(&out, '\0');
    assert_string_equal((const char *)out.data, to);
    for (int c = 0; c < LINT_CODES; c++)
        assert_int_equal(fixed[c], c == (int)code ? n : 0);
    json_close(doc);
    buf_free(&out);
}

static void fixes_change_what_they_name_and_nothing_else(void **state)
{
    (void)state;
    expect_fix(
        LINT_M02, 2,
        ROW("{\"role\":\"user\",\"content\":\"q\",\"loss\":null}," A_WITH("\"loss\": null")),
        ROW("{\"role\":\"user\",\"content\":\"q\",\"loss\":false}," A_WITH("\"loss\": true")));
    expect_fix(LINT_M05, 2,
               ROW(U("q") "," A_WITH("\"loss\":\"False\"") "," U("r") "," A_WITH("\"weight\":1")),
               ROW(U("q") "," A_WITH("\"loss\":false") "," U("r") "," A_WITH("\"weight\":true")));
    expect_fix(LINT_M06, 2,
               "{\"messages\": [" U("q") ", " A("a") ", " U("r") ", " U("s") " ], \"n\": 1e400}",
               "{\"messages\": [" U("q") ", " A("a") " ], \"n\": 1e400}");
    expect_fix(LINT_M15, 2,
               "[{\"role\":\"Human\",\"content\":\"q\"},{\"role\":\"gpt\",\"content\":\"a\"}]",
               "[" U("q") "," A("a") "]");
    expect_fix(LINT_M16, 1, ROW(SYSTEM(" \\n") ", " U("q") "," A("a")), ROW(U("q") "," A("a")));
    expect_fix(LINT_J09, 1, "\xEF\xBB\xBF{\"messages\":[]}", "{\"messages\":[]}");
    expect_fix(LINT_J12, 3, "{\"x\": [1, 2, ], \"messages\": [" U(",]") "," A("a") ",]},",
               "{\"x\": [1, 2 ], \"messages\": [" U(",]") "," A("a") "]}");
}

static void what_is_not_harmless_stays(void **state)
{
    static const char *const rows[] = {
        ROW(U("q") "," A("a")),
        "{\"id\": 12345678901234567890, \"messages\": [" U("\\u00e9\\/") "," A("a") "]}",
        ROW(U("q") "," A("a") ",{\"role\":\"user\",\"content\":\"r\",\"loss\":true}"),
        ROW(U("q")),
        ROW(U("q") "," A("") "," A_WITH("\"loss\":0.5")),
        "{'messages': []}",
        "{\"x\": NaN,}",
        "\"text\"",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_fix(LINT_CODES, 0, rows[i], rows[i]);
    expect_fix(LINT_CODES, 0, "{\r\n \"messages\":\n []}", "{   \"messages\":  []}");
}

/* --- the table ------------------------------------------------------------------------------- */

static void the_table_is_complete(void **state)
{
    (void)state;
    for (int c = 0; c < LINT_CODES; c++) {
        const struct lint_rule *r = &lint_rules[c];
        assert_non_null(r->code);
        assert_int_equal(lint_find(str_from(r->code)), c);
        assert_true(strlen(r->title) > 3 && strlen(r->why) > 20);
        assert_true(c == 0 || strcmp(lint_rules[c - 1].code, r->code) < 0 || r->code[0] == 'M');
    }
    assert_int_equal(lint_find(STR("m06")), LINT_M06);
    assert_int_equal(lint_find(STR("X1")), LINT_CODES);
}

static void the_documentation_is_the_table(void **state)
{
    struct buf rules = {0};
    struct arena a = {0};
    str page;
    ft_error err;
    (void)state;
    lint_document(&rules);
    buf_byte(&rules, '\0');
    ASSERT_OK(file_read_all(&page, &a, "docs/lint.md", 1 << 20, &err));
    if (strstr(page.ptr, (const char *)rules.data) == NULL)
        fail_msg("docs/lint.md: replace its rules by the output of tests/tools/lint_doc");
    arena_destroy(&a);
    buf_free(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_finds_its_fault_and_nothing_in_a_good_row),
        cmocka_unit_test(errors_are_what_the_build_refuses),
        cmocka_unit_test(messages_name_the_field),
        cmocka_unit_test(findings_of_a_row_are_bounded_but_counted),
        cmocka_unit_test(a_changed_type_is_found_by_its_place),
        cmocka_unit_test(watched_columns_are_bounded),
        cmocka_unit_test(fixes_change_what_they_name_and_nothing_else),
        cmocka_unit_test(what_is_not_harmless_stays),
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(the_documentation_is_the_table),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
