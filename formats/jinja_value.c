/* SPDX-License-Identifier: Apache-2.0
 * Values of templates: making, truth, equality and order as in Python. */
#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "formats/jinja_internal.h"

/* --- making ---------------------------------------------------------------------------------- */

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.type = JV_NONE};
}

struct jinja_value jinja_bool(bool b)
{
    return (struct jinja_value){.type = JV_BOOL, .as.b = b};
}

struct jinja_value jinja_int(int64_t i)
{
    return (struct jinja_value){.type = JV_INT, .as.i = i};
}

struct jinja_value jinja_float(double f)
{
    return (struct jinja_value){.type = JV_FLOAT, .as.f = f};
}

struct jinja_value jinja_missing(void)
{
    return (struct jinja_value){.type = JV_MISSING};
}

static ft_status new_undefined(struct jinja_value *out, struct jinja_run *r,
                               struct jinja_undefined why)
{
    struct jinja_undefined *u;
    FT_TRY(jinja_new(&u, r, 1, sizeof *u));
    *u = why;
    *out = (struct jinja_value){.type = JV_UNDEFINED, .as.undefined = u};
    return FT_OK;
}

ft_status jinja_undefined(struct jinja_value *out, struct jinja_run *r, const char *hint)
{
    return new_undefined(out, r, (struct jinja_undefined){.hint = hint});
}

ft_status jinja_undefined_name(struct jinja_value *out, struct jinja_run *r, const char *owner,
                               str name, bool unsafe)
{
    return new_undefined(out, r,
                         (struct jinja_undefined){.name = name, .owner = owner, .unsafe = unsafe});
}

ft_status jinja_raise_undefined(struct jinja_run *r, struct jinja_value v)
{
    const struct jinja_undefined *u = v.as.undefined;
    if (u->hint != NULL)
        return jinja_raise(r, "%s", u->hint);
    if (u->unsafe)
        return jinja_raise(r, "access to attribute '%.*s' of a %s is unsafe", STR_ARG(u->name),
                           u->owner);
    if (u->owner == NULL)
        return jinja_raise(r, "'%.*s' is undefined", STR_ARG(u->name));
    return jinja_raise(r, "%s has no attribute '%.*s'", u->owner, STR_ARG(u->name));
}

ft_status jinja_new_seq(struct jinja_value *out, struct jinja_run *r, enum jinja_type type,
                        size_t cap)
{
    struct jinja_seq *s;
    FT_TRY(jinja_new(&s, r, 1, sizeof *s));
    FT_TRY(jinja_new(&s->items, r, cap, sizeof *s->items));
    s->cap = cap;
    *out = (struct jinja_value){.type = (uint8_t)type, .as.seq = s};
    return FT_OK;
}

ft_status jinja_push(struct jinja_run *r, struct jinja_seq *s, struct jinja_value v)
{
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 4 : s->cap * 2;
        struct jinja_value *grown;
        FT_TRY(jinja_new(&grown, r, cap, sizeof *grown));
        if (s->n > 0)
            memcpy(grown, s->items, s->n * sizeof *grown);
        s->items = grown;
        s->cap = cap;
    }
    s->items[s->n++] = v;
    return FT_OK;
}

ft_status jinja_pair(struct jinja_value *out, struct jinja_run *r, struct jinja_value a,
                     struct jinja_value b)
{
    FT_TRY(jinja_new_seq(out, r, JV_TUPLE, 2));
    FT_TRY(jinja_push(r, out->as.seq, a));
    return jinja_push(r, out->as.seq, b);
}

/* --- kinds ----------------------------------------------------------------------------------- */

const char *jinja_type_name(struct jinja_value v)
{
    static const char *const names[] = {
        [JV_UNDEFINED] = "Undefined",
        [JV_NONE] = "None",
        [JV_BOOL] = "bool",
        [JV_INT] = "int",
        [JV_BIG] = "int",
        [JV_FLOAT] = "float",
        [JV_STR] = "str",
        [JV_LIST] = "list",
        [JV_TUPLE] = "tuple",
        [JV_DICT] = "dict",
        [JV_RANGE] = "range",
        [JV_KEYS] = "dict_keys",
        [JV_VALUES] = "dict_values",
        [JV_ITEMS] = "dict_items",
        [JV_ITER] = "generator",
        [JV_NAMESPACE] = "Namespace",
        [JV_MACRO] = "Macro",
        [JV_LOOP] = "LoopContext",
        [JV_CYCLER] = "Cycler",
        [JV_JOINER] = "Joiner",
        [JV_FUNCTION] = "function",
        [JV_METHOD] = "method",
        [JV_MISSING] = "missing",
    };
    return names[v.type];
}

bool jinja_is_int(struct jinja_value v)
{
    return v.type == JV_INT || v.type == JV_BOOL;
}

int64_t jinja_to_int(struct jinja_value v)
{
    return v.type == JV_BOOL ? v.as.b : v.as.i;
}

bool jinja_is_number(struct jinja_value v)
{
    return jinja_is_int(v) || v.type == JV_FLOAT;
}

double jinja_to_float(struct jinja_value v)
{
    return v.type == JV_FLOAT ? v.as.f : (double)jinja_to_int(v);
}

bool jinja_truth(struct jinja_value v)
{
    switch (v.type) {
    case JV_UNDEFINED:
    case JV_NONE:
    case JV_MISSING:
        return false;
    case JV_BOOL:
        return v.as.b;
    case JV_INT:
        return v.as.i != 0;
    case JV_FLOAT:
        return v.as.f != 0;
    case JV_STR:
        return v.as.str->len > 0;
    case JV_LIST:
    case JV_TUPLE:
        return v.as.seq->n > 0;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        return v.as.dict->n > 0;
    case JV_RANGE:
        return v.as.range->n > 0;
    default: /* a loop, too: its body only runs when it has items */
        return true;
    }
}

ft_status jinja_length(int64_t *out, struct jinja_run *r, struct jinja_value v)
{
    struct jinja_value length;
    bool found;
    switch (v.type) {
    case JV_UNDEFINED:
        *out = 0;
        return FT_OK;
    case JV_STR:
        *out = (int64_t)jinja_count_chars(jinja_view(v));
        return jinja_steps(r, v.as.str->len / 64);
    case JV_LIST:
    case JV_TUPLE:
        *out = (int64_t)v.as.seq->n;
        return FT_OK;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        *out = (int64_t)v.as.dict->n;
        return FT_OK;
    case JV_RANGE:
        *out = v.as.range->n;
        return FT_OK;
    case JV_LOOP:
        FT_TRY(jinja_loop_attribute(&length, &found, r, v.as.loop, STR("length")));
        *out = length.as.i;
        return FT_OK;
    default:
        return jinja_raise(r, "a %s has no length", jinja_type_name(v));
    }
}

/* --- equality -------------------------------------------------------------------------------- */

/* -1, 0, 1; 2 when one is NaN. Exact, also where an integer has more bits than a double. */
static int compare_numbers(struct jinja_value a, struct jinja_value b)
{
    if (a.type != JV_FLOAT && b.type != JV_FLOAT) {
        int64_t x = jinja_to_int(a), y = jinja_to_int(b);
        return (x > y) - (x < y);
    }
    if (a.type != JV_FLOAT)
        return b.as.f != b.as.f ? 2 : -compare_numbers(b, a);
    double f = a.as.f;
    if (f != f || (b.type == JV_FLOAT && b.as.f != b.as.f))
        return 2;
    if (b.type == JV_FLOAT)
        return (f > b.as.f) - (f < b.as.f);
    int64_t i = jinja_to_int(b);
    if (f >= 0x1p63)
        return 1;
    if (f < -0x1p63)
        return -1;
    double whole = floor(f);
    if ((int64_t)whole != i)
        return (int64_t)whole > i ? 1 : -1;
    return f > whole;
}

static ft_status equal_seq(bool *out, struct jinja_run *r, const struct jinja_seq *a,
                           const struct jinja_seq *b)
{
    *out = a->n == b->n;
    FT_TRY(jinja_enter_value(r));
    for (size_t i = 0; i < a->n && *out; i++)
        FT_TRY(jinja_equal(out, r, a->items[i], b->items[i]));
    r->value_depth--;
    return FT_OK;
}

static ft_status equal_dict(bool *out, struct jinja_run *r, const struct jinja_dict *a,
                            const struct jinja_dict *b)
{
    struct jinja_value *other;
    *out = a->n == b->n;
    FT_TRY(jinja_enter_value(r));
    for (size_t i = 0; i < a->n && *out; i++) {
        FT_TRY(jinja_dict_get(&other, r, b, a->items[i].key));
        *out = other != NULL;
        if (*out)
            FT_TRY(jinja_equal(out, r, a->items[i].value, *other));
    }
    r->value_depth--;
    return FT_OK;
}

static bool equal_range(const struct jinja_range *a, const struct jinja_range *b)
{
    return a->n == b->n &&
           (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

ft_status jinja_equal(bool *out, struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    FT_TRY(jinja_steps(r, 1));
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = compare_numbers(a, b) == 0;
        return FT_OK;
    }
    if (a.type != b.type) {
        if ((a.type == JV_BIG && b.type == JV_FLOAT) || (b.type == JV_BIG && a.type == JV_FLOAT))
            return jinja_unsupported(r, "comparing integers beyond 64 bits with floats");
        if ((a.type == JV_KEYS && b.type == JV_ITEMS) || (a.type == JV_ITEMS && b.type == JV_KEYS))
            return jinja_unsupported(r, "comparing views of dicts");
        *out = false;
        return FT_OK;
    }
    switch (a.type) {
    case JV_UNDEFINED:
    case JV_NONE:
    case JV_MISSING:
        *out = true;
        return FT_OK;
    case JV_STR:
    case JV_BIG:
        *out = str_eq(jinja_view(a), jinja_view(b));
        return jinja_steps(r, a.as.str->len / 64);
    case JV_LIST:
    case JV_TUPLE:
        return equal_seq(out, r, a.as.seq, b.as.seq);
    case JV_DICT:
        return equal_dict(out, r, a.as.dict, b.as.dict);
    case JV_RANGE:
        *out = equal_range(a.as.range, b.as.range);
        return FT_OK;
    case JV_KEYS:
    case JV_ITEMS:
        return jinja_unsupported(r, "comparing views of dicts");
    case JV_METHOD:
        return jinja_unsupported(r, "comparing methods");
    case JV_VALUES: /* each view is an object of its own */
        *out = false;
        return FT_OK;
    case JV_FUNCTION:
        *out = a.as.id == b.as.id;
        return FT_OK;
    default:
        *out = a.as.iter == b.as.iter;
        return FT_OK;
    }
}

/* --- order ----------------------------------------------------------------------------------- */

static ft_status no_order(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    if (a.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a);
    if (b.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, b);
    return jinja_raise(r, "'%s' is not defined between %s and %s",
                       jinja_token_name((enum jinja_token_type)op), jinja_type_name(a),
                       jinja_type_name(b));
}

static bool holds(int op, int order)
{
    switch (op) {
    case JT_LT:
        return order < 0;
    case JT_LTEQ:
        return order <= 0;
    case JT_GT:
        return order == 1;
    default:
        return order == 0 || order == 1;
    }
}

/* Lists and tuples: the first items that differ decide, else the lengths. */
static ft_status order_seq(bool *out, struct jinja_run *r, int op, const struct jinja_seq *a,
                           const struct jinja_seq *b)
{
    size_t i = 0, n = FT_MIN(a->n, b->n);
    bool same = true;
    FT_TRY(jinja_enter_value(r));
    for (; i < n && same; i += same)
        FT_TRY(jinja_equal(&same, r, a->items[i], b->items[i]));
    if (i < n)
        FT_TRY(jinja_compare(out, r, op, a->items[i], b->items[i]));
    else
        *out = holds(op, (a->n > b->n) - (a->n < b->n));
    r->value_depth--;
    return FT_OK;
}

static int compare_text(str a, str b)
{
    /* UTF-8 keeps the order of code points. */
    int c = memcmp(a.ptr, b.ptr, FT_MIN(a.len, b.len));
    return c != 0 ? (c > 0) - (c < 0) : (a.len > b.len) - (a.len < b.len);
}

static ft_status order(bool *out, struct jinja_run *r, int op, struct jinja_value a,
                       struct jinja_value b)
{
    if (jinja_is_number(a) && jinja_is_number(b)) {
        int c = compare_numbers(a, b);
        *out = c != 2 && holds(op, c);
        return FT_OK;
    }
    if (a.type == JV_BIG || b.type == JV_BIG)
        return jinja_unsupported(r, "ordering integers beyond 64 bits");
    if (a.type == JV_STR && b.type == JV_STR) {
        *out = holds(op, compare_text(jinja_view(a), jinja_view(b)));
        return jinja_steps(r, FT_MIN(a.as.str->len, b.as.str->len) / 64);
    }
    if (a.type == b.type && (a.type == JV_LIST || a.type == JV_TUPLE))
        return order_seq(out, r, op, a.as.seq, b.as.seq);
    if (a.type == b.type && (a.type == JV_KEYS || a.type == JV_ITEMS))
        return jinja_unsupported(r, "comparing views of dicts");
    return no_order(r, op, a, b);
}

static ft_status contains(bool *out, struct jinja_run *r, struct jinja_value item,
                          struct jinja_value container)
{
    struct jinja_value *found, v;
    struct jinja_iter *it;
    bool done;
    if (container.type == JV_STR) {
        if (item.type != JV_STR)
            return jinja_raise(r, "'in <string>' requires a string, not %s", jinja_type_name(item));
        *out = jinja_find(jinja_view(container), jinja_view(item), 0) != SIZE_MAX;
        return jinja_steps(r, container.as.str->len / 64);
    }
    if (container.type == JV_DICT || container.type == JV_KEYS) {
        FT_TRY(jinja_dict_get(&found, r, container.as.dict, item));
        *out = found != NULL;
        return FT_OK;
    }
    FT_TRY(jinja_iterate(&it, r, container));
    for (*out = false; !*out;) {
        FT_TRY(jinja_next(r, it, &v, &done));
        if (done)
            break;
        FT_TRY(jinja_equal(out, r, v, item));
    }
    return FT_OK;
}

ft_status jinja_compare(bool *out, struct jinja_run *r, int op, struct jinja_value a,
                        struct jinja_value b)
{
    switch (op) {
    case JT_EQ:
        return jinja_equal(out, r, a, b);
    case JT_NE:
        FT_TRY(jinja_equal(out, r, a, b));
        *out = !*out;
        return FT_OK;
    case JINJA_IN:
        return contains(out, r, a, b);
    case JINJA_NOT_IN:
        FT_TRY(contains(out, r, a, b));
        *out = !*out;
        return FT_OK;
    default:
        return order(out, r, op, a, b);
    }
}

/* --- dicts ----------------------------------------------------------------------------------- */

ft_status jinja_hash(uint64_t *out, struct jinja_run *r, struct jinja_value v)
{
    uint64_t part;
    switch (v.type) {
    case JV_LIST:
    case JV_DICT:
    case JV_KEYS:
    case JV_ITEMS:
        return jinja_raise(r, "unhashable type: '%s'", jinja_type_name(v));
    case JV_BOOL:
    case JV_INT:
        *out = (uint64_t)jinja_to_int(v) * UINT64_C(0x9E3779B97F4A7C15);
        return FT_OK;
    case JV_FLOAT:
        if (v.as.f == floor(v.as.f) && fabs(v.as.f) < 0x1p62)
            return jinja_hash(out, r, jinja_int((int64_t)v.as.f));
        *out = hash64(&v.as.f, sizeof v.as.f);
        return FT_OK;
    case JV_STR:
    case JV_BIG:
        *out = hash64(v.as.str->ptr, v.as.str->len);
        return jinja_steps(r, v.as.str->len / 64);
    case JV_TUPLE:
        *out = 1;
        FT_TRY(jinja_enter_value(r));
        for (size_t i = 0; i < v.as.seq->n; i++) {
            FT_TRY(jinja_hash(&part, r, v.as.seq->items[i]));
            *out = *out * 31 + part;
        }
        r->value_depth--;
        return FT_OK;
    default:
        *out = v.type;
        return FT_OK;
    }
}

ft_status jinja_new_dict(struct jinja_value *out, struct jinja_run *r)
{
    struct jinja_dict *d;
    FT_TRY(jinja_new(&d, r, 1, sizeof *d));
    *out = (struct jinja_value){.type = JV_DICT, .as.dict = d};
    return FT_OK;
}

/* Position of the key, d->n when it is absent. */
static ft_status lookup(size_t *out, struct jinja_run *r, const struct jinja_dict *d,
                        struct jinja_value key, uint64_t hash)
{
    bool same = false;
    size_t mask = d->n_index - 1;
    *out = d->n;
    if (d->index == NULL) {
        for (size_t i = 0; i < d->n && !same; i++) {
            if (d->items[i].hash != hash)
                continue;
            FT_TRY(jinja_equal(&same, r, d->items[i].key, key));
            *out = same ? i : d->n;
        }
        return FT_OK;
    }
    for (size_t h = (size_t)hash & mask; d->index[h] != 0 && !same; h = (h + 1) & mask) {
        const struct jinja_entry *e = &d->items[d->index[h] - 1];
        if (e->hash != hash)
            continue;
        FT_TRY(jinja_equal(&same, r, e->key, key));
        *out = same ? (size_t)d->index[h] - 1 : d->n;
    }
    return FT_OK;
}

static void add_to_index(struct jinja_dict *d, size_t position)
{
    size_t mask = d->n_index - 1, h = (size_t)d->items[position].hash & mask;
    while (d->index[h] != 0)
        h = (h + 1) & mask;
    d->index[h] = (uint32_t)position + 1;
}

static ft_status grow_dict(struct jinja_run *r, struct jinja_dict *d)
{
    size_t cap = d->cap == 0 ? 4 : d->cap * 2;
    struct jinja_entry *grown;
    FT_TRY(jinja_new(&grown, r, cap, sizeof *grown));
    if (d->n > 0)
        memcpy(grown, d->items, d->n * sizeof *grown);
    d->items = grown;
    d->cap = cap;
    if (cap <= 16)
        return FT_OK;
    FT_TRY(jinja_new(&d->index, r, cap * 2, sizeof *d->index));
    d->n_index = cap * 2;
    for (size_t i = 0; i < d->n; i++)
        add_to_index(d, i);
    return FT_OK;
}

ft_status jinja_dict_set(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key,
                         struct jinja_value v)
{
    uint64_t hash;
    size_t at;
    FT_TRY(jinja_hash(&hash, r, key));
    FT_TRY(lookup(&at, r, d, key, hash));
    if (at < d->n) { /* the first key stays, even if the new one only equals it */
        d->items[at].value = v;
        return FT_OK;
    }
    if (d->n == d->cap)
        FT_TRY(grow_dict(r, d));
    d->items[d->n++] = (struct jinja_entry){key, v, hash};
    if (d->index != NULL)
        add_to_index(d, d->n - 1);
    return FT_OK;
}

ft_status jinja_dict_get(struct jinja_value **out, struct jinja_run *r, const struct jinja_dict *d,
                         struct jinja_value key)
{
    uint64_t hash;
    size_t at;
    *out = NULL;
    FT_TRY(jinja_hash(&hash, r, key));
    FT_TRY(lookup(&at, r, d, key, hash));
    if (at < d->n)
        *out = &d->items[at].value;
    return FT_OK;
}

struct jinja_value *jinja_dict_at(const struct jinja_dict *d, str key)
{
    uint64_t hash = hash64(key.ptr, key.len);
    size_t mask = d->n_index - 1;
    for (size_t i = 0; d->index == NULL && i < d->n; i++)
        if (d->items[i].hash == hash && d->items[i].key.type == JV_STR &&
            str_eq(jinja_view(d->items[i].key), key))
            return &d->items[i].value;
    for (size_t h = (size_t)hash & mask; d->index != NULL && d->index[h] != 0; h = (h + 1) & mask) {
        struct jinja_entry *e = &d->items[d->index[h] - 1];
        if (e->hash == hash && e->key.type == JV_STR && str_eq(jinja_view(e->key), key))
            return &e->value;
    }
    return NULL;
}
