/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/chat.h"

#include "tests/support/check.h"
#include "tests/support/golden_chat.h"

static const char TINY[] = "data-samples/tokenizer-tiny.json";
#define MESSAGE(r, text)                                                                           \
    {                                                                                              \
        .role = r, .content = { text, sizeof(text) - 1 }                                           \
    }

struct fixture {
    struct tok *tok;
    struct chat_template *chat;
};

static int open_smollm2(void **state)
{
    static struct fixture f;
    ft_error err;
    ASSERT_OK(tok_open(&f.tok, TINY, &err));
    ASSERT_OK(chat_template_open(&f.chat, "smollm2", f.tok, &err));
    *state = &f;
    return 0;
}

static int close_smollm2(void **state)
{
    struct fixture *f = *state;
    chat_template_close(f->chat);
    tok_close(f->tok);
    return 0;
}

static void render(struct chat_text *out, void **state, const struct chat_message *m, size_t n,
                   bool add_prompt)
{
    struct fixture *f = *state;
    struct chat_conversation c = {.messages = m, .n = n};
    ft_error err;
    ASSERT_OK(chat_render(out, f->chat, &c, add_prompt, &err));
}

static void assert_text(const struct chat_text *t, const char *expected)
{
    assert_int_equal(t->text.len, strlen(expected));
    assert_memory_equal(t->text.data, expected, t->text.len);
}

static str range_text(const struct chat_text *t, struct tok_range r)
{
    return str_sub(buf_view(&t->text), r.from, r.to);
}

static void a_conversation_without_system_message_gets_the_models_own(void **state)
{
    struct chat_message m[] = {MESSAGE(CHAT_USER, "hi"), MESSAGE(CHAT_ASSISTANT, "yo")};
    struct chat_text t = {0};
    render(&t, state, m, 2, false);
    assert_text(&t, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
                    "Hugging Face<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                    "<|im_start|>assistant\nyo<|im_end|>\n");
    render(&t, state, m, 1, true);
    assert_true(str_ends(buf_view(&t.text), STR("hi<|im_end|>\n<|im_start|>assistant\n")));
    m[0].role = CHAT_SYSTEM;
    render(&t, state, m, 1, false);
    assert_text(&t, "<|im_start|>system\nhi<|im_end|>\n");
    render(&t, state, m, 0, false);
    assert_text(&t, "");
    chat_text_free(&t);
}

static void trained_spans_hold_the_content_and_the_end_token(void **state)
{
    struct chat_message m[] = {
        MESSAGE(CHAT_SYSTEM, "S"), MESSAGE(CHAT_USER, "U"),     MESSAGE(CHAT_ASSISTANT, "A1"),
        MESSAGE(CHAT_USER, "U2"),  MESSAGE(CHAT_ASSISTANT, ""), MESSAGE(CHAT_ASSISTANT, "A3"),
    };
    static const char *const expected[] = {"S<|im_end|>", "A1<|im_end|>", "<|im_end|>"};
    struct chat_text t = {0};
    m[0].loss = CHAT_LOSS_ON;
    m[5].loss = CHAT_LOSS_OFF;
    render(&t, state, m, ARRAY_LEN(m), false);
    assert_int_equal(t.n_trained, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(str_is(range_text(&t, t.trained[i]), expected[i]));
    chat_text_free(&t);
}

static void the_templates_own_text_is_marked_and_content_is_not(void **state)
{
    struct chat_message m[] = {MESSAGE(CHAT_SYSTEM, "<|im_end|>"), MESSAGE(CHAT_USER, "b")};
    struct chat_text t = {0};
    render(&t, state, m, 2, false);
    assert_int_equal(t.n_literal, 3);
    assert_true(str_is(range_text(&t, t.literal[0]), "<|im_start|>system\n"));
    assert_true(str_is(range_text(&t, t.literal[1]), "<|im_end|>\n<|im_start|>user\n"));
    assert_true(str_is(range_text(&t, t.literal[2]), "<|im_end|>\n"));
    chat_text_free(&t);
}

static void content_may_hold_nul(void **state)
{
    struct chat_message m[] = {MESSAGE(CHAT_SYSTEM, "a\0b")};
    struct chat_text t = {0};
    render(&t, state, m, 1, false);
    assert_int_equal(t.text.len, strlen("<|im_start|>system\n<|im_end|>\n") + 3);
    chat_text_free(&t);
}

static void templates_are_found_by_source(void **state)
{
    static const char source[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}\n";
    (void)state;
    assert_string_equal(chat_known_for(str_from(source)), "smollm2");
    assert_null(chat_known_for(STR("{{ messages }}")));
    assert_null(chat_known_for(STR("")));
}

static void an_unknown_name_gets_the_list_and_the_nearest(void **state)
{
    struct fixture *f = *state;
    struct chat_template *t;
    ft_error err;
    ASSERT_FAILS(chat_template_open(&t, "smollm", f->tok, &err), FT_EUSAGE,
                 "--template: 'smollm' is not known; there are auto, smollm2");
    assert_non_null(strstr(err.text, "did you mean 'smollm2'?"));
    assert_null(t);
    for (size_t i = 0; i < chat_known_count(); i++)
        assert_non_null(strstr(err.text, chat_known_name(i)));
    ASSERT_FAILS(chat_template_open(&t, "mistral", f->tok, &err), FT_EFORMAT,
                 "the template 'mistral' ends every turn with the tokenizer's EOS, but the "
                 "tokenizer names none");
}

static void special_tokens_in_content_are_counted(void **state)
{
    struct fixture *f = *state;
    struct chat_message m[] = {MESSAGE(CHAT_USER, "a <|im_end|> b"),
                               MESSAGE(CHAT_ASSISTANT, "<|im_start|><|endoftext|>")};
    struct tok_encoder *e;
    struct chat_text t = {0};
    struct tok_ids ids = {0};
    struct buf mask = {0};
    ft_error err;
    ASSERT_OK(tok_encoder_create(&e, f->tok, &err));
    render(&t, state, m, 2, false);
    ASSERT_OK(chat_encode(&ids, &mask, e, &t, TOK_SPECIALS_LITERAL, &err));
    assert_int_equal(ids.n_special_text, 3);
    size_t n = ids.n;
    ASSERT_OK(chat_encode(&ids, &mask, e, &t, TOK_SPECIALS_PARSE, &err));
    assert_int_equal(ids.n_special_text, 3);
    assert_true(ids.n < n);
    render(&t, state, m, 1, true);
    ASSERT_OK(chat_encode(&ids, &mask, e, &t, TOK_SPECIALS_LITERAL, &err));
    assert_int_equal(ids.n_special_text, 1);
    chat_text_free(&t);
    tok_ids_free(&ids);
    buf_free(&mask);
    tok_encoder_destroy(e);
}

static void a_template_without_tools_refuses_them(void **state)
{
    struct fixture *f = *state;
    struct chat_message m[] = {MESSAGE(CHAT_USER, "q"), MESSAGE(CHAT_ASSISTANT, "")};
    struct chat_conversation c = {.messages = m, .n = 2};
    struct chat_text t = {0};
    struct json_doc *doc;
    ft_error err;
    ASSERT_OK(json_parse(&doc, "x", STR("{\"tool_calls\":[{}]}"), JSON_STRICT, &err));
    m[1].json = json_root(doc);
    ASSERT_FAILS(chat_render(&t, f->chat, &c, false, &err), FT_EFORMAT,
                 "messages[1]: holds tool calls: the template 'smollm2' cannot express tools");
    m[1].json = NULL;
    c.tools = json_get(json_root(doc), "tool_calls");
    ASSERT_FAILS(chat_render(&t, f->chat, &c, false, &err), FT_EFORMAT,
                 "tools: the template 'smollm2' cannot");
    c.tools = NULL;
    m[1].role = CHAT_TOOL;
    ASSERT_FAILS(chat_render(&t, f->chat, &c, false, &err), FT_EFORMAT,
                 "messages[1].role: \"tool\": the template 'smollm2' cannot");
    json_close(doc);
    chat_text_free(&t);
}

static void text_ids_and_mask_equal_the_reference(void **state)
{
    struct fixture *f = *state;
    const int32_t *stops;
    size_t n;
    ft_error err;
    ASSERT_OK(golden_chat_check(&n, f->tok, "tests/golden/chat/tiny.jsonl", &err));
    assert_int_equal(n, 61);
    assert_int_equal(chat_stop_ids(f->chat, &stops), 1);
    assert_int_equal(stops[0], tok_special(f->tok, STR("<|im_end|>")));
    assert_true(chat_is_stop(f->chat, stops[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_without_system_message_gets_the_models_own),
        cmocka_unit_test(trained_spans_hold_the_content_and_the_end_token),
        cmocka_unit_test(the_templates_own_text_is_marked_and_content_is_not),
        cmocka_unit_test(content_may_hold_nul),
        cmocka_unit_test(templates_are_found_by_source),
        cmocka_unit_test(an_unknown_name_gets_the_list_and_the_nearest),
        cmocka_unit_test(special_tokens_in_content_are_counted),
        cmocka_unit_test(a_template_without_tools_refuses_them),
        cmocka_unit_test(text_ids_and_mask_equal_the_reference),
    };
    return cmocka_run_group_tests_name("chat", tests, open_smollm2, close_smollm2);
}
