/* SPDX-License-Identifier: Apache-2.0
 * Rows whose question and answer stand in columns, Alpaca's and others'. */
#include <string.h>

#include "tools/source_shapes.h"

static ft_status need_str(str *out, const json *row, const char *key, ft_error *err)
{
    const json *v = json_get(row, key);
    if (v == NULL)
        return source_missing_key(row, &key, 1, err);
    if (json_str(v, out))
        return FT_OK;
    FT_ASSERT(source_wrong_kind("", "a string", v, err) != FT_OK);
    return source_after_key(key, err);
}

/* The user columns that a row has, with line breaks between them. */
static ft_status read_question(str *out, struct conversation *c, const struct row_shape *shape,
                               const json *row, ft_error *err)
{
    str parts[ARRAY_LEN(shape->user)];
    size_t n = 1, bytes = 0;
    char *at;
    FT_TRY(need_str(&parts[0], row, shape->user[0], err));
    for (size_t i = 1; i < ARRAY_LEN(shape->user) && shape->user[i] != NULL; i++)
        if (!source_is_absent(json_get(row, shape->user[i])))
            FT_TRY(need_str(&parts[n++], row, shape->user[i], err));
    for (size_t i = 0; i < n; i++)
        bytes += parts[i].len + 1;
    FT_TRY(source_room(&at, c, bytes, err));
    *out = (str){at, bytes - 1};
    for (size_t i = 0; i < n; i++) {
        memcpy(at, parts[i].ptr, parts[i].len);
        at += parts[i].len;
        *at++ = '\n';
    }
    return FT_OK;
}

static ft_status read_pair(struct conversation *c, const json *pair, ft_error *err)
{
    struct chat_message question = {.role = CHAT_USER}, answer = {.role = CHAT_ASSISTANT};
    const json *first = json_first(pair);
    if (json_kind(pair) != JSON_ARRAY || json_count(pair) != 2 ||
        !json_str(first, &question.content) || !json_str(json_next(first), &answer.content))
        return ft_fail(err, FT_EFORMAT, ": expected [question, answer], two strings");
    FT_TRY(source_add(c, &question, err));
    return source_add(c, &answer, err);
}

static ft_status read_history(struct conversation *c, const char *key, const json *row,
                              ft_error *err)
{
    const json *list = key == NULL ? NULL : json_get(row, key);
    size_t i = 0;
    if (source_is_absent(list))
        return FT_OK;
    if (json_kind(list) != JSON_ARRAY)
        return source_wrong_kind(key, "a list of [question, answer]", list, err);
    for (const json *pair = json_first(list); pair != NULL; pair = json_next(pair), i++)
        if (read_pair(c, pair, err) != FT_OK)
            return source_inside(key, i, err);
    return FT_OK;
}

static ft_status read_last(struct conversation *c, const struct row_shape *shape, const json *row,
                           ft_error *err)
{
    struct chat_message question = {.role = CHAT_USER}, answer = {.role = CHAT_ASSISTANT};
    FT_TRY(read_question(&question.content, c, shape, row, err));
    FT_TRY(need_str(&answer.content, row, shape->assistant, err));
    FT_TRY(source_add(c, &question, err));
    if (shape->no_answer != NULL && str_is(answer.content, shape->no_answer))
        return FT_OK;
    return source_add(c, &answer, err);
}

ft_status source_read_columns(struct conversation *out, const struct row_shape *shape,
                              const json *row, ft_error *err)
{
    str system = str_from(shape->system_text == NULL ? "" : shape->system_text);
    if (shape->system != NULL)
        FT_TRY(source_opt_str(&system, row, shape->system, err));
    FT_TRY(source_add_system(out, system, err));
    FT_TRY(read_history(out, shape->history, row, err));
    return read_last(out, shape, row, err);
}
