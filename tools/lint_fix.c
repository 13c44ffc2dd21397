/* SPDX-License-Identifier: Apache-2.0
 * Fixes are made in the text of the row, not in parsed values, so that numbers, escapes, the order
 * of keys and everything that is not fixed stay as they were. */
#include <stdio.h>
#include <string.h>

#include "formats/chat.h"
#include "tools/lint.h"

/* --- walking JSON text that the parser accepted ---------------------------------------------- */

struct span {
    size_t from, to;
};

static size_t skip_space(str t, size_t at)
{
    while (at < t.len && strchr(" \t\r\n", t.ptr[at]) != NULL)
        at++;
    return at;
}

static size_t skip_string(str t, size_t at)
{
    for (at++; at < t.len && t.ptr[at] != '"'; at++)
        at += t.ptr[at] == '\\';
    return at + 1;
}

/* Behind the value that starts at t[at]. */
static size_t skip_value(str t, size_t at)
{
    size_t depth = 0;
    while (at < t.len) {
        char c = t.ptr[at];
        if (c == '"') {
            at = skip_string(t, at);
        } else if (depth == 0 && strchr(",]} \t\r\n", c) != NULL) {
            break;
        } else {
            depth += (size_t)(c == '{' || c == '[');
            depth -= (size_t)(c == '}' || c == ']');
            at++;
        }
        if (depth == 0 && strchr("]}\"", t.ptr[at - 1]) != NULL)
            break;
    }
    return FT_MIN(at, t.len);
}

/* The next element or member of the container that `at` is inside of; *at starts behind its opening
 * bracket. False at the end. key is empty for elements. */
static bool next_item(struct span *key, struct span *value, str t, size_t *at)
{
    size_t i = skip_space(t, *at);
    if (i < t.len && t.ptr[i] == ',')
        i = skip_space(t, i + 1);
    if (i >= t.len || t.ptr[i] == ']' || t.ptr[i] == '}')
        return false;
    *key = (struct span){i, i};
    *value = (struct span){i, skip_value(t, i)};
    size_t behind = skip_space(t, value->to);
    if (behind < t.len && t.ptr[behind] == ':') {
        *key = *value;
        value->from = skip_space(t, behind + 1);
        value->to = skip_value(t, value->from);
    }
    *at = value->to;
    return true;
}

/* --- editing --------------------------------------------------------------------------------- */

struct editor {
    struct buf *out;
    str text;
    size_t copied; /* text before it is in out */
    uint64_t *fixed;
};

/* Line ends stand between values only: a row becomes one line. */
static void copy_to(struct editor *e, size_t to)
{
    for (size_t i = e->copied; i < to; i++) {
        char c = e->text.ptr[i];
        buf_byte(e->out, (uint8_t)(c == '\n' || c == '\r' ? ' ' : c));
    }
    e->copied = to;
}

static void replace(struct editor *e, struct span s, const char *with, enum lint_code code)
{
    copy_to(e, s.from);
    buf_cstr(e->out, with);
    e->copied = s.to;
    e->fixed[code]++;
}

/* --- one message ----------------------------------------------------------------------------- */

/* After its name was repaired. */
static bool is_role(const json *message, enum chat_role role)
{
    struct message_keys keys;
    enum chat_role is;
    str name;
    if (source_message_role(&is, &keys, message))
        return is == role;
    const char *alias =
        json_str(json_get(message, keys.role), &name) ? lint_role_alias(name) : NULL;
    return alias != NULL && strcmp(alias, chat_role_names[role]) == 0;
}

static void fix_role(struct editor *e, const json *v, struct span value)
{
    char quoted[32];
    str role;
    const char *alias =
        json_str(v, &role) ? lint_role_alias(role) : NULL; /* known ones have none */
    if (alias == NULL)
        return;
    snprintf(quoted, sizeof quoted, "\"%s\"", alias);
    replace(e, value, quoted, LINT_M15);
}

static void fix_flag(struct editor *e, const json *message, const json *v, struct span value)
{
    bool on = is_role(message, CHAT_ASSISTANT);
    if (json_kind(v) == JSON_NULL)
        replace(e, value, on ? "true" : "false", LINT_M02);
    else if (lint_flag_word(v, &on))
        replace(e, value, on ? "true" : "false", LINT_M05);
}

/* The text and the parsed message hold the same members in the same order. */
static void fix_message(struct editor *e, const json *message, struct span at)
{
    struct span key, value;
    struct message_keys keys;
    enum chat_role role;
    size_t i = at.from + 1;
    const json *v = json_first(message);
    bool known = source_message_role(&role, &keys, message);
    if (json_kind(message) != JSON_OBJECT)
        return;
    for (; v != NULL && next_item(&key, &value, e->text, &i); v = json_next(v)) {
        if (!known && str_is(json_key(v), keys.role))
            fix_role(e, v, value);
        if (str_is(json_key(v), "loss") || str_is(json_key(v), "weight"))
            fix_flag(e, message, v, value);
    }
}

/* --- the list of messages -------------------------------------------------------------------- */

static bool is_empty_system(const json *message)
{
    str text;
    return is_role(message, CHAT_SYSTEM) && json_str(json_get(message, "content"), &text) &&
           lint_is_blank(text) && json_get(message, "loss") == NULL &&
           json_get(message, "weight") == NULL;
}

static bool is_on(const json *v)
{
    bool on;
    return (json_bool(v, &on) || lint_flag_word(v, &on)) && on;
}

/* How many messages are left: those up to the last assistant message, or all when there is none or
 * when one behind it asks to be trained. */
static size_t count_kept(const json *list)
{
    size_t n = 0, kept = 0;
    bool asked = false;
    for (const json *m = json_first(list); m != NULL; m = json_next(m)) {
        n++;
        asked |= is_on(json_get(m, "loss")) || is_on(json_get(m, "weight"));
        if (is_role(m, CHAT_ASSISTANT)) {
            kept = n;
            asked = false;
        }
    }
    return kept == 0 || asked ? n : kept;
}

static void fix_list(struct editor *e, const json *list, struct span at)
{
    struct span key, value, behind = {0, 0};
    size_t i = at.from + 1, n = 0, kept = count_kept(list);
    bool removing = false; /* an element, up to where the next one starts */
    for (const json *m = json_first(list); m != NULL; m = json_next(m), n++) {
        if (!next_item(&key, &value, e->text, &i))
            break;
        if (removing)
            e->copied = value.from;
        removing = n + 1 < kept && is_empty_system(m);
        if (removing) {
            copy_to(e, value.from);
            e->fixed[LINT_M16]++;
        } else if (n < kept) {
            fix_message(e, m, value);
            behind.from = value.to;
        }
        behind.to = value.to;
    }
    if (n > kept) {
        replace(e, behind, "", LINT_M06);
        e->fixed[LINT_M06] += n - kept - 1;
    }
}

/* Where the list of messages stands. */
static bool find_list(struct span *out, str t, const json *row, const char *name)
{
    struct span key;
    size_t start = skip_space(t, 0), i = start + 1;
    if (json_kind(row) == JSON_ARRAY) {
        *out = (struct span){start, skip_value(t, start)};
        return true;
    }
    for (const json *v = json_first(row); v != NULL && next_item(&key, out, t, &i);
         v = json_next(v))
        if (str_is(json_key(v), name))
            return true;
    return false;
}

static void fix_parsed(struct buf *out, uint64_t *fixed, str text, const json *row,
                       const struct source_options *o)
{
    const char *name;
    struct span at;
    struct editor e = {out, text, 0, fixed};
    const json *list = lint_find_messages(&name, row, o);
    if (list != NULL && find_list(&at, text, row, name))
        fix_list(&e, list, at);
    copy_to(&e, text.len);
}

/* --- commas ---------------------------------------------------------------------------------- */

static bool is_trailing_comma(str t, size_t at)
{
    size_t next = skip_space(t, at + 1);
    return next == t.len || t.ptr[next] == '}' || t.ptr[next] == ']';
}

static uint64_t drop_commas(struct buf *out, str t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t.len;) {
        size_t end = t.ptr[i] == '"' ? FT_MIN(skip_string(t, i), t.len) : i + 1;
        bool drop = t.ptr[i] == ',' && is_trailing_comma(t, i);
        if (!drop)
            buf_append(out, t.ptr + i, end - i);
        n += drop;
        i = end;
    }
    return n;
}

/* Without its trailing commas the row is JSON, or it stays as it is. */
static ft_status fix_commas(struct buf *out, uint64_t *fixed, str text,
                            const struct source_options *o, ft_error *err)
{
    struct buf without = {0};
    struct json_doc *doc = NULL;
    uint64_t n = drop_commas(&without, text);
    ft_status st = buf_status(&without, "a row", err);
    if (st == FT_OK)
        st = json_parse(&doc, "row", buf_view(&without), JSON_STRICT, err);
    if (st == FT_OK && n > 0) {
        fixed[LINT_J12] += n;
        fix_parsed(out, fixed, buf_view(&without), json_root(doc), o);
    } else if (st == FT_OK || st == FT_EFORMAT || st == FT_ELIMIT) {
        buf_str(out, text);
        st = FT_OK;
    }
    json_close(doc);
    buf_free(&without);
    return st;
}

ft_status lint_fix_row(struct buf *out, uint64_t fixed[LINT_CODES], str text,
                       const struct json_doc *doc, const struct source_options *o, ft_error *err)
{
    if (str_starts(text, STR("\xEF\xBB\xBF"))) { /* files put together with cat */
        text = str_sub(text, 3, text.len);
        fixed[LINT_J09]++;
    }
    if (doc != NULL)
        fix_parsed(out, fixed, text, json_root(doc), o);
    else
        FT_TRY(fix_commas(out, fixed, text, o, err));
    return buf_status(out, "a fixed row", err);
}
