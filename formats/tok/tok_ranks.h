/* SPDX-License-Identifier: Apache-2.0
 * Vocabularies that give each token a rank and no merges, as tiktoken writes them: two neighbours
 * merge when their bytes together are a token, and the token of lowest rank comes first. A piece
 * that is a token as a whole is not merged at all. */
#ifndef FORMATS_TOK_TOK_RANKS_H
#define FORMATS_TOK_TOK_RANKS_H

#include "formats/tok/tok_internal.h"

/* Tokens of one file: bytes in one buffer. Zeroed = empty. */
struct tok_ranks {
    struct buf bytes;
    struct tok_rank *items; /* [n] */
    size_t n, cap;
};
struct tok_rank {
    uint32_t at, len; /* in bytes */
    int64_t rank;
};
void tok_ranks_free(struct tok_ranks *r);

/* Adds the token that base64 stands for. */
FT_NODISCARD ft_status tok_ranks_add(struct tok_ranks *r, str base64, int64_t rank, ft_error *err);

/* Makes the model of b from the ranks: the id of a token is first_id + rank. Ranks must be unique
 * and all single bytes must be there. */
FT_NODISCARD ft_status tok_ranks_build(struct tok_builder *b, struct tok_ranks *r, int64_t first_id,
                                       ft_error *err);
/* Id of an added token, or -1. */
int32_t tok_ranks_special(const struct tok_builder *b, str content);

#endif
