/* SPDX-License-Identifier: Apache-2.0
 * What the scanners share that find the starts of many pretokens at once, by arithmetic on the
 * class masks of 64 bytes. Each pass begins where a pretoken begins, so nothing is carried from one
 * block to the next, and knows a limit: where the masks do not decide, because what follows the
 * block matters or a character is too unusual, starts are not trusted from there on. If none is
 * left, the walk over the pattern (pretok_walk.h) takes one pretoken. */
#ifndef FORMATS_TOK_PRETOK_BLOCK_H
#define FORMATS_TOK_PRETOK_BLOCK_H

#include "formats/tok/pretok_walk.h"

/* A character sets the bits of all its bytes. */
struct block {
    uint64_t letter, number, space, line, blank;
    uint64_t other; /* none of letter, number and space */
    uint64_t upper, quote, control;
    uint64_t kana;         /* UNICODE_KANA, then in no other mask */
    uint64_t both;         /* of letter: UNICODE_UPPER and UNICODE_LOWER */
    uint64_t narrow;       /* ASCII */
    uint64_t continuation; /* bytes that do not start a character */
    uint64_t valid;        /* bytes inside the piece */
    uint64_t hard;         /* the lowest bit is the limit */
};

WALK_INLINE uint64_t bits_below(uint64_t bit)
{
    return bit - 1;
}

/* From the first byte of each character to all of its bytes. */
WALK_INLINE uint64_t block_spread(const struct block *b, uint64_t first)
{
    if (b->continuation != 0)
        for (int i = 0; i < 3; i++)
            first |= (first << 1) & b->continuation;
    return first;
}

/* From any byte of characters to their first. */
WALK_INLINE uint64_t block_first(const struct block *b, uint64_t bits)
{
    if (b->continuation != 0)
        for (int i = 0; i < 3; i++)
            bits |= (bits & b->continuation) >> 1;
    return bits & ~b->continuation;
}

/* Marks a non-ASCII character of these classes; false when it is too unusual. */
typedef bool block_mark_fn(struct block *b, unsigned classes, uint64_t bits);

WALK_INLINE void block_mark_wide(struct block *b, const struct pretok_scan *s, uint64_t wide,
                                 block_mark_fn *mark)
{
    while (wide != 0) {
        unsigned i = (unsigned)__builtin_ctzll(wide);
        size_t length;
        unsigned classes = walk_class(s, s->at + i, &length);
        uint64_t bits = (((uint64_t)1 << length) - 1) << i;
        b->continuation |= bits & (bits - 1);
        if (i + length > CLASSIFY_BLOCK || !mark(b, classes, bits)) {
            /* Whether white space in front of it is the last of its run is not known either. */
            b->hard |= (uint64_t)1 << i | block_first(b, (uint64_t)1 << i >> 1);
            return;
        }
        wide &= ~bits;
    }
}

/* These characters are too unusual. Whether white space in front of them is the last of its run is
 * not known either. */
WALK_INLINE void block_refuse(struct block *b, uint64_t bits)
{
    b->hard |= bits & b->valid;
    b->hard |= block_first(b, b->hard >> 1);
}

/* White space at the limit, or the end of the piece: only its first start is known. */
WALK_INLINE void block_limit_spaces(struct block *b)
{
    uint64_t known = b->valid & bits_below(b->hard & -b->hard), behind = known & ~b->space;
    if (behind >> 63)
        return;
    unsigned from = behind == 0 ? 0 : 64 - (unsigned)__builtin_clzll(behind);
    b->hard |= from >= 63 ? 0 : ~(uint64_t)0 << (from + 1);
}

WALK_INLINE void block_read(struct block *b, const struct pretok_scan *s, block_mark_fn *mark)
{
    uint8_t padded[CLASSIFY_BLOCK] = {0};
    const uint8_t *p = s->text + s->at;
    size_t n = s->to - s->at;
    struct classify_masks m;
    if (n < CLASSIFY_BLOCK)
        p = memcpy(padded, p, n);
    s->classify(&m, p);
    *b = (struct block){
        .letter = m.letter,
        .number = m.digit,
        .space = m.space,
        .line = m.line,
        .blank = m.blank,
        .upper = m.upper,
        .quote = m.quote,
        .control = m.control,
        .narrow = ~m.wide,
        .valid = n < CLASSIFY_BLOCK ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0,
        /* Contractions reach three bytes further. */
        .hard = n < CLASSIFY_BLOCK ? 0 : (uint64_t)7 << 61,
    };
    b->other = b->valid & ~(m.letter | m.digit | m.space | m.wide);
    if (m.wide != 0)
        block_mark_wide(b, s, m.wide, mark);
    block_limit_spaces(b);
}

/* [\r\n]* behind characters of `taking`, which such a run belongs to. */
WALK_INLINE uint64_t block_taken_lines(const struct block *b, uint64_t taking)
{
    uint64_t first = b->line & taking << 1;
    return b->line & ~(b->line + first);
}

/* Starts of \s*[\r\n]+|\s+(?!\S)|\s+ where `taken` belongs to what is in front; white space at
 * the characters of `ends` ends its text. */
WALK_INLINE uint64_t block_space_starts(const struct block *b, uint64_t taken, uint64_t ends)
{
    uint64_t space = b->space & ~taken, line = b->line & ~taken, inner = b->space & ~b->line;
    uint64_t starts = space & ~(space << 1);
    starts |= inner & line << 1;
    /* A line end further on in the same run takes all of the run in front of it. */
    for (uint64_t last = inner & b->line >> 1; last != 0; last &= last - 1) {
        uint64_t before = ~inner & bits_below(last & -last);
        if (before != 0) {
            uint64_t bit = (uint64_t)1 << (63 - __builtin_clzll(before));
            starts &= bit & line ? ~(bit << 1) : ~(uint64_t)0;
        }
    }
    return starts | block_first(b, inner & ~((b->space | ends) >> 1));
}

/* Starts of \p{N}{1,3} in runs of one byte a character. */
WALK_INLINE uint64_t block_triples(uint64_t number)
{
    uint64_t starts = number & ~(number << 1), three = number & number << 1 & number << 2;
    for (uint64_t more = starts << 3 & three; more != 0; more = more << 3 & three)
        starts |= more;
    return starts;
}

/* Starts of  ?[other]+ */
WALK_INLINE uint64_t block_other_starts(const struct block *b, uint64_t other)
{
    return other & ~(other << 1) & ~(b->blank << 1);
}

/* Those of `starts` that are trusted; the block itself begins with one that does not count. */
WALK_INLINE uint64_t block_trusted(const struct block *b, uint64_t starts)
{
    uint64_t limit = b->hard & -b->hard;
    return starts & ~b->continuation & b->valid & bits_below(limit) & ~(uint64_t)1;
}

WALK_INLINE size_t block_batch(struct pretok_scan *s, uint32_t ends[PRETOK_BATCH],
                               uint64_t (*starts_of)(struct pretok_scan *s),
                               size_t (*match)(struct pretok_scan *s, size_t at))
{
    size_t n = 0;
    while (n + CLASSIFY_BLOCK <= PRETOK_BATCH && s->at < s->to) {
        uint64_t starts = starts_of(s);
        size_t at = s->at;
        if (starts == 0)
            ends[n++] = (uint32_t)match(s, at);
        for (; starts != 0; starts &= starts - 1)
            ends[n++] = (uint32_t)(at + (unsigned)__builtin_ctzll(starts));
        s->at = ends[n - 1];
    }
    return n;
}

#endif
