/* SPDX-License-Identifier: Apache-2.0
 * Character classes as Hugging Face tokenizers applies them. The tables in unicode.c are read off
 * the real package by tests/reference/make_unicode.py, because its parts follow different Unicode
 * versions. */
#ifndef FORMATS_TOK_UNICODE_H
#define FORMATS_TOK_UNICODE_H

#include "common/base.h"

enum { UNICODE_PAGE = 128 };

/* Of its regex engine where nothing else is said. */
enum unicode_class {
    UNICODE_LETTER = 1,       /* \p{L} */
    UNICODE_NUMBER = 2,       /* \p{N} */
    UNICODE_SPACE = 4,        /* \s everywhere */
    UNICODE_NUMERIC = 8,      /* what Digits isolates: a superset of UNICODE_NUMBER */
    UNICODE_WORD = 16,        /* \w next to a single_word added token */
    UNICODE_PUNCTUATION = 32, /* \p{P} */
    UNICODE_SYMBOL = 64,      /* \p{S} */
    UNICODE_MARK = 128,       /* \p{M} */
    UNICODE_UPPER = 256,      /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    UNICODE_LOWER = 512,      /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
    /* The classes of DeepSeek-V2's stages and the second of DeepSeek-V3. */
    UNICODE_DS_LETTER = 1024,
    UNICODE_DS_PUNCTUATION = 2048,
    UNICODE_DS_CJK = 4096,
    UNICODE_KANA = 8192,              /* [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF] */
    UNICODE_BERT_PUNCTUATION = 16384, /* what the Punctuation pre-tokenizer takes */
    UNICODE_ONIG_WORD = 32768,        /* \w */
    /* Scripts, behind the bits of the category. */
    UNICODE_HAN = 1 << 21,
    UNICODE_HIRAGANA = 1 << 22,
    UNICODE_KATAKANA = 1 << 23,
    UNICODE_HANGUL = 1 << 24,
    UNICODE_LATIN = 1 << 25,
    UNICODE_CYRILLIC = 1 << 26,
    UNICODE_GREEK = 1 << 27,
    UNICODE_ARABIC = 1 << 28,
};

/* The general category in bits 16 to 20, in the order of make_unicode.py. */
enum { UNICODE_CATEGORY_SHIFT = 16, UNICODE_CATEGORIES = 30 };

extern const uint16_t unicode_page_index[0x110000 / UNICODE_PAGE];
extern const uint32_t unicode_pages[][UNICODE_PAGE];

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
