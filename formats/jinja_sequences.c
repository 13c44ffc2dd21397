/* SPDX-License-Identifier: Apache-2.0
 * Filters of templates over sequences. Some are generators in Python: they work, and fail, only
 * when they are walked. */
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

/* --- attributes by path ---------------------------------------------------------------------- */

static bool is_given(struct jinja_value v)
{
    return v.type != JV_MISSING && v.type != JV_NONE;
}

static bool is_digits(str s)
{
    size_t n;
    bool all = s.len > 0;
    for (; s.len > 0 && all; s = str_sub(s, n, s.len))
        all = jinja_char(str_utf8_next(s, &n))->flags & JINJA_DIGIT;
    return all;
}

static ft_status follow_part(struct jinja_value *v, struct jinja_run *r, struct jinja_value part)
{
    int64_t i;
    str text = jinja_view(part);
    if (is_digits(text)) {
        if (!str_to_i64(text, &i))
            return jinja_unsupported(r, "such a number in an attribute path");
        part = jinja_int(i);
    }
    return jinja_getitem(v, r, *v, part);
}

/* "a.b.0" from v; what is undefined on the way becomes `otherwise` when that is given. */
static ft_status follow(struct jinja_value *v, struct jinja_run *r, struct jinja_value path,
                        struct jinja_value otherwise)
{
    struct jinja_value part;
    if (!is_given(path))
        return FT_OK;
    if (path.type != JV_STR)
        FT_TRY(jinja_getitem(v, r, *v, path));
    str rest = path.type == JV_STR ? jinja_view(path) : STR("");
    for (size_t from = 0; path.type == JV_STR && from <= rest.len;) {
        const char *dot = from < rest.len ? memchr(rest.ptr + from, '.', rest.len - from) : NULL;
        size_t to = dot == NULL ? rest.len : (size_t)(dot - rest.ptr);
        FT_TRY(jinja_substring(&part, r, path, from, to));
        FT_TRY(follow_part(v, r, part));
        if (v->type == JV_UNDEFINED && is_given(otherwise))
            *v = otherwise;
        from = to + 1;
    }
    if (v->type == JV_UNDEFINED && is_given(otherwise))
        *v = otherwise;
    return FT_OK;
}

/* What an item is compared by. */
static ft_status key_of(struct jinja_value *out, struct jinja_run *r, struct jinja_value item,
                        struct jinja_value path, bool case_sensitive)
{
    *out = item;
    FT_TRY(follow(out, r, path, jinja_missing()));
    return out->type == JV_STR && !case_sensitive ? jinja_recase(out, r, *out, JINJA_TO_LOWER)
                                                  : FT_OK;
}

static bool flag(struct jinja_value v)
{
    return v.type != JV_MISSING && jinja_truth(v);
}

/* --- sorting --------------------------------------------------------------------------------- */

struct keyed {
    struct jinja_value key, item;
};

/* Stable; when `reverse`, equal items keep their order, too. */
static ft_status merge_sort(struct jinja_run *r, struct keyed *v, struct keyed *scratch, size_t n,
                            bool reverse)
{
    size_t half = n / 2, i = 0, k = half, o = 0;
    bool less;
    if (n < 2)
        return FT_OK;
    FT_TRY(merge_sort(r, v, scratch, half, reverse));
    FT_TRY(merge_sort(r, v + half, scratch, n - half, reverse));
    while (i < half && k < n) {
        struct jinja_value a = reverse ? v[i].key : v[k].key, b = reverse ? v[k].key : v[i].key;
        FT_TRY(jinja_compare(&less, r, JT_LT, a, b));
        scratch[o++] = less ? v[k++] : v[i++];
    }
    while (i < half)
        scratch[o++] = v[i++];
    memcpy(v, scratch, o * sizeof *v);
    return FT_OK;
}

static ft_status sort_keyed(struct jinja_run *r, struct keyed *v, size_t n, bool reverse)
{
    struct keyed *scratch;
    FT_TRY(jinja_new(&scratch, r, n, sizeof *scratch));
    return merge_sort(r, v, scratch, n, reverse);
}

/* Commas separate several paths: the key is the list of what they lead to. */
static ft_status sort_key(struct jinja_value *out, struct jinja_run *r, struct jinja_value item,
                          struct jinja_value path, bool case_sensitive)
{
    struct jinja_value part, key;
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 1));
    size_t from = 0, len = path.type == JV_STR ? path.as.str->len : 0;
    do {
        part = path;
        if (path.type == JV_STR) {
            const char *p = path.as.str->ptr;
            const char *comma = from < len ? memchr(p + from, ',', len - from) : NULL;
            size_t to = comma == NULL ? len : (size_t)(comma - p);
            FT_TRY(jinja_substring(&part, r, path, from, to));
            from = to + 1;
        }
        FT_TRY(key_of(&key, r, item, part, case_sensitive));
        FT_TRY(jinja_push(r, out->as.seq, key));
    } while (path.type == JV_STR && from <= len);
    return FT_OK;
}

static ft_status sorted_items(struct jinja_value *out, struct jinja_run *r, struct jinja_value list,
                              const struct keyed *v)
{
    size_t n = list.as.seq->n;
    FT_TRY(jinja_new_seq(out, r, JV_LIST, n));
    out->origin = list.origin;
    for (size_t i = 0; i < n; i++)
        FT_TRY(jinja_push(r, out->as.seq, v[i].item));
    return FT_OK;
}

/* a: value, reverse, case_sensitive, attribute */
ft_status jinja_sort(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_value list;
    struct keyed *v;
    FT_TRY(jinja_collect(&list, r, a[0], JV_LIST));
    size_t n = list.as.seq->n;
    FT_TRY(jinja_new(&v, r, n, sizeof *v));
    for (size_t i = 0; i < n; i++) {
        v[i].item = list.as.seq->items[i];
        FT_TRY(sort_key(&v[i].key, r, v[i].item, a[3], flag(a[2])));
    }
    FT_TRY(sort_keyed(r, v, n, flag(a[1])));
    return sorted_items(out, r, list, v);
}

/* a: value, case_sensitive, by, reverse */
ft_status jinja_dictsort(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_value list, items = a[0];
    struct keyed *v;
    bool by_value = a[2].type == JV_STR && str_is(jinja_view(a[2]), "value");
    if (a[2].type != JV_MISSING && !by_value &&
        !(a[2].type == JV_STR && str_is(jinja_view(a[2]), "key")))
        return jinja_raise(r, "dictsort: sorts by \"key\" or \"value\"");
    if (a[0].type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a[0]);
    if (a[0].type != JV_DICT)
        return jinja_raise(r, "dictsort: a %s is no dict", jinja_type_name(a[0]));
    items.type = JV_ITEMS;
    FT_TRY(jinja_collect(&list, r, items, JV_LIST));
    size_t n = list.as.seq->n;
    FT_TRY(jinja_new(&v, r, n, sizeof *v));
    for (size_t i = 0; i < n; i++) {
        v[i].item = list.as.seq->items[i];
        FT_TRY(key_of(&v[i].key, r, v[i].item.as.seq->items[by_value], jinja_none(), flag(a[1])));
    }
    FT_TRY(sort_keyed(r, v, n, flag(a[3])));
    return sorted_items(out, r, list, v);
}

/* a: value, attribute, default, case_sensitive */
ft_status jinja_groupby(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_value list, group, key;
    struct keyed *v;
    bool same = false, sensitive = flag(a[3]);
    FT_TRY(jinja_collect(&list, r, a[0], JV_LIST));
    size_t n = list.as.seq->n;
    FT_TRY(jinja_new(&v, r, n, sizeof *v));
    for (size_t i = 0; i < n; i++) {
        v[i].item = v[i].key = list.as.seq->items[i];
        FT_TRY(follow(&v[i].key, r, a[1], a[2]));
        if (v[i].key.type == JV_STR && !sensitive)
            FT_TRY(jinja_recase(&v[i].key, r, v[i].key, JINJA_TO_LOWER));
    }
    FT_TRY(sort_keyed(r, v, n, false));
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 0));
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            FT_TRY(jinja_equal(&same, r, v[i - 1].key, v[i].key));
        if (i == 0 || !same) {
            key = v[i].item; /* the key as it stands in the first item */
            FT_TRY(follow(&key, r, a[1], a[2]));
            FT_TRY(jinja_new_seq(&list, r, JV_LIST, 0));
            FT_TRY(jinja_pair(&group, r, key, list));
            group.flags = JINJA_GROUP;
            FT_TRY(jinja_push(r, out->as.seq, group));
        }
        FT_TRY(jinja_push(r, list.as.seq, v[i].item));
    }
    return FT_OK;
}

/* --- one out of many ------------------------------------------------------------------------- */

/* a: value, case_sensitive, attribute. The first of equals wins. */
static ft_status extreme(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a,
                         int op)
{
    struct jinja_iter *it;
    struct jinja_value v, key, best;
    bool done, better;
    FT_TRY(jinja_iterate(&it, r, a[0]));
    FT_TRY(jinja_next(r, it, out, &done));
    if (done)
        return jinja_undefined(out, r, "No aggregated item, sequence was empty.");
    FT_TRY(key_of(&best, r, *out, a[2], flag(a[1])));
    for (;;) {
        FT_TRY(jinja_next(r, it, &v, &done));
        if (done)
            return FT_OK;
        FT_TRY(key_of(&key, r, v, a[2], flag(a[1])));
        FT_TRY(jinja_compare(&better, r, op, key, best));
        if (better) {
            best = key;
            *out = v;
        }
    }
}

ft_status jinja_min(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    return extreme(out, r, a, JT_LT);
}

ft_status jinja_max(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    return extreme(out, r, a, JT_GT);
}

/* a: iterable, attribute, start */
ft_status jinja_sum(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_iter *it;
    struct jinja_value v;
    bool done;
    *out = a[2].type == JV_MISSING ? jinja_int(0) : a[2];
    if (out->type == JV_STR)
        return jinja_raise(r, "sum cannot add strings");
    FT_TRY(jinja_iterate(&it, r, a[0]));
    for (;;) {
        FT_TRY(jinja_next(r, it, &v, &done));
        if (done)
            return FT_OK;
        FT_TRY(follow(&v, r, a[1], jinja_missing()));
        FT_TRY(jinja_binary(out, r, JT_ADD, *out, v));
    }
}

ft_status jinja_first(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_iter *it;
    bool done;
    FT_TRY(jinja_iterate(&it, r, a[0]));
    FT_TRY(jinja_next(r, it, out, &done));
    return done ? jinja_undefined(out, r, "No first item, sequence was empty.") : FT_OK;
}

ft_status jinja_last(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_iter *it;
    bool done;
    if (a[0].type == JV_STR) {
        const struct jinja_value parts[3] = {jinja_int(-1), jinja_none(), jinja_none()};
        if (a[0].as.str->len > 0)
            return jinja_slice(out, r, a[0], parts);
        return jinja_undefined(out, r, "No last item, sequence was empty.");
    }
    FT_TRY(jinja_reversed(&it, r, a[0]));
    FT_TRY(jinja_next(r, it, out, &done));
    return done ? jinja_undefined(out, r, "No last item, sequence was empty.") : FT_OK;
}

/* --- whole sequences ------------------------------------------------------------------------- */

/* a: value, d, attribute */
ft_status jinja_join(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_builder b = {0};
    struct jinja_iter *it;
    struct jinja_value v, separator;
    bool done;
    if (a[1].type == JV_MISSING)
        FT_TRY(jinja_new_text(&separator, r, STR(""), JINJA_TEMPLATE));
    else
        FT_TRY(jinja_to_text(&separator, r, a[1]));
    FT_TRY(jinja_iterate(&it, r, a[0]));
    for (bool first = true;; first = false) {
        FT_TRY(jinja_next(r, it, &v, &done));
        if (done)
            return jinja_built(out, r, &b);
        FT_TRY(follow(&v, r, a[2], jinja_missing()));
        if (!first)
            FT_TRY(jinja_put_str(r, &b, separator.as.str));
        FT_TRY(jinja_put_value(r, &b, v));
    }
}

ft_status jinja_reverse(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    struct jinja_value list;
    struct jinja_iter *it;
    const struct jinja_value backwards[3] = {jinja_none(), jinja_none(), jinja_int(-1)};
    if (a[0].type == JV_STR)
        return jinja_slice(out, r, a[0], backwards);
    if (a[0].type == JV_ITER) {
        FT_TRY(jinja_collect(&list, r, a[0], JV_LIST));
        return jinja_slice(out, r, list, backwards);
    }
    FT_TRY(jinja_reversed(&it, r, a[0]));
    *out = jinja_iter_value(it);
    return FT_OK;
}

/* --- generators ------------------------------------------------------------------------------ */

struct generator {
    struct jinja_value a[4]; /* arguments */
    struct jinja_value list; /* all items, once the generator has begun */
    struct jinja_value seen; /* dict of the keys so far */
    bool begun;
};

static ft_status new_generator(struct jinja_value *out, struct jinja_run *r,
                               const struct jinja_value *a, size_t n_args,
                               ft_status (*next)(struct jinja_run *r, struct jinja_iter *it,
                                                 struct jinja_value *out, bool *done))
{
    struct jinja_iter *it;
    struct generator *g;
    FT_TRY(jinja_new(&it, r, 1, sizeof *it));
    FT_TRY(jinja_new(&g, r, 1, sizeof *g));
    memcpy(g->a, a, n_args * sizeof *a);
    it->next = next;
    it->state = g;
    *out = jinja_iter_value(it);
    return FT_OK;
}

/* a: value, case_sensitive, attribute */
static ft_status next_unique(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                             bool *done)
{
    struct generator *g = it->state;
    struct jinja_value key, *found;
    if (!g->begun) {
        FT_TRY(jinja_new_dict(&g->seen, r));
        FT_TRY(jinja_iterate(&it->inner, r, g->a[0]));
        g->begun = true;
    }
    for (;;) {
        FT_TRY(jinja_next(r, it->inner, out, done));
        if (*done)
            return FT_OK;
        FT_TRY(key_of(&key, r, *out, g->a[2], flag(g->a[1])));
        FT_TRY(jinja_dict_get(&found, r, g->seen.as.dict, key));
        if (found == NULL)
            return jinja_dict_set(r, g->seen.as.dict, key, jinja_none());
    }
}

ft_status jinja_unique(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    return new_generator(out, r, a, 3, next_unique);
}

/* a: value, linecount, fill_with */
static ft_status next_batch(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                            bool *done)
{
    struct generator *g = it->state;
    struct jinja_value v, size = g->a[1];
    bool same = false, more;
    if (!g->begun) {
        FT_TRY(jinja_iterate(&it->inner, r, g->a[0]));
        g->begun = true;
    }
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 0));
    while (!same) {
        FT_TRY(jinja_next(r, it->inner, &v, done));
        if (*done)
            break;
        if (out->as.seq->n == 0 && jinja_is_int(size) && jinja_to_int(size) == 0)
            return jinja_unsupported(r, "batches of nothing");
        FT_TRY(jinja_push(r, out->as.seq, v));
        FT_TRY(jinja_equal(&same, r, jinja_int((int64_t)out->as.seq->n), size));
    }
    more = out->as.seq->n > 0;
    if (*done && more && is_given(g->a[2])) {
        if (!jinja_is_int(size))
            return jinja_raise(r, "batch: the size is an integer, not %s", jinja_type_name(size));
        while ((int64_t)out->as.seq->n < jinja_to_int(size)) {
            FT_TRY(jinja_steps(r, 1));
            FT_TRY(jinja_push(r, out->as.seq, g->a[2]));
        }
    }
    *done = !more;
    return FT_OK;
}

ft_status jinja_batch(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    return new_generator(out, r, a, 3, next_batch);
}

/* a: value, slices, fill_with. it->i: the next slice, it->n: their number. */
static ft_status next_slice(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                            bool *done)
{
    struct generator *g = it->state;
    if (!g->begun) {
        FT_TRY(jinja_collect(&g->list, r, g->a[0], JV_LIST));
        if (!jinja_is_int(g->a[1]))
            return jinja_raise(r, "slice: the number is an integer, not %s",
                               jinja_type_name(g->a[1]));
        it->n = jinja_to_int(g->a[1]);
        if (it->n == 0)
            return jinja_raise(r, "division by zero");
        g->begun = true;
    }
    *done = it->i >= it->n;
    if (*done)
        return FT_OK;
    int64_t n = (int64_t)g->list.as.seq->n, each = n / it->n, extra = n % it->n, at = it->i++;
    int64_t from = at * each + FT_MIN(at, extra), to = from + each + (at < extra);
    FT_TRY(jinja_new_seq(out, r, JV_LIST, 0));
    for (int64_t i = from; i < to; i++)
        FT_TRY(jinja_push(r, out->as.seq, g->list.as.seq->items[i]));
    return is_given(g->a[2]) && at >= extra ? jinja_push(r, out->as.seq, g->a[2]) : FT_OK;
}

ft_status jinja_slices(struct jinja_value *out, struct jinja_run *r, const struct jinja_value *a)
{
    return new_generator(out, r, a, 3, next_slice);
}

/* --- map, select and their kin --------------------------------------------------------------- */

struct lazy {
    enum jinja_lazy mode;
    struct jinja_value source;
    struct jinja_call call;  /* as given */
    struct jinja_call inner; /* for the filter or test */
    struct jinja_value name; /* of the filter or test; JV_MISSING: truth, or a path only */
    struct jinja_value path, otherwise;
    bool begun;
};

static ft_status keyword(struct jinja_value *out, struct lazy *l, const char *name)
{
    *out = jinja_missing();
    for (size_t i = 0; i < l->call.n_keywords; i++)
        if (str_is(l->call.names[i], name))
            *out = l->call.values[i];
    return FT_OK;
}

static ft_status begin_map(struct jinja_run *r, struct lazy *l)
{
    FT_TRY(keyword(&l->path, l, "attribute"));
    if (l->call.n == 0 && l->path.type != JV_MISSING) {
        FT_TRY(keyword(&l->otherwise, l, "default"));
        if (l->call.n_keywords > 1u + (l->otherwise.type != JV_MISSING))
            return jinja_raise(r, "map: an unexpected named argument");
        l->name = jinja_missing();
        return FT_OK;
    }
    if (l->call.n == 0)
        return jinja_raise(r, "map requires a filter argument");
    l->path = jinja_missing();
    l->name = l->call.args[0];
    l->inner = l->call;
    l->inner.args++;
    l->inner.n--;
    return FT_OK;
}

static ft_status begin_select(struct jinja_run *r, struct lazy *l)
{
    bool attribute = l->mode == JINJA_SELECTATTR || l->mode == JINJA_REJECTATTR;
    size_t used = attribute;
    if (l->call.n < used)
        return jinja_raise(r, "the parameter for the attribute's name is missing");
    l->path = attribute ? l->call.args[0] : jinja_missing();
    l->name = l->call.n > used ? l->call.args[used] : jinja_missing();
    used += l->call.n > used;
    l->inner = l->call;
    l->inner.args += used;
    l->inner.n -= used;
    return FT_OK;
}

static ft_status map_item(struct jinja_value *v, struct jinja_run *r, struct lazy *l)
{
    if (l->name.type == JV_MISSING)
        return follow(v, r, l->path, l->otherwise);
    if (l->name.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, l->name);
    return jinja_filter_named(v, r, l->name, *v, &l->inner);
}

static ft_status is_selected(bool *out, struct jinja_run *r, struct lazy *l, struct jinja_value v)
{
    bool wanted = l->mode == JINJA_SELECT || l->mode == JINJA_SELECTATTR;
    FT_TRY(follow(&v, r, l->path, jinja_missing()));
    if (l->name.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, l->name);
    if (l->name.type == JV_MISSING)
        *out = jinja_truth(v);
    else
        FT_TRY(jinja_test_named(out, r, l->name, v, &l->inner));
    *out = *out == wanted;
    return FT_OK;
}

static ft_status next_lazy(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                           bool *done)
{
    struct lazy *l = it->state;
    bool selected = false;
    if (!l->begun) {
        *done = !jinja_truth(l->source);
        if (*done)
            return FT_OK;
        FT_TRY(l->mode == JINJA_MAP ? begin_map(r, l) : begin_select(r, l));
        FT_TRY(jinja_iterate(&it->inner, r, l->source));
        l->begun = true;
    }
    do {
        FT_TRY(jinja_next(r, it->inner, out, done));
        if (*done)
            return FT_OK;
        if (l->mode == JINJA_MAP)
            return map_item(out, r, l);
        FT_TRY(is_selected(&selected, r, l, *out));
    } while (!selected);
    return FT_OK;
}

ft_status jinja_lazy_filter(struct jinja_value *out, struct jinja_run *r, enum jinja_lazy mode,
                            struct jinja_value v, const struct jinja_call *call)
{
    struct jinja_iter *it;
    struct lazy *l;
    FT_TRY(jinja_new(&it, r, 1, sizeof *it));
    FT_TRY(jinja_new(&l, r, 1, sizeof *l));
    *l = (struct lazy){.mode = mode, .source = v, .call = *call, .otherwise = jinja_missing()};
    it->next = next_lazy;
    it->state = l;
    *out = jinja_iter_value(it);
    return FT_OK;
}
