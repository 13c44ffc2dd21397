/* SPDX-License-Identifier: Apache-2.0
 * What the readers of all shapes share: messages that teach, and single fields. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/source_shapes.h"

/* --- messages about keys ---------------------------------------------------------------------- */

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

/* --- fields ----------------------------------------------------------------------------------- */

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
