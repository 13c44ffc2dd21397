/* SPDX-License-Identifier: Apache-2.0
 * Text of SentencePiece-like vocabularies is cut at its spaces. Both U+0020 and the mark U+2581
 * count, so that text need not be rewritten. */
#ifndef FORMATS_TOK_UNITS_H
#define FORMATS_TOK_UNITS_H

#include "formats/tok/pretok.h"

/* Scanners as in pretok.h: a piece ends before each mark that does not follow another one ... */
size_t units_before_runs(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* The same, and each line feed is a piece of its own: for vocabularies that never join it. */
size_t units_before_runs_and_lines(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* ... or before each mark. */
size_t units_before_marks(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);

/* Whether a mark starts at text[at], at < to. */
static inline bool unit_is_mark(const uint8_t *text, size_t at, size_t to)
{
    return text[at] == ' ' ||
           (text[at] == 0xE2 && to - at >= 3 && text[at + 1] == 0x96 && text[at + 2] == 0x81);
}

#endif
