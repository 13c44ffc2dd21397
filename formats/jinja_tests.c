/* SPDX-License-Identifier: Apache-2.0
 * Tests of templates (`is ...`). */
#include "formats/jinja_internal.h"

typedef ft_status (*test)(bool *out, struct jinja_run *r, const struct jinja_value *a, int variant);

static ft_status is_type(bool *out, struct jinja_run *r, const struct jinja_value *a, int type)
{
    (void)r;
    *out = a[0].type == type;
    return FT_OK;
}

static ft_status is_defined(bool *out, struct jinja_run *r, const struct jinja_value *a,
                            int variant)
{
    (void)r, (void)variant;
    *out = a[0].type != JV_UNDEFINED;
    return FT_OK;
}

static ft_status is_bool(bool *out, struct jinja_run *r, const struct jinja_value *a, int wanted)
{
    (void)r;
    *out = a[0].type == JV_BOOL && a[0].as.b == (wanted != 0);
    return FT_OK;
}

static ft_status is_integer(bool *out, struct jinja_run *r, const struct jinja_value *a,
                            int variant)
{
    (void)r, (void)variant;
    *out = a[0].type == JV_INT || a[0].type == JV_BIG;
    return FT_OK;
}

static ft_status is_number(bool *out, struct jinja_run *r, const struct jinja_value *a, int variant)
{
    (void)r, (void)variant;
    *out = jinja_is_number(a[0]) || a[0].type == JV_BIG;
    return FT_OK;
}

static ft_status is_iterable(bool *out, struct jinja_run *r, const struct jinja_value *a,
                             int variant)
{
    (void)r, (void)variant;
    *out = jinja_can_iterate(a[0]);
    return FT_OK;
}

static ft_status is_sequence(bool *out, struct jinja_run *r, const struct jinja_value *a,
                             int variant)
{
    (void)r, (void)variant;
    uint8_t t = a[0].type;
    *out = t == JV_UNDEFINED || t == JV_STR || t == JV_LIST || t == JV_TUPLE || t == JV_DICT ||
           t == JV_RANGE;
    return FT_OK;
}

static ft_status is_callable(bool *out, struct jinja_run *r, const struct jinja_value *a,
                             int variant)
{
    (void)r, (void)variant;
    uint8_t t = a[0].type;
    *out = t == JV_UNDEFINED || t == JV_MACRO || t == JV_LOOP || t == JV_JOINER ||
           t == JV_FUNCTION || t == JV_METHOD;
    return FT_OK;
}

/* value % divisor == wanted */
static ft_status remainder_is(bool *out, struct jinja_run *r, struct jinja_value v,
                              struct jinja_value divisor, int64_t wanted)
{
    FT_TRY(jinja_binary(&v, r, JT_MOD, v, divisor));
    return jinja_equal(out, r, v, jinja_int(wanted));
}

static ft_status is_odd(bool *out, struct jinja_run *r, const struct jinja_value *a, int wanted)
{
    return remainder_is(out, r, a[0], jinja_int(2), wanted);
}

static ft_status is_divisible(bool *out, struct jinja_run *r, const struct jinja_value *a,
                              int variant)
{
    (void)variant;
    return remainder_is(out, r, a[0], a[1], 0);
}

static ft_status has_case(bool *out, struct jinja_run *r, const struct jinja_value *a, int upper)
{
    struct jinja_value text, answer;
    FT_TRY(jinja_to_text(&text, r, a[0]));
    struct jinja_method m = {text,
                             jinja_method_find(text, upper ? STR("isupper") : STR("islower"))};
    FT_TRY(jinja_method_call(&answer, r, &m, &(struct jinja_call){0}));
    *out = answer.as.b;
    return FT_OK;
}

static ft_status compares(bool *out, struct jinja_run *r, const struct jinja_value *a, int op)
{
    return jinja_compare(out, r, op, a[0], a[1]);
}

static ft_status is_markup(bool *out, struct jinja_run *r, const struct jinja_value *a, int variant)
{
    (void)r, (void)variant;
    *out = a[0].flags & JINJA_MARKUP;
    return FT_OK;
}

/* Identity of objects, as far as it does not depend on what CPython keeps. */
static ft_status is_same(bool *out, struct jinja_run *r, const struct jinja_value *a, int variant)
{
    (void)variant;
    *out = a[0].type == a[1].type;
    if (!*out || a[0].type == JV_NONE)
        return FT_OK;
    switch (a[0].type) {
    case JV_BOOL:
        *out = a[0].as.b == a[1].as.b;
        return FT_OK;
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT:
    case JV_STR:
    case JV_TUPLE:
    case JV_METHOD:
        FT_TRY(jinja_equal(out, r, a[0], a[1]));
        return *out ? jinja_unsupported(r, "identity of equal values") : FT_OK;
    case JV_FUNCTION:
        *out = a[0].as.id == a[1].as.id;
        return FT_OK;
    default:
        *out = a[0].as.seq == a[1].as.seq;
        return FT_OK;
    }
}

static ft_status names_builtin(bool *out, struct jinja_run *r, const struct jinja_value *a,
                               int filters)
{
    if (a[0].type != JV_STR)
        return jinja_unsupported(r, "asking for a filter whose name is no string");
    str name = jinja_view(a[0]);
    *out = (filters ? jinja_filter_find(name) : jinja_test_find(name)) >= 0;
    return *out ? FT_OK : jinja_unsupported(r, "asking for filters or tests that are not here");
}

static const struct row {
    const char *name, *signature;
    size_t n;
    test call;
    int variant;
} rows[] = {
    {"boolean", "value", 1, is_type, JV_BOOL},
    {"callable", "*obj", 1, is_callable, 0},
    {"defined", "value", 1, is_defined, 0},
    {"divisibleby", "value,num", 2, is_divisible, 0},
    {"eq", "*a,b", 2, compares, JT_EQ},
    {"equalto", "*a,b", 2, compares, JT_EQ},
    {"==", "*a,b", 2, compares, JT_EQ},
    {"escaped", "value", 1, is_markup, 0},
    {"even", "value", 1, is_odd, 0},
    {"false", "value", 1, is_bool, 0},
    {"filter", "value", 1, names_builtin, 1},
    {"float", "value", 1, is_type, JV_FLOAT},
    {"ge", "*a,b", 2, compares, JT_GTEQ},
    {">=", "*a,b", 2, compares, JT_GTEQ},
    {"greaterthan", "*a,b", 2, compares, JT_GT},
    {"gt", "*a,b", 2, compares, JT_GT},
    {">", "*a,b", 2, compares, JT_GT},
    {"in", "value,seq", 2, compares, JINJA_IN},
    {"integer", "value", 1, is_integer, 0},
    {"iterable", "value", 1, is_iterable, 0},
    {"le", "*a,b", 2, compares, JT_LTEQ},
    {"<=", "*a,b", 2, compares, JT_LTEQ},
    {"lessthan", "*a,b", 2, compares, JT_LT},
    {"lower", "value", 1, has_case, 0},
    {"lt", "*a,b", 2, compares, JT_LT},
    {"<", "*a,b", 2, compares, JT_LT},
    {"mapping", "value", 1, is_type, JV_DICT},
    {"ne", "*a,b", 2, compares, JT_NE},
    {"!=", "*a,b", 2, compares, JT_NE},
    {"none", "value", 1, is_type, JV_NONE},
    {"number", "value", 1, is_number, 0},
    {"odd", "value", 1, is_odd, 1},
    {"sameas", "value,other", 2, is_same, 0},
    {"sequence", "value", 1, is_sequence, 0},
    {"string", "value", 1, is_type, JV_STR},
    {"test", "value", 1, names_builtin, 0},
    {"true", "value", 1, is_bool, 1},
    {"undefined", "value", 1, is_type, JV_UNDEFINED},
    {"upper", "value", 1, has_case, 1},
};

int jinja_test_find(str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (str_is(name, rows[i].name))
            return (int)i;
    return -1;
}

ft_status jinja_test_call(bool *out, struct jinja_run *r, int id, struct jinja_value v,
                          const struct jinja_call *call)
{
    const struct row *row = &rows[id];
    struct jinja_value a[2], args[8];
    struct jinja_call all = *call;
    if (call->n >= ARRAY_LEN(args))
        return jinja_raise(r, "%s takes at most %zu arguments", row->name, row->n);
    args[0] = v;
    for (size_t i = 0; i < call->n; i++)
        args[i + 1] = call->args[i];
    all.args = args;
    all.n = call->n + 1;
    FT_TRY(jinja_bind(a, row->n, r, row->name, row->signature, &all));
    return row->call(out, r, a, row->variant);
}

ft_status jinja_test_named(bool *out, struct jinja_run *r, struct jinja_value name,
                           struct jinja_value v, const struct jinja_call *call)
{
    int id = name.type == JV_STR ? jinja_test_find(jinja_view(name)) : -1;
    if (id < 0)
        return jinja_raise(r, "the test '%.*s' is not known or not supported",
                           name.type == JV_STR ? (int)FT_MIN(name.as.str->len, 80u) : 1,
                           name.type == JV_STR ? name.as.str->ptr : "?");
    return jinja_test_call(out, r, id, v, call);
}
