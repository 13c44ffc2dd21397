/* SPDX-License-Identifier: Apache-2.0
 * The table of row shapes, and the options that choose one. */
#include <string.h>

#include "tools/source_shapes.h"

/* --- shapes ----------------------------------------------------------------------------------- */

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

const char *source_telling_key(const struct row_shape *s)
{
    return s->messages != NULL ? s->messages : s->turns != NULL ? s->turns : s->user[0];
}

ft_status source_tell_shape(const struct row_shape **out, const json *row, ft_error *err)
{
    const char *keys[TOLD_BY_KEYS];
    *out = NULL;
    for (size_t i = 0; i < TOLD_BY_KEYS; i++) {
        keys[i] = source_telling_key(&shapes[i]);
        if (source_is_absent(json_get(row, keys[i])))
            continue;
        if (*out != NULL)
            return ft_fail(err, FT_EFORMAT,
                           ": has both \"%s\" and \"%s\"; say which with --rows %s or --rows %s",
                           source_telling_key(*out), keys[i], (*out)->name, shapes[i].name);
        *out = &shapes[i];
    }
    if (*out != NULL)
        return FT_OK;
    ft_error inner;
    FT_ASSERT(source_missing_key(row, keys, TOLD_BY_KEYS, &inner) != FT_OK);
    return ft_fail(err, inner.status, "%s (other keys are named with --columns)", inner.text);
}

/* --- options ---------------------------------------------------------------------------------- */

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
