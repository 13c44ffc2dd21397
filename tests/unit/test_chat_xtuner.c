/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/check.h"

#include "common/file.h"
#include "tools/source.h"

#define GOLDEN "tests/golden/xtuner/"

struct fixture {
    struct tok *tok;
    struct tok_encoder *encoder;
    struct chat_text text;
    struct tok_ids ids;
    struct buf mask;
};

/* The tiny tokenizer with a configuration, two of its words written otherwise. */
static void open_tokenizer(struct tok **out, const char *dir, const char *config,
                           const char *const renamed[2][2])
{
    char path[256];
    struct arena a = {0};
    struct buf text = {0};
    str rest;
    ft_error err;
    ASSERT_OK(file_read_all(&rest, &a, "data-samples/tokenizer-tiny.json", 1 << 20, &err));
    while (rest.len > 0) {
        str line = str_cut(&rest, '"'); /* words stand between quotes */
        for (int i = 0; renamed != NULL && i < 2; i++)
            if (str_is(line, renamed[i][0]))
                line = str_from(renamed[i][1]);
        buf_str(&text, line);
        if (rest.len > 0)
            buf_byte(&text, '"');
    }
    ASSERT_OK(dir_create(dir, &err));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    ASSERT_OK(file_publish(path, text.data, text.len, &err));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    ASSERT_OK(file_publish(path, config, strlen(config), &err));
    ASSERT_OK(tok_open(out, dir, &err));
    buf_free(&text);
    arena_destroy(&a);
}

static int open_fixture(void **state)
{
    static struct fixture f;
    ft_error err;
    open_tokenizer(&f.tok, test_path("tok"),
                   "{\"bos_token\":\"<|im_start|>\",\"eos_token\":\"<|endoftext|>\"}", NULL);
    ASSERT_OK(tok_encoder_create(&f.encoder, f.tok, &err));
    *state = &f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    chat_text_free(&f->text);
    tok_ids_free(&f->ids);
    buf_free(&f->mask);
    tok_encoder_destroy(f->encoder);
    tok_close(f->tok);
    return 0;
}

/* --- against XTuner -------------------------------------------------------------------------- */

static void assert_same_string(const json *a, const json *b, const char *key)
{
    str x = STR(""), y = STR("");
    if (json_get(a, key) != NULL)
        assert_true(json_str(json_get(a, key), &x));
    if (json_get(b, key) != NULL)
        assert_true(json_str(json_get(b, key), &y));
    assert_true(str_eq(x, y));
}

static void assert_same_template(const json *a, const json *b)
{
    static const char *const keys[] = {"SYSTEM", "INSTRUCTION", "SUFFIX", "SEP"};
    bool x = false, y = false;
    const json *p = json_first(json_get(a, "STOP_WORDS")),
               *q = json_first(json_get(b, "STOP_WORDS"));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_same_string(a, b, keys[i]);
    assert_int_equal(json_bool(json_get(a, "SUFFIX_AS_EOS"), &x) && x,
                     json_bool(json_get(b, "SUFFIX_AS_EOS"), &y) && y);
    for (; p != NULL && q != NULL; p = json_next(p), q = json_next(q)) {
        str s, t;
        assert_true(json_str(p, &s) && json_str(q, &t) && str_eq(s, t));
    }
    assert_true(p == NULL && q == NULL);
}

static size_t index_of(str name)
{
    for (size_t i = 0; i < chat_known_count(); i++)
        if (str_is(name, chat_known_name(i)))
            return i;
    fail_msg("%.*s is missing", STR_ARG(name));
    return 0;
}

static void every_template_has_xtuners_strings(void **state)
{
    struct json_doc *golden, *ours;
    size_t n = 0;
    ft_error err;
    (void)state;
    ASSERT_OK(json_load(&golden, GOLDEN "templates.json", JSON_STRICT, 1 << 20, &err));
    for (const json *t = json_first(json_root(golden)); t != NULL; t = json_next(t), n++) {
        struct buf text = {0};
        assert_true(chat_known_strings(&text, index_of(json_key(t))));
        ASSERT_OK(json_parse(&ours, "ours", buf_view(&text), JSON_STRICT, &err));
        assert_same_template(t, json_root(ours));
        json_close(ours);
        buf_free(&text);
    }
    assert_int_equal(n, 27);
    json_close(golden);
}

static ft_status render(struct fixture *f, const char *name, const json *row, bool add_prompt,
                        ft_error *err)
{
    struct conversation c = {0};
    struct chat_template *t = NULL;
    struct chat_conversation view;
    ft_status st = source_read_row(&c, row, &(struct source_options){0}, err);
    if (st == FT_OK)
        st = chat_template_open(&t, name, f->tok, err);
    view = conversation_view(&c);
    if (st == FT_OK)
        st = chat_render(&f->text, t, &view, add_prompt, err);
    if (st == FT_OK)
        st = chat_encode(&f->ids, &f->mask, f->encoder, &f->text, TOK_SPECIALS_LITERAL, err);
    chat_template_close(t);
    conversation_free(&c);
    return st;
}

static void assert_row(struct fixture *f, const json *row, size_t n)
{
    str name, mask;
    size_t i = 0;
    ft_error err;
    ASSERT_OK(json_need_str(&name, row, "template", &err));
    ASSERT_OK(json_need_str(&mask, row, "mask", &err));
    ASSERT_OK(render(f, name.ptr, row, false, &err));
    if (f->ids.n != mask.len)
        fail_msg("row %zu (%s): %zu ids, XTuner has %zu", n, name.ptr, f->ids.n, mask.len);
    for (const json *v = json_first(json_get(row, "ids")); v != NULL; v = json_next(v), i++) {
        int64_t id;
        assert_true(json_i64(v, &id));
        if (id != f->ids.ids[i] || (mask.ptr[i] == '1') != f->mask.data[i])
            fail_msg("row %zu (%s): token %zu is %d, mask %d", n, name.ptr, i, f->ids.ids[i],
                     f->mask.data[i]);
    }
}

static size_t assert_rows(struct fixture *f, const char *path)
{
    struct arena a = {0};
    struct json_doc *doc;
    size_t n = 0;
    str rest;
    ft_error err;
    ASSERT_OK(file_read_all(&rest, &a, path, 1 << 20, &err));
    while (rest.len > 0) {
        ASSERT_OK(json_parse(&doc, "row", str_cut(&rest, '\n'), JSON_STRICT, &err));
        assert_row(f, json_root(doc), n++);
        json_close(doc);
    }
    arena_destroy(&a);
    return n;
}

static void ids_and_masks_are_xtuners(void **state)
{
    assert_int_equal(assert_rows(*state, GOLDEN "tiny.jsonl"), 247);
}

static void turns_without_a_template_are_xtuners(void **state)
{
    assert_int_equal(assert_rows(*state, GOLDEN "plain.jsonl"), 40);
}

/* --- rules ----------------------------------------------------------------------------------- */

static ft_status render_text(struct fixture *f, const char *name, const char *messages,
                             bool add_prompt, ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_parse(&doc, "row", str_from(messages), JSON_STRICT, err));
    ft_status st = render(f, name, json_root(doc), add_prompt, err);
    json_close(doc);
    return st;
}

static void assert_rendered(struct fixture *f, const char *name, const char *messages,
                            const char *expected)
{
    ft_error err;
    ASSERT_OK(render_text(f, name, messages, false, &err));
    str got = buf_view(&f->text.text);
    if (!str_is(got, expected))
        fail_msg("%s: \"%.*s\"", name, STR_ARG(got));
}

#define SYSTEM(text)    "{\"role\":\"system\",\"content\":\"" text "\"}"
#define USER(text)      "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

static void text_is_filled_in_once(void **state)
{
    assert_rendered(*state, "chatglm2",
                    "[" SYSTEM("{input}") "," USER("{round} {system}") "," ASSISTANT(
                        "{input}") "," USER("{{}}") "," ASSISTANT("b") "]",
                    "{input}\n[Round 1]\n\n问：{round} {system}\n\n答：{input}\n\n"
                    "[Round 2]\n\n问：{{}}\n\n答：b\n\n");
}

static void developer_messages_are_system_messages(void **state)
{
    assert_rendered(*state, "mistral",
                    "[{\"role\":\"developer\",\"content\":\"s\"}," USER("q") "," ASSISTANT("a") "]",
                    "[INST] s [/INST]\n[INST] q [/INST]a\n");
}

static void an_empty_system_message_is_none(void **state)
{
    assert_rendered(*state, "vicuna", "[" SYSTEM("") "," USER("q") "," ASSISTANT("a") "]",
                    "USER: q ASSISTANT:a\n");
    assert_rendered(*state, "minicpm", "[" SYSTEM("") "," USER("q") "," ASSISTANT("a") "]",
                    "<用户> q <AI>a\n");
}

static void a_flag_on_a_question_trains_its_content(void **state)
{
    struct fixture *f = *state;
    assert_rendered(f, "mistral",
                    "[{\"role\":\"user\",\"content\":\"q\",\"loss\":true}," ASSISTANT("a") "]",
                    "[INST] q [/INST]a\n");
    assert_int_equal(f->text.n_trained, 2);
    assert_int_equal(f->text.trained[0].from, strlen("[INST] "));
    assert_int_equal(f->text.trained[0].to, strlen("[INST] q"));
}

static void what_a_template_cannot_say_is_refused(void **state)
{
    static const struct {
        const char *name, *messages, *error;
    } cases[] = {
        {"minicpm", "[" SYSTEM("s") "," USER("q") "," ASSISTANT("a") "]",
         "messages[0].role: \"system\": the template 'minicpm' has no place for it"},
        {"mistral", "[" USER("q") "," USER("r") "," ASSISTANT("a") "]",
         "messages[1].role: a second user message before an answer"},
        {"mistral", "[" SYSTEM("s") "," USER("q") "," SYSTEM("t") "," ASSISTANT("a") "]",
         "messages[2].role: a second system message before an answer"},
        {"mistral", "[{\"role\":\"tool\",\"content\":\"x\"}," ASSISTANT("a") "]",
         "messages[0].role: \"tool\": the template 'mistral' cannot express tools"},
        {"mistral", "{\"conversation\":[{\"input\":\"q\",\"output\":\"a\",\"sep\":\"x\"}]}",
         "messages[1]: \"sep\" is decided by the template 'mistral'"},
        {"mistral",
         "{\"conversation\":[{\"input\":\"q\",\"output\":\"a\",\"need_eos_token\":false}]}",
         "messages[1]: \"need_eos_token\" is decided by the template 'mistral'; leave it out, or "
         "use "
         "--template plain"},
        {"mistral",
         "[{\"role\":\"assistant\",\"content\":\"x\",\"loss\":true}," USER("q") "," ASSISTANT(
             "a") "]",
         "messages[0].loss: true, but the template 'mistral' leaves out"},
    };
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ASSERT_FAILS(render_text(*state, cases[i].name, cases[i].messages, false, &err), FT_EFORMAT,
                     cases[i].error);
}

static void leading_answers_are_left_out_and_counted(void **state)
{
    struct fixture *f = *state;
    assert_rendered(f, "default",
                    "[" ASSISTANT("x") "," ASSISTANT("y") "," USER("q") "," ASSISTANT("a") "]",
                    "<|User|>:q\n<|Bot|>:a\n");
    assert_int_equal(f->text.n_skipped, 2);
    assert_rendered(f, "default", "[" SYSTEM("s") "," ASSISTANT("a") "]",
                    "<|System|>:s\n<|User|>:\n<|Bot|>:a\n");
    assert_int_equal(f->text.n_skipped, 0);
}

/* A prompt is what stands in front of the answer in a training sample. */
static void a_prompt_ends_where_the_answer_starts(void **state)
{
    struct fixture *f = *state;
    struct chat_message m[] = {
        {.role = CHAT_SYSTEM, .content = STR("s")},    {.role = CHAT_USER, .content = STR("q")},
        {.role = CHAT_ASSISTANT, .content = STR("a")}, {.role = CHAT_USER, .content = STR("r")},
        {.role = CHAT_ASSISTANT, .content = STR("b")},
    };
    ft_error err;
    for (size_t i = 0; i < chat_known_count(); i++) {
        struct chat_template *t;
        struct tok_ids prompt = {0};
        struct buf strings = {0};
        const char *name = chat_known_name(i);
        if (!chat_known_strings(&strings, i))
            continue; /* the tokenizer carries no template */
        bool no_system = strcmp(name, "minicpm") == 0 || strcmp(name, "plain") == 0;
        ASSERT_OK(chat_template_open(&t, name, f->tok, &err));
        struct chat_conversation c = {.messages = m + no_system, .n = 4 - no_system};
        ASSERT_OK(chat_render(&f->text, t, &c, true, &err));
        ASSERT_OK(chat_encode(&prompt, &f->mask, f->encoder, &f->text, TOK_SPECIALS_LITERAL, &err));
        c.n++;
        ASSERT_OK(chat_render(&f->text, t, &c, false, &err));
        ASSERT_OK(chat_encode(&f->ids, &f->mask, f->encoder, &f->text, TOK_SPECIALS_LITERAL, &err));
        assert_true(prompt.n < f->ids.n);
        assert_memory_equal(prompt.ids, f->ids.ids, prompt.n * sizeof *prompt.ids);
        assert_int_equal(f->mask.data[prompt.n], 1);
        tok_ids_free(&prompt);
        buf_free(&strings);
        chat_template_close(t);
    }
}

/* The ids in front of the first turn of a template with EOS. */
static size_t leading_ids(int32_t ids[4], const struct tok *tok)
{
    struct chat_message m[] = {{.role = CHAT_USER, .content = STR("q")},
                               {.role = CHAT_ASSISTANT, .content = STR("a")}};
    struct chat_text text = {0};
    struct chat_template *t;
    size_t n = 0;
    ft_error err;
    ASSERT_OK(chat_template_open(&t, "default", tok, &err));
    ASSERT_OK(
        chat_render(&text, t, &(struct chat_conversation){.messages = m, .n = 2}, false, &err));
    for (size_t i = 0; i < text.n_cuts && text.cuts[i].at == 0; i++)
        if (text.cuts[i].id >= 0)
            ids[n++] = text.cuts[i].id;
    chat_text_free(&text);
    chat_template_close(t);
    return n;
}

static void some_tokenizers_have_a_bos_of_their_own(void **state)
{
    static const char *const chatglm[2][2] = {{"<|im_start|>", "[gMASK]"}, {"<|im_end|>", "sop"}};
    int32_t ids[4];
    struct tok *tok;
    (void)state;
    open_tokenizer(&tok, test_path("none"), "{\"eos_token\":\"<|im_end|>\"}", NULL);
    assert_int_equal(leading_ids(ids, tok), 0);
    tok_close(tok);
    /* Qwen's: its files may name a BOS that its models never see. */
    open_tokenizer(&tok, test_path("qwen"),
                   "{\"bos_token\":\"<|endoftext|>\",\"eos_token\":\"<|im_end|>\"}", NULL);
    assert_int_equal(leading_ids(ids, tok), 0);
    tok_close(tok);
    open_tokenizer(&tok, test_path("chatglm"),
                   "{\"bos_token\":\"<|endoftext|>\",\"eos_token\":\"<|endoftext|>\"}", chatglm);
    assert_int_equal(leading_ids(ids, tok), 2);
    assert_int_equal(ids[0], tok_special(tok, STR("[gMASK]")));
    assert_int_equal(ids[1], tok_special(tok, STR("sop")));
    tok_close(tok);
}

/* --- users' own ------------------------------------------------------------------------------ */

static ft_status open_file(struct chat_template **out, struct fixture *f, const char *source,
                           ft_error *err)
{
    const char *path = test_path("mine.json");
    FT_TRY(file_publish(path, source, strlen(source), err));
    return chat_template_open(out, path, f->tok, err);
}

static void a_users_file_has_the_same_keys(void **state)
{
    struct fixture *f = *state;
    struct chat_message m[] = {{.role = CHAT_SYSTEM, .content = STR("s")},
                               {.role = CHAT_USER, .content = STR("q")},
                               {.role = CHAT_ASSISTANT, .content = STR("a")}};
    struct chat_template *t, *restored;
    const int32_t *ids;
    const str *words;
    ft_error err;
    ASSERT_OK(open_file(&t, f,
                        "{\"SYSTEM\": \"{{{system}}}\", // the system message\n"
                        "\"INSTRUCTION\": \"{round}: {input}>\", \"SUFFIX\": \"<|im_end|>\",\n"
                        "\"SUFFIX_AS_EOS\": true, \"SEP\": null, \"STOP_WORDS\": "
                        "[\"<|im_end|>\", \"###\"]}",
                        &err));
    assert_string_equal(chat_template_name(t), "mine.json");
    ASSERT_OK(chat_template_restore(&restored, "mine.json", chat_template_source(t), f->tok, &err));
    chat_template_close(t);
    ASSERT_OK(chat_render(&f->text, restored, &(struct chat_conversation){.messages = m, .n = 3},
                          false, &err));
    assert_true(str_is(buf_view(&f->text.text), "{s}1: q>a<|im_end|>"));
    assert_int_equal(chat_stop_ids(restored, &ids), 1);
    assert_int_equal(ids[0], tok_special(f->tok, STR("<|im_end|>")));
    assert_int_equal(chat_stop_words(restored, &words), 1);
    assert_true(str_is(words[0], "###"));
    chat_template_close(restored);
}

static void broken_files_are_explained(void **state)
{
    static const struct {
        const char *source, *error;
    } cases[] = {
        {"", "is empty"},
        {"[]", "mine.json: expected an object with \"INSTRUCTION\", found a list"},
        {"{}", "mine.json: INSTRUCTION is missing"},
        {"{\"INSTRUCTION\": 5}", "mine.json: INSTRUCTION: expected a string, found a number"},
        {"{\"INSTRUCTION\": \"x\"}", "INSTRUCTION: {input} must be in it once, found 0 times"},
        {"{\"INSTRUCTION\": \"{input}{input}\"}", "must be in it once, found 2 times"},
        {"{\"INSTRUCTION\": \"{inptu}\"}", "INSTRUCTION: a brace behind byte 0 is none of {input} "
                                           "and {round}; write {{ or }} for a brace that stays"},
        {"{\"INSTRUCTION\": \"{input} {system}\"}", "a brace behind byte 7 is none of"},
        {"{\"INSTRUCTION\": \"{input}\", \"SYSTEM\": \"{system} {round}\"}",
         "SYSTEM: a brace behind byte 8 is none of {system};"},
        {"{\"INSTRUCTION\": \"{input} }\"}", "a brace behind byte 7 is none of"},
        {"{\"INSTRUCTON\": \"{input}\"}",
         "\"INSTRUCTON\" is not known; there are SYSTEM, INSTRUCTION, SUFFIX, SUFFIX_AS_EOS, SEP "
         "and STOP_WORDS; did you mean INSTRUCTION?"},
        {"{\"INSTRUCTION\": \"{input}\", \"SUFFIX_AS_EOS\": true}", "there is no SUFFIX"},
        {"{\"INSTRUCTION\": \"{input}\", \"SUFFIX_AS_EOS\": 1}", "SUFFIX_AS_EOS"},
        {"{\"INSTRUCTION\": \"{input}\", \"STOP_WORDS\": \"x\"}",
         "STOP_WORDS: expected a list of strings, found a string"},
        {"{\"INSTRUCTION\": \"{input}\", \"STOP_WORDS\": [\"\"]}", "an empty word"},
        {"{\"INSTRUCTION\": \"{input}\\u0000\"}", "INSTRUCTION: holds \\u0000"},
        {"{\"INSTRUCTION\": \"{input}\"", "mine.json: JSON: line 1"},
    };
    struct chat_template *t;
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ASSERT_FAILS(open_file(&t, *state, cases[i].source, &err), FT_EFORMAT, cases[i].error);
        assert_null(t);
    }
    ASSERT_FAILS(
        chat_template_open(&t, test_path("none.json"), ((struct fixture *)*state)->tok, &err),
        FT_EIO, "none.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_has_xtuners_strings),
        cmocka_unit_test(ids_and_masks_are_xtuners),
        cmocka_unit_test(turns_without_a_template_are_xtuners),
        cmocka_unit_test(text_is_filled_in_once),
        cmocka_unit_test(developer_messages_are_system_messages),
        cmocka_unit_test(an_empty_system_message_is_none),
        cmocka_unit_test(a_flag_on_a_question_trains_its_content),
        cmocka_unit_test(what_a_template_cannot_say_is_refused),
        cmocka_unit_test(leading_answers_are_left_out_and_counted),
        cmocka_unit_test(a_prompt_ends_where_the_answer_starts),
        cmocka_unit_test(some_tokenizers_have_a_bos_of_their_own),
        cmocka_unit_test(a_users_file_has_the_same_keys),
        cmocka_unit_test(broken_files_are_explained),
    };
    return cmocka_run_group_tests_name("chat_xtuner", tests, open_fixture, close_fixture);
}
