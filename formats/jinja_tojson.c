/* SPDX-License-Identifier: Apache-2.0
 * The filter tojson: json.dumps of Python, as chat templates call it. */
#include <stdio.h>
#include <string.h>

#include "formats/jinja_internal.h"

struct writer {
    struct jinja_run *r;
    struct jinja_builder b;
    bool ascii, sort, indented;
    struct jinja_value indent; /* one level */
    struct jinja_value item_separator, key_separator;
    size_t level;
};

static ft_status put(struct writer *w, const char *text, uint32_t origin)
{
    return jinja_put(w->r, &w->b, str_from(text), origin);
}

static ft_status put_escaped(struct writer *w, uint32_t c, uint32_t origin)
{
    char text[16];
    static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    const char *known = c == 0 || c > 0x7F ? NULL : strchr(plain, (int)c);
    if (known != NULL)
        snprintf(text, sizeof text, "\\%c", letters[known - plain]);
    else if (c < 0x20 || (w->ascii && c >= 0x7F && c < 0x10000))
        snprintf(text, sizeof text, "\\u%04x", c);
    else if (w->ascii && c >= 0x10000)
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
    else
        return jinja_put_char(w->r, &w->b, c, origin);
    return put(w, text, origin);
}

static ft_status put_string(struct writer *w, const struct jinja_str *s)
{
    struct jinja_cursor cursor = {s, 0, 0};
    uint32_t c, origin = s->n_pieces > 0 ? s->pieces[0].origin : JINJA_TEMPLATE;
    FT_TRY(put(w, "\"", origin));
    while (jinja_cursor_next(&cursor, &c, &origin))
        FT_TRY(put_escaped(w, c, origin));
    return put(w, "\"", origin);
}

static ft_status put_float(struct writer *w, double f, uint32_t origin)
{
    char text[JINJA_FLOAT_TEXT];
    if (f - f != 0)
        return put(w, f != f ? "NaN" : f > 0 ? "Infinity" : "-Infinity", origin);
    jinja_float_text(text, f);
    return put(w, text, origin);
}

static ft_status put_newline(struct writer *w, uint32_t origin)
{
    if (!w->indented)
        return FT_OK;
    FT_TRY(put(w, "\n", origin));
    for (size_t i = 0; i < w->level; i++)
        FT_TRY(jinja_put(w->r, &w->b, jinja_view(w->indent), origin));
    return FT_OK;
}

static ft_status put_value(struct writer *w, struct jinja_value v);

static ft_status begin_item(struct writer *w, bool first, uint32_t origin)
{
    if (!first)
        FT_TRY(jinja_put(w->r, &w->b, jinja_view(w->item_separator), origin));
    return put_newline(w, origin);
}

static ft_status put_list(struct writer *w, struct jinja_value v)
{
    if (v.as.seq->n == 0)
        return put(w, "[]", v.origin);
    FT_TRY(put(w, "[", v.origin));
    w->level++;
    for (size_t i = 0; i < v.as.seq->n; i++) {
        FT_TRY(begin_item(w, i == 0, v.origin));
        FT_TRY(put_value(w, v.as.seq->items[i]));
    }
    w->level--;
    FT_TRY(put_newline(w, v.origin));
    return put(w, "]", v.origin);
}

/* Keys that are no strings are written as the texts of their JSON. */
static ft_status put_key(struct writer *w, struct jinja_value key)
{
    switch (key.type) {
    case JV_STR:
        return put_string(w, key.as.str);
    case JV_NONE:
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT:
        FT_TRY(put(w, "\"", key.origin));
        FT_TRY(put_value(w, key));
        return put(w, "\"", key.origin);
    default:
        return jinja_raise(w->r, "tojson: keys must be strings or numbers, not %s",
                           jinja_type_name(key));
    }
}

/* Order of the keys for sort_keys: a merge sort of positions. */
static ft_status sorted_keys(struct writer *w, struct jinja_value *out, struct jinja_value dict)
{
    struct jinja_value items, args[4];
    FT_TRY(jinja_collect(&items, w->r, dict, JV_LIST));
    args[0] = items;
    args[1] = jinja_missing();
    args[2] = jinja_bool(true); /* case_sensitive */
    args[3] = jinja_missing();
    return jinja_sort(out, w->r, args);
}

static ft_status put_dict(struct writer *w, struct jinja_value v)
{
    struct jinja_value keys, *value;
    if (v.as.dict->n == 0)
        return put(w, "{}", v.origin);
    if (w->sort)
        FT_TRY(sorted_keys(w, &keys, v));
    else
        FT_TRY(jinja_collect(&keys, w->r, v, JV_LIST));
    FT_TRY(put(w, "{", v.origin));
    w->level++;
    for (size_t i = 0; i < keys.as.seq->n; i++) {
        struct jinja_value key = keys.as.seq->items[i];
        FT_TRY(begin_item(w, i == 0, v.origin));
        FT_TRY(put_key(w, key));
        FT_TRY(jinja_put(w->r, &w->b, jinja_view(w->key_separator), v.origin));
        FT_TRY(jinja_dict_get(&value, w->r, v.as.dict, key));
        FT_TRY(put_value(w, *value));
    }
    w->level--;
    FT_TRY(put_newline(w, v.origin));
    return put(w, "}", v.origin);
}

static ft_status put_value(struct writer *w, struct jinja_value v)
{
    ft_status st;
    FT_TRY(jinja_steps(w->r, 1));
    switch (v.type) {
    case JV_NONE:
        return put(w, "null", v.origin);
    case JV_BOOL:
        return put(w, v.as.b ? "true" : "false", v.origin);
    case JV_FLOAT:
        return put_float(w, v.as.f, v.origin);
    case JV_INT:
    case JV_BIG:
        return jinja_put_value(w->r, &w->b, v);
    case JV_STR:
        return put_string(w, v.as.str);
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
        FT_TRY(jinja_enter_value(w->r));
        st = v.type == JV_DICT ? put_dict(w, v) : put_list(w, v);
        w->r->value_depth--;
        return st;
    default:
        return jinja_raise(w->r, "tojson: a %s is not JSON", jinja_type_name(v));
    }
}

static ft_status read_indent(struct writer *w, struct jinja_value v)
{
    struct jinja_value space;
    w->indented = v.type != JV_MISSING && v.type != JV_NONE;
    if (!w->indented)
        return FT_OK;
    if (v.type == JV_STR) {
        w->indent = v;
        return FT_OK;
    }
    if (!jinja_is_int(v))
        return jinja_raise(w->r, "tojson: indent is a number or a string, not %s",
                           jinja_type_name(v));
    FT_TRY(jinja_new_text(&space, w->r, STR(" "), v.origin));
    return jinja_binary(&w->indent, w->r, JT_MUL, space, v);
}

static ft_status read_separators(struct writer *w, struct jinja_value v)
{
    struct jinja_value pair;
    if (v.type == JV_MISSING || v.type == JV_NONE) {
        FT_TRY(jinja_new_text(&w->item_separator, w->r, w->indented ? STR(",") : STR(", "), 0));
        return jinja_new_text(&w->key_separator, w->r, STR(": "), 0);
    }
    FT_TRY(jinja_collect(&pair, w->r, v, JV_TUPLE));
    if (pair.as.seq->n != 2 || pair.as.seq->items[0].type != JV_STR ||
        pair.as.seq->items[1].type != JV_STR)
        return jinja_raise(w->r, "tojson: separators are two strings");
    w->item_separator = pair.as.seq->items[0];
    w->key_separator = pair.as.seq->items[1];
    return FT_OK;
}

/* a: value, ensure_ascii, indent, separators, sort_keys. */
ft_status jinja_tojson(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct writer w = {.r = r, .ascii = jinja_truth(a[1]), .sort = jinja_truth(a[4])};
    FT_TRY(read_indent(&w, a[2]));
    FT_TRY(read_separators(&w, a[3]));
    FT_TRY(put_value(&w, a[0]));
    return jinja_built(out, r, &w.b);
}
