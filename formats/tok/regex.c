/* SPDX-License-Identifier: Apache-2.0
 * The pattern is rewritten construct by construct: classes become ranges of code points, anchors
 * and possessive repetition of tiktoken's dialect become what means the same in Ruby's. */
#include "formats/tok/regex.h"

#include <oniguruma.h>
#include <pthread.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "formats/tok/unicode.h"

enum {
    MAX_PATTERN = 1 << 16,
    MAX_NESTING = 64,
    MAX_REWRITTEN = 4 << 20,
    MAX_PAGES = 1024,       /* tables of classes, at most */
    MAX_RETRIES = 20000000, /* of one search: seconds, for a pattern that backtracks without end */
};

struct regex {
    regex_t *compiled;
    OnigMatchParam *limits;
};

/* --- rewriting ------------------------------------------------------------------------------- */

struct group {
    size_t start;     /* in the output */
    bool ignore_case; /* what was in force outside */
};

struct rewriter {
    str in;
    size_t at;
    enum regex_dialect dialect;
    struct buf out;
    size_t atom; /* where the last atom starts in out */
    bool ignore_case;
    struct group groups[MAX_NESTING];
    size_t n_groups;
    ft_error *err;
};

static ft_status refuse(struct rewriter *r, size_t at, size_t length, const char *why)
{
    str what = str_sub(r->in, at, FT_MIN(at + length, r->in.len));
    return ft_fail(r->err, FT_EFORMAT, "\"%.*s\" at byte %zu of the pattern %s", STR_ARG(what), at,
                   why);
}

static bool next_is(const struct rewriter *r, const char *text)
{
    return str_starts(str_sub(r->in, r->at, r->in.len), str_from(text));
}

/* A set of code points: those with one of the classes, or of one of the categories. */
struct set {
    uint32_t classes;    /* any of these bits of unicode_classes */
    uint32_t categories; /* bit per category */
    bool negated;
};

static bool contains(const struct set *set, uint32_t code_point)
{
    uint32_t c = unicode_classes(code_point);
    bool in =
        (c & set->classes) != 0 || (set->categories >> (c >> UNICODE_CATEGORY_SHIFT & 31) & 1) != 0;
    return in != set->negated;
}

/* How many of the code points of a page are in the set, when it is none or all; else 1. */
static unsigned count_alike(const struct set *set, uint32_t page)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < UNICODE_PAGE; i++)
        n += contains(set, page * UNICODE_PAGE + i);
    return n == 0 || n == UNICODE_PAGE ? n : 1;
}

/* The first code point at or behind c that is in the set (is not, with `in` false). Pages of code
 * points that are all alike are passed over: most pages are, and share one table. */
static uint32_t next_change(const struct set *set, uint8_t alike[], uint32_t c, bool in)
{
    while (c < 0x110000 && contains(set, c) != in) {
        uint32_t page = c / UNICODE_PAGE;
        uint8_t *kind = &alike[unicode_page_index[page]];
        if (*kind == 0)
            *kind = (uint8_t)(1 + count_alike(set, page));
        c = *kind == 2 ? c + 1 : (page + 1) * UNICODE_PAGE;
    }
    return c;
}

/* The ranges of a set as the inside of a class. Surrogates never occur in text. */
static ft_status put_set(struct rewriter *r, const struct set *set)
{
    uint8_t alike[MAX_PAGES] = {0};
    for (uint32_t c = next_change(set, alike, 0, true); c < 0x110000;) {
        uint32_t end = next_change(set, alike, c, false);
        buf_printf(&r->out, "\\x{%X}-\\x{%X}", (unsigned)c, (unsigned)(end - 1));
        c = next_change(set, alike, end, true);
    }
    if (r->out.len > MAX_REWRITTEN)
        return ft_fail(r->err, FT_ELIMIT, "the pattern names too many classes of characters");
    return FT_OK;
}

static const char CATEGORY_NAMES[UNICODE_CATEGORIES][3] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

/* "L" means all categories that begin so. Without a match in the tables: 0. */
static uint32_t categories_named(str name)
{
    uint32_t found = 0;
    for (unsigned i = 0; i < UNICODE_CATEGORIES; i++)
        if ((name.len == 1 || name.len == 2) && memcmp(CATEGORY_NAMES[i], name.ptr, name.len) == 0)
            found |= 1u << i;
    return found;
}

static uint32_t script_named(str name)
{
    static const struct {
        const char *name;
        uint32_t class;
    } scripts[] = {
        {"Han", UNICODE_HAN},       {"Hiragana", UNICODE_HIRAGANA}, {"Katakana", UNICODE_KATAKANA},
        {"Hangul", UNICODE_HANGUL}, {"Latin", UNICODE_LATIN},       {"Cyrillic", UNICODE_CYRILLIC},
        {"Greek", UNICODE_GREEK},   {"Arabic", UNICODE_ARABIC},
    };
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
        if (str_is(name, scripts[i].name))
            return scripts[i].class;
    return 0;
}

/* \p{L}, \p{^L}, \P{Lu}, \pL; r->at is at the p. */
static ft_status read_property(struct set *set, struct rewriter *r)
{
    size_t start = r->at - 1;
    str name;
    set->negated = r->in.ptr[r->at++] == 'P';
    if (next_is(r, "{")) {
        str rest = str_sub(r->in, r->at + 1, r->in.len);
        name = str_cut(&rest, '}');
        if (r->at + 1 + name.len == r->in.len)
            return refuse(r, start, 3, "is not closed");
        r->at += name.len + 2;
    } else {
        if (r->dialect == REGEX_ONIGURUMA || r->at == r->in.len)
            return refuse(r, start, 2, "is not supported");
        name = str_sub(r->in, r->at, r->at + 1);
        r->at++;
    }
    if (name.len > 0 && name.ptr[0] == '^') {
        set->negated = !set->negated;
        name = str_sub(name, 1, name.len);
    }
    set->categories = categories_named(name);
    set->classes = script_named(name);
    if (set->categories == 0 && set->classes == 0)
        return refuse(r, start, r->at - start, "is a property without a table here");
    return FT_OK;
}

/* Whether the escape at r->at - 1 stands for a set of characters, which is read then. */
static ft_status read_set(struct set *set, bool *is_set, struct rewriter *r)
{
    char c = r->in.ptr[r->at];
    *set = (struct set){0};
    *is_set = true;
    if (c == 'p' || c == 'P')
        return read_property(set, r);
    set->negated = c == 'S' || c == 'W' || c == 'D';
    switch (c) {
    case 's':
    case 'S':
        set->classes = UNICODE_SPACE;
        break;
    case 'w':
    case 'W':
        set->classes = r->dialect == REGEX_ONIGURUMA ? UNICODE_ONIG_WORD : UNICODE_WORD;
        break;
    case 'd':
    case 'D':
        set->categories = categories_named(STR("Nd"));
        break;
    default:
        *is_set = false;
        return FT_OK;
    }
    r->at++;
    return FT_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* \x41, \x{41}, \u0041: the same in both dialects; copied as \x{...}. */
static ft_status copy_code_point(struct rewriter *r)
{
    size_t start = r->at - 1, digits = r->in.ptr[r->at] == 'x' ? 2 : 4, n = 0;
    uint32_t value = 0;
    r->at++;
    bool braces = next_is(r, "{");
    r->at += braces;
    for (; r->at < r->in.len && is_hex(r->in.ptr[r->at]) && n < (braces ? 6 : digits); n++) {
        char c = r->in.ptr[r->at++];
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if ((braces && !next_is(r, "}")) || n == 0 || (!braces && n != digits) || value > 0x10FFFF)
        return refuse(r, start, r->at - start, "is not a code point");
    r->at += braces;
    buf_printf(&r->out, "\\x{%X}", (unsigned)value);
    return FT_OK;
}

/* What follows a backslash, inside or outside of a class. */
static ft_status copy_escape(struct rewriter *r, bool in_class)
{
    struct set set;
    bool is_set;
    if (++r->at == r->in.len)
        return refuse(r, r->at - 1, 1, "has nothing behind it");
    FT_TRY(read_set(&set, &is_set, r));
    if (is_set) {
        buf_cstr(&r->out, in_class ? "" : "[");
        FT_TRY(put_set(r, &set));
        buf_cstr(&r->out, in_class ? "" : "]");
        return FT_OK;
    }
    char c = r->in.ptr[r->at];
    if (c == 'x' || c == 'u')
        return copy_code_point(r);
    bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    bool anchor = !in_class && (c == 'A' || c == 'z');
    if ((uint8_t)c >= 0x80 || (c >= '0' && c <= '9') ||
        (letter && !anchor && strchr("rntfv", c) == NULL))
        return refuse(r, r->at - 1, 2, "is not supported");
    buf_byte(&r->out, '\\');
    buf_byte(&r->out, (uint8_t)c);
    r->at++;
    return FT_OK;
}

/* A character as it is. With case ignored only ASCII is certain to mean the same everywhere. */
static ft_status copy_character(struct rewriter *r)
{
    size_t length;
    uint32_t c = str_utf8_next(str_sub(r->in, r->at, r->in.len), &length);
    if (r->ignore_case && c >= 0x80)
        return refuse(r, r->at, length, "is not supported where case is ignored");
    buf_append(&r->out, r->in.ptr + r->at, length);
    r->at += length;
    return FT_OK;
}

static ft_status copy_class(struct rewriter *r)
{
    size_t start = r->at, depth = 0;
    do {
        if (r->at == r->in.len)
            return refuse(r, start, r->in.len - start, "is not closed");
        char c = r->in.ptr[r->at];
        if (next_is(r, "[:"))
            return refuse(r, r->at, 2, "is not supported");
        if (c == '[') {
            if (++depth > MAX_NESTING)
                return refuse(r, r->at, 1, "is nested too deeply");
            buf_byte(&r->out, '[');
            r->at++;
            if (next_is(r, "^")) {
                buf_byte(&r->out, '^');
                r->at++;
            }
            if (next_is(r, "]"))
                return refuse(r, r->at - 1, 2, "is not supported");
        } else if (c == ']') {
            depth--;
            buf_byte(&r->out, ']');
            r->at++;
        } else if (c == '\\') {
            FT_TRY(copy_escape(r, true));
        } else {
            FT_TRY(copy_character(r));
        }
    } while (depth > 0);
    return FT_OK;
}

static ft_status open_group(struct rewriter *r)
{
    static const char *const kinds[] = {
        "(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    size_t kind = 0;
    if (r->n_groups == MAX_NESTING)
        return refuse(r, r->at, 1, "is nested too deeply");
    struct group *g = &r->groups[r->n_groups++];
    *g = (struct group){r->out.len, r->ignore_case};
    if (!next_is(r, "(?")) {
        buf_cstr(&r->out, "(?:"); /* nothing asks for what a group has matched */
        r->at++;
        return FT_OK;
    }
    while (kind < ARRAY_LEN(kinds) && !next_is(r, kinds[kind]))
        kind++;
    if (kind == ARRAY_LEN(kinds))
        return refuse(r, r->at, 3, "is not supported");
    if (kind == 1 || kind == 2)
        r->ignore_case = kind == 1;
    buf_cstr(&r->out, kinds[kind]);
    r->at += strlen(kinds[kind]);
    return FT_OK;
}

static ft_status close_group(struct rewriter *r)
{
    if (r->n_groups == 0)
        return refuse(r, r->at, 1, "closes nothing");
    struct group *g = &r->groups[--r->n_groups];
    r->ignore_case = g->ignore_case;
    r->atom = g->start;
    buf_byte(&r->out, ')');
    r->at++;
    return FT_OK;
}

/* Wraps what is in out from `from` on: (?>...) */
static void make_atomic(struct rewriter *r, size_t from)
{
    static const char open[] = "(?>";
    size_t n = sizeof open - 1;
    if (buf_reserve(&r->out, n + 1) == NULL)
        return;
    memmove(r->out.data + from + n, r->out.data + from, r->out.len - from);
    memcpy(r->out.data + from, open, n);
    r->out.len += n;
    buf_byte(&r->out, ')');
}

/* {n}, {n,}, {n,m} behind an atom. Both dialects agree on what follows but for +: Oniguruma repeats
 * the whole, tiktoken's makes it possessive. */
static ft_status copy_interval(struct rewriter *r)
{
    size_t start = r->at;
    while (r->at < r->in.len && strchr("{0123456789,", r->in.ptr[r->at]) != NULL)
        r->at++;
    if (!next_is(r, "}") || r->at - start < 2 || r->in.ptr[start + 1] == ',')
        return refuse(r, start, r->at - start, "is not supported");
    r->at++;
    buf_str(&r->out, str_sub(r->in, start, r->at));
    if (next_is(r, "+")) {
        if (r->dialect == REGEX_FANCY)
            make_atomic(r, r->atom);
        else
            buf_byte(&r->out, '+');
        r->at++;
    } else if (next_is(r, "?") && r->dialect == REGEX_ONIGURUMA) {
        return refuse(r, start, r->at + 1 - start, "is not supported");
    }
    return FT_OK;
}

static ft_status rewrite_next(struct rewriter *r)
{
    char c = r->in.ptr[r->at];
    switch (c) {
    case '(':
        return open_group(r);
    case ')':
        return close_group(r);
    case '{':
        return copy_interval(r);
    case '*':
    case '+':
    case '?':
    case '|':
        buf_byte(&r->out, (uint8_t)c);
        r->at++;
        return FT_OK;
    case '^':
    case '$':
        if (r->dialect == REGEX_FANCY)
            buf_cstr(&r->out, c == '^' ? "\\A" : "\\z");
        else
            buf_byte(&r->out, (uint8_t)c);
        r->at++;
        return FT_OK;
    default:
        break;
    }
    r->atom = r->out.len;
    return c == '[' ? copy_class(r) : c == '\\' ? copy_escape(r, false) : copy_character(r);
}

static ft_status rewrite(struct rewriter *r)
{
    if (r->in.len > MAX_PATTERN)
        return ft_fail(r->err, FT_ELIMIT, "the pattern has %zu bytes, at most %d are allowed",
                       r->in.len, MAX_PATTERN);
    if (str_utf8_invalid_at(r->in) != r->in.len)
        return ft_fail(r->err, FT_EFORMAT, "the pattern is not valid UTF-8");
    while (r->at < r->in.len)
        FT_TRY(rewrite_next(r));
    if (r->n_groups > 0)
        return ft_fail(r->err, FT_EFORMAT, "the pattern has a group that is not closed");
    return buf_status(&r->out, "a pattern", r->err);
}

/* --- the engine ------------------------------------------------------------------------------ */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialize(void)
{
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
}

static ft_status fail_onig(ft_error *err, int code, OnigErrorInfo *info)
{
    UChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
    int n = info == NULL ? onig_error_code_to_str(text, code)
                         : onig_error_code_to_str(text, code, info);
    if (code == ONIGERR_MEMORY)
        return ft_fail_memory(err, 0, "a pattern");
    return ft_fail(err, FT_EFORMAT, "the pattern is not valid: %.*s", n, (const char *)text);
}

static ft_status compile(struct regex *r, const struct buf *pattern, ft_error *err)
{
    OnigErrorInfo info = {0};
    const UChar *p = pattern->data;
    pthread_once(&once, initialize);
    if (pattern->len == 0)
        return ft_fail(err, FT_EFORMAT, "the pattern is empty");
    int code = onig_new(&r->compiled, p, p + pattern->len, ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                        ONIG_SYNTAX_RUBY, &info);
    if (code != ONIG_NORMAL) {
        r->compiled = NULL;
        return fail_onig(err, code, &info);
    }
    r->limits = onig_new_match_param();
    if (r->limits == NULL)
        return ft_fail_memory(err, sizeof(void *), "a pattern");
    onig_initialize_match_param(r->limits);
    onig_set_retry_limit_in_search_of_match_param(r->limits, MAX_RETRIES);
    return FT_OK;
}

ft_status regex_create(struct regex **out, str pattern, enum regex_dialect dialect, ft_error *err)
{
    struct rewriter r = {.in = pattern, .dialect = dialect, .err = err};
    struct regex *regex = NULL;
    ft_status st = rewrite(&r);
    *out = NULL;
    if (st == FT_OK)
        st = mem_new(&regex, 1, sizeof *regex, "a pattern", err);
    if (st == FT_OK)
        st = compile(regex, &r.out, err);
    buf_free(&r.out);
    if (st != FT_OK) {
        regex_destroy(regex);
        return st;
    }
    *out = regex;
    return FT_OK;
}

void regex_destroy(struct regex *r)
{
    if (r == NULL)
        return;
    if (r->limits != NULL)
        onig_free_match_param(r->limits);
    if (r->compiled != NULL)
        onig_free(r->compiled);
    mem_free(r);
}

static ft_status search(int *start, int *end, const struct regex_search *s, ft_error *err)
{
    const UChar *p = (const UChar *)s->text.ptr, *stop = p + s->text.len;
    OnigRegion region = {0};
    int at = onig_search_with_param(s->regex->compiled, p, stop, p + s->at, stop, &region,
                                    ONIG_OPTION_NONE, s->regex->limits);
    *start = -1;
    if (at >= 0) {
        *start = region.beg[0];
        *end = region.end[0];
    }
    onig_region_free(&region, 0);
    if (at >= 0 || at == ONIG_MISMATCH)
        return FT_OK;
    if (at == ONIGERR_MEMORY)
        return ft_fail_memory(err, s->text.len, "matching a pattern");
    return ft_fail(err, FT_ELIMIT,
                   "the tokenizer's pattern needs too many steps on a text of %zu bytes",
                   s->text.len);
}

ft_status regex_next(size_t *start, size_t *end, bool *found, struct regex_search *s, ft_error *err)
{
    *found = false;
    if (s->text.len > INT32_MAX)
        return ft_fail(err, FT_ELIMIT,
                       "a text of %zu bytes is too long for a pattern without a "
                       "scanner of its own, at most 2 GiB",
                       s->text.len);
    while (s->at <= s->text.len) {
        int from, to = 0;
        FT_TRY(search(&from, &to, s, err));
        if (from < 0)
            return FT_OK;
        if (to == from && s->matched && (size_t)to == s->last_end) {
            size_t length = 1;
            if (s->at < s->text.len)
                str_utf8_next(str_sub(s->text, s->at, s->text.len), &length);
            s->at += length;
            continue;
        }
        s->at = s->last_end = *end = (size_t)to;
        *start = (size_t)from;
        s->matched = *found = true;
        return FT_OK;
    }
    return FT_OK;
}
