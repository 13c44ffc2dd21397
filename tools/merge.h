/* SPDX-License-Identifier: Apache-2.0
 * W + scaling * B A: folding a LoRA pair into the weight it belongs to. */
#ifndef TOOLS_MERGE_H
#define TOOLS_MERGE_H

#include "common/base.h"

struct merge_pair {
    const float *a; /* [rank, cols] */
    const float *b; /* [rows, rank] */
    int64_t rank;
    double scaling;
};

/* Rows [from, to) of the weight, in place; w points to the first of them. The products are summed
 * in double over the rank in ascending order, added to w in double and rounded once to fp32: the
 * result does not depend on how rows are split over threads. */
void merge_rows(float *w, int64_t from, int64_t to, int64_t cols, const struct merge_pair *p);

#endif
