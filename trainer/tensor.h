/* SPDX-License-Identifier: Apache-2.0
 * Non-owning views of device memory: what operations take and return. Small, passed by value. */
#ifndef TRAINER_TENSOR_H
#define TRAINER_TENSOR_H

#include "formats/dtype.h"
#include "formats/nf4.h"

/* Row-major without gaps. A vector is one row. */
struct tensor {
    void *data;
    enum dtype dtype; /* of activations, adapters and gradients: DT_F32 on every present backend */
    int64_t rows, cols;
    const char *name; /* for messages */
};

/* A frozen matrix [rows, cols] in the form it is stored in; a linear layer is [out, in]. */
struct weight {
    const void *data; /* NULL for DT_NF4 */
    enum dtype dtype;
    int64_t rows, cols;
    struct nf4_matrix nf4; /* DT_NF4 only */
    const char *name;
};

static inline struct tensor tensor_f32(const char *name, float *data, int64_t rows, int64_t cols)
{
    return (struct tensor){.data = data, .dtype = DT_F32, .rows = rows, .cols = cols, .name = name};
}

/* The absent tensor, where an operation allows one. */
static inline struct tensor tensor_none(void)
{
    return (struct tensor){.data = NULL};
}

/* Rows [from, from + n) of an fp32 tensor. */
static inline struct tensor tensor_rows(struct tensor t, int64_t from, int64_t n)
{
    FT_ASSERT(from >= 0 && n >= 0 && from + n <= t.rows);
    return tensor_f32(t.name, (float *)t.data + from * t.cols, n, t.cols);
}

#endif
