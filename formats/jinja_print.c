/* SPDX-License-Identifier: Apache-2.0
 * Values of templates as text: str() and repr() of Python. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

/* --- floats ---------------------------------------------------------------------------------- */

/* Shortest decimal digits that give f back, and the power of ten of the first one. */
static int shortest_digits(char digits[20], double f)
{
    char text[JINJA_FLOAT_TEXT];
    int precision = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, f);
    while (strtod(text, NULL) != f && ++precision < 17);
    char *e = strchr(text, 'e');
    size_t n = 0;
    for (const char *p = text; p < e; p++)
        if (*p != '.')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return (int)strtol(e + 1, NULL, 10);
}

void jinja_float_text(char out[JINJA_FLOAT_TEXT], double f)
{
    char digits[20];
    if (f - f != 0) {
        snprintf(out, JINJA_FLOAT_TEXT, "%s", f != f ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    const char *sign = signbit(f) ? "-" : "";
    int exponent = shortest_digits(digits, fabs(f)), n = (int)strlen(digits);
    if (exponent < -4 || exponent >= 16)
        snprintf(out, JINJA_FLOAT_TEXT, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "",
                 digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(out, JINJA_FLOAT_TEXT, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(out, JINJA_FLOAT_TEXT, "%s%s%.*s.0", sign, digits, exponent + 1 - n,
                 "0000000000000000");
    else
        snprintf(out, JINJA_FLOAT_TEXT, "%s%.*s.%s", sign, exponent + 1, digits,
                 digits + exponent + 1);
}

/* --- repr ------------------------------------------------------------------------------------ */

static ft_status put_word(struct jinja_run *r, struct jinja_builder *b, const char *word,
                          uint32_t origin)
{
    return jinja_put(r, b, str_from(word), origin);
}

static ft_status put_repr_char(struct jinja_run *r, struct jinja_builder *b, uint32_t c,
                               uint32_t quote, uint32_t origin)
{
    char text[16];
    const char *fixed = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
    if (fixed != NULL)
        return put_word(r, b, fixed, origin);
    if (c == quote || c == '\\')
        FT_TRY(put_word(r, b, "\\", origin));
    if (jinja_char(c)->flags & JINJA_PRINTABLE)
        return jinja_put_char(r, b, c, origin);
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    return put_word(r, b, text, origin);
}

static ft_status put_repr_str(struct jinja_run *r, struct jinja_builder *b,
                              const struct jinja_str *s)
{
    struct jinja_cursor cursor = {s, 0, 0};
    uint32_t c, origin = JINJA_TEMPLATE;
    bool single = s->len > 0 && memchr(s->ptr, '\'', s->len) != NULL;
    bool twofold = s->len > 0 && memchr(s->ptr, '"', s->len) != NULL;
    const char *quote = single && !twofold ? "\"" : "'";
    FT_TRY(put_word(r, b, quote, s->n_pieces > 0 ? s->pieces[0].origin : origin));
    while (jinja_cursor_next(&cursor, &c, &origin))
        FT_TRY(put_repr_char(r, b, c, (uint32_t)quote[0], origin));
    return put_word(r, b, quote, origin);
}

static ft_status put_text_repr(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    if (!(v.flags & JINJA_MARKUP))
        return put_repr_str(r, b, v.as.str);
    FT_TRY(put_word(r, b, "Markup(", JINJA_TEMPLATE));
    FT_TRY(put_repr_str(r, b, v.as.str));
    return put_word(r, b, ")", JINJA_TEMPLATE);
}

static ft_status put_items(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    for (size_t i = 0; i < v.as.seq->n; i++) {
        if (i > 0)
            FT_TRY(put_word(r, b, ", ", v.origin));
        FT_TRY(jinja_put_repr(r, b, v.as.seq->items[i]));
    }
    return FT_OK;
}

static ft_status put_seq(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    bool list = v.type == JV_LIST;
    FT_TRY(put_word(r, b, list ? "[" : "(", v.origin));
    FT_TRY(put_items(r, b, v));
    return put_word(r, b, list ? "]" : v.as.seq->n == 1 ? ",)" : ")", v.origin);
}

static ft_status put_dict(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    FT_TRY(put_word(r, b, "{", v.origin));
    for (size_t i = 0; i < v.as.dict->n; i++) {
        if (i > 0)
            FT_TRY(put_word(r, b, ", ", v.origin));
        FT_TRY(jinja_put_repr(r, b, v.as.dict->items[i].key));
        FT_TRY(put_word(r, b, ": ", v.origin));
        FT_TRY(jinja_put_repr(r, b, v.as.dict->items[i].value));
    }
    return put_word(r, b, "}", v.origin);
}

static ft_status put_view(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    struct jinja_value list;
    FT_TRY(put_word(r, b, jinja_type_name(v), v.origin));
    FT_TRY(put_word(r, b, "(", v.origin));
    FT_TRY(jinja_collect(&list, r, v, JV_LIST));
    FT_TRY(put_seq(r, b, list));
    return put_word(r, b, ")", v.origin);
}

static ft_status put_range(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    char text[80];
    const struct jinja_range *g = v.as.range;
    int n =
        snprintf(text, sizeof text, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)g->step);
    snprintf(text + n, sizeof text - (size_t)n, ")");
    return put_word(r, b, text, v.origin);
}

static ft_status put_loop(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    char text[80];
    int64_t length;
    FT_TRY(jinja_length(&length, r, v));
    snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)v.as.loop->index0 + 1,
             (long long)length);
    return put_word(r, b, text, v.origin);
}

static ft_status put_number(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    char text[JINJA_FLOAT_TEXT];
    if (v.type == JV_FLOAT)
        jinja_float_text(text, v.as.f);
    else
        snprintf(text, sizeof text, "%lld", (long long)v.as.i);
    return put_word(r, b, text, v.origin);
}

static ft_status put_macro(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    const struct jinja_function *f = v.as.macro->function;
    if (f->name.len == 0)
        return put_word(r, b, "<Macro anonymous>", JINJA_TEMPLATE);
    FT_TRY(put_word(r, b, "<Macro '", JINJA_TEMPLATE));
    FT_TRY(jinja_put(r, b, f->name, JINJA_TEMPLATE));
    return put_word(r, b, "'>", JINJA_TEMPLATE);
}

static ft_status put_container(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    switch (v.type) {
    case JV_LIST:
    case JV_TUPLE:
        return put_seq(r, b, v);
    case JV_DICT:
        return put_dict(r, b, v);
    case JV_NAMESPACE:
        FT_TRY(put_word(r, b, "<Namespace ", v.origin));
        FT_TRY(put_dict(r, b, v));
        return put_word(r, b, ">", v.origin);
    default:
        return put_view(r, b, v);
    }
}

ft_status jinja_put_repr(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    FT_TRY(jinja_steps(r, 1));
    switch (v.type) {
    case JV_UNDEFINED:
        return put_word(r, b, "Undefined", v.origin);
    case JV_NONE:
        return put_word(r, b, "None", v.origin);
    case JV_BOOL:
        return put_word(r, b, v.as.b ? "True" : "False", v.origin);
    case JV_INT:
    case JV_FLOAT:
        return put_number(r, b, v);
    case JV_BIG:
        return jinja_put_str(r, b, v.as.str);
    case JV_STR:
        return put_text_repr(r, b, v);
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
    case JV_NAMESPACE:
        FT_TRY(jinja_enter_value(r));
        FT_TRY(put_container(r, b, v));
        r->value_depth--;
        return FT_OK;
    case JV_RANGE:
        return put_range(r, b, v);
    case JV_LOOP:
        return put_loop(r, b, v);
    case JV_MACRO:
        return put_macro(r, b, v);
    default: /* Python prints an address */
        return jinja_raise(r, "a %s cannot be printed", jinja_type_name(v));
    }
}

/* --- str ------------------------------------------------------------------------------------- */

ft_status jinja_put_value(struct jinja_run *r, struct jinja_builder *b, struct jinja_value v)
{
    if (v.type == JV_STR)
        return jinja_put_str(r, b, v.as.str);
    return v.type == JV_UNDEFINED ? FT_OK : jinja_put_repr(r, b, v);
}

ft_status jinja_to_text(struct jinja_value *out, struct jinja_run *r, struct jinja_value v)
{
    struct jinja_builder b = {0};
    if (v.type == JV_STR) {
        *out = v;
        return FT_OK;
    }
    FT_TRY(jinja_put_value(r, &b, v));
    return jinja_built(out, r, &b);
}
