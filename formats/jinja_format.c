/* SPDX-License-Identifier: Apache-2.0
 * Text formatting of templates: the % operator, str.format, strftime, and numbers in strings. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/jinja_internal.h"
#include "formats/jinja_unicode.h"

enum { MAX_WIDTH = 10 * 1000 * 1000, MAX_PRECISION = 300 };

/* What stands between % or : and the letter of a conversion. */
struct spec {
    char fill[4]; /* one character */
    size_t fill_len;
    char align; /* '<', '>', '^', '=' or 0 */
    char sign;  /* '+', ' ' or 0 */
    bool alternate, zero;
    char grouping;            /* ',' or '_' or 0 */
    int64_t width, precision; /* -1 = not given */
    char type;
};

/* --- numbers in text ------------------------------------------------------------------------- */

static str strip_space(str s)
{
    size_t n;
    s = jinja_rstrip_space(s);
    while (s.len > 0 && jinja_is_space(str_utf8_next(s, &n)))
        s = str_sub(s, n, s.len);
    return s;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
}

static int64_t prefix_base(str s)
{
    if (s.len < 2 || s.ptr[0] != '0')
        return 0;
    char c = (char)(s.ptr[1] | 32);
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

static bool has_foreign_digit(str s)
{
    size_t n;
    for (; s.len > 0; s = str_sub(s, n, s.len)) {
        uint32_t c = str_utf8_next(s, &n);
        if (c >= 0x80 && (jinja_char(c)->flags & JINJA_DECIMAL))
            return true;
    }
    return false;
}

ft_status jinja_parse_int(struct jinja_value *out, bool *ok, struct jinja_run *r, str text,
                          int64_t base)
{
    uint64_t v = 0;
    bool negative = false, zero = true;
    *ok = false;
    if (base != 0 && (base < 2 || base > 36))
        return FT_OK;
    if (has_foreign_digit(text))
        return jinja_unsupported(r, "digits outside ASCII");
    str s = strip_space(text);
    if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
        negative = s.ptr[0] == '-';
        s = str_sub(s, 1, s.len);
    }
    int64_t prefix = prefix_base(s);
    bool decimal = base == 0 && prefix == 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
        base = prefix;
        s = str_sub(s, 2, s.len);
        if (s.len > 0 && s.ptr[0] == '_')
            s = str_sub(s, 1, s.len);
    }
    base = base == 0 ? 10 : base;
    str digits = s;
    for (bool digit_before = false; s.len > 0; s = str_sub(s, 1, s.len)) {
        if (s.ptr[0] == '_' && digit_before && s.len > 1) {
            digit_before = false;
            continue;
        }
        int64_t digit = digit_value(s.ptr[0]);
        if (digit >= base)
            return FT_OK;
        digit_before = true;
        zero &= digit == 0;
        if (v > ((uint64_t)INT64_MAX - (uint64_t)digit) / (uint64_t)base)
            return jinja_unsupported(r, "integers beyond 64 bits");
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    /* "010" is no literal, though "00" is. */
    *ok = digits.len > 0 && !(decimal && digits.ptr[0] == '0' && !zero);
    *out = jinja_int(negative ? -(int64_t)v : (int64_t)v);
    return FT_OK;
}

static bool is_word(str s, const char *lower)
{
    if (s.len != strlen(lower))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if ((s.ptr[i] | 32) != lower[i])
            return false;
    return true;
}

/* Copies digits, leaving out single underscores between them; false on others. */
static bool copy_digits(char *dst, size_t *n, str *s)
{
    bool any = false;
    while (s->len > 0) {
        char c = s->ptr[0];
        bool digit = c >= '0' && c <= '9';
        bool between = c == '_' && any && s->len > 1 && s->ptr[1] >= '0' && s->ptr[1] <= '9';
        if (!digit && !between)
            break;
        if (digit)
            dst[(*n)++] = c;
        any = true;
        *s = str_sub(*s, 1, s->len);
    }
    return any;
}

bool jinja_parse_float(double *out, str text)
{
    char number[512];
    size_t n = 0;
    str s = strip_space(text);
    double sign = 1;
    if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
        sign = s.ptr[0] == '-' ? -1 : 1;
        s = str_sub(s, 1, s.len);
    }
    if (is_word(s, "inf") || is_word(s, "infinity") || is_word(s, "nan")) {
        *out = (s.ptr[0] | 32) == 'n' ? (double)NAN : sign * (double)INFINITY;
        return true;
    }
    if (s.len > sizeof number - 8)
        return false;
    bool digits = copy_digits(number, &n, &s);
    if (s.len > 0 && s.ptr[0] == '.') {
        number[n++] = '.';
        s = str_sub(s, 1, s.len);
        digits |= copy_digits(number, &n, &s);
    }
    if (!digits)
        return false;
    if (s.len > 0 && (s.ptr[0] | 32) == 'e') {
        number[n++] = 'e';
        s = str_sub(s, 1, s.len);
        if (s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+')) {
            number[n++] = s.ptr[0];
            s = str_sub(s, 1, s.len);
        }
        if (!copy_digits(number, &n, &s))
            return false;
    }
    number[n] = '\0';
    *out = sign * strtod(number, NULL);
    return s.len == 0;
}

/* --- padding --------------------------------------------------------------------------------- */

static ft_status put_fill(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                          int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        FT_TRY(jinja_put(r, b, (str){f->fill, f->fill_len}, JINJA_TEMPLATE));
    return FT_OK;
}

/* A text of `chars` characters into the width; align 0 means `otherwise`. */
static ft_status put_padded(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                            char otherwise, const struct jinja_str *s, size_t bytes)
{
    int64_t chars = (int64_t)jinja_count_chars((str){s->ptr, bytes});
    int64_t missing = f->width > chars ? f->width - chars : 0;
    char align = f->align == 0 ? otherwise : f->align;
    int64_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    FT_TRY(jinja_steps(r, (uint64_t)missing));
    FT_TRY(put_fill(r, b, f, left));
    FT_TRY(jinja_put_sub(r, b, s, 0, bytes));
    return put_fill(r, b, f, missing - left);
}

static ft_status put_text(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                          struct jinja_value text, char otherwise)
{
    size_t bytes = text.as.str->len;
    if (f->precision >= 0)
        bytes = jinja_char_offset(jinja_view(text), (size_t)f->precision);
    return put_padded(r, b, f, otherwise, text.as.str, bytes);
}

/* Groups of three digits (four for b, o, x) before the point. */
static size_t group_digits(char *text, size_t cap, char separator, size_t every)
{
    char out[512];
    size_t whole = strspn(text, "0123456789abcdefABCDEF"), n = 0;
    for (size_t i = 0; text[i] != '\0' && n + 2 < sizeof out; i++) {
        if (i > 0 && i < whole && (whole - i) % every == 0)
            out[n++] = separator;
        out[n++] = text[i];
    }
    out[n] = '\0';
    snprintf(text, cap, "%s", out);
    return n;
}

/* sign, prefix and digits of a number, with zeros between when asked for. */
static ft_status put_number(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                            bool negative, const char *prefix, char *digits, uint32_t origin)
{
    char text[640];
    struct jinja_value v;
    const char *sign = negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    int64_t used = (int64_t)(strlen(sign) + strlen(prefix) + strlen(digits));
    if (f->align == '=' || (f->zero && f->align == 0)) {
        struct spec zeros = *f;
        if (f->zero && f->align == 0)
            zeros.fill[0] = '0', zeros.fill_len = 1;
        snprintf(text, sizeof text, "%s%s", sign, prefix);
        FT_TRY(jinja_put(r, b, str_from(text), origin));
        FT_TRY(jinja_steps(r, (uint64_t)FT_MAX(f->width, (int64_t)0)));
        FT_TRY(put_fill(r, b, &zeros, f->width - used));
        return jinja_put(r, b, str_from(digits), origin);
    }
    snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    FT_TRY(jinja_copy_text(&v, r, str_from(text), origin));
    return put_padded(r, b, f, '>', v.as.str, v.as.str->len);
}

static void int_digits(char digits[72], uint64_t v, unsigned base, bool upper)
{
    char reversed[72];
    size_t n = 0;
    do
        reversed[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
    while ((v /= base) != 0);
    for (size_t i = 0; i < n; i++)
        digits[i] = reversed[n - 1 - i];
    digits[n] = '\0';
}

static ft_status put_int(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                         struct jinja_value v, int64_t min_digits)
{
    char digits[512], plain[72];
    char type = (char)(f->type | 32);
    unsigned base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
    int64_t i = jinja_to_int(v);
    int_digits(plain, i < 0 ? 0 - (uint64_t)i : (uint64_t)i, base, f->type == 'X');
    int zeros = (int)(min_digits - (int64_t)strlen(plain));
    snprintf(digits, sizeof digits, "%.*s%s", FT_MAX(zeros, 0),
             "0000000000000000000000000000000000000000000000000000000000000000000000000000", plain);
    if (f->grouping != 0)
        group_digits(digits, sizeof digits, f->grouping, base == 10 ? 3 : 4);
    const char *prefix = !f->alternate || base == 10 ? ""
                         : f->type == 'X'            ? "0X"
                         : base == 16                ? "0x"
                         : base == 8                 ? "0o"
                                                     : "0b";
    return put_number(r, b, f, i < 0, prefix, digits, v.origin);
}

static ft_status put_float(struct jinja_run *r, struct jinja_builder *b, const struct spec *f,
                           double v, uint32_t origin)
{
    char digits[512], format[8];
    struct spec spec = *f;
    char type = f->type == 0 ? 'g' : f->type;
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    double size = fabs(v);
    if (f->alternate)
        return jinja_unsupported(r, "the # flag on floats");
    if (type == '%') {
        size *= 100;
        type = 'f';
    }
    if (f->type == 0 && f->precision < 0) {
        jinja_float_text(digits, size);
    } else if (f->type == 0) {
        return jinja_unsupported(r, "a precision for floats without a type");
    } else {
        snprintf(format, sizeof format, "%%.*%c", type);
        snprintf(digits, sizeof digits, format, precision, size);
    }
    if (v - v != 0)
        spec.zero &= f->align != 0;
    if (f->grouping != 0)
        group_digits(digits, sizeof digits, f->grouping, 3);
    if (f->type == '%')
        snprintf(digits + strlen(digits), 2, "%%");
    return put_number(r, b, &spec, signbit(v) && v == v, "", digits, origin);
}

/* --- the % operator -------------------------------------------------------------------------- */

struct percent {
    struct jinja_run *r;
    struct jinja_builder b;
    const struct jinja_str *format;
    size_t at;
    struct jinja_value values;
    size_t next; /* of a tuple, or 0 and 1 of a single value */
    bool mapped;
};

static char peek(const struct percent *p)
{
    return p->at < p->format->len ? p->format->ptr[p->at] : '\0';
}

static ft_status next_value(struct jinja_value *out, struct percent *p)
{
    bool tuple = p->values.type == JV_TUPLE;
    if (p->next >= (tuple ? p->values.as.seq->n : 1))
        return jinja_raise(p->r, "not enough arguments for format string");
    *out = tuple ? p->values.as.seq->items[p->next] : p->values;
    p->next++;
    return FT_OK;
}

static ft_status mapped_value(struct jinja_value *out, struct percent *p)
{
    struct jinja_value key, *value;
    size_t from = ++p->at;
    int depth = 1;
    while (p->at < p->format->len && depth > 0) {
        char c = p->format->ptr[p->at++];
        depth += (c == '(') - (c == ')');
    }
    if (depth > 0)
        return jinja_raise(p->r, "incomplete format key");
    if (p->values.type != JV_DICT)
        return jinja_raise(p->r, "format requires a mapping");
    FT_TRY(jinja_copy_text(&key, p->r, (str){p->format->ptr + from, p->at - 1 - from}, 0));
    FT_TRY(jinja_dict_get(&value, p->r, p->values.as.dict, key));
    if (value == NULL)
        return jinja_raise(p->r, "the format names a key that is not there: '%.*s'",
                           STR_ARG(jinja_view(key)));
    *out = *value;
    return FT_OK;
}

static ft_status read_count(int64_t *out, struct percent *p, int64_t max)
{
    struct jinja_value v;
    *out = 0;
    if (peek(p) == '*') {
        p->at++;
        FT_TRY(next_value(&v, p));
        if (!jinja_is_int(v) || jinja_to_int(v) < 0)
            return jinja_unsupported(p->r, "a * in a format that is no positive number");
        *out = jinja_to_int(v);
    } else {
        for (; peek(p) >= '0' && peek(p) <= '9'; p->at++)
            *out = FT_MIN(*out * 10 + peek(p) - '0', max + 1);
    }
    return *out <= max ? FT_OK : jinja_unsupported(p->r, "such a large number in a format");
}

static ft_status read_percent_spec(struct spec *f, struct percent *p)
{
    *f = (struct spec){.fill = " ", .fill_len = 1, .width = -1, .precision = -1, .align = '>'};
    for (;; p->at++) {
        char c = peek(p);
        if (c == '-')
            f->align = '<';
        else if (c == '+' || (c == ' ' && f->sign == 0))
            f->sign = c;
        else if (c == '#')
            f->alternate = true;
        else if (c == '0')
            f->zero = true;
        else if (c != ' ')
            break;
    }
    FT_TRY(read_count(&f->width, p, MAX_WIDTH));
    if (peek(p) == '.') {
        p->at++;
        FT_TRY(read_count(&f->precision, p, MAX_PRECISION));
    }
    while (peek(p) == 'h' || peek(p) == 'l' || peek(p) == 'L')
        p->at++;
    f->type = peek(p);
    if (f->type == '\0')
        return jinja_raise(p->r, "incomplete format");
    p->at++;
    return FT_OK;
}

static ft_status percent_int(struct percent *p, struct spec *f, struct jinja_value v)
{
    bool decimal = f->type == 'd' || f->type == 'i' || f->type == 'u';
    if (v.type == JV_UNDEFINED)
        return jinja_raise_undefined(p->r, v);
    if (v.type == JV_FLOAT && decimal) {
        if (v.as.f - v.as.f != 0)
            return jinja_raise(p->r, "%%d cannot print infinity or NaN");
        if (fabs(v.as.f) >= 0x1p63)
            return jinja_unsupported(p->r, "integers beyond 64 bits");
        v.as.i = (int64_t)v.as.f;
        v.type = JV_INT;
    }
    if (v.type == JV_BIG)
        return jinja_unsupported(p->r, "integers beyond 64 bits");
    if (!jinja_is_int(v))
        return jinja_raise(p->r, "%%%c needs a number, not %s", f->type, jinja_type_name(v));
    if (f->precision > 70)
        return jinja_unsupported(p->r, "such a large number in a format");
    if (f->zero && f->align == '>')
        f->align = 0;
    return put_int(p->r, &p->b, f, v, f->precision);
}

static ft_status percent_float(struct percent *p, struct spec *f, struct jinja_value v)
{
    double d;
    if (v.type == JV_UNDEFINED)
        return jinja_raise_undefined(p->r, v);
    if (v.type == JV_BIG)
        return jinja_unsupported(p->r, "integers beyond 64 bits");
    if (!jinja_is_number(v))
        return jinja_raise(p->r, "%%%c needs a number, not %s", f->type, jinja_type_name(v));
    d = jinja_to_float(v);
    if (f->zero && f->align == '>')
        f->align = 0;
    return put_float(p->r, &p->b, f, d, v.origin);
}

static ft_status percent_char(struct percent *p, const struct spec *f, struct jinja_value v)
{
    char bytes[4];
    if (v.type == JV_STR && jinja_count_chars(jinja_view(v)) == 1)
        return put_padded(p->r, &p->b, f, '>', v.as.str, v.as.str->len);
    if (!jinja_is_int(v) || jinja_to_int(v) < 0 || jinja_to_int(v) > 0x10FFFF)
        return jinja_raise(p->r, "%%c needs a character or its number");
    uint32_t c = (uint32_t)jinja_to_int(v);
    if (c >= 0xD800 && c <= 0xDFFF)
        return jinja_unsupported(p->r, "lone surrogates");
    FT_TRY(jinja_copy_text(&v, p->r, (str){bytes, str_utf8_put(bytes, c)}, v.origin));
    return put_padded(p->r, &p->b, f, '>', v.as.str, v.as.str->len);
}

static ft_status percent_text(struct percent *p, const struct spec *f, struct jinja_value v)
{
    struct jinja_builder b = {0};
    if (f->type == 's') {
        FT_TRY(jinja_to_text(&v, p->r, v));
    } else {
        FT_TRY(jinja_put_repr(p->r, &b, v));
        FT_TRY(jinja_built(&v, p->r, &b));
    }
    return put_text(p->r, &p->b, f, v, '>');
}

static ft_status percent_conversion(struct percent *p)
{
    struct spec f;
    struct jinja_value v;
    bool mapped = peek(p) == '(';
    if (mapped)
        FT_TRY(mapped_value(&v, p));
    p->mapped |= mapped;
    FT_TRY(read_percent_spec(&f, p));
    if (f.type == '%')
        return jinja_put(p->r, &p->b, STR("%"), JINJA_TEMPLATE);
    if (!mapped)
        FT_TRY(next_value(&v, p));
    switch (f.type) {
    case 's':
    case 'r':
        return percent_text(p, &f, v);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return percent_int(p, &f, v);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return percent_float(p, &f, v);
    case 'c':
        return percent_char(p, &f, v);
    case 'a':
        return jinja_unsupported(p->r, "%a in a format");
    default:
        return jinja_raise(p->r, "unsupported format character '%c'", f.type);
    }
}

ft_status jinja_percent(struct jinja_value *out, struct jinja_run *r, struct jinja_value format,
                        struct jinja_value values)
{
    struct percent p = {.r = r, .format = format.as.str, .values = values};
    if ((format.flags | values.flags) & JINJA_MARKUP)
        return jinja_unsupported(r, "formatting with safe strings");
    while (p.at < p.format->len) {
        const char *percent = memchr(p.format->ptr + p.at, '%', p.format->len - p.at);
        size_t to = percent == NULL ? p.format->len : (size_t)(percent - p.format->ptr);
        FT_TRY(jinja_put_sub(r, &p.b, p.format, p.at, to));
        p.at = to + 1;
        if (percent != NULL)
            FT_TRY(percent_conversion(&p));
    }
    bool tuple = values.type == JV_TUPLE;
    bool mapping = values.type == JV_DICT || values.type == JV_LIST || values.type == JV_RANGE ||
                   values.type == JV_UNDEFINED;
    if (tuple ? p.next < values.as.seq->n : p.next == 0 && !mapping)
        return jinja_raise(r, "not all arguments converted during string formatting");
    return jinja_built(out, r, &p.b);
}

/* --- str.format ------------------------------------------------------------------------------ */

struct format {
    struct jinja_run *r;
    struct jinja_builder b;
    const struct jinja_call *call;
    int64_t automatic; /* the next number; -1 once numbers are written out */
    bool numbered;
};

static ft_status read_format_spec(struct spec *f, struct format *o, str s)
{
    *f = (struct spec){.fill = " ", .fill_len = 1, .width = -1, .precision = -1};
    size_t n = 0;
    if (s.len > 0)
        str_utf8_next(s, &n);
    if (s.len > n && n > 0 && strchr("<>^=", s.ptr[n]) != NULL) {
        memcpy(f->fill, s.ptr, n);
        f->fill_len = n;
        f->align = s.ptr[n];
        s = str_sub(s, n + 1, s.len);
    } else if (s.len > 0 && s.ptr[0] != '\0' && strchr("<>^=", s.ptr[0]) != NULL) {
        f->align = s.ptr[0];
        s = str_sub(s, 1, s.len);
    }
    struct percent p = {.r = o->r, .format = &(struct jinja_str){s.ptr, (uint32_t)s.len, 0, NULL}};
    if (peek(&p) == '+' || peek(&p) == '-' || peek(&p) == ' ') {
        f->sign = peek(&p) == '-' ? 0 : peek(&p);
        p.at++;
    }
    f->alternate = peek(&p) == '#';
    p.at += f->alternate;
    f->zero = peek(&p) == '0';
    p.at += f->zero;
    if (peek(&p) >= '0' && peek(&p) <= '9')
        FT_TRY(read_count(&f->width, &p, MAX_WIDTH));
    if (peek(&p) == ',' || peek(&p) == '_') {
        f->grouping = peek(&p);
        p.at++;
    }
    if (peek(&p) == '.') {
        p.at++;
        if (peek(&p) < '0' || peek(&p) > '9')
            return jinja_raise(o->r, "format specifier missing precision");
        FT_TRY(read_count(&f->precision, &p, MAX_PRECISION));
    }
    f->type = peek(&p);
    p.at += f->type != '\0';
    if (p.at < s.len || (f->type & 0x80))
        return jinja_raise(o->r, "invalid format specifier '%.*s'", STR_ARG(s));
    if (f->zero && f->grouping != 0)
        return jinja_unsupported(o->r, "zeros together with groups in a format");
    return FT_OK;
}

static ft_status format_text(struct format *o, struct spec *f, struct jinja_value v)
{
    if ((f->type != 's' && f->type != 0) || f->sign != 0 || f->alternate || f->grouping != 0 ||
        f->align == '=')
        return jinja_raise(o->r, "the format does not fit a str");
    if (f->zero && f->align == 0) {
        f->align = '<';
        f->fill[0] = '0';
    }
    return put_text(o->r, &o->b, f, v, '<');
}

static ft_status format_value(struct format *o, struct jinja_value v, str spec)
{
    struct spec f;
    if (v.type == JV_UNDEFINED && spec.len > 0)
        return jinja_raise(o->r, "an undefined value cannot be formatted");
    if (spec.len == 0)
        return jinja_put_value(o->r, &o->b, v);
    FT_TRY(read_format_spec(&f, o, spec));
    if (v.type == JV_STR)
        return format_text(o, &f, v);
    if (v.type == JV_BOOL && f.type == 0)
        return jinja_unsupported(o->r, "formatting a bool");
    if (jinja_is_int(v) && (f.type == 0 || strchr("dxXob", f.type) != NULL)) {
        if (f.precision >= 0)
            return jinja_raise(o->r, "an integer has no precision");
        if (f.zero && f.align != 0)
            f.zero = false, f.fill[0] = f.fill_len == 1 && f.fill[0] == ' ' ? '0' : f.fill[0];
        return put_int(o->r, &o->b, &f, v, 0);
    }
    if (jinja_is_number(v) && (f.type == 0 || strchr("eEfFgG%", f.type) != NULL)) {
        if (f.zero && f.align != 0)
            f.zero = false, f.fill[0] = f.fill_len == 1 && f.fill[0] == ' ' ? '0' : f.fill[0];
        return put_float(o->r, &o->b, &f, jinja_to_float(v), v.origin);
    }
    if (jinja_is_number(v) && f.type == 'n')
        return jinja_unsupported(o->r, "the format type n");
    return jinja_raise(o->r, "the format does not fit a %s", jinja_type_name(v));
}

static ft_status positional(struct jinja_value *out, struct format *o, int64_t i)
{
    if (i < 0 || (size_t)i >= o->call->n)
        return jinja_raise(o->r, "the format names an argument that is not there");
    *out = o->call->args[i];
    return FT_OK;
}

/* The argument a field starts with: a number, a name, or nothing. */
static ft_status first_value(struct jinja_value *out, struct format *o, str name)
{
    int64_t i;
    if (name.len == 0) {
        if (o->numbered)
            return jinja_raise(o->r, "automatic and written field numbers are mixed");
        return positional(out, o, o->automatic++);
    }
    if (name.ptr[0] >= '0' && name.ptr[0] <= '9' && str_to_i64(name, &i)) {
        if (o->automatic > 0)
            return jinja_raise(o->r, "automatic and written field numbers are mixed");
        o->numbered = true;
        return positional(out, o, i);
    }
    for (size_t k = 0; k < o->call->n_keywords; k++)
        if (str_eq(o->call->names[k], name)) {
            *out = o->call->values[k];
            return FT_OK;
        }
    return jinja_raise(o->r, "the format names an argument that is not there: '%.*s'",
                       STR_ARG(name));
}

/* .attribute and [key] behind the name. */
static ft_status follow_path(struct jinja_value *v, struct format *o, str path)
{
    struct jinja_value key;
    int64_t i;
    while (path.len > 0) {
        bool attribute = path.ptr[0] == '.';
        size_t end = 1;
        while (end < path.len &&
               (attribute ? path.ptr[end] != '.' && path.ptr[end] != '[' : path.ptr[end] != ']'))
            end++;
        str part = str_sub(path, 1, end);
        if (part.len == 0 || (!attribute && end == path.len))
            return jinja_raise(o->r, "a field of the format is broken");
        if (attribute) {
            FT_TRY(jinja_getattr(v, o->r, *v, part));
        } else {
            if (str_to_i64(part, &i) && part.ptr[0] != '-')
                key = jinja_int(i);
            else
                FT_TRY(jinja_new_text(&key, o->r, part, JINJA_TEMPLATE));
            FT_TRY(jinja_getitem(v, o->r, *v, key));
            end++;
        }
        path = str_sub(path, end, path.len);
        if (path.len > 0 && path.ptr[0] != '.' && path.ptr[0] != '[')
            return jinja_raise(o->r, "a field of the format is broken");
    }
    return FT_OK;
}

static ft_status format_field(struct format *o, str field)
{
    struct jinja_value v;
    struct jinja_builder b = {0};
    size_t name_end = 0, path_end = 0;
    while (path_end < field.len && field.ptr[path_end] != '!' && field.ptr[path_end] != ':') {
        bool bracket = field.ptr[path_end] == '[';
        while (bracket && path_end < field.len && field.ptr[path_end] != ']')
            path_end++;
        path_end += path_end < field.len;
    }
    while (name_end < path_end && field.ptr[name_end] != '.' && field.ptr[name_end] != '[')
        name_end++;
    FT_TRY(first_value(&v, o, str_sub(field, 0, name_end)));
    FT_TRY(follow_path(&v, o, str_sub(field, name_end, path_end)));
    str rest = str_sub(field, path_end, field.len);
    if (rest.len > 0 && rest.ptr[0] == '!') {
        char conversion = rest.len > 1 ? rest.ptr[1] : '\0';
        if (conversion == 'r') {
            FT_TRY(jinja_put_repr(o->r, &b, v));
            FT_TRY(jinja_built(&v, o->r, &b));
        } else if (conversion == 's') {
            FT_TRY(jinja_to_text(&v, o->r, v));
        } else {
            return jinja_raise(o->r, "a conversion of the format is not known");
        }
        rest = str_sub(rest, 2, rest.len);
        if (rest.len > 0 && rest.ptr[0] != ':')
            return jinja_raise(o->r, "expected ':' behind a conversion of the format");
    }
    return format_value(o, v, rest.len == 0 ? rest : str_sub(rest, 1, rest.len));
}

ft_status jinja_str_format(struct jinja_value *out, struct jinja_run *r, struct jinja_value format,
                           const struct jinja_call *call)
{
    struct format o = {.r = r, .call = call};
    const struct jinja_str *s = format.as.str;
    str text = jinja_view(format);
    if (format.flags & JINJA_MARKUP)
        return jinja_unsupported(r, "formatting with safe strings");
    for (size_t at = 0; at < text.len;) {
        char c = text.ptr[at];
        if (c != '{' && c != '}') {
            size_t to = at;
            while (to < text.len && text.ptr[to] != '{' && text.ptr[to] != '}')
                to++;
            FT_TRY(jinja_put_sub(r, &o.b, s, at, to));
            at = to;
        } else if (at + 1 < text.len && text.ptr[at + 1] == c) {
            FT_TRY(jinja_put_sub(r, &o.b, s, at, at + 1));
            at += 2;
        } else if (c == '}') {
            return jinja_raise(r, "single '}' in a format");
        } else {
            const char *end = memchr(text.ptr + at, '}', text.len - at);
            const char *inner = memchr(text.ptr + at + 1, '{', text.len - at - 1);
            if (end == NULL)
                return jinja_raise(r, "'{' without '}' in a format");
            if (inner != NULL && inner < end)
                return jinja_unsupported(r, "fields inside fields of a format");
            size_t to = (size_t)(end - text.ptr);
            FT_TRY(format_field(&o, str_sub(text, at + 1, to)));
            at = to + 1;
        }
    }
    return jinja_built(out, r, &o.b);
}

/* --- dates ----------------------------------------------------------------------------------- */

ft_status jinja_strftime(struct jinja_value *out, struct jinja_run *r, struct jinja_value format)
{
    char text[400];
    if (format.type != JV_STR)
        return jinja_raise(r, "strftime_now needs a format string");
    if (!r->has_clock)
        return jinja_raise(r, "strftime_now: the date is not set");
    struct jinja_builder z = {0};
    FT_TRY(jinja_put(r, &z, jinja_view(format), JINJA_TEMPLATE));
    FT_TRY(jinja_put(r, &z, (str){"\0", 1}, JINJA_TEMPLATE)); /* strftime's end */
    for (size_t i = 0; i + 1 < z.len - 1; i++) {
        if (z.data[i] == '%' && strchr("fzZ:", z.data[i + 1]) != NULL)
            return jinja_unsupported(r, "microseconds and time zones in strftime_now");
        i += z.data[i] == '%';
    }
    if (strlen(z.data) != z.len - 1)
        return jinja_raise(r, "strftime_now: NUL in the format");
    size_t n = strftime(text, sizeof text, z.data, &r->now);
    if (n == 0 && z.len > 1)
        return jinja_unsupported(r, "such a format for strftime_now");
    return jinja_copy_text(out, r, (str){text, n}, JINJA_TEMPLATE);
}
