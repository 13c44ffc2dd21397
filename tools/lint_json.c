/* SPDX-License-Identifier: Apache-2.0
 * Rules on the text of a row. The strict parser finds that something is wrong and where; one scan
 * over the text tells which of the usual faults it is. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/lint.h"

enum { LARGE_ROW = 16 << 20 };

struct scan {
    bool single_quotes, word, comma, control, surrogate;
    bool in_string;
    size_t depth;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* \uD800 to \uDFFF at t[at], by half; 0 = none. */
static int surrogate_half(str t, size_t at)
{
    if (t.len - at < 6 || t.ptr[at] != '\\' || t.ptr[at + 1] != 'u' ||
        toupper((unsigned char)t.ptr[at + 2]) != 'D' || !isxdigit((unsigned char)t.ptr[at + 3]))
        return 0;
    int digit = toupper((unsigned char)t.ptr[at + 3]);
    return digit >= 'C' ? 2 : digit >= '8' ? 1 : 0;
}

/* One escape; returns its bytes. */
static size_t scan_escape(struct scan *s, str t, size_t at)
{
    int half = surrogate_half(t, at);
    if (half == 1 && at + 6 < t.len && surrogate_half(t, at + 6) == 2)
        return 12;
    s->surrogate |= half != 0;
    return 2;
}

/* NaN, Infinity, None, True, False: words that JSON lacks. */
static bool is_word(str t, size_t at, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_starts(str_sub(t, at, t.len), str_from(words[i])))
            return true;
    return false;
}

static void scan_outside(struct scan *s, str t, size_t at, char before)
{
    static const char *const numbers[] = {"NaN", "nan", "Infinity", "inf", "-Infinity", "-inf"};
    static const char *const python[] = {"None", "True", "False"};
    char c = t.ptr[at];
    s->depth += (size_t)(c == '{' || c == '[');
    s->depth -= (size_t)((c == '}' || c == ']') && s->depth > 0);
    s->comma |= (c == '}' || c == ']') && before == ',';
    if (strchr(":,[{", before) == NULL)
        return; /* no value starts here */
    s->single_quotes |= c == '\'' || is_word(t, at, python, ARRAY_LEN(python));
    s->word |= is_word(t, at, numbers, ARRAY_LEN(numbers));
}

static struct scan scan_text(str t)
{
    struct scan s = {0};
    char before = ','; /* the last character that is no white space */
    for (size_t i = 0; i < t.len; i++) {
        unsigned char c = (unsigned char)t.ptr[i];
        if (c == '"') {
            s.in_string = !s.in_string;
        } else if (s.in_string && c == '\\') {
            i += scan_escape(&s, t, i) - 1;
        } else if (s.in_string) {
            s.control |= c < 0x20;
        } else if (!is_space((char)c)) {
            scan_outside(&s, t, i, before);
        }
        if (!is_space((char)c))
            before = (char)c;
    }
    s.comma |= before == ',' && s.depth == 0;
    return s;
}

static enum lint_code classify(str t)
{
    struct scan s = scan_text(t);
    if (str_utf8_invalid_at(t) != t.len || s.surrogate)
        return LINT_J10;
    if (s.single_quotes)
        return LINT_J04;
    if (s.control)
        return LINT_J10;
    if (s.comma || s.word)
        return LINT_J12;
    return s.in_string || s.depth > 0 ? LINT_J14 : LINT_J08;
}

/* The parser's message without the name it was given, and without "line 1", for most rows are a
 * line. */
static const char *without_name(const char *message)
{
    static const char name[] = "row: ", first[] = "line 1, ";
    message += strncmp(message, name, sizeof name - 1) == 0 ? sizeof name - 1 : 0;
    return message + (strncmp(message, first, sizeof first - 1) == 0 ? sizeof first - 1 : 0);
}

static bool holds_nul(const json *v, int depth)
{
    str s;
    if (json_str(v, &s))
        return memchr(s.ptr, '\0', s.len) != NULL;
    for (const json *c = json_first(v); c != NULL; c = json_next(c))
        if (depth > 0 && holds_nul(c, depth - 1))
            return true;
    return false;
}

ft_status lint_json(struct json_doc **out, struct lint_list *l, str text, ft_error *err)
{
    ft_status st = json_parse(out, "row", text, JSON_STRICT, err);
    if (str_starts(text, STR("\xEF\xBB\xBF")))
        lint_add(l, LINT_J09, "", "in front of the row");
    if (text.len > LARGE_ROW)
        lint_add(l, LINT_J11, "", "%.1f MiB in one row", (double)text.len / (1 << 20));
    if (st == FT_EFORMAT || st == FT_ELIMIT) {
        lint_add(l, classify(text), "", "%s", without_name(err->text));
        return FT_OK;
    }
    /* "\u0000" is looked for in the text first: it is rare, and the walk is not free. */
    if (st == FT_OK && text.len > 5 && holds_nul(json_root(*out), 64))
        lint_add(l, LINT_J16, "", "%s", "");
    return st;
}
