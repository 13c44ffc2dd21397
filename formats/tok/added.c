/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/added.h"

#include <stdlib.h>
#include <string.h>

#include "formats/tok/unicode.h"

static uint8_t byte_at(str s, size_t i)
{
    return (uint8_t)s.ptr[i];
}

int added_compare(const void *a, const void *b)
{
    str x = ((const struct added_token *)a)->content, y = ((const struct added_token *)b)->content;
    int order = memcmp(x.ptr, y.ptr, FT_MIN(x.len, y.len));
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

/* By match, for pointers to pointers. */
static int compare_matches(const void *a, const void *b)
{
    str x = (*(const struct added_token *const *)a)->match;
    str y = (*(const struct added_token *const *)b)->match;
    int order = memcmp(x.ptr, y.ptr, FT_MIN(x.len, y.len));
    return order != 0 ? order : (x.len > y.len) - (x.len < y.len);
}

static ft_status init_pass(struct added_pass *pass, struct arena *arena, const struct added *a,
                           bool normalized, ft_error *err)
{
    size_t begins[257] = {0};
    pass->tokens = arena_alloc(arena, a->n, sizeof *pass->tokens);
    if (pass->tokens == NULL)
        return ft_fail_memory(err, a->n * sizeof *pass->tokens, "added tokens");
    for (size_t i = 0; i < a->n; i++) {
        const struct added_token *t = &a->tokens[i];
        if (((t->flags & ADDED_NORMALIZED) != 0) != normalized)
            continue;
        pass->tokens[pass->n++] = t;
        begins[byte_at(t->match, 0) + 1]++;
    }
    qsort(pass->tokens, pass->n, sizeof *pass->tokens, compare_matches);
    for (size_t i = 1; i < pass->n; i++)
        if (str_eq(pass->tokens[i - 1]->match, pass->tokens[i]->match))
            return ft_fail(err, FT_EFORMAT, "two added tokens stand for \"%.*s\"",
                           STR_ARG(pass->tokens[i]->match));
    pass->only_first = -1;
    for (int c = 0; c < 256; c++) {
        if (pass->n > 0 && begins[c + 1] == pass->n)
            pass->only_first = c;
        begins[c + 1] += begins[c];
    }
    for (int c = 0; c < 257; c++)
        pass->first_begin[c] = (uint32_t)begins[c];
    return FT_OK;
}

ft_status added_init(struct added *a, struct arena *arena, const struct added_token *tokens,
                     size_t n, ft_error *err)
{
    *a = (struct added){.tokens = tokens, .n = n};
    FT_TRY(init_pass(&a->passes[0], arena, a, false, err));
    return init_pass(&a->passes[1], arena, a, true, err);
}

enum place { OUTSIDE, INSIDE, ACROSS };

/* How [from, to) lies to the ranges in which special tokens are parsed. */
static enum place place_of(struct added_rule rule, size_t from, size_t to, size_t n)
{
    if (rule.origin != NULL) {
        to = to < n ? rule.base + rule.origin[to] : rule.end;
        from = rule.base + rule.origin[from];
    }
    size_t low = 0, high = rule.n_parse; /* the first range that ends behind `from` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rule.parse[middle].to <= from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == rule.n_parse || rule.parse[low].from >= to)
        return OUTSIDE;
    return rule.parse[low].from <= from && to <= rule.parse[low].to ? INSIDE : ACROSS;
}

/* First token of [low, high) whose byte at `depth` is at least c; all are longer than depth. */
static size_t lower_bound(const struct added_pass *pass, size_t low, size_t high, size_t depth,
                          unsigned c)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(pass->tokens[middle]->match, depth) < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token at `at`, NULL when none. A special token that reaches across the border of a
 * parsed range is none: half of it is ordinary text. */
static const struct added_token *longest_at(const struct added_pass *pass, str text, size_t at,
                                            size_t to, struct added_rule rule)
{
    const struct added_token *best = NULL;
    unsigned c = byte_at(text, at);
    size_t low = pass->first_begin[c], high = pass->first_begin[c + 1];
    for (size_t depth = 1; low < high; depth++) {
        const struct added_token *t = pass->tokens[low];
        if (t->match.len == depth) {
            if (!(t->flags & ADDED_SPECIAL) || place_of(rule, at, at + depth, text.len) != ACROSS)
                best = t;
            low++;
        }
        if (at + depth == to)
            break;
        c = byte_at(text, at + depth);
        high = lower_bound(pass, low, high, depth, c + 1);
        low = lower_bound(pass, low, high, depth, c);
    }
    return best;
}

static size_t next_candidate(const struct added_pass *pass, str text, size_t at, size_t to)
{
    if (pass->only_first >= 0) {
        const char *hit = memchr(text.ptr + at, pass->only_first, to - at);
        return hit == NULL ? to : (size_t)(hit - text.ptr);
    }
    while (at < to) {
        unsigned c = byte_at(text, at);
        if (pass->first_begin[c] != pass->first_begin[c + 1])
            break;
        at++;
    }
    return at;
}

/* Start of the character that ends at `at`, not before `from`; needs from < at. */
static size_t step_back(str text, size_t from, size_t at)
{
    do
        at--;
    while (at > from && (byte_at(text, at) & 0xC0) == 0x80);
    return at;
}

static bool has_class(str text, size_t at, size_t to, enum unicode_class class, size_t *length)
{
    return (unicode_classes(unicode_decode((const uint8_t *)text.ptr, at, to, length)) & class) !=
           0;
}

static bool touches_word(str text, size_t from, size_t to, const struct added_match *m)
{
    size_t length;
    return (m->from > from &&
            has_class(text, step_back(text, from, m->from), m->from, UNICODE_WORD, &length)) ||
           (m->to < to && has_class(text, m->to, to, UNICODE_WORD, &length));
}

static void take_left(struct added_match *m, str text, size_t from, size_t taken)
{
    while (m->from > from) {
        size_t length, before = step_back(text, from, m->from);
        if (!has_class(text, before, m->from, UNICODE_SPACE, &length))
            break;
        m->from = before;
    }
    m->from = FT_MAX(m->from, taken);
}

static void take_right(struct added_match *m, str text, size_t to)
{
    size_t length;
    while (m->to < to && has_class(text, m->to, to, UNICODE_SPACE, &length))
        m->to += length;
}

bool added_next(struct added_match *out, const struct added_pass *pass, str text, size_t from,
                size_t to, size_t at, size_t taken, struct added_rule rule)
{
    if (pass->n == 0)
        return false;
    while ((at = next_candidate(pass, text, at, to)) < to) {
        const struct added_token *t = longest_at(pass, text, at, to, rule);
        if (t == NULL) {
            at++;
            continue;
        }
        size_t end = at + t->match.len;
        *out = (struct added_match){t, at, end, end};
        /* A match that is turned down is passed over as a whole. */
        at = end;
        if ((t->flags & ADDED_SPECIAL) && place_of(rule, out->from, end, text.len) != INSIDE) {
            if (rule.n_text != NULL)
                ++*rule.n_text;
            continue;
        }
        if ((t->flags & ADDED_SINGLE_WORD) && touches_word(text, from, to, out))
            continue;
        if (t->flags & ADDED_LSTRIP)
            take_left(out, text, from, taken);
        if (t->flags & ADDED_RSTRIP)
            take_right(out, text, to);
        return true;
    }
    return false;
}
