/* SPDX-License-Identifier: Apache-2.0
 * Unigram models: of all ways to cut a text into pieces the one with the highest sum of scores. The
 * two reference programs add in different precision and so break near-ties differently; both ways
 * are here. */
#ifndef FORMATS_TOK_UNIGRAM_H
#define FORMATS_TOK_UNIGRAM_H

#include "formats/tok/spm_trie.h"

struct unigram {
    struct spm_trie trie; /* of the pieces that may be chosen, with the scores of SentencePiece */
    int32_t unk;          /* for a character that is no piece; may be -1 */
    float *scores;        /* [n] by id, SentencePiece: of the pieces, and unk_score for unk */
    float unk_score;
    double *exact_scores; /* [n] by id, Hugging Face */
    double exact_unk_score;
};

/* One place of the text and the best way to it. */
struct unigram_node {
    float score;
    int32_t id;
    uint32_t start; /* of the last piece */
};

struct unigram_exact_node {
    double score, second; /* of the best way and the best other one */
    int32_t id;
    uint32_t start;
};

/* Memory of one thread and the last result. Zeroed = empty; reusable. */
struct unigram_work {
    struct unigram_node *nodes;
    struct unigram_exact_node *exact;
    int32_t *ids;     /* [n] the result; unk once for each character */
    uint32_t *starts; /* [n] byte at which each begins */
    size_t n, cap, exact_cap;
};
void unigram_work_free(struct unigram_work *w);

/* SentencePiece's sums are of type float and go on through the whole text, so that even the cut
 * depends on what came before: *sum is that of the text so far and becomes the new one. text: valid
 * UTF-8 at whose ends every way has a cut. */
FT_NODISCARD ft_status unigram_run(const struct unigram *u, struct unigram_work *w, str text,
                                   float *sum, ft_error *err);
/* The best way in exact arithmetic, and how far its lead goes: unigram_run finds the same, without
 * starting its sum anew on the way, whenever the absolute value of *sum is below *limit. */
FT_NODISCARD ft_status unigram_measure(const struct unigram *u, struct unigram_work *w, str text,
                                       float *limit, ft_error *err);
/* SentencePiece starts its sum anew where it has grown so large. To be called before a text. */
static inline float unigram_begin(float sum)
{
    return sum < -100000.0f || sum > 100000.0f ? 0.0f : sum;
}

/* What a chosen piece, or unk, adds to SentencePiece's sum. */
static inline float unigram_score(const struct unigram *u, int32_t id)
{
    return id == u->unk ? u->unk_score : u->scores[id];
}

/* Hugging Face: sums of type double, from zero for each text, by exact_scores. */
FT_NODISCARD ft_status unigram_run_exact(const struct unigram *u, struct unigram_work *w, str text,
                                         ft_error *err);

#endif
