/* SPDX-License-Identifier: Apache-2.0
 * The constants are bit patterns, not decimal literals: the thresholds of bitsandbytes' CUDA kernel
 * and the midpoints of its code table differ in four places by one unit of the last place, and a
 * literal that passes through double reproduces neither (docs/formats/nf4.md). */
#include "formats/nf4.h"

#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "common/cpu.h"
#include "common/half.h"

#define INLINE static inline __attribute__((always_inline))

const float nf4_values[NF4_CODES] = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

const uint32_t nf4_thresholds[NF4_CODES - 1] = {
    0xbf591cd9, 0xbf1c5270, 0xbeeb8480, 0xbeadea76, 0xbe703cec, 0xbe0d38bc, 0xbd3a7871, 0x3d22faff,
    0x3df64863, 0x3e5067e0, 0x3e9582d4, 0x3ec753f9, 0x3f006d03, 0x3f248daf, 0x3f5c89d9,
};

/* 127 negative entries, zero, 128 positive ones, ascending. */
const uint32_t nf4_map_bits[NF4_MAP] = {
    0xbf7e3333, 0xbf7a999a, 0xbf770000, 0xbf736666, 0xbf6fcccd, 0xbf6c3333, 0xbf68999a, 0xbf650000,
    0xbf616666, 0xbf5dcccd, 0xbf5a3333, 0xbf56999a, 0xbf530000, 0xbf4f6666, 0xbf4bcccd, 0xbf483333,
    0xbf44999a, 0xbf410000, 0xbf3d6666, 0xbf39cccd, 0xbf363334, 0xbf32999a, 0xbf2f0000, 0xbf2b6666,
    0xbf27cccd, 0xbf243334, 0xbf20999a, 0xbf1d0000, 0xbf196666, 0xbf15cccd, 0xbf123334, 0xbf0e999a,
    0xbf0b0000, 0xbf076666, 0xbf03cccc, 0xbf003333, 0xbef93332, 0xbef20000, 0xbeeacccc, 0xbee3999a,
    0xbedc6666, 0xbed53333, 0xbece0000, 0xbec6cccc, 0xbebf999a, 0xbeb86666, 0xbeb13333, 0xbeaa0000,
    0xbea2cccc, 0xbe9b999a, 0xbe946666, 0xbe8d3334, 0xbe860000, 0xbe7d9999, 0xbe6f3333, 0xbe60cccd,
    0xbe526666, 0xbe440000, 0xbe35999a, 0xbe273333, 0xbe18cccd, 0xbe0a6666, 0xbdf80000, 0xbddb3334,
    0xbdc9eb85, 0xbdc428f7, 0xbdbe6667, 0xbdb8a3d7, 0xbdb2e148, 0xbdad1eb8, 0xbda75c2a, 0xbda1999a,
    0xbd9bd70a, 0xbd96147b, 0xbd9051eb, 0xbd8a8f5d, 0xbd84cccd, 0xbd7e147b, 0xbd728f5d, 0xbd670a3d,
    0xbd5b851f, 0xbd500000, 0xbd447ae1, 0xbd38f5c3, 0xbd2d70a3, 0xbd21eb85, 0xbd166667, 0xbd0ae148,
    0xbcfeb852, 0xbce7ae15, 0xbcd0a3d7, 0xbcb9999a, 0xbca28f5d, 0xbc8b851f, 0xbc68f5c3, 0xbc3ae148,
    0xbc1f3b64, 0xbc160418, 0xbc0ccccd, 0xbc039581, 0xbbf4bc6a, 0xbbe24dd3, 0xbbcfdf3b, 0xbbbd70a4,
    0xbbab020d, 0xbb989374, 0xbb8624dd, 0xbb676c8a, 0xbb428f5c, 0xbb1db22d, 0xbaf1a9fc, 0xbaa7ef9d,
    0xba7765ff, 0xba59e83e, 0xba3c6a80, 0xba1eecc1, 0xba016f01, 0xb9c7e283, 0xb98ce705, 0xb923d70b,
    0xb8ba1f4b, 0xb88aefb3, 0xb8378034, 0xb7b24206, 0xb70205ff, 0xb65a1a94, 0xb513a3b7, 0x00000000,
    0x3513a3b7, 0x365a1a94, 0x370205ff, 0x37b24206, 0x38378034, 0x388aefb3, 0x38ba1f4b, 0x3923d70b,
    0x398ce705, 0x39c7e283, 0x3a016f01, 0x3a1eecc1, 0x3a3c6a80, 0x3a59e83e, 0x3a7765ff, 0x3aa7ef9d,
    0x3af1a9fc, 0x3b1db22d, 0x3b428f5c, 0x3b676c8a, 0x3b8624dd, 0x3b989374, 0x3bab020d, 0x3bbd70a4,
    0x3bcfdf3b, 0x3be24dd3, 0x3bf4bc6a, 0x3c039581, 0x3c0ccccd, 0x3c160418, 0x3c1f3b64, 0x3c3ae148,
    0x3c68f5c3, 0x3c8b851f, 0x3ca28f5d, 0x3cb9999a, 0x3cd0a3d7, 0x3ce7ae15, 0x3cfeb852, 0x3d0ae148,
    0x3d166667, 0x3d21eb85, 0x3d2d70a3, 0x3d38f5c3, 0x3d447ae1, 0x3d500000, 0x3d5b851f, 0x3d670a3d,
    0x3d728f5d, 0x3d7e147b, 0x3d84cccd, 0x3d8a8f5d, 0x3d9051eb, 0x3d96147b, 0x3d9bd70a, 0x3da1999a,
    0x3da75c2a, 0x3dad1eb8, 0x3db2e148, 0x3db8a3d7, 0x3dbe6667, 0x3dc428f7, 0x3dc9eb85, 0x3ddb3334,
    0x3df80000, 0x3e0a6666, 0x3e18cccd, 0x3e273333, 0x3e35999a, 0x3e440000, 0x3e526666, 0x3e60cccd,
    0x3e6f3333, 0x3e7d9999, 0x3e860000, 0x3e8d3334, 0x3e946666, 0x3e9b999a, 0x3ea2cccc, 0x3eaa0000,
    0x3eb13333, 0x3eb86666, 0x3ebf999a, 0x3ec6cccc, 0x3ece0000, 0x3ed53333, 0x3edc6666, 0x3ee3999a,
    0x3eeacccc, 0x3ef20000, 0x3ef93332, 0x3f003333, 0x3f03cccc, 0x3f076666, 0x3f0b0000, 0x3f0e999a,
    0x3f123334, 0x3f15cccd, 0x3f196666, 0x3f1d0000, 0x3f20999a, 0x3f243334, 0x3f27cccd, 0x3f2b6666,
    0x3f2f0000, 0x3f32999a, 0x3f363334, 0x3f39cccd, 0x3f3d6666, 0x3f410000, 0x3f44999a, 0x3f483333,
    0x3f4bcccd, 0x3f4f6666, 0x3f530000, 0x3f56999a, 0x3f5a3333, 0x3f5dcccd, 0x3f616666, 0x3f650000,
    0x3f68999a, 0x3f6c3333, 0x3f6fcccd, 0x3f736666, 0x3f770000, 0x3f7a999a, 0x3f7e3333, 0x3f800000,
};

int64_t nf4_blocks(int64_t numel)
{
    return (numel + NF4_BLOCK - 1) / NF4_BLOCK;
}

int64_t nf4_blocks2(int64_t numel)
{
    return (nf4_blocks(numel) + NF4_BLOCK2 - 1) / NF4_BLOCK2;
}

/* --- first level ------------------------------------------------------------------------------ */

/* Magnitudes compare like their bit patterns, with NaN above infinity. */
INLINE float magnitude_max(const float *x, int n)
{
    uint32_t max = 0;
    for (int i = 0; i < n; i++) {
        uint32_t magnitude = f32_to_bits(x[i]) & 0x7FFFFFFF;
        max = magnitude > max ? magnitude : max;
    }
    return bits_to_f32(max);
}

/* The definition. x has NF4_BLOCK elements. The loops are for the vectoriser: all elements against
 * one threshold, then the next. */
INLINE void quantize_block(uint8_t *restrict codes, float *restrict absmax, const float *restrict x)
{
    float v[NF4_BLOCK];
    int32_t code[NF4_BLOCK] = {0};
    *absmax = magnitude_max(x, NF4_BLOCK);
    float scale = 1.0f / *absmax;
    for (int i = 0; i < NF4_BLOCK; i++)
        v[i] = x[i] * scale;
    for (int t = 0; t < NF4_CODES - 1; t++) {
        float threshold = bits_to_f32(nf4_thresholds[t]);
        for (int i = 0; i < NF4_BLOCK; i++)
            code[i] += v[i] > threshold;
    }
    for (int i = 0; i < NF4_BLOCK / 2; i++)
        codes[i] = (uint8_t)(code[2 * i] << 4 | code[2 * i + 1]);
}

INLINE void quantize_each(uint8_t *codes, float *absmax, const float *x, int64_t n_blocks)
{
    for (int64_t b = 0; b < n_blocks; b++)
        quantize_block(codes + b * (NF4_BLOCK / 2), absmax + b, x + b * NF4_BLOCK);
}

static void quantize_portable(uint8_t *codes, float *absmax, const float *x, int64_t n_blocks)
{
    quantize_each(codes, absmax, x, n_blocks);
}

#ifdef __x86_64__

#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

AVX2 static void quantize_avx2(uint8_t *codes, float *absmax, const float *x, int64_t n_blocks)
{
    quantize_each(codes, absmax, x, n_blocks);
}

/* [-1, 1] in 32 equal steps, narrower than the distance of any two thresholds: at most one
 * threshold lies in a step, so one comparison settles the code. */
enum { STEPS = 32 };

struct steps {
    int32_t base[STEPS];    /* the code at the start of the step */
    float threshold[STEPS]; /* the one in the step, or beyond its end */
};

static int32_t code_of(float v)
{
    int32_t code = 0;
    for (int i = 0; i < NF4_CODES - 1; i++)
        code += v > bits_to_f32(nf4_thresholds[i]);
    return code;
}

static void make_steps(struct steps *s)
{
    for (int i = 0; i < STEPS; i++) {
        float start = (float)i / 15.5f - 1;
        s->base[i] = code_of(start);
        s->threshold[i] =
            s->base[i] < NF4_CODES - 1 ? bits_to_f32(nf4_thresholds[s->base[i]]) : INFINITY;
    }
}

AVX512 static inline __m128i codes_avx512(const float *x, __m512 scale, const __m512 *threshold,
                                          const __m512i *base)
{
    const __m512 half = _mm512_set1_ps(15.5f);
    __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x), scale);
    __m512i step = _mm512_cvttps_epi32(_mm512_fmadd_ps(v, half, half));
    __mmask16 above =
        _mm512_cmp_ps_mask(v, _mm512_permutex2var_ps(threshold[0], step, threshold[1]), _CMP_GT_OQ);
    __m512i code = _mm512_permutex2var_epi32(base[0], step, base[1]);
    code = _mm512_mask_add_epi32(code, above, code, _mm512_set1_epi32(1));
    /* Elements 2i and 2i+1 are the halves of a 64-bit lane. */
    code = _mm512_or_si512(_mm512_slli_epi64(code, 4), _mm512_srli_epi64(code, 32));
    return _mm512_cvtepi64_epi8(code);
}

AVX512 static float magnitude_max_avx512(const float *x)
{
    const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i max = _mm512_setzero_si512();
    for (int i = 0; i < NF4_BLOCK; i += 16)
        max = _mm512_max_epi32(max,
                               _mm512_and_si512(mask, _mm512_castps_si512(_mm512_loadu_ps(x + i))));
    return bits_to_f32((uint32_t)_mm512_reduce_max_epi32(max));
}

AVX512 static void quantize_avx512(uint8_t *codes, float *absmax, const float *x, int64_t n_blocks)
{
    struct steps s;
    make_steps(&s);
    const __m512 threshold[2] = {_mm512_loadu_ps(s.threshold), _mm512_loadu_ps(s.threshold + 16)};
    const __m512i base[2] = {_mm512_loadu_si512(s.base), _mm512_loadu_si512(s.base + 16)};
    for (int64_t b = 0; b < n_blocks; b++, x += NF4_BLOCK, codes += NF4_BLOCK / 2) {
        absmax[b] = magnitude_max_avx512(x);
        float inverse = 1.0f / absmax[b];
        /* Zero, tiny (infinite reciprocal) and NaN blocks leave the steps. */
        if (!isfinite(inverse)) {
            quantize_block(codes, absmax + b, x);
            continue;
        }
        __m512 scale = _mm512_set1_ps(inverse);
        for (int i = 0; i < NF4_BLOCK; i += 16)
            _mm_storel_epi64((__m128i *)(void *)(codes + i / 2),
                             codes_avx512(x + i, scale, threshold, base));
    }
}

#endif

static void quantize_blocks(uint8_t *codes, float *absmax, const float *x, int64_t n_blocks)
{
#ifdef __x86_64__
    if (cpu_tier() >= CPU_AVX512) {
        quantize_avx512(codes, absmax, x, n_blocks);
        return;
    }
    if (cpu_tier() >= CPU_AVX2) {
        quantize_avx2(codes, absmax, x, n_blocks);
        return;
    }
#endif
    quantize_portable(codes, absmax, x, n_blocks);
}

/* A short last block: zeros change neither the maximum nor the other codes. */
static void quantize_rest(uint8_t *codes, float *absmax, const float *x, int64_t n)
{
    float block[NF4_BLOCK] = {0};
    uint8_t packed[NF4_BLOCK / 2];
    memcpy(block, x, (size_t)n * sizeof *x);
    quantize_blocks(packed, absmax, block, 1);
    if (n % 2 != 0)
        packed[n / 2] &= 0xF0; /* the unused half is code 0 */
    memcpy(codes, packed, (size_t)(n + 1) / 2);
}

int64_t nf4_quantize(uint8_t *codes, float *absmax, const float *x, int64_t n)
{
    int64_t n_blocks = nf4_blocks(n), whole = n / NF4_BLOCK, n_zero = 0;
    quantize_blocks(codes, absmax, x, whole);
    if (whole < n_blocks)
        quantize_rest(codes + whole * (NF4_BLOCK / 2), absmax + whole, x + whole * NF4_BLOCK,
                      n - whole * NF4_BLOCK);
    for (int64_t b = 0; b < n_blocks; b++)
        n_zero += absmax[b] == 0;
    return n_zero;
}

/* --- second level ----------------------------------------------------------------------------- */

/* Midpoints of neighbouring entries: the nearest entry of v is the number of midpoints below v,
 * ties to the lower index. */
static void map_midpoints(float *mid)
{
    for (int i = 0; i < NF4_MAP - 1; i++)
        mid[i] = (bits_to_f32(nf4_map_bits[i]) + bits_to_f32(nf4_map_bits[i + 1])) / 2;
    mid[NF4_MAP - 1] = INFINITY;
}

/* Codes of NF4_BLOCK2 values: each step of the binary search for all of them before the next, since
 * the steps of one value wait for each other and, with branches, would be coin tosses. */
static void nearest_entries(uint8_t *q, const float *mid, const float *v)
{
    int32_t index[NF4_BLOCK2] = {0};
    for (int32_t step = NF4_MAP / 2; step > 0; step /= 2)
        for (int i = 0; i < NF4_BLOCK2; i++)
            index[i] += (mid[index[i] + step - 1] < v[i]) * step;
    for (int i = 0; i < NF4_BLOCK2; i++)
        q[i] = (uint8_t)index[i];
}

void nf4_quantize_absmax(uint8_t *absmax_q, float *absmax2, float *offset, const float *absmax,
                         int64_t n_blocks)
{
    float mid[NF4_MAP], d[NF4_BLOCK2] = {0};
    uint8_t q[NF4_BLOCK2];
    double sum = 0;
    map_midpoints(mid);
    for (int64_t b = 0; b < n_blocks; b++)
        sum += absmax[b];
    *offset = (float)(sum / (double)n_blocks);
    for (int64_t from = 0; from < n_blocks; from += NF4_BLOCK2) {
        int n = (int)FT_MIN(n_blocks - from, (int64_t)NF4_BLOCK2);
        for (int i = 0; i < n; i++)
            d[i] = absmax[from + i] - *offset;
        float max = magnitude_max(d, n);
        float scale = 1.0f / max;
        absmax2[from / NF4_BLOCK2] = max;
        for (int i = 0; i < n; i++)
            d[i] *= scale;
        nearest_entries(q, mid, d);
        memcpy(absmax_q + from, q, (size_t)n);
    }
}

/* --- decoding --------------------------------------------------------------------------------- */

float nf4_scale(const struct nf4_matrix *m, int64_t block)
{
    float scaled = m->map[m->absmax[block]] * m->absmax2[block / NF4_BLOCK2];
    return scaled + m->offset;
}

void nf4_decode(const struct nf4_matrix *m, int64_t from, int64_t to, float *dst)
{
    float scale = 0;
    for (int64_t i = from; i < to; i++) {
        if (i == from || i % NF4_BLOCK == 0)
            scale = nf4_scale(m, i / NF4_BLOCK);
        unsigned code = i % 2 == 0 ? m->codes[i / 2] >> 4 : m->codes[i / 2] & 15;
        dst[i - from] = nf4_values[code] * scale;
    }
}
