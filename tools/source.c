/* SPDX-License-Identifier: Apache-2.0
 * Which shape a row has, and the rules that hold for conversations of every shape. */
#include "tools/source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"
#include "tools/source_shapes.h"

/* --- shapes ------------------------------------------------------------------------------------
 */

enum { TOLD_BY_KEYS = 4 }; /* the first ones are told by the keys of a row; the others are named */

#define CODER                                                                                      \
    "You are a professional programer. Please provide the corresponding code based on the "        \
    "description of Human.\n"
#define LAWYER "你现在是一名专业的中国律师，请根据用户的问题给出准确、有理有据的回复。\n"

/* The names behind Alpaca are those of XTuner's map functions, and so are the texts. */
static const struct row_shape shapes[] = {
    {.name = "messages", .messages = "messages"},
    {.name = "conversations", .messages = "conversations", .system = "system"},
    {.name = "conversation", .turns = "conversation"},
    {.name = "alpaca",
     .system = "system",
     .history = "history",
     .user = {"instruction", "input"},
     .assistant = "output",
     .no_answer = "<nooutput>"},
    {.name = "alpaca_zh", .user = {"instruction_zh", "input_zh"}, .assistant = "output_zh"},
    {.name = "openorca", .system = "system_prompt", .user = {"question"}, .assistant = "response"},
    {.name = "default", .user = {"input"}, .assistant = "output"},
    {.name = "stack_exchange", .user = {"question"}, .assistant = "response"},
    {.name = "code_alpaca", .user = {"prompt"}, .assistant = "completion", .system_text = CODER},
    {.name = "tiny_codes", .user = {"prompt"}, .assistant = "response", .system_text = CODER},
    {.name = "crime_kg_assitant", .user = {"input"}, .assistant = "output", .system_text = LAWYER},
    {.name = "law_reference", .user = {"question"}, .assistant = "answer", .system_text = LAWYER},
    {.name = "medical",
     .user = {"instruction", "input"},
     .assistant = "output",
     .system_text = "如果你是一名医生，请根据患者的描述回答医学问题。\n"},
    {.name = "sql",
     .user = {"context", "question"},
     .assistant = "answer",
     .system_text = "If you are an expert in SQL, please generate a good SQL Query for Question "
                    "based on the CREATE TABLE statement.\n"},
    {.name = "arxiv",
     .user = {"abstract"},
     .assistant = "title",
     .system_text = "If you are an expert in writing papers, please generate a good paper title "
                    "for this paper based on other authors' descriptions of their abstracts.\n"},
};

size_t source_shape_count(void)
{
    return ARRAY_LEN(shapes);
}

const char *source_shape_name(size_t i)
{
    FT_ASSERT(i < ARRAY_LEN(shapes));
    return shapes[i].name;
}

/* --- options -----------------------------------------------------------------------------------
 */

static ft_status unknown_shape(const char *name, ft_error *err)
{
    const char *names[ARRAY_LEN(shapes)];
    struct buf list = {0};
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        names[i] = shapes[i].name;
        buf_printf(&list, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    buf_byte(&list, '\0');
    const char *near = str_nearest(str_from(name), names, ARRAY_LEN(names));
    ft_status st =
        ft_fail(err, FT_EUSAGE, "--rows: '%s' is not known; there are auto, %s%s%s%s", name,
                list.failed ? "" : (const char *)list.data, near == NULL ? "" : "; did you mean '",
                near == NULL ? "" : near, near == NULL ? "" : "'?");
    buf_free(&list);
    return st;
}

/* Where the column of a role is kept; NULL when the role has none. */
static const char **column_of(struct row_shape *s, str role)
{
    const struct {
        const char *name;
        const char **column;
    } columns[] = {
        {"messages", &s->messages}, {"system", &s->system},       {"history", &s->history},
        {"user", s->user},          {"assistant", &s->assistant}, {"turns", &s->turns},
    };
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (str_is(role, columns[i].name))
            return columns[i].column;
    return NULL;
}

static ft_status set_column(struct row_shape *s, const char *item, ft_error *err)
{
    const char *column = strchr(item, '=');
    str role = {item, column == NULL ? strlen(item) : (size_t)(column - item)};
    const char **place = column_of(s, role);
    if (place == NULL || column == NULL || column[1] == '\0')
        return ft_fail(err, FT_EUSAGE,
                       "--columns: '%s': expected ROLE=COLUMN with a role of messages, turns, "
                       "system, history, user or assistant",
                       item);
    for (size_t i = 1; place == s->user + i - 1 && *place != NULL && i < ARRAY_LEN(s->user); i++)
        place++; /* user may be given several times */
    if (*place != NULL)
        return ft_fail(err, FT_EUSAGE, "--columns: '%s': too many columns for %.*s", item,
                       STR_ARG(role));
    *place = column + 1;
    return FT_OK;
}

static ft_status set_columns(struct source_options *o, const struct opt_list *columns,
                             ft_error *err)
{
    struct row_shape *s = &o->shape;
    *s = (struct row_shape){.name = "columns"};
    for (size_t i = 0; i < columns->n; i++)
        FT_TRY(set_column(s, columns->items[i], err));
    bool pair = s->user[0] != NULL && s->assistant != NULL;
    bool half = s->user[0] != NULL || s->assistant != NULL || s->history != NULL;
    int ways = (s->messages != NULL) + (s->turns != NULL) + half;
    if (ways != 1 || (half && !pair))
        return ft_fail(err, FT_EUSAGE,
                       "--columns: name messages, or turns, or both user and assistant");
    return FT_OK;
}

ft_status source_set_rows(struct source_options *o, const char *rows,
                          const struct opt_list *columns, ft_error *err)
{
    bool by_keys = rows == NULL || strcmp(rows, "auto") == 0;
    if (columns->n > 0 && !by_keys)
        return ft_fail(err, FT_EUSAGE, "--rows and --columns exclude each other");
    if (columns->n > 0)
        return set_columns(o, columns, err);
    o->shape = (struct row_shape){0};
    if (by_keys)
        return FT_OK;
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        if (strcmp(shapes[i].name, rows) == 0)
            o->shape = shapes[i];
    return o->shape.name == NULL ? unknown_shape(rows, err) : FT_OK;
}

ft_status source_set_train_on(struct source_options *o, const char *text, ft_error *err)
{
    static const char *const names[] = {"assistant", "last", "flagged"};
    str s = str_from(text == NULL ? names[0] : text);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_is(s, names[i])) {
            o->train_on = (enum train_on)i;
            return FT_OK;
        }
    str prefix = STR("from-turn:");
    if (str_starts(s, prefix) && str_to_i64(str_sub(s, prefix.len, s.len), &o->from_turn) &&
        o->from_turn >= 1) {
        o->train_on = TRAIN_ON_FROM;
        return FT_OK;
    }
    return ft_fail(err, FT_EUSAGE,
                   "--train-on: '%s' is not known; there are assistant, last, flagged, and "
                   "from-turn:N with N from 1",
                   text);
}

/* --- messages about keys -----------------------------------------------------------------------
 */

const char *source_shown(char dst[SHOWN_BYTES], str s)
{
    s = str_sub(s, 0, FT_MIN(s.len, (size_t)SHOWN_BYTES - 1));
    s.len = str_utf8_invalid_at(s);
    for (size_t i = 0; i < s.len; i++)
        dst[i] = (unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7F ? '?' : s.ptr[i];
    dst[s.len] = '\0';
    return dst;
}

static void list_keys(struct buf *out, const json *object)
{
    enum { MAX_KEYS_NAMED = 8 };
    char key[SHOWN_BYTES];
    size_t n = json_count(object), i = 0;
    for (const json *m = json_first(object); m != NULL && i < MAX_KEYS_NAMED; m = json_next(m), i++)
        buf_printf(out, "%s\"%s\"", i == 0 ? "" : ", ", source_shown(key, json_key(m)));
    if (n > MAX_KEYS_NAMED)
        buf_printf(out, " and %zu more", n - MAX_KEYS_NAMED);
    if (n == 0)
        buf_cstr(out, "none");
}

static void hint_at_typing_error(struct buf *out, const json *object, const char *const *wanted,
                                 size_t n)
{
    char key[SHOWN_BYTES];
    for (const json *m = json_first(object); m != NULL; m = json_next(m)) {
        const char *near = str_nearest(json_key(m), wanted, n);
        if (near == NULL)
            continue;
        buf_printf(out, "; did you mean \"%s\" for \"%s\"?", near, source_shown(key, json_key(m)));
        return;
    }
}

ft_status source_missing_key(const json *object, const char *const *wanted, size_t n, ft_error *err)
{
    struct buf text = {0};
    buf_cstr(&text, n == 1 ? "" : "none of ");
    for (size_t i = 0; i < n; i++)
        buf_printf(&text, "%s\"%s\"", i == 0 ? "" : i + 1 == n ? " and " : ", ", wanted[i]);
    buf_printf(&text, " %s; the keys are ", n == 1 ? "is missing" : "is there");
    list_keys(&text, object);
    hint_at_typing_error(&text, object, wanted, n);
    buf_byte(&text, '\0');
    ft_status st = buf_status(&text, "a message", err);
    if (st == FT_OK)
        st = ft_fail(err, FT_EFORMAT, ": %s", (const char *)text.data);
    buf_free(&text);
    return st;
}

ft_status source_wrong_kind(const char *path, const char *what, const json *v, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: expected %s, found %s", path, what,
                   json_kind_name(json_kind(v)));
}

ft_status source_after(const char *place, ft_error *err)
{
    ft_error inner = *err;
    if (inner.status != FT_EFORMAT)
        return inner.status;
    return ft_fail(err, FT_EFORMAT, "%s%s", place, inner.text);
}

ft_status source_after_key(const char *key, ft_error *err)
{
    char place[SHOWN_BYTES + 1] = ".";
    source_shown(place + 1, str_from(key));
    return source_after(place, err);
}

ft_status source_inside(const char *list, size_t i, ft_error *err)
{
    char place[SHOWN_BYTES + 24];
    source_shown(place, str_from(list));
    snprintf(place + strlen(place), 24, "[%zu]", i);
    return source_after(place, err);
}

/* --- fields ------------------------------------------------------------------------------------
 */

bool source_is_absent(const json *v)
{
    return v == NULL || json_kind(v) == JSON_NULL;
}

ft_status source_opt_str(str *out, const json *object, const char *key, ft_error *err)
{
    const json *v = json_get(object, key);
    *out = STR("");
    if (source_is_absent(v) || json_str(v, out))
        return FT_OK;
    FT_ASSERT(source_wrong_kind("", "a string", v, err) != FT_OK);
    return source_after_key(key, err);
}

static bool same_word(str s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.ptr, word, s.len) == 0;
}

ft_status source_read_flag(enum chat_loss *out, const json *object, const char *key, ft_error *err)
{
    const json *v = json_get(object, key);
    bool on;
    double number;
    str text;
    *out = CHAT_LOSS_DEFAULT;
    if (source_is_absent(v))
        return FT_OK;
    if (json_bool(v, &on)) {
        *out = on ? CHAT_LOSS_ON : CHAT_LOSS_OFF;
        return FT_OK;
    }
    if (json_f64(v, &number) && (number == 0 || number == 1)) {
        *out = number == 1 ? CHAT_LOSS_ON : CHAT_LOSS_OFF;
        return FT_OK;
    }
    if (json_str(v, &text) && (same_word(text, "true") || same_word(text, "false"))) {
        *out = same_word(text, "true") ? CHAT_LOSS_ON : CHAT_LOSS_OFF;
        return FT_OK;
    }
    return ft_fail(err, FT_EFORMAT,
                   ".%s: expected true, false, 0, 1, \"true\", \"false\" or null, found %s", key,
                   json_kind(v) == JSON_NUMBER   ? "another number"
                   : json_kind(v) == JSON_STRING ? "another string"
                                                 : json_kind_name(json_kind(v)));
}

static bool is_one_of(str key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(key, keys[i]))
            return true;
    return false;
}

ft_status source_refuse_misspelt(const json *object, const char *const *keys, size_t n_keys,
                                 size_t n_flags, ft_error *err)
{
    char name[SHOWN_BYTES];
    for (const json *m = json_first(object); m != NULL; m = json_next(m)) {
        if (is_one_of(json_key(m), keys, n_keys))
            continue; /* nearly all of them: measuring distances would cost more than parsing */
        const char *near = str_nearest(json_key(m), keys, n_flags);
        for (size_t i = 0; i < n_flags; i++)
            if (same_word(json_key(m), keys[i])) /* capitals are many edits away */
                near = keys[i];
        if (near != NULL)
            return ft_fail(err, FT_EFORMAT, ": \"%s\" is not known; did you mean \"%s\"?",
                           source_shown(name, json_key(m)), near);
    }
    return FT_OK;
}

/* --- conversations -----------------------------------------------------------------------------
 */

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

/* --- rules -------------------------------------------------------------------------------------
 */

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

/* --- rows --------------------------------------------------------------------------------------
 */

/* The key that tells a shape. */
static const char *telling_key(const struct row_shape *s)
{
    return s->messages != NULL ? s->messages : s->turns != NULL ? s->turns : s->user[0];
}

/* The one shape whose key the row has. */
static ft_status tell_shape(const struct row_shape **out, const json *row, ft_error *err)
{
    const char *keys[TOLD_BY_KEYS];
    *out = NULL;
    for (size_t i = 0; i < TOLD_BY_KEYS; i++) {
        keys[i] = telling_key(&shapes[i]);
        if (source_is_absent(json_get(row, keys[i])))
            continue;
        if (*out != NULL)
            return ft_fail(err, FT_EFORMAT,
                           ": has both \"%s\" and \"%s\"; say which with --rows %s or --rows %s",
                           telling_key(*out), keys[i], (*out)->name, shapes[i].name);
        *out = &shapes[i];
    }
    if (*out != NULL)
        return FT_OK;
    ft_error inner;
    FT_ASSERT(source_missing_key(row, keys, TOLD_BY_KEYS, &inner) != FT_OK);
    return ft_fail(err, inner.status, "%s (other keys are named with --columns)", inner.text);
}

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
        FT_TRY(tell_shape(&shape, row, err));
    const char *key = telling_key(shape);
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
    const char *key = lists ? "messages" : telling_key(&o->shape);
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
