/* SPDX-License-Identifier: Apache-2.0
 * Calls in templates: binding arguments to names, and the global functions. */
#include <string.h>

#include "formats/jinja_internal.h"

/* --- arguments ------------------------------------------------------------------------------- */

struct parameter {
    str name;
    bool optional;
};

enum { MAX_PARAMETERS = 8 };

/* "value,width=,first=" */
static size_t read_signature(struct parameter out[MAX_PARAMETERS], const char *signature)
{
    str rest = str_from(signature);
    size_t n = 0;
    while (rest.len > 0) {
        str part = str_cut(&rest, ',');
        FT_ASSERT(n < MAX_PARAMETERS && part.len > 0);
        bool optional = part.ptr[part.len - 1] == '=';
        out[n++] = (struct parameter){str_sub(part, 0, part.len - optional), optional};
    }
    return n;
}

static ft_status bind_keyword(struct jinja_value *out, struct jinja_run *r, const char *what,
                              const struct parameter *params, size_t n, str name,
                              struct jinja_value v)
{
    for (size_t i = 0; i < n; i++) {
        if (!str_eq(params[i].name, name))
            continue;
        if (out[i].type != JV_MISSING)
            return jinja_raise(r, "%s: '%.*s' is given twice", what, STR_ARG(name));
        out[i] = v;
        return FT_OK;
    }
    return jinja_raise(r, "%s has no argument '%.*s'", what, STR_ARG(name));
}

ft_status jinja_bind(struct jinja_value *out, size_t n_out, struct jinja_run *r, const char *what,
                     const char *signature, const struct jinja_call *call)
{
    struct parameter params[MAX_PARAMETERS];
    bool positional_only = signature[0] == '*';
    size_t n = read_signature(params, signature + positional_only);
    FT_ASSERT(n == n_out);
    if (call->n > n)
        return jinja_raise(r, "%s takes at most %zu arguments, not %zu", what, n, call->n);
    if (positional_only && call->n_keywords > 0)
        return jinja_raise(r, "%s takes no named arguments", what);
    for (size_t i = 0; i < n; i++)
        out[i] = i < call->n ? call->args[i] : jinja_missing();
    for (size_t i = 0; i < call->n_keywords; i++)
        FT_TRY(bind_keyword(out, r, what, params, n, call->names[i], call->values[i]));
    for (size_t i = 0; i < n; i++)
        if (out[i].type == JV_MISSING && !params[i].optional)
            return jinja_raise(r, "%s: the argument '%.*s' is missing", what,
                               STR_ARG(params[i].name));
    return FT_OK;
}

/* --- global functions ------------------------------------------------------------------------ */

static ft_status need_int(int64_t *out, struct jinja_run *r, struct jinja_value v)
{
    if (v.type == JV_UNDEFINED)
        return jinja_raise(r, "range needs integers, not an undefined value");
    if (!jinja_is_int(v))
        return jinja_raise(r, "range needs integers, not %s", jinja_type_name(v));
    *out = jinja_to_int(v);
    return FT_OK;
}

static ft_status call_range(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_call *call)
{
    struct jinja_value a[3];
    int64_t n[3] = {0, 0, 1};
    FT_TRY(jinja_bind(a, 3, r, "range", "*start,stop=,step=", call));
    if (a[1].type == JV_MISSING) {
        FT_TRY(need_int(&n[1], r, a[0]));
    } else {
        FT_TRY(need_int(&n[0], r, a[0]));
        FT_TRY(need_int(&n[1], r, a[1]));
        if (a[2].type != JV_MISSING)
            FT_TRY(need_int(&n[2], r, a[2]));
    }
    if (n[2] == 0)
        return jinja_raise(r, "the step of range cannot be 0");
    FT_TRY(jinja_new_range(out, r, n[0], n[1], n[2]));
    return out->as.range->n <= 100000
               ? FT_OK
               : jinja_raise(r, "Range too big. The sandbox blocks ranges larger than 100000");
}

/* dict(mapping or pairs, key=value...) */
static ft_status fill_dict(struct jinja_run *r, struct jinja_dict *d, const struct jinja_call *call)
{
    struct jinja_value pair, key;
    struct jinja_iter *it;
    bool done = false;
    if (call->n > 1)
        return jinja_raise(r, "dict takes one argument, not %zu", call->n);
    if (call->n == 1 && call->args[0].type == JV_DICT) {
        const struct jinja_dict *from = call->args[0].as.dict;
        for (size_t i = 0; i < from->n; i++)
            FT_TRY(jinja_dict_set(r, d, from->items[i].key, from->items[i].value));
    } else if (call->n == 1) {
        FT_TRY(jinja_iterate(&it, r, call->args[0]));
        for (;;) {
            FT_TRY(jinja_next(r, it, &pair, &done));
            if (done)
                break;
            FT_TRY(jinja_collect(&pair, r, pair, JV_TUPLE));
            if (pair.as.seq->n != 2)
                return jinja_raise(r, "dict needs pairs");
            FT_TRY(jinja_dict_set(r, d, pair.as.seq->items[0], pair.as.seq->items[1]));
        }
    }
    for (size_t i = 0; i < call->n_keywords; i++) {
        FT_TRY(jinja_new_text(&key, r, call->names[i], JINJA_TEMPLATE));
        FT_TRY(jinja_dict_set(r, d, key, call->values[i]));
    }
    return FT_OK;
}

static ft_status call_dict(struct jinja_value *out, struct jinja_run *r,
                           const struct jinja_call *call)
{
    FT_TRY(jinja_new_dict(out, r));
    return fill_dict(r, out->as.dict, call);
}

static ft_status call_namespace(struct jinja_value *out, struct jinja_run *r,
                                const struct jinja_call *call)
{
    FT_TRY(jinja_new_dict(out, r));
    out->type = JV_NAMESPACE;
    FT_TRY(fill_dict(r, out->as.dict, call));
    for (size_t i = 0; i < out->as.dict->n; i++) {
        struct jinja_value key = out->as.dict->items[i].key;
        if (key.type == JV_STR && key.as.str->len > 0 && key.as.str->ptr[0] == '_')
            return jinja_raise(r, "a namespace cannot hold names that begin with an underscore");
    }
    return FT_OK;
}

static ft_status call_cycler(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_call *call)
{
    struct jinja_cycler *c;
    struct jinja_value items;
    if (call->n == 0 || call->n_keywords > 0)
        return jinja_raise(r, "cycler needs at least one item and no names");
    FT_TRY(jinja_new(&c, r, 1, sizeof *c));
    FT_TRY(jinja_new_seq(&items, r, JV_TUPLE, call->n));
    for (size_t i = 0; i < call->n; i++)
        FT_TRY(jinja_push(r, items.as.seq, call->args[i]));
    c->items = items.as.seq;
    *out = (struct jinja_value){.type = JV_CYCLER, .as.cycler = c};
    return FT_OK;
}

static ft_status call_joiner(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_call *call)
{
    struct jinja_cycler *c;
    FT_TRY(jinja_new(&c, r, 1, sizeof *c));
    FT_TRY(jinja_bind(&c->separator, 1, r, "joiner", "sep=", call));
    if (c->separator.type == JV_MISSING)
        FT_TRY(jinja_new_text(&c->separator, r, STR(", "), JINJA_TEMPLATE));
    *out = (struct jinja_value){.type = JV_JOINER, .as.cycler = c};
    return FT_OK;
}

static ft_status call_raise(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_call *call)
{
    struct jinja_value message;
    FT_TRY(jinja_bind(&message, 1, r, "raise_exception", "message", call));
    FT_TRY(jinja_to_text(out, r, message));
    return jinja_raise(r, "the template says: %.*s", STR_ARG(jinja_view(*out)));
}

static ft_status call_strftime(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_call *call)
{
    struct jinja_value format;
    FT_TRY(jinja_bind(&format, 1, r, "strftime_now", "format", call));
    return jinja_strftime(out, r, format);
}

static ft_status call_lipsum(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_call *call)
{
    (void)out, (void)call;
    return jinja_unsupported(r, "lipsum (random text)");
}

static const struct {
    const char *name;
    ft_status (*call)(struct jinja_value *out, struct jinja_run *r, const struct jinja_call *call);
} globals[] = {
    {"range", call_range},           {"dict", call_dict},     {"namespace", call_namespace},
    {"cycler", call_cycler},         {"joiner", call_joiner}, {"raise_exception", call_raise},
    {"strftime_now", call_strftime}, {"lipsum", call_lipsum},
};

struct jinja_value jinja_global(str name)
{
    for (size_t i = 0; i < ARRAY_LEN(globals); i++)
        if (str_is(name, globals[i].name))
            return (struct jinja_value){.type = JV_FUNCTION, .as.id = (int)i};
    return jinja_missing();
}

/* --- every call ------------------------------------------------------------------------------ */

static ft_status call_joiner_again(struct jinja_value *out, struct jinja_run *r,
                                   struct jinja_cycler *c)
{
    bool first = !c->used;
    c->used = true;
    if (first)
        return jinja_new_text(out, r, STR(""), JINJA_TEMPLATE);
    *out = c->separator;
    return FT_OK;
}

ft_status jinja_call(struct jinja_value *out, struct jinja_run *r, struct jinja_value callee,
                     const struct jinja_call *call)
{
    struct jinja_value v;
    switch (callee.type) {
    case JV_FUNCTION:
        return globals[callee.as.id].call(out, r, call);
    case JV_METHOD:
        return jinja_method_call(out, r, callee.as.method, call);
    case JV_MACRO:
        return jinja_macro_call(out, r, callee.as.macro, call);
    case JV_LOOP:
        FT_TRY(jinja_bind(&v, 1, r, "loop", "iterable", call));
        return jinja_loop_call(out, r, callee.as.loop, v);
    case JV_JOINER:
        FT_TRY(jinja_bind(NULL, 0, r, "joiner", "", call));
        return call_joiner_again(out, r, callee.as.cycler);
    case JV_UNDEFINED:
        return jinja_raise_undefined(r, callee);
    default:
        return jinja_raise(r, "a %s cannot be called", jinja_type_name(callee));
    }
}
