/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/pretok.h"

#include "formats/tok/pretok_patterns.h"

enum { MAX_STAGES = 6 };

/* A regular expression in one of the dialects, isolated. */
#define ONIG(text)                                                                                 \
    {                                                                                              \
        .kind = PRETOK_SPLIT, .dialect = PRETOK_ONIGURUMA, .pattern = { text, sizeof(text) - 1 }   \
    }
#define FANCY(text)                                                                                \
    {                                                                                              \
        .kind = PRETOK_SPLIT, .dialect = PRETOK_FANCY, .pattern = { text, sizeof(text) - 1 }       \
    }

static const struct {
    struct pretok pretok;
    size_t n;
    struct pretok_stage stages[MAX_STAGES];
} table[] = {
    {{"none", pretok_whole}, 0, {{0}}},
    {{"gpt2", pretok_gpt2}, 1, {{.kind = PRETOK_BYTE_LEVEL}}},
    {{"gpt2", pretok_gpt2}, 1, {FANCY(PATTERN_R50K)}},
    {{"digits+gpt2", pretok_digits_gpt2},
     2,
     {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {{"llama3", pretok_llama3}, 1, {ONIG(PATTERN_LLAMA3)}},
    {{"llama3", pretok_llama3}, 1, {FANCY(PATTERN_LLAMA3)}},
    {{"cl100k", pretok_cl100k}, 1, {FANCY(PATTERN_CL100K)}},
    {{"cl100k-onig", pretok_cl100k_onig}, 1, {ONIG(PATTERN_CL100K)}},
    {{"qwen2", pretok_qwen2}, 1, {ONIG(PATTERN_QWEN2)}},
    {{"qwen2", pretok_qwen2}, 1, {FANCY(PATTERN_QWEN2)}},
    {{"o200k", pretok_o200k}, 1, {ONIG(PATTERN_O200K)}},
    {{"o200k", pretok_o200k}, 1, {FANCY(PATTERN_O200K)}},
    {{"tekken", pretok_tekken}, 1, {ONIG(PATTERN_TEKKEN)}},
    {{"tekken", pretok_tekken}, 1, {FANCY(PATTERN_TEKKEN)}},
    {{"deepseek", pretok_deepseek},
     6,
     {ONIG(PATTERN_DEEPSEEK_LINES),
      ONIG(PATTERN_DEEPSEEK_LETTERS),
      ONIG(PATTERN_DEEPSEEK_PUNCTUATION),
      ONIG(PATTERN_DEEPSEEK_END),
      ONIG(PATTERN_DEEPSEEK_CJK),
      {.kind = PRETOK_DIGITS}}},
    {{"deepseek3", pretok_deepseek3},
     3,
     {ONIG(PATTERN_DEEPSEEK3_NUMBERS), ONIG(PATTERN_DEEPSEEK3_KANA),
      ONIG(PATTERN_DEEPSEEK3_WORDS)}},
};

/* Equal but for how line ends are written. */
static bool same_pattern(str a, str b)
{
    size_t i = 0;
    for (size_t k = 0; k < b.len; k++, i++) {
        bool escaped = b.ptr[k] == '\\' && k + 1 < b.len &&
                       (b.ptr[k + 1] == 'n' || b.ptr[k + 1] == 'r') && i < a.len &&
                       a.ptr[i] == (b.ptr[k + 1] == 'n' ? '\n' : '\r');
        k += escaped;
        if (!escaped && (i >= a.len || a.ptr[i] != b.ptr[k]))
            return false;
    }
    return i == a.len;
}

static bool same_stage(const struct pretok_stage *a, const struct pretok_stage *b)
{
    return a->kind == b->kind && a->behavior == b->behavior && a->dialect == b->dialect &&
           a->invert == b->invert && same_pattern(a->pattern, b->pattern);
}

size_t pretok_whole(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    scan->at = scan->to;
    ends[0] = (uint32_t)scan->to;
    return 1;
}

const struct pretok *pretok_find(const struct pretok_stage *stages, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        size_t same = 0;
        while (same < n && same < table[i].n && same_stage(&stages[same], &table[i].stages[same]))
            same++;
        if (same == n && n == table[i].n)
            return &table[i].pretok;
    }
    return NULL;
}
