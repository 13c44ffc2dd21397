/* SPDX-License-Identifier: Apache-2.0
 * Cuts one allocation into tensors. Run over a NULL base it only measures: sizes and addresses come
 * from the same code, so a plan cannot differ from what it becomes. */
#ifndef TRAINER_CARVE_H
#define TRAINER_CARVE_H

#include "trainer/tensor.h"

struct carve {
    float *base; /* NULL = measure */
    int64_t n;   /* floats handed out, a multiple of CARVE_ALIGN */
};
enum { CARVE_ALIGN = 16 }; /* floats: a cache line */

static inline struct tensor carve(struct carve *c, const char *name, int64_t rows, int64_t cols)
{
    float *at = c->base != NULL ? c->base + c->n : NULL;
    c->n += (int64_t)size_align((size_t)(rows * cols), CARVE_ALIGN);
    return tensor_f32(name, at, rows, cols);
}

/* For indices, which are as wide as floats. */
static inline int32_t *carve_i32(struct carve *c, int64_t n)
{
    return (int32_t *)carve(c, "indices", 1, n).data;
}

#endif
