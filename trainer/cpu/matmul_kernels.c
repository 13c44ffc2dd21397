/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/cpu/matmul_kernels.h"

#include <math.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Complete unrolling is what lets an array of sums live in registers. */
#define PRAGMA(x) _Pragma(#x)
#if defined(__clang__)
#define UNROLL(n) PRAGMA(clang loop unroll(full))
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif

enum {
    SHORT_K = 128,
    COPY_AHEAD = 16, /* rows that packing fetches in advance */
    B_AHEAD = 24,    /* steps of k that a kernel fetches in advance */
};

/* --- portable --------------------------------------------------------------------------------- */

/* 16 vector accumulators suit the 32 registers of arm64; 8 those of SSE2. */
#if defined(__aarch64__)
enum { PORTABLE_MR = 4, PORTABLE_NR = 16 };
#else
enum { PORTABLE_MR = 4, PORTABLE_NR = 8 };
#endif

/* Fused where that is one instruction, so that arm64 agrees bit for bit with AVX. */
ALWAYS_INLINE float mul_add(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

ALWAYS_INLINE void portable_tile(int rows, const struct micro_tile *t)
{
    float acc[PORTABLE_MR][PORTABLE_NR] = {{0}};
    const float *a = t->a, *b = t->b;

    for (int64_t p = 0; p < t->k; p++, a += t->a_cs, b += t->ldb)
        for (int i = 0; i < rows; i++) {
            const float s = a[i * t->a_rs];
            for (int j = 0; j < PORTABLE_NR; j++)
                acc[i][j] = mul_add(s, b[j], acc[i][j]);
        }
    for (int i = 0; i < rows; i++) {
        float *c = t->c + i * t->ldc;
        for (int j = 0; j < PORTABLE_NR; j++) {
            const float v = t->alpha * acc[i][j];
            c[j] = t->accumulate ? c[j] + v : v;
        }
    }
}

static void portable_kernel(int rows, int vectors, const struct micro_tile *t)
{
    (void)vectors;
    if (rows == PORTABLE_MR)
        portable_tile(PORTABLE_MR, t);
    else
        portable_tile(rows, t);
}

static void portable_transpose(const float *src, int64_t ld_src, int64_t rows, int64_t cols,
                               float *dst, int64_t ld_dst, bool add)
{
    for (int64_t c = 0; c < cols; c++)
        for (int64_t r = 0; r < rows; r++) {
            const float v = src[r * ld_src + c];
            float *d = &dst[c * ld_dst + r];
            *d = add ? *d + v : v;
        }
}

/* Eight running sums: enough for the compiler to vectorise without reordering anything. */
static float portable_dot(int64_t k, const float *w, const float *x)
{
    float s[8] = {0};
    int64_t p = 0;

    for (; p + 8 <= k; p += 8)
        for (int j = 0; j < 8; j++)
            s[j] = mul_add(w[p + j], x[p + j], s[j]);
    for (int j = 0; p < k; p++, j++)
        s[j] = mul_add(w[p], x[p], s[j]);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void portable_dots(int64_t k, const float *w, int64_t ldw, int rows, const float *x,
                          int64_t ldx, int n_x, float *out)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n_x; i++)
            out[r * n_x + i] = portable_dot(k, w + r * ldw, x + i * ldx);
}

static const struct matmul_kernels portable_kernels = {
    .mr = PORTABLE_MR,
    .nr = PORTABLE_NR,
    .lanes = PORTABLE_NR,
    .mr_narrow = PORTABLE_MR,
    .tile = portable_kernel,
    .transpose = portable_transpose,
    .copy = matmul_copy_rows,
    .dots = portable_dots,
};

#ifdef __x86_64__
/* May run past the end of the array, where a pointer would be undefined but an address is not. */
ALWAYS_INLINE void prefetch_ahead(const float *p, int64_t floats)
{
    const uintptr_t address = (uintptr_t)p + (uintptr_t)floats * sizeof *p;
    __builtin_prefetch((const void *)address, 0, 3);
}

ALWAYS_INLINE void prefetch_for_write(const float *p, int64_t floats)
{
    const uintptr_t address = (uintptr_t)p + (uintptr_t)floats * sizeof *p;
    __builtin_prefetch((const void *)address, 1, 3);
}

/* --- AVX2 ------------------------------------------------------------------------------------- */

#define AVX2_INLINE CPU_AVX2_CODE ALWAYS_INLINE

AVX2_INLINE void avx2_tile(const int rows, const int vecs, const struct micro_tile *t)
{
    __m256 acc[6][2];
    const float *a = t->a, *b = t->b;
    const int64_t rs = t->a_rs, cs = t->a_cs, ldb = t->ldb;
    const float *a3 = rows > 3 ? a + 3 * rs : a;

    UNROLL(6)
    for (int i = 0; i < rows; i++)
        UNROLL(2)
    for (int v = 0; v < vecs; v++)
        acc[i][v] = _mm256_setzero_ps();
    for (int64_t p = t->k; p > 0; p--) {
        __m256 bv[2];
        UNROLL(2)
        for (int v = 0; v < vecs; v++)
            bv[v] = _mm256_loadu_ps(b + 8 * v);
        prefetch_ahead(b, B_AHEAD * ldb);
        UNROLL(6)
        for (int i = 0; i < rows; i++) {
            const __m256 s = _mm256_broadcast_ss((i < 3 ? a : a3) + (i % 3) * rs);
            UNROLL(2)
            for (int v = 0; v < vecs; v++)
                acc[i][v] = _mm256_fmadd_ps(s, bv[v], acc[i][v]);
        }
        a += cs;
        a3 += cs;
        b += ldb;
    }
    const __m256 alpha = _mm256_set1_ps(t->alpha);
    UNROLL(6)
    for (int i = 0; i < rows; i++)
        UNROLL(2)
    for (int v = 0; v < vecs; v++) {
        float *c = t->c + i * t->ldc + 8 * v;
        __m256 r = _mm256_mul_ps(alpha, acc[i][v]);
        if (t->accumulate)
            r = _mm256_add_ps(_mm256_loadu_ps(c), r);
        _mm256_storeu_ps(c, r);
    }
}

#define AVX2_CASE(r)                                                                               \
    case r:                                                                                        \
        if (vectors == 1)                                                                          \
            avx2_tile(r, 1, t);                                                                    \
        else                                                                                       \
            avx2_tile(r, 2, t);                                                                    \
        break;

CPU_AVX2_CODE static void avx2_kernel(int rows, int vectors, const struct micro_tile *t)
{
    switch (rows) {
        AVX2_CASE(1)
        AVX2_CASE(2)
        AVX2_CASE(3)
        AVX2_CASE(4)
        AVX2_CASE(5)
        AVX2_CASE(6)
    }
}

/* Rows r and r+4 share a register from the start, so only in-lane shuffles remain. */
AVX2_INLINE void avx2_transpose8(const float *src, int64_t ls, float *dst, int64_t ld, bool add)
{
    __m256 r[8], u[8];
    for (int i = 0; i < 4; i++)
        for (int h = 0; h < 2; h++)
            r[2 * i + h] =
                _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src + i * ls + 4 * h)),
                                     _mm_loadu_ps(src + (i + 4) * ls + 4 * h), 1);
    for (int h = 0; h < 2; h++) {
        const __m256 t0 = _mm256_unpacklo_ps(r[h], r[2 + h]);
        const __m256 t1 = _mm256_unpackhi_ps(r[h], r[2 + h]);
        const __m256 t2 = _mm256_unpacklo_ps(r[4 + h], r[6 + h]);
        const __m256 t3 = _mm256_unpackhi_ps(r[4 + h], r[6 + h]);
        u[4 * h + 0] = _mm256_shuffle_ps(t0, t2, 0x44);
        u[4 * h + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
        u[4 * h + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
        u[4 * h + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
    }
    for (int c = 0; c < 8; c++) {
        float *d = dst + c * ld;
        _mm256_storeu_ps(d, add ? _mm256_add_ps(_mm256_loadu_ps(d), u[c]) : u[c]);
    }
}

CPU_AVX2_CODE static void avx2_transpose(const float *src, int64_t ls, int64_t rows, int64_t cols,
                                         float *dst, int64_t ld, bool add)
{
    const int64_t r8 = rows & ~(int64_t)7, c8 = cols & ~(int64_t)7;

    for (int64_t c = 0; c < c8; c += 8)
        for (int64_t r = 0; r < r8; r += 8)
            avx2_transpose8(src + r * ls + c, ls, dst + c * ld + r, ld, add);
    if (c8 < cols)
        portable_transpose(src + c8, ls, r8, cols - c8, dst + c8 * ld, ld, add);
    if (r8 < rows)
        portable_transpose(src + r8 * ls, ls, rows - r8, cols, dst + r8, ld, add);
}

/* Hardware prefetchers do not follow rows that are pages apart. */
CPU_AVX2_CODE static void avx2_copy(const float *src, int64_t ls, int64_t rows, int64_t cols,
                                    float *dst, int64_t ld)
{
    if (cols != 16) {
        matmul_copy_rows(src, ls, rows, cols, dst, ld);
        return;
    }
    for (int64_t r = 0; r < rows; r++, src += ls, dst += ld) {
        prefetch_ahead(src, COPY_AHEAD * ls);
        prefetch_ahead(src, COPY_AHEAD * ls + 15);
        _mm256_storeu_ps(dst, _mm256_loadu_ps(src));
        _mm256_storeu_ps(dst + 8, _mm256_loadu_ps(src + 8));
    }
}

AVX2_INLINE float avx2_sum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

/* Two sums per product keep enough additions in flight even for one x. */
AVX2_INLINE void avx2_dot_block(const int n_x, int64_t k, const float *w, int64_t ldw,
                                const float *x, int64_t ldx, float *out)
{
    for (int r = 0; r < MATMUL_DOT_ROWS; r += 2) {
        __m256 acc[2][MATMUL_FEW_ROWS][2];
        int64_t p = 0;

        UNROLL(2)
        for (int q = 0; q < 2; q++)
            UNROLL(4)
        for (int i = 0; i < n_x; i++)
            acc[q][i][0] = acc[q][i][1] = _mm256_setzero_ps();
        for (; p + 16 <= k; p += 16)
            UNROLL(2)
        for (int h = 0; h < 2; h++)
            UNROLL(2)
        for (int q = 0; q < 2; q++) {
            const __m256 wv = _mm256_loadu_ps(w + (r + q) * ldw + p + 8 * h);
            UNROLL(4)
            for (int i = 0; i < n_x; i++)
                acc[q][i][h] =
                    _mm256_fmadd_ps(wv, _mm256_loadu_ps(x + i * ldx + p + 8 * h), acc[q][i][h]);
        }
        UNROLL(2)
        for (int q = 0; q < 2; q++)
            UNROLL(4)
        for (int i = 0; i < n_x; i++) {
            float s = avx2_sum(_mm256_add_ps(acc[q][i][0], acc[q][i][1]));
            for (int64_t e = p; e < k; e++)
                s = mul_add(w[(r + q) * ldw + e], x[i * ldx + e], s);
            out[(r + q) * n_x + i] = s;
        }
    }
}

CPU_AVX2_CODE static void avx2_dots(int64_t k, const float *w, int64_t ldw, int rows,
                                    const float *x, int64_t ldx, int n_x, float *out)
{
    /* A short block repeats its first row: an element must not depend on its neighbours. */
    float tail[MATMUL_DOT_ROWS * MATMUL_FEW_ROWS];
    float *o = rows == MATMUL_DOT_ROWS ? out : tail;
    if (rows < MATMUL_DOT_ROWS) {
        for (int r = 0; r < rows; r++) {
            avx2_dots(k, w + r * ldw, 0, MATMUL_DOT_ROWS, x, ldx, n_x, tail);
            memcpy(out + r * n_x, tail, (size_t)n_x * sizeof *out);
        }
        return;
    }
    switch (n_x) {
    case 1:
        avx2_dot_block(1, k, w, ldw, x, ldx, o);
        break;
    case 2:
        avx2_dot_block(2, k, w, ldw, x, ldx, o);
        break;
    case 3:
        avx2_dot_block(3, k, w, ldw, x, ldx, o);
        break;
    default:
        avx2_dot_block(4, k, w, ldw, x, ldx, o);
        break;
    }
}

static const struct matmul_kernels avx2_kernels = {
    .mr = 6,
    .nr = 16,
    .lanes = 8,
    .mr_narrow = 6,
    .tile = avx2_kernel,
    .transpose = avx2_transpose,
    .copy = avx2_copy,
    .dots = avx2_dots,
};

/* --- AVX-512 ---------------------------------------------------------------------------------- */

#define AVX512_INLINE CPU_AVX512_CODE ALWAYS_INLINE

/*
 * 8 x 48 keeps 24 sums in registers: 11 loads for 24 multiply-adds, well under
 * what the two load ports deliver in the 12 cycles the arithmetic takes.
 */
AVX512_INLINE void avx512_tile(const int rows, const int vecs, const struct micro_tile *t)
{
    __m512 acc[MATMUL_MAX_MR][3];
    const float *b = t->b;
    const int64_t rs = t->a_rs, cs = t->a_cs, ldb = t->ldb, rs3 = 3 * t->a_rs;
    /* One pointer for every four rows: the rest is addressing modes. */
    const float *a0 = t->a;
    const float *a1 = rows > 4 ? a0 + 4 * rs : a0;
    const float *a2 = rows > 8 ? a0 + 8 * rs : a0;
    const float *a3 = rows > 12 ? a0 + 12 * rs : a0;

    /* A short sum ends before its tile of C arrives: then fetch the one below instead. */
    const int64_t c_ahead = t->k < SHORT_K ? rows * t->ldc : 0;

    UNROLL(16)
    for (int i = 0; i < rows; i++)
        UNROLL(3)
    for (int v = 0; v < vecs; v++)
        prefetch_for_write(t->c, c_ahead + i * t->ldc + 16 * v);
    UNROLL(16)
    for (int i = 0; i < rows; i++)
        UNROLL(3)
    for (int v = 0; v < vecs; v++)
        acc[i][v] = _mm512_setzero_ps();
    for (int64_t p = t->k; p > 0; p--) {
        __m512 bv[3];
        UNROLL(3)
        for (int v = 0; v < vecs; v++) {
            bv[v] = _mm512_loadu_ps(b + 16 * v);
            prefetch_ahead(b, B_AHEAD * ldb + 16 * v);
        }
        UNROLL(16)
        for (int i = 0; i < rows; i++) {
            const float *base = i < 4 ? a0 : i < 8 ? a1 : i < 12 ? a2 : a3;
            const int64_t off = i % 4 == 3 ? rs3 : (i % 4) * rs;
            const __m512 s = _mm512_set1_ps(base[off]);
            UNROLL(3)
            for (int v = 0; v < vecs; v++)
                acc[i][v] = _mm512_fmadd_ps(s, bv[v], acc[i][v]);
        }
        a0 += cs;
        a1 += cs;
        a2 += cs;
        a3 += cs;
        b += ldb;
    }
    const __m512 alpha = _mm512_set1_ps(t->alpha);
    UNROLL(16)
    for (int i = 0; i < rows; i++)
        UNROLL(3)
    for (int v = 0; v < vecs; v++) {
        float *c = t->c + i * t->ldc + 16 * v;
        __m512 r = _mm512_mul_ps(alpha, acc[i][v]);
        if (t->accumulate)
            r = _mm512_add_ps(_mm512_loadu_ps(c), r);
        _mm512_storeu_ps(c, r);
    }
}

#define AVX512_WIDE(r)                                                                             \
    case r:                                                                                        \
        if (vectors == 2)                                                                          \
            avx512_tile(r, 2, t);                                                                  \
        else                                                                                       \
            avx512_tile(r, 3, t);                                                                  \
        break;
#define AVX512_NARROW(r)                                                                           \
    case r:                                                                                        \
        avx512_tile(r, 1, t);                                                                      \
        break;

CPU_AVX512_CODE static void avx512_narrow(int rows, const struct micro_tile *t)
{
    switch (rows) {
        AVX512_NARROW(1)
        AVX512_NARROW(2)
        AVX512_NARROW(3)
        AVX512_NARROW(4)
        AVX512_NARROW(5)
        AVX512_NARROW(6)
        AVX512_NARROW(7)
        AVX512_NARROW(8)
        AVX512_NARROW(9)
        AVX512_NARROW(10)
        AVX512_NARROW(11)
        AVX512_NARROW(12)
        AVX512_NARROW(13)
        AVX512_NARROW(14)
        AVX512_NARROW(15)
        AVX512_NARROW(16)
    }
}

CPU_AVX512_CODE static void avx512_kernel(int rows, int vectors, const struct micro_tile *t)
{
    if (vectors == 1) {
        avx512_narrow(rows, t);
        return;
    }
    switch (rows) {
        AVX512_WIDE(1)
        AVX512_WIDE(2)
        AVX512_WIDE(3)
        AVX512_WIDE(4)
        AVX512_WIDE(5)
        AVX512_WIDE(6)
        AVX512_WIDE(7)
        AVX512_WIDE(8)
    }
}

/*
 * 16 rows x 4 columns become 4 vectors.  Collecting rows r, r+4, r+8, r+12 in
 * one register while loading costs no shuffles and leaves in-lane 4x4
 * transposes, of which the rows come out in order.
 */
AVX512_INLINE __m512 avx512_quarters(const float *s, int64_t ls)
{
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(s));
    v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(s + 4 * ls));
    v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(s + 8 * ls));
    return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(s + 12 * ls));
}

AVX512_INLINE void avx512_transpose16x4(const float *s, int64_t ls, float *d, int64_t ld, bool add)
{
    const __m512 r0 = avx512_quarters(s, ls), r1 = avx512_quarters(s + ls, ls);
    const __m512 r2 = avx512_quarters(s + 2 * ls, ls), r3 = avx512_quarters(s + 3 * ls, ls);
    const __m512 t0 = _mm512_unpacklo_ps(r0, r1), t1 = _mm512_unpackhi_ps(r0, r1);
    const __m512 t2 = _mm512_unpacklo_ps(r2, r3), t3 = _mm512_unpackhi_ps(r2, r3);
    const __m512 u[4] = {_mm512_shuffle_ps(t0, t2, 0x44), _mm512_shuffle_ps(t0, t2, 0xee),
                         _mm512_shuffle_ps(t1, t3, 0x44), _mm512_shuffle_ps(t1, t3, 0xee)};
    UNROLL(4)
    for (int c = 0; c < 4; c++) {
        float *o = d + c * ld;
        _mm512_storeu_ps(o, add ? _mm512_add_ps(_mm512_loadu_ps(o), u[c]) : u[c]);
    }
}

CPU_AVX512_CODE static void avx512_transpose(const float *src, int64_t ls, int64_t rows,
                                             int64_t cols, float *dst, int64_t ld, bool add)
{
    const int64_t r16 = rows & ~(int64_t)15, c4 = cols & ~(int64_t)3;

    for (int64_t r = 0; r < r16; r += 16)
        for (int64_t c = 0; c < c4; c += 4)
            avx512_transpose16x4(src + r * ls + c, ls, dst + c * ld + r, ld, add);
    if (c4 < cols)
        portable_transpose(src + c4, ls, r16, cols - c4, dst + c4 * ld, ld, add);
    if (r16 < rows)
        avx2_transpose(src + r16 * ls, ls, rows - r16, cols, dst + r16, ld, add);
}

CPU_AVX512_CODE static void avx512_copy(const float *src, int64_t ls, int64_t rows, int64_t cols,
                                        float *dst, int64_t ld)
{
    if (cols != 48) {
        matmul_copy_rows(src, ls, rows, cols, dst, ld);
        return;
    }
    for (int64_t r = 0; r < rows; r++, src += ls, dst += ld)
        UNROLL(3)
    for (int v = 0; v < 3; v++) {
        prefetch_ahead(src, COPY_AHEAD * ls + 16 * v);
        _mm512_storeu_ps(dst + 16 * v, _mm512_loadu_ps(src + 16 * v));
    }
}

AVX512_INLINE float avx512_sum(__m512 v)
{
    return avx2_sum(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

AVX512_INLINE void avx512_dot_block(const int rows, const int n_x, int64_t k, const float *w,
                                    int64_t ldw, const float *x, int64_t ldx, float *out)
{
    __m512 acc[MATMUL_DOT_ROWS][MATMUL_FEW_ROWS];

    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
    for (int i = 0; i < n_x; i++)
        acc[r][i] = _mm512_setzero_ps();
    for (int64_t p = 0; p < k; p += 16) {
        const __mmask16 live = (__mmask16)(k - p >= 16 ? 0xffffu : (1u << (k - p)) - 1u);
        __m512 xv[MATMUL_FEW_ROWS];
        UNROLL(4)
        for (int i = 0; i < n_x; i++)
            xv[i] = _mm512_maskz_loadu_ps(live, x + i * ldx + p);
        UNROLL(4)
        for (int r = 0; r < rows; r++) {
            const __m512 wv = _mm512_maskz_loadu_ps(live, w + r * ldw + p);
            UNROLL(4)
            for (int i = 0; i < n_x; i++)
                acc[r][i] = _mm512_fmadd_ps(wv, xv[i], acc[r][i]);
        }
    }
    UNROLL(4)
    for (int r = 0; r < rows; r++)
        UNROLL(4)
    for (int i = 0; i < n_x; i++)
        out[r * n_x + i] = avx512_sum(acc[r][i]);
}

#define AVX512_DOTS(n)                                                                             \
    if (rows == MATMUL_DOT_ROWS)                                                                   \
        avx512_dot_block(MATMUL_DOT_ROWS, n, k, w, ldw, x, ldx, out);                              \
    else                                                                                           \
        for (int r = 0; r < rows; r++)                                                             \
            avx512_dot_block(1, n, k, w + r * ldw, ldw, x, ldx, out + r * n);                      \
    break;

CPU_AVX512_CODE static void avx512_dots(int64_t k, const float *w, int64_t ldw, int rows,
                                        const float *x, int64_t ldx, int n_x, float *out)
{
    switch (n_x) {
    case 1:
        AVX512_DOTS(1)
    case 2:
        AVX512_DOTS(2)
    case 3:
        AVX512_DOTS(3)
    default:
        AVX512_DOTS(4)
    }
}

static const struct matmul_kernels avx512_kernels = {
    .mr = 8,
    .nr = 48,
    .lanes = 16,
    .mr_narrow = 16,
    .tile = avx512_kernel,
    .transpose = avx512_transpose,
    .copy = avx512_copy,
    .dots = avx512_dots,
};
#endif

const struct matmul_kernels *matmul_kernels(void)
{
#ifdef __x86_64__
    enum cpu_tier tier = cpu_tier();
    if (tier >= CPU_AVX512)
        return &avx512_kernels;
    if (tier >= CPU_AVX2)
        return &avx2_kernels;
#endif
    return &portable_kernels;
}
