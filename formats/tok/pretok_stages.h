/* SPDX-License-Identifier: Apache-2.0
 * Lists of stages without a scanner of their own, run one stage after the other: slower, but as
 * exact, for any list. */
#ifndef FORMATS_TOK_PRETOK_STAGES_H
#define FORMATS_TOK_PRETOK_STAGES_H

#include "formats/tok/pretok.h"

struct pretok_stages; /* immutable, shared by threads */

/* FT_EFORMAT when a pattern cannot be reproduced exactly. The stages stay borrowed. */
FT_NODISCARD ft_status pretok_stages_create(struct pretok_stages **out,
                                            const struct pretok_stage *stages, size_t n,
                                            ft_error *err);
void pretok_stages_destroy(struct pretok_stages *s); /* NULL is fine */

struct pretok_piece {
    uint32_t from, to;
};

/* Memory of one thread. Zeroed = empty; reusable. */
struct pretok_pieces {
    struct pretok_piece *items; /* [n] ascending, not empty */
    size_t n, cap;
    struct pretok_piece *spare; /* of the stage before */
    size_t n_spare, cap_spare;
};
void pretok_pieces_free(struct pretok_pieces *p);

/* Replaces the content of out by the pieces of text[from, to); what a stage removes is in none. */
FT_NODISCARD ft_status pretok_stages_cut(struct pretok_pieces *out, const struct pretok_stages *s,
                                         const uint8_t *text, size_t from, size_t to,
                                         classify_fn *classify, ft_error *err);

#endif
