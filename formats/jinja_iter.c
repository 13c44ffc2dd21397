/* SPDX-License-Identifier: Apache-2.0
 * Walking over values of templates. */
#include "formats/jinja_internal.h"

static ft_status next_of_seq(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                             bool *done)
{
    (void)r;
    *done = it->i >= it->n;
    if (!*done)
        *out = it->source.as.seq->items[it->i++];
    return FT_OK;
}

static ft_status next_of_str(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                             bool *done)
{
    str text = jinja_view(it->source);
    size_t n, at = (size_t)it->i;
    *done = at >= text.len;
    if (*done)
        return FT_OK;
    str_utf8_next(str_sub(text, at, text.len), &n);
    it->i += (int64_t)n;
    return jinja_substring(out, r, it->source, at, at + n);
}

static ft_status next_of_range(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                               bool *done)
{
    (void)r;
    const struct jinja_range *g = it->source.as.range;
    *done = it->i >= it->n;
    if (!*done)
        *out = jinja_int(g->start + it->i++ * g->step);
    return FT_OK;
}

static ft_status entry_value(struct jinja_value *out, struct jinja_run *r, uint8_t type,
                             const struct jinja_entry *e)
{
    if (type == JV_ITEMS)
        return jinja_pair(out, r, e->key, e->value);
    *out = type == JV_VALUES ? e->value : e->key;
    return FT_OK;
}

static ft_status next_of_dict(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                              bool *done)
{
    const struct jinja_dict *d = it->source.as.dict;
    *done = it->i >= (int64_t)d->n;
    return *done ? FT_OK : entry_value(out, r, it->source.type, &d->items[it->i++]);
}

static ft_status next_of_nothing(struct jinja_run *r, struct jinja_iter *it,
                                 struct jinja_value *out, bool *done)
{
    (void)r, (void)it, (void)out;
    *done = true;
    return FT_OK;
}

/* Backwards over anything that has an order; i counts down. */
static ft_status next_reversed(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                               bool *done)
{
    *done = it->i <= 0;
    if (*done)
        return FT_OK;
    it->i--;
    switch (it->source.type) {
    case JV_LIST:
    case JV_TUPLE:
        *out = it->source.as.seq->items[it->i];
        return FT_OK;
    case JV_RANGE:
        *out = jinja_int(it->source.as.range->start + it->i * it->source.as.range->step);
        return FT_OK;
    default:
        return entry_value(out, r, it->source.type, &it->source.as.dict->items[it->i]);
    }
}

bool jinja_can_iterate(struct jinja_value v)
{
    switch (v.type) {
    case JV_UNDEFINED:
    case JV_STR:
    case JV_LIST:
    case JV_TUPLE:
    case JV_DICT:
    case JV_RANGE:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
    case JV_ITER:
    case JV_LOOP:
        return true;
    default:
        return false;
    }
}

ft_status jinja_iterate(struct jinja_iter **out, struct jinja_run *r, struct jinja_value v)
{
    struct jinja_iter *it;
    if (v.type == JV_ITER) {
        *out = v.as.iter;
        return FT_OK;
    }
    FT_TRY(jinja_new(&it, r, 1, sizeof *it));
    it->source = v;
    *out = it;
    switch (v.type) {
    case JV_LIST:
    case JV_TUPLE:
        it->n = (int64_t)v.as.seq->n;
        it->next = next_of_seq;
        return FT_OK;
    case JV_STR:
        it->next = next_of_str;
        return FT_OK;
    case JV_RANGE:
        it->n = v.as.range->n;
        it->next = next_of_range;
        return FT_OK;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        it->next = next_of_dict;
        return FT_OK;
    case JV_UNDEFINED:
        it->next = next_of_nothing;
        return FT_OK;
    case JV_LOOP:
        return jinja_unsupported(r, "walking over 'loop' itself");
    default:
        return jinja_raise(r, "a %s cannot be iterated over", jinja_type_name(v));
    }
}

ft_status jinja_next(struct jinja_run *r, struct jinja_iter *it, struct jinja_value *out,
                     bool *done)
{
    *done = true;
    if (it->finished)
        return FT_OK;
    FT_TRY(jinja_steps(r, 1));
    FT_TRY(it->next(r, it, out, done));
    it->finished = *done;
    return FT_OK;
}

ft_status jinja_reversed(struct jinja_iter **out, struct jinja_run *r, struct jinja_value v)
{
    int64_t n;
    switch (v.type) {
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
    case JV_UNDEFINED:
        break;
    default:
        return jinja_raise(r, "a %s cannot be reversed", jinja_type_name(v));
    }
    FT_TRY(jinja_length(&n, r, v));
    FT_TRY(jinja_new(out, r, 1, sizeof **out));
    (*out)->source = v;
    (*out)->i = n;
    (*out)->next = next_reversed;
    return FT_OK;
}

ft_status jinja_collect(struct jinja_value *out, struct jinja_run *r, struct jinja_value v,
                        enum jinja_type type)
{
    struct jinja_iter *it;
    struct jinja_value item;
    bool done;
    FT_TRY(jinja_iterate(&it, r, v));
    FT_TRY(jinja_new_seq(out, r, type, 0));
    out->origin = v.origin;
    for (;;) {
        FT_TRY(jinja_next(r, it, &item, &done));
        if (done)
            return FT_OK;
        FT_TRY(jinja_push(r, out->as.seq, item));
    }
}

struct jinja_value jinja_iter_value(struct jinja_iter *it)
{
    return (struct jinja_value){.type = JV_ITER, .as.iter = it};
}

/* --- ranges ---------------------------------------------------------------------------------- */

ft_status jinja_new_range(struct jinja_value *out, struct jinja_run *r, int64_t start, int64_t stop,
                          int64_t step)
{
    struct jinja_range *g;
    uint64_t span = 0, stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    if (step > 0 && stop > start)
        span = (uint64_t)stop - (uint64_t)start;
    if (step < 0 && stop < start)
        span = (uint64_t)start - (uint64_t)stop;
    uint64_t n = span == 0 ? 0 : (span - 1) / stride + 1;
    if (n > INT64_MAX)
        return jinja_unsupported(r, "ranges of more than 2^63 items");
    FT_TRY(jinja_new(&g, r, 1, sizeof *g));
    *g = (struct jinja_range){start, stop, step, (int64_t)n};
    *out = (struct jinja_value){.type = JV_RANGE, .as.range = g};
    return FT_OK;
}
