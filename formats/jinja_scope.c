/* SPDX-License-Identifier: Apache-2.0
 * Gives every name of a template its place. Jinja compiles templates to Python functions whose
 * local variables are called after name and nesting level; a first walk over each scope decides
 * what a name means there (a value of its own, an alias of the outer one, a lookup in the context),
 * a second one puts the answers into the tree. Both walks, and the odd orders in which they visit
 * things, are Jinja's, because templates can tell. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/jinja_internal.h"

enum { MAX_NAMES = 1000, MAX_SLOTS = 4000 };

struct symbol {
    str name;
    enum jinja_load_action action;
    struct jinja_ref from; /* of an alias: from inside this scope */
    uint16_t slot;
    bool stored;
};

/* A local variable of the Python function: name and level. */
struct local {
    str name;
    size_t level;
};

/* A function that is being compiled. */
struct scope_function {
    struct scope_function *up;
    size_t depth; /* number of functions around it */
    struct local *locals;
    size_t n, cap;
};

struct symbols {
    struct symbols *up;
    struct scope_function *function;
    size_t level;
    struct symbol *items; /* on the heap */
    size_t n, cap;
};

struct resolver {
    struct jinja *t;
    ft_error *err;
};

/* Where a walk of the second kind is. */
struct place {
    struct symbols *symbols;
    bool soft;    /* inside if: unknown filters fail only when they are reached */
    bool in_loop; /* of the same function */
};

static ft_status fail(struct resolver *rs, const struct jinja_node *n, const char *what)
{
    return jinja_fail_at(rs->err, FT_EFORMAT, rs->t->name, rs->t->source, n->at, "%s", what);
}

static ft_status no_memory(struct resolver *rs)
{
    return ft_fail_memory(rs->err, sizeof(struct symbol), "the names of a template");
}

/* --- symbols --------------------------------------------------------------------------------- */

static struct symbol *find_here(const struct symbols *s, str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (str_eq(s->items[i].name, name))
            return &s->items[i];
    return NULL;
}

static const struct symbol *find(const struct symbols *s, str name, const struct symbols **owner)
{
    for (; s != NULL; s = s->up) {
        const struct symbol *found = find_here(s, name);
        if (found != NULL) {
            *owner = s;
            return found;
        }
    }
    return NULL;
}

static ft_status local_slot(struct resolver *rs, uint16_t *slot, struct scope_function *f,
                            size_t level, str name)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->locals[i].level == level && str_eq(f->locals[i].name, name)) {
            *slot = (uint16_t)i;
            return FT_OK;
        }
    if (f->n == MAX_SLOTS)
        return ft_fail(rs->err, FT_ELIMIT, "%s: more than %d variables", rs->t->name, MAX_SLOTS);
    if (f->n == f->cap) {
        size_t cap = f->cap == 0 ? 16 : f->cap * 2;
        struct local *grown = mem_realloc(f->locals, cap, sizeof *grown);
        if (grown == NULL)
            return no_memory(rs);
        f->locals = grown;
        f->cap = cap;
    }
    *slot = (uint16_t)f->n;
    f->locals[f->n++] = (struct local){name, level};
    return FT_OK;
}

static ft_status append(struct resolver *rs, struct symbols *s, struct symbol add)
{
    if (s->n == MAX_NAMES)
        return ft_fail(rs->err, FT_ELIMIT, "%s: more than %d names in one scope", rs->t->name,
                       MAX_NAMES);
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 8 : s->cap * 2;
        struct symbol *grown = mem_realloc(s->items, cap, sizeof *grown);
        if (grown == NULL)
            return no_memory(rs);
        s->items = grown;
        s->cap = cap;
    }
    s->items[s->n++] = add;
    return FT_OK;
}

/* From inside s to a variable of another scope. */
static struct jinja_ref reach(const struct symbols *s, const struct symbols *owner, uint16_t slot)
{
    return (struct jinja_ref){(uint16_t)(s->function->depth - owner->function->depth), slot};
}

static ft_status define(struct resolver *rs, struct symbols *s, struct symbol add)
{
    struct symbol *there = find_here(s, add.name);
    FT_TRY(local_slot(rs, &add.slot, s->function, s->level, add.name));
    if (there == NULL)
        return append(rs, s, add);
    add.stored |= there->stored;
    *there = add;
    return FT_OK;
}

static ft_status declare_parameter(struct resolver *rs, struct symbols *s, str name)
{
    return define(rs, s, (struct symbol){.name = name, .action = JINJA_LOAD_PARAM, .stored = true});
}

static struct symbol alias_or(const struct symbols *s, str name, enum jinja_load_action otherwise)
{
    const struct symbols *owner;
    const struct symbol *outer = find(s->up, name, &owner);
    struct symbol sym = {.name = name, .action = otherwise, .stored = true};
    if (outer != NULL) {
        sym.action = JINJA_LOAD_ALIAS;
        sym.from = reach(s, owner, outer->slot);
    }
    return sym;
}

static ft_status store(struct resolver *rs, struct symbols *s, str name)
{
    struct symbol *there = find_here(s, name);
    if (there != NULL) {
        there->stored = true;
        return FT_OK;
    }
    return define(rs, s, alias_or(s, name, JINJA_LOAD_UNSET));
}

static ft_status load(struct resolver *rs, struct symbols *s, str name)
{
    const struct symbols *owner;
    if (find(s, name, &owner) != NULL)
        return FT_OK;
    return define(rs, s, (struct symbol){.name = name, .action = JINJA_LOAD_CONTEXT});
}

static ft_status copy_symbols(struct resolver *rs, struct symbols *out, const struct symbols *s)
{
    *out = (struct symbols){.up = s->up, .function = s->function, .level = s->level};
    for (size_t i = 0; i < s->n; i++)
        FT_TRY(append(rs, out, s->items[i]));
    return FT_OK;
}

static void free_symbols(struct symbols *s)
{
    mem_free(s->items);
    s->items = NULL;
}

/* What only some branches of an if store keeps its outer value (or the context's) in the others. */
static ft_status merge_branches(struct resolver *rs, struct symbols *s,
                                const struct symbols *branches, size_t n)
{
    struct symbols before;
    ft_status st = copy_symbols(rs, &before, s);
    for (size_t b = 0; b < n && st == FT_OK; b++)
        for (size_t i = 0; i < branches[b].n && st == FT_OK; i++)
            st = define(rs, s, branches[b].items[i]);
    for (size_t i = 0; i < s->n && st == FT_OK; i++) {
        const struct symbol *old = find_here(&before, s->items[i].name);
        if (!s->items[i].stored || (old != NULL && old->stored))
            continue;
        struct symbol sym = alias_or(s, s->items[i].name, JINJA_LOAD_CONTEXT);
        sym.slot = s->items[i].slot;
        s->items[i] = sym;
    }
    free_symbols(&before);
    return st;
}

/* --- first walk: what the names of a scope mean ---------------------------------------------- */

static ft_status visit(struct resolver *rs, struct symbols *s, const struct jinja_node *n);

static ft_status visit_all(struct resolver *rs, struct symbols *s, struct jinja_nodes list)
{
    for (size_t i = 0; i < list.n; i++)
        FT_TRY(visit(rs, s, list.items[i]));
    return FT_OK;
}

static ft_status visit_args(struct resolver *rs, struct symbols *s, const struct jinja_args *args)
{
    FT_TRY(visit_all(rs, s, args->positional));
    for (size_t i = 0; i < args->n_keywords; i++)
        FT_TRY(visit(rs, s, args->keywords[i].value));
    FT_TRY(visit(rs, s, args->star));
    return visit(rs, s, args->double_star);
}

static ft_status visit_branch(struct resolver *rs, struct symbols *out, const struct symbols *s,
                              struct jinja_nodes body)
{
    FT_TRY(copy_symbols(rs, out, s));
    return visit_all(rs, out, body);
}

static ft_status visit_if(struct resolver *rs, struct symbols *s, const struct jinja_node *n)
{
    struct symbols branches[3] = {{0}};
    const struct jinja_nodes bodies[3] = {n->body, n->list, n->orelse};
    FT_TRY(visit(rs, s, n->a));
    ft_status st = FT_OK;
    for (size_t i = 0; i < 3 && st == FT_OK; i++)
        st = visit_branch(rs, &branches[i], s, bodies[i]);
    if (st == FT_OK)
        st = merge_branches(rs, s, branches, 3);
    for (size_t i = 0; i < 3; i++)
        free_symbols(&branches[i]);
    return st;
}

/* Targets of assignments. `parameter`: of loops and with, new variables in any case. */
static ft_status visit_target(struct resolver *rs, struct symbols *s, const struct jinja_node *n,
                              bool parameter)
{
    if (n->kind == JN_NSREF)
        return load(rs, s, n->text);
    if (n->kind == JN_NAME)
        return parameter ? declare_parameter(rs, s, n->text) : store(rs, s, n->text);
    for (size_t i = 0; i < n->list.n; i++)
        FT_TRY(visit_target(rs, s, n->list.items[i], parameter));
    return FT_OK;
}

/* Statements that open a scope are visited only as far as they belong to the outer one. */
static ft_status visit(struct resolver *rs, struct symbols *s, const struct jinja_node *n)
{
    if (n == NULL)
        return FT_OK;
    switch (n->kind) {
    case JN_NAME:
        return load(rs, s, n->text);
    case JN_IF:
        return visit_if(rs, s, n);
    case JN_MACRO:
        return store(rs, s, n->text);
    case JN_SET:
        FT_TRY(visit(rs, s, n->b));
        return visit_target(rs, s, n->a, false);
    case JN_SET_BLOCK:
        return visit_target(rs, s, n->a, false);
    case JN_FOR:
    case JN_FILTER_BLOCK:
        return visit(rs, s, n->b);
    case JN_CALL_BLOCK:
        return visit(rs, s, n->a);
    case JN_GENERATION:
        return FT_OK;
    case JN_WITH:
        for (size_t i = 1; i < n->list.n; i += 2)
            FT_TRY(visit(rs, s, n->list.items[i]));
        return FT_OK;
    default:
        FT_TRY(visit(rs, s, n->a));
        FT_TRY(visit(rs, s, n->b));
        FT_TRY(visit(rs, s, n->c));
        FT_TRY(visit_all(rs, s, n->list));
        return visit_args(rs, s, &n->args);
    }
}

/* --- is a name read before it is written? ---------------------------------------------------- */

enum mention { NOT_YET, READ, WRITTEN };

static enum mention mention(const struct jinja_node *n, str name);

static enum mention mention_all(struct jinja_nodes list, str name)
{
    enum mention m = NOT_YET;
    for (size_t i = 0; i < list.n && m == NOT_YET; i++)
        m = mention(list.items[i], name);
    return m;
}

static enum mention mention_target(const struct jinja_node *n, str name)
{
    if (n->kind == JN_NAME)
        return str_eq(n->text, name) ? WRITTEN : NOT_YET;
    enum mention m = NOT_YET;
    for (size_t i = 0; i < n->list.n && m == NOT_YET; i++)
        m = mention_target(n->list.items[i], name);
    return m;
}

static enum mention mention_args(const struct jinja_args *args, str name)
{
    enum mention m = mention_all(args->positional, name);
    for (size_t i = 0; i < args->n_keywords && m == NOT_YET; i++)
        m = mention(args->keywords[i].value, name);
    if (m == NOT_YET)
        m = mention(args->star, name);
    return m == NOT_YET ? mention(args->double_star, name) : m;
}

static enum mention mention_signature(const struct jinja_function *f, str name)
{
    enum mention m = NOT_YET;
    for (size_t i = 0; i < f->n_params && m == NOT_YET; i++)
        m = mention_target(f->params[i], name);
    for (size_t i = 0; i < f->n_defaults && m == NOT_YET; i++)
        m = mention(f->defaults[i], name);
    return m;
}

static enum mention first_of(enum mention a, enum mention b)
{
    return a == NOT_YET ? b : a;
}

static enum mention mention_with(const struct jinja_node *n, str name)
{
    enum mention m = NOT_YET;
    for (size_t i = 0; i < n->list.n && m == NOT_YET; i += 2)
        m = mention_target(n->list.items[i], name);
    for (size_t i = 1; i < n->list.n && m == NOT_YET; i += 2)
        m = mention(n->list.items[i], name);
    return first_of(m, mention_all(n->body, name));
}

/* What comes first, in the order of Jinja's tree. */
static enum mention mention(const struct jinja_node *n, str name)
{
    if (n == NULL)
        return NOT_YET;
    enum mention m = NOT_YET;
    switch (n->kind) {
    case JN_NAME:
        return str_eq(n->text, name) ? READ : NOT_YET;
    case JN_SET:
        return first_of(mention_target(n->a, name), mention(n->b, name));
    case JN_SET_BLOCK:
        m = first_of(mention_target(n->a, name), mention(n->b, name));
        return first_of(m, mention_all(n->body, name));
    case JN_FOR:
        m = first_of(mention_target(n->a, name), mention(n->b, name));
        m = first_of(m, mention_all(n->body, name));
        m = first_of(m, mention_all(n->orelse, name));
        return first_of(m, mention(n->c, name));
    case JN_IF:
        m = first_of(mention(n->a, name), mention_all(n->body, name));
        return first_of(first_of(m, mention_all(n->list, name)), mention_all(n->orelse, name));
    case JN_MACRO:
        return first_of(mention_signature(n->function, name), mention_all(n->body, name));
    case JN_CALL_BLOCK:
        m = first_of(mention(n->a, name), mention_signature(n->function, name));
        return first_of(m, mention_all(n->body, name));
    case JN_FILTER_BLOCK:
        return first_of(mention_all(n->body, name), mention(n->b, name));
    case JN_WITH:
        return mention_with(n, name);
    default:
        m = first_of(mention(n->a, name), mention(n->b, name));
        m = first_of(first_of(m, mention(n->c, name)), mention_all(n->list, name));
        m = first_of(m, mention_args(&n->args, name));
        return first_of(m, mention_all(n->body, name));
    }
}

/* --- second walk: places into the tree ------------------------------------------------------- */

static ft_status bind(struct resolver *rs, struct place p, struct jinja_node *n);

static ft_status bind_all(struct resolver *rs, struct place p, struct jinja_nodes list)
{
    for (size_t i = 0; i < list.n; i++)
        FT_TRY(bind(rs, p, list.items[i]));
    return FT_OK;
}

static ft_status bind_name(struct resolver *rs, const struct symbols *s, struct jinja_node *n)
{
    const struct symbols *owner;
    const struct symbol *sym = find(s, n->text, &owner);
    if (sym == NULL)
        return fail(rs, n, "this name is unknown here (Jinja cannot compile it either)");
    n->ref = reach(s, owner, sym->slot);
    return FT_OK;
}

static ft_status bind_target(struct resolver *rs, const struct symbols *s, struct jinja_node *n)
{
    if (n->kind != JN_TUPLE)
        return bind_name(rs, s, n);
    for (size_t i = 0; i < n->list.n; i++)
        FT_TRY(bind_target(rs, s, n->list.items[i]));
    return FT_OK;
}

static ft_status bind_args(struct resolver *rs, struct place p, const struct jinja_args *args)
{
    FT_TRY(bind_all(rs, p, args->positional));
    for (size_t i = 0; i < args->n_keywords; i++)
        FT_TRY(bind(rs, p, args->keywords[i].value));
    FT_TRY(bind(rs, p, args->star));
    return bind(rs, p, args->double_star);
}

static ft_status bind_builtin(struct resolver *rs, struct place p, struct jinja_node *n)
{
    char text[160];
    if (n->builtin < 0 && !p.soft) {
        snprintf(text, sizeof text, "the %s '%.*s' is not known or not supported",
                 n->kind == JN_FILTER ? "filter" : "test", (int)FT_MIN(n->text.len, (size_t)80),
                 n->text.ptr);
        return fail(rs, n, text);
    }
    FT_TRY(bind(rs, p, n->a));
    return bind_args(rs, p, &n->args);
}

/* Keeps what happens when a scope is entered. */
static ft_status save_frame(struct resolver *rs, struct jinja_frame *out, const struct symbols *s)
{
    out->loads = arena_alloc(&rs->t->arena, s->n, sizeof *out->loads);
    out->n = s->n;
    if (out->loads == NULL)
        return no_memory(rs);
    for (size_t i = 0; i < s->n; i++)
        out->loads[i] = (struct jinja_load){s->items[i].action, s->items[i].slot, s->items[i].from,
                                            s->items[i].name};
    return FT_OK;
}

static struct symbols inner(struct symbols *up, struct scope_function *f)
{
    return (struct symbols){.up = up, .function = f, .level = up->level + 1};
}

static struct scope_function nested(struct scope_function *up)
{
    return (struct scope_function){.up = up, .depth = up->depth + 1};
}

/* A scope inside the function of p: set blocks, filter blocks. `own`: what is bound in it, too. */
static ft_status bind_scope(struct resolver *rs, struct place p, struct jinja_node *n,
                            struct jinja_node *own)
{
    struct symbols s = inner(p.symbols, p.symbols->function);
    struct place inside = {&s, false, p.in_loop};
    ft_status st = visit_all(rs, &s, n->body);
    if (st == FT_OK && n->kind == JN_FILTER_BLOCK)
        st = visit(rs, &s, own);
    if (st == FT_OK)
        st = bind_all(rs, inside, n->body);
    if (st == FT_OK)
        st = bind(rs, inside, own);
    if (st == FT_OK)
        st = save_frame(rs, &n->frame, &s);
    free_symbols(&s);
    return st;
}

static ft_status bind_with(struct resolver *rs, struct place p, struct jinja_node *n)
{
    struct symbols s = inner(p.symbols, p.symbols->function);
    ft_status st = FT_OK;
    for (size_t i = 0; i < n->list.n && st == FT_OK; i += 2)
        st = visit_target(rs, &s, n->list.items[i], true);
    if (st == FT_OK)
        st = visit_all(rs, &s, n->body);
    for (size_t i = 0; i < n->list.n && st == FT_OK; i += 2) {
        st = bind_target(rs, &s, n->list.items[i]);
        if (st == FT_OK)
            st = bind(rs, p, n->list.items[i + 1]);
    }
    if (st == FT_OK)
        st = bind_all(rs, (struct place){&s, false, p.in_loop}, n->body);
    if (st == FT_OK)
        st = save_frame(rs, &n->frame, &s);
    free_symbols(&s);
    return st;
}

/* --- functions ------------------------------------------------------------------------------- */

static ft_status clone_target(struct resolver *rs, struct jinja_node **out,
                              const struct jinja_node *n)
{
    struct jinja_node *copy = arena_alloc(&rs->t->arena, 1, sizeof *copy);
    if (copy == NULL)
        return no_memory(rs);
    *copy = *n;
    *out = copy;
    if (n->kind != JN_TUPLE || n->list.n == 0)
        return FT_OK;
    copy->list.items = arena_alloc(&rs->t->arena, n->list.n, sizeof(struct jinja_node *));
    if (copy->list.items == NULL)
        return no_memory(rs);
    for (size_t i = 0; i < n->list.n; i++)
        FT_TRY(clone_target(rs, &copy->list.items[i], n->list.items[i]));
    return FT_OK;
}

static ft_status new_function(struct resolver *rs, struct jinja_function **out)
{
    *out = arena_alloc(&rs->t->arena, 1, sizeof **out);
    return *out == NULL ? no_memory(rs) : FT_OK;
}

/* The condition of a loop is a generator of its own, with its own loop variables. */
static ft_status bind_condition(struct resolver *rs, struct place p, struct jinja_node *n)
{
    struct scope_function f = nested(p.symbols->function);
    struct symbols s = inner(p.symbols, &f);
    struct jinja_node **target;
    FT_TRY(new_function(rs, &n->condition));
    target = arena_alloc(&rs->t->arena, 1, sizeof *target);
    if (target == NULL)
        return no_memory(rs);
    n->condition->params = target;
    n->condition->n_params = 1;
    FT_TRY(clone_target(rs, target, n->a));
    ft_status st = visit_target(rs, &s, *target, true);
    if (st == FT_OK)
        st = visit(rs, &s, n->c);
    if (st == FT_OK)
        st = bind_target(rs, &s, *target);
    if (st == FT_OK)
        st = bind(rs, (struct place){&s, false, false}, n->c);
    if (st == FT_OK)
        st = save_frame(rs, &n->condition->frame, &s);
    n->condition->n_slots = f.n;
    free_symbols(&s);
    mem_free(f.locals);
    return st;
}

static bool stores_loop(struct jinja_nodes list);

/* Whether `loop` is assigned to anywhere inside. */
static bool assigns_loop(const struct jinja_node *n)
{
    str loop = STR("loop");
    bool target = n->kind == JN_SET || n->kind == JN_SET_BLOCK || n->kind == JN_FOR;
    if (target && mention_target(n->a, loop) == WRITTEN)
        return true;
    return stores_loop(n->list) || stores_loop(n->body) || stores_loop(n->orelse);
}

static bool stores_loop(struct jinja_nodes list)
{
    for (size_t i = 0; i < list.n; i++)
        if (assigns_loop(list.items[i]))
            return true;
    return false;
}

static ft_status bind_loop_body(struct resolver *rs, struct place p, struct symbols *s,
                                struct jinja_node *n)
{
    n->extended = n->recursive || mention_all(n->body, STR("loop")) == READ;
    if (n->extended)
        FT_TRY(declare_parameter(rs, s, STR("loop")));
    FT_TRY(visit_target(rs, s, n->a, true));
    FT_TRY(visit_all(rs, s, n->body));
    if (n->extended)
        n->loop_slot = find_here(s, STR("loop"))->slot;
    FT_TRY(bind_target(rs, s, n->a));
    FT_TRY(bind_all(rs, p, n->body));
    return save_frame(rs, &n->frame, s);
}

static ft_status bind_loop(struct resolver *rs, struct place p, struct jinja_node *n,
                           struct scope_function *f, bool in_loop_outside)
{
    struct symbols s = inner(p.symbols, f), otherwise = inner(p.symbols, f);
    ft_status st = bind_loop_body(rs, (struct place){&s, false, true}, &s, n);
    if (st == FT_OK)
        st = visit_all(rs, &otherwise, n->orelse);
    if (st == FT_OK)
        st = bind_all(rs, (struct place){&otherwise, false, in_loop_outside}, n->orelse);
    if (st == FT_OK)
        st = save_frame(rs, &n->else_frame, &otherwise);
    free_symbols(&s);
    free_symbols(&otherwise);
    return st;
}

static ft_status bind_for(struct resolver *rs, struct place p, struct jinja_node *n)
{
    if (assigns_loop(n))
        return fail(rs, n, "'loop' cannot be assigned to inside a loop");
    FT_TRY(bind(rs, p, n->b));
    if (n->c != NULL)
        FT_TRY(bind_condition(rs, p, n));
    if (!n->recursive)
        return bind_loop(rs, p, n, p.symbols->function, p.in_loop);
    struct scope_function f = nested(p.symbols->function);
    FT_TRY(new_function(rs, &n->function));
    ft_status st = bind_loop(rs, p, n, &f, false);
    n->function->n_slots = f.n;
    mem_free(f.locals);
    return st;
}

static ft_status check_params(struct resolver *rs, struct jinja_node *n)
{
    const struct jinja_function *f = n->function;
    for (size_t i = 0; i < f->n_params; i++)
        for (size_t k = 0; k < i; k++)
            if (str_eq(f->params[i]->text, f->params[k]->text))
                return fail(rs, f->params[i], "the parameter is there twice");
    return FT_OK;
}

/* caller, kwargs and varargs are parameters where the body reads them. */
static ft_status special_parameter(struct resolver *rs, struct symbols *s, struct jinja_node *n,
                                   str name, bool *takes, uint16_t *slot)
{
    const struct jinja_function *f = n->function;
    if (mention_all(n->body, name) != READ)
        return FT_OK;
    for (size_t i = 0; i < f->n_params; i++) {
        if (!str_eq(f->params[i]->text, name))
            continue;
        if (!str_is(name, "caller"))
            return FT_OK;
        *takes = true;
        return i + f->n_defaults >= f->n_params
                   ? FT_OK
                   : fail(rs, f->params[i], "the parameter 'caller' needs a default");
    }
    *takes = true;
    FT_TRY(declare_parameter(rs, s, name));
    *slot = find_here(s, name)->slot;
    return FT_OK;
}

static ft_status visit_function(struct resolver *rs, struct symbols *s, struct jinja_node *n)
{
    const struct jinja_function *f = n->function;
    for (size_t i = 0; i < f->n_params; i++)
        FT_TRY(declare_parameter(rs, s, f->params[i]->text));
    for (size_t i = 0; i < f->n_defaults; i++)
        FT_TRY(visit(rs, s, f->defaults[i]));
    return visit_all(rs, s, n->body);
}

static ft_status bind_function_in(struct resolver *rs, struct symbols *s, struct jinja_node *n)
{
    struct jinja_function *f = n->function;
    struct place inside = {s, false, false};
    FT_TRY(check_params(rs, n));
    FT_TRY(visit_function(rs, s, n));
    FT_TRY(special_parameter(rs, s, n, STR("caller"), &f->takes_caller, &f->caller_slot));
    FT_TRY(special_parameter(rs, s, n, STR("kwargs"), &f->takes_kwargs, &f->kwargs_slot));
    FT_TRY(special_parameter(rs, s, n, STR("varargs"), &f->takes_varargs, &f->varargs_slot));
    FT_TRY(visit_function(rs, s, n));
    for (size_t i = 0; i < f->n_params; i++)
        FT_TRY(bind_name(rs, s, f->params[i]));
    for (size_t i = 0; i < f->n_defaults; i++)
        FT_TRY(bind(rs, inside, f->defaults[i]));
    FT_TRY(bind_all(rs, inside, n->body));
    return save_frame(rs, &f->frame, s);
}

static ft_status bind_function(struct resolver *rs, struct place p, struct jinja_node *n)
{
    struct scope_function f = nested(p.symbols->function);
    struct symbols s = inner(p.symbols, &f);
    ft_status st = bind_function_in(rs, &s, n);
    n->function->n_slots = f.n;
    free_symbols(&s);
    mem_free(f.locals);
    return st;
}

/* --- every node ------------------------------------------------------------------------------ */

/* Filters that Jinja never evaluates when it compiles. */
static bool needs_context(const struct jinja_node *n)
{
    static const char *const names[] = {"map", "select", "reject", "selectattr", "rejectattr"};
    for (size_t i = 0; n->kind == JN_FILTER && i < ARRAY_LEN(names); i++)
        if (str_is(n->text, names[i]))
            return true;
    return false;
}

static bool is_constant(const struct jinja_node *n)
{
    if (n == NULL)
        return true;
    bool all = n->kind != JN_NAME && n->kind != JN_CALL && !needs_context(n);
    all = all && is_constant(n->a) && is_constant(n->b) && is_constant(n->c);
    for (size_t i = 0; i < n->list.n && all; i++)
        all = is_constant(n->list.items[i]);
    for (size_t i = 0; i < n->args.positional.n && all; i++)
        all = is_constant(n->args.positional.items[i]);
    for (size_t i = 0; i < n->args.n_keywords && all; i++)
        all = is_constant(n->args.keywords[i].value);
    return all && is_constant(n->args.star) && is_constant(n->args.double_star);
}

/* Jinja evaluates constants when it compiles, by a function that does not mind what it cannot
 * slice. */
static void mark_slices(struct jinja_node *n)
{
    if (n == NULL)
        return;
    n->lenient = n->kind == JN_SLICE;
    mark_slices(n->a);
    mark_slices(n->b);
    mark_slices(n->c);
    for (size_t i = 0; i < n->list.n; i++)
        mark_slices(n->list.items[i]);
    for (size_t i = 0; i < n->args.positional.n; i++)
        mark_slices(n->args.positional.items[i]);
}

/* Output may be undefined; elsewhere an undefined result keeps Jinja from replacing the expression,
 * so only those that give another one count. */
static void mark_constant(struct jinja_node *n, bool output)
{
    bool folds = n->kind == JN_BINARY || n->kind == JN_CONCAT || n->kind == JN_COMPARE ||
                 n->kind == JN_FILTER || n->kind == JN_TEST || n->kind == JN_NOT;
    if ((output || folds) && is_constant(n))
        mark_slices(n);
}

static ft_status bind_output(struct resolver *rs, struct place p, struct jinja_node *n)
{
    for (size_t i = 0; i < n->list.n; i++)
        mark_constant(n->list.items[i], true);
    return bind_all(rs, p, n->list);
}

static ft_status bind_condition_expr(struct resolver *rs, struct place p, struct jinja_node *n)
{
    p.soft = true;
    FT_TRY(bind(rs, p, n->a));
    FT_TRY(bind(rs, p, n->b));
    return bind(rs, p, n->c);
}

static ft_status bind_if(struct resolver *rs, struct place p, struct jinja_node *n)
{
    p.soft = true;
    FT_TRY(bind(rs, p, n->a));
    FT_TRY(bind_all(rs, p, n->body));
    FT_TRY(bind_all(rs, p, n->list));
    return bind_all(rs, p, n->orelse);
}

static ft_status bind(struct resolver *rs, struct place p, struct jinja_node *n)
{
    if (n == NULL)
        return FT_OK;
    mark_constant(n, false);
    switch (n->kind) {
    case JN_NAME:
        return bind_name(rs, p.symbols, n);
    case JN_OUTPUT:
        return bind_output(rs, p, n);
    case JN_FILTER:
    case JN_TEST:
        return bind_builtin(rs, p, n);
    case JN_COND:
        return bind_condition_expr(rs, p, n);
    case JN_IF:
        return bind_if(rs, p, n);
    case JN_FOR:
        return bind_for(rs, p, n);
    case JN_SET:
        FT_TRY(bind(rs, p, n->b));
        return bind_target(rs, p.symbols, n->a);
    case JN_SET_BLOCK:
        FT_TRY(bind_target(rs, p.symbols, n->a));
        return bind_scope(rs, p, n, n->b);
    case JN_FILTER_BLOCK:
        return bind_scope(rs, p, n, n->b);
    case JN_WITH:
        return bind_with(rs, p, n);
    case JN_MACRO:
        FT_TRY(bind_name(rs, p.symbols, n));
        return bind_function(rs, p, n);
    case JN_CALL_BLOCK:
        FT_TRY(bind(rs, p, n->a));
        return bind_function(rs, p, n);
    case JN_GENERATION:
        return bind_function(rs, p, n);
    case JN_BREAK:
    case JN_CONTINUE:
        return p.in_loop ? FT_OK : fail(rs, n, "break and continue belong in a loop");
    default:
        FT_TRY(bind(rs, p, n->a));
        FT_TRY(bind(rs, p, n->b));
        FT_TRY(bind(rs, p, n->c));
        FT_TRY(bind_all(rs, p, n->list));
        return bind_args(rs, p, &n->args);
    }
}

ft_status jinja_resolve(struct jinja *t, ft_error *err)
{
    struct resolver rs = {.t = t, .err = err};
    struct scope_function f = {0};
    struct symbols s = {.function = &f};
    ft_status st = visit_all(&rs, &s, t->body);
    if (st == FT_OK)
        st = bind_all(&rs, (struct place){&s, false, false}, t->body);
    if (st == FT_OK)
        st = save_frame(&rs, &t->root.frame, &s);
    t->root.n_slots = f.n;
    free_symbols(&s);
    mem_free(f.locals);
    return st;
}

bool jinja_mentions(const struct jinja *t, str name)
{
    return mention_all(t->body, name) == READ;
}
