/* SPDX-License-Identifier: Apache-2.0 */
#include "common/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

str str_from(const char *cstr)
{
    return (str){cstr, strlen(cstr)};
}

bool str_eq(str a, str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_is(str a, const char *cstr)
{
    return str_eq(a, str_from(cstr));
}

bool str_starts(str s, str prefix)
{
    return s.len >= prefix.len && str_eq(str_sub(s, 0, prefix.len), prefix);
}

bool str_ends(str s, str suffix)
{
    return s.len >= suffix.len && str_eq(str_sub(s, s.len - suffix.len, s.len), suffix);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

str str_trim(str s)
{
    while (s.len > 0 && is_space(s.ptr[0]))
        s = str_sub(s, 1, s.len);
    while (s.len > 0 && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

str str_sub(str s, size_t from, size_t to)
{
    FT_ASSERT(from <= to && to <= s.len);
    return (str){s.ptr == NULL ? NULL : s.ptr + from, to - from};
}

size_t str_find(str s, str part)
{
    size_t at = 0;
    while (s.len - at >= part.len) {
        const char *hit = memchr(s.ptr + at, part.ptr[0], s.len - at - part.len + 1);
        if (hit == NULL)
            break;
        at = (size_t)(hit - s.ptr);
        if (memcmp(hit, part.ptr, part.len) == 0)
            return at;
        at++;
    }
    return s.len;
}

str str_cut(str *rest, char sep)
{
    const char *at = rest->len == 0 ? NULL : memchr(rest->ptr, sep, rest->len);
    if (at == NULL) {
        str all = *rest;
        *rest = str_sub(*rest, rest->len, rest->len);
        return all;
    }
    size_t n = (size_t)(at - rest->ptr);
    str head = str_sub(*rest, 0, n);
    *rest = str_sub(*rest, n + 1, rest->len);
    return head;
}

bool str_to_i64(str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t v = 0;
    size_t i = negative ? 1 : 0;
    if (i == s.len)
        return false;
    for (; i < s.len; i++) {
        unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';
        if (digit > 9 || v > (limit - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *out = (int64_t)(negative ? 0 - v : v);
    return true;
}

bool str_to_f64(str s, double *out)
{
    char text[64], *end;
    if (s.len == 0 || s.len >= sizeof text)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '\0' || strchr("0123456789+-.eE", s.ptr[i]) == NULL)
            return false;
        text[i] = s.ptr[i];
    }
    text[s.len] = '\0';
    double v = strtod(text, &end);
    if (*end != '\0' || v - v != 0.0)
        return false;
    *out = v;
    return true;
}

/* Length of the valid sequence at p, or 0. */
static size_t utf8_sequence(const uint8_t *p, size_t n)
{
    uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    size_t len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) || (c == 0xF0 && p[1] < 0x90) ||
        (c == 0xF4 && p[1] > 0x8F))
        return 0;
    return len;
}

size_t str_utf8_invalid_at(str s)
{
    const uint8_t *p = (const uint8_t *)s.ptr;
    size_t i = 0;
    while (i < s.len) {
        uint64_t eight;
        if (s.len - i >= 8) {
            memcpy(&eight, p + i, 8);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += 8;
                continue;
            }
        }
        size_t n = utf8_sequence(p + i, s.len - i);
        if (n == 0)
            return i;
        i += n;
    }
    return s.len;
}

uint32_t str_utf8_next(str s, size_t *len)
{
    const uint8_t *p = (const uint8_t *)s.ptr;
    size_t n = utf8_sequence(p, s.len);
    FT_ASSERT(n != 0);
    *len = n;
    if (n == 1)
        return p[0];
    uint32_t v = p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++)
        v = v << 6 | (p[i] & 0x3Fu);
    return v;
}

size_t str_utf8_put(char *dst, uint32_t c)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n - 1; i > 0; i--) {
        dst[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    dst[0] = (char)(lead[n] | c);
    return n;
}

enum { NEAREST_MAX = 64 };

/* Edits that turn a into b, where swapping two neighbours counts as one; strings longer than
 * NEAREST_MAX count as far away. */
static size_t edit_distance(str a, str b)
{
    size_t rows[3][NEAREST_MAX + 1]; /* of i - 2, i - 1 and i, in turn */
    if (a.len > NEAREST_MAX || b.len > NEAREST_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t d = above[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]);
            d = FT_MIN(d, FT_MIN(row[j - 1], above[j]) + 1);
            if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
                d = FT_MIN(d, above2[j - 2] + 1);
            row[j] = d;
        }
    }
    return rows[a.len % 3][b.len];
}

const char *str_nearest(str s, const char *const *candidates, size_t n)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        str c = str_from(candidates[i]);
        size_t d = edit_distance(s, c);
        if (d < best_distance && d <= FT_MAX(c.len / 3, (size_t)1)) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
