/* SPDX-License-Identifier: Apache-2.0
 * Extended grapheme clusters (UAX #29, Unicode 17): what a reader takes for one character. */
#ifndef FORMATS_TOK_GRAPHEME_H
#define FORMATS_TOK_GRAPHEME_H

#include "common/str.h"

enum grapheme_class {
    GRAPHEME_OTHER,
    GRAPHEME_CR,
    GRAPHEME_LF,
    GRAPHEME_CONTROL,
    GRAPHEME_EXTEND,      /* also between a consonant and a linker */
    GRAPHEME_EXTEND_ONLY, /* not there */
    GRAPHEME_LINKER,      /* an extending one that binds two consonants */
    GRAPHEME_ZWJ,
    GRAPHEME_REGIONAL, /* half of a flag */
    GRAPHEME_PREPEND,
    GRAPHEME_SPACING,
    GRAPHEME_L, /* Hangul */
    GRAPHEME_V,
    GRAPHEME_T,
    GRAPHEME_LV,
    GRAPHEME_LVT,
    GRAPHEME_PICTURE,
    GRAPHEME_CONSONANT,
};

struct grapheme_range {
    uint32_t first, last;
    uint32_t kind; /* enum grapheme_class */
};

extern const struct grapheme_range grapheme_ranges[];
extern const size_t n_grapheme_ranges;

/* Bytes of the first cluster of text (valid UTF-8, not empty). */
size_t grapheme_bytes(str text);

#endif
