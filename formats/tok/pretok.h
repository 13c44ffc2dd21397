/* SPDX-License-Identifier: Apache-2.0
 * Pre-tokenizers: where a piece of text is cut before BPE sees it. One scanner is one file
 * pretok_<pattern>.c and one row of the table in pretok.c. */
#ifndef FORMATS_TOK_PRETOK_H
#define FORMATS_TOK_PRETOK_H

#include "common/str.h"
#include "formats/tok/classify.h"

enum { PRETOK_BATCH = CLASSIFY_BLOCK + 1 };

/* What a scanner remembers about the text in front of the block it reads next. */
struct pretok_carry {
    unsigned classes;    /* of the last byte */
    unsigned spill;      /* bytes of its character that reach into the block */
    uint64_t set, clear; /* starts that a contraction forces or forbids in the block */
};

/* A scan over one piece of text. */
struct pretok_scan {
    const uint8_t *text; /* all offsets count from here */
    size_t at, to;       /* what is left of the piece */
    classify_fn *classify;
    struct pretok_carry carry;
};

struct pretok {
    const char *name; /* in blobs and fingerprints: never changes its meaning */
    /* Writes the end offsets of the next pretokens, ascending, and returns how many, at most
     * PRETOK_BATCH. 0 may come in the middle of a long one; the last end is scan->to, and then
     * scan->at == scan->to. Needs at < to. */
    size_t (*next)(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
};

/* NULL when this build has no scanner of that name. */
const struct pretok *pretok_find(str name);

/* The pattern of GPT-2: contractions, letters, numbers, other characters, each with a space in
 * front, and white space. */
size_t pretok_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* The same after every numeric character has been cut out as a piece of its own. */
size_t pretok_digits_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);

#endif
