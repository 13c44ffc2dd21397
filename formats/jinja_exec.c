/* SPDX-License-Identifier: Apache-2.0
 * Execution of template statements: output, scopes, loops, macros. */
#include "formats/jinja_internal.h"

/* How a statement ended. */
enum flow { NEXT, BREAK, CONTINUE };

static ft_status exec_body(struct jinja_run *r, struct jinja_nodes body, enum flow *flow);

/* --- scopes ---------------------------------------------------------------------------------- */

static struct jinja_value resolve(const struct jinja_run *r, str name)
{
    const struct jinja_value *v = jinja_dict_at(r->vars.as.dict, name);
    return v != NULL ? *v : jinja_global(name);
}

static void enter_frame(struct jinja_run *r, const struct jinja_frame *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct jinja_load *l = &f->loads[i];
        if (l->action == JINJA_LOAD_CONTEXT)
            r->env->slots[l->slot] = resolve(r, l->name);
        else if (l->action == JINJA_LOAD_ALIAS)
            r->env->slots[l->slot] = *jinja_slot(r, l->from);
        else if (l->action == JINJA_LOAD_UNSET)
            r->env->slots[l->slot] = jinja_missing();
    }
}

static void leave_frame(struct jinja_run *r, const struct jinja_frame *f)
{
    for (size_t i = 0; i < f->n; i++)
        r->env->slots[f->loads[i].slot] = jinja_missing();
}

static ft_status new_env(struct jinja_env **out, struct jinja_run *r, struct jinja_env *up,
                         size_t n_slots)
{
    FT_TRY(jinja_new(out, r, 1, sizeof **out));
    FT_TRY(jinja_new(&(*out)->slots, r, n_slots, sizeof(struct jinja_value)));
    (*out)->up = up;
    for (size_t i = 0; i < n_slots; i++)
        (*out)->slots[i] = jinja_missing();
    return FT_OK;
}

/* --- assignment ------------------------------------------------------------------------------ */

static ft_status assign_tuple(struct jinja_run *r, const struct jinja_node *target,
                              struct jinja_value v)
{
    struct jinja_value list;
    r->at = target;
    FT_TRY(jinja_collect(&list, r, v, JV_TUPLE));
    if (list.as.seq->n != target->list.n)
        return jinja_raise(r, "%zu values for %zu names", list.as.seq->n, target->list.n);
    for (size_t i = 0; i < target->list.n; i++)
        FT_TRY(jinja_assign(r, target->list.items[i], list.as.seq->items[i]));
    return FT_OK;
}

static ft_status check_namespaces(struct jinja_run *r, const struct jinja_node *target)
{
    if (target->kind == JN_NSREF && jinja_slot(r, target->ref)->type != JV_NAMESPACE) {
        r->at = target;
        return jinja_raise(r, "attributes can be set on namespaces only");
    }
    for (size_t i = 0; target->kind == JN_TUPLE && i < target->list.n; i++)
        FT_TRY(check_namespaces(r, target->list.items[i]));
    return FT_OK;
}

static ft_status assign_attribute(struct jinja_run *r, const struct jinja_node *target,
                                  struct jinja_value v)
{
    struct jinja_value key;
    FT_TRY(check_namespaces(r, target));
    if (target->attribute.ptr[0] == '_')
        return jinja_raise(r, "a namespace cannot hold names that begin with an underscore");
    FT_TRY(jinja_new_text(&key, r, target->attribute, JINJA_TEMPLATE));
    return jinja_dict_set(r, jinja_slot(r, target->ref)->as.dict, key, v);
}

ft_status jinja_assign(struct jinja_run *r, const struct jinja_node *target, struct jinja_value v)
{
    if (target->kind == JN_TUPLE)
        return assign_tuple(r, target, v);
    if (target->kind == JN_NSREF)
        return assign_attribute(r, target, v);
    *jinja_slot(r, target->ref) = v;
    return FT_OK;
}

/* --- captured output ------------------------------------------------------------------------- */

/* The body's output as a text. */
static ft_status capture(struct jinja_value *out, struct jinja_run *r, struct jinja_nodes body,
                         enum flow *flow)
{
    struct jinja_builder b = {0}, *outer = r->out;
    r->out = &b;
    FT_TRY(exec_body(r, body, flow));
    r->out = outer;
    return jinja_built(out, r, &b);
}

/* Filters of a block, the innermost one on its text. */
static ft_status filter_text(struct jinja_value *out, struct jinja_run *r,
                             const struct jinja_node *filter, struct jinja_value text)
{
    struct jinja_call call;
    *out = text;
    if (filter == NULL)
        return FT_OK;
    FT_TRY(filter_text(&text, r, filter->a, text));
    FT_TRY(jinja_eval_args(&call, r, &filter->args));
    r->at = filter;
    if (filter->builtin < 0)
        return jinja_raise(r, "the filter '%.*s' is not known or not supported",
                           STR_ARG(filter->text));
    return jinja_filter_call(out, r, filter->builtin, text, &call);
}

static ft_status put_result(struct jinja_run *r, struct jinja_value v)
{
    if (v.type != JV_STR)
        return jinja_raise(r, "the result of the block is no text but %s", jinja_type_name(v));
    return jinja_put_str(r, r->out, v.as.str);
}

static ft_status exec_filter_block(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    struct jinja_value text;
    enter_frame(r, &n->frame);
    FT_TRY(capture(&text, r, n->body, flow));
    if (*flow != NEXT)
        return FT_OK;
    FT_TRY(filter_text(&text, r, n->b, text));
    leave_frame(r, &n->frame);
    return put_result(r, text);
}

static ft_status exec_set_block(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    struct jinja_value text;
    enter_frame(r, &n->frame);
    FT_TRY(capture(&text, r, n->body, flow));
    if (*flow != NEXT)
        return FT_OK;
    FT_TRY(filter_text(&text, r, n->b, text));
    FT_TRY(jinja_assign(r, n->a, text));
    leave_frame(r, &n->frame);
    return FT_OK;
}

/* --- loops ----------------------------------------------------------------------------------- */

/* What the generator of a loop condition yields: the loop variables, packed anew. */
static ft_status pack_targets(struct jinja_value *out, struct jinja_run *r,
                              const struct jinja_node *target)
{
    struct jinja_value v;
    if (target->kind != JN_TUPLE) {
        *out = *jinja_slot(r, target->ref);
        return FT_OK;
    }
    FT_TRY(jinja_new_seq(out, r, JV_TUPLE, target->list.n));
    for (size_t i = 0; i < target->list.n; i++) {
        FT_TRY(pack_targets(&v, r, target->list.items[i]));
        FT_TRY(jinja_push(r, out->as.seq, v));
    }
    return FT_OK;
}

static ft_status next_filtered(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                               bool *done)
{
    const struct jinja_function *f = it->node->condition;
    struct jinja_env *outer = r->env;
    struct jinja_value v;
    r->env = it->env;
    if (it->i++ == 0)
        enter_frame(r, &f->frame);
    for (;;) {
        FT_TRY(jinja_next(r, it->inner, &v, done));
        if (*done)
            break;
        FT_TRY(jinja_assign(r, f->params[0], v));
        FT_TRY(jinja_eval(&v, r, it->node->c));
        if (jinja_truth(v))
            break;
    }
    if (!*done)
        FT_TRY(pack_targets(out, r, f->params[0]));
    r->env = outer;
    return FT_OK;
}

/* The items of the loop: all, or those its condition lets through. */
static ft_status loop_items(struct jinja_value *out, struct jinja_iter **items, struct jinja_run *r,
                            const struct jinja_node *n, struct jinja_env *outer)
{
    struct jinja_iter *filtered;
    FT_TRY(jinja_iterate(items, r, *out));
    if (n->c == NULL)
        return FT_OK;
    FT_TRY(jinja_new(&filtered, r, 1, sizeof *filtered));
    FT_TRY(new_env(&filtered->env, r, outer, n->condition->n_slots));
    filtered->next = next_filtered;
    filtered->inner = *items;
    filtered->node = n;
    *items = filtered;
    *out = jinja_iter_value(filtered);
    return FT_OK;
}

static ft_status advance(struct jinja_run *r, struct jinja_loop *l, struct jinja_value *v,
                         bool *done)
{
    *done = false;
    if (l->has_after)
        *v = l->after;
    else
        FT_TRY(jinja_next(r, l->iter, v, done));
    l->has_after = false;
    if (*done)
        return FT_OK;
    l->index0++;
    l->before = l->current;
    l->current = *v;
    return FT_OK;
}

/* outer: the environment in which the loop stands; r->env: the one of its variables. */
static ft_status run_loop(struct jinja_run *r, const struct jinja_node *n,
                          struct jinja_value iterable, int64_t depth0, struct jinja_env *outer,
                          enum flow *flow)
{
    struct jinja_loop *l;
    struct jinja_value v;
    bool done, untouched = true;
    enum flow body = NEXT;
    FT_TRY(jinja_new(&l, r, 1, sizeof *l));
    *l = (struct jinja_loop){.index0 = -1, .length = -1, .depth0 = depth0, .node = n, .env = outer};
    r->at = n;
    FT_TRY(loop_items(&iterable, &l->iter, r, n, outer));
    l->iterable = iterable;
    while (body != BREAK) {
        r->at = n;
        FT_TRY(advance(r, l, &v, &done));
        if (done)
            break;
        FT_TRY(jinja_assign(r, n->a, v));
        if (n->extended)
            r->env->slots[n->loop_slot] = (struct jinja_value){.type = JV_LOOP, .as.loop = l};
        enter_frame(r, &n->frame);
        body = NEXT;
        FT_TRY(exec_body(r, n->body, &body));
        untouched &= body != NEXT; /* Jinja, too, runs the else part after `continue` */
    }
    if (!n->recursive || n->orelse.n > 0)
        leave_frame(r, &n->frame);
    if (!untouched || n->orelse.n == 0)
        return FT_OK;
    enter_frame(r, &n->else_frame);
    FT_TRY(exec_body(r, n->orelse, flow));
    leave_frame(r, &n->else_frame);
    return FT_OK;
}

/* A recursive loop is a function that is called with what to walk over. */
static ft_status call_loop(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n,
                           struct jinja_value iterable, int64_t depth0, struct jinja_env *outer)
{
    struct jinja_builder b = {0}, *out_before = r->out;
    struct jinja_env *env_before = r->env;
    enum flow flow = NEXT;
    FT_TRY(new_env(&r->env, r, outer, n->function->n_slots));
    r->out = &b;
    FT_TRY(run_loop(r, n, iterable, depth0, outer, &flow));
    r->out = out_before;
    r->env = env_before;
    return jinja_built(out, r, &b);
}

ft_status jinja_loop_call(struct jinja_value *out, struct jinja_run *r, const struct jinja_loop *l,
                          struct jinja_value iterable)
{
    if (!l->node->recursive)
        return jinja_raise(r, "the loop is not 'recursive' and cannot be called");
    return call_loop(out, r, l->node, iterable, l->depth0 + 1, l->env);
}

static ft_status exec_for(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    struct jinja_value iterable;
    FT_TRY(jinja_eval(&iterable, r, n->b));
    if (!n->recursive)
        return run_loop(r, n, iterable, 0, r->env, flow);
    FT_TRY(call_loop(&iterable, r, n, iterable, 0, r->env));
    return put_result(r, iterable);
}

/* --- the variable `loop` --------------------------------------------------------------------- */

static ft_status peek(struct jinja_run *r, struct jinja_loop *l, bool *there)
{
    bool done;
    *there = l->has_after;
    if (l->has_after)
        return FT_OK;
    FT_TRY(jinja_next(r, l->iter, &l->after, &done));
    *there = l->has_after = !done;
    return FT_OK;
}

static ft_status loop_length(int64_t *out, struct jinja_run *r, struct jinja_loop *l)
{
    struct jinja_value rest;
    if (l->length < 0 && l->iterable.type != JV_ITER) {
        FT_TRY(jinja_length(&l->length, r, l->iterable));
    } else if (l->length < 0) { /* a generator: what remains is walked now */
        FT_TRY(jinja_collect(&rest, r, jinja_iter_value(l->iter), JV_LIST));
        FT_TRY(jinja_iterate(&l->iter, r, rest));
        l->length = (int64_t)rest.as.seq->n + l->index0 + 1 + l->has_after;
    }
    *out = l->length;
    return FT_OK;
}

static ft_status loop_neighbour(struct jinja_value *out, struct jinja_run *r, struct jinja_loop *l,
                                bool next)
{
    bool there = l->index0 != 0;
    if (next)
        FT_TRY(peek(r, l, &there));
    *out = next ? l->after : l->before;
    return there ? FT_OK
                 : jinja_undefined(out, r,
                                   next ? "there is no next item" : "there is no previous item");
}

enum loop_attribute {
    INDEX,
    INDEX0,
    REVINDEX,
    REVINDEX0,
    LENGTH,
    DEPTH,
    DEPTH0,
    FIRST,
    LAST,
    PREVIOUS,
    FOLLOWING
};

static const char *const loop_attributes[] = {
    [INDEX] = "index",         [INDEX0] = "index0",      [REVINDEX] = "revindex",
    [REVINDEX0] = "revindex0", [LENGTH] = "length",      [DEPTH] = "depth",
    [DEPTH0] = "depth0",       [FIRST] = "first",        [LAST] = "last",
    [PREVIOUS] = "previtem",   [FOLLOWING] = "nextitem",
};

static ft_status loop_number(struct jinja_value *out, struct jinja_run *r, struct jinja_loop *l,
                             enum loop_attribute which)
{
    int64_t length = 0;
    if (which == REVINDEX || which == REVINDEX0 || which == LENGTH)
        FT_TRY(loop_length(&length, r, l));
    const int64_t values[] = {
        [INDEX] = l->index0 + 1,
        [INDEX0] = l->index0,
        [REVINDEX] = length - l->index0,
        [REVINDEX0] = length - l->index0 - 1,
        [LENGTH] = length,
        [DEPTH] = l->depth0 + 1,
        [DEPTH0] = l->depth0,
    };
    *out = jinja_int(values[which]);
    return FT_OK;
}

ft_status jinja_loop_attribute(struct jinja_value *out, bool *found, struct jinja_run *r,
                               struct jinja_loop *l, str name)
{
    size_t which = 0;
    bool there;
    while (which < ARRAY_LEN(loop_attributes) && !str_is(name, loop_attributes[which]))
        which++;
    *found = which < ARRAY_LEN(loop_attributes);
    if (!*found)
        return FT_OK;
    if (which < FIRST)
        return loop_number(out, r, l, (enum loop_attribute)which);
    if (which == PREVIOUS || which == FOLLOWING)
        return loop_neighbour(out, r, l, which == FOLLOWING);
    *out = jinja_bool(l->index0 == 0);
    if (which == FIRST)
        return FT_OK;
    FT_TRY(peek(r, l, &there));
    *out = jinja_bool(!there);
    return FT_OK;
}

/* --- macros ---------------------------------------------------------------------------------- */

static ft_status new_macro(struct jinja_value *out, struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_macro *m;
    FT_TRY(jinja_new(&m, r, 1, sizeof *m));
    *m = (struct jinja_macro){n, n->function, r->env};
    *out = (struct jinja_value){.type = JV_MACRO, .as.macro = m};
    return FT_OK;
}

/* Takes the named argument out of the call; JV_MISSING when it is not there. */
static struct jinja_value pop_keyword(struct jinja_call *call, str name)
{
    for (size_t i = 0; i < call->n_keywords; i++) {
        if (!str_eq(call->names[i], name))
            continue;
        struct jinja_value v = call->values[i];
        call->n_keywords--;
        for (size_t k = i; k < call->n_keywords; k++) {
            call->names[k] = call->names[k + 1];
            call->values[k] = call->values[k + 1];
        }
        return v;
    }
    return jinja_missing();
}

static ft_status bind_params(struct jinja_run *r, const struct jinja_function *f,
                             struct jinja_value *slots, struct jinja_call *call)
{
    bool found_caller = false;
    for (size_t i = 0; i < f->n_params; i++) {
        const struct jinja_node *p = f->params[i];
        slots[p->ref.slot] = i < call->n ? call->args[i] : pop_keyword(call, p->text);
        found_caller |= str_is(p->text, "caller");
    }
    if (!f->takes_caller || found_caller)
        return FT_OK;
    struct jinja_value caller = pop_keyword(call, STR("caller"));
    if (caller.type == JV_MISSING || caller.type == JV_NONE)
        FT_TRY(jinja_undefined(&caller, r, "No caller defined"));
    slots[f->caller_slot] = caller;
    return FT_OK;
}

/* kwargs and varargs, or an error when the macro has no use for what is left. */
static ft_status bind_rest(struct jinja_run *r, const struct jinja_function *f,
                           struct jinja_value *slots, const struct jinja_call *call)
{
    struct jinja_value rest, key;
    if (f->takes_kwargs) {
        FT_TRY(jinja_new_dict(&rest, r));
        for (size_t i = 0; i < call->n_keywords; i++) {
            FT_TRY(jinja_new_text(&key, r, call->names[i], JINJA_TEMPLATE));
            FT_TRY(jinja_dict_set(r, rest.as.dict, key, call->values[i]));
        }
        slots[f->kwargs_slot] = rest;
    } else if (call->n_keywords > 0) {
        return jinja_raise(r, "the macro '%.*s' takes no argument '%.*s'", STR_ARG(f->name),
                           STR_ARG(call->names[0]));
    }
    if (f->takes_varargs) {
        FT_TRY(jinja_new_seq(&rest, r, JV_TUPLE, 0));
        for (size_t i = f->n_params; i < call->n; i++)
            FT_TRY(jinja_push(r, rest.as.seq, call->args[i]));
        slots[f->varargs_slot] = rest;
    } else if (call->n > f->n_params) {
        return jinja_raise(r, "the macro '%.*s' takes at most %zu arguments", STR_ARG(f->name),
                           f->n_params);
    }
    return FT_OK;
}

static ft_status param_defaults(struct jinja_run *r, const struct jinja_function *f)
{
    size_t first = f->n_params - f->n_defaults;
    for (size_t i = 0; i < f->n_params; i++) {
        uint16_t slot = f->params[i]->ref.slot;
        struct jinja_value v;
        if (r->env->slots[slot].type != JV_MISSING)
            continue;
        if (i >= first)
            FT_TRY(jinja_eval(&v, r, f->defaults[i - first]));
        else
            FT_TRY(jinja_undefined(&v, r, "a parameter of the macro was not provided"));
        r->env->slots[slot] = v;
    }
    return FT_OK;
}

ft_status jinja_macro_call(struct jinja_value *out, struct jinja_run *r,
                           const struct jinja_macro *m, const struct jinja_call *call)
{
    const struct jinja_function *f = m->function;
    struct jinja_env *outer = r->env, *env;
    struct jinja_call rest = *call;
    enum flow flow = NEXT;
    FT_TRY(new_env(&env, r, m->env, f->n_slots));
    FT_TRY(bind_params(r, f, env->slots, &rest));
    FT_TRY(bind_rest(r, f, env->slots, &rest));
    r->env = env;
    enter_frame(r, &f->frame);
    FT_TRY(param_defaults(r, f));
    FT_TRY(capture(out, r, m->node->body, &flow));
    r->env = outer;
    return FT_OK;
}

static ft_status exec_macro(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value macro;
    FT_TRY(new_macro(&macro, r, n));
    *jinja_slot(r, n->ref) = macro;
    return FT_OK;
}

static ft_status exec_call_block(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value caller, callee, result;
    struct jinja_call call, with_caller;
    FT_TRY(new_macro(&caller, r, n));
    FT_TRY(jinja_eval(&callee, r, n->a->a));
    FT_TRY(jinja_eval_args(&call, r, &n->a->args));
    r->at = n;
    with_caller = call;
    with_caller.n_keywords++;
    FT_TRY(jinja_new(&with_caller.names, r, with_caller.n_keywords, sizeof(str)));
    FT_TRY(jinja_new(&with_caller.values, r, with_caller.n_keywords, sizeof(struct jinja_value)));
    for (size_t i = 0; i < call.n_keywords; i++) {
        with_caller.names[i] = call.names[i];
        with_caller.values[i] = call.values[i];
        if (str_is(call.names[i], "caller"))
            return jinja_raise(r, "the argument 'caller' is given twice");
    }
    with_caller.names[call.n_keywords] = STR("caller");
    with_caller.values[call.n_keywords] = caller;
    FT_TRY(jinja_call(&result, r, callee, &with_caller));
    return put_result(r, result);
}

/* In Jinja a call block around nothing but its own text. */
static ft_status exec_generation(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_macro m = {n, n->function, r->env};
    struct jinja_value text;
    FT_TRY(jinja_macro_call(&text, r, &m, &(struct jinja_call){0}));
    const struct jinja_str *s = text.as.str;
    for (size_t i = 0, from = 0; i < s->n_pieces; from = s->pieces[i++].end)
        FT_TRY(jinja_put(r, r->out, (str){s->ptr + from, s->pieces[i].end - from},
                         s->pieces[i].origin | JINJA_GENERATION));
    return FT_OK;
}

/* --- every statement ------------------------------------------------------------------------- */

static ft_status exec_output(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    for (size_t i = 0; i < n->list.n; i++) {
        const struct jinja_node *child = n->list.items[i];
        if (child->kind == JN_DATA) {
            FT_TRY(jinja_put(r, r->out, child->text, JINJA_TEMPLATE));
            continue;
        }
        FT_TRY(jinja_eval(&v, r, child));
        r->at = child;
        FT_TRY(jinja_put_value(r, r->out, v));
    }
    return FT_OK;
}

static ft_status exec_if(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    struct jinja_value v;
    FT_TRY(jinja_eval(&v, r, n->a));
    if (jinja_truth(v))
        return exec_body(r, n->body, flow);
    for (size_t i = 0; i < n->list.n; i++) {
        FT_TRY(jinja_eval(&v, r, n->list.items[i]->a));
        if (jinja_truth(v))
            return exec_body(r, n->list.items[i]->body, flow);
    }
    return exec_body(r, n->orelse, flow);
}

static ft_status exec_set(struct jinja_run *r, const struct jinja_node *n)
{
    struct jinja_value v;
    FT_TRY(check_namespaces(r, n->a));
    FT_TRY(jinja_eval(&v, r, n->b));
    return jinja_assign(r, n->a, v);
}

static ft_status exec_with(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    struct jinja_value v;
    enter_frame(r, &n->frame);
    for (size_t i = 0; i < n->list.n; i += 2) {
        FT_TRY(jinja_eval(&v, r, n->list.items[i + 1]));
        FT_TRY(jinja_assign(r, n->list.items[i], v));
    }
    FT_TRY(exec_body(r, n->body, flow));
    leave_frame(r, &n->frame);
    return FT_OK;
}

static ft_status exec_node(struct jinja_run *r, const struct jinja_node *n, enum flow *flow)
{
    switch (n->kind) {
    case JN_OUTPUT:
        return exec_output(r, n);
    case JN_IF:
        return exec_if(r, n, flow);
    case JN_FOR:
        return exec_for(r, n, flow);
    case JN_SET:
        return exec_set(r, n);
    case JN_SET_BLOCK:
        return exec_set_block(r, n, flow);
    case JN_WITH:
        return exec_with(r, n, flow);
    case JN_MACRO:
        return exec_macro(r, n);
    case JN_CALL_BLOCK:
        return exec_call_block(r, n);
    case JN_GENERATION:
        return exec_generation(r, n);
    case JN_FILTER_BLOCK:
        return exec_filter_block(r, n, flow);
    default:
        FT_ASSERT(n->kind == JN_BREAK || n->kind == JN_CONTINUE);
        *flow = n->kind == JN_BREAK ? BREAK : CONTINUE;
        return FT_OK;
    }
}

static ft_status exec_body(struct jinja_run *r, struct jinja_nodes body, enum flow *flow)
{
    if (++r->depth > JINJA_MAX_CALLS)
        return jinja_raise(r, "calls nested deeper than %d evaluations (endless recursion?)",
                           JINJA_MAX_CALLS);
    for (size_t i = 0; i < body.n && *flow == NEXT; i++) {
        FT_TRY(jinja_steps(r, 1));
        FT_TRY(exec_node(r, body.items[i], flow));
    }
    r->depth--;
    return FT_OK;
}

ft_status jinja_exec_root(struct jinja_run *r)
{
    enum flow flow = NEXT;
    FT_TRY(new_env(&r->env, r, NULL, r->t->root.n_slots));
    enter_frame(r, &r->t->root.frame);
    return exec_body(r, r->t->body, &flow);
}
