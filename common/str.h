/* SPDX-License-Identifier: Apache-2.0
 * (pointer, length) slices, strict number parsing, UTF-8 validation and edit distance.
 * A slice borrows its bytes and may contain NUL. */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include "common/base.h"

typedef struct {
    const char *ptr;
    size_t len;
} str;

#define STR(literal) ((str){literal, sizeof(literal) - 1})
/* For printf("%.*s", STR_ARG(s)); long slices are cut at INT_MAX. */
#define STR_ARG(s) (int)FT_MIN((s).len, (size_t)INT32_MAX), (s).ptr

str str_from(const char *cstr);
bool str_eq(str a, str b);
bool str_is(str a, const char *cstr);
bool str_starts(str s, str prefix);
bool str_ends(str s, str suffix);
str str_trim(str s); /* ASCII white space on both sides */
str str_sub(str s, size_t from, size_t to);
/* Offset of the first occurrence of part, which is not empty; s.len when there is none. */
size_t str_find(str s, str part);
/* Cuts *rest at the first `sep`; returns the part before. At the end *rest is empty. */
str str_cut(str *rest, char sep);

/* Whole slice or nothing: no leading space, no trailing characters, no overflow. */
FT_NODISCARD bool str_to_i64(str s, int64_t *out);
FT_NODISCARD bool str_to_f64(str s, double *out); /* finite decimal; rejects inf, nan, hex */

/* Offset of the first byte that is not valid UTF-8 (RFC 3629: no overlong forms, surrogates or
 * code points above U+10FFFF); s.len when all is valid. */
size_t str_utf8_invalid_at(str s);
/* Decodes the code point at s.ptr (valid UTF-8, len > 0) and stores its length, 1 to 4. */
uint32_t str_utf8_next(str s, size_t *len);
/* Writes 1 to 4 bytes, returns how many. */
size_t str_utf8_put(char *dst, uint32_t code_point);

/* The candidate with the smallest edit distance to s when it is close enough to be a typing
 * error (at most a third of its length); NULL otherwise. */
const char *str_nearest(str s, const char *const *candidates, size_t n);

#endif
