/* SPDX-License-Identifier: Apache-2.0
 * Choosing the next token from logits. */
#ifndef TRAINER_SAMPLER_H
#define TRAINER_SAMPLER_H

#include "common/error.h"

struct sampler_options {
    double temperature; /* 0 = always the most likely token */
    double top_p;       /* (0, 1]; 1 = off */
    int64_t top_k;      /* 0 = off */
    uint64_t seed;
};

struct sampler {
    struct sampler_options o;
    int64_t n_vocab;
    double *weights; /* [n_vocab] */
    int32_t *heap;   /* [n_vocab] */
};

FT_NODISCARD ft_status sampler_open(struct sampler *out, const struct sampler_options *o,
                                    int64_t n_vocab, ft_error *err);
void sampler_close(struct sampler *s); /* a zeroed one is fine */

/* A token of the distribution softmax(logits / temperature), first cut to the top_k most likely
 * tokens, then to the fewest of them that hold top_p of the rest's probability. Equal logits count
 * as ordered by id. A pure function of (logits, seed, text, position). */
int32_t sampler_pick(struct sampler *s, const float *logits, uint64_t text, uint64_t position);

#endif
