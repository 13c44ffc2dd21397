/* SPDX-License-Identifier: Apache-2.0
 * Pre-tokenizers: where a piece of text is cut before the model sees it. A file describes one as a
 * list of stages; known lists have a scanner of their own, one file pretok_<pattern>.c and one row
 * of the table in pretok.c. */
#ifndef FORMATS_TOK_PRETOK_H
#define FORMATS_TOK_PRETOK_H

#include "common/error.h"
#include "common/str.h"
#include "formats/tok/classify.h"

enum pretok_kind {
    PRETOK_SPLIT,            /* at the matches of `pattern` */
    PRETOK_DIGITS,           /* at numeric characters */
    PRETOK_BYTE_LEVEL,       /* the pattern of GPT-2, isolated */
    PRETOK_PUNCTUATION,      /* at punctuation */
    PRETOK_WHITESPACE,       /* \w+|[^\w\s]+ */
    PRETOK_WHITESPACE_SPLIT, /* at white space, which is removed */
    PRETOK_KINDS,
};

/* What becomes of a match (of what does not match, with `invert`). */
enum pretok_behavior {
    PRETOK_ISOLATED,
    PRETOK_REMOVED,
    PRETOK_MERGED_WITH_PREVIOUS,
    PRETOK_MERGED_WITH_NEXT,
    PRETOK_CONTIGUOUS,
    PRETOK_BEHAVIORS,
};

enum pretok_dialect {
    PRETOK_LITERAL,   /* not a pattern but the text itself */
    PRETOK_ONIGURUMA, /* as Hugging Face tokenizers reads it */
    PRETOK_FANCY,     /* as tiktoken reads it */
    PRETOK_DIALECTS,
};

struct pretok_stage {
    enum pretok_kind kind;
    enum pretok_behavior behavior; /* of SPLIT, DIGITS (isolated or contiguous) and PUNCTUATION */
    enum pretok_dialect dialect;   /* of SPLIT */
    bool invert;                   /* of SPLIT */
    str pattern;                   /* of SPLIT */
};

enum { PRETOK_BATCH = 4 * CLASSIFY_BLOCK, PRETOK_INNER = 5 };

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
    /* Of scanners that walk (pretok_walk.h): */
    size_t block_end; /* masks are of the 64 bytes before it; 0 = not loaded */
    struct classify_masks masks;
    size_t stage_ends[PRETOK_INNER]; /* of nested stages, 0 = not begun */
};

struct pretok {
    const char *name;
    /* Writes the end offsets of the next pretokens, ascending, and returns how many, at most
     * PRETOK_BATCH. 0 may come in the middle of a long one; the last end is scan->to, and then
     * scan->at == scan->to. Needs at < to. */
    size_t (*next)(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
};

/* The scanner of a list of stages, NULL when it has none (pretok_stages.h runs it then). An empty
 * list cuts nowhere. */
const struct pretok *pretok_find(const struct pretok_stage *stages, size_t n);

size_t pretok_whole(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* The pattern of GPT-2: contractions, letters, numbers, other characters, each with a space in
 * front, and white space. */
size_t pretok_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* The same after every numeric character has been cut out as a piece of its own. */
size_t pretok_digits_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
/* The others are described in their files. */
size_t pretok_llama3(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_qwen2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_cl100k(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_cl100k_onig(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_o200k(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_tekken(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_deepseek(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);
size_t pretok_deepseek3(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);

#endif
