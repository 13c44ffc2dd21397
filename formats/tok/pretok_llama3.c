/* SPDX-License-Identifier: Apache-2.0
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Llama-3. Qwen2 takes one numeric character at a time. In cl100k white space that ends the text
 * stays together whatever is in it. */
#include "formats/tok/pretok_block.h"

enum numbers { SINGLES, TRIPLES, RUNS };

WALK_INLINE size_t match_others(struct pretok_scan *s, size_t at)
{
    return walk_run(s, walk_run(s, at, WALK_OTHERS), WALK_LINES);
}

WALK_INLINE size_t match(struct pretok_scan *s, size_t at, unsigned max_numbers, bool whole_end)
{
    size_t length, end;
    uint8_t first = s->text[at];
    unsigned class = walk_class(s, at, &length), behind;
    if (class & UNICODE_LETTER)
        return walk_run(s, at + length, WALK_LETTERS);
    if (first == '\'' && (end = walk_contraction(s, at)) > at)
        return end;
    if (class & UNICODE_NUMBER)
        return walk_numbers(s, at, max_numbers);
    behind = walk_peek(s, at + length);
    if ((behind & UNICODE_LETTER) && !walk_is_line(first))
        return walk_run(s, at + length, WALK_LETTERS);
    if (!(class & UNICODE_SPACE))
        return match_others(s, at);
    if (first == ' ' && at + length < s->to && walk_is_other(behind))
        return match_others(s, at + length);
    end = walk_run(s, at, WALK_SPACES);
    return whole_end && end == s->to ? end : walk_spaces(s, at, end, end == s->to);
}

static bool mark(struct block *b, unsigned classes, uint64_t bits)
{
    if (classes & UNICODE_LETTER)
        b->letter |= bits;
    else if (classes & UNICODE_SPACE)
        b->space |= bits;
    else if (!(classes & UNICODE_NUMBER))
        b->other |= bits;
    return !(classes & UNICODE_NUMBER);
}

/* Starts behind contractions at the quotes. */
WALK_INLINE uint64_t behind_contractions(const struct pretok_scan *s, uint64_t quotes)
{
    uint64_t starts = 0;
    for (; quotes != 0; quotes &= quotes - 1) {
        size_t at = s->at + (unsigned)__builtin_ctzll(quotes), end = walk_contraction(s, at);
        if (end > at && end - s->at < CLASSIFY_BLOCK)
            starts |= (uint64_t)1 << (end - s->at);
    }
    return starts;
}

/* A character in front of letters that is not a letter belongs to them if it starts a pretoken: the
 * last of a run of white space always does, another one when it is alone and not behind a blank. */
WALK_INLINE uint64_t starts_of(const struct pretok_scan *s, enum numbers numbers)
{
    struct block b;
    block_read(&b, s, mark);
    uint64_t others = block_other_starts(&b, b.other);
    uint64_t in_front = block_spread(&b, others) | (b.space & ~b.line) | b.letter;
    uint64_t starts = others | (b.letter & ~(in_front << 1));
    starts |= numbers == TRIPLES ? block_triples(b.number)
              : numbers == RUNS  ? b.number & ~(b.number << 1)
                                 : b.number;
    starts |= block_space_starts(&b, block_taken_lines(&b, b.other), 0);
    starts |= behind_contractions(s, b.quote & others & b.letter >> 1);
    return block_trusted(&b, starts);
}

static uint64_t starts_in_triples(struct pretok_scan *s)
{
    return starts_of(s, TRIPLES);
}

static uint64_t starts_in_singles(struct pretok_scan *s)
{
    return starts_of(s, SINGLES);
}

static uint64_t starts_in_runs(struct pretok_scan *s)
{
    return starts_of(s, RUNS);
}

static size_t match_llama3(struct pretok_scan *s, size_t at)
{
    return match(s, at, 3, false);
}

static size_t match_qwen2(struct pretok_scan *s, size_t at)
{
    return match(s, at, 1, false);
}

static size_t match_cl100k(struct pretok_scan *s, size_t at)
{
    return match(s, at, 3, true);
}

/* How Oniguruma reads \p{N}{1,3}+ of cl100k: any number of times up to three. */
static size_t match_cl100k_onig(struct pretok_scan *s, size_t at)
{
    return match(s, at, UINT32_MAX, true);
}

size_t pretok_llama3(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return block_batch(scan, ends, starts_in_triples, match_llama3);
}

size_t pretok_qwen2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return block_batch(scan, ends, starts_in_singles, match_qwen2);
}

size_t pretok_cl100k(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return block_batch(scan, ends, starts_in_triples, match_cl100k);
}

size_t pretok_cl100k_onig(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return block_batch(scan, ends, starts_in_runs, match_cl100k_onig);
}
