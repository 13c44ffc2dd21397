/* SPDX-License-Identifier: Apache-2.0
 * Tables behind the normal forms, as Hugging Face tokenizers has them. Hangul is computed. */
#ifndef FORMATS_TOK_NORMALIZE_TABLE_H
#define FORMATS_TOK_NORMALIZE_TABLE_H

#include "common/base.h"

enum { NORMALIZE_PAGE = 128 };

enum normalize_flag {
    NORMALIZE_SLOW_NFC = 1, /* may change or combine: text without any is in that form */
    NORMALIZE_SLOW_NFD = 2,
    NORMALIZE_SLOW_NFKC = 4,
    NORMALIZE_SLOW_NFKD = 8,
    NORMALIZE_HAS_LOWER = 16,
    NORMALIZE_IS_MARK = 32,
};

/* code_point becomes normalize_points[at .. at + n). */
struct normalize_mapping {
    uint32_t code_point;
    uint16_t at, n;
};

/* Canonical combining class of [from, to]; 0 elsewhere. */
struct normalize_class {
    uint32_t from, to;
    uint8_t class;
};

struct normalize_pair {
    uint32_t first, second, composed;
};

extern const uint8_t normalize_page_index[0x110000 / NORMALIZE_PAGE];
extern const uint8_t normalize_pages[][NORMALIZE_PAGE];
extern const uint32_t normalize_points[];
/* All sorted by code point, pairs by first and second. `compatible` holds only those that differ
 * from the canonical decomposition. */
extern const struct normalize_mapping normalize_canonical[], normalize_compatible[],
    normalize_lower[];
extern const struct normalize_class normalize_classes[];
extern const struct normalize_pair normalize_pairs[];
extern const size_t normalize_n_canonical, normalize_n_compatible, normalize_n_lower,
    normalize_n_classes, normalize_n_pairs;

static inline unsigned normalize_flags(uint32_t code_point)
{
    return normalize_pages[normalize_page_index[code_point / NORMALIZE_PAGE]]
                          [code_point % NORMALIZE_PAGE];
}

#endif
