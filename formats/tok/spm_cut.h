/* SPDX-License-Identifier: Apache-2.0
 * Places where a text may be cut before a SentencePiece model sees it, without changing a token: no
 * piece crosses the border between two characters that stand side by side in no piece. Between
 * words that is the rule, and in languages without spaces it happens after nearly every character.
 * What lies between two cuts is short and comes again, so that its tokens can be remembered. */
#ifndef FORMATS_TOK_SPM_CUT_H
#define FORMATS_TOK_SPM_CUT_H

#include "common/arena.h"
#include "common/error.h"

enum { SPM_CUT_BATCH = 65 };

struct spm_cut {
    /* Bit b of row a: the last byte of a character and the first of the next, inside some piece.
     * Always set for b that begins no character. */
    uint32_t (*joined)[8];
    /* For characters above 0x7F, where the bytes tell too little: a bit for the hash of each pair.
     * Pairs that share a bit with one of a piece only cost a cut. */
    uint32_t *pairs;
    unsigned shift; /* 32 - log2 of the number of bits */
};

/* pieces: valid UTF-8. The tables are in the arena. */
FT_NODISCARD ft_status spm_cut_init(struct spm_cut *c, struct arena *a, const str *pieces, size_t n,
                                    ft_error *err);

/* Stores the next cuts, ascending, at most SPM_CUT_BATCH; the last of all is `to`. *at is one more
 * than the beginning of a text of at least one byte and then belongs to the scan, which ends when
 * it is not below `to`. */
size_t spm_cut_next(uint32_t *ends, const struct spm_cut *c, const uint8_t *text, size_t *at,
                    size_t to);

#endif
