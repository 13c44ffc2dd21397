/* SPDX-License-Identifier: Apache-2.0
 * Evaluation of template expressions: a walk over the tree. */
#include <string.h>

#include "formats/jinja_internal.h"

struct jinja_value *jinja_slot(struct jinja_run *r, struct jinja_ref ref)
{
    struct jinja_env *env = r->env;
    for (uint16_t i = 0; i < ref.hops; i++)
        env = env->up;
    return &env->slots[ref.slot];
}

static ft_status eval_name(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    *out = *jinja_slot(r, n->ref);
    return out->type == JV_MISSING ? jinja_undefined_name(out, r, NULL, n->text, false) : FT_OK;
}

static ft_status eval_seq(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    FT_TRY(jinja_new_seq(out, r, n->kind == JN_LIST ? JV_LIST : JV_TUPLE, n->list.n));
    for (size_t i = 0; i < n->list.n; i++) {
        FT_TRY(jinja_eval(&v, r, n->list.items[i]));
        FT_TRY(jinja_push(r, out->as.seq, v));
    }
    return FT_OK;
}

static ft_status eval_dict(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value key, v;
    FT_TRY(jinja_new_dict(out, r));
    for (size_t i = 0; i < n->list.n; i += 2) {
        FT_TRY(jinja_eval(&key, r, n->list.items[i]));
        FT_TRY(jinja_eval(&v, r, n->list.items[i + 1]));
        r->at = n;
        FT_TRY(jinja_dict_set(r, out->as.dict, key, v));
    }
    return FT_OK;
}

static ft_status eval_condition(struct jinja_value *out, struct jinja_run *r,
                                const struct jinja_node *n)
{
    FT_TRY(jinja_eval(out, r, n->b));
    if (jinja_truth(*out))
        return jinja_eval(out, r, n->a);
    if (n->c != NULL)
        return jinja_eval(out, r, n->c);
    return jinja_undefined(out, r,
                           "the inline if-expression evaluated to false and no else "
                           "section was defined.");
}

static ft_status eval_logic(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_node *n)
{
    FT_TRY(jinja_eval(out, r, n->a));
    if (n->kind == JN_NOT)
        *out = jinja_bool(!jinja_truth(*out));
    else if (jinja_truth(*out) == (n->kind == JN_AND))
        return jinja_eval(out, r, n->b);
    return FT_OK;
}

static ft_status eval_binary(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_node *n)
{
    struct jinja_value a, b;
    FT_TRY(jinja_eval(&a, r, n->a));
    FT_TRY(jinja_eval(&b, r, n->b));
    r->at = n;
    return jinja_binary(out, r, n->op, a, b);
}

static ft_status eval_sign(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    FT_TRY(jinja_eval(&v, r, n->a));
    r->at = n;
    return jinja_negate(out, r, n->kind == JN_NEG, v);
}

static ft_status eval_concat(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_node *n)
{
    struct jinja_builder b = {0};
    struct jinja_value v;
    for (size_t i = 0; i < n->list.n; i++) {
        FT_TRY(jinja_eval(&v, r, n->list.items[i]));
        r->at = n;
        FT_TRY(jinja_put_value(r, &b, v));
    }
    return jinja_built(out, r, &b);
}

/* a < b < c: each operand is evaluated once, up to the first comparison that fails. */
static ft_status eval_compare(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_node *n)
{
    struct jinja_value left, right;
    bool holds = true;
    FT_TRY(jinja_eval(&left, r, n->a));
    for (size_t i = 0; i < n->list.n && holds; i++) {
        const struct jinja_node *operand = n->list.items[i];
        FT_TRY(jinja_eval(&right, r, operand->a));
        r->at = operand;
        FT_TRY(jinja_compare(&holds, r, operand->op, left, right));
        left = right;
    }
    *out = jinja_bool(holds);
    return FT_OK;
}

static ft_status eval_getattr(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_node *n)
{
    struct jinja_value object;
    FT_TRY(jinja_eval(&object, r, n->a));
    r->at = n;
    return jinja_getattr(out, r, object, n->text);
}

static ft_status eval_or_none(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_node *n)
{
    *out = jinja_none();
    return n == NULL ? FT_OK : jinja_eval(out, r, n);
}

static ft_status eval_getitem(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_node *n)
{
    struct jinja_value object, key, parts[3];
    FT_TRY(jinja_eval(&object, r, n->a));
    if (n->b->kind != JN_SLICE) {
        FT_TRY(jinja_eval(&key, r, n->b));
        r->at = n;
        return jinja_getitem(out, r, object, key);
    }
    FT_TRY(eval_or_none(&parts[0], r, n->b->a));
    FT_TRY(eval_or_none(&parts[1], r, n->b->b));
    FT_TRY(eval_or_none(&parts[2], r, n->b->c));
    r->at = n;
    if (n->b->lenient && object.type != JV_UNDEFINED && !jinja_can_slice(object))
        return jinja_undefined(out, r, "a constant that cannot be sliced");
    return jinja_slice(out, r, object, parts);
}

/* --- calls ----------------------------------------------------------------------------------- */

static ft_status add_star(struct jinja_call *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value list;
    FT_TRY(jinja_eval(&list, r, n));
    r->at = n;
    FT_TRY(jinja_collect(&list, r, list, JV_LIST));
    struct jinja_seq all = {out->args, out->n, out->n};
    for (size_t i = 0; i < list.as.seq->n; i++)
        FT_TRY(jinja_push(r, &all, list.as.seq->items[i]));
    out->args = all.items;
    out->n = all.n;
    return FT_OK;
}

static ft_status add_double_star(struct jinja_call *out, struct jinja_run *r,
                                 const struct jinja_node *n)
{
    struct jinja_value map;
    str *names;
    struct jinja_value *values;
    FT_TRY(jinja_eval(&map, r, n));
    r->at = n;
    if (map.type != JV_DICT)
        return jinja_raise(r, "** needs a dict, not %s", jinja_type_name(map));
    size_t n_all = out->n_keywords + map.as.dict->n, k = out->n_keywords;
    FT_TRY(jinja_new(&names, r, n_all, sizeof *names));
    FT_TRY(jinja_new(&values, r, n_all, sizeof *values));
    for (size_t i = 0; i < k; i++) {
        names[i] = out->names[i];
        values[i] = out->values[i];
    }
    for (size_t i = 0; i < map.as.dict->n; i++, k++) {
        if (map.as.dict->items[i].key.type != JV_STR)
            return jinja_raise(r, "the names of arguments are strings");
        names[k] = jinja_view(map.as.dict->items[i].key);
        values[k] = map.as.dict->items[i].value;
        for (size_t j = 0; j < out->n_keywords; j++)
            if (str_eq(names[j], names[k]))
                return jinja_raise(r, "the argument '%.*s' is given twice", STR_ARG(names[k]));
    }
    out->names = names;
    out->values = values;
    out->n_keywords = n_all;
    return FT_OK;
}

ft_status jinja_eval_args(struct jinja_call *out, struct jinja_run *r,
                          const struct jinja_args *args)
{
    *out = (struct jinja_call){.n = args->positional.n, .n_keywords = args->n_keywords};
    FT_TRY(jinja_new(&out->args, r, out->n, sizeof *out->args));
    FT_TRY(jinja_new(&out->names, r, out->n_keywords, sizeof *out->names));
    FT_TRY(jinja_new(&out->values, r, out->n_keywords, sizeof *out->values));
    for (size_t i = 0; i < out->n; i++)
        FT_TRY(jinja_eval(&out->args[i], r, args->positional.items[i]));
    for (size_t i = 0; i < out->n_keywords; i++) {
        out->names[i] = args->keywords[i].name;
        FT_TRY(jinja_eval(&out->values[i], r, args->keywords[i].value));
    }
    if (args->star != NULL)
        FT_TRY(add_star(out, r, args->star));
    return args->double_star == NULL ? FT_OK : add_double_star(out, r, args->double_star);
}

static ft_status eval_call(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value callee;
    struct jinja_call call;
    FT_TRY(jinja_eval(&callee, r, n->a));
    FT_TRY(jinja_eval_args(&call, r, &n->args));
    r->at = n;
    return jinja_call(out, r, callee, &call);
}

static ft_status eval_filter(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_node *n)
{
    struct jinja_value v;
    struct jinja_call call;
    FT_TRY(jinja_eval(&v, r, n->a));
    FT_TRY(jinja_eval_args(&call, r, &n->args));
    r->at = n;
    if (n->builtin < 0)
        return jinja_raise(r, "the filter '%.*s' is not known or not supported", STR_ARG(n->text));
    return jinja_filter_call(out, r, n->builtin, v, &call);
}

static ft_status eval_test(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    struct jinja_call call;
    bool holds;
    FT_TRY(jinja_eval(&v, r, n->a));
    FT_TRY(jinja_eval_args(&call, r, &n->args));
    r->at = n;
    if (n->builtin < 0)
        return jinja_raise(r, "the test '%.*s' is not known or not supported", STR_ARG(n->text));
    FT_TRY(jinja_test_call(&holds, r, n->builtin, v, &call));
    *out = jinja_bool(holds);
    return FT_OK;
}

/* --- every node ------------------------------------------------------------------------------ */

static ft_status eval_node(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    switch (n->kind) {
    case JN_CONST:
        *out = n->value;
        return FT_OK;
    case JN_NAME:
        return eval_name(out, r, n);
    case JN_TUPLE:
    case JN_LIST:
        return eval_seq(out, r, n);
    case JN_DICT:
        return eval_dict(out, r, n);
    case JN_COND:
        return eval_condition(out, r, n);
    case JN_AND:
    case JN_OR:
    case JN_NOT:
        return eval_logic(out, r, n);
    case JN_NEG:
    case JN_POS:
        return eval_sign(out, r, n);
    case JN_BINARY:
        return eval_binary(out, r, n);
    case JN_CONCAT:
        return eval_concat(out, r, n);
    case JN_COMPARE:
        return eval_compare(out, r, n);
    case JN_GETATTR:
        return eval_getattr(out, r, n);
    case JN_GETITEM:
        return eval_getitem(out, r, n);
    case JN_CALL:
        return eval_call(out, r, n);
    case JN_FILTER:
        return eval_filter(out, r, n);
    default:
        FT_ASSERT(n->kind == JN_TEST);
        return eval_test(out, r, n);
    }
}

ft_status jinja_eval(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    r->at = n;
    FT_TRY(jinja_steps(r, 1));
    if (++r->depth > JINJA_MAX_CALLS)
        return jinja_raise(r, "calls nested deeper than %d evaluations (endless recursion?)",
                           JINJA_MAX_CALLS);
    FT_TRY(eval_node(out, r, n));
    r->depth--;
    return FT_OK;
}
