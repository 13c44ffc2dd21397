/* SPDX-License-Identifier: Apache-2.0
 * Option tables: defaults, parsing, checks, JSON dump. The command line is in program.c. */
#include "common/opt.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/mem.h"

enum { MAX_NAMES = 256 };

static void *field(const struct opt_set *s, const struct opt *o)
{
    return (char *)s->values + o->offset;
}

const struct opt *opt_find(const struct opt_set *s, str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (str_is(name, s->table[i].name))
            return &s->table[i];
    return NULL;
}

bool opt_given(const struct opt_set *s, const char *name)
{
    const struct opt *o = opt_find(s, str_from(name));
    FT_ASSERT(o != NULL);
    return s->given[o - s->table];
}

static ft_status bad_value(const struct opt *o, str text, const char *expected, ft_error *err)
{
    return ft_fail(err, FT_EUSAGE, "%s: '%.*s' is not valid, expected %s", o->name, STR_ARG(text),
                   expected);
}

static ft_status check_range(const struct opt *o, double v, str text, ft_error *err)
{
    char expected[96];
    if ((o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max))
        return FT_OK;
    if (o->max >= 1e15)
        snprintf(expected, sizeof expected, "a number of at least %.15g", o->min);
    else
        snprintf(expected, sizeof expected, "a number from %.15g to %.15g", o->min, o->max);
    return bad_value(o, text, expected, err);
}

static ft_status assign_choice(const struct opt *o, int *out, str text, ft_error *err)
{
    str rest = str_from(o->choices);
    for (int i = 0; rest.len > 0; i++) {
        if (str_eq(str_cut(&rest, '|'), text)) {
            *out = i;
            return FT_OK;
        }
    }
    char expected[256];
    snprintf(expected, sizeof expected, "one of %s", o->choices);
    return bad_value(o, text, expected, err);
}

static ft_status append_item(struct opt_set *s, struct opt_list *list, str item, ft_error *err)
{
    const char **items = arena_alloc(&s->arena, list->n + 1, sizeof *items);
    const char *copy = arena_cstr(&s->arena, item);
    if (items == NULL || copy == NULL)
        return ft_fail_memory(err, item.len, "an option");
    if (list->n > 0)
        memcpy(items, list->items, list->n * sizeof *items);
    items[list->n] = copy;
    *list = (struct opt_list){items, list->n + 1};
    return FT_OK;
}

static ft_status append_items(struct opt_set *s, struct opt_list *list, str text, ft_error *err)
{
    while (text.len > 0)
        FT_TRY(append_item(s, list, str_cut(&text, ','), err));
    return FT_OK;
}

static ft_status store(struct opt_set *s, const struct opt *o, str text, ft_error *err)
{
    void *dst = field(s, o);
    int64_t i;
    double d;
    switch (o->type) {
    case OPT_BOOL:
        if (!str_is(text, "true") && !str_is(text, "false"))
            return bad_value(o, text, "true or false", err);
        *(bool *)dst = str_is(text, "true");
        return FT_OK;
    case OPT_INT:
        if (!str_to_i64(text, &i))
            return bad_value(o, text, "a whole number", err);
        FT_TRY(check_range(o, (double)i, text, err));
        *(int64_t *)dst = i;
        return FT_OK;
    case OPT_FLOAT:
        if (!str_to_f64(text, &d))
            return bad_value(o, text, "a number", err);
        FT_TRY(check_range(o, d, text, err));
        *(double *)dst = d;
        return FT_OK;
    case OPT_CHOICE:
        return assign_choice(o, dst, text, err);
    case OPT_STRING:
        if (text.len > 0 && memchr(text.ptr, '\0', text.len) != NULL)
            return ft_fail(err, FT_EUSAGE, "%s: the value contains a NUL character", o->name);
        *(const char **)dst = arena_cstr(&s->arena, text);
        return *(const char **)dst == NULL ? ft_fail_memory(err, text.len, "an option") : FT_OK;
    case OPT_LIST:
        return append_items(s, dst, text, err);
    }
    FT_ASSERT(false && "unknown option type");
    return FT_OK;
}

ft_status opt_set_init(struct opt_set *s, const struct opt *table, size_t n, void *values,
                       ft_error *err)
{
    *s = (struct opt_set){.table = table, .n = n, .values = values};
    FT_ASSERT(n <= MAX_NAMES);
    FT_TRY(mem_new(&s->given, n, sizeof *s->given, "options", err));
    for (size_t i = 0; i < n; i++)
        if (table[i].def != NULL)
            FT_TRY(store(s, &table[i], str_from(table[i].def), err));
    return FT_OK;
}

void opt_set_destroy(struct opt_set *s)
{
    mem_free(s->given);
    arena_destroy(&s->arena);
    *s = (struct opt_set){0};
}

/* The first value for a row replaces its default; a list is then appended to. */
static void begin_value(struct opt_set *s, const struct opt *o)
{
    if (o->type == OPT_LIST && !s->given[o - s->table])
        *(struct opt_list *)field(s, o) = (struct opt_list){0};
}

ft_status opt_assign(struct opt_set *s, const struct opt *o, str text, ft_error *err)
{
    begin_value(s, o);
    FT_TRY(store(s, o, text, err));
    s->given[o - s->table] = true;
    return FT_OK;
}

ft_status opt_append(struct opt_set *s, const struct opt *o, str item, ft_error *err)
{
    FT_ASSERT(o->type == OPT_LIST);
    if (item.len > 0 && memchr(item.ptr, '\0', item.len) != NULL)
        return ft_fail(err, FT_EUSAGE, "%s: the value contains a NUL character", o->name);
    begin_value(s, o);
    FT_TRY(append_item(s, field(s, o), item, err));
    s->given[o - s->table] = true;
    return FT_OK;
}

ft_status opt_reset(struct opt_set *s, const struct opt *o, ft_error *err)
{
    static const size_t bytes[] = {
        [OPT_BOOL] = sizeof(bool),    [OPT_INT] = sizeof(int64_t),
        [OPT_FLOAT] = sizeof(double), [OPT_STRING] = sizeof(const char *),
        [OPT_CHOICE] = sizeof(int),   [OPT_LIST] = sizeof(struct opt_list),
    };
    memset(field(s, o), 0, bytes[o->type]);
    s->given[o - s->table] = false;
    return o->def == NULL ? FT_OK : store(s, o, str_from(o->def), err);
}

ft_status opt_unknown(const struct opt_set *s, const char *kind, str name, ft_error *err)
{
    const char *names[MAX_NAMES];
    for (size_t i = 0; i < s->n; i++)
        names[i] = s->table[i].name;
    const char *near = str_nearest(name, names, s->n);
    if (near == NULL)
        return ft_fail(err, FT_EUSAGE, "unknown %s '%.*s'", kind, STR_ARG(name));
    return ft_fail(err, FT_EUSAGE, "unknown %s '%.*s'; did you mean '%s'?", kind, STR_ARG(name),
                   near);
}

ft_status opt_check_required(const struct opt_set *s, const char *prefix, ft_error *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->table[i].required && !s->given[i])
            return ft_fail(err, FT_EUSAGE, "%s%s is required: %s", prefix, s->table[i].name,
                           s->table[i].help);
    return FT_OK;
}

void opt_json_string(struct buf *out, str s)
{
    buf_byte(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_cstr(out, "\\n");
        else if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\u%04x", c);
        else
            buf_byte(out, c);
    }
    buf_byte(out, '"');
}

/* The shortest form that reads back to the same value. */
static void write_float(struct buf *out, double v)
{
    char text[40];
    double back;
    int digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, v);
    while (digits++ < 17 && str_to_f64(str_from(text), &back) && back != v);
    buf_cstr(out, text);
}

static void choice_name(struct buf *out, const struct opt *o, int index)
{
    str rest = str_from(o->choices), name = str_cut(&rest, '|');
    for (; index > 0; index--)
        name = str_cut(&rest, '|');
    opt_json_string(out, name);
}

void opt_value_json(struct buf *out, const struct opt_set *s, const struct opt *o)
{
    const void *p = field(s, o);
    const struct opt_list *list = p;
    const char *text;
    switch (o->type) {
    case OPT_BOOL:
        buf_cstr(out, *(const bool *)p ? "true" : "false");
        return;
    case OPT_INT:
        buf_printf(out, "%" PRId64, *(const int64_t *)p);
        return;
    case OPT_FLOAT:
        write_float(out, *(const double *)p);
        return;
    case OPT_CHOICE:
        choice_name(out, o, *(const int *)p);
        return;
    case OPT_STRING:
        text = *(const char *const *)p;
        if (text == NULL)
            buf_cstr(out, "null");
        else
            opt_json_string(out, str_from(text));
        return;
    case OPT_LIST:
        buf_byte(out, '[');
        for (size_t i = 0; i < list->n; i++) {
            buf_cstr(out, i == 0 ? "" : ", ");
            opt_json_string(out, str_from(list->items[i]));
        }
        buf_byte(out, ']');
        return;
    }
}
