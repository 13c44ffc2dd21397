/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's compiled normalisation rules: strings to replace and what replaces them. The
 * bytes are a length, a double array whose leaves hold offsets, and NUL-terminated replacements.
 * Two programs read the same rules differently, so there are two look-ups. */
#ifndef FORMATS_TOK_CHARSMAP_H
#define FORMATS_TOK_CHARSMAP_H

#include "common/arena.h"
#include "common/error.h"

enum {
    CHARSMAP_MAX_BYTES = 16 << 20,
    CHARSMAP_MAX_KEY = 1024,         /* bytes of a string to replace */
    CHARSMAP_MAX_REPLACEMENT = 1024, /* bytes of what replaces it */
};

struct charsmap {
    uint32_t *units; /* [n_units] the double array */
    size_t n_units;
    str replacements; /* ends with NUL */
    /* [256] what may be done with a byte without a look-up, see charsmap_plain */
    uint8_t *plain;
    uint8_t *starts; /* [65536 / 8] bit c: a rule starts with the code point c, as UTF-8 */
};

/* Checks everything that look-ups rely on: units stay inside the array, no string is longer than
 * CHARSMAP_MAX_KEY, replacements are valid UTF-8. All memory, the bytes too, is in the arena. */
FT_NODISCARD ft_status charsmap_init(struct charsmap *m, struct arena *a, str bytes, ft_error *err);

/* The longest rule that is a prefix of text, as SentencePiece reads them. Returns the bytes it
 * replaces, 0 when there is none. m->units == NULL: there are no rules. */
size_t charsmap_longest(str *replacement, const struct charsmap *m, str text);

/* Hugging Face's Precompiled, part by part: returns the bytes of the next part of text (valid
 * UTF-8, not empty) and stores what it becomes. A grapheme cluster of less than six bytes that
 * begins with a rule becomes its replacement, whatever else is in it; other clusters go character
 * by character. *single belongs to the walk and is 0 at its beginning. */
size_t charsmap_next(str *becomes, size_t *single, const struct charsmap *m, str text);

/* No rule applies at an ASCII byte c that is followed by another ASCII byte or by nothing. */
static inline bool charsmap_plain(const struct charsmap *m, uint8_t c)
{
    return m->plain[c] != 0;
}

/* Whether a rule may start with the code point. */
static inline bool charsmap_may_start(const struct charsmap *m, uint32_t code_point)
{
    return code_point > 0xFFFF || (m->starts[code_point >> 3] >> (code_point & 7) & 1) != 0;
}

#endif
