/* SPDX-License-Identifier: Apache-2.0
 * Chat templates in Jinja: what they see, and what of their text is trained. */
#include "common/file.h"
#include "formats/chat_template.h"
#include "tests/support/check.h"

static struct tok *tok;
static struct json_doc *doc; /* of the messages of the last conversation */
static struct chat_message messages[16];
static struct chat_text text;

static int open_tiny(void **state)
{
    ft_error err;
    (void)state;
    ASSERT_OK(tok_open(&tok, "data-samples/tokenizer-tiny.json", &err));
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    tok_close(tok);
    json_close(doc);
    chat_text_free(&text);
    return 0;
}

static enum chat_role role_of(const json *m)
{
    str role;
    assert_true(json_str(json_get(m, "role"), &role));
    for (int i = 0; i < CHAT_ROLES; i++)
        if (str_is(role, chat_role_names[i]))
            return (enum chat_role)i;
    fail();
    return CHAT_USER;
}

/* A row as the readers hand it over: {"messages": [...], "tools": ...}; "loss" as a bool. */
static struct chat_conversation conversation(const char *row)
{
    struct chat_conversation c = {.messages = messages};
    ft_error err;
    bool loss;
    json_close(doc);
    ASSERT_OK(json_parse(&doc, "row", str_from(row), JSON_STRICT, &err));
    c.row = json_root(doc);
    c.tools = json_get(c.row, "tools");
    for (const json *m = json_first(json_get(c.row, "messages")); m != NULL; m = json_next(m)) {
        struct chat_message *out = &messages[c.n++];
        *out = (struct chat_message){
            .role = role_of(m), .content = STR(""), .name = STR(""), .json = m, .sep = STR("")};
        if (!json_str(json_get(m, "content"), &out->content))
            out->content = STR("joined");
        if (json_bool(json_get(m, "loss"), &loss))
            out->loss = loss ? CHAT_LOSS_ON : CHAT_LOSS_OFF;
    }
    return c;
}

static struct chat_template *template_of(const char *source)
{
    struct chat_template *t;
    ft_error err;
    ASSERT_OK(chat_template_restore(&t, "x.jinja", str_from(source), tok, &err));
    return t;
}

/* The text with [ ] around what is trained, and ` around what the template did not write. */
static void assert_marks(const struct chat_text *t, const char *expected)
{
    struct buf b = {0};
    size_t literal = 0, trained = 0;
    bool in_literal = true, in_trained = false;
    for (size_t i = 0; i <= t->text.len; i++) {
        while (literal < t->n_literal && t->literal[literal].to <= i)
            literal++;
        while (trained < t->n_trained && t->trained[trained].to <= i)
            trained++;
        bool lit = i == t->text.len || (literal < t->n_literal && t->literal[literal].from <= i);
        bool tr = trained < t->n_trained && t->trained[trained].from <= i;
        if (!in_literal && lit)
            buf_byte(&b, '`');
        if (in_trained != tr)
            buf_byte(&b, tr ? '[' : ']');
        if (in_literal && !lit)
            buf_byte(&b, '`');
        in_literal = lit;
        in_trained = tr;
        if (i < t->text.len)
            buf_byte(&b, t->text.data[i]);
    }
    buf_byte(&b, '\0');
    assert_false(b.failed);
    assert_string_equal(b.data, expected);
    buf_free(&b);
}

static void assert_renders(const char *source, const char *row, const char *expected)
{
    struct chat_template *t = template_of(source);
    struct chat_conversation c = conversation(row);
    ft_error err;
    ASSERT_OK(chat_render(&text, t, &c, false, &err));
    assert_marks(&text, expected);
    chat_template_close(t);
}

static void assert_refuses(const char *source, const char *row, const char *message)
{
    struct chat_template *t = template_of(source);
    struct chat_conversation c = conversation(row);
    ft_error err;
    ASSERT_FAILS(chat_render(&text, t, &c, false, &err), FT_EFORMAT, message);
    chat_template_close(t);
}

#define CHATML                                                                                     \
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"     \
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
#define TWO_TURNS                                                                                  \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "         \
    "\"content\": \"a\"}, {\"role\": \"user\", \"content\": \"r\"}, {\"role\": \"assistant\", "    \
    "\"content\": \"b\"}]}"

/* --- turns ----------------------------------------------------------------------------------- */

static void an_answer_goes_from_the_prompt_to_the_token_that_ends_it(void **state)
{
    (void)state;
    assert_renders(CHATML, TWO_TURNS,
                   "<|im_start|>user\n`q`<|im_end|>\n<|im_start|>assistant\n[`a`<|im_end|>]\n"
                   "<|im_start|>user\n`r`<|im_end|>\n<|im_start|>assistant\n[`b`<|im_end|>]\n");
}

static void white_space_before_the_answer_is_part_of_it(void **state)
{
    (void)state;
    assert_renders(
        "{% for m in messages %}{% if m.role == 'user' %}USER: {{ m.content }} {% else %}"
        "ASSISTANT: {{ m.content }}<|endoftext|>{% endif %}{% endfor %}"
        "{{ 'ASSISTANT:' if add_generation_prompt }}",
        TWO_TURNS,
        "USER: `q` ASSISTANT:[ `a`<|endoftext|>]USER: `r` ASSISTANT:[ `b`<|endoftext|>]");
}

static void templates_without_end_tokens_train_up_to_the_next_turn(void **state)
{
    (void)state;
    assert_renders("{% for m in messages %}### {{ m.role }}:\n{{ m.content }}\n\n{% endfor %}"
                   "{{ '### assistant:\n' if add_generation_prompt }}",
                   TWO_TURNS,
                   "### user:\n`q`\n\n### assistant:\n[`a`\n\n]### user:\n`r`\n\n### "
                   "assistant:\n[`b`\n\n]");
}

/* As Llama 3's first template: the prompt stands behind everything. */
static void a_prompt_that_is_always_there_does_not_matter(void **state)
{
    (void)state;
    assert_renders("{% for m in messages %}<|im_start|>{{ m.role }}\n\n{{ m.content | trim }}"
                   "<|im_end|>{% endfor %}<|im_start|>assistant\n\n\n",
                   TWO_TURNS,
                   "<|im_start|>user\n\n`q`<|im_end|><|im_start|>assistant\n\n[`a`<|im_end|>]"
                   "<|im_start|>user\n\n`r`<|im_end|><|im_start|>assistant\n\n[`b`<|im_end|>]"
                   "<|im_start|>assistant\n\n");
}

/* As Phi-3.5's: one more token at the very end. */
static void a_token_behind_the_whole_conversation_does_not_matter(void **state)
{
    (void)state;
    assert_renders("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
                   "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}"
                   "{{ '<|im_start|>assistant\n' }}{% else %}<|endoftext|>{% endif %}",
                   TWO_TURNS,
                   "<|im_start|>user\n`q`<|im_end|>\n<|im_start|>assistant\n[`a`<|im_end|>]\n"
                   "<|im_start|>user\n`r`<|im_end|>\n<|im_start|>assistant\n[`b`<|im_end|>]\n"
                   "<|endoftext|>");
}

static void empty_answers_still_have_an_end(void **state)
{
    (void)state;
    assert_renders(CHATML,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                   "\"assistant\", \"content\": \"\"}]}",
                   "<|im_start|>user\n`q`<|im_end|>\n<|im_start|>assistant\n[<|im_end|>]\n");
}

static void flags_choose_the_messages(void **state)
{
    (void)state;
    assert_renders(CHATML,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"loss\": true}, "
                   "{\"role\": \"assistant\", \"content\": \"a\", \"loss\": false}]}",
                   "<|im_start|>user\n[`q`<|im_end|>]\n<|im_start|>assistant\n`a`<|im_end|>\n");
}

/* --- what cannot be told --------------------------------------------------------------------- */

#define STRIPS                                                                                     \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.last "  \
    "%}<think></think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"                          \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static void turns_that_change_when_others_follow_are_refused(void **state)
{
    (void)state;
    assert_refuses(STRIPS, TWO_TURNS,
                   "messages[1]: what of the text is this answer cannot be told: the template "
                   "writes it differently when other messages follow; put {% generation %}");
    assert_renders(STRIPS,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
                   "\"assistant\", \"content\": \"a\"}]}",
                   "<|im_start|>user\n`q`<|im_end|>\n<|im_start|>assistant\n[<think></think>`a`"
                   "<|im_end|>]\n");
}

/* As Mistral's: the system message goes into the last question. */
static void moving_system_messages_are_refused(void **state)
{
    (void)state;
    assert_refuses(
        "{% set s = messages[0].content %}{% for m in messages[1:] %}{% if m.role == "
        "'user' %}[INST] {{ s ~ ' ' if loop.last }}{{ m.content }}[/INST]{% else %} "
        "{{ m.content }}<|endoftext|>{% endif %}{% endfor %}",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
        "\"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}",
        "writes the messages before it differently when it follows");
}

static void templates_without_a_prompt_are_refused(void **state)
{
    (void)state;
    assert_refuses("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                   "{% endfor %}",
                   TWO_TURNS, "the template has no prompt for answers");
}

static void errors_of_the_template_reach_the_user(void **state)
{
    (void)state;
    assert_refuses("{% if messages|length % 2 %}{{ raise_exception('odd') }}{% endif %}"
                   "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}",
                   TWO_TURNS, "cannot render the messages before it alone (x.jinja: line 1");
    assert_refuses("{{ raise_exception('no system role') }}", TWO_TURNS,
                   "x.jinja: line 1, column 19: the template says: no system role");
}

/* --- generation tags ------------------------------------------------------------------------- */

static const char TAGGED[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}"
    "<|im_end|>{% endif %}{% endfor %}";

static void generation_tags_say_what_is_trained(void **state)
{
    (void)state;
    assert_renders(TAGGED, TWO_TURNS,
                   "<|im_start|>user\n`q`<|im_end|><|im_start|>assistant\n[`a`<|im_end|>]"
                   "<|im_start|>user\n`r`<|im_end|><|im_start|>assistant\n[`b`<|im_end|>]");
    assert_renders(
        TAGGED,
        "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"loss\": false}, "
        "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"assistant\", "
        "\"content\": \"\", \"loss\": false}]}",
        "<|im_start|>assistant\n`a`<|im_end|><|im_start|>assistant\n[`b`<|im_end|>]"
        "<|im_start|>assistant\n<|im_end|>");
    assert_refuses(TAGGED,
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"loss\": true}]}",
                   "marks answers of the assistant only");
}

/* --- what the template sees ------------------------------------------------------------------ */

static void special_tokens_in_messages_stay_text(void **state)
{
    (void)state;
    assert_renders("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content | trim | upper }}"
                   "{{ m.content[:4] ~ '|>' }}{% endfor %}",
                   "{\"messages\": [{\"role\": \"user\", \"content\": \" <|im_end|>x \"}]}",
                   "<|user|>`<|IM_END|>X <|i`|>");
}

static void assert_text(const char *source, const char *row, const char *expected)
{
    struct chat_template *t = template_of(source);
    struct chat_conversation c = conversation(row);
    ft_error err;
    ASSERT_OK(chat_render(&text, t, &c, true, &err));
    buf_byte(&text.text, '\0');
    assert_string_equal(text.text.data, expected);
    chat_template_close(t);
}

static void fields_reach_the_template_as_in_transformers(void **state)
{
    (void)state;
    assert_text(
        "{{ messages | tojson }} {{ tools | tojson }} {{ documents }} {{ bos_token }} "
        "{{ extra }} {{ add_generation_prompt }}",
        "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"reasoning\": \"r\", "
        "\"n\": 1.0}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"x\"}]}], \"tools\": [{\"f\": 1}], \"chat_template_kwargs\": {\"extra\": [1]}}",
        "[{\"thinking\": \"r\", \"role\": \"assistant\", \"reasoning\": \"r\", \"n\": 1.0, "
        "\"reasoning_content\": \"r\"}, {\"role\": \"user\", \"content\": \"joined\"}] "
        "[{\"f\": 1}] None  [1] True");
    assert_text("{{ tools is none }}{{ tools is defined }}{{ documents|tojson }}",
                "{\"messages\": [], \"documents\": [{\"title\": \"t\"}]}",
                "TrueTrue[{\"title\": \"t\"}]");
}

/* --- the model's own template ---------------------------------------------------------------- */

static void assert_same(struct tok_encoder *e, const struct chat_text *a, const struct chat_text *b)
{
    static struct tok_ids ids[2];
    static struct buf masks[2];
    ft_error err;
    assert_int_equal(a->text.len, b->text.len);
    assert_memory_equal(a->text.data, b->text.data, a->text.len);
    ASSERT_OK(chat_encode(&ids[0], &masks[0], e, a, TOK_SPECIALS_LITERAL, &err));
    ASSERT_OK(chat_encode(&ids[1], &masks[1], e, b, TOK_SPECIALS_LITERAL, &err));
    assert_int_equal(ids[0].n, ids[1].n);
    assert_memory_equal(ids[0].ids, ids[1].ids, ids[0].n * sizeof *ids[0].ids);
    assert_memory_equal(masks[0].data, masks[1].data, ids[0].n);
}

/* Whether the message is to be trained though it has no place in the text. */
static bool is_lost(const struct chat_message *m)
{
    return m->content.len == 0 && chat_is_trained(m) &&
           (m->role != CHAT_ASSISTANT || m == &messages[0]);
}

/* Every sequence of up to four messages, with contents that matter. */
static void smollm2_by_name_and_by_its_jinja_source_are_the_same(void **state)
{
    static const str contents[] = {STR("a"), STR(""), STR(" \n<|im_end|>\xc3\xa9")};
    static const enum chat_role roles[] = {CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT};
    struct chat_template *named, *jinja = template_of(chat_smollm2_jinja);
    struct chat_text other = {0};
    struct tok_encoder *encoder;
    ft_error err;
    (void)state;
    ASSERT_OK(tok_encoder_create(&encoder, tok, &err));
    ASSERT_OK(chat_template_open(&named, "smollm2", tok, &err));
    assert_int_equal(jinja->n_stop_ids, named->n_stop_ids);
    assert_int_equal(jinja->stop_ids[0], named->stop_ids[0]);
    for (size_t seed = 9; seed < 9 + 27 * 27 * 27; seed++) {
        struct chat_conversation c = {.messages = messages};
        for (size_t rest = seed; rest > 1; rest /= 27)
            messages[c.n++] = (struct chat_message){.role = roles[rest % 3],
                                                    .content = contents[rest / 3 % 3],
                                                    .name = STR(""),
                                                    .loss = (enum chat_loss)(rest / 9 % 3),
                                                    .sep = STR("")};
        for (size_t i = 0; i < c.n; i++)
            if (is_lost(&messages[i]))
                messages[i].loss = CHAT_LOSS_OFF;
        ASSERT_OK(chat_render(&text, jinja, &c, false, &err));
        ASSERT_OK(chat_render(&other, named, &c, false, &err));
        if (c.n > 0)
            assert_same(encoder, &text, &other);
    }
    tok_encoder_destroy(encoder);
    chat_text_free(&other);
    chat_template_close(jinja);
    chat_template_close(named);
}

/* A directory with a tokenizer and its configuration. */
static struct tok *tok_with_template(const char *jinja)
{
    struct arena a = {0};
    struct buf config = {0};
    const char *dir = test_path("tokenizer");
    struct tok *t;
    ft_error err;
    str file;
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_read_all(&file, &a, "data-samples/tokenizer-tiny.json", 1 << 24, &err));
    ASSERT_OK(file_publish(path_join(&a, dir, "tokenizer.json"), file.ptr, file.len, &err));
    buf_cstr(&config, "{\"chat_template\": ");
    json_write_str(&config, str_from(jinja));
    buf_cstr(&config, "}");
    ASSERT_OK(
        file_publish(path_join(&a, dir, "tokenizer_config.json"), config.data, config.len, &err));
    ASSERT_OK(tok_open(&t, dir, &err));
    buf_free(&config);
    arena_destroy(&a);
    return t;
}

static void auto_takes_the_tokenizers_own_template(void **state)
{
    struct tok *own = tok_with_template(STRIPS);
    struct chat_template *t;
    struct chat_conversation c = conversation(TWO_TURNS);
    ft_error err;
    (void)state;
    ASSERT_OK(chat_template_open(&t, "auto", own, &err));
    assert_string_equal(chat_template_name(t), "jinja");
    ASSERT_FAILS(chat_render(&text, t, &c, false, &err), FT_EFORMAT, "--template jinja-content");
    chat_template_close(t);
    ASSERT_OK(chat_template_open(&t, "jinja-content", own, &err));
    ASSERT_OK(chat_render(&text, t, &c, false, &err));
    assert_marks(&text,
                 "<|im_start|>user\n`q`<|im_end|>\n<|im_start|>assistant\n[`a`<|im_end|>]\n"
                 "<|im_start|>user\n`r`<|im_end|>\n<|im_start|>assistant\n<think></think>[`b`"
                 "<|im_end|>]\n");
    chat_template_close(t);
    tok_close(own);
    ASSERT_FAILS(chat_template_open(&t, "jinja", tok, &err), FT_EFORMAT,
                 "the tokenizer file has no chat template");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_goes_from_the_prompt_to_the_token_that_ends_it),
        cmocka_unit_test(white_space_before_the_answer_is_part_of_it),
        cmocka_unit_test(templates_without_end_tokens_train_up_to_the_next_turn),
        cmocka_unit_test(a_prompt_that_is_always_there_does_not_matter),
        cmocka_unit_test(a_token_behind_the_whole_conversation_does_not_matter),
        cmocka_unit_test(empty_answers_still_have_an_end),
        cmocka_unit_test(flags_choose_the_messages),
        cmocka_unit_test(turns_that_change_when_others_follow_are_refused),
        cmocka_unit_test(moving_system_messages_are_refused),
        cmocka_unit_test(templates_without_a_prompt_are_refused),
        cmocka_unit_test(errors_of_the_template_reach_the_user),
        cmocka_unit_test(generation_tags_say_what_is_trained),
        cmocka_unit_test(special_tokens_in_messages_stay_text),
        cmocka_unit_test(fields_reach_the_template_as_in_transformers),
        cmocka_unit_test(smollm2_by_name_and_by_its_jinja_source_are_the_same),
        cmocka_unit_test(auto_takes_the_tokenizers_own_template),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
