/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/chat.h"

#include "tests/support/check.h"
#include "tests/support/golden_chat.h"

static const char TINY[] = "data-samples/tokenizer-tiny.json";
#define MESSAGE(role, text)                                                                        \
    {                                                                                              \
        role, CHAT_LOSS_DEFAULT,                                                                   \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }

static const struct chat_template *smollm2(void)
{
    const struct chat_template *t = chat_template_find("smollm2");
    assert_non_null(t);
    return t;
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
    ft_error err;
    (void)state;
    ASSERT_OK(chat_render(&t, smollm2(), m, 2, false, &err));
    assert_text(&t, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
                    "Hugging Face<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
                    "<|im_start|>assistant\nyo<|im_end|>\n");
    ASSERT_OK(chat_render(&t, smollm2(), m, 1, true, &err));
    assert_true(str_ends(buf_view(&t.text), STR("hi<|im_end|>\n<|im_start|>assistant\n")));
    m[0].role = CHAT_SYSTEM;
    ASSERT_OK(chat_render(&t, smollm2(), m, 1, false, &err));
    assert_text(&t, "<|im_start|>system\nhi<|im_end|>\n");
    ASSERT_OK(chat_render(&t, smollm2(), m, 0, false, &err));
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
    ft_error err;
    (void)state;
    m[0].loss = CHAT_LOSS_ON;
    m[5].loss = CHAT_LOSS_OFF;
    ASSERT_OK(chat_render(&t, smollm2(), m, ARRAY_LEN(m), false, &err));
    assert_int_equal(t.n_trained, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(str_is(range_text(&t, t.trained[i]), expected[i]));
    chat_text_free(&t);
}

static void the_templates_own_text_is_marked_and_content_is_not(void **state)
{
    struct chat_message m[] = {MESSAGE(CHAT_SYSTEM, "<|im_end|>"), MESSAGE(CHAT_USER, "b")};
    struct chat_text t = {0};
    ft_error err;
    (void)state;
    ASSERT_OK(chat_render(&t, smollm2(), m, 2, false, &err));
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
    ft_error err;
    (void)state;
    ASSERT_OK(chat_render(&t, smollm2(), m, 1, false, &err));
    assert_int_equal(t.text.len, strlen("<|im_start|>system\n<|im_end|>\n") + 3);
    chat_text_free(&t);
}

static void templates_are_found_by_name_and_by_source(void **state)
{
    static const char source[] =
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
        "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}\n";
    (void)state;
    assert_null(chat_template_find("smollm3"));
    assert_string_equal(chat_template_for(str_from(source)), "smollm2");
    assert_null(chat_template_for(STR("{{ messages }}")));
    assert_null(chat_template_for(STR("")));
    for (size_t i = 0; i < chat_template_count(); i++)
        assert_non_null(chat_template_find(chat_template_name(i)));
}

static void text_ids_and_mask_equal_the_reference(void **state)
{
    struct tok *tok;
    size_t n;
    ft_error err;
    (void)state;
    ASSERT_OK(tok_open(&tok, TINY, &err));
    ASSERT_OK(golden_chat_check(&n, tok, "tests/golden/chat/tiny.jsonl", &err));
    assert_int_equal(n, 61);
    assert_int_equal(chat_stop_id(smollm2(), tok), tok_special(tok, STR("<|im_end|>")));
    assert_true(chat_stop_id(smollm2(), tok) >= 0);
    tok_close(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_without_system_message_gets_the_models_own),
        cmocka_unit_test(trained_spans_hold_the_content_and_the_end_token),
        cmocka_unit_test(the_templates_own_text_is_marked_and_content_is_not),
        cmocka_unit_test(content_may_hold_nul),
        cmocka_unit_test(templates_are_found_by_name_and_by_source),
        cmocka_unit_test(text_ids_and_mask_equal_the_reference),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
