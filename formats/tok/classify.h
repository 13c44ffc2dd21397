/* SPDX-License-Identifier: Apache-2.0
 * Classes of 64 bytes of text at a time, as bit masks: what every pre-tokenizer scanner starts
 * from. Chosen by cpu_tier(); all tiers give the same masks. */
#ifndef FORMATS_TOK_CLASSIFY_H
#define FORMATS_TOK_CLASSIFY_H

#include "common/base.h"
#include "common/cpu.h"

enum { CLASSIFY_BLOCK = 64 };

/* Bit i of a mask belongs to byte i. */
struct classify_masks {
    uint64_t letter, digit, space; /* ASCII letters; 0-9; 09-0D and 20 */
    uint64_t upper;                /* A-Z, also part of letter */
    uint64_t line;                 /* 0A and 0D, also part of space */
    uint64_t blank;                /* 20 alone, also part of space */
    uint64_t quote;                /* ' */
    uint64_t control;              /* below 20 and 7F, without space */
    uint64_t wide;                 /* bytes of non-ASCII characters */
};

typedef void classify_fn(struct classify_masks *out, const uint8_t block[CLASSIFY_BLOCK]);
classify_fn *classify_select(enum cpu_tier tier);

#endif
