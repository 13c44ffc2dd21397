/* SPDX-License-Identifier: Apache-2.0
 * Which shape a row has, and the rules that hold for conversations of every shape. */
#include "tools/source.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "tools/source_shapes.h"

/* --- conversations ---------------------------------------------------------------------------- */

void conversation_free(struct conversation *c)
{
    mem_free(c->messages);
    arena_destroy(&c->joined);
    json_close(c->tools_doc);
    *c = (struct conversation){0};
}

struct chat_conversation conversation_view(const struct conversation *c)
{
    return (struct chat_conversation){
        .messages = c->messages, .n = c->n, .tools = c->tools, .row = c->row};
}

ft_status source_add(struct conversation *out, const struct chat_message *m, ft_error *err)
{
    if (out->n == out->cap) {
        size_t cap = FT_MAX(out->cap * 2, (size_t)16);
        struct chat_message *grown = mem_realloc(out->messages, cap, sizeof *grown);
        if (grown == NULL)
            return ft_fail_memory(err, cap * sizeof *grown, "messages");
        out->messages = grown;
        out->cap = cap;
    }
    out->messages[out->n++] = *m;
    return FT_OK;
}

ft_status source_add_system(struct conversation *out, str text, ft_error *err)
{
    struct chat_message m = {.role = CHAT_SYSTEM, .content = text};
    return text.len == 0 ? FT_OK : source_add(out, &m, err);
}

ft_status source_room(char **out, struct conversation *c, size_t bytes, ft_error *err)
{
    *out = arena_alloc(&c->joined, bytes, 1);
    return *out == NULL ? ft_fail_memory(err, bytes, "the content of a message") : FT_OK;
}

/* --- rules ------------------------------------------------------------------------------------ */

static bool is_system(const struct chat_message *m)
{
    return m->role == CHAT_SYSTEM || m->role == CHAT_DEVELOPER;
}

/* Appends the content of b to a. */
static ft_status join(struct conversation *c, struct chat_message *a, const struct chat_message *b,
                      size_t i, ft_error *err)
{
    char *text;
    if (a->loss != b->loss)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].loss: differs from the message before, to which this one is "
                       "joined",
                       i);
    FT_TRY(source_room(&text, c, a->content.len + b->content.len, err));
    memcpy(text, a->content.ptr, a->content.len);
    memcpy(text + a->content.len, b->content.ptr, b->content.len);
    a->content = (str){text, a->content.len + b->content.len};
    a->json = NULL;
    c->n_merged++;
    return FT_OK;
}

/* Neighbouring user messages, and neighbouring system messages, become one, as XTuner does with the
 * former: nothing stands between their texts. */
static ft_status merge_neighbours(struct conversation *c, ft_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct chat_message *m = &c->messages[i], *last = n == 0 ? NULL : &c->messages[n - 1];
        bool same = last != NULL && last->role == m->role && (m->role == CHAT_USER || is_system(m));
        if (same)
            FT_TRY(join(c, last, m, i, err));
        else
            c->messages[n++] = *m;
    }
    c->n = n;
    return FT_OK;
}

/* Leaves out what follows the last assistant message: nothing would be learnt from it. */
static ft_status drop_trailing(struct conversation *c, ft_error *err)
{
    while (c->n > 0 && c->messages[c->n - 1].role != CHAT_ASSISTANT) {
        if (c->messages[c->n - 1].loss == CHAT_LOSS_ON)
            return ft_fail(
                err, FT_EFORMAT,
                "messages[%zu].loss: true, but no assistant message follows: the message "
                "would be left out",
                c->n - 1);
        c->n--;
        c->n_trailing++;
    }
    return FT_OK;
}

static ft_status check_message(struct conversation *c, size_t i, bool strict, ft_error *err)
{
    struct chat_message *m = &c->messages[i];
    if (i > 0 && is_system(m) && is_system(&m[-1]))
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].role: two system messages in a row; join them into one "
                       "(--merge-consecutive does)",
                       i);
    if (m->role != CHAT_ASSISTANT || m->content.len > 0 || chat_message_has_calls(m) ||
        m->loss == CHAT_LOSS_OFF)
        return FT_OK;
    if (strict)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].content: an assistant message is empty (--strict)", i);
    m->loss = CHAT_LOSS_OFF;
    c->n_empty++;
    return FT_OK;
}

/* Turns what is not chosen off. It only ever narrows: what says that it is not trained stays so. */
static void choose_trained(struct conversation *c, const struct source_options *o)
{
    size_t n_answers = 0, turn = 0;
    for (size_t i = 0; i < c->n; i++)
        n_answers += c->messages[i].role == CHAT_ASSISTANT;
    size_t first = o->train_on == TRAIN_ON_LAST   ? n_answers - 1
                   : o->train_on == TRAIN_ON_FROM ? (size_t)o->from_turn - 1
                                                  : 0;
    for (size_t i = 0; i < c->n; i++) {
        struct chat_message *m = &c->messages[i];
        bool unflagged = m->role == CHAT_ASSISTANT && m->loss == CHAT_LOSS_DEFAULT;
        if (turn < first || (unflagged && o->train_on == TRAIN_ON_FLAGGED))
            m->loss = CHAT_LOSS_OFF;
        turn += m->role == CHAT_ASSISTANT;
    }
}

static ft_status finish(struct conversation *c, const struct source_options *o, ft_error *err)
{
    if (o->merge)
        FT_TRY(merge_neighbours(c, err));
    for (size_t i = 0; i < c->n; i++)
        FT_TRY(check_message(c, i, o->strict, err));
    FT_TRY(drop_trailing(c, err));
    if (c->n == 0)
        c->n_trailing = c->n_merged = 0; /* the row as a whole is what is dropped */
    else
        choose_trained(c, o);
    return FT_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* A list, or the JSON text of one, as LLaMA-Factory has it. */
static ft_status read_tools(struct conversation *out, const json *row, ft_error *err)
{
    str text;
    const json *tools = json_get(row, "tools"), *functions = json_get(row, "functions");
    if (!source_is_absent(functions) && json_count(functions) > 0)
        return ft_fail(err, FT_EFORMAT,
                       ".functions: OpenAI's older form is not supported; write \"tools\"");
    if (source_is_absent(tools))
        return FT_OK;
    if (json_str(tools, &text) && str_trim(text).len == 0)
        return FT_OK;
    if (json_str(tools, &text)) {
        if (json_parse(&out->tools_doc, ".tools", text, JSON_STRICT, err) != FT_OK)
            return err->status;
        tools = json_root(out->tools_doc);
    }
    if (json_kind(tools) != JSON_ARRAY)
        return source_wrong_kind(".tools", "a list of tools", tools, err);
    out->tools = tools;
    return FT_OK;
}

/* A system text beside the list stands in front of it. */
static ft_status read_list(struct conversation *out, const struct row_shape *shape, const json *row,
                           ft_error *err)
{
    str system = STR("");
    if (shape->system != NULL)
        FT_TRY(source_opt_str(&system, row, shape->system, err));
    FT_TRY(source_add_system(out, system, err));
    FT_TRY(read_tools(out, row, err));
    return source_read_messages(out, shape->messages, json_get(row, shape->messages), err);
}

static ft_status read_object(struct conversation *out, const json *row,
                             const struct source_options *o, ft_error *err)
{
    const struct row_shape *shape = &o->shape;
    if (shape->name == NULL)
        FT_TRY(source_tell_shape(&shape, row, err));
    const char *key = source_telling_key(shape);
    out->row = row;
    if (json_get(row, key) == NULL)
        return source_missing_key(row, &key, 1, err);
    if (shape->messages != NULL)
        return read_list(out, shape, row, err);
    if (shape->turns != NULL)
        return source_read_turns(out, key, json_get(row, key), err);
    return source_read_columns(out, shape, row, err);
}

static ft_status read_any(struct conversation *out, const json *row, const struct source_options *o,
                          ft_error *err)
{
    bool lists = o->shape.name == NULL || o->shape.messages != NULL;
    const char *key = lists ? "messages" : source_telling_key(&o->shape);
    char what[SHOWN_BYTES + 24];
    if (json_kind(row) == JSON_ARRAY && lists) /* a bare list is the list of messages */
        return source_read_messages(out, "messages", row, err);
    snprintf(what, sizeof what, "an object with \"%.*s\"", SHOWN_BYTES, key);
    ft_status st = json_kind(row) == JSON_OBJECT ? read_object(out, row, o, err)
                                                 : source_wrong_kind("", what, row, err);
    bool of_row = st != FT_OK && (err->text[0] == '.' || err->text[0] == ':');
    return of_row ? source_after("the row", err) : st;
}

ft_status source_read_row(struct conversation *out, const json *row, const struct source_options *o,
                          ft_error *err)
{
    out->n = out->n_trailing = out->n_empty = out->n_merged = 0;
    out->tools = out->row = NULL;
    arena_destroy(&out->joined);
    json_close(out->tools_doc);
    out->tools_doc = NULL;
    FT_TRY(read_any(out, row, o, err));
    return finish(out, o, err);
}
