/* SPDX-License-Identifier: Apache-2.0
 * Decoding of ggml's block formats. The order of the roundings is that of the `gguf` package: the
 * block scale is widened first, products and sums are separate fp32 operations. Each decoder is
 * written once, inlined into one function per CPU tier and left to the vectoriser. */
#include "formats/dtype.h"

#include <math.h>
#include <string.h>

#include "common/cpu.h"
#include "common/half.h"

enum { K_BLOCK = 256 };

static const struct {
    const char *name;
    int64_t block;
    size_t block_bytes;
} infos[DTYPES] = {
    [DT_F32] = {"f32", 1, 4},       [DT_F16] = {"f16", 1, 2},     [DT_BF16] = {"bf16", 1, 2},
    [DT_Q4_0] = {"q4_0", 32, 18},   [DT_Q4_1] = {"q4_1", 32, 20}, [DT_Q5_0] = {"q5_0", 32, 22},
    [DT_Q5_1] = {"q5_1", 32, 24},   [DT_Q8_0] = {"q8_0", 32, 34}, [DT_Q4_K] = {"q4_k", 256, 144},
    [DT_Q6_K] = {"q6_k", 256, 210}, [DT_NF4] = {"nf4", 64, 32},
};

const char *dtype_name(enum dtype t)
{
    FT_ASSERT(t < DTYPES);
    return infos[t].name;
}

bool dtype_from_name(enum dtype *out, str name)
{
    for (int t = 0; t < DTYPES; t++) {
        if (str_is(name, infos[t].name)) {
            *out = (enum dtype)t;
            return true;
        }
    }
    return false;
}

int64_t dtype_block(enum dtype t)
{
    FT_ASSERT(t < DTYPES);
    return infos[t].block;
}

size_t dtype_block_bytes(enum dtype t)
{
    FT_ASSERT(t < DTYPES);
    return infos[t].block_bytes;
}

bool dtype_bytes(enum dtype t, int64_t n, size_t *out)
{
    return n >= 0 && n % dtype_block(t) == 0 &&
           size_mul((size_t)(n / dtype_block(t)), dtype_block_bytes(t), out);
}

/* --- one block each --------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

INLINE float load_f16(const uint8_t *p)
{
    return f16_to_f32(load_u16le(p));
}

/* f16_to_f32 without branches, for the vectoriser: the exponent is rebased as an integer, infinity
 * and NaN get the rest of the way, and subnormals are normalised by an exact subtraction. */
INLINE float f16_select(uint32_t h)
{
    uint32_t bits = (h & 0x7FFF) << 13;
    uint32_t is_special = 0u - (bits >= 0x0F800000), is_subnormal = 0u - (bits < 0x00800000);
    uint32_t rebased = bits + (112u << 23) + (is_special & 112u << 23);
    uint32_t subnormal = f32_to_bits(bits_to_f32(bits + (113u << 23)) - 0x1p-14f);
    uint32_t magnitude = (rebased & ~is_subnormal) | (subnormal & is_subnormal);
    return bits_to_f32(magnitude | (h & 0x8000) << 16);
}

INLINE void plain_f32(const uint8_t *restrict src, int64_t n, float *restrict dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = bits_to_f32(load_u32le(src + 4 * i));
}

INLINE void plain_f16(const uint8_t *restrict src, int64_t n, float *restrict dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = f16_select(load_u16le(src + 2 * i));
}

INLINE void plain_bf16(const uint8_t *restrict src, int64_t n, float *restrict dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = bf16_to_f32(load_u16le(src + 2 * i));
}

/* Elements 0..15 are the low nibbles of the 16 bytes, 16..31 the high ones. */
INLINE void block_q4_0(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src);
    const uint8_t *q = src + 2;
    for (int i = 0; i < 16; i++)
        dst[i] = d * (float)((q[i] & 15) - 8);
    for (int i = 0; i < 16; i++)
        dst[i + 16] = d * (float)((q[i] >> 4) - 8);
}

INLINE void block_q4_1(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src), m = load_f16(src + 2);
    const uint8_t *q = src + 4;
    for (int i = 0; i < 16; i++)
        dst[i] = d * (float)(q[i] & 15) + m;
    for (int i = 0; i < 16; i++)
        dst[i + 16] = d * (float)(q[i] >> 4) + m;
}

/* The fifth bit of element i is bit i of a 32-bit word. */
INLINE void block_q5_0(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src);
    uint32_t high = load_u32le(src + 2);
    const uint8_t *q = src + 6;
    for (int i = 0; i < 16; i++)
        dst[i] = d * (float)((int)((q[i] & 15u) | (high >> i & 1) << 4) - 16);
    for (int i = 0; i < 16; i++)
        dst[i + 16] = d * (float)((int)((q[i] >> 4) | (high >> (i + 16) & 1) << 4) - 16);
}

INLINE void block_q5_1(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src), m = load_f16(src + 2);
    uint32_t high = load_u32le(src + 4);
    const uint8_t *q = src + 8;
    for (int i = 0; i < 16; i++)
        dst[i] = d * (float)(int)((q[i] & 15u) | (high >> i & 1) << 4) + m;
    for (int i = 0; i < 16; i++)
        dst[i + 16] = d * (float)(int)((q[i] >> 4) | (high >> (i + 16) & 1) << 4) + m;
}

INLINE void block_q8_0(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src);
    for (int i = 0; i < 32; i++)
        dst[i] = (float)(int8_t)src[2 + i] * d;
}

/* Eight groups of 32 elements, each with a 6-bit scale and a 6-bit minimum: those of groups 0..3
 * are the low six bits of bytes 0..3 and 4..7; those of groups 4..7 have their low four bits in the
 * nibbles of bytes 8..11 and their high two bits on top of bytes 0..7. */
INLINE void block_q4_k(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src), d_min = load_f16(src + 2);
    const uint8_t *s = src + 4, *q = src + 16;
    for (int g = 0; g < 8; g++) {
        int k = g & 3;
        int scale = g < 4 ? s[k] & 63 : (s[k + 8] & 15) | (s[k] >> 2 & 48);
        int min = g < 4 ? s[k + 4] & 63 : s[k + 8] >> 4 | (s[k + 4] >> 2 & 48);
        float ds = d * (float)scale, dm = d_min * (float)min;
        int shift = 4 * (g & 1);
        const uint8_t *qg = q + g / 2 * 32;
        for (int i = 0; i < 32; i++)
            dst[32 * g + i] = ds * (float)(qg[i] >> shift & 15) - dm;
    }
}

/* Two halves of 128 elements: low nibbles of 64 bytes, then high nibbles; two more bits from 32
 * bytes, two at a time; one signed scale for 16 elements. */
INLINE void block_q6_k(const uint8_t *restrict src, float *restrict dst)
{
    float d = load_f16(src + 208);
    for (int g = 0; g < 16; g++) {
        int half = g / 8, quarter = g / 2 % 4, odd = g % 2 * 16;
        const uint8_t *low = src + 64 * half + 32 * (quarter & 1) + odd;
        const uint8_t *high = src + 128 + 32 * half + odd;
        int shift = 4 * (quarter >> 1);
        float ds = d * (float)(int8_t)src[192 + g];
        for (int i = 0; i < 16; i++) {
            int v = (low[i] >> shift & 15) | (high[i] >> 2 * quarter & 3) << 4;
            dst[16 * g + i] = ds * (float)(v - 32);
        }
    }
}

/* --- tiers ------------------------------------------------------------------------------------ */

INLINE void decode(enum dtype t, const uint8_t *src, int64_t n, float *restrict dst)
{
    int64_t n32 = n / 32, n256 = n / K_BLOCK;
    switch (t) {
    case DT_F32:
        plain_f32(src, n, dst);
        return;
    case DT_F16:
        plain_f16(src, n, dst);
        return;
    case DT_BF16:
        plain_bf16(src, n, dst);
        return;
    case DT_Q4_0:
        for (int64_t b = 0; b < n32; b++)
            block_q4_0(src + 18 * b, dst + 32 * b);
        return;
    case DT_Q4_1:
        for (int64_t b = 0; b < n32; b++)
            block_q4_1(src + 20 * b, dst + 32 * b);
        return;
    case DT_Q5_0:
        for (int64_t b = 0; b < n32; b++)
            block_q5_0(src + 22 * b, dst + 32 * b);
        return;
    case DT_Q5_1:
        for (int64_t b = 0; b < n32; b++)
            block_q5_1(src + 24 * b, dst + 32 * b);
        return;
    case DT_Q8_0:
        for (int64_t b = 0; b < n32; b++)
            block_q8_0(src + 34 * b, dst + 32 * b);
        return;
    case DT_Q4_K:
        for (int64_t b = 0; b < n256; b++)
            block_q4_k(src + 144 * b, dst + K_BLOCK * b);
        return;
    case DT_Q6_K:
        for (int64_t b = 0; b < n256; b++)
            block_q6_k(src + 210 * b, dst + K_BLOCK * b);
        return;
    case DT_NF4:
    case DTYPES:
        break;
    }
    FT_ASSERT(t < DT_NF4);
}

static void decode_portable(enum dtype t, const uint8_t *src, int64_t n, float *dst)
{
    decode(t, src, n, dst);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void decode_avx2(enum dtype t, const uint8_t *src, int64_t n,
                                                        float *dst)
{
    decode(t, src, n, dst);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) static void
decode_avx512(enum dtype t, const uint8_t *src, int64_t n, float *dst)
{
    decode(t, src, n, dst);
}
#endif

void dtype_decode(enum dtype t, const void *src, int64_t n, float *dst)
{
    FT_ASSERT(n >= 0 && n % dtype_block(t) == 0);
#ifdef __x86_64__
    if (cpu_tier() >= CPU_AVX512) {
        decode_avx512(t, src, n, dst);
        return;
    }
    if (cpu_tier() >= CPU_AVX2) {
        decode_avx2(t, src, n, dst);
        return;
    }
#endif
    decode_portable(t, src, n, dst);
}

/* --- finite values ---------------------------------------------------------------------------- */

/* No early exit, for the vectoriser. */
static bool finite32(const uint8_t *src, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (load_u32le(src + 4 * i) & 0x7F800000) == 0x7F800000;
    return bad == 0;
}

/* exponent: the bits that are all set in an infinity or NaN. */
static bool finite16(const uint8_t *src, int64_t n, uint16_t exponent)
{
    uint16_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (load_u16le(src + 2 * i) & exponent) == exponent;
    return bad == 0;
}

/* Where the f16 scales of a block are, and how many. An infinite or NaN one spoils at least one
 * value, and finite ones none: their products with a few small integers are far from overflow. */
static bool block_finite(enum dtype t, const uint8_t *block)
{
    switch (t) {
    case DT_Q4_1:
    case DT_Q5_1:
    case DT_Q4_K:
        return finite16(block, 2, 0x7C00);
    case DT_Q6_K:
        return finite16(block + 208, 1, 0x7C00);
    default:
        return finite16(block, 1, 0x7C00);
    }
}

bool dtype_all_finite(enum dtype t, const void *src, int64_t n)
{
    const uint8_t *p = src;
    FT_ASSERT(t < DT_NF4 && n >= 0 && n % dtype_block(t) == 0);
    if (t == DT_F32)
        return finite32(p, n);
    if (t == DT_F16 || t == DT_BF16)
        return finite16(p, n, t == DT_F16 ? 0x7C00 : 0x7F80);
    bool finite = true;
    for (int64_t b = 0; b < n / infos[t].block; b++)
        finite &= block_finite(t, p + (size_t)b * infos[t].block_bytes);
    return finite;
}

/* --- encoding --------------------------------------------------------------------------------- */

static int64_t encode_f32(const float *src, int64_t n, void *dst)
{
    int64_t i = 0;
    while (i < n && isfinite(src[i]))
        i++;
    memmove(dst, src, (size_t)n * sizeof *src);
    return i;
}

static int64_t encode_half(enum dtype t, const float *src, int64_t n, void *dst)
{
    uint16_t exponent = t == DT_F16 ? 0x7C00 : 0x7F80; /* all set: infinity or NaN */
    int64_t finite = n;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = t == DT_F16 ? f32_to_f16(src[i]) : f32_to_bf16(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &h, sizeof h);
        if ((h & exponent) == exponent && finite == n)
            finite = i;
    }
    return finite;
}

int64_t dtype_encode(enum dtype t, const float *src, int64_t n, void *dst)
{
    FT_ASSERT(t == DT_F32 || t == DT_F16 || t == DT_BF16);
    return t == DT_F32 ? encode_f32(src, n, dst) : encode_half(t, src, n, dst);
}
