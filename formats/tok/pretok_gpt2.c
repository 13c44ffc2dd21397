/* SPDX-License-Identifier: Apache-2.0
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * Whether a pretoken starts at a character depends on its own class, on that of its two neighbours
 * and on contractions, so the starts of 64 bytes are a few operations on class masks:
 *   - a letter, number or other character starts one unless it follows its own kind, or a blank,
 *     which then starts it instead;
 *   - white space starts one at the beginning of its run and at the last character of the run,
 *     which the lookahead gives back, unless the piece ends there;
 *   - a contraction, known by a quote that starts a pretoken, moves the start behind it.
 * A numeric character that is cut out beforehand ends the piece in front of it and starts a new one
 * behind it. A non-ASCII character sets the mask bits of all its bytes. */
#include "formats/tok/pretok.h"

#include <string.h>

#include "formats/tok/unicode.h"

/* Masks of one block under the pattern. */
struct block {
    uint64_t letter, number, other, space;
    uint64_t blank, narrow; /* U+0020; ASCII white space */
    uint64_t quote;
    uint64_t cut;          /* numeric characters that are pieces of their own */
    uint64_t continuation; /* bytes that do not start a character */
    uint64_t valid;        /* bytes inside the piece */
    uint64_t given_back;   /* non-ASCII white space that is the last of its run */
};

enum carry_class { LETTER = 1, NUMBER = 2, OTHER = 4, SPACE = 8, BLANK = 16, CUT = 32 };

static unsigned class_of(uint32_t code_point, bool digits)
{
    unsigned c = unicode_classes(code_point);
    if (c & UNICODE_LETTER)
        return LETTER;
    if (c & UNICODE_SPACE)
        return code_point == ' ' ? SPACE | BLANK : SPACE;
    if (digits && (c & UNICODE_NUMERIC))
        return CUT;
    return c & UNICODE_NUMBER ? NUMBER : OTHER;
}

static void mark(struct block *b, unsigned class, uint64_t bits)
{
    b->letter |= class & LETTER ? bits : 0;
    b->number |= class & NUMBER ? bits : 0;
    b->other |= class & OTHER ? bits : 0;
    b->space |= class & SPACE ? bits : 0;
    b->cut |= class & CUT ? bits : 0;
}

/* White space that ends at `at` is the last of its run, and the piece goes on. */
static bool goes_on_without_space(const struct pretok_scan *s, size_t at, bool digits)
{
    size_t length;
    return at < s->to &&
           !(class_of(unicode_decode(s->text, at, s->to, &length), digits) & (SPACE | CUT));
}

static void mark_wide(struct block *b, struct pretok_scan *s, uint64_t wide, bool digits)
{
    struct pretok_carry *carry = &s->carry;
    uint64_t spilled = ((uint64_t)1 << carry->spill) - 1;
    mark(b, carry->classes, spilled);
    b->continuation |= spilled;
    carry->spill = 0;
    wide &= ~spilled;
    while (wide != 0) {
        unsigned i = (unsigned)__builtin_ctzll(wide);
        size_t length;
        unsigned class = class_of(unicode_decode(s->text, s->at + i, s->to, &length), digits);
        uint64_t bits = (((uint64_t)1 << length) - 1) << i;
        mark(b, class, bits);
        b->continuation |= bits & (bits - ((uint64_t)1 << i));
        if ((class & SPACE) && goes_on_without_space(s, s->at + i + length, digits))
            b->given_back |= (uint64_t)1 << i;
        if (i + length > CLASSIFY_BLOCK)
            carry->spill = (unsigned)(i + length - CLASSIFY_BLOCK);
        wide &= ~bits;
    }
}

static void read_block(struct block *b, struct pretok_scan *s, size_t n, bool digits)
{
    uint8_t padded[CLASSIFY_BLOCK] = {0};
    const uint8_t *p = s->text + s->at;
    struct classify_masks m;
    if (n < CLASSIFY_BLOCK)
        p = memcpy(padded, p, n);
    s->classify(&m, p);
    *b = (struct block){.letter = m.letter,
                        .number = digits ? 0 : m.digit,
                        .cut = digits ? m.digit : 0,
                        .space = m.space,
                        .blank = m.blank,
                        .narrow = m.space,
                        .quote = m.quote,
                        .valid = n < CLASSIFY_BLOCK ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0};
    b->other = b->valid & ~(m.letter | m.digit | m.space | m.wide);
    if (m.wide != 0)
        mark_wide(b, s, m.wide, digits);
}

/* Length of the contraction at a quote, 0 when it is none. */
static size_t contraction(const struct pretok_scan *s, size_t at)
{
    uint8_t c = at + 1 < s->to ? s->text[at + 1] : 0;
    uint8_t d = at + 2 < s->to ? s->text[at + 2] : 0;
    if (c == 's' || c == 't' || c == 'm' || c == 'd')
        return 2;
    return (d == 'e' && (c == 'r' || c == 'v')) || (c == 'l' && d == 'l') ? 3 : 0;
}

static uint64_t apply_contractions(struct pretok_scan *s, uint64_t starts, uint64_t quotes)
{
    uint64_t set = s->carry.set, clear = s->carry.clear;
    s->carry.set = s->carry.clear = 0;
    for (quotes &= starts; quotes != 0; quotes &= quotes - 1) {
        unsigned i = (unsigned)__builtin_ctzll(quotes);
        size_t length = contraction(s, s->at + i);
        if (length == 0)
            continue;
        /* The letter behind the quote does not start a pretoken, the next character does. */
        if (i + 1 < CLASSIFY_BLOCK)
            clear |= (uint64_t)1 << (i + 1);
        else
            s->carry.clear = 1;
        if (i + length < CLASSIFY_BLOCK)
            set |= (uint64_t)1 << (i + length);
        else
            s->carry.set = (uint64_t)1 << (i + length - CLASSIFY_BLOCK);
    }
    return (starts & ~clear) | set;
}

static uint64_t before(uint64_t mask, unsigned carried)
{
    return mask << 1 | (carried != 0);
}

static uint64_t starts_of(const struct block *b, const struct pretok_scan *s, bool digits)
{
    unsigned c = s->carry.classes;
    uint64_t after_blank = before(b->blank, c & BLANK);
    uint64_t goes_on = (b->valid & ~b->space & ~b->cut) >> 1;
    if ((b->narrow >> 63) && goes_on_without_space(s, s->at + CLASSIFY_BLOCK, digits))
        goes_on |= (uint64_t)1 << 63;
    uint64_t starts = b->cut | before(b->cut, c & CUT);
    starts |= b->letter & ~before(b->letter, c & LETTER) & ~after_blank;
    starts |= b->number & ~before(b->number, c & NUMBER) & ~after_blank;
    starts |= b->other & ~before(b->other, c & OTHER) & ~after_blank;
    starts |= (b->space & ~before(b->space, c & SPACE)) | (b->narrow & goes_on);
    return (starts & ~b->continuation) | b->given_back;
}

static unsigned last_class(const struct block *b)
{
    return (b->letter >> 63 ? LETTER : 0) | (b->number >> 63 ? NUMBER : 0) |
           (b->other >> 63 ? OTHER : 0) | (b->space >> 63 ? SPACE : 0) |
           (b->blank >> 63 ? BLANK : 0) | (b->cut >> 63 ? CUT : 0);
}

/* Inlined into both variants, so that `digits` is a constant. */
static inline __attribute__((always_inline)) size_t scan_block(struct pretok_scan *s,
                                                               uint32_t *ends, bool digits)
{
    struct block b;
    size_t n_bytes = FT_MIN(s->to - s->at, (size_t)CLASSIFY_BLOCK), n = 0;
    bool first = s->carry.classes == 0;
    read_block(&b, s, n_bytes, digits);
    uint64_t starts = starts_of(&b, s, digits);
    starts = apply_contractions(s, starts, b.quote) & b.valid;
    /* A start is the end of the pretoken before it; before the first there is none. */
    starts &= ~(uint64_t)first;
    for (; starts != 0; starts &= starts - 1)
        ends[n++] = (uint32_t)(s->at + (unsigned)__builtin_ctzll(starts));
    s->carry.classes = last_class(&b);
    s->at += n_bytes;
    if (s->at == s->to)
        ends[n++] = (uint32_t)s->to;
    return n;
}

size_t pretok_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, false);
}

size_t pretok_digits_gpt2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, true);
}
