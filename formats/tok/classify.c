/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/classify.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static void classify_portable(struct classify_masks *out, const uint8_t block[CLASSIFY_BLOCK])
{
    struct classify_masks m = {0};
    for (int i = 0; i < CLASSIFY_BLOCK; i++) {
        uint8_t c = block[i];
        m.letter |= (uint64_t)((uint8_t)((c | 0x20) - 'a') < 26) << i;
        m.upper |= (uint64_t)((uint8_t)(c - 'A') < 26) << i;
        m.digit |= (uint64_t)((uint8_t)(c - '0') < 10) << i;
        m.space |= (uint64_t)(c == ' ' || (uint8_t)(c - '\t') < 5) << i;
        m.blank |= (uint64_t)(c == ' ') << i;
        m.line |= (uint64_t)(c == '\n' || c == '\r') << i;
        m.quote |= (uint64_t)(c == '\'') << i;
        m.control |= (uint64_t)(c < ' ' || c == 0x7F) << i;
        m.wide |= (uint64_t)(c >> 7) << i;
    }
    m.control &= ~m.space;
    *out = m;
}

#if defined(__x86_64__)

/* x in [low, low + n) as unsigned bytes: min(x - low, n - 1) == x - low. */
__attribute__((target("avx2"))) static inline uint32_t in_range_avx2(__m256i x, char low, char n)
{
    __m256i d = _mm256_sub_epi8(x, _mm256_set1_epi8(low));
    __m256i clipped = _mm256_min_epu8(d, _mm256_set1_epi8((char)(n - 1)));
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(clipped, d));
}

__attribute__((target("avx2"))) static inline uint32_t equal_avx2(__m256i x, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_set1_epi8(c)));
}

__attribute__((target("avx2"))) static void classify_avx2(struct classify_masks *out,
                                                          const uint8_t block[CLASSIFY_BLOCK])
{
    struct classify_masks m = {0};
    for (int half = 0; half < 2; half++) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(block + 32 * half));
        __m256i lower = _mm256_or_si256(x, _mm256_set1_epi8(0x20));
        int at = 32 * half;
        uint64_t blank = equal_avx2(x, ' ');
        m.letter |= (uint64_t)in_range_avx2(lower, 'a', 26) << at;
        m.upper |= (uint64_t)in_range_avx2(x, 'A', 26) << at;
        m.digit |= (uint64_t)in_range_avx2(x, '0', 10) << at;
        m.space |= (blank | in_range_avx2(x, '\t', 5)) << at;
        m.blank |= blank << at;
        m.line |= (uint64_t)(equal_avx2(x, '\n') | equal_avx2(x, '\r')) << at;
        m.quote |= (uint64_t)equal_avx2(x, '\'') << at;
        m.control |= (uint64_t)(in_range_avx2(x, 0, ' ') | equal_avx2(x, 0x7F)) << at;
        m.wide |= (uint64_t)(uint32_t)_mm256_movemask_epi8(x) << at;
    }
    m.control &= ~m.space;
    *out = m;
}

#define AVX512 __attribute__((target("avx512f,avx512bw")))

AVX512 static inline uint64_t in_range_avx512(__m512i x, char low, char n)
{
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8(low)), _mm512_set1_epi8(n));
}

AVX512 static void classify_avx512(struct classify_masks *out, const uint8_t block[CLASSIFY_BLOCK])
{
    __m512i x = _mm512_loadu_si512(block);
    __m512i lower = _mm512_or_si512(x, _mm512_set1_epi8(0x20));
    out->letter = in_range_avx512(lower, 'a', 26);
    out->upper = in_range_avx512(x, 'A', 26);
    out->digit = in_range_avx512(x, '0', 10);
    out->blank = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(' '));
    out->space = out->blank | in_range_avx512(x, '\t', 5);
    out->line = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\n')) |
                _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\r'));
    out->quote = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\''));
    out->control =
        (in_range_avx512(x, 0, ' ') | _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(0x7F))) &
        ~out->space;
    out->wide = _mm512_movepi8_mask(x);
}

#endif

classify_fn *classify_select(enum cpu_tier tier)
{
#if defined(__x86_64__)
    if (tier >= CPU_AVX512)
        return classify_avx512;
    if (tier >= CPU_AVX2)
        return classify_avx2;
#endif
    (void)tier;
    return classify_portable;
}
