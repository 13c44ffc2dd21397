/* SPDX-License-Identifier: Apache-2.0
 * NF4 with double quantisation, as bitsandbytes' CUDA kernels define it (docs/formats/nf4.md):
 * blocks of 64 elements, 4-bit codes, fp32 block maxima quantised to 8 bits in blocks of 256. */
#ifndef FORMATS_NF4_H
#define FORMATS_NF4_H

#include "common/error.h"

enum { NF4_BLOCK = 64, NF4_BLOCK2 = 256, NF4_CODES = 16, NF4_MAP = 256 };

extern const float nf4_values[NF4_CODES];            /* the code table */
extern const uint32_t nf4_thresholds[NF4_CODES - 1]; /* bit patterns: code(v) = #{t : v > t} */
extern const uint32_t nf4_map_bits[NF4_MAP]; /* canonical signed dynamic map, bit patterns */

/* One quantised matrix [rows, cols], row-major; a block may cross rows. Pointers are borrowed. */
struct nf4_matrix {
    int64_t rows, cols;
    const uint8_t *codes;  /* ceil(numel / 2): element 2i in the high nibble of byte i */
    const uint8_t *absmax; /* ceil(numel / 64) indices into map */
    const float *absmax2;  /* ceil(n_blocks / 256) */
    const float *map;      /* [256] */
    float offset;
};

/* Number of blocks and of second-level blocks for numel elements. */
int64_t nf4_blocks(int64_t numel);
int64_t nf4_blocks2(int64_t numel);

/* First level: codes (ceil(n/2) bytes) and absmax ([nf4_blocks(n)], fp32) of n consecutive elements
 * that start at a block border. Returns the number of all-zero blocks (stored as code 0).
 * Dispatches to AVX-512 or AVX2 by cpu_tier(); every tier gives the same bits. */
int64_t nf4_quantize(uint8_t *codes, float *absmax, const float *x, int64_t n);

/* Second level over all block maxima of one tensor: offset = mean (double, index order, rounded
 * once); absmax_q [n_blocks]; absmax2 [nf4_blocks2]. Uses the canonical map. */
void nf4_quantize_absmax(uint8_t *absmax_q, float *absmax2, float *offset, const float *absmax,
                         int64_t n_blocks);

/* Decoded scale of one block: fl(fl(map[q] * absmax2) + offset). */
float nf4_scale(const struct nf4_matrix *m, int64_t block);
/* Decodes elements [from, to) of the flattened matrix: w = fl(value[code] * scale). Reference
 * definition, any alignment; fast paths elsewhere must equal it bit for bit. */
void nf4_decode(const struct nf4_matrix *m, int64_t from, int64_t to, float *dst);

#endif
