/* SPDX-License-Identifier: Apache-2.0
 * What cJSON 1.7.15 accepts too freely is checked here: one scan before parsing (UTF-8, control
 * characters, NUL escapes, comments) and one walk after it (duplicate keys). */
#include "formats/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

struct json_doc {
    cJSON *root;
    char *text;         /* the scanned copy, only while parsing */
    bool odd_numbers;   /* some may need json_number_text */
    bool stand_ins;     /* some strings hold a NUL_STAND_IN */
    const char *cursor; /* in text, behind the number that was visited last */
};

/* cJSON strings end at NUL, so \u0000 passes through it as this overlong form (never valid UTF-8,
 * so it cannot clash with input). Values are turned back after parsing; keys keep it. */
static const char NUL_STAND_IN[] = "\xC0\x80";

static ft_status syntax_error(ft_error *err, const char *name, str text, size_t at,
                              const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text.len; i++) {
        column = text.ptr[i] == '\n' ? 1 : column + 1;
        line += text.ptr[i] == '\n';
    }
    return ft_fail(err, FT_EFORMAT, "%s: line %zu, column %zu: not JSON: %s", name, line, column,
                   what);
}

/* Blanks a comment that starts at i; returns the offset behind it, or 0 when it never ends. */
static size_t skip_comment(char *t, size_t n, size_t i)
{
    bool block = t[i + 1] == '*';
    size_t end = i + 2;
    while (end < n && !(block ? t[end] == '*' && end + 1 < n && t[end + 1] == '/' : t[end] == '\n'))
        end++;
    if (block && end >= n)
        return 0;
    end += block ? 2 : 0;
    for (size_t k = i; k < end; k++)
        if (t[k] != '\n')
            t[k] = ' ';
    return end;
}

/* Whether t[i], outside of strings, belongs to a number whose value does not tell how it was
 * written: a point, an exponent, a minus before 0 or the 16th digit in a row. */
static bool is_odd_number(const char *t, size_t i, size_t *digits)
{
    char c = t[i];
    bool digit = c >= '0' && c <= '9';
    *digits = digit ? *digits + 1 : 0;
    if (digit)
        return *digits > 15 || (c == '0' && i > 0 && t[i - 1] == '-');
    return c == '.' || ((c == 'e' || c == 'E') && i > 0 && t[i - 1] >= '0' && t[i - 1] <= '9');
}

/* Bytes at p that a string may hold as they are: neither controls, nor quotes or backslashes. Eight
 * at a time; each test sets the high bit of a byte that may be one, and of no byte before it. */
static size_t plain_run(const char *p, size_t n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t x = load_u64le(p + i), quote = x ^ ones * '"', slash = x ^ ones * '\\';
        uint64_t hits =
            ((x - ones * 0x20) & ~x) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        if ((hits & high) != 0)
            break;
    }
    while (i < n && (unsigned char)p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
        i++;
    return i;
}

/* One pass over the text: refuses what cJSON would let through, blanks comments and replaces each
 * \u0000 by its shorter stand-in, compacting in place. Offsets in messages stay those of the
 * original as long as no \u0000 came before, which is close enough for a syntax error behind one.
 */
static ft_status scan_text(char *t, size_t *n, bool *odd_numbers, bool *stand_ins, const char *name,
                           str original, enum json_flags flags, ft_error *err)
{
    bool in_string = false;
    size_t out = 0, digits = 0;
    for (size_t i = 0; i < *n;) {
        size_t plain = in_string ? plain_run(t + i, *n - i) : 0;
        if (plain > 0) {
            if (out != i)
                memmove(t + out, t + i, plain);
            i += plain;
            out += plain;
            continue;
        }
        unsigned char c = (unsigned char)t[i];
        if (in_string && c < 0x20)
            return syntax_error(err, name, original, i,
                                "raw control character in a string (write it as an escape)");
        if (c == '\0')
            return syntax_error(err, name, original, i, "NUL byte");
        if (c < 0x20 && c != '\t' && c != '\n' && c != '\r') /* cJSON takes it for white space */
            return syntax_error(err, name, original, i, "control character between values");
        if (!in_string && (flags & JSON_COMMENTS) && c == '/' && i + 1 < *n &&
            (t[i + 1] == '/' || t[i + 1] == '*')) {
            size_t end = skip_comment(t, *n, i);
            if (end == 0)
                return syntax_error(err, name, original, i, "comment without an end");
            while (i < end)
                t[out++] = t[i++];
            continue;
        }
        if (in_string && c == '\\' && i + 1 < *n) {
            if (*n - i >= 6 && memcmp(t + i, "\\u0000", 6) == 0) {
                memcpy(t + out, NUL_STAND_IN, 2);
                *stand_ins = true;
                out += 2;
                i += 6;
                continue;
            }
            t[out++] = t[i++];
        } else if (c == '"') {
            in_string = !in_string;
        }
        if (!in_string && c < 'f' && is_odd_number(t, i, &digits))
            *odd_numbers = true;
        t[out++] = t[i++];
    }
    *n = out;
    t[out] = '\0';
    return FT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static ft_status key_twice(const char *key, const char *name, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: the key \"%s\" appears twice in one object", name, key);
}

/* Each with each: what nearly all objects need, without allocating. */
enum { FEW_KEYS = 8 };
static ft_status check_few_keys(const cJSON *object, const char *name, ft_error *err)
{
    for (const cJSON *m = object->child; m != NULL; m = m->next)
        for (const cJSON *o = object->child; o != m; o = o->next)
            if (o->string[0] == m->string[0] && strcmp(o->string, m->string) == 0)
                return key_twice(m->string, name, err);
    return FT_OK;
}

static ft_status check_object_keys(const cJSON *object, const char *name, ft_error *err)
{
    size_t n = (size_t)cJSON_GetArraySize(object), i = 0;
    const char **keys;
    if (n <= FEW_KEYS)
        return check_few_keys(object, name, err);
    FT_TRY(mem_new(&keys, n, sizeof *keys, "the keys of a JSON object", err));
    for (const cJSON *m = object->child; m != NULL; m = m->next)
        keys[i++] = m->string;
    qsort(keys, n, sizeof *keys, compare_keys);
    ft_status st = FT_OK;
    for (i = 1; i < n && st == FT_OK; i++)
        if (strcmp(keys[i - 1], keys[i]) == 0)
            st = key_twice(keys[i], name, err);
    mem_free(keys);
    return st;
}

/* Puts the NULs back into a string value. Its length then lives in valuedouble, which cJSON leaves
 * unused for strings. */
static void finish_string(cJSON *v, bool stand_ins)
{
    char *s = v->valuestring;
    size_t n = strlen(s), out = 0;
    char *stand_in = stand_ins ? strstr(s, NUL_STAND_IN) : NULL;
    if (stand_in != NULL) {
        out = (size_t)(stand_in - s);
        for (size_t i = out; i < n; i++, out++) {
            bool nul = n - i >= 2 && memcmp(s + i, NUL_STAND_IN, 2) == 0;
            s[out] = nul ? '\0' : s[i];
            i += nul;
        }
        n = out;
    }
    v->valuedouble = (double)n;
}

static str string_value(const cJSON *v)
{
    return (str){v->valuestring, (size_t)v->valuedouble};
}

/* The next number of the text; the tree's are visited in the same order. */
static str next_number(struct json_doc *doc)
{
    const char *p = doc->cursor;
    bool in_string = false;
    for (; in_string || ((*p < '0' || *p > '9') && *p != '-'); p++) {
        if (*p == '"')
            in_string = !in_string;
        p += in_string && *p == '\\';
    }
    size_t n = strspn(p, "+-.0123456789eE");
    doc->cursor = p + n;
    return (str){p, n};
}

/* Keeps the text of a number that json_number_text has to tell, where cJSON frees it. */
static ft_status finish_number(struct json_doc *doc, cJSON *v, ft_error *err)
{
    str text = next_number(doc);
    bool whole = v->valuedouble == floor(v->valuedouble);
    bool plain = memchr(text.ptr, '.', text.len) == NULL &&
                 memchr(text.ptr, 'e', text.len) == NULL &&
                 memchr(text.ptr, 'E', text.len) == NULL && text.len <= 15 && !str_is(text, "-0");
    if (!whole || plain)
        return FT_OK;
    v->valuestring = cJSON_malloc(text.len + 1);
    if (v->valuestring == NULL)
        return ft_fail_memory(err, text.len, "JSON");
    memcpy(v->valuestring, text.ptr, text.len);
    v->valuestring[text.len] = '\0';
    return FT_OK;
}

/* Recursion is bounded by cJSON's own nesting limit of 1,000. */
static ft_status finish_tree(struct json_doc *doc, cJSON *v, const char *name, ft_error *err)
{
    if (cJSON_IsString(v))
        finish_string(v, doc->stand_ins);
    if (doc->odd_numbers && cJSON_IsNumber(v))
        FT_TRY(finish_number(doc, v, err));
    if (cJSON_IsObject(v))
        FT_TRY(check_object_keys(v, name, err));
    for (cJSON *c = v->child; c != NULL; c = c->next)
        FT_TRY(finish_tree(doc, c, name, err));
    return FT_OK;
}

/* Where an object key should start but does not, cJSON points one byte too far. */
static bool key_expected_before(const char *t, size_t at)
{
    if (at == 0 || strchr(" \t\r\n\"0123456789", t[at - 1]) != NULL)
        return false;
    size_t i = at - 1;
    while (i > 0 && strchr(" \t\r\n", t[i - 1]) != NULL)
        i--;
    return i > 0 && (t[i - 1] == '{' || t[i - 1] == ',');
}

static bool is_number_word(const char *t)
{
    static const char *const words[] = {"NaN", "nan", "Infinity", "inf"};
    t += *t == '-' || *t == '+';
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strncmp(t, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* The character before t[at] that is no white space; NUL when there is none. */
static char before(const char *t, size_t at)
{
    while (at > 0 && strchr(" \t\r\n", t[at - 1]) != NULL)
        at--;
    return at == 0 ? '\0' : t[at - 1];
}

/* Brackets that are open before t[at]. */
static size_t depth_at(const char *t, size_t at)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < at; i++) {
        if (t[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += t[i] == '\\';
        else
            depth += (size_t)(t[i] == '[' || t[i] == '{') - (size_t)(t[i] == ']' || t[i] == '}');
    }
    return depth;
}

/* cJSON stops at a backslash when it cannot read the escape there. */
static const char *explain_escape(const char *t)
{
    unsigned unit;
    if (t[1] == 'u' && sscanf(t + 2, "%4x", &unit) == 1 && unit >= 0xD800 && unit <= 0xDFFF)
        return "lone surrogate escape";
    return "unknown escape";
}

/* What is wrong at t[at], as far as the text around it tells. */
static const char *explain(const char *t, size_t n, size_t at)
{
    if (at >= n)
        return "the text ends too early";
    cJSON *value = cJSON_ParseWithLengthOpts(t, n + 1, NULL, 0);
    cJSON_Delete(value);
    if (value != NULL)
        return "text after the value";
    if ((t[at] == ']' || t[at] == '}') && before(t, at) == ',')
        return "trailing comma";
    if ((t[at] == '[' || t[at] == '{') && depth_at(t, at) >= CJSON_NESTING_LIMIT)
        return "nesting deeper than 1000";
    if (t[at] == '\\')
        return explain_escape(t + at);
    if (t[at] == '\'')
        return "strings need double quotes";
    return is_number_word(t + at) ? "NaN/Infinity is not JSON" : "unexpected character";
}

static ft_status parse_scanned(struct json_doc *doc, const char *name, str original, size_t n,
                               ft_error *err)
{
    const char *end = NULL;
    doc->root = cJSON_ParseWithLengthOpts(doc->text, n + 1, &end, 1);
    doc->cursor = doc->text;
    if (doc->root != NULL)
        return finish_tree(doc, doc->root, name, err);
    size_t at = end == NULL ? 0 : (size_t)(end - doc->text);
    if (key_expected_before(doc->text, at))
        at--;
    return syntax_error(err, name, original, at >= n ? original.len : at,
                        explain(doc->text, n, at));
}

ft_status json_parse(struct json_doc **out, const char *name, str text, enum json_flags flags,
                     ft_error *err)
{
    struct json_doc *doc = NULL;
    ft_status st;
    *out = NULL;
    if (text.len >= 3 && memcmp(text.ptr, "\xEF\xBB\xBF", 3) == 0)
        text = str_sub(text, 3, text.len);
    size_t n = text.len, bad = str_utf8_invalid_at(text);
    if (bad != text.len)
        return syntax_error(err, name, text, bad, "invalid UTF-8");
    FT_GOTO(mem_new(&doc, 1, sizeof *doc, "JSON", err));
    FT_GOTO(mem_new(&doc->text, text.len + 1, 1, "JSON text", err));
    if (text.len > 0)
        memcpy(doc->text, text.ptr, text.len);
    FT_GOTO(scan_text(doc->text, &n, &doc->odd_numbers, &doc->stand_ins, name, text, flags, err));
    FT_GOTO(parse_scanned(doc, name, text, n, err));
    mem_free(doc->text);
    doc->text = NULL;
    *out = doc;
    return FT_OK;
out:
    json_close(doc);
    return st;
}

ft_status json_load(struct json_doc **out, const char *path, enum json_flags flags,
                    size_t max_bytes, ft_error *err)
{
    struct arena a = {0};
    str text;
    *out = NULL;
    ft_status st = file_read_all(&text, &a, path, max_bytes, err);
    if (st == FT_OK)
        st = json_parse(out, path, text, flags, err);
    arena_destroy(&a);
    return st;
}

void json_close(struct json_doc *doc)
{
    if (doc == NULL)
        return;
    cJSON_Delete(doc->root);
    mem_free(doc->text);
    mem_free(doc);
}

const json *json_root(const struct json_doc *doc)
{
    return doc->root;
}

enum json_kind json_kind(const json *v)
{
    if (cJSON_IsString(v))
        return JSON_STRING;
    if (cJSON_IsNumber(v))
        return JSON_NUMBER;
    if (cJSON_IsBool(v))
        return JSON_BOOL;
    if (cJSON_IsArray(v))
        return JSON_ARRAY;
    return cJSON_IsObject(v) ? JSON_OBJECT : JSON_NULL;
}

const char *json_kind_name(enum json_kind k)
{
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "a list",        "an object"};
    return names[k];
}

const json *json_get(const json *object, const char *key)
{
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

const json *json_first(const json *container)
{
    return container == NULL ? NULL : container->child;
}

const json *json_next(const json *v)
{
    return v == NULL ? NULL : v->next;
}

size_t json_count(const json *container)
{
    return container == NULL ? 0 : (size_t)cJSON_GetArraySize(container);
}

str json_key(const json *member)
{
    return str_from(member->string);
}

bool json_str(const json *v, str *out)
{
    if (!cJSON_IsString(v))
        return false;
    *out = string_value(v);
    return true;
}

bool json_bool(const json *v, bool *out)
{
    if (!cJSON_IsBool(v))
        return false;
    *out = cJSON_IsTrue(v) != 0;
    return true;
}

bool json_f64(const json *v, double *out)
{
    if (!cJSON_IsNumber(v))
        return false;
    *out = v->valuedouble;
    return true;
}

bool json_i64(const json *v, int64_t *out)
{
    if (!cJSON_IsNumber(v) || fabs(v->valuedouble) > 0x1p53 ||
        v->valuedouble != floor(v->valuedouble))
        return false;
    *out = (int64_t)v->valuedouble;
    return true;
}

bool json_number_text(const json *v, str *out)
{
    if (!cJSON_IsNumber(v) || v->valuestring == NULL)
        return false;
    *out = str_from(v->valuestring);
    return true;
}

ft_status json_need(const json **out, const json *object, const char *key, enum json_kind kind,
                    ft_error *err)
{
    const json *v = json_get(object, key);
    if (v == NULL)
        return ft_fail(err, FT_EFORMAT, "\"%s\" is missing, expected %s", key,
                       json_kind_name(kind));
    if (json_kind(v) != kind)
        return ft_fail(err, FT_EFORMAT, "\"%s\": expected %s, found %s", key, json_kind_name(kind),
                       json_kind_name(json_kind(v)));
    *out = v;
    return FT_OK;
}

ft_status json_need_str(str *out, const json *object, const char *key, ft_error *err)
{
    const json *v;
    FT_TRY(json_need(&v, object, key, JSON_STRING, err));
    *out = string_value(v);
    return FT_OK;
}

ft_status json_need_i64(int64_t *out, const json *object, const char *key, int64_t min, int64_t max,
                        ft_error *err)
{
    const json *v;
    FT_TRY(json_need(&v, object, key, JSON_NUMBER, err));
    if (!json_i64(v, out) || *out < min || *out > max)
        return ft_fail(err, FT_EFORMAT, "\"%s\": %.17g is not a whole number from %lld to %lld",
                       key, v->valuedouble, (long long)min, (long long)max);
    return FT_OK;
}

ft_status json_opt_i64(int64_t *out, const json *object, const char *key, int64_t fallback,
                       int64_t min, int64_t max, ft_error *err)
{
    const json *v = json_get(object, key);
    *out = fallback;
    return v == NULL || json_kind(v) == JSON_NULL ? FT_OK
                                                  : json_need_i64(out, object, key, min, max, err);
}

ft_status json_opt_f64(double *out, const json *object, const char *key, double fallback,
                       ft_error *err)
{
    const json *v = json_get(object, key);
    *out = fallback;
    if (v == NULL || json_kind(v) == JSON_NULL)
        return FT_OK;
    FT_TRY(json_need(&v, object, key, JSON_NUMBER, err));
    *out = v->valuedouble;
    return FT_OK;
}

ft_status json_opt_bool(bool *out, const json *object, const char *key, bool fallback,
                        ft_error *err)
{
    const json *v = json_get(object, key);
    *out = fallback;
    if (v == NULL || json_kind(v) == JSON_NULL)
        return FT_OK;
    FT_TRY(json_need(&v, object, key, JSON_BOOL, err));
    return json_bool(v, out) ? FT_OK : FT_EFORMAT;
}

void json_write_str(struct buf *out, str s)
{
    buf_byte(out, '"');
    while (s.len > 0) {
        unsigned char c = (unsigned char)s.ptr[0];
        size_t n = 1;
        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", c);
        } else if (c == '\n') {
            buf_cstr(out, "\\n");
        } else if (c < 0x20 || c == 0x7F) {
            buf_printf(out, "\\u%04x", c);
        } else if (c < 0x80) {
            buf_byte(out, c);
        } else {
            str window = str_sub(s, 0, FT_MIN(s.len, (size_t)4));
            if (str_utf8_invalid_at(window) == 0) {
                buf_cstr(out, "\xEF\xBF\xBD");
            } else {
                str_utf8_next(window, &n);
                buf_append(out, s.ptr, n);
            }
        }
        s = str_sub(s, n, s.len);
    }
    buf_byte(out, '"');
}
