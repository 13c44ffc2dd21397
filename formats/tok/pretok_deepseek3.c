/* SPDX-License-Identifier: Apache-2.0
 * DeepSeek-V3: three patterns one after the other, each cutting what the one before left over:
 *   \p{N}{1,3}
 *   [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+
 *   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
 *    ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * So for the third the text ends where a numeric character or one of the second set stands, and a
 * run of the second set is a text of its own: not all in it are letters. What no alternative
 * matches, such as control characters, stays together. */
#include "formats/tok/pretok_block.h"

enum { END = 1u << 30 }; /* the class where the text of the third pattern ends */

/* Where the run of the second set ends that the scan is in. */
WALK_INLINE size_t *kana_end(struct pretok_scan *s)
{
    return &s->stage_ends[0];
}

WALK_INLINE unsigned inner_class(const struct pretok_scan *s, size_t at, size_t *length)
{
    unsigned class = walk_class(s, at, length);
    bool cut = (class & UNICODE_NUMBER) || ((class & UNICODE_KANA) && at >= s->stage_ends[0]);
    return cut ? END : class;
}

WALK_INLINE unsigned inner_peek(const struct pretok_scan *s, size_t at)
{
    size_t length;
    return at < s->to ? inner_class(s, at, &length) : END;
}

/* End of the run of characters of `classes`, for runs that are short or not ASCII. */
WALK_INLINE size_t run_of(const struct pretok_scan *s, size_t at, unsigned classes)
{
    size_t length;
    while (at < s->to && (inner_class(s, at, &length) & classes))
        at += length;
    return at;
}

/* [\p{L}\p{M}]+ */
WALK_INLINE size_t match_letters(struct pretok_scan *s, size_t at)
{
    at = walk_run(s, at, WALK_ASCII_LETTERS);
    if (at == s->to || s->text[at] < 0x80)
        return at;
    return run_of(s, at, UNICODE_LETTER | UNICODE_MARK);
}

WALK_INLINE size_t match_marks(struct pretok_scan *s, size_t at)
{
    at = run_of(s, at, UNICODE_PUNCTUATION | UNICODE_SYMBOL);
    return walk_run(s, at, WALK_LINES);
}

/* The third pattern; `at` when nothing matches there. */
static size_t match_inner(struct pretok_scan *s, size_t at)
{
    const unsigned letters = UNICODE_LETTER | UNICODE_MARK;
    const unsigned marks = UNICODE_PUNCTUATION | UNICODE_SYMBOL;
    size_t length, end;
    uint8_t first = s->text[at];
    unsigned class = walk_class(s, at, &length);
    if (class & letters)
        return match_letters(s, at);
    if (class & marks) {
        end = first < 0x80 ? walk_run(s, at + 1, WALK_ASCII_LETTERS) : at + 1;
        return end > at + 1 ? end : match_marks(s, at);
    }
    unsigned behind = inner_peek(s, at + length);
    if ((behind & letters) && !walk_is_line(first))
        return match_letters(s, at + length);
    if (first == ' ' && (behind & marks))
        return match_marks(s, at + length);
    if (!(class & UNICODE_SPACE))
        return at;
    end = walk_run(s, at, WALK_SPACES);
    return walk_spaces(s, at, end, (inner_peek(s, end) & END) != 0);
}

static size_t match_text(struct pretok_scan *s, size_t at)
{
    size_t length, end = match_inner(s, at);
    if (end > at)
        return end;
    do {
        walk_class(s, at, &length);
        at += length;
    } while (!(inner_peek(s, at) & END) && match_inner(s, at) == at);
    return at;
}

static size_t match(struct pretok_scan *s, size_t at)
{
    size_t length, to = s->to, end = at;
    if (at >= *kana_end(s)) {
        unsigned class = walk_class(s, at, &length);
        if (class & UNICODE_NUMBER)
            return walk_numbers(s, at, 3);
        while (end < to && (walk_class(s, end, &length) & UNICODE_KANA))
            end += length;
        if (end == at)
            return match_text(s, at);
        *kana_end(s) = end;
    }
    s->to = *kana_end(s);
    end = match_text(s, at);
    s->to = to;
    s->block_end = 0; /* masks may have been cut off at the end of the run */
    return end;
}

static bool mark(struct block *b, unsigned classes, uint64_t bits)
{
    if (classes & UNICODE_NUMBER)
        return false;
    if (classes & (UNICODE_LETTER | UNICODE_MARK))
        *(classes & UNICODE_KANA ? &b->kana : &b->letter) |= bits;
    else if (classes & UNICODE_KANA)
        return false;
    else if (classes & (UNICODE_PUNCTUATION | UNICODE_SYMBOL))
        b->other |= bits;
    else if (classes & UNICODE_SPACE)
        b->space |= bits;
    else
        return false;
    return true;
}

/* A single mark in front of ASCII letters takes just these, white space all letters. */
static uint64_t starts_of(struct pretok_scan *s)
{
    struct block b;
    if (s->at < *kana_end(s))
        return 0;
    block_read(&b, s, mark);
    block_refuse(&b, b.control);
    uint64_t others = block_other_starts(&b, b.other);
    uint64_t ascii = b.letter & b.narrow, taken = others & b.narrow;
    uint64_t in_front = (b.space & ~b.line) | b.letter;
    uint64_t starts = others | (b.letter & ~(in_front << 1) & ~(taken << 1 & ascii));
    starts |= b.letter & ~ascii & ((taken << 1 & ascii) + ascii);
    starts |= block_triples(b.number) | (b.kana & ~(b.kana << 1));
    starts |= block_space_starts(&b, block_taken_lines(&b, b.other), b.number | b.kana);
    return block_trusted(&b, starts);
}

size_t pretok_deepseek3(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return block_batch(scan, ends, starts_of, match);
}
