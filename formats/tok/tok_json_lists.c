/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/tok_json_lists.h"

#include <string.h>

/* --- finding the lists ------------------------------------------------------------------------
 */

struct cursor {
    str text;
    size_t at;
};

static char peek(const struct cursor *c)
{
    return c->at < c->text.len ? c->text.ptr[c->at] : '\0';
}

static void skip_space(struct cursor *c)
{
    while (peek(c) == ' ' || peek(c) == '\n' || peek(c) == '\r' || peek(c) == '\t')
        c->at++;
}

/* Past the character when it comes next, white space aside. */
static bool take(struct cursor *c, char wanted)
{
    skip_space(c);
    bool there = peek(c) == wanted && c->at < c->text.len;
    c->at += there;
    return there;
}

/* The inside of a string, escapes as they stand. */
static bool take_raw(str *out, bool *escaped, struct cursor *c)
{
    *escaped = false;
    if (!take(c, '"'))
        return false;
    size_t from = c->at;
    for (;;) {
        const char *end = memchr(c->text.ptr + c->at, '"', c->text.len - c->at);
        if (end == NULL)
            return false;
        size_t to = (size_t)(end - c->text.ptr), slashes = 0;
        while (to - slashes > from && c->text.ptr[to - slashes - 1] == '\\')
            slashes++;
        c->at = to + 1;
        if (slashes % 2 == 0) {
            *out = str_sub(c->text, from, to);
            *escaped = memchr(out->ptr, '\\', out->len) != NULL;
            return true;
        }
    }
}

static bool skip_value(struct cursor *c)
{
    size_t depth = 0;
    str string;
    bool escaped;
    skip_space(c);
    do {
        char next = peek(c);
        if (next == '"') {
            if (!take_raw(&string, &escaped, c))
                return false;
            continue;
        }
        if (next == '\0')
            return false;
        if (depth == 0 && (next == ',' || next == ']' || next == '}'))
            return true; /* the end of a number or word */
        depth += next == '{' || next == '[';
        depth -= next == '}' || next == ']';
        c->at++;
    } while (depth > 0 || (peek(c) != ',' && peek(c) != '}' && peek(c) != ']'));
    return true;
}

/* The value of the first member of the object at the cursor that bears the key. */
static bool find_member(str *value, struct cursor c, const char *key)
{
    str name;
    bool escaped;
    if (!take(&c, '{'))
        return false;
    do {
        if (!take_raw(&name, &escaped, &c) || !take(&c, ':'))
            return false;
        skip_space(&c);
        size_t from = c.at;
        if (!skip_value(&c))
            return false;
        if (str_is(name, key)) {
            *value = str_sub(c.text, from, c.at);
            return true;
        }
    } while (take(&c, ','));
    return false;
}

/* A list as a value with its brackets. */
static str find_list(str model, const char *key, char open, char close)
{
    str value = {0};
    if (!find_member(&value, (struct cursor){model, 0}, key))
        return (str){0};
    while (value.len > 0 && value.ptr[value.len - 1] != close)
        value.len--; /* white space behind it */
    return value.len >= 2 && value.ptr[0] == open ? value : (str){0};
}

static void put_emptied(struct buf *out, str list)
{
    buf_byte(out, (uint8_t)list.ptr[0]);
    for (size_t at = 0; (at += str_find(str_sub(list, at, list.len), STR("\n"))) < list.len; at++)
        buf_byte(out, '\n');
    buf_byte(out, (uint8_t)list.ptr[list.len - 1]);
}

ft_status tok_json_cut_lists(struct tok_json_lists *out, struct buf *rest, str text, ft_error *err)
{
    str model;
    size_t done = 0;
    *out = (struct tok_json_lists){0};
    if (find_member(&model, (struct cursor){text, 0}, "model")) {
        out->vocab = find_list(model, "vocab", '{', '}');
        out->merges = find_list(model, "merges", '[', ']');
    }
    const str *lists[] = {&out->vocab, &out->merges};
    if (out->merges.ptr != NULL && out->merges.ptr < out->vocab.ptr) {
        lists[0] = &out->merges;
        lists[1] = &out->vocab;
    }
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (lists[i]->ptr == NULL)
            continue;
        size_t from = (size_t)(lists[i]->ptr - text.ptr);
        buf_str(rest, str_sub(text, done, from));
        put_emptied(rest, *lists[i]);
        done = from + lists[i]->len;
    }
    buf_str(rest, str_sub(text, done, text.len));
    return buf_status(rest, "a tokenizer.json", err);
}

/* --- strings ----------------------------------------------------------------------------------
 */

static bool hex4(uint32_t *out, str s, size_t at)
{
    *out = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < s.len ? s.ptr[i] : '\0';
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* The character of \uXXXX, or of two that make a pair, at s.ptr[*at] == 'u'. */
static bool put_code_point(struct buf *out, str s, size_t *at)
{
    uint32_t c, low;
    char bytes[4];
    if (!hex4(&c, s, *at + 1))
        return false;
    *at += 5;
    if (c >= 0xDC00 && c < 0xE000)
        return false;
    if (c >= 0xD800 && c < 0xDC00) {
        if (!str_starts(str_sub(s, FT_MIN(*at, s.len), s.len), STR("\\u")) ||
            !hex4(&low, s, *at + 2) || low < 0xDC00 || low >= 0xE000)
            return false;
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    }
    buf_append(out, bytes, str_utf8_put(bytes, c));
    return true;
}

static bool unescape(struct buf *out, str s)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    for (size_t i = 0; i < s.len;) {
        if (s.ptr[i] != '\\') {
            buf_byte(out, (uint8_t)s.ptr[i++]);
            continue;
        }
        char c = ++i < s.len ? s.ptr[i] : '\0';
        const char *known = c == '\0' ? NULL : strchr(escapes, c);
        if (known != NULL) {
            buf_byte(out, (uint8_t)meanings[known - escapes]);
            i++;
        } else if (c != 'u' || !put_code_point(out, s, &i)) {
            return false;
        }
    }
    return true;
}

static bool has_control(str s)
{
    bool found = false;
    for (size_t i = 0; i < s.len; i++)
        found |= (uint8_t)s.ptr[i] < 0x20;
    return found;
}

/* A string; scratch holds it when it has escapes. */
static bool take_string(str *out, struct cursor *c, struct buf *scratch)
{
    bool escaped;
    if (!take_raw(out, &escaped, c) || has_control(*out))
        return false;
    if (!escaped)
        return true;
    buf_clear(scratch);
    if (!unescape(scratch, *out) || scratch->failed)
        return false;
    *out = buf_view(scratch);
    return true;
}

/* --- entries ----------------------------------------------------------------------------------
 */

static size_t count_quotes(str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += s.ptr[i] == '"';
    return n;
}

size_t tok_json_count_pieces(const struct tok_json_lists *l)
{
    return count_quotes(l->vocab) / 2;
}

size_t tok_json_count_merges(const struct tok_json_lists *l)
{
    struct cursor c = {l->merges, 1};
    return count_quotes(l->merges) / (take(&c, '[') ? 4 : 2);
}

static bool take_id(int64_t *id, struct cursor *c)
{
    skip_space(c);
    size_t from = c->at;
    while (peek(c) == '-' || (peek(c) >= '0' && peek(c) <= '9'))
        c->at++;
    return peek(c) != '.' && peek(c) != 'e' && peek(c) != 'E' &&
           str_to_i64(str_sub(c->text, from, c->at), id);
}

static ft_status blame_text(bool *malformed, const struct cursor *c, ft_error *err)
{
    *malformed = true;
    return ft_fail(err, FT_EFORMAT, "unexpected text at byte %zu of the list", c->at);
}

ft_status tok_json_read_pieces(struct tok_builder *b, const struct tok_json_lists *l,
                               bool *malformed, ft_error *err)
{
    struct cursor c = {l->vocab, 1};
    struct buf scratch = {0};
    ft_status st = FT_OK;
    if (take(&c, '}'))
        return FT_OK;
    do {
        str piece;
        int64_t id;
        if (!take_string(&piece, &c, &scratch) || !take(&c, ':'))
            FT_GOTO(blame_text(malformed, &c, err));
        if (!take_id(&id, &c)) {
            *malformed = true;
            FT_GOTO(ft_fail(err, FT_EFORMAT,
                            "model.vocab: the id of \"%.*s\" is not a whole number",
                            STR_ARG(piece)));
        }
        st = tok_builder_piece(b, id, piece, err);
        if (st != FT_OK)
            FT_GOTO(ft_wrap(err, "model.vocab"));
    } while (take(&c, ','));
    if (!take(&c, '}') || c.at != c.text.len)
        st = blame_text(malformed, &c, err);
out:
    buf_free(&scratch);
    return st;
}

/* "a b" or ["a", "b"] */
static ft_status read_merge(struct tok_builder *b, struct cursor *c, struct buf scratch[2],
                            bool *malformed, ft_error *err)
{
    str left, right;
    bool pair = take(c, '[');
    if (!pair && take_string(&left, c, &scratch[0]))
        return str_starts(left, STR("#version")) ? FT_OK : tok_builder_merge_pair(b, left, err);
    if (pair && take_string(&left, c, &scratch[0]) && take(c, ',') &&
        take_string(&right, c, &scratch[1]) && take(c, ']'))
        return tok_builder_merge(b, left, right, err);
    *malformed = true;
    return ft_fail(err, FT_EFORMAT, "expected \"a b\" or [\"a\", \"b\"]");
}

ft_status tok_json_read_merges(struct tok_builder *b, const struct tok_json_lists *l,
                               bool *malformed, ft_error *err)
{
    struct cursor c = {l->merges, 1};
    struct buf scratch[2] = {{0}, {0}};
    ft_status st = FT_OK;
    size_t i = 0;
    if (take(&c, ']'))
        return FT_OK;
    do {
        st = read_merge(b, &c, scratch, malformed, err);
        if (st != FT_OK)
            FT_GOTO(ft_wrap(err, "model.merges[%zu]", i));
        i++;
    } while (take(&c, ','));
    if (!take(&c, ']') || c.at != c.text.len)
        st = blame_text(malformed, &c, err);
out:
    buf_free(&scratch[0]);
    buf_free(&scratch[1]);
    return st;
}
