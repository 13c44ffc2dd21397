/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/source.h"

#include "tests/support/check.h"

/* "u:text a+:text": first letter of the role, + or - when the loss is set, then the content. */
static ft_status read_row(struct buf *out, const char *text, bool strict, ft_error *failure)
{
    struct conversation c = {0};
    struct json_doc *doc;
    ft_error err;
    buf_clear(out);
    ASSERT_OK(json_parse(&doc, "row", str_from(text), JSON_STRICT, &err));
    ft_status st = source_read_row(&c, json_root(doc), strict, failure);
    for (size_t i = 0; st == FT_OK && i < c.n; i++) {
        buf_printf(out, "%s%c%s:", i == 0 ? "" : " ", chat_role_names[c.messages[i].role][0],
                   c.messages[i].loss == CHAT_LOSS_DEFAULT ? ""
                   : c.messages[i].loss == CHAT_LOSS_ON    ? "+"
                                                           : "-");
        buf_str(out, c.messages[i].content);
    }
    if (st == FT_OK && (c.n_trailing > 0 || c.n_empty > 0))
        buf_printf(out, " [%zu trailing, %zu empty]", c.n_trailing, c.n_empty);
    buf_byte(out, '\0');
    conversation_free(&c);
    json_close(doc);
    return st;
}

static void expect(const char *row, const char *expected)
{
    struct buf got = {0};
    ft_error err;
    ASSERT_OK(read_row(&got, row, false, &err));
    assert_string_equal((const char *)got.data, expected);
    buf_free(&got);
}

static void refuse(const char *row, const char *message)
{
    struct buf got = {0};
    ft_error err = {0};
    assert_int_equal(read_row(&got, row, false, &err), FT_EFORMAT);
    assert_string_equal(err.text, message);
    buf_free(&got);
}

#define ROLES           "\"system\", \"developer\", \"user\", \"assistant\", \"tool\" or \"function\""
#define USER(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define FLAGGED(flag)   "{\"role\":\"assistant\",\"content\":\"a\"," flag "}"

static void messages_and_bare_lists_are_rows(void **state)
{
    (void)state;
    expect("{\"messages\":[" USER("q") "," ASSISTANT("a") "]}", "u:q a:a");
    expect("[" USER("q") "," ASSISTANT("a") "]", "u:q a:a");
    expect("{\"id\":7,\"ner\":[[0,4,\"X\"]],\"messages\":[{\"role\":\"system\",\"content\":\"s\"}"
           "," USER("q") "," ASSISTANT("a") "],\"x\":null}",
           "s:s u:q a:a");
    expect("[" USER("q") "," ASSISTANT("a") "," USER("r") "," ASSISTANT("b") "]",
           "u:q a:a u:r a:b");
    expect("[]", "");
    expect("{\"messages\":[" USER("q") "]}", "");
}

static void content_may_be_text_parts(void **state)
{
    (void)state;
    expect("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},"
           "{\"type\":\"text\",\"text\":\"two\"}]}," ASSISTANT("a") "]",
           "u:onetwo a:a");
    expect("[{\"role\":\"user\",\"content\":[]}," ASSISTANT("a") "]", "u: a:a");
    refuse("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},"
           "{\"type\":\"image_url\"}]}]",
           "messages[0].content[1].type: only \"text\" parts are supported");
    refuse("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"value\":\"x\"}]}]",
           "messages[0].content[0]: \"text\" is missing; the keys are \"type\", \"value\"");
    refuse("[{\"role\":\"user\",\"content\":[\"x\"]}]",
           "messages[0].content[0]: expected {\"type\": \"text\", \"text\": ...}, found a string");
    refuse("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":5}]}]",
           "messages[0].content[0].text: expected a string, found a number");
}

/* The documented rule: null and absent are the role's default, 0/1 and their names count. */
static void loss_flags_in_every_spelling(void **state)
{
    const struct {
        const char *flag, *expected;
    } cases[] = {
        {"\"x\":1", "a:a"},
        {"\"loss\":null", "a:a"},
        {"\"loss\":true", "a+:a"},
        {"\"loss\":false", "a-:a"},
        {"\"loss\":1", "a+:a"},
        {"\"loss\":0", "a-:a"},
        {"\"loss\":\"true\"", "a+:a"},
        {"\"loss\":\"False\"", "a-:a"},
        {"\"loss\":\"TRUE\"", "a+:a"},
        {"\"weight\":0", "a-:a"},
        {"\"weight\":1", "a+:a"},
        {"\"loss\":\"FALSE\"", "a-:a"},
        {"\"loss\":1.0", "a+:a"},
        {"\"weight\":null", "a:a"},
        {"\"loss\":true,\"weight\":1", "a+:a"},
        {"\"loss\":null,\"weight\":0", "a-:a"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char row[160];
        snprintf(row, sizeof row, "[{\"role\":\"assistant\",\"content\":\"a\",%s}]", cases[i].flag);
        expect(row, cases[i].expected);
    }
    expect("[{\"role\":\"user\",\"content\":\"q\",\"loss\":true}," ASSISTANT("a") "]", "u+:q a:a");
    refuse(
        "[" FLAGGED("\"loss\":0.5") "]",
        "messages[0].loss: expected true, false, 0, 1, \"true\", \"false\" or null, found another "
        "number");
    refuse("[" FLAGGED("\"weight\":\"yes\"") "]",
           "messages[0].weight: expected true, false, 0, 1, \"true\", \"false\" or null, found "
           "another string");
    refuse(
        "[" FLAGGED("\"loss\":[]") "]",
        "messages[0].loss: expected true, false, 0, 1, \"true\", \"false\" or null, found a list");
    refuse("[" FLAGGED("\"loss\":true,\"weight\":0") "]",
           "messages[0].loss: contradicts \"weight\", which means the same");
}

static void wrong_shapes_name_the_field_and_the_likely_key(void **state)
{
    (void)state;
    refuse("5", "the row: expected an object with \"messages\", found a number");
    refuse("{}", "the row: \"messages\" is missing; the keys are none");
    refuse("{\"mesages\":[],\"id\":1}",
           "the row: \"messages\" is missing; the keys are \"mesages\", \"id\"; did you mean "
           "\"messages\" for \"mesages\"?");
    refuse("{\"question\":\"q\",\"pos_answer\":{}}",
           "the row: \"messages\" is missing; the keys are \"question\", \"pos_answer\"");
    refuse("{\"messages\":\"x\"}", "messages: expected a list, found a string");
    refuse("[5]", "messages[0]: expected an object with \"role\" and \"content\", found a number");
    refuse("[{\"from\":\"human\",\"value\":\"x\"}]",
           "messages[0]: \"role\" is missing; the keys are \"from\", \"value\"");
    refuse("[" USER("q") ",{\"role\":\"assistant\",\"contents\":\"x\"}]",
           "messages[1]: \"content\" is missing; the keys are \"role\", \"contents\"; did you mean "
           "\"content\" for \"contents\"?");
    refuse("[{\"role\":\"asistant\",\"content\":\"x\"}]",
           "messages[0].role: \"asistant\" is not known, expected " ROLES
           "; did you mean \"assistant\"?");
    refuse("[{\"role\":\"Human\",\"content\":\"x\"}]",
           "messages[0].role: \"Human\" is not known, expected " ROLES);
    refuse("[{\"role\":7,\"content\":\"x\"}]",
           "messages[0].role: expected " ROLES ", found a number");
    refuse("[{\"role\":\"user\",\"content\":null}]",
           "messages[0].content: expected a string or a list of text parts, found null");
    refuse("[{\"role\":\"user\",\"content\":3}]",
           "messages[0].content: expected a string or a list of text parts, found a number");
    expect("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]", "a:");
    refuse("[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]",
           "messages[0].content: expected a string or a list of text parts, found null");
    expect("[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[],\"function_call\":null}]",
           "a:a");
}

static void a_misspelt_flag_is_an_error_and_other_keys_are_ignored(void **state)
{
    (void)state;
    refuse("[" USER("q") "," FLAGGED("\"los\":false") "]",
           "messages[1]: \"los\" is not known; did you mean \"loss\"?");
    refuse("[" FLAGGED("\"Loss\":0") "]",
           "messages[0]: \"Loss\" is not known; did you mean \"loss\"?");
    refuse("[" FLAGGED("\"LOSS\":0") "]",
           "messages[0]: \"LOSS\" is not known; did you mean \"loss\"?");
    refuse("[" FLAGGED("\"wieght\":0") "]",
           "messages[0]: \"wieght\" is not known; did you mean \"weight\"?");
    refuse("[{\"rol\":\"user\",\"content\":\"q\"}]",
           "messages[0]: \"role\" is missing; the keys are \"rol\", \"content\"; did you mean "
           "\"role\" for \"rol\"?");
    expect("[" FLAGGED("\"name\":\"x\",\"tool_call_id\":\"1\",\"context\":\"c\",\"id\":7") "]",
           "a:a");
}

static void foreign_text_in_messages_is_one_printable_line(void **state)
{
    (void)state;
    refuse("[{\"role\":\"\\u001b[31m\\nx\",\"content\":\"x\"}]",
           "messages[0].role: \"?[31m?x\" is not known, expected " ROLES);
    refuse("{\"a\\nb\":1,\"\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9"
           "\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9"
           "\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\":1}",
           "the row: \"messages\" is missing; the keys are \"a?b\", "
           "\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
           "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\"");
}

static void trailing_messages_are_left_out_unless_they_are_asked_for(void **state)
{
    (void)state;
    expect("[" USER("q") "," ASSISTANT("a") "," USER("r") "]", "u:q a:a [1 trailing, 0 empty]");
    expect("[" ASSISTANT("a") "," USER("r") "," USER("s") "]", "a:a [2 trailing, 0 empty]");
    refuse(
        "[" ASSISTANT("a") ",{\"role\":\"user\",\"content\":\"r\",\"loss\":true}]",
        "messages[1].loss: true, but no assistant message follows: the message would be left out");
}

static void two_system_messages_in_a_row_are_an_error(void **state)
{
    (void)state;
    refuse("[{\"role\":\"system\",\"content\":\"x\"},{\"role\":\"system\",\"content\":\"y\"}]",
           "messages[1].role: two system messages in a row; join them into one");
    expect("[{\"role\":\"system\",\"content\":\"x\"}," USER("q") "," ASSISTANT(
               "a") ",{\"role\":\"system\",\"content\":\"y\"}," USER("r") "," ASSISTANT("b") "]",
           "s:x u:q a:a s:y u:r a:b");
}

static void empty_answers_are_not_trained(void **state)
{
    struct buf got = {0};
    ft_error err;
    (void)state;
    expect("[" USER("q") "," ASSISTANT("") "," USER("r") "," ASSISTANT("b") "]",
           "u:q a-: u:r a:b [0 trailing, 1 empty]");
    expect("[" USER("") "," ASSISTANT("b") "]", "u: a:b");
    ASSERT_FAILS(read_row(&got, "[" USER("q") "," ASSISTANT("") "]", true, &err), FT_EFORMAT,
                 "messages[1].content: an assistant message is empty (--strict)");
    ASSERT_OK(
        read_row(&got, "[{\"role\":\"assistant\",\"content\":\"\",\"loss\":false}]", true, &err));
    buf_free(&got);
}

static void a_nul_in_content_is_kept(void **state)
{
    struct buf got = {0};
    ft_error err;
    (void)state;
    ASSERT_OK(read_row(&got, "[" ASSISTANT("x\\u0000y") "]", false, &err));
    assert_int_equal(got.len, sizeof "a:x_y");
    assert_memory_equal(got.data, "a:x\0y", 5);
    buf_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_and_bare_lists_are_rows),
        cmocka_unit_test(content_may_be_text_parts),
        cmocka_unit_test(loss_flags_in_every_spelling),
        cmocka_unit_test(wrong_shapes_name_the_field_and_the_likely_key),
        cmocka_unit_test(a_misspelt_flag_is_an_error_and_other_keys_are_ignored),
        cmocka_unit_test(foreign_text_in_messages_is_one_printable_line),
        cmocka_unit_test(trailing_messages_are_left_out_unless_they_are_asked_for),
        cmocka_unit_test(two_system_messages_in_a_row_are_an_error),
        cmocka_unit_test(empty_answers_are_not_trained),
        cmocka_unit_test(a_nul_in_content_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
