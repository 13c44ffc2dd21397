/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/source.h"

#include "common/file.h"
#include "tests/support/check.h"

/* "u:text a+:text": first letter of the role, + or - when the loss is set, then the content. */
static ft_status read_as(struct buf *out, const char *text, const struct source_options *o,
                         ft_error *failure)
{
    struct conversation c = {0};
    struct json_doc *doc;
    ft_error err;
    buf_clear(out);
    ASSERT_OK(json_parse(&doc, "row", str_from(text), JSON_STRICT, &err));
    ft_status st = source_read_row(&c, json_root(doc), o, failure);
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

static ft_status read_row(struct buf *out, const char *text, bool strict, ft_error *failure)
{
    return read_as(out, text, &(struct source_options){.strict = strict}, failure);
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
    expect("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"value\":\"x\"}]}," ASSISTANT(
               "a") "]",
           "u:x a:a");
    refuse(
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"txt\":\"x\"}]}]",
        "messages[0].content[0]: \"text\" is missing; the keys are \"type\", \"txt\"; did you mean "
        "\"text\" for \"txt\"?");
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
    refuse(
        "{}",
        "the row: none of \"messages\", \"conversations\", \"conversation\" and \"instruction\" is "
        "there; the keys are none (other keys are named with --columns)");
    refuse(
        "{\"mesages\":[],\"id\":1}",
        "the row: none of \"messages\", \"conversations\", \"conversation\" and \"instruction\" is "
        "there; the keys are \"mesages\", \"id\"; did you mean "
        "\"messages\" for \"mesages\"? (other keys are named with --columns)");
    refuse(
        "{\"question\":\"q\",\"pos_answer\":{}}",
        "the row: none of \"messages\", \"conversations\", \"conversation\" and \"instruction\" is "
        "there; the keys are \"question\", \"pos_answer\" (other keys are named with --columns)");
    refuse("{\"messages\":\"x\"}", "messages: expected a list of messages, found a string");
    refuse("[5]", "messages[0]: expected an object with \"role\" and \"content\", found a number");
    refuse("[{\"who\":\"human\",\"value\":\"x\"}]",
           "messages[0]: \"role\" is missing; the keys are \"who\", \"value\"");
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
    refuse(
        "{\"a\\nb\":1,\"\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9"
        "\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9"
        "\\u00e9\\u00e9\\u00e9\\u00e9\\u00e9\":1}",
        "the row: none of \"messages\", \"conversations\", \"conversation\" and \"instruction\" is "
        "there; the keys are \"a?b\", "
        "\"\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
        "\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\" (other keys are named with "
        "--columns)");
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
           "messages[1].role: two system messages in a row; join them into one "
           "(--merge-consecutive does)");
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

/* --- other shapes ---------------------------------------------------------------------------- */

static struct source_options with_rows(const char *rows, const char *columns)
{
    static const char *items[8];
    static char text[256];
    struct opt_list list = {.items = items};
    struct source_options o = {0};
    ft_error err;
    snprintf(text, sizeof text, "%s", columns == NULL ? "" : columns);
    for (char *item = strtok(text, ","); item != NULL; item = strtok(NULL, ","))
        items[list.n++] = item;
    ASSERT_OK(source_set_rows(&o, rows, &list, &err));
    return o;
}

static void expect_as(const struct source_options *o, const char *row, const char *expected)
{
    struct buf got = {0};
    ft_error err;
    ASSERT_OK(read_as(&got, row, o, &err));
    assert_string_equal((const char *)got.data, expected);
    buf_free(&got);
}

static void refuse_as(const struct source_options *o, const char *row, const char *message)
{
    struct buf got = {0};
    ft_error err = {0};
    assert_int_equal(read_as(&got, row, o, &err), FT_EFORMAT);
    assert_string_equal(err.text, message);
    buf_free(&got);
}

#define FROM(who, text) "{\"from\":\"" who "\",\"value\":\"" text "\"}"

static void sharegpt_rows(void **state)
{
    (void)state;
    expect("{\"conversations\":[" FROM("human", "q") "," FROM("gpt", "a") "]}", "u:q a:a");
    expect("[" FROM("system", "s") "," FROM("user", "q") "," FROM("assistant", "a") "]",
           "s:s u:q a:a");
    expect("{\"conversations\":[" FROM("human", "q") "," FROM("chatgpt", "a") "," FROM(
               "observation", "t") "," FROM("bing", "b") "],\"system\":\"s\",\"id\":1}",
           "s:s u:q a:a t:t a:b");
    expect("{\"conversations\":[" USER("q") "," ASSISTANT("a") "],\"system\":null}", "u:q a:a");
    expect("{\"messages\":null,\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},"
           "{\"from\":\"gpt\",\"value\":\"a\",\"weight\":0},{\"from\":\"gpt\",\"value\":\"b\"}]}",
           "u:q a-:a a:b");
    refuse(
        "{\"conversations\":[" FROM("gtp", "a") "]}",
        "conversations[0].from: \"gtp\" is not known, expected \"system\", \"human\", \"gpt\" or "
        "\"tool\"; did you mean \"gpt\"?");
    refuse("{\"conversations\":[{\"from\":\"human\",\"vale\":\"q\"}]}",
           "conversations[0]: \"value\" is missing; the keys are \"from\", \"vale\"; did you mean "
           "\"value\" for \"vale\"?");
    refuse("{\"conversations\":[{\"from\":\"human\",\"value\":null}]}",
           "conversations[0].value: expected a string or a list of text parts, found null");
    refuse("{\"conversations\":{}}", "conversations: expected a list of messages, found an object");
    refuse("{\"conversations\":[],\"system\":5}",
           "the row.system: expected a string, found a number");
    refuse("{\"conversations\":[" FROM("system", "t") "],\"system\":\"s\"}",
           "messages[1].role: two system messages in a row; join them into one "
           "(--merge-consecutive does)");
}

static void xtuner_rows(void **state)
{
    (void)state;
    expect("{\"conversation\":[{\"system\":\"s\",\"input\":\"q\",\"output\":\"a\"},"
           "{\"input\":\"r\",\"output\":\"b\",\"output_with_loss\":false},"
           "{\"system\":\"\",\"input\":null,\"output\":\"c\",\"output_with_loss\":null}]}",
           "s:s u:q a:a u:r a-:b u: a:c");
    expect("{\"conversation\":[]}", "");
    refuse(
        "{\"conversation\":[{\"input\":\"q\",\"ouput\":\"a\"}]}",
        "conversation[0]: \"output\" is missing; the keys are \"input\", \"ouput\"; did you mean "
        "\"output\" for \"ouput\"?");
    refuse("{\"conversation\":[{\"input\":7,\"output\":\"a\"}]}",
           "conversation[0].input: expected a string, found a number");
    refuse("{\"conversation\":[{\"output\":\"a\",\"output_with_los\":false}]}",
           "conversation[0]: \"output_with_los\" is not known; did you mean \"output_with_loss\"?");
    refuse("{\"conversation\":[{\"output\":\"a\",\"need_eos_token\":0}]}",
           "conversation[0].need_eos_token: expected true or false, found a number");
    refuse("{\"conversation\":\"x\"}", "conversation: expected a list of turns, found a string");
    refuse("{\"conversation\":[1]}",
           "conversation[0]: expected an object with \"input\" and \"output\", found a number");
}

static void alpaca_rows(void **state)
{
    (void)state;
    expect("{\"instruction\":\"i\",\"input\":\"j\",\"output\":\"o\"}", "u:i\nj a:o");
    expect("{\"instruction\":\"i\",\"input\":\"\",\"output\":\"o\"}", "u:i\n a:o");
    expect("{\"instruction\":\"i\",\"input\":null,\"output\":\"o\"}", "u:i a:o");
    expect("{\"instruction\":\"i\",\"output\":\"o\",\"system\":\"s\",\"history\":[[\"q\",\"a\"],"
           "[\"r\",\"b\"]]}",
           "s:s u:q a:a u:r a:b u:i a:o");
    expect("{\"instruction\":\"i\",\"output\":\"<nooutput>\"}", "");
    refuse("{\"instruction\":\"i\",\"ouput\":\"o\"}",
           "the row: \"output\" is missing; the keys are \"instruction\", \"ouput\"; did you mean "
           "\"output\" for \"ouput\"?");
    refuse("{\"instruction\":\"i\",\"output\":7}",
           "the row.output: expected a string, found a number");
    refuse("{\"instruction\":\"i\",\"output\":\"o\",\"history\":[[\"q\",\"a\"],[\"r\"]]}",
           "history[1]: expected [question, answer], two strings");
    refuse("{\"instruction\":\"i\",\"output\":\"o\",\"history\":\"x\"}",
           "history: expected a list of [question, answer], found a string");
}

static void columns_are_named(void **state)
{
    struct source_options o = with_rows(NULL, "user=q,user=context,assistant=answer,system=sys");
    (void)state;
    expect_as(&o, "{\"q\":\"a\",\"context\":\"b\",\"answer\":\"c\",\"sys\":\"d\"}",
              "s:d u:a\nb a:c");
    expect_as(&o, "{\"q\":\"a\",\"answer\":\"c\"}", "u:a a:c");
    refuse_as(&o, "{\"qq\":\"a\",\"answer\":\"c\"}",
              "the row: \"q\" is missing; the keys are \"qq\", \"answer\"; did you mean \"q\" for "
              "\"qq\"?");
    refuse_as(&o, "[]", "the row: expected an object with \"q\", found a list");
    o = with_rows("auto", "messages=dialog");
    expect_as(&o, "{\"dialog\":[" USER("q") "," ASSISTANT("a") "],\"messages\":5}", "u:q a:a");
    expect_as(&o, "[" USER("q") "," ASSISTANT("a") "]", "u:q a:a");
    o = with_rows(NULL, "turns=t");
    expect_as(&o, "{\"t\":[{\"input\":\"q\",\"output\":\"a\"}]}", "u:q a:a");
    o = with_rows("openorca", NULL);
    expect_as(&o, "{\"system_prompt\":\"s\",\"question\":\"q\",\"response\":\"a\"}", "s:s u:q a:a");
    o = with_rows("sql", NULL);
    expect_as(&o, "{\"context\":\"c\",\"question\":\"q\",\"answer\":\"a\"}",
              "s:If you are an expert in SQL, please generate a good SQL Query for Question based "
              "on the CREATE TABLE statement.\n u:c\nq a:a");
}

static void a_row_of_two_shapes_needs_a_word(void **state)
{
    static const char row[] =
        "{\"messages\":[" USER("q") "," ASSISTANT("a") "],\"instruction\":\"i\",\"output\":\"o\"}";
    struct source_options o = with_rows("alpaca", NULL);
    (void)state;
    refuse(row,
           "the row: has both \"messages\" and \"instruction\"; say which with --rows messages "
           "or --rows alpaca");
    expect_as(&o, row, "u:i a:o");
    o = with_rows("messages", NULL);
    expect_as(&o, row, "u:q a:a");
}

static void wrong_row_options_are_explained(void **state)
{
    static const char *const bad[] = {"question", "user=", "answer=x", "=x"};
    struct source_options o;
    struct opt_list none = {0}, one = {.n = 1};
    ft_error err;
    (void)state;
    ASSERT_FAILS(source_set_rows(&o, "alpca", &none, &err), FT_EUSAGE,
                 "--rows: 'alpca' is not known; there are auto, messages, conversations");
    assert_non_null(strstr(err.text, "did you mean 'alpaca'?"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const char *items[] = {bad[i]};
        one.items = items;
        ASSERT_FAILS(source_set_rows(&o, "auto", &one, &err), FT_EUSAGE,
                     "expected ROLE=COLUMN with a role of messages, turns, system, history, user "
                     "or assistant");
    }
    const char *half[] = {"user=x"}, *both[] = {"messages=x", "turns=y"},
               *twice[] = {"assistant=x", "assistant=y"},
               *many[] = {"user=1", "user=2", "user=3", "user=4", "user=5"};
    ASSERT_FAILS(source_set_rows(&o, NULL, &(struct opt_list){half, 1}, &err), FT_EUSAGE,
                 "name messages, or turns, or both user and assistant");
    ASSERT_FAILS(source_set_rows(&o, NULL, &(struct opt_list){both, 2}, &err), FT_EUSAGE,
                 "name messages, or turns");
    ASSERT_FAILS(source_set_rows(&o, NULL, &(struct opt_list){twice, 2}, &err), FT_EUSAGE,
                 "'assistant=y': too many columns for assistant");
    ASSERT_FAILS(source_set_rows(&o, NULL, &(struct opt_list){many, 5}, &err), FT_EUSAGE,
                 "'user=5': too many columns for user");
    ASSERT_FAILS(source_set_rows(&o, "alpaca", &(struct opt_list){half, 1}, &err), FT_EUSAGE,
                 "--rows and --columns exclude each other");
}

/* The turns of the golden row against messages; an empty system text is none. */
static void assert_turns(const struct conversation *c, const json *turns)
{
    static const char *const keys[] = {"system", "input", "output"};
    static const enum chat_role roles[] = {CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT};
    size_t n = 0;
    for (const json *t = json_first(turns); t != NULL; t = json_next(t))
        for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
            str text;
            if (!json_str(json_get(t, keys[k]), &text) || (k == 0 && text.len == 0))
                continue;
            assert_true(n < c->n);
            assert_int_equal(c->messages[n].role, roles[k]);
            assert_true(str_eq(c->messages[n++].content, text));
        }
    assert_int_equal(n, c->n);
}

static void named_rows_are_read_as_xtuners_map_functions_do(void **state)
{
    struct conversation c = {0};
    struct arena a = {0};
    struct json_doc *doc;
    size_t n = 0;
    str rest, name;
    ft_error err;
    (void)state;
    ASSERT_OK(file_read_all(&rest, &a, "tests/golden/xtuner/rows.jsonl", 1 << 20, &err));
    for (; rest.len > 0; n++) {
        ASSERT_OK(json_parse(&doc, "row", str_cut(&rest, '\n'), JSON_STRICT, &err));
        ASSERT_OK(json_need_str(&name, json_root(doc), "rows", &err));
        struct source_options o = with_rows(name.ptr, NULL);
        ASSERT_OK(source_read_row(&c, json_get(json_root(doc), "row"), &o, &err));
        assert_turns(&c, json_get(json_root(doc), "turns"));
        json_close(doc);
    }
    assert_int_equal(n, 48);
    conversation_free(&c);
    arena_destroy(&a);
}

/* --- what is trained ------------------------------------------------------------------------- */

#define THREE_TURNS                                                                                \
    "[" USER("q") "," ASSISTANT("a") "," USER("r") "," ASSISTANT("b") "," USER("s") "," ASSISTANT( \
        "c") "]"

static void answers_are_chosen(void **state)
{
    static const struct {
        const char *rule, *expected;
    } cases[] = {
        {"assistant", "u:q a:a u:r a:b u:s a:c"},
        {"last", "u-:q a-:a u-:r a-:b u:s a:c"},
        {"flagged", "u:q a-:a u:r a-:b u:s a-:c"},
        {"from-turn:1", "u:q a:a u:r a:b u:s a:c"},
        {"from-turn:2", "u-:q a-:a u:r a:b u:s a:c"},
        {"from-turn:9", "u-:q a-:a u-:r a-:b u-:s a-:c"},
    };
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct source_options o = {0};
        ASSERT_OK(source_set_train_on(&o, cases[i].rule, &err));
        expect_as(&o, THREE_TURNS, cases[i].expected);
    }
}

static void a_flag_in_the_row_is_never_overruled_into_training(void **state)
{
    static const char row[] = "[" USER("q") "," FLAGGED("\"loss\":true") "," FLAGGED(
        "\"loss\":false") "," ASSISTANT("c") "]";
    struct source_options o = {.train_on = TRAIN_ON_FLAGGED};
    (void)state;
    expect_as(&o, row, "u:q a+:a a-:a a-:c");
    o = (struct source_options){.train_on = TRAIN_ON_FROM, .from_turn = 2};
    expect_as(&o, row, "u-:q a-:a a-:a a:c");
}

static void unknown_rules_are_explained(void **state)
{
    static const char *const bad[] = {"all", "from-turn:0", "from-turn:", "from-turn:x", "Last"};
    struct source_options o;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ASSERT_FAILS(source_set_train_on(&o, bad[i], &err), FT_EUSAGE,
                     "is not known; there are assistant, last, flagged, and from-turn:N");
    ASSERT_OK(source_set_train_on(&o, NULL, &err));
    assert_int_equal(o.train_on, TRAIN_ON_ASSISTANT);
}

static void neighbours_are_joined_on_request(void **state)
{
    struct source_options o = {.merge = true};
    (void)state;
    expect_as(
        &o,
        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"system\",\"content\":\"t\"}," USER(
            "q") "," USER("") "," USER("r") "," ASSISTANT("a") "," ASSISTANT("b") "]",
        "s:st u:qr a:a a:b");
    refuse_as(
        &o,
        "[" USER("q") ",{\"role\":\"user\",\"content\":\"r\",\"loss\":true}," ASSISTANT("a") "]",
        "messages[1].loss: differs from the message before, to which this one is joined");
}

static void tools_are_kept_for_the_template(void **state)
{
    struct conversation c = {0};
    struct json_doc *doc;
    struct source_options o = {0};
    ft_error err;
    (void)state;
    ASSERT_OK(
        json_parse(&doc, "row",
                   STR("{\"tools\":[{\"type\":\"function\"}],\"messages\":[{\"role\":\"user\","
                       "\"content\":\"q\",\"name\":\"Ann\"},{\"role\":\"assistant\",\"content\":"
                       "null,\"tool_calls\":[{}]},{\"role\":\"tool\",\"content\":\"4\"},"
                       "{\"role\":\"assistant\",\"content\":\"four\"}]}"),
                   JSON_STRICT, &err));
    ASSERT_OK(source_read_row(&c, json_root(doc), &o, &err));
    struct chat_conversation view = conversation_view(&c);
    assert_int_equal(view.n, 4);
    assert_int_equal(json_count(view.tools), 1);
    assert_ptr_equal(view.row, json_root(doc));
    assert_true(str_is(view.messages[0].name, "Ann"));
    assert_non_null(json_get(view.messages[1].json, "tool_calls"));
    assert_int_equal(view.messages[2].role, CHAT_TOOL);
    json_close(doc);
    ASSERT_OK(json_parse(&doc, "row",
                         STR("{\"tools\":\"[{\\\"type\\\":\\\"function\\\"}]\",\"conversations\":["
                             "{\"from\":\"gpt\",\"value\":\"a\"}]}"),
                         JSON_STRICT, &err));
    ASSERT_OK(source_read_row(&c, json_root(doc), &o, &err));
    assert_int_equal(json_count(conversation_view(&c).tools), 1);
    json_close(doc);
    conversation_free(&c);
    refuse("{\"messages\":[],\"tools\":{}}",
           "the row.tools: expected a list of tools, found an object");
    refuse("{\"messages\":[],\"tools\":\"{}\"}",
           "the row.tools: expected a list of tools, found an object");
    refuse("{\"messages\":[],\"tools\":\"[\"}",
           "the row.tools: line 1, column 2: not JSON: the text ends too early");
    expect("{\"messages\":[" USER("q") "," ASSISTANT("a") "],\"tools\":\" \"}", "u:q a:a");
    refuse("{\"messages\":[],\"functions\":[{}]}",
           "the row.functions: OpenAI's older form is not supported; write \"tools\"");
    refuse("[{\"role\":\"user\",\"content\":\"q\",\"name\":5}]",
           "messages[0].name: expected a string, found a number");
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
        cmocka_unit_test(sharegpt_rows),
        cmocka_unit_test(xtuner_rows),
        cmocka_unit_test(alpaca_rows),
        cmocka_unit_test(columns_are_named),
        cmocka_unit_test(named_rows_are_read_as_xtuners_map_functions_do),
        cmocka_unit_test(a_row_of_two_shapes_needs_a_word),
        cmocka_unit_test(wrong_row_options_are_explained),
        cmocka_unit_test(answers_are_chosen),
        cmocka_unit_test(a_flag_in_the_row_is_never_overruled_into_training),
        cmocka_unit_test(unknown_rules_are_explained),
        cmocka_unit_test(neighbours_are_joined_on_request),
        cmocka_unit_test(tools_are_kept_for_the_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
