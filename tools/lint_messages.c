/* SPDX-License-Identifier: Apache-2.0
 * Rules on the messages of a row. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "formats/chat.h"
#include "tools/lint.h"

enum { SHOWN = 40 };

/* --- shared with the fixes ------------------------------------------------------------------- */

const json *lint_find_messages(const char **name, const json *row, const struct source_options *o)
{
    const json *list = row;
    *name = o->shape.messages != NULL ? o->shape.messages : "messages";
    if (o->shape.name != NULL && o->shape.messages == NULL)
        return NULL;
    if (json_kind(row) == JSON_OBJECT)
        list = json_get(row, *name);
    if (list == NULL && o->shape.name == NULL) {
        *name = "conversations";
        list = json_get(row, *name);
    }
    return list != NULL && json_kind(list) == JSON_ARRAY ? list : NULL;
}

static bool same_word(str s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.ptr, word, s.len) == 0;
}

const char *lint_role_alias(str role)
{
    static const struct {
        const char *alias, *role;
    } aliases[] = {{"human", "user"},        {"prompter", "user"}, {"gpt", "assistant"},
                   {"chatgpt", "assistant"}, {"bot", "assistant"}, {"model", "assistant"}};
    for (int r = 0; r < CHAT_ROLES; r++) {
        if (str_is(role, chat_role_names[r]))
            return NULL;
        if (same_word(role, chat_role_names[r]))
            return chat_role_names[r];
    }
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (same_word(role, aliases[i].alias))
            return aliases[i].role;
    return NULL;
}

bool lint_flag_word(const json *v, bool *on)
{
    double number;
    str text;
    if (json_f64(v, &number) && (number == 0 || number == 1)) {
        *on = number == 1;
        return true;
    }
    *on = json_str(v, &text) && same_word(text, "true");
    return *on || (json_str(v, &text) && same_word(text, "false"));
}

bool lint_is_blank(str s)
{
    return str_trim(s).len == 0;
}

/* --- one message ----------------------------------------------------------------------------- */

struct message {
    const json *json;
    const char *list; /* name of the list, for the place */
    size_t i;
    struct message_keys keys;
    bool system, user, assistant;
    bool empty;     /* its content is a text without characters */
    bool on, off;   /* its loss as set; neither = by role */
    bool has_calls; /* of tools */
};

static const char *field(char dst[LINT_FIELD_BYTES], const struct message *m, const char *key)
{
    snprintf(dst, LINT_FIELD_BYTES, "%s[%zu]%s%s", m->list, m->i, key[0] == '\0' ? "" : ".", key);
    return dst;
}

/* Precision for foreign text in a message. */
static int cut(str s)
{
    return (int)FT_MIN(s.len, (size_t)SHOWN);
}

static void check_role(struct lint_list *l, struct message *m)
{
    char at[LINT_FIELD_BYTES];
    enum chat_role role;
    str name;
    bool known = source_message_role(&role, &m->keys, m->json);
    const json *v = json_get(m->json, m->keys.role);
    field(at, m, m->keys.role);
    m->system = known && (role == CHAT_SYSTEM || role == CHAT_DEVELOPER);
    m->user = known && role == CHAT_USER;
    m->assistant = known && role == CHAT_ASSISTANT;
    if (known)
        return;
    if (!json_str(v, &name)) {
        lint_add(l, LINT_M15, at, "expected a role, found %s",
                 v == NULL ? "none" : json_kind_name(json_kind(v)));
        return;
    }
    const char *alias = lint_role_alias(name);
    lint_add(l, LINT_M15, at, "\"%.*s\" is not known%s%s%s", cut(name), name.ptr,
             alias == NULL ? "" : "; here it is called \"", alias == NULL ? "" : alias,
             alias == NULL ? "" : "\"");
}

static void check_part(struct lint_list *l, const struct message *m, size_t k, const json *part,
                       bool *empty)
{
    char at[LINT_FIELD_BYTES], key[32];
    str type, text;
    const json *v = json_get(part, "text");
    snprintf(key, sizeof key, "%s[%zu]", m->keys.content, k);
    if (v == NULL)
        v = json_get(part, "value");
    if (!json_str(json_get(part, "type"), &type))
        lint_add(l, LINT_M14, field(at, m, key), "expected {\"type\": \"text\", ...}, found %s",
                 json_kind(part) == JSON_OBJECT ? "an object without \"type\""
                                                : json_kind_name(json_kind(part)));
    else if (!str_is(type, "text"))
        lint_add(l, LINT_M14, field(at, m, key), "a part of type \"%.*s\"", cut(type), type.ptr);
    else if (!json_str(json_get(part, "text"), &text) && !json_str(json_get(part, "value"), &text))
        lint_add(l, LINT_M14, field(at, m, key), "a text part without \"text\"");
    else
        *empty &= text.len == 0;
}

static void check_content(struct lint_list *l, struct message *m)
{
    char at[LINT_FIELD_BYTES];
    const json *v = json_get(m->json, m->keys.content);
    str text;
    size_t k = 0;
    if (v == NULL || json_kind(v) == JSON_NULL) {
        if (!m->has_calls)
            lint_add(l, LINT_M11, field(at, m, m->keys.content), "%s",
                     v == NULL ? "is missing" : "null");
    } else if (json_str(v, &text)) {
        m->empty = text.len == 0;
        if (m->system && lint_is_blank(text))
            lint_add(l, LINT_M16, field(at, m, m->keys.content), "%s", "");
    } else if (json_kind(v) == JSON_ARRAY) {
        m->empty = true;
        for (const json *p = json_first(v); p != NULL; p = json_next(p), k++)
            check_part(l, m, k, p, &m->empty);
    } else {
        lint_add(l, LINT_M14, field(at, m, m->keys.content), "expected a text, found %s",
                 json_kind_name(json_kind(v)));
    }
}

/* *set = whether the flag is on or off at all. */
static void check_flag(struct lint_list *l, const struct message *m, const char *key, bool *set,
                       bool *on)
{
    char at[LINT_FIELD_BYTES];
    const json *v = json_get(m->json, key);
    *set = json_bool(v, on);
    if (v == NULL || *set) {
        if (*set && strcmp(key, "weight") == 0)
            lint_add(l, LINT_M05, field(at, m, key), "called \"weight\"");
    } else if (json_kind(v) == JSON_NULL) {
        lint_add(l, LINT_M02, field(at, m, key), "here it means %s",
                 m->assistant ? "true" : "false");
    } else if (lint_flag_word(v, on)) {
        *set = true;
        lint_add(l, LINT_M05, field(at, m, key), "%s, which means %s", json_kind_name(json_kind(v)),
                 *on ? "true" : "false");
    } else {
        lint_add(l, LINT_M03, field(at, m, key), "neither on nor off: %s",
                 json_kind_name(json_kind(v)));
    }
}

static void check_foreign_flags(struct lint_list *l, const struct message *m)
{
    static const char *const keys[] = {"train",      "training", "trainable",
                                       "loss_scale", "mask",     "masked"};
    char at[LINT_FIELD_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (json_get(m->json, keys[i]) != NULL)
            lint_add(l, LINT_M21, field(at, m, keys[i]), "%s", "");
}

static void check_loss(struct lint_list *l, struct message *m)
{
    char at[LINT_FIELD_BYTES];
    bool loss_set, loss_on, weight_set, weight_on;
    check_flag(l, m, "loss", &loss_set, &loss_on);
    check_flag(l, m, "weight", &weight_set, &weight_on);
    check_foreign_flags(l, m);
    if (loss_set && weight_set && loss_on != weight_on)
        lint_add(l, LINT_M03, field(at, m, "loss"), "contradicts \"weight\"");
    m->on = (loss_set && loss_on) || (weight_set && weight_on);
    m->off = !m->on && (loss_set || weight_set);
    if (m->on && !m->assistant)
        lint_add(l, LINT_M04, field(at, m, loss_set ? "loss" : "weight"), "%s", "");
}

static void check_call(struct lint_list *l, const struct message *m, size_t k, const json *call)
{
    char at[LINT_FIELD_BYTES], key[48];
    const json *function = json_get(call, "function");
    const json *arguments = json_get(function != NULL ? function : call, "arguments");
    struct json_doc *doc = NULL;
    ft_error ignored;
    str text;
    if (!json_str(arguments, &text))
        return;
    if (json_parse(&doc, "", text, JSON_STRICT, &ignored) != FT_OK ||
        json_kind(json_root(doc)) != JSON_OBJECT) {
        snprintf(key, sizeof key, "tool_calls[%zu].arguments", k);
        lint_add(l, LINT_M17, field(at, m, key), "%s", "");
    }
    json_close(doc);
}

static void check_calls(struct lint_list *l, struct message *m)
{
    static const char *const keys[] = {"tool_calls", "function_call"};
    char at[LINT_FIELD_BYTES];
    size_t k = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const json *v = json_get(m->json, keys[i]);
        if (json_kind(v) == JSON_OBJECT || json_count(v) > 0) {
            m->has_calls = m->keys.is_openai;
            lint_add(l, LINT_M12, field(at, m, keys[i]), "%s", "");
        }
    }
    const json *calls = json_get(m->json, keys[0]);
    for (const json *c = json_first(calls); c != NULL; c = json_next(c), k++)
        check_call(l, m, k, c);
}

static void check_message(struct lint_list *l, struct message *m)
{
    char at[LINT_FIELD_BYTES];
    if (json_kind(m->json) != JSON_OBJECT) {
        lint_add(l, LINT_M14, field(at, m, ""), "expected a message, found %s",
                 json_kind_name(json_kind(m->json)));
        return;
    }
    check_role(l, m);
    check_calls(l, m);
    check_content(l, m);
    check_loss(l, m);
    if (m->assistant && m->empty && !m->has_calls && !m->off)
        lint_add(l, LINT_M09, field(at, m, m->keys.content), "%s", "");
}

/* --- their order ----------------------------------------------------------------------------- */

struct order {
    const struct source_options *options;
    struct message before; /* json NULL = none */
    size_t n, n_assistant, n_filled, last_assistant;
    bool trains; /* some message is trained */
};

static void check_order(struct lint_list *l, struct order *o, const struct message *m)
{
    char at[LINT_FIELD_BYTES];
    const struct message *b = &o->before;
    bool joined = o->options->merge;
    field(at, m, m->keys.role);
    if (m->system && b->system && !joined)
        lint_add(l, LINT_M18, at, "%s", "");
    if (m->user && b->user && !joined)
        lint_add(l, LINT_M07, at, "%s", "");
    if (m->assistant && b->assistant)
        lint_add(l, LINT_M19, at, "%s", "");
    if (m->assistant && o->n_assistant == 0 && (b->json == NULL || b->system))
        lint_add(l, LINT_M20, at, "%s", "");
    if (m->assistant) {
        o->n_assistant++;
        o->n_filled += !m->empty || m->has_calls;
        o->last_assistant = m->i;
    }
    o->trains |= m->on || (m->assistant && !m->off && o->options->train_on != TRAIN_ON_FLAGGED);
    o->before = *m;
    o->n = m->i + 1;
}

static void check_whole(struct lint_list *l, const struct order *o, const char *list)
{
    char at[LINT_FIELD_BYTES];
    size_t behind = o->n_assistant == 0 ? 0 : o->n - o->last_assistant - 1;
    snprintf(at, sizeof at, "%s[%zu]", list, o->last_assistant + 1);
    if (o->n_assistant == 0)
        lint_add(l, LINT_M08, list, "%zu message%s", o->n, o->n == 1 ? "" : "s");
    else if (o->n_filled == 0)
        lint_add(l, LINT_M10, list, "0 trainable tokens");
    else if (!o->trains)
        lint_add(l, LINT_M01, list, "%s", "");
    if (behind > 0)
        lint_add(l, LINT_M06, at, "%zu message%s", behind, behind == 1 ? "" : "s");
}

bool lint_messages(struct lint_list *l, const json *row, const struct source_options *o)
{
    const char *name;
    const json *list = lint_find_messages(&name, row, o);
    struct order order = {.options = o};
    size_t i = 0;
    if (list == NULL)
        return false;
    if (list == row)
        lint_add(l, LINT_J05, "", "%s", "");
    for (const json *v = json_first(list); v != NULL; v = json_next(v), i++) {
        struct message m = {.json = v, .list = name, .i = i, .keys = {"role", "content", true}};
        check_message(l, &m);
        check_order(l, &order, &m);
    }
    check_whole(l, &order, name);
    return true;
}
