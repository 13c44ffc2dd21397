/* SPDX-License-Identifier: Apache-2.0
 * Character classes as Hugging Face tokenizers applies them. The tables in unicode.c are read off
 * the real package by tests/reference/make_unicode.py, because its parts follow different Unicode
 * versions. */
#ifndef FORMATS_TOK_UNICODE_H
#define FORMATS_TOK_UNICODE_H

#include "common/base.h"

enum { UNICODE_PAGE = 128 };

enum unicode_class {
    UNICODE_LETTER = 1,  /* \p{L} of its regex engine */
    UNICODE_NUMBER = 2,  /* \p{N} of its regex engine */
    UNICODE_SPACE = 4,   /* \s everywhere */
    UNICODE_NUMERIC = 8, /* what the Digits pre-tokenizer isolates: a superset of UNICODE_NUMBER */
    UNICODE_WORD = 16,   /* \w next to a single_word added token */
};

extern const uint8_t unicode_page_index[0x110000 / UNICODE_PAGE];
extern const uint8_t unicode_pages[][UNICODE_PAGE];

/* Sum of the classes of a code point below 0x110000. */
static inline unsigned unicode_classes(uint32_t code_point)
{
    return unicode_pages[unicode_page_index[code_point / UNICODE_PAGE]][code_point % UNICODE_PAGE];
}

/* The code point at `at` of text that ends at `to` and is meant to be UTF-8. Without validation but
 * never reading past `to`: from other bytes comes some code point below 0x110000. */
static inline uint32_t unicode_decode(const uint8_t *text, size_t at, size_t to, size_t *length)
{
    const uint8_t *p = text + at;
    size_t n = p[0] < 0xC0 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    *length = n = FT_MIN(n, to - at);
    if (n == 1)
        return p[0];
    uint32_t c = p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3Fu);
    return FT_MIN(c, 0x10FFFFu);
}

#endif
