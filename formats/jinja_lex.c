/* SPDX-License-Identifier: Apache-2.0
 * Template text to tokens. The rules are those of Jinja's regular expressions: tags are found from
 * left to right, white space around them goes by -, + and the two block options. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/jinja_ast.h"
#include "formats/jinja_unicode.h"

enum { MAX_BRACKETS = 200 };

struct lexer {
    struct jinja_tokens *out;
    struct arena *arena;
    const char *name;
    str src;
    size_t pos;
    bool line_starting;
    char open[MAX_BRACKETS]; /* closing characters that are waited for */
    size_t n_open;
    ft_error *err;
};

ft_status jinja_fail_at(ft_error *err, ft_status st, const char *name, str source, uint32_t at,
                        const char *fmt, ...)
{
    char text[700];
    va_list ap;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < source.len; i++) {
        bool newline = source.ptr[i] == '\n';
        column = newline ? 1 : column + ((source.ptr[i] & 0xC0) != 0x80);
        line += newline;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ft_fail(err, st, "%s: line %zu, column %zu: %s", name, line, column, text);
}

ft_status jinja_normalize(str *out, struct arena *a, str source, ft_error *err)
{
    char *copy = arena_alloc(a, source.len + 1, 1);
    size_t n = 0;
    if (copy == NULL)
        return ft_fail_memory(err, source.len, "a template");
    for (size_t i = 0; i < source.len; i++) {
        bool crlf = source.ptr[i] == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n';
        if (!crlf)
            copy[n++] = source.ptr[i] == '\r' ? '\n' : source.ptr[i];
    }
    if (n > 0 && copy[n - 1] == '\n')
        n--;
    *out = (str){copy, n};
    return FT_OK;
}

void jinja_tokens_free(struct jinja_tokens *t)
{
    mem_free(t->items);
    *t = (struct jinja_tokens){0};
}

/* --- helpers --------------------------------------------------------------------------------- */

#define FAIL(l, at, ...)                                                                           \
    jinja_fail_at((l)->err, FT_EFORMAT, (l)->name, (l)->src, (uint32_t)(at), __VA_ARGS__)

static char peek(const struct lexer *l, size_t at)
{
    return at < l->src.len ? l->src.ptr[at] : '\0';
}

static bool starts(const struct lexer *l, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at + n <= l->src.len && memcmp(l->src.ptr + at, word, n) == 0;
}

static size_t skip_space(const struct lexer *l, size_t at)
{
    while (at < l->src.len) {
        size_t n;
        if (!jinja_is_space(str_utf8_next(str_sub(l->src, at, l->src.len), &n)))
            break;
        at += n;
    }
    return at;
}

static ft_status emit(struct lexer *l, enum jinja_token_type type, size_t at, str text)
{
    struct jinja_tokens *t = l->out;
    if (t->n == t->cap) {
        size_t cap = t->cap == 0 ? 64 : t->cap * 2;
        struct jinja_token *grown = mem_realloc(t->items, cap, sizeof *grown);
        if (grown == NULL)
            return ft_fail_memory(l->err, cap * sizeof *grown, "the tokens of a template");
        t->items = grown;
        t->cap = cap;
    }
    t->items[t->n++] = (struct jinja_token){type, (uint32_t)at, text};
    return FT_OK;
}

/* Length of the end of a tag (`%}`, `#}`, `}}`) at `at` with the white space that goes with it, 0
 * when there is none. plus: `+` may stand before it; trim: a line end behind it goes. */
static size_t match_end(const struct lexer *l, size_t at, const char *end, bool plus, bool trim)
{
    if (plus && peek(l, at) == '+' && starts(l, at + 1, end))
        return 3;
    if (peek(l, at) == '-' && starts(l, at + 1, end))
        return skip_space(l, at + 3) - at;
    if (!starts(l, at, end))
        return 0;
    return trim && peek(l, at + 2) == '\n' ? 3 : 2;
}

static void finish_tag(struct lexer *l, size_t end)
{
    l->line_starting = end > 0 && l->src.ptr[end - 1] == '\n';
    l->pos = end;
}

/* Text before a tag, without what its sign or lstrip_blocks takes away. */
static str strip_before(const struct lexer *l, str text, char sign, bool variable)
{
    if (sign == '-')
        return jinja_rstrip_space(text);
    if (sign == '+' || variable)
        return text;
    size_t line = text.len;
    while (line > 0 && text.ptr[line - 1] != '\n')
        line--;
    if (line == 0 && !l->line_starting)
        return text;
    str kept = jinja_rstrip_space(text);
    return kept.len <= line ? str_sub(text, 0, line) : text;
}

static ft_status emit_data(struct lexer *l, size_t at, str text)
{
    return text.len == 0 ? FT_OK : emit(l, JT_DATA, at, text);
}

/* --- strings and numbers --------------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH: at is behind the letter. */
static ft_status hex_escape(struct lexer *l, size_t at, size_t digits, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        int d = hex_digit(peek(l, at + i));
        if (d < 0)
            return FAIL(l, at, "the escape needs %zu hexadecimal digits", digits);
        v = v << 4 | (uint32_t)d;
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF))
        return FAIL(l, at, "the escape is no Unicode character");
    *out = v;
    return FT_OK;
}

/* One escape of Python's string literals at the backslash l->src[at]; *used counts it. */
static ft_status escape(struct lexer *l, size_t at, char *dst, size_t *written, size_t *used)
{
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    char c = peek(l, at + 1);
    const char *known = c == '\0' ? NULL : strchr(letters, c);
    uint32_t code = 0;
    *used = 2;
    if (c == '\n') { /* a continued line */
        *written = 0;
        return FT_OK;
    }
    if (known != NULL) {
        dst[0] = meanings[known - letters];
        *written = 1;
        return FT_OK;
    }
    if (c >= '0' && c <= '7') {
        for (*used = 1; *used < 4 && peek(l, at + *used) >= '0' && peek(l, at + *used) <= '7';
             ++*used)
            code = code * 8 + (uint32_t)(peek(l, at + *used) - '0');
    } else if (c == 'x' || c == 'u' || c == 'U') {
        size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        FT_TRY(hex_escape(l, at + 2, digits, &code));
        *used = 2 + digits;
    } else if (c == 'N') {
        return FAIL(l, at, "characters by name (\\N) are not supported");
    } else if ((unsigned char)c >= 0x80) {
        /* Python has made the character an escape itself; the backslash then escapes that one's. */
        size_t n;
        code = str_utf8_next(str_sub(l->src, at + 1, l->src.len), &n);
        *written = (size_t)snprintf(dst, 12,
                                    code < 0x100     ? "\\x%02x"
                                    : code < 0x10000 ? "\\u%04x"
                                                     : "\\U%08x",
                                    code);
        *used = 1 + n;
        return FT_OK;
    } else { /* no escape: both characters stand */
        dst[0] = '\\';
        dst[1] = c;
        *written = 2;
        return FT_OK;
    }
    *written = str_utf8_put(dst, code);
    return FT_OK;
}

static ft_status lex_string(struct lexer *l)
{
    size_t from = l->pos, to = from + 1;
    char quote = l->src.ptr[from];
    while (to < l->src.len && l->src.ptr[to] != quote)
        to += l->src.ptr[to] == '\\' ? 2 : 1;
    if (to >= l->src.len)
        return FAIL(l, from, "the string has no end");
    /* No escape writes more than five bytes for each it takes ("\é" becomes "\xe9"). */
    char *text = arena_alloc(l->arena, (to - from) * 5 + 8, 1);
    size_t n = 0;
    if (text == NULL)
        return ft_fail_memory(l->err, to - from, "a template");
    for (size_t i = from + 1; i < to;) {
        size_t written = 1, used = 1;
        if (l->src.ptr[i] == '\\')
            FT_TRY(escape(l, i, text + n, &written, &used));
        else
            text[n] = l->src.ptr[i];
        n += written;
        i += used;
    }
    l->pos = to + 1;
    return emit(l, JT_STRING, from, (str){text, n});
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Behind digits that may have single underscores between them; `at` when there is no digit. */
static size_t skip_digits(const struct lexer *l, size_t at, const char *digits)
{
    size_t end = at;
    while (peek(l, end) != '\0' && strchr(digits, peek(l, end)) != NULL) {
        end++;
        char next = peek(l, end + 1);
        if (peek(l, end) == '_' && next != '\0' && strchr(digits, next) != NULL)
            end++;
    }
    return end;
}

/* Behind the float at l->pos, 0 when there is none. */
static size_t match_float(const struct lexer *l)
{
    static const char digits[] = "0123456789";
    if (l->pos > 0 && l->src.ptr[l->pos - 1] == '.')
        return 0;
    size_t end = skip_digits(l, l->pos, digits);
    bool fraction = peek(l, end) == '.' && is_digit(peek(l, end + 1));
    if (fraction)
        end = skip_digits(l, end + 1, digits);
    if ((peek(l, end) | 32) == 'e') {
        size_t exponent = end + 1;
        if (peek(l, exponent) == '+' || peek(l, exponent) == '-')
            exponent++;
        size_t behind = skip_digits(l, exponent, digits);
        if (behind > exponent)
            return behind;
    }
    return fraction ? end : 0;
}

static size_t match_integer(const struct lexer *l)
{
    size_t at = l->pos;
    static const char *const sets[] = {"01", "01234567", "0123456789abcdefABCDEF"};
    if (peek(l, at) != '0')
        return skip_digits(l, at, "0123456789");
    char base = (char)(peek(l, at + 1) | 32);
    int set = base == 'b' ? 0 : base == 'o' ? 1 : base == 'x' ? 2 : -1;
    if (set >= 0) {
        size_t from = at + 2 + (peek(l, at + 2) == '_');
        size_t end = skip_digits(l, from, sets[set]);
        if (end > from)
            return end;
    }
    return skip_digits(l, at, "0");
}

static ft_status lex_number(struct lexer *l)
{
    size_t from = l->pos, end = match_float(l);
    enum jinja_token_type type = end == 0 ? JT_INTEGER : JT_FLOAT;
    if (end == 0)
        end = match_integer(l);
    char *text = arena_alloc(l->arena, end - from + 1, 1);
    size_t n = 0;
    if (text == NULL)
        return ft_fail_memory(l->err, end - from, "a template");
    for (size_t i = from; i < end; i++)
        if (l->src.ptr[i] != '_')
            text[n++] = l->src.ptr[i];
    l->pos = end;
    return emit(l, type, from, (str){text, n});
}

/* --- names and operators --------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z') || is_digit(c);
}

static ft_status lex_name(struct lexer *l)
{
    size_t from = l->pos, end = from;
    while (is_name_char(peek(l, end)))
        end++;
    l->pos = end;
    return emit(l, JT_NAME, from, str_sub(l->src, from, end));
}

static const struct operator_row {
    const char *text;
    enum jinja_token_type type;
} operators[] = {
    /* the longer ones first */
    {"//", JT_FLOORDIV}, {"**", JT_POW},   {"==", JT_EQ},      {"!=", JT_NE},      {">=", JT_GTEQ},
    {"<=", JT_LTEQ},     {"+", JT_ADD},    {"-", JT_SUB},      {"/", JT_DIV},      {"*", JT_MUL},
    {"%", JT_MOD},       {"~", JT_TILDE},  {"[", JT_LBRACKET}, {"]", JT_RBRACKET}, {"(", JT_LPAREN},
    {")", JT_RPAREN},    {"{", JT_LBRACE}, {"}", JT_RBRACE},   {">", JT_GT},       {"<", JT_LT},
    {"=", JT_ASSIGN},    {".", JT_DOT},    {":", JT_COLON},    {"|", JT_PIPE},     {",", JT_COMMA},
    {";", JT_SEMICOLON},
};

static const char *const token_names[] = {
    [JT_EOF] = "end of template", [JT_DATA] = "template data", [JT_VARIABLE_BEGIN] = "{{",
    [JT_VARIABLE_END] = "}}",     [JT_BLOCK_BEGIN] = "{%",     [JT_BLOCK_END] = "%}",
    [JT_NAME] = "name",           [JT_STRING] = "string",      [JT_INTEGER] = "integer",
    [JT_FLOAT] = "float",
};

const char *jinja_token_name(enum jinja_token_type t)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (operators[i].type == t)
            return operators[i].text;
    return token_names[t];
}

static ft_status balance(struct lexer *l, char c)
{
    if (c == '{' || c == '(' || c == '[') {
        if (l->n_open == MAX_BRACKETS)
            return FAIL(l, l->pos, "brackets nested deeper than %d", MAX_BRACKETS);
        l->open[l->n_open++] = c == '(' ? ')' : (char)(c + 2);
    } else if (c == '}' || c == ')' || c == ']') {
        if (l->n_open == 0)
            return FAIL(l, l->pos, "unexpected '%c'", c);
        if (l->open[--l->n_open] != c)
            return FAIL(l, l->pos, "unexpected '%c', expected '%c'", c, l->open[l->n_open]);
    }
    return FT_OK;
}

static ft_status lex_operator(struct lexer *l)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++) {
        if (!starts(l, l->pos, operators[i].text))
            continue;
        FT_TRY(balance(l, operators[i].text[0]));
        size_t from = l->pos;
        l->pos += strlen(operators[i].text);
        return emit(l, operators[i].type, from, str_sub(l->src, from, l->pos));
    }
    if ((unsigned char)peek(l, l->pos) >= 0x80)
        return FAIL(l, l->pos, "names with characters outside ASCII are not supported");
    return FAIL(l, l->pos, "unexpected character '%c'", peek(l, l->pos));
}

static ft_status lex_token(struct lexer *l)
{
    char c = peek(l, l->pos);
    if (is_digit(c))
        return lex_number(l);
    if (is_name_char(c))
        return lex_name(l);
    return c == '\'' || c == '"' ? lex_string(l) : lex_operator(l);
}

/* --- tags ------------------------------------------------------------------------------------ */

/* Between `{{` or `{%` and its end. */
static ft_status lex_code(struct lexer *l, size_t begin, bool variable)
{
    const char *end = variable ? "}}" : "%}";
    FT_TRY(emit(l, variable ? JT_VARIABLE_BEGIN : JT_BLOCK_BEGIN, begin, STR("")));
    l->n_open = 0;
    for (;;) {
        size_t n = l->n_open > 0 ? 0 : match_end(l, l->pos, end, !variable, !variable);
        if (n > 0) {
            FT_TRY(emit(l, variable ? JT_VARIABLE_END : JT_BLOCK_END, l->pos, STR("")));
            finish_tag(l, l->pos + n);
            return FT_OK;
        }
        size_t behind = skip_space(l, l->pos);
        if (behind > l->pos) {
            l->pos = behind;
            continue;
        }
        if (l->pos >= l->src.len) /* the parser misses the end */
            return FT_OK;
        FT_TRY(lex_token(l));
    }
}

static ft_status skip_comment(struct lexer *l, size_t begin)
{
    for (size_t at = l->pos; at < l->src.len; at++) {
        size_t n = match_end(l, at, "#}", true, true);
        if (n > 0) {
            finish_tag(l, at + n);
            return FT_OK;
        }
    }
    return FAIL(l, begin, "the comment has no end");
}

/* Behind `{% word %}` at `at`, 0 when something else stands there. */
static size_t match_word_tag(const struct lexer *l, size_t at, const char *word, bool is_end)
{
    if (!starts(l, at, "{%"))
        return 0;
    at += 2;
    if (peek(l, at) == '-' || peek(l, at) == '+')
        at++;
    at = skip_space(l, at);
    if (!starts(l, at, word))
        return 0;
    at = skip_space(l, at + strlen(word));
    size_t n = match_end(l, at, "%}", is_end, is_end);
    return n == 0 ? 0 : at + n;
}

static ft_status lex_raw(struct lexer *l, size_t begin)
{
    for (size_t at = l->pos; at < l->src.len; at++) {
        size_t end = match_word_tag(l, at, "endraw", true);
        if (end == 0)
            continue;
        str text = str_sub(l->src, l->pos, at);
        FT_TRY(emit_data(l, l->pos, strip_before(l, text, peek(l, at + 2), false)));
        finish_tag(l, end);
        return FT_OK;
    }
    return FAIL(l, begin, "{%% raw %%} has no end");
}

/* The first `{{`, `{%` or `{#` from l->pos on. */
static size_t find_tag(const struct lexer *l)
{
    size_t at = l->pos;
    while (at + 1 < l->src.len) {
        const char *p = memchr(l->src.ptr + at, '{', l->src.len - at - 1);
        if (p == NULL)
            break;
        at = (size_t)(p - l->src.ptr);
        if (p[1] == '{' || p[1] == '%' || p[1] == '#')
            return at;
        at++;
    }
    return l->src.len;
}

static ft_status lex_tag(struct lexer *l, size_t begin)
{
    char kind = l->src.ptr[begin + 1], sign = peek(l, begin + 2);
    str text = str_sub(l->src, l->pos, begin);
    FT_TRY(emit_data(l, l->pos, strip_before(l, text, sign, kind == '{')));
    size_t raw = match_word_tag(l, begin, "raw", false);
    l->line_starting = false;
    l->pos = begin + 2 + (sign == '-' || sign == '+');
    if (raw > 0) {
        finish_tag(l, raw);
        return lex_raw(l, begin);
    }
    return kind == '#' ? skip_comment(l, begin) : lex_code(l, begin, kind == '{');
}

ft_status jinja_lex(struct jinja_tokens *out, struct arena *a, const char *name, str source,
                    ft_error *err)
{
    struct lexer l = {
        .out = out, .arena = a, .name = name, .src = source, .line_starting = true, .err = err};
    while (l.pos < source.len) {
        size_t begin = find_tag(&l);
        if (begin < source.len) {
            FT_TRY(lex_tag(&l, begin));
        } else {
            FT_TRY(emit_data(&l, l.pos, str_sub(source, l.pos, source.len)));
            l.pos = source.len;
        }
    }
    return emit(&l, JT_EOF, source.len, STR(""));
}
