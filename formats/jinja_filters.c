/* SPDX-License-Identifier: Apache-2.0
 * Filters of templates, except those over sequences (jinja_sequences.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

/* --- strings --------------------------------------------------------------------------------- */

static ft_status filter_upper(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    return jinja_recase(out, r, *out, JINJA_TO_UPPER);
}

static ft_status filter_lower(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    return jinja_recase(out, r, *out, JINJA_TO_LOWER);
}

static ft_status filter_capitalize(struct jinja_value *out, struct jinja_run *r,
                                   const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    return jinja_recase(out, r, *out, JINJA_TO_CAPITAL);
}

static bool begins_word(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || jinja_is_space(c);
}

/* Words, and the signs between them, each with its first character large and the others small. */
static ft_status filter_title(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    struct jinja_builder b = {0};
    struct jinja_value text, part;
    FT_TRY(jinja_to_text(&text, r, a[0]));
    str s = jinja_view(text);
    for (size_t at = 0, n; at < s.len;) {
        size_t first, end;
        bool sign = begins_word(str_utf8_next(str_sub(s, at, s.len), &first));
        for (end = at + first; end < s.len; end += n)
            if (begins_word(str_utf8_next(str_sub(s, end, s.len), &n)) != sign)
                break;
        FT_TRY(jinja_substring(&part, r, text, at, at + first));
        FT_TRY(jinja_put_case(r, &b, part.as.str, JINJA_TO_UPPER));
        FT_TRY(jinja_substring(&part, r, text, at + first, end));
        FT_TRY(jinja_put_case(r, &b, part.as.str, JINJA_TO_LOWER));
        at = end;
    }
    return jinja_built(out, r, &b);
}

static ft_status filter_trim(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_value *a)
{
    struct jinja_value text;
    bool all = a[1].type == JV_MISSING || a[1].type == JV_NONE;
    FT_TRY(jinja_to_text(&text, r, a[0]));
    if (!all && a[1].type != JV_STR)
        return jinja_raise(r, "trim: chars is a str, not %s", jinja_type_name(a[1]));
    return jinja_strip(out, r, text, all ? NULL : &a[1], true, true);
}

static ft_status filter_replace(struct jinja_value *out, struct jinja_run *r,
                                const struct jinja_value *a)
{
    struct jinja_value s, old, new;
    int64_t count = -1;
    if (a[3].type != JV_MISSING && a[3].type != JV_NONE) {
        if (!jinja_is_int(a[3]))
            return jinja_raise(r, "replace: count is an integer, not %s", jinja_type_name(a[3]));
        count = jinja_to_int(a[3]);
    }
    FT_TRY(jinja_to_text(&s, r, a[0]));
    FT_TRY(jinja_to_text(&old, r, a[1]));
    FT_TRY(jinja_to_text(&new, r, a[2]));
    return jinja_replace(out, r, s, old, new, count);
}

static ft_status method_of(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const char *name, struct jinja_value *args, size_t n)
{
    struct jinja_method m = {self, jinja_method_find(self, str_from(name))};
    return jinja_method_call(out, r, &m, &(struct jinja_call){.args = args, .n = n});
}

static ft_status filter_center(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a)
{
    struct jinja_value text, width = a[1].type == JV_MISSING ? jinja_int(80) : a[1];
    FT_TRY(jinja_to_text(&text, r, a[0]));
    return method_of(out, r, text, "center", &width, 1);
}

/* Lines joined by \n, indented but for the first one and empty ones. */
static ft_status filter_indent(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a)
{
    struct jinja_builder b = {0};
    struct jinja_value text, newline, lines, indent;
    bool first = a[2].type != JV_MISSING && jinja_truth(a[2]);
    bool blank = a[3].type != JV_MISSING && jinja_truth(a[3]);
    FT_TRY(jinja_new_text(&newline, r, STR("\n"), JINJA_TEMPLATE));
    FT_TRY(jinja_new_text(&indent, r, STR(" "), JINJA_TEMPLATE));
    if (a[1].type == JV_STR)
        indent = a[1];
    else
        FT_TRY(jinja_binary(&indent, r, JT_MUL, indent,
                            a[1].type == JV_MISSING ? jinja_int(4) : a[1]));
    if (a[0].flags & JINJA_MARKUP)
        return jinja_unsupported(r, "indenting a safe string");
    FT_TRY(jinja_binary(&text, r, JT_ADD, a[0], newline));
    FT_TRY(method_of(&lines, r, text, "splitlines", NULL, 0));
    for (size_t i = 0; i < lines.as.seq->n; i++) {
        const struct jinja_str *line = lines.as.seq->items[i].as.str;
        if (i > 0)
            FT_TRY(jinja_put_str(r, &b, newline.as.str));
        if (i == 0 ? first : blank || line->len > 0)
            FT_TRY(jinja_put_str(r, &b, indent.as.str));
        FT_TRY(jinja_put_str(r, &b, line));
    }
    return jinja_built(out, r, &b);
}

static ft_status filter_string(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a)
{
    return jinja_to_text(out, r, a[0]);
}

static ft_status filter_safe(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    out->flags = JINJA_MARKUP;
    return FT_OK;
}

static ft_status filter_escape(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    return out->flags & JINJA_MARKUP ? FT_OK : jinja_escape(out, r, *out);
}

static ft_status filter_forceescape(struct jinja_value *out, struct jinja_run *r,
                                    const struct jinja_value *a)
{
    FT_TRY(jinja_to_text(out, r, a[0]));
    return jinja_escape(out, r, *out);
}

static ft_status filter_wordcount(struct jinja_value *out, struct jinja_run *r,
                                  const struct jinja_value *a)
{
    struct jinja_value text;
    size_t n;
    bool inside = false;
    FT_TRY(jinja_to_text(&text, r, a[0]));
    *out = jinja_int(0);
    FT_TRY(jinja_steps(r, text.as.str->len / 16));
    for (str s = jinja_view(text); s.len > 0; s = str_sub(s, n, s.len)) {
        bool word = jinja_char(str_utf8_next(s, &n))->flags & JINJA_WORD;
        out->as.i += word && !inside;
        inside = word;
    }
    return FT_OK;
}

static ft_status filter_truncate(struct jinja_value *out, struct jinja_run *r,
                                 const struct jinja_value *a)
{
    struct jinja_value end = a[3], cut;
    int64_t n, n_end, length = 255, leeway = 5;
    if (a[0].type != JV_STR || (end.type != JV_MISSING && end.type != JV_STR))
        return jinja_unsupported(r, "truncating what is no string");
    if ((a[1].type != JV_MISSING && !jinja_is_int(a[1])) ||
        (a[4].type != JV_MISSING && a[4].type != JV_NONE && !jinja_is_int(a[4])))
        return jinja_raise(r, "truncate: lengths are integers");
    if (a[1].type != JV_MISSING)
        length = jinja_to_int(a[1]);
    if (a[4].type != JV_MISSING && a[4].type != JV_NONE)
        leeway = jinja_to_int(a[4]);
    if (end.type == JV_MISSING)
        FT_TRY(jinja_new_text(&end, r, STR("..."), JINJA_TEMPLATE));
    FT_TRY(jinja_length(&n, r, a[0]));
    FT_TRY(jinja_length(&n_end, r, end));
    if (length < n_end || leeway < 0)
        return jinja_raise(r, "truncate: the length is shorter than its end");
    *out = a[0];
    if (length > INT32_MAX || leeway > INT32_MAX || n <= length + leeway)
        return FT_OK;
    FT_TRY(jinja_substring(&cut, r, a[0], 0,
                           jinja_char_offset(jinja_view(a[0]), (size_t)(length - n_end))));
    size_t space = jinja_rfind(jinja_view(cut), STR(" "), cut.as.str->len);
    bool kill = a[2].type != JV_MISSING && jinja_truth(a[2]);
    if (!kill && space != SIZE_MAX)
        FT_TRY(jinja_substring(&cut, r, cut, 0, space));
    return jinja_concat(out, r, cut, end);
}

/* --- numbers --------------------------------------------------------------------------------- */

static ft_status filter_abs(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_value *a)
{
    if (a[0].type == JV_FLOAT) {
        *out = jinja_float(fabs(a[0].as.f));
        return FT_OK;
    }
    if (!jinja_is_int(a[0]))
        return a[0].type == JV_UNDEFINED
                   ? jinja_raise_undefined(r, a[0])
                   : jinja_raise(r, "abs: a %s is no number", jinja_type_name(a[0]));
    return jinja_negate(out, r, jinja_to_int(a[0]) < 0, a[0]);
}

/* int(float): towards zero; *ok false for infinity and NaN. */
static ft_status truncate_float(struct jinja_value *out, bool *ok, struct jinja_run *r, double f)
{
    *ok = f - f == 0;
    if (*ok && fabs(f) >= 0x1p63)
        return jinja_unsupported(r, "integers beyond 64 bits");
    *out = jinja_int(*ok ? (int64_t)f : 0);
    return FT_OK;
}

static ft_status filter_int(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_value *a)
{
    bool ok = false;
    double f;
    int64_t base = 10;
    struct jinja_value otherwise = a[1].type == JV_MISSING ? jinja_int(0) : a[1];
    if (a[0].type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a[0]);
    if (a[0].type == JV_STR) {
        if (a[2].type != JV_MISSING && !jinja_is_int(a[2]))
            return jinja_unsupported(r, "a base that is no integer");
        base = a[2].type == JV_MISSING ? 10 : jinja_to_int(a[2]);
        FT_TRY(jinja_parse_int(out, &ok, r, jinja_view(a[0]), base));
        if (!ok && jinja_parse_float(&f, jinja_view(a[0])))
            FT_TRY(truncate_float(out, &ok, r, f));
    } else if (a[0].type == JV_FLOAT) {
        if (a[0].as.f - a[0].as.f != 0 && a[0].as.f == a[0].as.f)
            return jinja_raise(r, "cannot convert float infinity to integer");
        FT_TRY(truncate_float(out, &ok, r, a[0].as.f));
    } else if (a[0].type == JV_BIG) {
        *out = a[0];
        return FT_OK;
    } else {
        ok = jinja_is_int(a[0]);
        *out = ok ? jinja_int(jinja_to_int(a[0])) : otherwise;
    }
    if (!ok)
        *out = otherwise;
    else
        out->origin = a[0].type == JV_STR ? jinja_str_origin(a[0].as.str) : a[0].origin;
    return FT_OK;
}

static ft_status filter_float(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    double f;
    if (a[0].type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a[0]);
    if (a[0].type == JV_BIG)
        return jinja_unsupported(r, "integers beyond 64 bits");
    if (a[0].type == JV_STR ? jinja_parse_float(&f, jinja_view(a[0])) : jinja_is_number(a[0])) {
        *out = jinja_float(a[0].type == JV_STR ? f : jinja_to_float(a[0]));
        out->origin = a[0].type == JV_STR ? jinja_str_origin(a[0].as.str) : a[0].origin;
    } else {
        *out = a[1].type == JV_MISSING ? jinja_float(0) : a[1];
    }
    return FT_OK;
}

static ft_status round_int(struct jinja_value *out, struct jinja_run *r, int64_t v,
                           int64_t precision)
{
    *out = jinja_int(v);
    return precision >= 0 ? FT_OK : jinja_unsupported(r, "rounding to tens");
}

static ft_status round_float(struct jinja_value *out, struct jinja_run *r, double v,
                             int64_t precision)
{
    char text[700];
    *out = jinja_float(v);
    if (v - v != 0 || precision > 300)
        return FT_OK;
    if (precision < 0)
        return jinja_unsupported(r, "rounding to tens");
    /* printf rounds the exact binary value, half to even, as Python does. */
    snprintf(text, sizeof text, "%.*f", (int)precision, v);
    *out = jinja_float(strtod(text, NULL));
    return FT_OK;
}

static ft_status filter_round(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    int64_t precision = 0;
    str method = STR("common");
    if (a[2].type != JV_MISSING) {
        if (a[2].type != JV_STR)
            return jinja_raise(r, "round: the method is a str");
        method = jinja_view(a[2]);
    }
    bool common = str_is(method, "common"), up = str_is(method, "ceil");
    if (!common && !up && !str_is(method, "floor"))
        return jinja_raise(r, "round: the method is common, ceil or floor");
    if (a[0].type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a[0]);
    if (!jinja_is_number(a[0]) || (a[1].type != JV_MISSING && !jinja_is_int(a[1])))
        return a[1].type == JV_NONE ? jinja_unsupported(r, "round without a precision")
                                    : jinja_raise(r, "round needs numbers");
    if (a[1].type != JV_MISSING)
        precision = jinja_to_int(a[1]);
    if (common && jinja_is_int(a[0]))
        return round_int(out, r, jinja_to_int(a[0]), precision);
    if (common)
        return round_float(out, r, a[0].as.f, precision);
    if (precision < 0 || precision > 15)
        return jinja_unsupported(r, "such a precision");
    double factor = 1, v = jinja_to_float(a[0]);
    for (int64_t i = 0; i < precision; i++)
        factor *= 10;
    v *= factor;
    if (v - v != 0)
        return jinja_raise(r, "round: infinity and NaN have no integer");
    if (fabs(v) >= 0x1p53)
        return jinja_unsupported(r, "rounding such large numbers");
    /* A whole number of Python is divided: there is no -0. */
    *out = jinja_float(((up ? ceil(v) : floor(v)) + 0.0) / factor);
    return FT_OK;
}

/* --- any value ------------------------------------------------------------------------------- */

static ft_status filter_default(struct jinja_value *out, struct jinja_run *r,
                                const struct jinja_value *a)
{
    bool boolean = a[2].type != JV_MISSING && jinja_truth(a[2]);
    *out = a[0];
    if (a[0].type != JV_UNDEFINED && !(boolean && !jinja_truth(a[0])))
        return FT_OK;
    if (a[1].type == JV_MISSING)
        return jinja_new_text(out, r, STR(""), JINJA_TEMPLATE);
    *out = a[1];
    return FT_OK;
}

static ft_status filter_length(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a)
{
    int64_t n;
    FT_TRY(jinja_length(&n, r, a[0]));
    *out = jinja_int(n);
    return FT_OK;
}

static ft_status filter_list(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_value *a)
{
    return jinja_collect(out, r, a[0], JV_LIST);
}

static ft_status next_item(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                           bool *done)
{
    if (it->source.type != JV_DICT)
        return jinja_raise(r, "items: a %s is no mapping", jinja_type_name(it->source));
    *done = it->i >= (int64_t)it->source.as.dict->n;
    if (*done)
        return FT_OK;
    const struct jinja_entry *e = &it->source.as.dict->items[it->i++];
    return jinja_pair(out, r, e->key, e->value);
}

/* A generator: what is wrong with the value shows when it is walked. */
static ft_status filter_items(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_value *a)
{
    struct jinja_iter *it;
    FT_TRY(jinja_new(&it, r, 1, sizeof *it));
    it->source = a[0];
    it->next = next_item;
    it->finished = a[0].type == JV_UNDEFINED;
    *out = jinja_iter_value(it);
    return FT_OK;
}

static ft_status filter_attr(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_value *a)
{
    if (a[1].type != JV_STR)
        return jinja_raise(r, "attr: the name is a str");
    if (a[0].type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a[0]);
    str name = jinja_view(a[1]);
    if (a[0].type == JV_DICT && jinja_method_find(a[0], name) == JINJA_NO_ATTRIBUTE)
        return jinja_undefined_name(out, r, "dict", name, false);
    return jinja_getattr(out, r, a[0], name);
}

/* --- the table ------------------------------------------------------------------------------- */

/* Filters that take any arguments. */
enum { OWN_FORMAT = 100 };

static const struct row {
    const char *name;
    const char *signature; /* of jinja_bind, the value first; NULL: see `lazy` */
    size_t n;
    jinja_filter *call;
    int lazy; /* enum jinja_lazy, or OWN_FORMAT */
} rows[] = {
    {"abs", "*x", 1, filter_abs, 0},
    {"attr", "obj,name", 2, filter_attr, 0},
    {"batch", "value,linecount,fill_with=", 3, jinja_batch, 0},
    {"capitalize", "s", 1, filter_capitalize, 0},
    {"center", "value,width=", 2, filter_center, 0},
    {"count", "*obj", 1, filter_length, 0},
    {"d", "value,default_value=,boolean=", 3, filter_default, 0},
    {"default", "value,default_value=,boolean=", 3, filter_default, 0},
    {"dictsort", "value,case_sensitive=,by=,reverse=", 4, jinja_dictsort, 0},
    {"e", "*s", 1, filter_escape, 0},
    {"escape", "*s", 1, filter_escape, 0},
    {"first", "seq", 1, jinja_first, 0},
    {"float", "value,default=", 2, filter_float, 0},
    {"forceescape", "value", 1, filter_forceescape, 0},
    {"format", NULL, 0, NULL, OWN_FORMAT},
    {"groupby", "value,attribute,default=,case_sensitive=", 4, jinja_groupby, 0},
    {"indent", "s,width=,first=,blank=", 4, filter_indent, 0},
    {"int", "value,default=,base=", 3, filter_int, 0},
    {"items", "value", 1, filter_items, 0},
    {"join", "value,d=,attribute=", 3, jinja_join, 0},
    {"last", "seq", 1, jinja_last, 0},
    {"length", "*obj", 1, filter_length, 0},
    {"list", "value", 1, filter_list, 0},
    {"lower", "s", 1, filter_lower, 0},
    {"map", NULL, 0, NULL, JINJA_MAP},
    {"max", "value,case_sensitive=,attribute=", 3, jinja_max, 0},
    {"min", "value,case_sensitive=,attribute=", 3, jinja_min, 0},
    {"reject", NULL, 0, NULL, JINJA_REJECT},
    {"rejectattr", NULL, 0, NULL, JINJA_REJECTATTR},
    {"replace", "s,old,new,count=", 4, filter_replace, 0},
    {"reverse", "value", 1, jinja_reverse, 0},
    {"round", "value,precision=,method=", 3, filter_round, 0},
    {"safe", "value", 1, filter_safe, 0},
    {"select", NULL, 0, NULL, JINJA_SELECT},
    {"selectattr", NULL, 0, NULL, JINJA_SELECTATTR},
    {"slice", "value,slices,fill_with=", 3, jinja_slices, 0},
    {"sort", "value,reverse=,case_sensitive=,attribute=", 4, jinja_sort, 0},
    {"string", "s", 1, filter_string, 0},
    {"sum", "iterable,attribute=,start=", 3, jinja_sum, 0},
    {"title", "s", 1, filter_title, 0},
    {"tojson", "x,ensure_ascii=,indent=,separators=,sort_keys=", 5, jinja_tojson, 0},
    {"trim", "value,chars=", 2, filter_trim, 0},
    {"truncate", "s,length=,killwords=,end=,leeway=", 5, filter_truncate, 0},
    {"unique", "value,case_sensitive=,attribute=", 3, jinja_unique, 0},
    {"upper", "s", 1, filter_upper, 0},
    {"wordcount", "s", 1, filter_wordcount, 0},
};

int jinja_filter_find(str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_is(name, rows[i].name))
            return (int)i;
    return -1;
}

static ft_status filter_format(struct jinja_value *out, struct jinja_run *r, struct jinja_value v,
                               const struct jinja_call *call)
{
    struct jinja_value values, key;
    FT_TRY(jinja_to_text(&v, r, v));
    if (call->n > 0 && call->n_keywords > 0)
        return jinja_raise(r, "format cannot take both kinds of arguments");
    if (call->n_keywords == 0) {
        struct jinja_seq s = {call->args, call->n, call->n};
        return jinja_percent(out, r, v, (struct jinja_value){.type = JV_TUPLE, .as.seq = &s});
    }
    FT_TRY(jinja_new_dict(&values, r));
    for (size_t i = 0; i < call->n_keywords; i++) {
        FT_TRY(jinja_new_text(&key, r, call->names[i], JINJA_TEMPLATE));
        FT_TRY(jinja_dict_set(r, values.as.dict, key, call->values[i]));
    }
    return jinja_percent(out, r, v, values);
}

/* The value goes in front of the arguments. */
static ft_status with_value(struct jinja_call *out, struct jinja_run *r, struct jinja_value v,
                            const struct jinja_call *call)
{
    *out = *call;
    out->n = call->n + 1;
    FT_TRY(jinja_new(&out->args, r, out->n, sizeof *out->args));
    out->args[0] = v;
    if (call->n > 0)
        memcpy(out->args + 1, call->args, call->n * sizeof *call->args);
    return FT_OK;
}

ft_status jinja_filter_call(struct jinja_value *out, struct jinja_run *r, int id,
                            struct jinja_value v, const struct jinja_call *call)
{
    const struct row *row = &rows[id];
    struct jinja_value a[5];
    struct jinja_call all;
    if (row->signature == NULL && row->lazy == OWN_FORMAT)
        return filter_format(out, r, v, call);
    if (row->signature == NULL)
        return jinja_lazy_filter(out, r, (enum jinja_lazy)row->lazy, v, call);
    FT_TRY(with_value(&all, r, v, call));
    FT_TRY(jinja_bind(a, row->n, r, row->name, row->signature, &all));
    return row->call(out, r, a);
}

ft_status jinja_filter_named(struct jinja_value *out, struct jinja_run *r, struct jinja_value name,
                             struct jinja_value v, const struct jinja_call *call)
{
    int id = name.type == JV_STR ? jinja_filter_find(jinja_view(name)) : -1;
    if (id < 0)
        return jinja_raise(r, "the filter '%.*s' is not known or not supported",
                           name.type == JV_STR ? (int)FT_MIN(name.as.str->len, 80u) : 1,
                           name.type == JV_STR ? name.as.str->ptr : "?");
    return jinja_filter_call(out, r, id, v, call);
}
