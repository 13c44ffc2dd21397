/* SPDX-License-Identifier: Apache-2.0
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * Llama-3. Qwen2 takes one numeric character at a time. In cl100k white space that ends the text
 * stays together whatever is in it. */
#include "formats/tok/pretok_walk.h"

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
    return walk_batch(scan, ends, match_llama3);
}

size_t pretok_qwen2(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return walk_batch(scan, ends, match_qwen2);
}

size_t pretok_cl100k(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return walk_batch(scan, ends, match_cl100k);
}

size_t pretok_cl100k_onig(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return walk_batch(scan, ends, match_cl100k_onig);
}
