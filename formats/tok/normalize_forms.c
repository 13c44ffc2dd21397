/* SPDX-License-Identifier: Apache-2.0
 * NFC, NFD, NFKC and NFKD. Most text has the form already, and most of the rest differs at few
 * places: characters that may change are flagged, and only each run of them is worked on, together
 * with the one character before it, which they may combine with or move behind. */
#include <string.h>

#include "common/mem.h"
#include "formats/tok/normalize_priv.h"
#include "formats/tok/normalize_table.h"
#include "formats/tok/unicode.h"

enum {
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    S_BASE = 0xAC00,
    N_L = 19,
    N_V = 21,
    N_T = 28,
    N_S = N_L * N_V * N_T
};

struct character {
    uint32_t code_point, at; /* where it comes from in the input of the step */
    uint32_t class;          /* canonical combining class */
};

/* The run that is worked on. */
struct run {
    struct character *characters; /* [n], in p->work */
    size_t n;
    struct normalize_pass *p;
};

/* --- look-ups ---------------------------------------------------------------------------------
 */

static const struct normalize_mapping *find(const struct normalize_mapping *table, size_t n,
                                            uint32_t code_point)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].code_point < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && table[low].code_point == code_point ? &table[low] : NULL;
}

static uint32_t class_of(uint32_t code_point)
{
    size_t low = 0, high = normalize_n_classes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (normalize_classes[middle].to < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    bool hit = low < normalize_n_classes && normalize_classes[low].from <= code_point;
    return hit ? normalize_classes[low].class : 0;
}

/* What two characters make together, 0 when nothing. */
static uint32_t compose(uint32_t first, uint32_t second)
{
    if (first - L_BASE < N_L && second - V_BASE < N_V)
        return S_BASE + ((first - L_BASE) * N_V + second - V_BASE) * N_T;
    if (first - S_BASE < N_S && (first - S_BASE) % N_T == 0 && second - T_BASE - 1 < N_T - 1)
        return first + second - T_BASE;
    size_t low = 0, high = normalize_n_pairs;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct normalize_pair *p = &normalize_pairs[middle];
        if (p->first < first || (p->first == first && p->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    const struct normalize_pair *p = &normalize_pairs[low];
    return low < normalize_n_pairs && p->first == first && p->second == second ? p->composed : 0;
}

/* --- one run ----------------------------------------------------------------------------------
 */

static ft_status push(struct run *r, uint32_t code_point, size_t at)
{
    struct normalize_work *w = r->p->work;
    if (r->n == w->characters_cap) {
        size_t cap = FT_MAX(2 * r->n, (size_t)64);
        void *p = mem_realloc(w->characters, cap, sizeof *r->characters);
        if (p == NULL)
            return ft_fail_memory(r->p->err, cap * sizeof *r->characters, "normalized text");
        w->characters = p;
        w->characters_cap = cap;
    }
    r->characters = w->characters;
    r->characters[r->n++] = (struct character){code_point, (uint32_t)at, class_of(code_point)};
    return FT_OK;
}

static ft_status push_hangul(struct run *r, uint32_t code_point, size_t at)
{
    uint32_t s = code_point - S_BASE;
    FT_TRY(push(r, L_BASE + s / (N_V * N_T), at));
    FT_TRY(push(r, V_BASE + s % (N_V * N_T) / N_T, at));
    return s % N_T == 0 ? FT_OK : push(r, T_BASE + s % N_T, at);
}

static ft_status push_decomposed(struct run *r, uint32_t code_point, size_t at, bool compatible)
{
    const struct normalize_mapping *m = NULL;
    if (code_point - S_BASE < N_S)
        return push_hangul(r, code_point, at);
    if (compatible)
        m = find(normalize_compatible, normalize_n_compatible, code_point);
    if (m == NULL)
        m = find(normalize_canonical, normalize_n_canonical, code_point);
    if (m == NULL)
        return push(r, code_point, at);
    for (size_t i = 0; i < m->n; i++)
        FT_TRY(push(r, normalize_points[m->at + i], at));
    return FT_OK;
}

/* Stable, by class: few characters by insertion, many by counting. */
static ft_status sort_marks(struct character *c, size_t n, ft_error *err)
{
    size_t places[257] = {0};
    struct character *sorted;
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            struct character moved = c[i];
            size_t k = i;
            for (; k > 0 && c[k - 1].class > moved.class; k--)
                c[k] = c[k - 1];
            c[k] = moved;
        }
        return FT_OK;
    }
    FT_TRY(mem_new(&sorted, n, sizeof *sorted, "normalized text", err));
    for (size_t i = 0; i < n; i++)
        places[c[i].class + 1]++;
    for (size_t i = 1; i < 257; i++)
        places[i] += places[i - 1];
    for (size_t i = 0; i < n; i++)
        sorted[places[c[i].class]++] = c[i];
    memcpy(c, sorted, n * sizeof *c);
    mem_free(sorted);
    return FT_OK;
}

static ft_status reorder(struct run *r)
{
    size_t from = 0;
    while (from < r->n) {
        size_t to = from + 1;
        if (r->characters[from].class != 0) {
            while (to < r->n && r->characters[to].class != 0)
                to++;
            FT_TRY(sort_marks(r->characters + from, to - from, r->p->err));
        }
        from = to;
    }
    return FT_OK;
}

/* Each character joins the last starter when they make one together and nothing of its class or a
 * higher one, nor another starter, stands between. */
static void recompose(struct run *r)
{
    struct character *c = r->characters;
    size_t starter = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < r->n; i++) {
        if (starter != SIZE_MAX) {
            bool adjacent = kept == starter + 1;
            uint32_t last = c[kept - 1].class;
            uint32_t composed = adjacent || (last != 0 && last < c[i].class)
                                    ? compose(c[starter].code_point, c[i].code_point)
                                    : 0;
            if (composed != 0) {
                c[starter].code_point = composed;
                continue;
            }
        }
        if (c[i].class == 0)
            starter = kept;
        c[kept++] = c[i];
    }
    r->n = kept;
}

static ft_status put_run(struct run *r)
{
    for (size_t i = 0; i < r->n; i++) {
        char bytes[4];
        size_t n = str_utf8_put(bytes, r->characters[i].code_point);
        FT_TRY(normalize_put(r->p, bytes, n, r->characters[i].at));
    }
    return FT_OK;
}

/* --- the text ---------------------------------------------------------------------------------
 */

struct form {
    unsigned slow;
    bool compatible, composed;
};

static struct form form_of(enum normalize_kind kind)
{
    switch (kind) {
    case NORMALIZE_NFC:
        return (struct form){NORMALIZE_SLOW_NFC, false, true};
    case NORMALIZE_NFD:
        return (struct form){NORMALIZE_SLOW_NFD, false, false};
    case NORMALIZE_NFKC:
        return (struct form){NORMALIZE_SLOW_NFKC, true, true};
    default:
        return (struct form){NORMALIZE_SLOW_NFKD, true, false};
    }
}

/* The first character at or behind `at` with one of the flags; in.len when there is none. *before
 * is the character in front of it, or the same when there is none behind `at`. ASCII has at most a
 * lower case. */
static size_t next_flagged(size_t *before, str in, size_t at, unsigned flags)
{
    const uint8_t *text = (const uint8_t *)in.ptr;
    size_t previous = at, length;
    for (; at < in.len; previous = at, at += length) {
        if (text[at] < 0x80 && (flags & NORMALIZE_HAS_LOWER) == 0) {
            length = 1;
            continue;
        }
        if (normalize_flags(unicode_decode(text, at, in.len, &length)) & flags)
            break;
    }
    *before = previous;
    return at;
}

static ft_status normalize_run(size_t *end, struct normalize_pass *p, size_t at, struct form form)
{
    struct run r = {.p = p, .characters = p->work->characters};
    bool first = true;
    size_t length;
    for (; at < p->in.len; at += length) {
        uint32_t c = unicode_decode((const uint8_t *)p->in.ptr, at, p->in.len, &length);
        if (!first && (normalize_flags(c) & form.slow) == 0)
            break;
        FT_TRY(push_decomposed(&r, c, at, form.compatible));
        first = false;
    }
    *end = at;
    FT_TRY(reorder(&r));
    if (form.composed)
        recompose(&r);
    return put_run(&r);
}

ft_status normalize_form(bool *changed, struct normalize_pass *p)
{
    struct form form = form_of(p->step->kind);
    size_t done = 0, before;
    while (next_flagged(&before, p->in, done, form.slow) < p->in.len) {
        *changed = true;
        FT_TRY(normalize_copy(p, done, before));
        FT_TRY(normalize_run(&done, p, before, form));
    }
    return *changed ? normalize_copy(p, done, p->in.len) : FT_OK;
}

/* --- one character at a time ------------------------------------------------------------------
 */

ft_status normalize_lowercase(bool *changed, struct normalize_pass *p)
{
    size_t done = 0, before, at, length;
    while ((at = next_flagged(&before, p->in, done, NORMALIZE_HAS_LOWER)) < p->in.len) {
        uint32_t c = unicode_decode((const uint8_t *)p->in.ptr, at, p->in.len, &length);
        const struct normalize_mapping *m = find(normalize_lower, normalize_n_lower, c);
        *changed = true;
        FT_TRY(normalize_copy(p, done, at));
        for (size_t i = 0; i < m->n; i++) {
            char bytes[4];
            size_t n = str_utf8_put(bytes, normalize_points[m->at + i]);
            FT_TRY(normalize_put(p, bytes, n, at));
        }
        done = at + length;
    }
    return *changed ? normalize_copy(p, done, p->in.len) : FT_OK;
}

ft_status normalize_strip_accents(bool *changed, struct normalize_pass *p)
{
    size_t done = 0, before, at, length;
    while ((at = next_flagged(&before, p->in, done, NORMALIZE_IS_MARK)) < p->in.len) {
        unicode_decode((const uint8_t *)p->in.ptr, at, p->in.len, &length);
        *changed = true;
        FT_TRY(normalize_copy(p, done, at));
        done = at + length;
    }
    return *changed ? normalize_copy(p, done, p->in.len) : FT_OK;
}
