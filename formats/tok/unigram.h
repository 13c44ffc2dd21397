/* SPDX-License-Identifier: Apache-2.0
 * The Unigram model: the segmentation of a piece of text with the best sum of scores. */
#ifndef FORMATS_TOK_UNIGRAM_H
#define FORMATS_TOK_UNIGRAM_H

#include "common/str.h"
#include "formats/tok/bpe.h"

enum unigram_arithmetic {
    UNIGRAM_HUGGING_FACE,  /* all scores binary64 */
    UNIGRAM_SENTENCEPIECE, /* its mixture of binary32 and binary64 */
};

struct unigram_options {
    enum unigram_arithmetic arithmetic;
    int32_t unk;        /* id of unknown text; -1 = none: unknown text is an error */
    bool byte_fallback; /* unknown text becomes <0xHH> tokens when all of them exist */
    /* [n] 1 = user-defined symbol: always preferred, as SentencePiece does; NULL = none. */
    const uint8_t *user_defined;
    /* [n] 1 = never matched (control, unused, unknown, byte pieces of SentencePiece); NULL = none.
     */
    const uint8_t *unmatched;
};

struct unigram; /* immutable, shared by threads */

/* pieces[id] and scores[id] of n ids; .ptr NULL = no such id. Of equal pieces the last counts. The
 * arrays are only read during the call. */
FT_NODISCARD ft_status unigram_create(struct unigram **out, const str *pieces, const double *scores,
                                      int32_t n, const struct unigram_options *options,
                                      ft_error *err);
void unigram_destroy(struct unigram *u); /* NULL is fine */

/* Scratch of one thread. Zeroed = empty; reusable. */
struct unigram_work {
    void *memory;
    size_t bytes;
};
void unigram_work_free(struct unigram_work *w);

/* Replaces out->ids[0..out->n) and out->starts (byte offsets in text) by the tokens of one piece of
 * text (valid UTF-8, marks in place of spaces). Linear in its length. */
FT_NODISCARD ft_status unigram_encode(const struct unigram *u, struct bpe_work *out,
                                      struct unigram_work *work, str text, ft_error *err);

#endif
