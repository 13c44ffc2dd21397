/* SPDX-License-Identifier: Apache-2.0
 * Running the steps of a normalizer one after the other, and the steps that need no tables. */
#include "formats/tok/normalize.h"

#include <string.h>

#include "common/mem.h"
#include "formats/tok/charsmap.h"
#include "formats/tok/normalize_priv.h"
#include "formats/tok/regex.h"
#include "formats/tok/unicode.h"

/* --- output -----------------------------------------------------------------------------------
 */

static ft_status reserve(struct normalize_text *t, size_t more, ft_error *err)
{
    if (t->cap - t->n >= more && (!t->want_origin || t->origin != NULL))
        return FT_OK;
    size_t cap = FT_MAX(t->n + more, FT_MAX(t->cap + t->cap / 2, (size_t)1024));
    if (cap > UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a text that grows beyond 4 GiB when it is normalized");
    uint8_t *bytes = mem_realloc(t->bytes, cap, 1);
    if (bytes == NULL)
        return ft_fail_memory(err, cap, "normalized text");
    t->bytes = bytes;
    if (t->want_origin || t->origin != NULL) {
        uint32_t *origin = mem_realloc(t->origin, cap, sizeof *origin);
        if (origin == NULL)
            return ft_fail_memory(err, cap * sizeof *origin, "normalized text");
        t->origin = origin;
    }
    t->cap = cap;
    return FT_OK;
}

static uint32_t origin_of(const struct normalize_pass *p, size_t at)
{
    return p->origin == NULL ? (uint32_t)at : p->origin[at];
}

ft_status normalize_put(struct normalize_pass *p, const void *bytes, size_t n, size_t at)
{
    struct normalize_text *out = p->out;
    FT_TRY(reserve(out, n, p->err));
    memcpy(out->bytes + out->n, bytes, n);
    if (out->want_origin)
        for (size_t i = 0; i < n; i++)
            out->origin[out->n + i] = origin_of(p, at);
    out->n += n;
    return FT_OK;
}

ft_status normalize_copy(struct normalize_pass *p, size_t from, size_t to)
{
    struct normalize_text *out = p->out;
    if (from == to)
        return FT_OK;
    FT_TRY(reserve(out, to - from, p->err));
    memcpy(out->bytes + out->n, p->in.ptr + from, to - from);
    if (out->want_origin)
        for (size_t i = from; i < to; i++)
            out->origin[out->n + i - from] = origin_of(p, i);
    out->n += to - from;
    return FT_OK;
}

/* --- steps ------------------------------------------------------------------------------------
 */

static ft_status prepend(bool *changed, struct normalize_pass *p)
{
    *changed = true;
    FT_TRY(normalize_put(p, p->step->content.ptr, p->step->content.len, 0));
    return normalize_copy(p, 0, p->in.len);
}

static ft_status replace(bool *changed, struct normalize_pass *p)
{
    str pattern = p->step->pattern, content = p->step->content;
    size_t from = 0, at;
    while ((at = from + str_find(str_sub(p->in, from, p->in.len), pattern)) < p->in.len) {
        FT_TRY(normalize_copy(p, from, at));
        FT_TRY(normalize_put(p, content.ptr, content.len, at));
        from = at + pattern.len;
        *changed = true;
    }
    return *changed ? normalize_copy(p, from, p->in.len) : FT_OK;
}

static bool is_space_at(str s, size_t at, size_t *length)
{
    uint32_t c = unicode_decode((const uint8_t *)s.ptr, at, s.len, length);
    return (unicode_classes(c) & UNICODE_SPACE) != 0;
}

static ft_status strip(bool *changed, struct normalize_pass *p)
{
    size_t from = 0, to = p->in.len, length;
    if (p->step->flags & NORMALIZE_LEFT)
        while (from < to && is_space_at(p->in, from, &length))
            from += length;
    while ((p->step->flags & NORMALIZE_RIGHT) && to > from) {
        size_t last = to - 1;
        while (last > from && ((uint8_t)p->in.ptr[last] & 0xC0) == 0x80)
            last--;
        if (!is_space_at(p->in, last, &length))
            break;
        to = last;
    }
    *changed = from > 0 || to < p->in.len;
    return *changed ? normalize_copy(p, from, to) : FT_OK;
}

/* --- Precompiled ------------------------------------------------------------------------------
 */

struct precompiled {
    struct arena arena;
    struct charsmap rules;
};

static void destroy_precompiled(struct precompiled *c)
{
    if (c == NULL)
        return;
    arena_destroy(&c->arena);
    mem_free(c);
}

static ft_status compile_precompiled(void **out, const struct normalize_step *step, ft_error *err)
{
    struct precompiled *c;
    FT_TRY(mem_new(&c, 1, sizeof *c, "a normalizer", err));
    ft_status st = charsmap_init(&c->rules, &c->arena, step->content, err);
    if (st != FT_OK) {
        destroy_precompiled(c);
        return ft_wrap(err, "the normalizer Precompiled");
    }
    *out = c;
    return FT_OK;
}

static ft_status precompiled(bool *changed, struct normalize_pass *p)
{
    const struct precompiled *c = p->compiled;
    size_t at = 0, single = 0;
    while (at < p->in.len) {
        str becomes;
        size_t n = charsmap_next(&becomes, &single, &c->rules, str_sub(p->in, at, p->in.len));
        *changed |= becomes.ptr != p->in.ptr + at;
        FT_TRY(normalize_put(p, becomes.ptr, becomes.len, at));
        at += n;
    }
    return FT_OK;
}

/* --- Replace with a regular expression --------------------------------------------------------
 */

static ft_status replace_matches(bool *changed, struct normalize_pass *p)
{
    struct regex_search search = {.regex = p->compiled, .text = p->in};
    size_t done = 0, from, to;
    bool found;
    for (;;) {
        FT_TRY(regex_next(&from, &to, &found, &search, p->err));
        if (!found)
            break;
        FT_TRY(normalize_copy(p, done, from));
        /* An empty match at the end stands behind the last byte. */
        FT_TRY(normalize_put(p, p->step->content.ptr, p->step->content.len,
                             FT_MIN(from, p->in.len - 1)));
        done = to;
        *changed = true;
    }
    return *changed ? normalize_copy(p, done, p->in.len) : FT_OK;
}

/* --- the list of steps ------------------------------------------------------------------------
 */

static ft_status (*const kinds[NORMALIZE_KINDS])(bool *changed, struct normalize_pass *p) = {
    [NORMALIZE_PREPEND] = prepend,
    [NORMALIZE_REPLACE] = replace,
    [NORMALIZE_REGEX] = replace_matches,
    [NORMALIZE_STRIP] = strip,
    [NORMALIZE_NFC] = normalize_form,
    [NORMALIZE_NFD] = normalize_form,
    [NORMALIZE_NFKC] = normalize_form,
    [NORMALIZE_NFKD] = normalize_form,
    [NORMALIZE_LOWERCASE] = normalize_lowercase,
    [NORMALIZE_STRIP_ACCENTS] = normalize_strip_accents,
    [NORMALIZE_PRECOMPILED] = precompiled,
};

static ft_status compile(void **out, const struct normalize_step *step, ft_error *err)
{
    struct regex *regex;
    if (step->kind == NORMALIZE_PRECOMPILED)
        return compile_precompiled(out, step, err);
    if (step->kind != NORMALIZE_REGEX)
        return FT_OK;
    if (regex_create(&regex, step->pattern, REGEX_ONIGURUMA, err) != FT_OK)
        return ft_wrap(err, "the normalizer Replace");
    *out = regex;
    return FT_OK;
}

ft_status normalizer_init(struct normalizer *out, const struct normalize_step *steps, size_t n,
                          ft_error *err)
{
    *out = (struct normalizer){.steps = steps, .n = n};
    for (size_t i = 0; i < n; i++) {
        if (steps[i].kind == NORMALIZE_REPLACE && steps[i].pattern.len == 0)
            return ft_fail(err, FT_EFORMAT, "the normalizer Replace needs a pattern");
    }
    FT_TRY(mem_new(&out->compiled, n, sizeof *out->compiled, "a normalizer", err));
    for (size_t i = 0; i < n; i++)
        FT_TRY(compile(&out->compiled[i], &steps[i], err));
    return FT_OK;
}

void normalizer_destroy(struct normalizer *n)
{
    for (size_t i = 0; i < n->n && n->compiled != NULL; i++) {
        if (n->steps[i].kind == NORMALIZE_PRECOMPILED)
            destroy_precompiled(n->compiled[i]);
        else if (n->steps[i].kind == NORMALIZE_REGEX)
            regex_destroy(n->compiled[i]);
    }
    mem_free(n->compiled);
    *n = (struct normalizer){0};
}

void normalize_work_free(struct normalize_work *w)
{
    for (size_t i = 0; i < ARRAY_LEN(w->texts); i++) {
        mem_free(w->texts[i].bytes);
        mem_free(w->texts[i].origin);
    }
    mem_free(w->characters);
    *w = (struct normalize_work){0};
}

ft_status normalize(const struct normalize_text **out, struct normalize_work *w,
                    const struct normalizer *n, str text, bool want_origin, ft_error *err)
{
    const struct normalize_text *now = NULL;
    for (size_t i = 0; i < n->n; i++) {
        struct normalize_pass p = {
            .step = &n->steps[i], .compiled = n->compiled[i], .in = text, .work = w, .err = err};
        bool changed = false;
        if (now != NULL) {
            p.in = (str){(const char *)now->bytes, now->n};
            p.origin = want_origin ? now->origin : NULL;
        }
        if (p.in.len == 0)
            break;
        p.out = &w->texts[now == &w->texts[0]];
        p.out->n = 0;
        p.out->want_origin = want_origin;
        FT_TRY(kinds[p.step->kind](&changed, &p));
        if (changed)
            now = p.out;
    }
    *out = now;
    return FT_OK;
}
