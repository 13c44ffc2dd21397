/* SPDX-License-Identifier: Apache-2.0
 * What the scanners share that walk a pattern pretoken by pretoken: runs of a class, found by bit
 * masks of 64 bytes as long as the text is ASCII, and white space. */
#ifndef FORMATS_TOK_PRETOK_WALK_H
#define FORMATS_TOK_PRETOK_WALK_H

#include <string.h>

#include "formats/tok/pretok.h"
#include "formats/tok/unicode.h"

#define WALK_INLINE static inline __attribute__((always_inline))

/* Classes of runs. */
enum walk_run {
    WALK_LETTERS,       /* \p{L} */
    WALK_OTHERS,        /* [^\s\p{L}\p{N}] */
    WALK_SPACES,        /* \s */
    WALK_LINES,         /* [\r\n] */
    WALK_ASCII_LETTERS, /* [A-Za-z] */
    WALK_UPPER,         /* UNICODE_UPPER */
    WALK_LOWER,         /* UNICODE_LOWER */
};

WALK_INLINE unsigned walk_class(const struct pretok_scan *s, size_t at, size_t *length)
{
    return unicode_classes(unicode_decode(s->text, at, s->to, length));
}

/* Class of the character at `at`, 0 at the end of the piece. */
WALK_INLINE unsigned walk_peek(const struct pretok_scan *s, size_t at)
{
    size_t length;
    return at < s->to ? walk_class(s, at, &length) : 0;
}

WALK_INLINE bool walk_is_other(unsigned class)
{
    return (class & (UNICODE_LETTER | UNICODE_NUMBER | UNICODE_SPACE)) == 0;
}

WALK_INLINE bool walk_is_line(uint8_t c)
{
    return c == '\n' || c == '\r';
}

/* Index of `at` in the block whose masks are loaded. Bytes behind the piece are in no class. */
WALK_INLINE unsigned walk_load(struct pretok_scan *s, size_t at)
{
    if (at >= s->block_end || at + CLASSIFY_BLOCK < s->block_end) {
        uint8_t padded[CLASSIFY_BLOCK] = {0};
        const uint8_t *p = s->text + at;
        size_t left = s->to - at;
        if (left < CLASSIFY_BLOCK)
            p = memcpy(padded, p, left);
        s->classify(&s->masks, p);
        s->block_end = at + CLASSIFY_BLOCK;
    }
    return (unsigned)(at + CLASSIFY_BLOCK - s->block_end);
}

WALK_INLINE uint64_t walk_mask(const struct classify_masks *m, enum walk_run run)
{
    switch (run) {
    case WALK_LETTERS:
        return m->letter;
    case WALK_OTHERS:
        return ~(m->letter | m->digit | m->space | m->wide);
    case WALK_SPACES:
        return m->space;
    case WALK_LINES:
        return m->line;
    case WALK_ASCII_LETTERS:
        return m->letter;
    case WALK_UPPER:
        return m->upper;
    case WALK_LOWER:
        return m->letter & ~m->upper;
    }
    return 0;
}

WALK_INLINE bool walk_in_run(unsigned class, enum walk_run run)
{
    switch (run) {
    case WALK_LETTERS:
        return (class & UNICODE_LETTER) != 0;
    case WALK_OTHERS:
        return walk_is_other(class);
    case WALK_SPACES:
        return (class & UNICODE_SPACE) != 0;
    case WALK_LINES:
    case WALK_ASCII_LETTERS:
        return false;
    case WALK_UPPER:
        return (class & UNICODE_UPPER) != 0;
    case WALK_LOWER:
        return (class & UNICODE_LOWER) != 0;
    }
    return false;
}

/* End of the run that `at` may belong to. */
WALK_INLINE size_t walk_run(struct pretok_scan *s, size_t at, enum walk_run run)
{
    while (at < s->to) {
        unsigned i = walk_load(s, at);
        uint64_t stop = ~walk_mask(&s->masks, run) >> i;
        if (stop == 0) {
            at = s->block_end;
            continue;
        }
        at += (unsigned)__builtin_ctzll(stop);
        if (at >= s->to || s->text[at] < 0x80)
            break;
        do {
            size_t length;
            if (!walk_in_run(walk_class(s, at, &length), run))
                return at;
            at += length;
        } while (at < s->to && s->text[at] >= 0x80);
    }
    return FT_MIN(at, s->to);
}

/* Start of the character that ends at `at`. */
WALK_INLINE size_t walk_back(const struct pretok_scan *s, size_t from, size_t at)
{
    do
        at--;
    while (at > from && (s->text[at] & 0xC0) == 0x80);
    return at;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ over the run [at, end); ends_text: \S cannot follow. */
WALK_INLINE size_t walk_spaces(const struct pretok_scan *s, size_t at, size_t end, bool ends_text)
{
    for (size_t i = end; i > at; i--)
        if (walk_is_line(s->text[i - 1]))
            return i;
    if (ends_text)
        return end;
    size_t last = walk_back(s, at, end);
    return last > at ? last : end;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d) at a quote; `at` when it is none. U+017F is an s without case. */
WALK_INLINE size_t walk_contraction(const struct pretok_scan *s, size_t at)
{
    const uint8_t *p = s->text + at;
    size_t left = s->to - at;
    unsigned c = left > 1 ? p[1] | 0x20u : 0, d = left > 2 ? p[2] | 0x20u : 0;
    if (left > 2 && p[1] == 0xC5 && p[2] == 0xBF)
        return at + 3;
    if (left > 1 && p[1] < 0x80 && (c == 's' || c == 't' || c == 'm' || c == 'd'))
        return at + 2;
    if (left > 2 && p[1] < 0x80 && p[2] < 0x80 &&
        ((d == 'e' && (c == 'r' || c == 'v')) || (c == 'l' && d == 'l')))
        return at + 3;
    return at;
}

/* End of at most `max` numeric characters from `at`. */
WALK_INLINE size_t walk_numbers(const struct pretok_scan *s, size_t at, unsigned max)
{
    size_t length;
    for (unsigned n = 0; n < max && at < s->to; n++, at += length)
        if (!(walk_class(s, at, &length) & UNICODE_NUMBER))
            break;
    return at;
}

/* Fills a batch by matching again and again. match gives the end of the pretoken at `at`. */
WALK_INLINE size_t walk_batch(struct pretok_scan *s, uint32_t ends[PRETOK_BATCH],
                              size_t (*match)(struct pretok_scan *s, size_t at))
{
    size_t n = 0;
    while (n < PRETOK_BATCH && s->at < s->to) {
        s->at = match(s, s->at);
        ends[n++] = (uint32_t)s->at;
    }
    return n;
}

#endif
