/* SPDX-License-Identifier: Apache-2.0
 * Tiles of frozen weights to fp32, for matrix products that decode as they go. The values are those
 * of nf4_decode and dtype_decode, bit for bit, on every instruction set. */
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "common/half.h"
#include "trainer/cpu/cpu.h"

/* --- NF4: runs of the flattened matrix -------------------------------------------------------- */

static void nf4_run_portable(const struct nf4_matrix *m, int64_t from, int64_t to, float *dst)
{
    nf4_decode(m, from, to, dst);
}

#ifdef __x86_64__
/* The codes of 8 elements sit in one 32-bit word; these shifts bring each to the low bits. */
static const int32_t nf4_shifts[16] = {4, 0, 12, 8, 20, 16, 28, 24, 4, 0, 12, 8, 20, 16, 28, 24};

/* Eight elements. The table is two halves of eight; bit 3 of the code, moved to the sign, picks. */
CPU_AVX2_CODE ALWAYS_INLINE void nf4_8_avx2(const uint8_t *codes, float scale, float *dst)
{
    const __m256 low = _mm256_loadu_ps(nf4_values), high = _mm256_loadu_ps(nf4_values + 8);
    uint32_t word;
    memcpy(&word, codes, sizeof word);
    __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32((int)word),
                                     _mm256_loadu_si256((const void *)nf4_shifts));
    __m256 pick = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
    __m256 v = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, code),
                                _mm256_permutevar8x32_ps(high, code), pick);
    _mm256_storeu_ps(dst, _mm256_mul_ps(v, _mm256_set1_ps(scale)));
}

/* Sixteen elements; the permutation looks at four bits of an index only, so nothing is masked. */
CPU_AVX512_CODE ALWAYS_INLINE void nf4_16_avx512(const uint8_t *codes, float scale, float *dst)
{
    const __m512 table = _mm512_loadu_ps(nf4_values);
    uint32_t word[2];
    memcpy(word, codes, sizeof word);
    __m512i both = _mm512_mask_set1_epi32(_mm512_set1_epi32((int)word[0]), 0xff00, (int)word[1]);
    __m512i code = _mm512_srlv_epi32(both, _mm512_loadu_si512(nf4_shifts));
    __m512 v = _mm512_permutexvar_ps(code, table);
    _mm512_storeu_ps(dst, _mm512_mul_ps(v, _mm512_set1_ps(scale)));
}

/* Vectors start at multiples of their length, so that each has one scale; ragged ends go by the
 * definition. */
#define NF4_RUN(name, target, step, vector)                                                        \
    target static void name(const struct nf4_matrix *m, int64_t from, int64_t to, float *dst)      \
    {                                                                                              \
        for (int64_t e = from, end; e < to; e = end) {                                             \
            int64_t block = e / NF4_BLOCK;                                                         \
            float scale = cpu_nf4_scale(m, block);                                                 \
            end = FT_MIN(to, (block + 1) * NF4_BLOCK);                                             \
            if (e % step != 0 || end - e < step) {                                                 \
                end = FT_MIN(end, e / step * step + step);                                         \
                nf4_decode(m, e, end, dst + (e - from));                                           \
                continue;                                                                          \
            }                                                                                      \
            end -= (end - e) % step;                                                               \
            for (int64_t i = e; i < end; i += step)                                                \
                vector(m->codes + i / 2, scale, dst + (i - from));                                 \
        }                                                                                          \
    }
NF4_RUN(nf4_run_avx2, CPU_AVX2_CODE, 8, nf4_8_avx2)
NF4_RUN(nf4_run_avx512, CPU_AVX512_CODE, 16, nf4_16_avx512)
#endif

static void decode_nf4(const struct weight *w, int64_t row0, int64_t n_rows, int64_t col0,
                       int64_t n_cols, float *dst, int64_t ld)
{
    void (*run)(const struct nf4_matrix *, int64_t, int64_t, float *) = nf4_run_portable;
#ifdef __x86_64__
    enum cpu_tier tier = cpu_tier();
    run = tier >= CPU_AVX512 ? nf4_run_avx512 : tier >= CPU_AVX2 ? nf4_run_avx2 : run;
#endif
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t from = (row0 + r) * w->cols + col0;
        run(&w->nf4, from, from + n_cols, dst + r * ld);
    }
}

/* --- stored types ----------------------------------------------------------------------------- */

enum { MAX_BLOCK = 256, Q8_0_BLOCK = 32, Q8_0_BYTES = 34 };

/* Elements [from, to) of a Q8_0 row. Embeddings of GGUF models are stored so, and the panels of a
 * product begin and end inside blocks: decoding whole ones cost 2 % of a training step. */
ALWAYS_INLINE void q8_0_run_body(const uint8_t *row, int64_t from, int64_t to, float *dst)
{
    for (int64_t e = from, end; e < to; e = end) {
        const uint8_t *block = row + e / Q8_0_BLOCK * Q8_0_BYTES;
        const int8_t *q = (const int8_t *)block + sizeof(uint16_t) + e % Q8_0_BLOCK;
        float scale = f16_to_f32(load_u16le(block));
        end = FT_MIN(to, (e / Q8_0_BLOCK + 1) * Q8_0_BLOCK);
        for (int64_t i = 0; i < end - e; i++)
            dst[e - from + i] = scale * (float)q[i];
    }
}
CPU_TIERED(q8_0_run, (const uint8_t *row, int64_t from, int64_t to, float *dst),
           (row, from, to, dst))

/* Elements [from, to) of the row that starts at src. */
static void decode_row(enum dtype type, const uint8_t *src, int64_t from, int64_t to, float *dst)
{
    int64_t block = dtype_block(type);
    int64_t bytes = (int64_t)dtype_block_bytes(type);
    float whole[MAX_BLOCK];
    if (type == DT_Q8_0) {
        q8_0_run(src, from, to, dst);
        return;
    }
    while (from < to) {
        int64_t skip = from % block, n = (to - from) / block * block;
        const uint8_t *at = src + from / block * bytes;
        if (skip == 0 && n > 0) {
            dtype_decode(type, at, n, dst);
        } else { /* part of a block */
            n = FT_MIN(to - from, block - skip);
            dtype_decode(type, at, block, whole);
            memcpy(dst, whole + skip, (size_t)n * sizeof *dst);
        }
        from += n;
        dst += n;
    }
}

void cpu_weight_decode(const struct weight *w, int64_t row0, int64_t n_rows, int64_t col0,
                       int64_t n_cols, float *dst, int64_t ld)
{
    if (w->dtype == DT_NF4) {
        decode_nf4(w, row0, n_rows, col0, n_cols, dst, ld);
        return;
    }
    int64_t row_bytes = w->cols / dtype_block(w->dtype) * (int64_t)dtype_block_bytes(w->dtype);
    for (int64_t r = 0; r < n_rows; r++)
        decode_row(w->dtype, (const uint8_t *)w->data + (row0 + r) * row_bytes, col0, col0 + n_cols,
                   dst + r * ld);
}
