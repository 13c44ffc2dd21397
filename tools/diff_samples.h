/* SPDX-License-Identifier: Apache-2.0
 * Samples of two data sets against each other, row by row of each source, in one pass over both.
 * Memory: one sample of each, and the examples. */
#ifndef TOOLS_DIFF_SAMPLES_H
#define TOOLS_DIFF_SAMPLES_H

#include <stdatomic.h>

#include "common/buf.h"
#include "formats/dataset.h"
#include "formats/tok/tok.h"

enum diff_kind {
    DIFF_SAME,
    DIFF_CHANGED, /* of the same row, with other tokens or another mask */
    DIFF_MOVED,   /* the same, in the other part */
    DIFF_ONLY_A,
    DIFF_ONLY_B,
    DIFF_KINDS
};

/* Which source of the other data set a source corresponds to: the one of its path, or else one of
 * its content. */
enum { NO_SOURCE = UINT32_MAX };
FT_NODISCARD ft_status diff_match_sources(uint32_t **b_of_a, bool **b_matched,
                                          const struct dataset *a, const struct dataset *b,
                                          ft_error *err);

struct diff_side {
    const struct dataset *data;
    const struct tok *tok;
};

struct diff_example {
    enum diff_kind kind;
    const char *path; /* of the source */
    uint64_t row;
    enum dataset_split a_split, b_split;
    str a, b; /* text with trained parts in brackets; empty for the side that lacks it */
};

struct diff_samples {
    struct diff_side a, b;
    const atomic_bool *stop;
    uint64_t max_examples; /* of each kind */
    ft_status (*example)(void *ctx, const struct diff_example *e, ft_error *err);
    void *ctx;
    uint64_t counts[DIFF_KINDS];
};

/* Compares ids and masks, or the texts when the tokenizers differ. */
FT_NODISCARD ft_status diff_samples(struct diff_samples *d, ft_error *err);

#endif
