/* SPDX-License-Identifier: Apache-2.0
 * With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]:
 * [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+L*(?i:...)?|\p{N}{1,3}|
 *  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *
 * o200k; tekken has no contractions and takes one numeric character at a time. */
#include "formats/tok/pretok_walk.h"

/* U*L+ at `at`, `at` when it does not match. After all of U* a lower-case character must follow;
 * if it does not, the match shrinks to the last character of U* that is in L as well. */
WALK_INLINE size_t match_lower_word(struct pretok_scan *s, size_t at)
{
    size_t end = walk_run(s, at, WALK_UPPER);
    if (walk_peek(s, end) & UNICODE_LOWER)
        return walk_run(s, end, WALK_LOWER);
    for (size_t i = end; i > at;) {
        size_t start = walk_back(s, at, i);
        if (walk_peek(s, start) & UNICODE_LOWER)
            return i;
        i = start;
    }
    return at;
}

/* U+L* at `at`, `at` when it does not match. */
WALK_INLINE size_t match_upper_word(struct pretok_scan *s, size_t at)
{
    size_t end = walk_run(s, at, WALK_UPPER);
    return end == at ? at : walk_run(s, end, WALK_LOWER);
}

/* The first two alternatives; prefixed: the character at `at`, up to `behind`, may stand in front
 * of the word. */
WALK_INLINE size_t match_word(struct pretok_scan *s, size_t at, size_t behind, bool prefixed)
{
    size_t end;
    if (prefixed && (end = match_lower_word(s, behind)) > behind)
        return end;
    if ((end = match_lower_word(s, at)) > at)
        return end;
    if (prefixed && (end = match_upper_word(s, behind)) > behind)
        return end;
    return match_upper_word(s, at);
}

WALK_INLINE size_t match_others(struct pretok_scan *s, size_t at)
{
    at = walk_run(s, at, WALK_OTHERS);
    while (at < s->to && (walk_is_line(s->text[at]) || s->text[at] == '/'))
        at++;
    return at;
}

WALK_INLINE size_t match(struct pretok_scan *s, size_t at, unsigned max_numbers, bool contractions)
{
    size_t length, end;
    uint8_t first = s->text[at];
    unsigned class = walk_class(s, at, &length), behind = walk_peek(s, at + length);
    bool prefixed = !(class & (UNICODE_LETTER | UNICODE_NUMBER)) && !walk_is_line(first);
    const unsigned word = UNICODE_UPPER | UNICODE_LOWER;
    if ((class & word) || (prefixed && (behind & word))) {
        end = match_word(s, at, at + length, prefixed);
        FT_ASSERT(end > at);
        return contractions && end < s->to && s->text[end] == '\'' ? walk_contraction(s, end) : end;
    }
    if (class & UNICODE_NUMBER)
        return walk_numbers(s, at, max_numbers);
    if (!(class & UNICODE_SPACE))
        return match_others(s, at);
    if (first == ' ' && at + length < s->to && walk_is_other(behind))
        return match_others(s, at + length);
    end = walk_run(s, at, WALK_SPACES);
    return walk_spaces(s, at, end, end == s->to);
}

static size_t match_o200k(struct pretok_scan *s, size_t at)
{
    return match(s, at, 3, true);
}

static size_t match_tekken(struct pretok_scan *s, size_t at)
{
    return match(s, at, 1, false);
}

size_t pretok_o200k(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return walk_batch(scan, ends, match_o200k);
}

size_t pretok_tekken(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return walk_batch(scan, ends, match_tekken);
}
