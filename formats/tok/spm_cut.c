/* SPDX-License-Identifier: Apache-2.0
 * Sixty-four borders are tested at once without a branch, so that the length of a word cannot be
 * predicted wrongly; the rare stretch of other alphabets is looked at again. */
#include "formats/tok/spm_cut.h"

#include <string.h>

static void join_bytes(struct spm_cut *c, uint8_t before, uint8_t after)
{
    c->joined[before][after >> 5] |= UINT32_C(1) << (after & 31);
}

static uint32_t pair_bit(const struct spm_cut *c, uint32_t before, uint32_t after)
{
    return (before * UINT32_C(0x9E3779B1) ^ after * UINT32_C(0x85EBCA77)) >> c->shift;
}

static bool is_continuation(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Bytes of the character that starts with `lead`, as valid UTF-8 has it. */
static size_t char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* A character of more than one byte as a number that tells it from the others. */
static inline uint32_t char_key(const uint8_t *p)
{
    uint32_t key = (uint32_t)p[0] << 8 | p[1];
    if (p[0] >= 0xE0)
        key = key << 8 | p[2];
    return p[0] >= 0xF0 ? key << 8 | p[3] : key;
}

/* Calls for each border inside a piece. */
static void join_piece(struct spm_cut *c, str piece)
{
    const uint8_t *p = (const uint8_t *)piece.ptr;
    size_t before = 0, at = char_bytes(p[0]);
    for (; at < piece.len; before = at, at += char_bytes(p[at])) {
        join_bytes(c, p[at - 1], p[at]);
        if (p[before] >= 0x80 && p[at] >= 0x80) {
            uint32_t bit = pair_bit(c, char_key(p + before), char_key(p + at));
            c->pairs[bit >> 5] |= UINT32_C(1) << (bit & 31);
        }
    }
}

static size_t count_bytes(const str *pieces, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += pieces[i].len;
    return bytes;
}

ft_status spm_cut_init(struct spm_cut *c, struct arena *a, const str *pieces, size_t n,
                       ft_error *err)
{
    size_t bytes = count_bytes(pieces, n);
    c->shift = 32 - 12;
    while (c->shift > 8 && UINT32_C(1) << (32 - c->shift) < 4 * bytes)
        c->shift--;
    c->joined = arena_alloc(a, 256, sizeof *c->joined);
    c->pairs = arena_alloc(a, (size_t)1 << (32 - c->shift - 5), sizeof *c->pairs);
    if (c->joined == NULL || c->pairs == NULL)
        return ft_fail_memory(err, (size_t)1 << (32 - c->shift - 3), "the borders of pieces");
    for (unsigned before = 0; before < 256; before++)
        for (unsigned after = 0x80; after < 0xC0; after++)
            join_bytes(c, (uint8_t)before, (uint8_t)after);
    for (size_t i = 0; i < n; i++)
        join_piece(c, pieces[i]);
    return FT_OK;
}

/* Bit i: cut before text[at + i], as far as the bytes tell. *other: some byte is above 0x7F. */
static uint64_t cut_mask(const struct spm_cut *c, const uint8_t *text, size_t at, size_t n,
                         bool *other)
{
    uint64_t mask = 0;
    uint8_t before = text[at - 1], all = before;
    for (size_t i = 0; i < n; i++) {
        uint8_t after = text[at + i];
        uint32_t joined = c->joined[before][after >> 5] >> (after & 31) & 1;
        mask |= (uint64_t)(joined ^ 1) << i;
        all |= after;
        before = after;
    }
    *other = all >= 0x80;
    return mask;
}

/* The top bits of eight bytes. */
static uint64_t top_bits(uint64_t eight)
{
    return (eight >> 7 & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
}

/* Bit i: text[at + i] begins a character above 0x7F behind another one. */
static uint64_t wide_borders(const uint8_t *text, size_t at, size_t n)
{
    uint64_t wide = 0, leads = 0, eight;
    for (size_t i = 0; i < n; i += 8) {
        uint8_t padded[8] = {0};
        memcpy(padded, text + at + i, FT_MIN(n - i, (size_t)8));
        eight = load_u64le(padded);
        wide |= top_bits(eight) << i;
        leads |= top_bits(eight & eight << 1) << i; /* 11xxxxxx */
    }
    return leads & (wide << 1 | text[at - 1] >> 7);
}

/* Adds the cuts between characters above 0x7F whose bytes occur side by side, but not themselves.
 */
static uint64_t add_char_cuts(uint64_t mask, const struct spm_cut *c, const uint8_t *text,
                              size_t at, size_t n)
{
    for (uint64_t rest = wide_borders(text, at, n) & ~mask; rest != 0; rest &= rest - 1) {
        size_t i = (size_t)__builtin_ctzll(rest);
        const uint8_t *p = text + at + i, *before = p - 2;
        while (is_continuation(*before))
            before--;
        uint32_t bit = pair_bit(c, char_key(before), char_key(p));
        mask |= (uint64_t)(~c->pairs[bit >> 5] >> (bit & 31) & 1) << i;
    }
    return mask;
}

size_t spm_cut_next(uint32_t *ends, const struct spm_cut *c, const uint8_t *text, size_t *at,
                    size_t to)
{
    size_t n = 0;
    while (n == 0 && *at < to) {
        bool other;
        size_t width = FT_MIN(to - *at, (size_t)64);
        uint64_t mask = cut_mask(c, text, *at, width, &other);
        if (other)
            mask = add_char_cuts(mask, c, text, *at, width);
        for (; mask != 0; mask &= mask - 1)
            ends[n++] = (uint32_t)(*at + (size_t)__builtin_ctzll(mask));
        *at += width;
    }
    if (*at >= to)
        ends[n++] = (uint32_t)to;
    return n;
}
