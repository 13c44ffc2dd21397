/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/source.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/mem.h"

void conversation_free(struct conversation *c)
{
    mem_free(c->messages);
    arena_destroy(&c->joined);
    *c = (struct conversation){0};
}

/* --- messages about keys --------------------------------------------------------------------- */

enum { MAX_KEYS_NAMED = 8, SHOWN_BYTES = 48 };

/* Foreign text for a one-line message: cut at a character, control characters as '?'. */
static const char *shown(char dst[SHOWN_BYTES], str s)
{
    s = str_sub(s, 0, FT_MIN(s.len, (size_t)SHOWN_BYTES - 1));
    s.len = str_utf8_invalid_at(s);
    for (size_t i = 0; i < s.len; i++)
        dst[i] = (unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7F ? '?' : s.ptr[i];
    dst[s.len] = '\0';
    return dst;
}

/* The keys that are there instead, with a likely typing error pointed out. */
static ft_status missing_key(const json *object, const char *wanted, ft_error *err)
{
    struct buf text = {0};
    char key[SHOWN_BYTES], near[SHOWN_BYTES] = "";
    size_t n = 0;
    for (const json *m = json_first(object); m != NULL; m = json_next(m), n++) {
        const char *name = shown(key, json_key(m));
        if (n < MAX_KEYS_NAMED)
            buf_printf(&text, "%s\"%s\"", n == 0 ? "" : ", ", name);
        if (near[0] == '\0' && str_nearest(str_from(wanted), &name, 1) != NULL)
            shown(near, str_from(name));
    }
    if (n > MAX_KEYS_NAMED)
        buf_printf(&text, " and %zu more", n - MAX_KEYS_NAMED);
    if (near[0] != '\0')
        buf_printf(&text, "; did you mean \"%s\" for \"%s\"?", wanted, near);
    buf_byte(&text, '\0');
    ft_status st = buf_status(&text, "a message", err);
    if (st == FT_OK)
        st = ft_fail(err, FT_EFORMAT, ": \"%s\" is missing; the keys are %s", wanted,
                     n == 0 ? "none" : (const char *)text.data);
    buf_free(&text);
    return st;
}

/* Messages start with the rest of their path, ".role: ..." or ": ..."; these add what is before. */
static ft_status after(const char *place, ft_error *err)
{
    ft_error inner = *err;
    if (inner.status != FT_EFORMAT)
        return inner.status;
    return ft_fail(err, FT_EFORMAT, "%s%s", place, inner.text);
}

static ft_status inside(const char *list, size_t i, ft_error *err)
{
    char place[48];
    snprintf(place, sizeof place, "%s[%zu]", list, i);
    return after(place, err);
}

/* --- fields ---------------------------------------------------------------------------------- */

#define ROLES "\"system\", \"developer\", \"user\", \"assistant\", \"tool\" or \"function\""

static ft_status read_role(enum chat_role *out, const json *message, ft_error *err)
{
    const json *v = json_get(message, "role");
    str role;
    if (v == NULL)
        return missing_key(message, "role", err);
    if (!json_str(v, &role))
        return ft_fail(err, FT_EFORMAT, ".role: expected " ROLES ", found %s",
                       json_kind_name(json_kind(v)));
    for (int r = 0; r < CHAT_ROLES; r++)
        if (str_is(role, chat_role_names[r])) {
            *out = (enum chat_role)r;
            return FT_OK;
        }
    char name[SHOWN_BYTES];
    const char *near = str_nearest(role, chat_role_names, CHAT_ROLES);
    return ft_fail(err, FT_EFORMAT, ".role: \"%s\" is not known, expected " ROLES "%s%s%s",
                   shown(name, role), near == NULL ? "" : "; did you mean \"",
                   near == NULL ? "" : near, near == NULL ? "" : "\"?");
}

static bool same_word(str s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.ptr, word, s.len) == 0;
}

/* true, false, 0, 1 or their names; null is as good as absent. */
static ft_status read_flag(enum chat_loss *out, const json *v, const char *key, ft_error *err)
{
    bool on;
    double number;
    str text;
    *out = CHAT_LOSS_DEFAULT;
    if (v == NULL || json_kind(v) == JSON_NULL)
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

static ft_status read_loss(enum chat_loss *out, const json *message, ft_error *err)
{
    enum chat_loss weight;
    FT_TRY(read_flag(out, json_get(message, "loss"), "loss", err));
    FT_TRY(read_flag(&weight, json_get(message, "weight"), "weight", err));
    if (*out != CHAT_LOSS_DEFAULT && weight != CHAT_LOSS_DEFAULT && *out != weight)
        return ft_fail(err, FT_EFORMAT, ".loss: contradicts \"weight\", which means the same");
    if (*out == CHAT_LOSS_DEFAULT)
        *out = weight;
    return FT_OK;
}

static ft_status read_part(str *out, const json *part, ft_error *err)
{
    const json *type = json_get(part, "type"), *text = json_get(part, "text");
    str name;
    if (json_kind(part) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, ": expected {\"type\": \"text\", \"text\": ...}, found %s",
                       json_kind_name(json_kind(part)));
    if (type == NULL)
        return missing_key(part, "type", err);
    if (!json_str(type, &name) || !str_is(name, "text"))
        return ft_fail(err, FT_EFORMAT, ".type: only \"text\" parts are supported");
    if (text == NULL)
        return missing_key(part, "text", err);
    if (!json_str(text, out))
        return ft_fail(err, FT_EFORMAT, ".text: expected a string, found %s",
                       json_kind_name(json_kind(text)));
    return FT_OK;
}

/* Parts are joined without a separator. */
static ft_status read_parts(str *out, struct arena *joined, const json *list, ft_error *err)
{
    size_t i = 0, bytes = 0, used = 0;
    str part;
    for (const json *p = json_first(list); p != NULL; p = json_next(p), i++) {
        if (read_part(&part, p, err) != FT_OK)
            return inside(".content", i, err);
        bytes += part.len; /* all inside one row, which is far below SIZE_MAX */
    }
    char *text = arena_alloc(joined, bytes, 1);
    if (text == NULL)
        return ft_fail_memory(err, bytes, "the content of a message");
    for (const json *p = json_first(list); p != NULL; p = json_next(p)) {
        FT_TRY(read_part(&part, p, err));
        if (part.len > 0)
            memcpy(text + used, part.ptr, part.len);
        used += part.len;
    }
    *out = (str){text, bytes};
    return FT_OK;
}

/* Tool calls may stand alone. */
static ft_status read_content(struct chat_message *message, struct arena *joined, ft_error *err)
{
    const json *v = json_get(message->json, "content");
    str *out = &message->content;
    *out = STR("");
    if (json_str(v, out) ||
        ((v == NULL || json_kind(v) == JSON_NULL) && chat_message_has_calls(message)))
        return FT_OK;
    if (v == NULL)
        return missing_key(message->json, "content", err);
    if (json_kind(v) == JSON_ARRAY)
        return read_parts(out, joined, v, err);
    return ft_fail(err, FT_EFORMAT, ".content: expected a string or a list of text parts, found %s",
                   json_kind_name(json_kind(v)));
}

static ft_status read_name(str *out, const json *message, ft_error *err)
{
    const json *v = json_get(message, "name");
    *out = STR("");
    if (v == NULL || json_kind(v) == JSON_NULL || json_str(v, out))
        return FT_OK;
    return ft_fail(err, FT_EFORMAT, ".name: expected a string, found %s",
                   json_kind_name(json_kind(v)));
}

/* Other keys of a message are ignored, but a misspelt flag would train what it means to leave out.
 * A misspelt "role" or "content" needs no such check: the right one is then missing. */
static ft_status refuse_misspelt_flags(const json *message, ft_error *err)
{
    static const char *const flags[] = {"loss", "weight"};
    char name[SHOWN_BYTES];
    for (const json *m = json_first(message); m != NULL; m = json_next(m)) {
        const char *near = str_nearest(json_key(m), flags, ARRAY_LEN(flags));
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
            if (same_word(json_key(m), flags[i])) /* capitals are many edits away */
                near = flags[i];
        if (near != NULL && !str_is(json_key(m), near))
            return ft_fail(err, FT_EFORMAT, ": \"%s\" is not known; did you mean \"%s\"?",
                           shown(name, json_key(m)), near);
    }
    return FT_OK;
}

static ft_status read_message(struct chat_message *out, struct arena *joined, const json *v,
                              ft_error *err)
{
    if (json_kind(v) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT,
                       ": expected an object with \"role\" and \"content\", found %s",
                       json_kind_name(json_kind(v)));
    *out = (struct chat_message){.json = v};
    if (read_role(&out->role, v, err) != FT_OK || read_content(out, joined, err) != FT_OK ||
        read_name(&out->name, v, err) != FT_OK || refuse_misspelt_flags(v, err) != FT_OK)
        return err->status;
    return read_loss(&out->loss, v, err);
}

/* --- rows ------------------------------------------------------------------------------------ */

static ft_status find_messages(const json **out, const json *row, ft_error *err)
{
    *out = row;
    if (json_kind(row) == JSON_ARRAY)
        return FT_OK; /* a bare list is the list of messages */
    if (json_kind(row) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "the row: expected an object with \"messages\", found %s",
                       json_kind_name(json_kind(row)));
    *out = json_get(row, "messages");
    if (*out == NULL) {
        FT_ASSERT(missing_key(row, "messages", err) != FT_OK);
        return after("the row", err);
    }
    if (json_kind(*out) != JSON_ARRAY)
        return ft_fail(err, FT_EFORMAT, "messages: expected a list, found %s",
                       json_kind_name(json_kind(*out)));
    return FT_OK;
}

static ft_status reserve(struct conversation *c, size_t n, ft_error *err)
{
    if (n <= c->cap)
        return FT_OK;
    struct chat_message *grown = mem_realloc(c->messages, n, sizeof *grown);
    if (grown == NULL)
        return ft_fail_memory(err, n * sizeof *grown, "messages");
    c->messages = grown;
    c->cap = n;
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
    if (i > 0 && m->role == CHAT_SYSTEM && m[-1].role == CHAT_SYSTEM)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].role: two system messages in a row; join them into one", i);
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

ft_status source_read_row(struct conversation *out, const json *row, bool strict, ft_error *err)
{
    const json *list;
    out->n = out->n_trailing = out->n_empty = 0;
    arena_destroy(&out->joined);
    FT_TRY(find_messages(&list, row, err));
    FT_TRY(reserve(out, json_count(list), err));
    for (const json *v = json_first(list); v != NULL; v = json_next(v), out->n++) {
        if (read_message(&out->messages[out->n], &out->joined, v, err) != FT_OK)
            return inside("messages", out->n, err);
        FT_TRY(check_message(out, out->n, strict, err));
    }
    FT_TRY(drop_trailing(out, err));
    if (out->n == 0)
        out->n_trailing = 0; /* the row as a whole is what is dropped */
    return FT_OK;
}
