/* SPDX-License-Identifier: Apache-2.0
 * Strict layer over cJSON, the only owner of its header. Beyond cJSON it rejects invalid UTF-8,
 * duplicate keys, trailing text and raw control characters in strings; keeps \u0000 inside strings;
 * and reports syntax errors with line and column, semantic ones with the path of the value. */
#ifndef FORMATS_JSON_H
#define FORMATS_JSON_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/error.h"

/* A parsed text. All nodes and strings belong to it and live until json_close. */
struct json_doc;
/* A value inside a document. */
typedef struct cJSON json;

enum json_flags {
    JSON_STRICT = 0,
    JSON_COMMENTS = 1, /* // and slash-star comments count as white space (run configurations) */
};

/* name appears in messages: "name: line 3, column 7: ...". FT_EFORMAT, FT_EMEM. */
FT_NODISCARD ft_status json_parse(struct json_doc **out, const char *name, str text,
                                  enum json_flags flags, ft_error *err);
/* Reads and parses a file of at most max_bytes. */
FT_NODISCARD ft_status json_load(struct json_doc **out, const char *path, enum json_flags flags,
                                 size_t max_bytes, ft_error *err);
void json_close(struct json_doc *doc); /* NULL is fine */
const json *json_root(const struct json_doc *doc);

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

enum json_kind json_kind(const json *v);
const char *json_kind_name(enum json_kind k); /* "a string", "null", ... */

/* Structure. NULL arguments give NULL, 0 or false, so that lookups chain. */
const json *json_get(const json *object, const char *key); /* NULL when absent */
const json *json_first(const json *container);             /* NULL when empty */
const json *json_next(const json *v);
size_t json_count(const json *container);
/* Key of an object member. A U+0000 in a key appears as the two bytes C0 80. */
str json_key(const json *member);

/* Conversions; false when the kind does not fit. */
FT_NODISCARD bool json_str(const json *v, str *out); /* may contain NUL */
FT_NODISCARD bool json_bool(const json *v, bool *out);
FT_NODISCARD bool json_f64(const json *v, double *out);
FT_NODISCARD bool json_i64(const json *v, int64_t *out); /* integral and |v| <= 2^53 */
/* A number as it was written, where its value does not tell: "1.0", "-0" and "1e3", which are
 * whole, and integers of more than 15 digits. False for all others. */
FT_NODISCARD bool json_number_text(const json *v, str *out);

/* Checked members: FT_EFORMAT "key: expected a string, found null" / "key is missing". The caller
 * adds file and path with ft_wrap. */
FT_NODISCARD ft_status json_need(const json **out, const json *object, const char *key,
                                 enum json_kind kind, ft_error *err);
FT_NODISCARD ft_status json_need_str(str *out, const json *object, const char *key, ft_error *err);
/* Whole number inside [min, max]. */
FT_NODISCARD ft_status json_need_i64(int64_t *out, const json *object, const char *key, int64_t min,
                                     int64_t max, ft_error *err);
/* As above, but an absent key gives `fallback`. */
FT_NODISCARD ft_status json_opt_i64(int64_t *out, const json *object, const char *key,
                                    int64_t fallback, int64_t min, int64_t max, ft_error *err);
FT_NODISCARD ft_status json_opt_f64(double *out, const json *object, const char *key,
                                    double fallback, ft_error *err);
FT_NODISCARD ft_status json_opt_bool(bool *out, const json *object, const char *key, bool fallback,
                                     ft_error *err);

/* Appends s as a quoted JSON string. s need not be valid UTF-8: each invalid byte becomes U+FFFD.
 */
void json_write_str(struct buf *out, str s);

#endif
