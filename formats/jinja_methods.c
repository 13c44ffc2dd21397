/* SPDX-License-Identifier: Apache-2.0
 * Methods of strings, lists, tuples, dicts, ranges and cyclers in templates. What Python has but
 * this file has not is refused by name; what the sandbox forbids is an undefined value. */
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

typedef ft_status (*method)(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                            const struct jinja_value *a, int variant);

/* --- arguments ------------------------------------------------------------------------------- */

static ft_status need_str(struct jinja_run *r, struct jinja_value v)
{
    return v.type == JV_STR ? FT_OK : jinja_raise(r, "expected a str, not %s", jinja_type_name(v));
}

static ft_status int_or(int64_t *out, struct jinja_run *r, struct jinja_value v, int64_t fallback)
{
    *out = fallback;
    if (v.type == JV_MISSING)
        return FT_OK;
    if (!jinja_is_int(v))
        return jinja_raise(r, "expected an integer, not %s", jinja_type_name(v));
    *out = jinja_to_int(v);
    return FT_OK;
}

/* Byte range of s[start:end]; *valid false when start is behind the end. */
static ft_status char_range(size_t *from, size_t *to, bool *valid, struct jinja_run *r, str s,
                            struct jinja_value start, struct jinja_value end)
{
    int64_t n = (int64_t)jinja_count_chars(s), i, k;
    FT_TRY(int_or(&i, r, start.type == JV_NONE ? jinja_missing() : start, 0));
    FT_TRY(int_or(&k, r, end.type == JV_NONE ? jinja_missing() : end, INT64_MAX));
    *valid = i <= n;
    jinja_slice_bounds(n, &i, &k);
    *valid &= i <= k;
    *from = jinja_char_offset(s, (size_t)i);
    *to = FT_MAX(*from, jinja_char_offset(s, (size_t)k));
    return jinja_steps(r, s.len / 64);
}

/* --- case, strip, pad ------------------------------------------------------------------------ */

static ft_status str_case(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                          const struct jinja_value *a, int to)
{
    (void)a;
    return jinja_recase(out, r, self, (enum jinja_case)to);
}

enum { LEFT = 1, RIGHT = 2 };

static ft_status str_strip(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int sides)
{
    bool all = a[0].type == JV_MISSING || a[0].type == JV_NONE;
    if (!all)
        FT_TRY(need_str(r, a[0]));
    return jinja_strip(out, r, self, all ? NULL : &a[0], sides & LEFT, sides & RIGHT);
}

static ft_status put_fill(struct jinja_run *r, struct jinja_builder *b, str fill, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        FT_TRY(jinja_steps(r, 1));
        FT_TRY(jinja_put(r, b, fill, JINJA_TEMPLATE));
    }
    return FT_OK;
}

static ft_status str_pad(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                         const struct jinja_value *a, int sides)
{
    struct jinja_builder b = {0};
    int64_t width, n = (int64_t)jinja_count_chars(jinja_view(self));
    str fill = STR(" ");
    FT_TRY(int_or(&width, r, a[0], 0));
    if (a[1].type != JV_MISSING) {
        FT_TRY(need_str(r, a[1]));
        fill = jinja_view(a[1]);
        if (jinja_count_chars(fill) != 1)
            return jinja_raise(r, "the fill character must be exactly one");
    }
    int64_t missing = width > n ? width - n : 0, left = sides == LEFT ? missing : 0;
    if (sides == (LEFT | RIGHT)) /* CPython's rule for the odd one */
        left = missing / 2 + (missing & width & 1);
    FT_TRY(put_fill(r, &b, fill, left));
    FT_TRY(jinja_put_str(r, &b, self.as.str));
    FT_TRY(put_fill(r, &b, fill, missing - left));
    FT_TRY(jinja_built(out, r, &b));
    out->flags = self.flags;
    return FT_OK;
}

static ft_status str_zfill(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    struct jinja_builder b = {0};
    (void)variant;
    int64_t width, n = (int64_t)jinja_count_chars(jinja_view(self));
    str s = jinja_view(self);
    FT_TRY(int_or(&width, r, a[0], 0));
    size_t sign = s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+');
    FT_TRY(jinja_put_sub(r, &b, self.as.str, 0, sign));
    FT_TRY(put_fill(r, &b, STR("0"), width - n));
    FT_TRY(jinja_put_sub(r, &b, self.as.str, sign, s.len));
    return jinja_built(out, r, &b);
}

static ft_status str_remove(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                            const struct jinja_value *a, int side)
{
    FT_TRY(need_str(r, a[0]));
    str s = jinja_view(self), part = jinja_view(a[0]);
    size_t from = side == LEFT && str_starts(s, part) ? part.len : 0;
    size_t to = side == RIGHT && str_ends(s, part) ? s.len - part.len : s.len;
    return jinja_substring(out, r, self, from, to);
}

/* --- looking --------------------------------------------------------------------------------- */

static ft_status starts_with(bool *out, struct jinja_run *r, str s, struct jinja_value what,
                             int side)
{
    FT_TRY(need_str(r, what));
    *out = side == LEFT ? str_starts(s, jinja_view(what)) : str_ends(s, jinja_view(what));
    return FT_OK;
}

static ft_status str_starts_with(struct jinja_value *out, struct jinja_run *r,
                                 struct jinja_value self, const struct jinja_value *a, int side)
{
    size_t from, to;
    bool valid, hit = false;
    FT_TRY(char_range(&from, &to, &valid, r, jinja_view(self), a[1], a[2]));
    str s = str_sub(jinja_view(self), from, to);
    if (a[0].type == JV_TUPLE) {
        for (size_t i = 0; i < a[0].as.seq->n && !hit; i++)
            FT_TRY(starts_with(&hit, r, s, a[0].as.seq->items[i], side));
    } else {
        FT_TRY(starts_with(&hit, r, s, a[0], side));
    }
    *out = jinja_bool(hit && valid);
    return FT_OK;
}

enum { FROM_RIGHT = 1, MUST_BE_THERE = 2 };

static ft_status str_search(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                            const struct jinja_value *a, int variant)
{
    size_t from, to, at = SIZE_MAX;
    bool valid;
    FT_TRY(need_str(r, a[0]));
    FT_TRY(char_range(&from, &to, &valid, r, jinja_view(self), a[1], a[2]));
    str s = str_sub(jinja_view(self), 0, to), part = jinja_view(a[0]);
    if (variant & FROM_RIGHT) {
        FT_TRY(jinja_steps(r, (uint64_t)(to - from) * part.len / 64));
        at = jinja_rfind(s, part, to);
        at = at != SIZE_MAX && at < from ? SIZE_MAX : at;
    } else {
        at = jinja_find(s, part, from);
    }
    bool found = valid && at != SIZE_MAX;
    if (!found && (variant & MUST_BE_THERE))
        return jinja_raise(r, "substring not found");
    *out = jinja_int(found ? (int64_t)jinja_count_chars(str_sub(s, 0, at)) : -1);
    return FT_OK;
}

static ft_status str_count(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    size_t from, to, n = 0;
    bool valid;
    (void)variant;
    FT_TRY(need_str(r, a[0]));
    FT_TRY(char_range(&from, &to, &valid, r, jinja_view(self), a[1], a[2]));
    str s = str_sub(jinja_view(self), from, to), part = jinja_view(a[0]);
    if (part.len == 0)
        n = jinja_count_chars(s) + 1;
    for (size_t at = 0; part.len > 0 && (at = jinja_find(s, part, at)) != SIZE_MAX; at += part.len)
        n++;
    *out = jinja_int(valid ? (int64_t)n : 0);
    return FT_OK;
}

enum {
    IS_ALPHA,
    IS_DECIMAL,
    IS_DIGIT,
    IS_NUMERIC,
    IS_ALNUM,
    IS_SPACE,
    IS_ASCII,
    IS_LOWER,
    IS_UPPER,
    IS_TITLE
};

static bool has_class(uint32_t c, int variant)
{
    static const uint16_t masks[] = {
        [IS_ALPHA] = JINJA_ALPHA,
        [IS_DECIMAL] = JINJA_DECIMAL,
        [IS_DIGIT] = JINJA_DIGIT,
        [IS_NUMERIC] = JINJA_NUMERIC,
        [IS_ALNUM] = JINJA_ALPHA | JINJA_DECIMAL | JINJA_DIGIT | JINJA_NUMERIC,
    };
    if (variant == IS_SPACE)
        return jinja_is_space(c);
    return variant == IS_ASCII ? c < 0x80 : (jinja_char(c)->flags & masks[variant]) != 0;
}

static ft_status str_is_class(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                              const struct jinja_value *a, int variant)
{
    str s = jinja_view(self);
    bool all = s.len > 0 || variant == IS_ASCII;
    size_t n;
    (void)a;
    FT_TRY(jinja_steps(r, s.len / 16));
    for (; s.len > 0 && all; s = str_sub(s, n, s.len))
        all = has_class(str_utf8_next(s, &n), variant);
    *out = jinja_bool(all);
    return FT_OK;
}

/* islower, isupper: some letter with case, and none of the other kind. istitle: capitals only where
 * words begin. */
static ft_status str_is_case(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                             const struct jinja_value *a, int variant)
{
    str s = jinja_view(self);
    bool any = false, ok = true, inside = false;
    size_t n;
    (void)a;
    FT_TRY(jinja_steps(r, s.len / 16));
    for (; s.len > 0 && ok; s = str_sub(s, n, s.len)) {
        unsigned flags = jinja_char(str_utf8_next(s, &n))->flags;
        bool lower = flags & JINJA_LOWER, capital = flags & (JINJA_UPPER | JINJA_TITLE);
        if (variant == IS_TITLE) {
            ok = !(capital && inside) && !(lower && !inside);
            inside = lower || capital;
            any |= inside;
        } else {
            ok = variant == IS_LOWER ? !capital : !lower && !(flags & JINJA_TITLE);
            any |= variant == IS_LOWER ? lower : (flags & JINJA_UPPER) != 0;
        }
    }
    *out = jinja_bool(ok && any);
    return FT_OK;
}

/* --- splitting and joining ------------------------------------------------------------------- */

static ft_status push_part(struct jinja_run *r, struct jinja_value list, struct jinja_value s,
                           size_t from, size_t to)
{
    struct jinja_value part;
    FT_TRY(jinja_steps(r, 1));
    FT_TRY(jinja_substring(&part, r, s, from, to));
    return jinja_push(r, list.as.seq, part);
}

static void reverse(struct jinja_seq *s)
{
    for (size_t i = 0, k = s->n; i + 1 < k; i++) {
        struct jinja_value v = s->items[--k];
        s->items[k] = s->items[i];
        s->items[i] = v;
    }
}

static size_t skip_spaces(str s, size_t at, bool space)
{
    size_t n;
    while (at < s.len && jinja_is_space(str_utf8_next(str_sub(s, at, s.len), &n)) == space)
        at += n;
    return at;
}

static size_t skip_spaces_back(str s, size_t at, bool space)
{
    size_t n;
    while (at > 0) {
        size_t before = at - 1;
        while (before > 0 && (s.ptr[before] & 0xC0) == 0x80)
            before--;
        if (jinja_is_space(str_utf8_next(str_sub(s, before, at), &n)) != space)
            break;
        at = before;
    }
    return at;
}

static ft_status split_spaces(struct jinja_run *r, struct jinja_value list, struct jinja_value self,
                              int64_t max)
{
    str s = jinja_view(self);
    for (size_t at = skip_spaces(s, 0, true); at < s.len; at = skip_spaces(s, at, true)) {
        size_t end = skip_spaces(s, at, false);
        if (max-- == 0)
            return push_part(r, list, self, at, s.len);
        FT_TRY(push_part(r, list, self, at, end));
        at = end;
    }
    return FT_OK;
}

static ft_status rsplit_spaces(struct jinja_run *r, struct jinja_value list,
                               struct jinja_value self, int64_t max)
{
    str s = jinja_view(self);
    for (size_t at = skip_spaces_back(s, s.len, true); at > 0; at = skip_spaces_back(s, at, true)) {
        size_t begin = skip_spaces_back(s, at, false);
        if (max-- == 0) {
            FT_TRY(push_part(r, list, self, 0, at));
            break;
        }
        FT_TRY(push_part(r, list, self, begin, at));
        at = begin;
    }
    reverse(list.as.seq);
    return FT_OK;
}

static ft_status split_at(struct jinja_run *r, struct jinja_value list, struct jinja_value self,
                          str separator, int64_t max)
{
    str s = jinja_view(self);
    size_t from = 0, at;
    for (; max != 0 && (at = jinja_find(s, separator, from)) != SIZE_MAX; max--) {
        FT_TRY(push_part(r, list, self, from, at));
        from = at + separator.len;
    }
    return push_part(r, list, self, from, s.len);
}

static ft_status rsplit_at(struct jinja_run *r, struct jinja_value list, struct jinja_value self,
                           str separator, int64_t max)
{
    str s = jinja_view(self);
    size_t to = s.len, at;
    FT_TRY(jinja_steps(r, (uint64_t)s.len * separator.len / 64));
    for (; max != 0 && (at = jinja_rfind(s, separator, to)) != SIZE_MAX; max--) {
        FT_TRY(push_part(r, list, self, at + separator.len, to));
        to = at;
    }
    FT_TRY(push_part(r, list, self, 0, to));
    reverse(list.as.seq);
    return FT_OK;
}

static ft_status str_split(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    int64_t max;
    bool right = variant == FROM_RIGHT;
    FT_TRY(int_or(&max, r, a[1], -1));
    FT_TRY(jinja_steps(r, self.as.str->len / 64));
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 0));
    if (a[0].type == JV_MISSING || a[0].type == JV_NONE)
        return right ? rsplit_spaces(r, *out, self, max) : split_spaces(r, *out, self, max);
    FT_TRY(need_str(r, a[0]));
    if (a[0].as.str->len == 0)
        return jinja_raise(r, "empty separator");
    return (right ? rsplit_at : split_at)(r, *out, self, jinja_view(a[0]), max);
}

static ft_status str_partition(struct jinja_value *out, struct jinja_run *r,
                               struct jinja_value self, const struct jinja_value *a, int variant)
{
    FT_TRY(need_str(r, a[0]));
    str s = jinja_view(self), separator = jinja_view(a[0]);
    if (separator.len == 0)
        return jinja_raise(r, "empty separator");
    FT_TRY(jinja_new_seq(out, r, JV_TUPLE, 3));
    size_t at =
        variant == FROM_RIGHT ? jinja_rfind(s, separator, s.len) : jinja_find(s, separator, 0);
    bool found = at != SIZE_MAX;
    size_t cut = found ? at : variant == FROM_RIGHT ? 0 : s.len;
    size_t behind = found ? at + separator.len : cut;
    FT_TRY(push_part(r, *out, self, 0, cut));
    if (found)
        FT_TRY(jinja_push(r, out->as.seq, a[0]));
    else
        FT_TRY(push_part(r, *out, self, cut, cut));
    return push_part(r, *out, self, behind, s.len);
}

/* Python's line ends; \r\n is one. Length at `at`, 0 for other characters. */
static size_t line_end(str s, size_t at)
{
    size_t n;
    if (s.ptr[at] == '\r' && at + 1 < s.len && s.ptr[at + 1] == '\n')
        return 2;
    uint32_t c = str_utf8_next(str_sub(s, at, s.len), &n);
    bool end = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
               c == 0x2029;
    return end ? n : 0;
}

static ft_status str_splitlines(struct jinja_value *out, struct jinja_run *r,
                                struct jinja_value self, const struct jinja_value *a, int variant)
{
    str s = jinja_view(self);
    bool keep = a[0].type != JV_MISSING && jinja_truth(a[0]);
    size_t from = 0;
    (void)variant;
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 0));
    FT_TRY(jinja_steps(r, s.len / 16));
    for (size_t at = 0; at < s.len;) {
        size_t n = line_end(s, at);
        if (n > 0) {
            FT_TRY(push_part(r, *out, self, from, keep ? at + n : at));
            from = at + n;
        }
        at += FT_MAX(n, (size_t)1);
        while (at < s.len && (s.ptr[at] & 0xC0) == 0x80)
            at++;
    }
    return from < s.len ? push_part(r, *out, self, from, s.len) : FT_OK;
}

static ft_status str_join(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                          const struct jinja_value *a, int variant)
{
    struct jinja_builder b = {0};
    struct jinja_iter *it;
    struct jinja_value v;
    bool done;
    (void)variant;
    if (self.flags & JINJA_MARKUP)
        return jinja_unsupported(r, "joining with a safe string");
    FT_TRY(jinja_iterate(&it, r, a[0]));
    for (size_t i = 0;; i++) {
        FT_TRY(jinja_next(r, it, &v, &done));
        if (done)
            return jinja_built(out, r, &b);
        if (v.type != JV_STR)
            return jinja_raise(r, "join: item %zu is no str but %s", i, jinja_type_name(v));
        if (i > 0)
            FT_TRY(jinja_put_str(r, &b, self.as.str));
        FT_TRY(jinja_put_str(r, &b, v.as.str));
    }
}

static ft_status str_replace(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                             const struct jinja_value *a, int variant)
{
    struct jinja_value old = a[0], new = a[1];
    int64_t count;
    (void)variant;
    FT_TRY(need_str(r, old));
    FT_TRY(need_str(r, new));
    FT_TRY(int_or(&count, r, a[2], -1));
    if (self.flags & JINJA_MARKUP) { /* safe strings escape what is put into them */
        if (!(old.flags & JINJA_MARKUP))
            FT_TRY(jinja_escape(&old, r, old));
        if (!(new.flags &JINJA_MARKUP))
            FT_TRY(jinja_escape(&new, r, new));
    }
    FT_TRY(jinja_replace(out, r, self, old, new, count));
    out->flags = self.flags;
    return FT_OK;
}

/* --- lists, tuples, ranges, dicts, cyclers --------------------------------------------------- */

static ft_status seq_index(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    bool same = false;
    int64_t n = (int64_t)self.as.seq->n, from, to;
    (void)variant;
    FT_TRY(int_or(&from, r, a[1], 0));
    FT_TRY(int_or(&to, r, a[2], INT64_MAX));
    jinja_slice_bounds(n, &from, &to);
    for (int64_t i = from; i < to; i++) {
        FT_TRY(jinja_equal(&same, r, self.as.seq->items[i], a[0]));
        if (same) {
            *out = jinja_int(i);
            return FT_OK;
        }
    }
    return jinja_raise(r, "index: the value is not in the list");
}

static ft_status seq_count(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    bool same;
    *out = jinja_int(0);
    (void)variant;
    for (size_t i = 0; i < self.as.seq->n; i++) {
        FT_TRY(jinja_equal(&same, r, self.as.seq->items[i], a[0]));
        out->as.i += same;
    }
    return FT_OK;
}

static ft_status list_copy(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    (void)a, (void)variant;
    return jinja_collect(out, r, self, JV_LIST);
}

static ft_status dict_get(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                          const struct jinja_value *a, int variant)
{
    struct jinja_value *found;
    (void)variant;
    FT_TRY(jinja_dict_get(&found, r, self.as.dict, a[0]));
    *out = found != NULL ? *found : a[1].type == JV_MISSING ? jinja_none() : a[1];
    return FT_OK;
}

static ft_status dict_view(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int type)
{
    (void)r, (void)a;
    *out = self;
    out->type = (uint8_t)type;
    return FT_OK;
}

static ft_status dict_copy(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                           const struct jinja_value *a, int variant)
{
    (void)a, (void)variant;
    FT_TRY(jinja_new_dict(out, r));
    out->origin = self.origin;
    for (size_t i = 0; i < self.as.dict->n; i++)
        FT_TRY(jinja_dict_set(r, out->as.dict, self.as.dict->items[i].key,
                              self.as.dict->items[i].value));
    return FT_OK;
}

static ft_status cycler_next(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                             const struct jinja_value *a, int reset)
{
    struct jinja_cycler *c = self.as.cycler;
    (void)r, (void)a;
    *out = reset ? jinja_none() : c->items->items[c->position];
    c->position = reset ? 0 : (c->position + 1) % c->items->n;
    return FT_OK;
}

static ft_status loop_cycle(struct jinja_run *r, struct jinja_value *out,
                            const struct jinja_loop *l, const struct jinja_call *call)
{
    if (call->n == 0 || call->n_keywords > 0)
        return jinja_raise(r, "loop.cycle needs at least one item and no names");
    *out = call->args[l->index0 % (int64_t)call->n];
    return FT_OK;
}

/* True when called with other values than the last time. */
static ft_status loop_changed(struct jinja_run *r, struct jinja_value *out, struct jinja_loop *l,
                              const struct jinja_call *call)
{
    struct jinja_value now;
    bool same = false;
    if (call->n_keywords > 0)
        return jinja_raise(r, "loop.changed takes no named arguments");
    FT_TRY(jinja_new_seq(&now, r, JV_TUPLE, call->n));
    for (size_t i = 0; i < call->n; i++)
        FT_TRY(jinja_push(r, now.as.seq, call->args[i]));
    if (l->has_changed)
        FT_TRY(jinja_equal(&same, r, l->changed, now));
    l->has_changed = true;
    l->changed = now;
    *out = jinja_bool(!same);
    return FT_OK;
}

/* --- the table ------------------------------------------------------------------------------- */

static const struct row {
    uint8_t type;
    const char *name;
    const char *signature; /* of jinja_bind; NULL: takes the call as it is */
    size_t n;
    method call;
    int variant;
} rows[] = {
    {JV_STR, "capitalize", "*", 0, str_case, JINJA_TO_CAPITAL},
    {JV_STR, "casefold", "*", 0, str_case, JINJA_TO_FOLDED},
    {JV_STR, "center", "*width,fill=", 2, str_pad, LEFT | RIGHT},
    {JV_STR, "count", "*sub,start=,end=", 3, str_count, 0},
    {JV_STR, "endswith", "*suffix,start=,end=", 3, str_starts_with, RIGHT},
    {JV_STR, "find", "*sub,start=,end=", 3, str_search, 0},
    {JV_STR, "format", NULL, 0, NULL, 0},
    {JV_STR, "index", "*sub,start=,end=", 3, str_search, MUST_BE_THERE},
    {JV_STR, "isalnum", "*", 0, str_is_class, IS_ALNUM},
    {JV_STR, "isalpha", "*", 0, str_is_class, IS_ALPHA},
    {JV_STR, "isascii", "*", 0, str_is_class, IS_ASCII},
    {JV_STR, "isdecimal", "*", 0, str_is_class, IS_DECIMAL},
    {JV_STR, "isdigit", "*", 0, str_is_class, IS_DIGIT},
    {JV_STR, "islower", "*", 0, str_is_case, IS_LOWER},
    {JV_STR, "isnumeric", "*", 0, str_is_class, IS_NUMERIC},
    {JV_STR, "isspace", "*", 0, str_is_class, IS_SPACE},
    {JV_STR, "istitle", "*", 0, str_is_case, IS_TITLE},
    {JV_STR, "isupper", "*", 0, str_is_case, IS_UPPER},
    {JV_STR, "join", "*iterable", 1, str_join, 0},
    {JV_STR, "ljust", "*width,fill=", 2, str_pad, RIGHT},
    {JV_STR, "lower", "*", 0, str_case, JINJA_TO_LOWER},
    {JV_STR, "lstrip", "*chars=", 1, str_strip, LEFT},
    {JV_STR, "partition", "*sep", 1, str_partition, 0},
    {JV_STR, "removeprefix", "*prefix", 1, str_remove, LEFT},
    {JV_STR, "removesuffix", "*suffix", 1, str_remove, RIGHT},
    {JV_STR, "replace", "*old,new,count=", 3, str_replace, 0},
    {JV_STR, "rfind", "*sub,start=,end=", 3, str_search, FROM_RIGHT},
    {JV_STR, "rindex", "*sub,start=,end=", 3, str_search, FROM_RIGHT | MUST_BE_THERE},
    {JV_STR, "rjust", "*width,fill=", 2, str_pad, LEFT},
    {JV_STR, "rpartition", "*sep", 1, str_partition, FROM_RIGHT},
    {JV_STR, "rsplit", "sep=,maxsplit=", 2, str_split, FROM_RIGHT},
    {JV_STR, "rstrip", "*chars=", 1, str_strip, RIGHT},
    {JV_STR, "split", "sep=,maxsplit=", 2, str_split, 0},
    {JV_STR, "splitlines", "keepends=", 1, str_splitlines, 0},
    {JV_STR, "startswith", "*prefix,start=,end=", 3, str_starts_with, LEFT},
    {JV_STR, "strip", "*chars=", 1, str_strip, LEFT | RIGHT},
    {JV_STR, "swapcase", "*", 0, str_case, JINJA_TO_SWAPPED},
    {JV_STR, "title", "*", 0, str_case, JINJA_TO_TITLE},
    {JV_STR, "upper", "*", 0, str_case, JINJA_TO_UPPER},
    {JV_STR, "zfill", "*width", 1, str_zfill, 0},
    {JV_LIST, "copy", "*", 0, list_copy, 0},
    {JV_LIST, "count", "*value", 1, seq_count, 0},
    {JV_LIST, "index", "*value,start=,stop=", 3, seq_index, 0},
    {JV_TUPLE, "count", "*value", 1, seq_count, 0},
    {JV_TUPLE, "index", "*value,start=,stop=", 3, seq_index, 0},
    {JV_DICT, "copy", "*", 0, dict_copy, 0},
    {JV_DICT, "get", "*key,default=", 2, dict_get, 0},
    {JV_DICT, "items", "*", 0, dict_view, JV_ITEMS},
    {JV_DICT, "keys", "*", 0, dict_view, JV_KEYS},
    {JV_DICT, "values", "*", 0, dict_view, JV_VALUES},
    {JV_CYCLER, "next", "*", 0, cycler_next, 0},
    {JV_CYCLER, "reset", "*", 0, cycler_next, 1},
    {JV_LOOP, "cycle", NULL, 0, NULL, 0},
    {JV_LOOP, "changed", NULL, 0, NULL, 0},
};

/* Attributes that exist but are out of reach: those the sandbox forbids, and those not made here.
 */
static const struct {
    uint8_t type;
    const char *unsafe, *others;
} attributes[] = {
    {JV_STR, "", " encode expandtabs format_map isidentifier isprintable maketrans translate "},
    {JV_LIST, " append clear extend insert pop remove reverse sort ", ""},
    {JV_TUPLE, "", ""},
    {JV_DICT, " clear pop popitem setdefault update ", " fromkeys "},
    {JV_RANGE, "", " start stop step index count "},
    {JV_INT, "",
     " real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes "
     "as_integer_ratio "},
    {JV_FLOAT, "", " real imag conjugate is_integer as_integer_ratio hex fromhex "},
    {JV_KEYS, "", " isdisjoint mapping "},
    {JV_VALUES, "", " mapping "},
    {JV_ITEMS, "", " isdisjoint mapping "},
    {JV_ITER, " gi_frame gi_code ", " close send throw gi_running gi_yieldfrom gi_suspended "},
    {JV_JOINER, "", " sep used "},
    {JV_MACRO, "", " explicit_caller "},
    {JV_FUNCTION, "", " fromkeys "},
};

static bool is_word(const char *words, str name)
{
    str all = str_from(words);
    for (size_t at = 1; (at = jinja_find(all, name, at)) != SIZE_MAX; at++)
        if (name.len > 0 && words[at - 1] == ' ' && words[at + name.len] == ' ')
            return true;
    return false;
}

int jinja_method_find(struct jinja_value v, str name)
{
    uint8_t type = v.type == JV_BOOL || v.type == JV_BIG ? JV_INT : v.type;
    if (str_starts(name, STR("__")))
        return str_ends(name, STR("__")) ? JINJA_UNSAFE_ATTRIBUTE : JINJA_NO_ATTRIBUTE;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].type == type && str_is(name, rows[i].name))
            return (int)i;
    for (size_t i = 0; i < ARRAY_LEN(attributes); i++) {
        if (attributes[i].type != type)
            continue;
        if (is_word(attributes[i].unsafe, name))
            return JINJA_UNSAFE_ATTRIBUTE;
        if (is_word(attributes[i].others, name))
            return JINJA_OTHER_ATTRIBUTE;
    }
    return JINJA_NO_ATTRIBUTE;
}

ft_status jinja_method_call(struct jinja_value *out, struct jinja_run *r,
                            const struct jinja_method *m, const struct jinja_call *call)
{
    const struct row *row = &rows[m->id];
    struct jinja_value a[4];
    if (row->signature != NULL) {
        FT_TRY(jinja_bind(a, row->n, r, row->name, row->signature, call));
        return row->call(out, r, m->self, a, row->variant);
    }
    if (m->self.type == JV_STR)
        return jinja_str_format(out, r, m->self, call);
    return strcmp(row->name, "cycle") == 0 ? loop_cycle(r, out, m->self.as.loop, call)
                                           : loop_changed(r, out, m->self.as.loop, call);
}
