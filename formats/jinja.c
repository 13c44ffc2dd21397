/* SPDX-License-Identifier: Apache-2.0
 * Compiling and rendering templates; runs, their memory and their limits; values from outside. */
#include "formats/jinja.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/jinja_internal.h"

/* --- compiling ------------------------------------------------------------------------------- */

static ft_status compile(struct jinja *t, struct jinja_tokens *tokens, str source, ft_error *err)
{
    size_t bad = str_utf8_invalid_at(source);
    if (source.len > JINJA_MAX_SOURCE)
        return ft_fail(err, FT_ELIMIT, "%s: a template of more than 1 MiB", t->name);
    if (bad != source.len)
        return jinja_fail_at(err, FT_EFORMAT, t->name, source, (uint32_t)bad, "invalid UTF-8");
    FT_TRY(jinja_normalize(&t->source, &t->arena, source, err));
    FT_TRY(jinja_lex(tokens, &t->arena, t->name, t->source, err));
    FT_TRY(jinja_parse(t, tokens->items, err));
    return jinja_resolve(t, err);
}

ft_status jinja_compile(struct jinja **out, const char *name, str source, ft_error *err)
{
    struct jinja_tokens tokens = {0};
    struct jinja *t;
    *out = NULL;
    FT_TRY(mem_new(&t, 1, sizeof *t, "a template", err));
    t->name = arena_cstr(&t->arena, str_from(name));
    ft_status st = t->name == NULL ? ft_fail_memory(err, strlen(name), "a template")
                                   : compile(t, &tokens, source, err);
    jinja_tokens_free(&tokens);
    if (st == FT_OK)
        *out = t;
    else
        jinja_destroy(t);
    return st;
}

void jinja_destroy(struct jinja *t)
{
    if (t == NULL)
        return;
    arena_destroy(&t->arena);
    mem_free(t);
}

bool jinja_has_generation(const struct jinja *t)
{
    return t->has_generation;
}

/* --- errors, memory, limits ------------------------------------------------------------------ */

ft_status jinja_raise(struct jinja_run *r, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    uint32_t at = r->at == NULL ? 0 : r->at->at;
    return jinja_fail_at(r->err, FT_EFORMAT, r->t->name, r->t->source, at, "%s", text);
}

ft_status jinja_unsupported(struct jinja_run *r, const char *what)
{
    return jinja_raise(r, "not supported: %s", what);
}

static ft_status at_limit(struct jinja_run *r, const char *what)
{
    uint32_t at = r->at == NULL ? 0 : r->at->at;
    return jinja_fail_at(r->err, FT_ELIMIT, r->t->name, r->t->source, at,
                         "the template needs too %s (endless loop?)", what);
}

ft_status jinja_new(void *out, struct jinja_run *r, size_t count, size_t size)
{
    size_t bytes;
    void *p = NULL;
    if (!size_mul(count, size, &bytes) || bytes > r->limits.bytes ||
        r->arena.used > r->limits.bytes - bytes)
        return at_limit(r, "much memory");
    p = arena_alloc(&r->arena, count, size);
    if (p == NULL)
        return ft_fail_memory(r->err, bytes, "a rendered template");
    memcpy(out, &p, sizeof p);
    return FT_OK;
}

ft_status jinja_steps(struct jinja_run *r, uint64_t n)
{
    r->steps += n;
    return r->steps <= r->limits.steps ? FT_OK : at_limit(r, "many steps");
}

ft_status jinja_enter_value(struct jinja_run *r)
{
    return ++r->value_depth <= JINJA_MAX_VALUE_DEPTH
               ? FT_OK
               : jinja_raise(r, "a value nested deeper than %d", JINJA_MAX_VALUE_DEPTH);
}

uint32_t jinja_mix(uint32_t a, uint32_t b)
{
    uint32_t flag = (a | b) & JINJA_GENERATION;
    a &= ~(uint32_t)JINJA_GENERATION;
    b &= ~(uint32_t)JINJA_GENERATION;
    uint32_t mixed = a == b || b == JINJA_TEMPLATE ? a : a == JINJA_TEMPLATE ? b : JINJA_DATA;
    return mixed | flag;
}

/* --- runs ------------------------------------------------------------------------------------ */

/* What messages name while values are made before the rendering. */
static const struct jinja no_template = {.name = "template values"};

ft_status jinja_run_create(struct jinja_run **out, struct jinja_limits limits, ft_error *err)
{
    FT_TRY(mem_new(out, 1, sizeof **out, "a template's values", err));
    (*out)->limits = limits;
    jinja_run_reset(*out);
    return FT_OK;
}

void jinja_run_destroy(struct jinja_run *r)
{
    if (r == NULL)
        return;
    arena_destroy(&r->arena);
    mem_free(r);
}

void jinja_run_reset(struct jinja_run *r)
{
    arena_destroy(&r->arena);
    *r = (struct jinja_run){
        .limits = r->limits, .now = r->now, .has_clock = r->has_clock, .t = &no_template};
}

void jinja_run_clock(struct jinja_run *r, const struct tm *now)
{
    r->now = *now;
    r->has_clock = true;
}

/* --- values from outside --------------------------------------------------------------------- */

/* Runs `call` with an error record of its own, whose status is kept for jinja_render. */
#define LATCH(r, value, call)                                                                      \
    do {                                                                                           \
        ft_error latch_err_;                                                                       \
        (r)->err = &latch_err_;                                                                    \
        (r)->steps = 0;                                                                            \
        ft_status latch_st_ = (r)->latched == FT_OK ? (call) : (r)->latched;                       \
        (r)->err = NULL;                                                                           \
        if (latch_st_ != FT_OK) {                                                                  \
            (r)->latched = latch_st_;                                                              \
            (value) = jinja_none();                                                                \
        }                                                                                          \
    } while (0)

struct jinja_value jinja_text(struct jinja_run *r, str s, uint32_t origin)
{
    struct jinja_value v;
    LATCH(r, v, jinja_new_text(&v, r, s, origin));
    return v;
}

struct jinja_value jinja_list(struct jinja_run *r)
{
    struct jinja_value v;
    LATCH(r, v, jinja_new_seq(&v, r, JV_LIST, 0));
    return v;
}

void jinja_list_push(struct jinja_run *r, struct jinja_value list, struct jinja_value item)
{
    if (r->latched == FT_OK)
        LATCH(r, item, jinja_push(r, list.as.seq, item));
}

static ft_status list_head(struct jinja_value *out, struct jinja_run *r, struct jinja_value list,
                           size_t n)
{
    *out = list;
    FT_TRY(jinja_new(&out->as.seq, r, 1, sizeof *out->as.seq));
    *out->as.seq = (struct jinja_seq){list.as.seq->items, n, n};
    return FT_OK;
}

struct jinja_value jinja_list_head(struct jinja_run *r, struct jinja_value list, size_t n)
{
    struct jinja_value v = list;
    if (r->latched == FT_OK)
        LATCH(r, v, list_head(&v, r, list, n));
    return v;
}

struct jinja_value jinja_dict(struct jinja_run *r)
{
    struct jinja_value v;
    LATCH(r, v, jinja_new_dict(&v, r));
    return v;
}

void jinja_dict_put(struct jinja_run *r, struct jinja_value dict, str key, struct jinja_value v)
{
    struct jinja_value k = jinja_text(r, key, JINJA_DATA);
    if (r->latched == FT_OK)
        LATCH(r, k, jinja_dict_set(r, dict.as.dict, k, v));
}

static ft_status from_json(struct jinja_value *out, struct jinja_run *r, const json *v,
                           uint32_t origin);

static ft_status list_from_json(struct jinja_value *out, struct jinja_run *r, const json *v,
                                uint32_t origin)
{
    struct jinja_value item;
    FT_TRY(jinja_new_seq(out, r, JV_LIST, json_count(v)));
    for (const json *m = json_first(v); m != NULL; m = json_next(m)) {
        FT_TRY(from_json(&item, r, m, origin));
        FT_TRY(jinja_push(r, out->as.seq, item));
    }
    return FT_OK;
}

/* json_key writes U+0000 as C0 80. */
static ft_status key_from_json(struct jinja_value *out, struct jinja_run *r, str key,
                               uint32_t origin)
{
    struct jinja_builder b = {0};
    size_t at;
    if (str_utf8_invalid_at(key) == key.len)
        return jinja_new_text(out, r, key, origin);
    for (; (at = jinja_find(key, STR("\xC0\x80"), 0)) != SIZE_MAX;
         key = str_sub(key, at + 2, key.len)) {
        FT_TRY(jinja_put(r, &b, str_sub(key, 0, at), origin));
        FT_TRY(jinja_put(r, &b, (str){"\0", 1}, origin));
    }
    FT_TRY(jinja_put(r, &b, key, origin));
    return jinja_built(out, r, &b);
}

static ft_status dict_from_json(struct jinja_value *out, struct jinja_run *r, const json *v,
                                uint32_t origin)
{
    struct jinja_value key, value;
    FT_TRY(jinja_new_dict(out, r));
    for (const json *m = json_first(v); m != NULL; m = json_next(m)) {
        FT_TRY(key_from_json(&key, r, json_key(m), origin));
        FT_TRY(from_json(&value, r, m, origin));
        FT_TRY(jinja_dict_set(r, out->as.dict, key, value));
    }
    return FT_OK;
}

/* An integer unless it was written with a point or an exponent. */
static ft_status number_from_json(struct jinja_value *out, struct jinja_run *r, const json *v)
{
    double f = 0;
    int64_t i = 0;
    str text = {NULL, 0};
    bool number = json_f64(v, &f), odd = json_number_text(v, &text);
    FT_ASSERT(number);
    bool is_float =
        odd && (memchr(text.ptr, '.', text.len) != NULL ||
                memchr(text.ptr, 'e', text.len) != NULL || memchr(text.ptr, 'E', text.len) != NULL);
    if (odd && !is_float && !str_to_i64(text, &i)) {
        FT_TRY(jinja_new_text(out, r, text, JINJA_DATA));
        out->type = JV_BIG;
    } else if (is_float || (!odd && !json_i64(v, &i))) {
        *out = jinja_float(f);
    } else {
        *out = jinja_int(i);
    }
    return FT_OK;
}

/* Recursion is bounded by the JSON parser's nesting limit. */
static ft_status from_json(struct jinja_value *out, struct jinja_run *r, const json *v,
                           uint32_t origin)
{
    str s;
    bool b = false;
    ft_status st = FT_OK;
    switch (json_kind(v)) {
    case JSON_STRING:
        b = json_str(v, &s);
        FT_ASSERT(b);
        return jinja_new_text(out, r, s, origin);
    case JSON_NUMBER:
        st = number_from_json(out, r, v);
        break;
    case JSON_ARRAY:
        st = list_from_json(out, r, v, origin);
        break;
    case JSON_OBJECT:
        st = dict_from_json(out, r, v, origin);
        break;
    case JSON_BOOL:
        *out = jinja_bool(json_bool(v, &b) && b);
        break;
    default:
        *out = jinja_none();
    }
    out->origin = origin;
    return st;
}

struct jinja_value jinja_json(struct jinja_run *r, const json *v, uint32_t origin)
{
    struct jinja_value out;
    LATCH(r, out, from_json(&out, r, v, origin));
    return out;
}

/* --- rendering ------------------------------------------------------------------------------- */

ft_status jinja_render(struct jinja_output *out, const struct jinja *t, struct jinja_run *r,
                       struct jinja_value vars, ft_error *err)
{
    struct jinja_builder b = {0};
    *out = (struct jinja_output){.text = STR("")};
    r->t = t;
    r->at = t->body.n == 0 ? NULL : t->body.items[0];
    r->err = err;
    r->steps = r->depth = r->value_depth = 0;
    r->vars = vars;
    r->out = &b;
    ft_status st = r->latched == FT_OK ? jinja_exec_root(r)
                   : r->latched == FT_EMEM
                       ? ft_fail_memory(err, r->arena.used, "the values of a template")
                       : at_limit(r, "much memory for its values");
    if (st == FT_OK && b.len > 0)
        *out = (struct jinja_output){{b.data, b.len}, b.pieces, b.n_pieces};
    r->t = &no_template;
    r->err = NULL;
    r->out = NULL;
    return st;
}
