/* SPDX-License-Identifier: Apache-2.0
 * The rules look at the two characters around a place and at a little of what came before: whether
 * the run is that of a picture, of consonants, or an odd number of halves of flags. */
#include "formats/tok/grapheme.h"

static enum grapheme_class find_class(uint32_t c)
{
    size_t low = 0, high = n_grapheme_ranges;
    if (c >= 0xAC00 && c <= 0xD7A3)
        return (c - 0xAC00) % 28 == 0 ? GRAPHEME_LV : GRAPHEME_LVT;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (grapheme_ranges[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n_grapheme_ranges || c < grapheme_ranges[low].first)
        return GRAPHEME_OTHER;
    return (enum grapheme_class)grapheme_ranges[low].kind;
}

/* What the cluster so far lets follow. */
struct state {
    enum grapheme_class last;
    bool picture;   /* a picture and extending characters */
    bool consonant; /* a consonant and those that may stand before the next one */
    bool linker;    /* with a linker among them */
    bool half_flag; /* an odd number of regional indicators */
};

static bool is_extending(enum grapheme_class c)
{
    return c == GRAPHEME_EXTEND || c == GRAPHEME_EXTEND_ONLY || c == GRAPHEME_LINKER;
}

static struct state advance(struct state s, enum grapheme_class c)
{
    bool between = c == GRAPHEME_EXTEND || c == GRAPHEME_LINKER || c == GRAPHEME_ZWJ;
    return (struct state){
        .last = c,
        .picture = c == GRAPHEME_PICTURE || (s.picture && (is_extending(c) || c == GRAPHEME_ZWJ)),
        .consonant = c == GRAPHEME_CONSONANT || (s.consonant && between),
        .linker = s.consonant && between && (s.linker || c == GRAPHEME_LINKER),
        .half_flag = c == GRAPHEME_REGIONAL && !s.half_flag,
    };
}

static bool is_break(enum grapheme_class c)
{
    return c == GRAPHEME_CR || c == GRAPHEME_LF || c == GRAPHEME_CONTROL;
}

static bool hangul_joins(enum grapheme_class before, enum grapheme_class after)
{
    switch (before) {
    case GRAPHEME_L:
        return after == GRAPHEME_L || after == GRAPHEME_V || after == GRAPHEME_LV ||
               after == GRAPHEME_LVT;
    case GRAPHEME_LV:
    case GRAPHEME_V:
        return after == GRAPHEME_V || after == GRAPHEME_T;
    case GRAPHEME_LVT:
    case GRAPHEME_T:
        return after == GRAPHEME_T;
    default:
        return false;
    }
}

static bool joins(struct state s, enum grapheme_class after)
{
    if (s.last == GRAPHEME_CR)
        return after == GRAPHEME_LF;
    if (is_break(s.last) || is_break(after))
        return false;
    if (is_extending(after) || after == GRAPHEME_ZWJ || after == GRAPHEME_SPACING ||
        s.last == GRAPHEME_PREPEND)
        return true;
    return hangul_joins(s.last, after) || (after == GRAPHEME_CONSONANT && s.linker) ||
           (after == GRAPHEME_PICTURE && s.last == GRAPHEME_ZWJ && s.picture) ||
           (after == GRAPHEME_REGIONAL && s.half_flag);
}

size_t grapheme_bytes(str text)
{
    struct state s = {0};
    size_t at = 0;
    while (at < text.len) {
        size_t n;
        uint32_t c = str_utf8_next(str_sub(text, at, text.len), &n);
        enum grapheme_class kind = find_class(c);
        if (at > 0 && !joins(s, kind))
            break;
        s = advance(s, kind);
        at += n;
    }
    return at;
}
