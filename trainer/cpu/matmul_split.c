/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cpu/matmul_split.h"

#include "common/half.h"
#include "trainer/cpu/matmul_kernels.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <string.h>

#define SPLIT_INLINE CPU_AVX512_CODE ALWAYS_INLINE

/* --- parts ------------------------------------------------------------------------------------ */

/* The upper halves of the three vectors are the parts of x. */
SPLIT_INLINE void split16(__m512i part[SPLIT_PARTS], __m512 x)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000), half = _mm512_set1_epi32(0x8000);
    __m512i bits = _mm512_castps_si512(x);
    __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(_mm512_and_si512(bits, upper)));
    part[0] = bits;
    part[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(rest), half), upper);
    part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(part[1])));
}

/* A row of a left tile: 32 values along k. */
SPLIT_INLINE void store_left_row(uint16_t *dst, __m512 low, __m512 high)
{
    const __m512i odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    __m512i a[SPLIT_PARTS], b[SPLIT_PARTS];
    split16(a, low);
    split16(b, high);
    for (int p = 0; p < SPLIT_PARTS; p++)
        _mm512_storeu_si512(dst + p * SPLIT_PART, _mm512_permutex2var_epi16(a[p], odd, b[p]));
}

/* A row of a right tile: the values of 16 vectors at an even k and at the next one. */
SPLIT_INLINE void store_right_row(uint16_t *dst, __m512 even, __m512 odd)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    enum { A_OR_B_AND_C = 0xF8 };
    __m512i a[SPLIT_PARTS], b[SPLIT_PARTS];
    split16(a, even);
    split16(b, odd);
    for (int p = 0; p < SPLIT_PARTS; p++)
        _mm512_storeu_si512(
            dst + p * SPLIT_PART,
            _mm512_ternarylogic_epi32(_mm512_srli_epi32(a[p], 16), b[p], upper, A_OR_B_AND_C));
}

SPLIT_INLINE __mmask16 first_lanes(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1);
}

/* --- fp32 operands ---------------------------------------------------------------------------- */

/* n vectors that lie along k, ld apart. */
CPU_AVX512_CODE static void left_from_rows(uint16_t *dst, const float *src, int64_t ld, int64_t n,
                                           int64_t kc)
{
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP) {
        const __mmask16 low = first_lanes(kc - k), high = first_lanes(kc - k - 16);
        for (int64_t v = 0; v < n; v++) {
            const float *row = src + v * ld + k;
            store_left_row(dst + v * SPLIT_K, _mm512_maskz_loadu_ps(low, row),
                           _mm512_maskz_loadu_ps(high, row + 16));
        }
    }
}

/* kc rows, ld apart, each with the values of n vectors. */
CPU_AVX512_CODE static void right_from_rows(uint16_t *dst, const float *src, int64_t ld, int64_t n,
                                            int64_t kc)
{
    const __mmask16 live[2] = {first_lanes(n), first_lanes(n - 16)};
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP)
        for (int64_t i = 0; i < 16; i++)
            for (int64_t h = 0; h < 2; h++) {
                const float *even = src + (k + 2 * i) * ld + 16 * h;
                int64_t left = kc - (k + 2 * i);
                __mmask16 first = left > 0 ? live[h] : 0, second = left > 1 ? live[h] : 0;
                store_right_row(dst + h * SPLIT_TILE + i * SPLIT_K,
                                _mm512_maskz_loadu_ps(first, even),
                                _mm512_maskz_loadu_ps(second, even + (left > 1 ? ld : 0)));
            }
}

static void transpose(float *dst, int64_t ld_dst, const float *src, int64_t ld_src, int64_t rows,
                      int64_t cols)
{
    matmul_kernels()->transpose(src, ld_src, rows, cols, dst, ld_dst, false);
}

bool split_fits(const struct matmul_operand *o)
{
    return o->weight != NULL || o->row_stride == 1 || o->col_stride == 1;
}

void split_left(uint16_t *dst, const struct matmul_operand *a, int64_t i, int64_t n, int64_t k0,
                int64_t kc, float *scratch)
{
    const float *src = a->data + i * a->row_stride + k0 * a->col_stride;
    if (a->col_stride == 1) {
        left_from_rows(dst, src, a->row_stride, n, kc);
        return;
    }
    transpose(scratch, kc, src, a->col_stride, kc, n);
    left_from_rows(dst, scratch, kc, n, kc);
}

/* --- NF4 -------------------------------------------------------------------------------------- */

/* Blocks lie within rows, so panels and steps lie within blocks. */
static bool nf4_is_even(const struct weight *w)
{
    return w->dtype == DT_NF4 && w->cols % NF4_BLOCK == 0;
}

/* One row of the stored matrix is one value of k: 16 columns from the given byte on, in order. Both
 * nibbles of a byte are brought to 32 bits of their own; the table looks at the low four only. */
SPLIT_INLINE __m512 nf4_columns(const uint8_t *codes, __m512 table, __m512 scale)
{
    const __m512i shifts = _mm512_set1_epi64(4); /* high nibble first */
    __m512i byte = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)codes));
    __m512i code = _mm512_srlv_epi32(_mm512_or_si512(byte, _mm512_slli_epi64(byte, 32)), shifts);
    return _mm512_mul_ps(_mm512_permutexvar_ps(code, table), scale);
}

/* b = the stored matrix: rows along k. */
CPU_AVX512_CODE static void right_from_nf4(uint16_t *dst, const struct weight *w, int64_t j,
                                           int64_t k0, int64_t kc)
{
    const __m512 table = _mm512_loadu_ps(nf4_values);
    const int64_t row_blocks = w->cols / NF4_BLOCK;
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP)
        for (int64_t i = 0; i < 16; i++) {
            __m512 scale[2];
            const uint8_t *codes[2];
            for (int64_t odd = 0; odd < 2; odd++) { /* beyond the end: any row, times zero */
                int64_t at = k + 2 * i + odd, row = k0 + FT_MIN(at, kc - 1);
                codes[odd] = w->nf4.codes + (row * w->cols + j) / 2;
                scale[odd] = _mm512_set1_ps(
                    at < kc ? cpu_nf4_scale(&w->nf4, row * row_blocks + j / NF4_BLOCK) : 0.0f);
            }
            for (int64_t h = 0; h < 2; h++)
                store_right_row(dst + h * SPLIT_TILE + i * SPLIT_K,
                                nf4_columns(codes[0] + 8 * h, table, scale[0]),
                                nf4_columns(codes[1] + 8 * h, table, scale[1]));
        }
}

/* 16 rows of 16 bytes, ld apart. Rows r, r + 4, r + 8 and r + 12 share register r, which leaves two
 * interleavings within lanes and one across them to transpose the whole. */
SPLIT_INLINE void load_quarters(__m512i row[4], const uint8_t *src, int64_t ld)
{
    for (int r = 0; r < 4; r++) {
        const uint8_t *s = src + r * ld;
        row[r] = _mm512_castsi128_si512(_mm_loadu_si128((const void *)s));
        for (int lane = 1; lane < 4; lane++)
            row[r] =
                _mm512_mask_broadcast_i32x4(row[r], (__mmask16)(0xF << 4 * lane),
                                            _mm_loadu_si128((const void *)(s + 4 * lane * ld)));
    }
}

/* byte[c][r] = src[r][c] */
SPLIT_INLINE void transpose_bytes(uint8_t byte[16][16], const uint8_t *src, int64_t ld)
{
    const __m512i across = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    __m512i row[4], pair[4], quad[4];
    load_quarters(row, src, ld);
    pair[0] = _mm512_unpacklo_epi8(row[0], row[1]);
    pair[1] = _mm512_unpackhi_epi8(row[0], row[1]);
    pair[2] = _mm512_unpacklo_epi8(row[2], row[3]);
    pair[3] = _mm512_unpackhi_epi8(row[2], row[3]);
    quad[0] = _mm512_unpacklo_epi16(pair[0], pair[2]);
    quad[1] = _mm512_unpackhi_epi16(pair[0], pair[2]);
    quad[2] = _mm512_unpacklo_epi16(pair[1], pair[3]);
    quad[3] = _mm512_unpackhi_epi16(pair[1], pair[3]);
    for (int q = 0; q < 4; q++)
        _mm512_storeu_si512(byte[4 * q], _mm512_permutexvar_epi32(across, quad[q]));
}

/* 16 vectors over one step: a transposed byte holds an even k in its high nibble, the next one in
 * its low nibble. */
SPLIT_INLINE void nf4_pairs(uint16_t *dst, const uint8_t *codes, int64_t ld, __m512 table,
                            __m512 scale)
{
    uint8_t byte[16][16];
    transpose_bytes(byte, codes, ld);
    for (int i = 0; i < 16; i++) {
        __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)byte[i]));
        __m512 even = _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), table);
        __m512 odd = _mm512_permutexvar_ps(code, table);
        store_right_row(dst + i * SPLIT_K, _mm512_mul_ps(even, scale), _mm512_mul_ps(odd, scale));
    }
}

/* b = the transpose of the stored matrix, whose rows j.. are the vectors. kc is a multiple of 32 as
 * cols is. */
CPU_AVX512_CODE static void right_from_nf4_rows(uint16_t *dst, const struct weight *w, int64_t j,
                                                int64_t k0, int64_t kc)
{
    const __m512 table = _mm512_loadu_ps(nf4_values);
    const int64_t row_blocks = w->cols / NF4_BLOCK, ld = w->cols / 2;
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP)
        for (int64_t h = 0; h < 2; h++) {
            float scale[16];
            int64_t row = j + 16 * h;
            for (int64_t v = 0; v < 16; v++)
                scale[v] = cpu_nf4_scale(&w->nf4, (row + v) * row_blocks + (k0 + k) / NF4_BLOCK);
            nf4_pairs(dst + h * SPLIT_TILE, w->nf4.codes + row * ld + (k0 + k) / 2, ld, table,
                      _mm512_loadu_ps(scale));
        }
}

/* --- Q8_0 ------------------------------------------------------------------------------------- */

/* A block is 32 values of a row, so a panel, or a step of one, is one block wide. GGUF models keep
 * their embeddings, and with them a tied head, in this type. */
enum { Q8_0_BLOCK = 32, Q8_0_BYTES = 34, Q8_0_HEADER = 2 };

static const uint8_t *q8_0_block(const struct weight *w, int64_t row, int64_t col)
{
    return (const uint8_t *)w->data +
           (row * (w->cols / Q8_0_BLOCK) + col / Q8_0_BLOCK) * Q8_0_BYTES;
}

SPLIT_INLINE __m512 q8_0_columns(const uint8_t *q, __m512 scale)
{
    __m512i value = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)q));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(value), scale);
}

/* b = the stored matrix: rows along k. */
CPU_AVX512_CODE static void right_from_q8_0(uint16_t *dst, const struct weight *w, int64_t j,
                                            int64_t k0, int64_t kc)
{
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP)
        for (int64_t i = 0; i < 16; i++) {
            __m512 scale[2];
            const uint8_t *q[2];
            for (int64_t odd = 0; odd < 2; odd++) { /* beyond the end: any row, times zero */
                int64_t at = k + 2 * i + odd;
                const uint8_t *block = q8_0_block(w, k0 + FT_MIN(at, kc - 1), j);
                q[odd] = block + Q8_0_HEADER;
                scale[odd] = _mm512_set1_ps(at < kc ? f16_to_f32(load_u16le(block)) : 0.0f);
            }
            for (int64_t h = 0; h < 2; h++)
                store_right_row(dst + h * SPLIT_TILE + i * SPLIT_K,
                                q8_0_columns(q[0] + 16 * h, scale[0]),
                                q8_0_columns(q[1] + 16 * h, scale[1]));
        }
}

/* pair[c][r] = the 16 bits c of row r, for 16 rows of 8, ld bytes apart; as transpose_bytes. */
SPLIT_INLINE void transpose_pairs(uint16_t pair[8][16], const uint8_t *src, int64_t ld)
{
    const __m512i across = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    __m512i row[4], two[4], four[4];
    load_quarters(row, src, ld);
    two[0] = _mm512_unpacklo_epi16(row[0], row[1]);
    two[1] = _mm512_unpackhi_epi16(row[0], row[1]);
    two[2] = _mm512_unpacklo_epi16(row[2], row[3]);
    two[3] = _mm512_unpackhi_epi16(row[2], row[3]);
    four[0] = _mm512_unpacklo_epi32(two[0], two[2]);
    four[1] = _mm512_unpackhi_epi32(two[0], two[2]);
    four[2] = _mm512_unpacklo_epi32(two[1], two[3]);
    four[3] = _mm512_unpackhi_epi32(two[1], two[3]);
    for (int q = 0; q < 4; q++)
        _mm512_storeu_si512(pair[2 * q], _mm512_permutexvar_epi64(across, four[q]));
}

/* 16 vectors over half a step. */
SPLIT_INLINE void q8_0_pairs(uint16_t *dst, const uint8_t *q, int64_t ld, __m512 scale)
{
    uint16_t pair[8][16];
    transpose_pairs(pair, q, ld);
    for (int i = 0; i < 8; i++) {
        __m512i both = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)pair[i]));
        __m512i even = _mm512_srai_epi32(_mm512_slli_epi32(both, 24), 24);
        __m512i odd = _mm512_srai_epi32(_mm512_slli_epi32(both, 16), 24);
        store_right_row(dst + i * SPLIT_K, _mm512_mul_ps(_mm512_cvtepi32_ps(even), scale),
                        _mm512_mul_ps(_mm512_cvtepi32_ps(odd), scale));
    }
}

/* b = the transpose of the stored matrix, whose rows j.. are the vectors; kc is a multiple of 32 as
 * cols is. */
CPU_AVX512_CODE static void right_from_q8_0_rows(uint16_t *dst, const struct weight *w, int64_t j,
                                                 int64_t k0, int64_t kc)
{
    const int64_t ld = w->cols / Q8_0_BLOCK * Q8_0_BYTES;
    for (int64_t k = 0; k < kc; k += SPLIT_K, dst += SPLIT_STEP)
        for (int64_t h = 0; h < 2; h++) {
            const uint8_t *block = q8_0_block(w, j + 16 * h, k0 + k);
            float scale[16];
            for (int64_t v = 0; v < 16; v++)
                scale[v] = f16_to_f32(load_u16le(block + v * ld));
            for (int64_t half = 0; half < 2; half++)
                q8_0_pairs(dst + h * SPLIT_TILE + half * 8 * SPLIT_K,
                           block + Q8_0_HEADER + 16 * half, ld, _mm512_loadu_ps(scale));
        }
}

/* --- right operand ---------------------------------------------------------------------------- */

/* Any weight: its values first. */
static void right_from_values(uint16_t *dst, const struct matmul_operand *b, int64_t j, int64_t n,
                              int64_t k0, int64_t kc, float *scratch)
{
    float *rows = scratch + SPLIT_VECTORS * kc;
    if (!b->transposed) {
        cpu_weight_decode(b->weight, k0, kc, j, n, rows, n);
    } else {
        cpu_weight_decode(b->weight, j, n, k0, kc, scratch, kc);
        transpose(rows, n, scratch, kc, n, kc);
    }
    right_from_rows(dst, rows, n, n, kc);
}

void split_right(uint16_t *dst, const struct matmul_operand *b, int64_t j, int64_t n, int64_t k0,
                 int64_t kc, float *scratch)
{
    if (b->weight != NULL && n == SPLIT_VECTORS && nf4_is_even(b->weight)) {
        (b->transposed ? right_from_nf4_rows : right_from_nf4)(dst, b->weight, j, k0, kc);
    } else if (b->weight != NULL && n == SPLIT_VECTORS && b->weight->dtype == DT_Q8_0) {
        (b->transposed ? right_from_q8_0_rows : right_from_q8_0)(dst, b->weight, j, k0, kc);
    } else if (b->weight != NULL) {
        right_from_values(dst, b, j, n, k0, kc, scratch);
    } else if (b->col_stride == 1) {
        right_from_rows(dst, b->data + k0 * b->row_stride + j, b->row_stride, n, kc);
    } else {
        transpose(scratch, n, b->data + j * b->col_stride + k0, b->col_stride, n, kc);
        right_from_rows(dst, scratch, n, n, kc);
    }
}
#endif
