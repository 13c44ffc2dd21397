/* SPDX-License-Identifier: Apache-2.0
 * DeepSeek-LLM and DeepSeek-V2: six stages, each cutting the pieces of the one before:
 *   1. [\r\n]
 *   2. \s?[letters]+               UNICODE_DS_LETTER
 *   3. \s?[punctuation]+           UNICODE_DS_PUNCTUATION, which holds the ASCII letters, too
 *   4. \s+$                        white space at the end of a piece
 *   5. [CJK]+                      UNICODE_DS_CJK, which holds some of the letters, too
 *   6. numeric characters, each alone
 *
 * The scanner keeps the end of the piece of each stage that it is in and opens the next one when it
 * gets there. Stage 6 needs no such end. ASCII words and punctuation, which no later stage cuts,
 * take a short cut. */
#include "formats/tok/pretok_walk.h"

enum stage { STAGE_LINES, STAGE_LETTERS, STAGE_PUNCTUATION, STAGE_END, STAGE_CJK, STAGES };

/* Whether \s?[class]+ matches at `at`, before `to`; *body = where the class begins. */
WALK_INLINE bool starts_run(size_t *body, const struct pretok_scan *s, size_t at, size_t to,
                            unsigned class)
{
    size_t length, behind;
    unsigned c = walk_class(s, at, &length);
    *body = at;
    /* A space that is in the class itself is taken by \s? first; nothing changes then unless it is
     * the last of its run. */
    if (c & class)
        return true;
    *body = at + length;
    return (c & UNICODE_SPACE) && *body < to && (walk_class(s, *body, &behind) & class);
}

WALK_INLINE size_t run_end(const struct pretok_scan *s, size_t at, size_t to, unsigned class)
{
    size_t length;
    while (at < to && (walk_class(s, at, &length) & class))
        at += length;
    return at;
}

/* The piece of a stage of the form \s?[class]+ that starts at `at`: a match, or what lies in front
 * of the next one. */
static size_t optional_space_stage(const struct pretok_scan *s, size_t at, size_t to,
                                   unsigned class)
{
    size_t body, length;
    if (starts_run(&body, s, at, to, class))
        return run_end(s, body, to, class);
    do {
        walk_class(s, at, &length);
        at += length;
    } while (at < to && !starts_run(&body, s, at, to, class));
    return at;
}

static size_t lines_stage(struct pretok_scan *s, size_t at)
{
    if (walk_is_line(s->text[at]))
        return at + 1;
    while (at < s->to) {
        unsigned i = walk_load(s, at);
        uint64_t lines = s->masks.line >> i;
        if (lines != 0)
            return FT_MIN(at + (unsigned)__builtin_ctzll(lines), s->to);
        at = s->block_end;
    }
    return s->to;
}

static size_t end_stage(const struct pretok_scan *s, size_t at, size_t to)
{
    size_t spaces = to;
    while (spaces > at) {
        size_t last = walk_back(s, at, spaces), length;
        if (!(walk_class(s, last, &length) & UNICODE_SPACE))
            break;
        spaces = last;
    }
    return spaces > at ? spaces : to;
}

static size_t cjk_stage(const struct pretok_scan *s, size_t at, size_t to)
{
    size_t length;
    bool cjk = (walk_class(s, at, &length) & UNICODE_DS_CJK) != 0;
    while (at < to && ((walk_class(s, at, &length) & UNICODE_DS_CJK) != 0) == cjk)
        at += length;
    return at;
}

static size_t digits_stage(const struct pretok_scan *s, size_t at, size_t to)
{
    size_t length;
    if (walk_class(s, at, &length) & UNICODE_NUMERIC)
        return at + length;
    while (at < to && !(walk_class(s, at, &length) & UNICODE_NUMERIC))
        at += length;
    return at;
}

/* --- ASCII, where the stages interact less ---------------------------------------------------- */

static bool is_ascii(const struct pretok_scan *s, size_t at, unsigned classes)
{
    return s->text[at] < 0x80 && (unicode_classes(s->text[at]) & classes);
}

/* A run of at least two spaces, or of one in front of a digit. A word or punctuation behind it
 * takes the last. `at` when something else follows. */
static size_t ascii_spaces(const struct pretok_scan *s, size_t at)
{
    size_t end = at;
    while (end < s->to && is_ascii(s, end, UNICODE_SPACE) && !walk_is_line(s->text[end]))
        end++;
    if (end == s->to || is_ascii(s, end, UNICODE_SPACE | UNICODE_NUMERIC))
        return end;
    return is_ascii(s, end, UNICODE_DS_LETTER | UNICODE_DS_PUNCTUATION) ? end - 1 : at;
}

/* The pretoken at `at`, where a piece of stage 2 starts or could as well; `at` when it is not ASCII
 * or what follows is not. */
static size_t match_ascii(struct pretok_scan *s, size_t at)
{
    size_t body = at, end;
    if (s->text[at] >= 0x80 || walk_is_line(s->text[at]))
        return at;
    if (is_ascii(s, at, UNICODE_SPACE) && ++body == s->to)
        return body;
    if (is_ascii(s, body, UNICODE_DS_LETTER)) {
        end = walk_run(s, body, WALK_ASCII_LETTERS);
    } else if (is_ascii(s, body, UNICODE_DS_PUNCTUATION)) {
        end = body + 1;
        while (end < s->to && is_ascii(s, end, UNICODE_DS_PUNCTUATION) &&
               !is_ascii(s, end, UNICODE_LETTER))
            end++;
    } else if (body > at) {
        return s->text[body] < 0x80 ? ascii_spaces(s, at) : at;
    } else {
        return is_ascii(s, at, UNICODE_NUMERIC) ? at + 1 : at;
    }
    return end == s->to || s->text[end] < 0x80 ? end : at;
}

/* --- all stages --------------------------------------------------------------------------------
 */

static size_t match(struct pretok_scan *s, size_t at)
{
    size_t *ends = s->stage_ends;
    if (at == ends[STAGE_LINES])
        ends[STAGE_LINES] = lines_stage(s, at);
    if (at == ends[STAGE_LETTERS]) {
        size_t end = match_ascii(s, at);
        if (end > at) {
            for (int i = STAGE_LETTERS; i < STAGES; i++)
                ends[i] = end;
            return end;
        }
        ends[STAGE_LETTERS] = optional_space_stage(s, at, ends[STAGE_LINES], UNICODE_DS_LETTER);
    }
    if (at == ends[STAGE_PUNCTUATION])
        ends[STAGE_PUNCTUATION] =
            optional_space_stage(s, at, ends[STAGE_LETTERS], UNICODE_DS_PUNCTUATION);
    if (at == ends[STAGE_END])
        ends[STAGE_END] = end_stage(s, at, ends[STAGE_PUNCTUATION]);
    if (at == ends[STAGE_CJK])
        ends[STAGE_CJK] = cjk_stage(s, at, ends[STAGE_END]);
    return digits_stage(s, at, ends[STAGE_CJK]);
}

size_t pretok_deepseek(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    bool begun = scan->stage_ends[STAGE_LINES] != 0;
    for (size_t i = 0; i < STAGES && !begun; i++)
        scan->stage_ends[i] = scan->at;
    return walk_batch(scan, ends, match);
}
