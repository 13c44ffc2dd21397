/* SPDX-License-Identifier: Apache-2.0
 * Element types of stored tensors, and exact decoding to fp32. Values equal the `gguf` package's
 * dequantisation bit for bit. */
#ifndef FORMATS_DTYPE_H
#define FORMATS_DTYPE_H

#include "common/error.h"
#include "common/str.h"

enum dtype {
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_Q4_0, /* GGUF block formats: 32 elements a block, K formats 256 */
    DT_Q4_1,
    DT_Q5_0,
    DT_Q5_1,
    DT_Q8_0,
    DT_Q4_K,
    DT_Q6_K,
    DT_NF4, /* only inside .nf4 files: formats/nf4.h */
    DTYPES
};

const char *dtype_name(enum dtype t); /* "f32", "q4_k", ... */
FT_NODISCARD bool dtype_from_name(enum dtype *out, str name);
int64_t dtype_block(enum dtype t);      /* elements per block, 1 for plain types; NF4: 64 */
size_t dtype_block_bytes(enum dtype t); /* NF4: 32 (codes only) */
/* Bytes of n elements; false on overflow or when n is not a multiple of the block. */
FT_NODISCARD bool dtype_bytes(enum dtype t, int64_t n, size_t *out);

/* Decodes n elements (a multiple of the block) to fp32. Not for NF4. src need not be aligned. */
void dtype_decode(enum dtype t, const void *src, int64_t n, float *dst);

/* Whether all decoded values are finite; same rules for n and src. */
FT_NODISCARD bool dtype_all_finite(enum dtype t, const void *src, int64_t n);

/* Rounds n values once to F32, F16 or BF16. Returns the index of the first one that is not finite
 * in that type, n when all are; everything is written in any case. dst may be src. */
int64_t dtype_encode(enum dtype t, const float *src, int64_t n, void *dst);

#endif
