/* SPDX-License-Identifier: Apache-2.0
 * Letter case and character classes as Python's str applies them, for templates. The tables in
 * jinja_unicode.c are read off the interpreter by tests/reference/make_jinja_unicode.py. */
#ifndef FORMATS_JINJA_UNICODE_H
#define FORMATS_JINJA_UNICODE_H

#include "common/str.h"

enum jinja_char_flag {
    JINJA_ALPHA = 1,
    JINJA_DECIMAL = 2,
    JINJA_DIGIT = 4,
    JINJA_NUMERIC = 8,
    JINJA_LOWER = 16,
    JINJA_UPPER = 32,
    JINJA_TITLE = 64,
    JINJA_CASED = 128,
    JINJA_IGNORABLE = 256, /* skipped when the form of a sigma is decided */
    JINJA_PRINTABLE = 512,
    JINJA_WORD = 1024, /* \w */
};

/* Distances to the other cases; from JINJA_LONG_CASE on, rows of jinja_long_cases. */
struct jinja_char {
    int32_t lower, upper, title, fold;
    uint16_t flags;
};
enum { JINJA_LONG_CASE = 0x200000, JINJA_CHAR_PAGE = 128 };

extern const struct jinja_char jinja_chars[];
extern const uint32_t jinja_long_cases[][3];
extern const uint16_t jinja_char_page[0x110000 / JINJA_CHAR_PAGE];
extern const uint16_t jinja_char_pages[][JINJA_CHAR_PAGE];

/* code_point < 0x110000. */
static inline const struct jinja_char *jinja_char(uint32_t code_point)
{
    uint16_t page = jinja_char_page[code_point / JINJA_CHAR_PAGE];
    return &jinja_chars[jinja_char_pages[page][code_point % JINJA_CHAR_PAGE]];
}

/* str.isspace, which is also \s. */
static inline bool jinja_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

/* s without the white space at its end; valid UTF-8. */
str jinja_rstrip_space(str s);

#endif
