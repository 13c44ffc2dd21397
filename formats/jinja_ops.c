/* SPDX-License-Identifier: Apache-2.0
 * Operators, attributes and items of templates, with the rules of Python and of the sandbox. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/jinja_internal.h"

/* --- arithmetic ------------------------------------------------------------------------------ */

static ft_status wrong_types(struct jinja_run *r, int op, struct jinja_value a,
                             struct jinja_value b)
{
    if (a.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, a);
    if (b.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, b);
    return jinja_raise(r, "'%s' cannot be applied to %s and %s",
                       jinja_token_name((enum jinja_token_type)op), jinja_type_name(a),
                       jinja_type_name(b));
}

static ft_status too_large(struct jinja_run *r)
{
    return jinja_unsupported(r, "integers beyond 64 bits");
}

static ft_status zero_division(struct jinja_run *r)
{
    return jinja_raise(r, "division by zero");
}

/* Remainder with the sign of the divisor. */
static int64_t int_mod(int64_t a, int64_t b)
{
    if (b == -1)
        return 0;
    int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static ft_status int_power(struct jinja_value *out, struct jinja_run *r, int64_t a, int64_t b)
{
    int64_t v = 1;
    if (a == 0 || a == 1 || a == -1) {
        *out = jinja_int(b == 0 || a == 1 ? 1 : a == 0 ? 0 : b % 2 == 0 ? 1 : -1);
        return FT_OK;
    }
    for (; b > 0; b--)
        if (__builtin_mul_overflow(v, a, &v))
            return too_large(r);
    *out = jinja_int(v);
    return FT_OK;
}

static ft_status int_divide(struct jinja_value *out, struct jinja_run *r, int64_t a, int64_t b)
{
    const int64_t exact = (int64_t)1 << 53;
    if (b == 0)
        return zero_division(r);
    if (a > exact || a < -exact || b > exact || b < -exact)
        return jinja_unsupported(r, "dividing integers beyond 2^53");
    *out = jinja_float((double)a / (double)b);
    return FT_OK;
}

static ft_status int_floor_divide(struct jinja_value *out, struct jinja_run *r, int64_t a,
                                  int64_t b)
{
    if (b == 0)
        return zero_division(r);
    if (b == -1)
        return a == INT64_MIN ? too_large(r) : (*out = jinja_int(-a), FT_OK);
    *out = jinja_int(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
    return FT_OK;
}

static ft_status float_operation(struct jinja_value *out, struct jinja_run *r, int op, double a,
                                 double b);

static ft_status int_operation(struct jinja_value *out, struct jinja_run *r, int op, int64_t a,
                               int64_t b)
{
    int64_t v = 0;
    bool overflow = false;
    switch (op) {
    case JT_ADD:
        overflow = __builtin_add_overflow(a, b, &v);
        break;
    case JT_SUB:
        overflow = __builtin_sub_overflow(a, b, &v);
        break;
    case JT_MUL:
        overflow = __builtin_mul_overflow(a, b, &v);
        break;
    case JT_MOD:
        if (b == 0)
            return zero_division(r);
        v = int_mod(a, b);
        break;
    case JT_FLOORDIV:
        return int_floor_divide(out, r, a, b);
    case JT_DIV:
        return int_divide(out, r, a, b);
    default:
        if (b >= 0)
            return int_power(out, r, a, b);
        return float_operation(out, r, op, (double)a, (double)b);
    }
    *out = jinja_int(v);
    return overflow ? too_large(r) : FT_OK;
}

/* Quotient and remainder as CPython rounds them. */
static void float_divmod(double a, double b, double *quotient, double *remainder)
{
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    double whole = copysign(0, a / b);
    if (div != 0) {
        whole = floor(div);
        if (div - whole > 0.5)
            whole += 1;
    }
    *quotient = whole;
    *remainder = mod;
}

static ft_status float_power(struct jinja_value *out, struct jinja_run *r, double a, double b)
{
    if (a == 0 && b < 0)
        return zero_division(r);
    if (a < 0 && b != floor(b) && b - b == 0)
        return jinja_unsupported(r, "complex numbers");
    double v = pow(a, b);
    if (v - v != 0 && a - a == 0 && b - b == 0)
        return jinja_raise(r, "the result of ** is too large");
    *out = jinja_float(v);
    return FT_OK;
}

static ft_status float_operation(struct jinja_value *out, struct jinja_run *r, int op, double a,
                                 double b)
{
    double quotient, remainder;
    if (op == JT_POW)
        return float_power(out, r, a, b);
    if (op == JT_ADD || op == JT_SUB || op == JT_MUL) {
        *out = jinja_float(op == JT_ADD ? a + b : op == JT_SUB ? a - b : a * b);
        return FT_OK;
    }
    if (b == 0)
        return zero_division(r);
    float_divmod(a, b, &quotient, &remainder);
    *out = jinja_float(op == JT_DIV ? a / b : op == JT_MOD ? remainder : quotient);
    return FT_OK;
}

static ft_status join_seqs(struct jinja_value *out, struct jinja_run *r, struct jinja_value a,
                           struct jinja_value b)
{
    const struct jinja_seq *x = a.as.seq, *y = b.as.seq;
    FT_TRY(jinja_steps(r, x->n + y->n));
    FT_TRY(jinja_new_seq(out, r, (enum jinja_type)a.type, x->n + y->n));
    for (size_t i = 0; i < x->n; i++)
        FT_TRY(jinja_push(r, out->as.seq, x->items[i]));
    for (size_t i = 0; i < y->n; i++)
        FT_TRY(jinja_push(r, out->as.seq, y->items[i]));
    return FT_OK;
}

static ft_status repeat(struct jinja_value *out, struct jinja_run *r, struct jinja_value v,
                        int64_t times)
{
    struct jinja_builder b = {0};
    if (v.type == JV_STR) {
        if (v.flags & JINJA_MARKUP)
            return jinja_unsupported(r, "repeating a safe string");
        for (int64_t i = 0; i < times && v.as.str->len > 0; i++) {
            FT_TRY(jinja_steps(r, 1));
            FT_TRY(jinja_put_str(r, &b, v.as.str));
        }
        return jinja_built(out, r, &b);
    }
    FT_TRY(jinja_new_seq(out, r, (enum jinja_type)v.type, 0));
    for (int64_t i = 0; i < times && v.as.seq->n > 0; i++) {
        FT_TRY(jinja_steps(r, v.as.seq->n));
        for (size_t k = 0; k < v.as.seq->n; k++)
            FT_TRY(jinja_push(r, out->as.seq, v.as.seq->items[k]));
    }
    return FT_OK;
}

static bool is_sequence(struct jinja_value v)
{
    return v.type == JV_STR || v.type == JV_LIST || v.type == JV_TUPLE;
}

/* Views that behave like sets. */
static bool is_set(struct jinja_value v)
{
    return v.type == JV_KEYS || v.type == JV_ITEMS;
}

ft_status jinja_binary(struct jinja_value *out, struct jinja_run *r, int op, struct jinja_value a,
                       struct jinja_value b)
{
    ft_status st;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        st = a.type == JV_FLOAT || b.type == JV_FLOAT
                 ? float_operation(out, r, op, jinja_to_float(a), jinja_to_float(b))
                 : int_operation(out, r, op, jinja_to_int(a), jinja_to_int(b));
    } else if (op == JT_MOD && a.type == JV_STR) {
        return jinja_percent(out, r, a, b);
    } else if (a.type == JV_BIG || b.type == JV_BIG) {
        return too_large(r);
    } else if (op == JT_ADD && a.type == JV_STR && b.type == JV_STR) {
        return jinja_concat(out, r, a, b);
    } else if (op == JT_ADD && a.type == b.type && is_sequence(a)) {
        st = join_seqs(out, r, a, b);
    } else if (op == JT_MUL && is_sequence(a) && jinja_is_int(b)) {
        st = repeat(out, r, a, jinja_to_int(b));
    } else if (op == JT_MUL && jinja_is_int(a) && is_sequence(b)) {
        st = repeat(out, r, b, jinja_to_int(a));
    } else if (op == JT_SUB && (is_set(a) || is_set(b)) && jinja_can_iterate(a) &&
               jinja_can_iterate(b)) {
        return jinja_unsupported(r, "differences of views of dicts");
    } else {
        return wrong_types(r, op, a, b);
    }
    if (st == FT_OK)
        out->origin = jinja_mix(a.origin, b.origin);
    return st;
}

ft_status jinja_negate(struct jinja_value *out, struct jinja_run *r, bool minus,
                       struct jinja_value v)
{
    if (v.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, v);
    if (v.type == JV_FLOAT) {
        *out = jinja_float(minus ? -v.as.f : v.as.f);
    } else if (jinja_is_int(v)) {
        int64_t i = jinja_to_int(v);
        if (minus && i == INT64_MIN)
            return too_large(r);
        *out = jinja_int(minus ? -i : i);
    } else {
        return v.type == JV_BIG ? too_large(r)
                                : jinja_raise(r, "a %s has no sign", jinja_type_name(v));
    }
    out->origin = v.origin;
    return FT_OK;
}

/* --- slices ---------------------------------------------------------------------------------- */

void jinja_slice_bounds(int64_t n, int64_t *from, int64_t *to)
{
    int64_t *bounds[] = {from, to};
    for (int i = 0; i < 2; i++) {
        int64_t v = *bounds[i];
        v = v < -n ? 0 : v < 0 ? v + n : v;
        *bounds[i] = FT_MIN(v, n);
    }
}

struct span {
    int64_t start, stop, step, count;
};

static ft_status slice_number(int64_t *out, struct jinja_run *r, struct jinja_value v,
                              int64_t fallback)
{
    *out = v.type == JV_NONE ? fallback : 0;
    if (v.type == JV_NONE)
        return FT_OK;
    if (v.type == JV_UNDEFINED || !jinja_is_int(v))
        return jinja_raise(r, "slice bounds are integers, not %s", jinja_type_name(v));
    *out = jinja_to_int(v);
    return FT_OK;
}

/* PySlice_AdjustIndices, for a sequence of n items. */
static ft_status resolve_slice(struct span *out, struct jinja_run *r, int64_t n,
                               const struct jinja_value parts[3])
{
    int64_t start, stop, step;
    FT_TRY(slice_number(&step, r, parts[2], 1));
    if (step == 0)
        return jinja_raise(r, "the step of a slice cannot be 0");
    FT_TRY(slice_number(&start, r, parts[0], step > 0 ? 0 : INT64_MAX));
    FT_TRY(slice_number(&stop, r, parts[1], step > 0 ? INT64_MAX : INT64_MIN));
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (start < 0 && parts[0].type != JV_NONE)
        start = start < -n ? low : start + n;
    if (stop < 0 && parts[1].type != JV_NONE)
        stop = stop < -n ? low : stop + n;
    start = FT_MAX(FT_MIN(start, high), low);
    stop = FT_MAX(FT_MIN(stop, high), low);
    int64_t distance = step > 0 ? stop - start : start - stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    *out = (struct span){start, stop, step,
                         distance <= 0 ? 0 : (int64_t)(((uint64_t)distance - 1) / stride + 1)};
    return FT_OK;
}

/* Forward slices of step 1 share the text; others copy character by character. */
static ft_status slice_text(struct jinja_value *out, struct jinja_run *r, struct jinja_value s,
                            struct span span, int64_t n)
{
    struct jinja_builder b = {0};
    str text = jinja_view(s);
    uint32_t *offsets;
    if (span.step == 1 || span.count == 0) {
        size_t from = jinja_char_offset(text, (size_t)span.start);
        size_t len = jinja_char_offset(str_sub(text, from, text.len), (size_t)span.count);
        return jinja_substring(out, r, s, span.count == 0 ? 0 : from,
                               span.count == 0 ? 0 : from + len);
    }
    FT_TRY(jinja_new(&offsets, r, (size_t)n + 1, sizeof *offsets));
    size_t k = 0;
    for (size_t i = 0; i < text.len; i++)
        if ((text.ptr[i] & 0xC0) != 0x80)
            offsets[k++] = (uint32_t)i;
    offsets[k] = (uint32_t)text.len;
    for (int64_t i = 0; i < span.count; i++) {
        int64_t at = span.start + i * span.step;
        FT_TRY(jinja_steps(r, 1));
        FT_TRY(jinja_put_sub(r, &b, s.as.str, offsets[at], offsets[at + 1]));
    }
    FT_TRY(jinja_built(out, r, &b));
    out->flags = s.flags;
    return FT_OK;
}

static ft_status slice_seq(struct jinja_value *out, struct jinja_run *r, struct jinja_value v,
                           struct span span)
{
    FT_TRY(jinja_steps(r, (uint64_t)span.count));
    FT_TRY(jinja_new_seq(out, r, (enum jinja_type)v.type, (size_t)span.count));
    for (int64_t i = 0; i < span.count; i++)
        FT_TRY(jinja_push(r, out->as.seq, v.as.seq->items[span.start + i * span.step]));
    out->origin = v.origin;
    return FT_OK;
}

bool jinja_can_slice(struct jinja_value v)
{
    return is_sequence(v) || v.type == JV_RANGE;
}

ft_status jinja_slice(struct jinja_value *out, struct jinja_run *r, struct jinja_value object,
                      const struct jinja_value parts[3])
{
    struct span span = {0};
    int64_t n;
    if (object.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, object);
    if (!jinja_can_slice(object))
        return jinja_raise(r, "a %s cannot be sliced", jinja_type_name(object));
    FT_TRY(jinja_length(&n, r, object));
    FT_TRY(resolve_slice(&span, r, n, parts));
    if (object.type == JV_STR)
        return slice_text(out, r, object, span, n);
    if (object.type != JV_RANGE)
        return slice_seq(out, r, object, span);
    const struct jinja_range *g = object.as.range;
    int64_t start, stop, step;
    if (__builtin_mul_overflow(g->step, span.step, &step) ||
        __builtin_mul_overflow(g->step, span.start, &start) ||
        __builtin_add_overflow(start, g->start, &start) ||
        __builtin_mul_overflow(g->step, span.stop, &stop) ||
        __builtin_add_overflow(stop, g->start, &stop))
        return too_large(r);
    return jinja_new_range(out, r, start, stop, step);
}

/* --- items and attributes -------------------------------------------------------------------- */

/* Item by number, as Python finds it; *found false outside. */
static ft_status item_at(struct jinja_value *out, bool *found, struct jinja_run *r,
                         struct jinja_value object, int64_t i)
{
    int64_t n;
    FT_TRY(jinja_length(&n, r, object));
    i += i < 0 ? n : 0;
    *found = i >= 0 && i < n;
    if (!*found)
        return FT_OK;
    if (object.type == JV_RANGE) {
        *out = jinja_int(object.as.range->start + i * object.as.range->step);
        return FT_OK;
    }
    if (object.type != JV_STR) {
        *out = object.as.seq->items[i];
        return FT_OK;
    }
    str text = jinja_view(object);
    size_t from = jinja_char_offset(text, (size_t)i);
    size_t len = jinja_char_offset(str_sub(text, from, text.len), 1);
    return jinja_substring(out, r, object, from, from + len);
}

/* object[key] of Python; *found false for the errors that the sandbox swallows. */
static ft_status subscript(struct jinja_value *out, bool *found, struct jinja_run *r,
                           struct jinja_value object, struct jinja_value key)
{
    struct jinja_value *value;
    *found = false;
    if (object.type == JV_DICT) {
        if (key.type == JV_LIST || key.type == JV_DICT || key.type == JV_KEYS ||
            key.type == JV_ITEMS)
            return FT_OK;
        FT_TRY(jinja_dict_get(&value, r, object.as.dict, key));
        *found = value != NULL;
        if (*found)
            *out = *value;
        return FT_OK;
    }
    bool numbered = is_sequence(object) || object.type == JV_RANGE;
    return numbered && jinja_is_int(key) ? item_at(out, found, r, object, jinja_to_int(key))
                                         : FT_OK;
}

static ft_status method_value(struct jinja_value *out, struct jinja_run *r, struct jinja_value self,
                              int id)
{
    struct jinja_method *m;
    FT_TRY(jinja_new(&m, r, 1, sizeof *m));
    *m = (struct jinja_method){self, id};
    *out = (struct jinja_value){.type = JV_METHOD, .as.method = m};
    return FT_OK;
}

static ft_status cycler_attribute(struct jinja_value *out, bool *found,
                                  const struct jinja_cycler *c, str name)
{
    *found = true;
    if (str_is(name, "current"))
        *out = c->items->items[c->position];
    else if (str_is(name, "pos"))
        *out = jinja_int((int64_t)c->position);
    else if (str_is(name, "items"))
        *out = (struct jinja_value){.type = JV_TUPLE, .as.seq = c->items};
    else
        *found = false;
    return FT_OK;
}

static ft_status macro_attribute(struct jinja_value *out, bool *found, struct jinja_run *r,
                                 const struct jinja_macro *m, str name)
{
    const struct jinja_function *f = m->function;
    struct jinja_value param;
    *found = true;
    if (str_is(name, "name")) {
        if (f->name.len == 0) {
            *out = jinja_none();
            return FT_OK;
        }
        return jinja_new_text(out, r, f->name, JINJA_TEMPLATE);
    }
    if (str_is(name, "arguments")) {
        FT_TRY(jinja_new_seq(out, r, JV_TUPLE, f->n_params));
        for (size_t i = 0; i < f->n_params; i++) {
            FT_TRY(jinja_new_text(&param, r, f->params[i]->text, JINJA_TEMPLATE));
            FT_TRY(jinja_push(r, out->as.seq, param));
        }
        return FT_OK;
    }
    if (str_is(name, "caller"))
        *out = jinja_bool(f->takes_caller);
    else if (str_is(name, "catch_kwargs"))
        *out = jinja_bool(f->takes_kwargs);
    else if (str_is(name, "catch_varargs"))
        *out = jinja_bool(f->takes_varargs);
    else
        *found = false;
    return FT_OK;
}

/* getattr(object, name) of Python, seen through the sandbox: *found, and then perhaps an undefined
 * value for what it forbids. */
static ft_status attribute(struct jinja_value *out, bool *found, struct jinja_run *r,
                           struct jinja_value object, str name)
{
    struct jinja_value *value;
    char text[200];
    *found = false;
    if (object.type == JV_LOOP)
        FT_TRY(jinja_loop_attribute(out, found, r, object.as.loop, name));
    else if (object.type == JV_CYCLER)
        FT_TRY(cycler_attribute(out, found, object.as.cycler, name));
    else if (object.type == JV_MACRO)
        FT_TRY(macro_attribute(out, found, r, object.as.macro, name));
    if (*found)
        return FT_OK;
    if (object.type == JV_NAMESPACE) {
        value = jinja_dict_at(object.as.dict, name);
        *found = value != NULL;
        if (*found)
            *out = *value;
        return FT_OK;
    }
    if ((object.flags & JINJA_GROUP) && (str_is(name, "grouper") || str_is(name, "list"))) {
        *found = true;
        *out = object.as.seq->items[str_is(name, "list")];
        return FT_OK;
    }
    int id = jinja_method_find(object, name);
    if (id == JINJA_NO_ATTRIBUTE)
        return FT_OK;
    *found = true;
    if (id == JINJA_UNSAFE_ATTRIBUTE)
        return jinja_undefined_name(out, r, jinja_type_name(object), name, true);
    if (id != JINJA_OTHER_ATTRIBUTE)
        return method_value(out, r, object, id);
    snprintf(text, sizeof text, "the attribute '%.*s' of %s", (int)FT_MIN(name.len, (size_t)80),
             name.ptr, jinja_type_name(object));
    return jinja_unsupported(r, text);
}

/* The name of an attribute outlives the value it was read from, as everything does. */
ft_status jinja_getattr(struct jinja_value *out, struct jinja_run *r, struct jinja_value object,
                        str name)
{
    struct jinja_value *value;
    bool found;
    if (object.type == JV_UNDEFINED && jinja_method_find(object, name) != JINJA_UNSAFE_ATTRIBUTE)
        return jinja_raise_undefined(r, object);
    FT_TRY(attribute(out, &found, r, object, name));
    if (found)
        return FT_OK;
    value = object.type == JV_DICT ? jinja_dict_at(object.as.dict, name) : NULL;
    if (value == NULL)
        return jinja_undefined_name(out, r, jinja_type_name(object), name, false);
    *out = *value;
    return FT_OK;
}

ft_status jinja_getitem(struct jinja_value *out, struct jinja_run *r, struct jinja_value object,
                        struct jinja_value key)
{
    bool found;
    if (object.type == JV_UNDEFINED)
        return jinja_raise_undefined(r, object);
    FT_TRY(subscript(out, &found, r, object, key));
    if (!found && key.type == JV_STR)
        FT_TRY(attribute(out, &found, r, object, jinja_view(key)));
    if (found)
        return FT_OK;
    if (key.type == JV_STR)
        return jinja_undefined_name(out, r, jinja_type_name(object), jinja_view(key), false);
    struct jinja_builder b = {0};
    FT_TRY(jinja_put(r, &b, STR("["), JINJA_TEMPLATE));
    FT_TRY(key.type < JV_LIST ? jinja_put_repr(r, &b, key) : FT_OK);
    FT_TRY(jinja_put(r, &b, STR("]"), JINJA_TEMPLATE));
    return jinja_undefined_name(out, r, jinja_type_name(object), (str){b.data, b.len}, false);
}
