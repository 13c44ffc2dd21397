/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/golden_chat.h"

#include <string.h>

#include "common/file.h"
#include "formats/chat.h"
#include "formats/json.h"

enum { MAX_MESSAGES = 64 };

struct checker {
    struct tok_encoder *encoder;
    struct chat_text text;
    struct tok_ids ids;
    struct buf mask;
};

static ft_status read_message(struct chat_message *m, const json *v, ft_error *err)
{
    str role;
    bool loss;
    FT_TRY(json_need_str(&role, v, "role", err));
    FT_TRY(json_need_str(&m->content, v, "content", err));
    for (int r = 0; r < CHAT_ROLES; r++)
        if (str_is(role, chat_role_names[r]))
            m->role = (enum chat_role)r;
    m->loss = CHAT_LOSS_DEFAULT;
    if (json_bool(json_get(v, "loss"), &loss))
        m->loss = loss ? CHAT_LOSS_ON : CHAT_LOSS_OFF;
    return FT_OK;
}

static ft_status read_messages(struct chat_message *m, size_t *n, const json *row, ft_error *err)
{
    *n = 0;
    for (const json *v = json_first(json_get(row, "messages")); v != NULL; v = json_next(v)) {
        FT_ASSERT(*n < MAX_MESSAGES);
        FT_TRY(read_message(&m[(*n)++], v, err));
    }
    return FT_OK;
}

static ft_status compare(const struct checker *c, const json *row, ft_error *err)
{
    str text, mask;
    size_t i = 0;
    FT_TRY(json_need_str(&text, row, "text", err));
    FT_TRY(json_need_str(&mask, row, "mask", err));
    str got = buf_view(&c->text.text);
    if (!str_eq(text, got))
        return ft_fail(err, FT_EFORMAT, "the text differs: \"%.*s\"", STR_ARG(got));
    if (json_count(json_get(row, "ids")) != c->ids.n || mask.len != c->mask.len)
        return ft_fail(err, FT_EFORMAT, "%zu ids, expected %zu", c->ids.n, mask.len);
    for (const json *v = json_first(json_get(row, "ids")); v != NULL; v = json_next(v), i++) {
        int64_t id;
        if (!json_i64(v, &id) || id != c->ids.ids[i])
            return ft_fail(err, FT_EFORMAT, "id %zu is %d", i, c->ids.ids[i]);
        if ((mask.ptr[i] == '1') != (c->mask.data[i] == 1))
            return ft_fail(err, FT_EFORMAT, "the mask of id %zu is %d", i, c->mask.data[i]);
    }
    return FT_OK;
}

static ft_status check_row(struct checker *c, const json *row, ft_error *err)
{
    struct chat_message messages[MAX_MESSAGES] = {0};
    size_t n;
    str name, specials;
    bool add_prompt;
    FT_TRY(json_need_str(&name, row, "template", err));
    FT_TRY(json_need_str(&specials, row, "specials", err));
    FT_TRY(json_opt_bool(&add_prompt, row, "add_prompt", false, err));
    FT_TRY(read_messages(messages, &n, row, err));
    struct chat_template *t;
    FT_TRY(chat_template_open(&t, name.ptr, tok_encoder_tok(c->encoder), err));
    ft_status st = chat_render(
        &c->text, t, &(struct chat_conversation){.messages = messages, .n = n}, add_prompt, err);
    chat_template_close(t);
    FT_TRY(st);
    FT_TRY(chat_encode(&c->ids, &c->mask, c->encoder, &c->text,
                       str_is(specials, "parse") ? TOK_SPECIALS_PARSE : TOK_SPECIALS_LITERAL, err));
    return compare(c, row, err);
}

ft_status golden_chat_check(size_t *n_rows, const struct tok *tok, const char *path, ft_error *err)
{
    struct checker c = {0};
    struct arena a = {0};
    str rest;
    ft_status st;
    *n_rows = 0;
    FT_GOTO(tok_encoder_create(&c.encoder, tok, err));
    FT_GOTO(file_read_all(&rest, &a, path, 16 << 20, err));
    while (rest.len > 0) {
        struct json_doc *doc;
        FT_GOTO(json_parse(&doc, path, str_cut(&rest, '\n'), JSON_STRICT, err));
        st = check_row(&c, json_root(doc), err);
        json_close(doc);
        ++*n_rows;
        if (st != FT_OK)
            FT_GOTO(ft_wrap(err, "%s: row %zu", path, *n_rows));
    }
out:
    tok_encoder_destroy(c.encoder);
    chat_text_free(&c.text);
    tok_ids_free(&c.ids);
    buf_free(&c.mask);
    arena_destroy(&a);
    return st;
}
