/* SPDX-License-Identifier: Apache-2.0
 * A stage gives segments of a piece, matches and what lies between them; its behaviour makes pieces
 * of them. Every stage sees each piece as a text of its own. */
#include "formats/tok/pretok_stages.h"

#include <string.h>

#include "common/mem.h"
#include "formats/tok/regex.h"
#include "formats/tok/unicode.h"

struct pretok_stages {
    const struct pretok_stage *stages;
    size_t n;
    struct regex **regexes; /* [n], NULL where the stage has none */
};

/* --- setting up ------------------------------------------------------------------------------ */

static ft_status compile(struct regex **out, const struct pretok_stage *stage, ft_error *err)
{
    if (stage->kind != PRETOK_SPLIT)
        return FT_OK;
    if (stage->dialect == PRETOK_LITERAL)
        return stage->pattern.len > 0 ? FT_OK : ft_fail(err, FT_EFORMAT, "the pattern is empty");
    return regex_create(out, stage->pattern,
                        stage->dialect == PRETOK_FANCY ? REGEX_FANCY : REGEX_ONIGURUMA, err);
}

ft_status pretok_stages_create(struct pretok_stages **out, const struct pretok_stage *stages,
                               size_t n, ft_error *err)
{
    struct pretok_stages *s;
    ft_status st;
    *out = NULL;
    FT_TRY(mem_new(&s, 1, sizeof *s, "pre-tokenizers", err));
    s->stages = stages;
    st = mem_new(&s->regexes, n, sizeof *s->regexes, "pre-tokenizers", err);
    for (; st == FT_OK && s->n < n; s->n++)
        if ((st = compile(&s->regexes[s->n], &stages[s->n], err)) != FT_OK)
            st = ft_wrap(err, "pre-tokenizer %zu", s->n);
    if (st != FT_OK) {
        pretok_stages_destroy(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void pretok_stages_destroy(struct pretok_stages *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n; i++)
        regex_destroy(s->regexes[i]);
    mem_free(s->regexes);
    mem_free(s);
}

void pretok_pieces_free(struct pretok_pieces *p)
{
    mem_free(p->items);
    mem_free(p->spare);
    *p = (struct pretok_pieces){0};
}

/* --- segments to pieces ----------------------------------------------------------------------- */

struct cutter {
    const uint8_t *text;
    classify_fn *classify;
    struct pretok_pieces *out;
    enum pretok_behavior behavior;
    bool invert;
    size_t done;      /* up to here segments were given */
    bool any;         /* the piece has given a segment */
    bool last_match;  /* what it was */
    bool pending;     /* a match waits for what comes next */
    uint32_t waiting; /* where it starts */
    ft_error *err;
};

static ft_status push(struct cutter *c, size_t from, size_t to)
{
    struct pretok_pieces *p = c->out;
    if (p->n == p->cap) {
        size_t cap = FT_MAX(p->cap * 2, (size_t)256);
        struct pretok_piece *items = mem_realloc(p->items, cap, sizeof *items);
        if (items == NULL)
            return ft_fail_memory(c->err, cap * sizeof *items, "pieces of text");
        p->items = items;
        p->cap = cap;
    }
    p->items[p->n++] = (struct pretok_piece){(uint32_t)from, (uint32_t)to};
    return FT_OK;
}

/* A match in front of something else waits for it; two matches in a row do not join. */
static ft_status merge_with_next(struct cutter *c, size_t from, size_t to, bool match)
{
    if (match) {
        if (c->pending)
            FT_TRY(push(c, c->waiting, from));
        c->pending = true;
        c->waiting = (uint32_t)from;
        return FT_OK;
    }
    if (c->pending)
        from = c->waiting;
    c->pending = false;
    return push(c, from, to);
}

static ft_status add_segment(struct cutter *c, size_t from, size_t to, bool match)
{
    bool joins = false;
    if (from == to)
        return FT_OK;
    match = match != c->invert;
    if (c->behavior == PRETOK_MERGED_WITH_NEXT)
        return merge_with_next(c, from, to, match);
    if (c->behavior == PRETOK_REMOVED && match)
        return FT_OK;
    if (c->behavior == PRETOK_CONTIGUOUS)
        joins = c->any && c->last_match == match;
    if (c->behavior == PRETOK_MERGED_WITH_PREVIOUS)
        joins = c->any && match && !c->last_match;
    c->any = true;
    c->last_match = match;
    if (!joins)
        return push(c, from, to);
    c->out->items[c->out->n - 1].to = (uint32_t)to;
    return FT_OK;
}

/* A match at [from, to), after the gap in front of it. */
static ft_status add_match(struct cutter *c, size_t from, size_t to)
{
    FT_TRY(add_segment(c, c->done, from, false));
    c->done = to;
    return add_segment(c, from, to, true);
}

/* --- the kinds of stages ---------------------------------------------------------------------- */

static ft_status cut_at_class(struct cutter *c, size_t from, size_t to, unsigned class)
{
    size_t length;
    for (size_t at = from; at < to; at += length)
        if (unicode_classes(unicode_decode(c->text, at, to, &length)) & class)
            FT_TRY(add_match(c, at, at + length));
    return FT_OK;
}

/* \w+|[^\w\s]+ */
static ft_status cut_words(struct cutter *c, size_t from, size_t to)
{
    const unsigned kinds = UNICODE_WORD | UNICODE_SPACE;
    for (size_t at = from; at < to;) {
        size_t start = at, length;
        unsigned kind = unicode_classes(unicode_decode(c->text, at, to, &length)) & kinds;
        do
            at += length;
        while (at < to &&
               (unicode_classes(unicode_decode(c->text, at, to, &length)) & kinds) == kind);
        if (!(kind & UNICODE_SPACE))
            FT_TRY(add_match(c, start, at));
    }
    return FT_OK;
}

static ft_status cut_byte_level(struct cutter *c, size_t from, size_t to)
{
    uint32_t ends[PRETOK_BATCH];
    struct pretok_scan scan = {.text = c->text, .at = from, .to = to, .classify = c->classify};
    while (scan.at < to) {
        size_t n = pretok_gpt2(&scan, ends);
        for (size_t i = 0; i < n; i++)
            FT_TRY(add_match(c, c->done, ends[i]));
    }
    return FT_OK;
}

static ft_status cut_at_text(struct cutter *c, size_t from, size_t to, str what)
{
    for (size_t at = from; to - at >= what.len;) {
        if (memcmp(c->text + at, what.ptr, what.len) == 0) {
            FT_TRY(add_match(c, at, at + what.len));
            at += what.len;
        } else {
            at++;
        }
    }
    return FT_OK;
}

static ft_status cut_at_regex(struct cutter *c, size_t from, size_t to, const struct regex *regex)
{
    struct regex_search s = {.regex = regex, .text = {(const char *)c->text + from, to - from}};
    size_t start, end;
    bool found;
    while (true) {
        FT_TRY(regex_next(&start, &end, &found, &s, c->err));
        if (!found)
            return FT_OK;
        FT_TRY(add_match(c, from + start, from + end));
    }
}

static ft_status run_stage(struct cutter *c, const struct pretok_stages *s, size_t i, size_t from,
                           size_t to)
{
    const struct pretok_stage *stage = &s->stages[i];
    switch (stage->kind) {
    case PRETOK_SPLIT:
        return stage->dialect == PRETOK_LITERAL ? cut_at_text(c, from, to, stage->pattern)
                                                : cut_at_regex(c, from, to, s->regexes[i]);
    case PRETOK_DIGITS:
        return cut_at_class(c, from, to, UNICODE_NUMERIC);
    case PRETOK_PUNCTUATION:
        return cut_at_class(c, from, to, UNICODE_BERT_PUNCTUATION);
    case PRETOK_WHITESPACE:
        return cut_words(c, from, to);
    case PRETOK_WHITESPACE_SPLIT:
        return cut_at_class(c, from, to, UNICODE_SPACE);
    case PRETOK_BYTE_LEVEL:
        return cut_byte_level(c, from, to);
    case PRETOK_KINDS:
        break;
    }
    return FT_OK;
}

static ft_status cut_piece(struct pretok_pieces *out, const struct pretok_stages *s, size_t i,
                           const uint8_t *text, struct pretok_piece piece, classify_fn *classify,
                           ft_error *err)
{
    const struct pretok_stage *stage = &s->stages[i];
    struct cutter c = {.text = text,
                       .classify = classify,
                       .out = out,
                       .behavior = stage->behavior,
                       .invert = stage->invert,
                       .done = piece.from,
                       .err = err};
    if (stage->kind == PRETOK_WHITESPACE || stage->kind == PRETOK_WHITESPACE_SPLIT)
        c.behavior = PRETOK_REMOVED;
    if (stage->kind == PRETOK_WHITESPACE)
        c.invert = true;
    FT_TRY(run_stage(&c, s, i, piece.from, piece.to));
    FT_TRY(add_segment(&c, c.done, piece.to, false));
    return c.pending ? push(&c, c.waiting, piece.to) : FT_OK;
}

/* The pieces become the ones to cut, and their memory is used the other way round. */
static void swap_pieces(struct pretok_pieces *p)
{
    struct pretok_piece *items = p->items;
    size_t cap = p->cap;
    p->items = p->spare;
    p->cap = p->cap_spare;
    p->spare = items;
    p->cap_spare = cap;
    p->n_spare = p->n;
    p->n = 0;
}

ft_status pretok_stages_cut(struct pretok_pieces *out, const struct pretok_stages *s,
                            const uint8_t *text, size_t from, size_t to, classify_fn *classify,
                            ft_error *err)
{
    struct cutter whole = {.out = out, .err = err};
    out->n = 0;
    FT_TRY(push(&whole, from, to));
    for (size_t i = 0; i < s->n; i++) {
        swap_pieces(out);
        for (size_t k = 0; k < out->n_spare; k++)
            FT_TRY(cut_piece(out, s, i, text, out->spare[k], classify, err));
    }
    return FT_OK;
}
