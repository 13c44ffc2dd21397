/* SPDX-License-Identifier: Apache-2.0
 * Strings of templates: UTF-8 with pieces that say where each byte comes from. Counting and
 * cutting is by code point, as in Python. */
#define _GNU_SOURCE /* memmem: linear, whatever the needle */
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

/* --- building -------------------------------------------------------------------------------- */

static ft_status grow(struct jinja_run *r, struct jinja_builder *b, size_t n)
{
    if (b->cap - b->len >= n)
        return FT_OK;
    size_t cap = FT_MAX(b->cap * 2, b->len + n);
    cap = FT_MAX(cap, (size_t)48);
    if (cap > INT32_MAX)
        return ft_fail(r->err, FT_ELIMIT, "%s: a text longer than 2 GiB", r->t->name);
    char *data;
    FT_TRY(jinja_new(&data, r, cap, 1));
    if (b->len > 0)
        memcpy(data, b->data, b->len);
    b->data = data;
    b->cap = cap;
    return FT_OK;
}

static ft_status add_piece(struct jinja_run *r, struct jinja_builder *b, uint32_t origin)
{
    if (b->n_pieces > 0 && b->pieces[b->n_pieces - 1].origin == origin) {
        b->pieces[b->n_pieces - 1].end = (uint32_t)b->len;
        return FT_OK;
    }
    if (b->n_pieces == b->cap_pieces) {
        size_t cap = b->cap_pieces == 0 ? 4 : b->cap_pieces * 2;
        struct jinja_piece *grown;
        FT_TRY(jinja_new(&grown, r, cap, sizeof *grown));
        if (b->n_pieces > 0)
            memcpy(grown, b->pieces, b->n_pieces * sizeof *grown);
        b->pieces = grown;
        b->cap_pieces = cap;
    }
    b->pieces[b->n_pieces++] = (struct jinja_piece){(uint32_t)b->len, origin};
    return FT_OK;
}

ft_status jinja_put(struct jinja_run *r, struct jinja_builder *b, str text, uint32_t origin)
{
    if (text.len == 0)
        return FT_OK;
    FT_TRY(jinja_steps(r, text.len / 64));
    FT_TRY(grow(r, b, text.len));
    memcpy(b->data + b->len, text.ptr, text.len);
    b->len += text.len;
    return add_piece(r, b, origin);
}

ft_status jinja_put_sub(struct jinja_run *r, struct jinja_builder *b, const struct jinja_str *s,
                        size_t from, size_t to)
{
    for (size_t i = 0; i < s->n_pieces && from < to; i++) {
        size_t end = FT_MIN((size_t)s->pieces[i].end, to);
        if (end <= from)
            continue;
        FT_TRY(jinja_put(r, b, (str){s->ptr + from, end - from}, s->pieces[i].origin));
        from = end;
    }
    return FT_OK;
}

ft_status jinja_put_str(struct jinja_run *r, struct jinja_builder *b, const struct jinja_str *s)
{
    return jinja_put_sub(r, b, s, 0, s->len);
}

ft_status jinja_put_char(struct jinja_run *r, struct jinja_builder *b, uint32_t c, uint32_t origin)
{
    char bytes[4];
    return jinja_put(r, b, (str){bytes, str_utf8_put(bytes, c)}, origin);
}

static struct jinja_value text_value(const struct jinja_str *s)
{
    return (struct jinja_value){.type = JV_STR, .as.str = s};
}

ft_status jinja_built(struct jinja_value *out, struct jinja_run *r, struct jinja_builder *b)
{
    struct jinja_str *s;
    FT_TRY(jinja_new(&s, r, 1, sizeof *s));
    *s = (struct jinja_str){b->len == 0 ? "" : b->data, (uint32_t)b->len, (uint32_t)b->n_pieces,
                            b->pieces};
    *out = text_value(s);
    return FT_OK;
}

ft_status jinja_new_text(struct jinja_value *out, struct jinja_run *r, str text, uint32_t origin)
{
    struct {
        struct jinja_str s;
        struct jinja_piece piece;
    } * made;
    if (text.len > INT32_MAX)
        return jinja_raise(r, "a text longer than 2 GiB");
    FT_TRY(jinja_new(&made, r, 1, sizeof *made));
    made->piece = (struct jinja_piece){(uint32_t)text.len, origin};
    made->s = (struct jinja_str){text.ptr, (uint32_t)text.len, text.len > 0, &made->piece};
    *out = text_value(&made->s);
    return FT_OK;
}

ft_status jinja_copy_text(struct jinja_value *out, struct jinja_run *r, str text, uint32_t origin)
{
    struct jinja_builder b = {0};
    FT_TRY(jinja_put(r, &b, text, origin));
    return jinja_built(out, r, &b);
}

static ft_status const_value(struct jinja_value *out, struct arena *a, str text, uint8_t type,
                             ft_error *err)
{
    struct jinja_str *s = arena_alloc(a, 1, sizeof *s);
    struct jinja_piece *piece = arena_alloc(a, 1, sizeof *piece);
    if (s == NULL || piece == NULL)
        return ft_fail_memory(err, sizeof *s, "a template");
    *piece = (struct jinja_piece){(uint32_t)text.len, JINJA_TEMPLATE};
    *s = (struct jinja_str){text.ptr, (uint32_t)text.len, text.len > 0, piece};
    *out = text_value(s);
    out->type = type;
    return FT_OK;
}

ft_status jinja_const_text(struct jinja_value *out, struct arena *a, str text, ft_error *err)
{
    return const_value(out, a, text, JV_STR, err);
}

ft_status jinja_const_big(struct jinja_value *out, struct arena *a, str digits, ft_error *err)
{
    return const_value(out, a, digits, JV_BIG, err);
}

ft_status jinja_substring(struct jinja_value *out, struct jinja_run *r, struct jinja_value s,
                          size_t from, size_t to)
{
    const struct jinja_str *whole = s.as.str;
    struct jinja_str *part;
    struct jinja_piece *pieces = NULL;
    size_t n = 0;
    if (from == 0 && to == whole->len) {
        *out = s;
        return FT_OK;
    }
    FT_TRY(jinja_new(&part, r, 1, sizeof *part));
    if (to > from)
        FT_TRY(jinja_new(&pieces, r, whole->n_pieces, sizeof *pieces));
    for (size_t i = 0; i < whole->n_pieces && to > from; i++) {
        size_t end = FT_MIN((size_t)whole->pieces[i].end, to);
        if (end <= from || (n > 0 && pieces[n - 1].end == to - from))
            continue;
        pieces[n++] = (struct jinja_piece){(uint32_t)(end - from), whole->pieces[i].origin};
    }
    *part = (struct jinja_str){whole->ptr + from, (uint32_t)(to - from), (uint32_t)n, pieces};
    *out = text_value(part);
    out->flags = s.flags;
    return FT_OK;
}

/* --- looking --------------------------------------------------------------------------------- */

str jinja_view(struct jinja_value s)
{
    return (str){s.as.str->ptr, s.as.str->len};
}

uint32_t jinja_str_origin(const struct jinja_str *s)
{
    uint32_t origin = JINJA_TEMPLATE;
    for (size_t i = 0; i < s->n_pieces; i++)
        origin = jinja_mix(origin, s->pieces[i].origin);
    return origin;
}

bool jinja_cursor_next(struct jinja_cursor *c, uint32_t *code_point, uint32_t *origin)
{
    size_t n;
    if (c->at >= c->s->len)
        return false;
    while (c->s->pieces[c->piece].end <= c->at)
        c->piece++;
    *origin = c->s->pieces[c->piece].origin;
    *code_point = str_utf8_next((str){c->s->ptr + c->at, c->s->len - c->at}, &n);
    c->at += n;
    return true;
}

size_t jinja_count_chars(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += (s.ptr[i] & 0xC0) != 0x80;
    return n;
}

size_t jinja_char_offset(str s, size_t n)
{
    size_t i = 0;
    for (; i < s.len; i++)
        if ((s.ptr[i] & 0xC0) != 0x80 && n-- == 0)
            break;
    return i;
}

size_t jinja_find(str s, str needle, size_t from)
{
    if (from > s.len || s.len - from < needle.len)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    const char *p = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
    return p == NULL ? SIZE_MAX : (size_t)(p - s.ptr);
}

size_t jinja_rfind(str s, str needle, size_t to)
{
    for (size_t at = to < needle.len ? 0 : to - needle.len + 1; to >= needle.len && at-- > 0;)
        if (needle.len == 0 || memcmp(s.ptr + at, needle.ptr, needle.len) == 0)
            return at;
    return SIZE_MAX;
}

static bool in_set(const struct jinja_value *set, uint32_t c)
{
    char bytes[4];
    if (set == NULL)
        return jinja_is_space(c);
    str needle = {bytes, str_utf8_put(bytes, c)};
    return jinja_find(jinja_view(*set), needle, 0) != SIZE_MAX;
}

/* Start of the last code point of s, which is not empty. */
static size_t last_char(str s)
{
    size_t at = s.len - 1;
    while (at > 0 && (s.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

static size_t rstrip_end(str s, const struct jinja_value *set)
{
    size_t n;
    while (s.len > 0) {
        size_t at = last_char(s);
        if (!in_set(set, str_utf8_next(str_sub(s, at, s.len), &n)))
            break;
        s.len = at;
    }
    return s.len;
}

str jinja_rstrip_space(str s)
{
    return str_sub(s, 0, rstrip_end(s, NULL));
}

ft_status jinja_strip(struct jinja_value *out, struct jinja_run *r, struct jinja_value s,
                      const struct jinja_value *set, bool left, bool right)
{
    str text = jinja_view(s);
    size_t from = 0, to = text.len, n;
    FT_TRY(jinja_steps(r, (set == NULL ? 0 : set->as.str->len) * (uint64_t)text.len / 64));
    while (left && from < to && in_set(set, str_utf8_next(str_sub(text, from, to), &n)))
        from += n;
    if (right)
        to = from + rstrip_end(str_sub(text, from, to), set);
    return jinja_substring(out, r, s, from, to);
}

/* --- letter case ----------------------------------------------------------------------------- */

static ft_status put_mapped(struct jinja_run *r, struct jinja_builder *b, uint32_t c, int32_t delta,
                            uint32_t origin)
{
    if (delta < JINJA_LONG_CASE)
        return jinja_put_char(r, b, (uint32_t)((int32_t)c + delta), origin);
    const uint32_t *row = jinja_long_cases[delta - JINJA_LONG_CASE];
    for (size_t i = 0; i < 3 && row[i] != 0; i++)
        FT_TRY(jinja_put_char(r, b, row[i], origin));
    return FT_OK;
}

enum { SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2 };

/* A capital sigma at [from, behind) is final when a letter with case stands before it and none
 * behind it; ignorable characters between do not count. */
static bool is_final_sigma(str s, size_t from, size_t behind)
{
    size_t n;
    const struct jinja_char *c;
    str before = str_sub(s, 0, from);
    for (;;) {
        if (before.len == 0)
            return false;
        size_t at = last_char(before);
        c = jinja_char(str_utf8_next(str_sub(before, at, before.len), &n));
        before.len = at;
        if (!(c->flags & JINJA_IGNORABLE))
            break;
    }
    if (!(c->flags & JINJA_CASED))
        return false;
    for (; behind < s.len; behind += n) {
        c = jinja_char(str_utf8_next(str_sub(s, behind, s.len), &n));
        if (!(c->flags & JINJA_IGNORABLE))
            return !(c->flags & JINJA_CASED);
    }
    return true;
}

static ft_status put_lower(struct jinja_run *r, struct jinja_builder *b,
                           const struct jinja_cursor *at, uint32_t c, uint32_t origin)
{
    size_t n = c < 0x80 ? 1 : 2;
    if (c == SIGMA && is_final_sigma((str){at->s->ptr, at->s->len}, at->at - n, at->at))
        return jinja_put_char(r, b, FINAL_SIGMA, origin);
    return put_mapped(r, b, c, jinja_char(c)->lower, origin);
}

ft_status jinja_put_case(struct jinja_run *r, struct jinja_builder *b, const struct jinja_str *s,
                         enum jinja_case to)
{
    struct jinja_cursor cursor = {s, 0, 0};
    uint32_t c, origin;
    bool inside = false; /* a word, or the string */
    while (jinja_cursor_next(&cursor, &c, &origin)) {
        const struct jinja_char *k = jinja_char(c);
        bool first = !inside;
        inside = to == JINJA_TO_TITLE ? (k->flags & JINJA_CASED) != 0 : true;
        if (to == JINJA_TO_UPPER || (to == JINJA_TO_SWAPPED && (k->flags & JINJA_LOWER)))
            FT_TRY(put_mapped(r, b, c, k->upper, origin));
        else if (to == JINJA_TO_FOLDED)
            FT_TRY(put_mapped(r, b, c, k->fold, origin));
        else if (to == JINJA_TO_SWAPPED && !(k->flags & JINJA_UPPER))
            FT_TRY(jinja_put_char(r, b, c, origin));
        else if (first && (to == JINJA_TO_TITLE || to == JINJA_TO_CAPITAL))
            FT_TRY(put_mapped(r, b, c, k->title, origin));
        else
            FT_TRY(put_lower(r, b, &cursor, c, origin));
    }
    return FT_OK;
}

ft_status jinja_recase(struct jinja_value *out, struct jinja_run *r, struct jinja_value s,
                       enum jinja_case to)
{
    struct jinja_builder b = {0};
    FT_TRY(jinja_put_case(r, &b, s.as.str, to));
    FT_TRY(jinja_built(out, r, &b));
    out->flags = s.flags;
    return FT_OK;
}

/* --- putting together ------------------------------------------------------------------------ */

ft_status jinja_concat(struct jinja_value *out, struct jinja_run *r, struct jinja_value a,
                       struct jinja_value b)
{
    struct jinja_builder joined = {0};
    uint8_t markup = (a.flags | b.flags) & JINJA_MARKUP;
    if (markup && !(a.flags & JINJA_MARKUP))
        FT_TRY(jinja_escape(&a, r, a));
    if (markup && !(b.flags & JINJA_MARKUP))
        FT_TRY(jinja_escape(&b, r, b));
    FT_TRY(grow(r, &joined, (size_t)a.as.str->len + b.as.str->len));
    FT_TRY(jinja_put_str(r, &joined, a.as.str));
    FT_TRY(jinja_put_str(r, &joined, b.as.str));
    FT_TRY(jinja_built(out, r, &joined));
    out->flags = markup;
    return FT_OK;
}

/* An empty `old` matches before each character and at the end. */
static ft_status replace_empty(struct jinja_run *r, struct jinja_builder *b,
                               const struct jinja_str *s, const struct jinja_str *new,
                               int64_t count)
{
    struct jinja_cursor c = {s, 0, 0};
    uint32_t code, origin;
    for (size_t at = 0; count != 0; at = c.at, count--) {
        FT_TRY(jinja_put_str(r, b, new));
        if (!jinja_cursor_next(&c, &code, &origin))
            return FT_OK;
        FT_TRY(jinja_put_sub(r, b, s, at, c.at));
    }
    return jinja_put_sub(r, b, s, c.at, s->len);
}

ft_status jinja_replace(struct jinja_value *out, struct jinja_run *r, struct jinja_value s,
                        struct jinja_value old, struct jinja_value new, int64_t count)
{
    struct jinja_builder b = {0};
    str text = jinja_view(s), needle = jinja_view(old);
    size_t from = 0, at;
    if (needle.len == 0) {
        FT_TRY(replace_empty(r, &b, s.as.str, new.as.str, count));
        return jinja_built(out, r, &b);
    }
    FT_TRY(jinja_steps(r, text.len / 64));
    for (; count != 0 && (at = jinja_find(text, needle, from)) != SIZE_MAX; count--) {
        FT_TRY(jinja_put_sub(r, &b, s.as.str, from, at));
        FT_TRY(jinja_put_str(r, &b, new.as.str));
        from = at + needle.len;
    }
    FT_TRY(jinja_put_sub(r, &b, s.as.str, from, text.len));
    return jinja_built(out, r, &b);
}

ft_status jinja_escape(struct jinja_value *out, struct jinja_run *r, struct jinja_value s)
{
    struct jinja_builder b = {0};
    struct jinja_cursor c = {s.as.str, 0, 0};
    uint32_t code, origin;
    while (jinja_cursor_next(&c, &code, &origin)) {
        const char *entity = code == '&'    ? "&amp;"
                             : code == '<'  ? "&lt;"
                             : code == '>'  ? "&gt;"
                             : code == '\'' ? "&#39;"
                             : code == '"'  ? "&#34;"
                                            : NULL;
        if (entity != NULL)
            FT_TRY(jinja_put(r, &b, str_from(entity), origin));
        else
            FT_TRY(jinja_put_char(r, &b, code, origin));
    }
    FT_TRY(jinja_built(out, r, &b));
    out->flags = JINJA_MARKUP;
    return FT_OK;
}
