/* SPDX-License-Identifier: Apache-2.0
 * Added tokens: strings that are cut out of the text before anything else sees it. */
#ifndef FORMATS_TOK_ADDED_H
#define FORMATS_TOK_ADDED_H

#include "common/arena.h"
#include "formats/tok/tok.h"

enum added_flags {
    ADDED_SPECIAL = 1,     /* honoured only where special tokens are parsed */
    ADDED_SINGLE_WORD = 2, /* only when no word character touches it */
    ADDED_LSTRIP = 4,      /* takes the white space before it */
    ADDED_RSTRIP = 8,      /* takes the white space behind it */
    ADDED_NORMALIZED = 16, /* matched in a second pass, inside what the first left over */
    ADDED_ALL_FLAGS = 31,
};

struct added_token {
    str content; /* valid UTF-8, not empty */
    int32_t id;
    unsigned flags;
    str match; /* what is looked for: the content, normalized where the flag says so; not empty */
};

/* By content, for qsort: bytes, then length. Points to two added_token. */
int added_compare(const void *a, const void *b);

/* One pass: tokens sorted by what they match, so that the longest match at a place is found by
 * narrowing a range byte by byte. */
struct added_pass {
    const struct added_token **tokens; /* [n] */
    size_t n;
    uint32_t
        first_begin[257]; /* tokens that start with byte c: [first_begin[c], first_begin[c+1]) */
    int only_first;       /* the byte all of them start with, or -1 */
};

struct added {
    const struct added_token *tokens; /* [n], by content, each content once */
    size_t n;
    struct added_pass passes[2]; /* not normalized, then normalized */
};

/* tokens stay borrowed, the rest goes into the arena. FT_EFORMAT when two tokens of a pass match
 * the same. */
FT_NODISCARD ft_status added_init(struct added *a, struct arena *arena,
                                  const struct added_token *tokens, size_t n, ft_error *err);

/* Where special tokens are parsed: ranges of the input, ascending. */
struct added_rule {
    const struct tok_range *parse;
    size_t n_parse;
    /* Of a text made from the bytes [base, end) of the input: where each of its bytes comes from,
     * counted from base. NULL = the text is the input. */
    const uint32_t *origin;
    size_t base, end;
    size_t *n_text; /* counts the special tokens that are text, outside the ranges; NULL = nobody */
};

struct added_match {
    const struct added_token *token;
    size_t from, to; /* with the white space it takes */
    size_t resume; /* where the search goes on: the end of the content itself, as Hugging Face does,
                      although white space taken behind it may be matched again that way */
};
/* The first match that starts at `at` or later in the piece [from, to) of text; false when there is
 * none. taken = end of the previous match of this piece: what lies before it is not taken again. */
bool added_next(struct added_match *out, const struct added_pass *pass, str text, size_t from,
                size_t to, size_t at, size_t taken, struct added_rule rule);

#endif
