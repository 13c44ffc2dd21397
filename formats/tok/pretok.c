/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/pretok.h"

size_t pretok_whole(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    scan->at = scan->to;
    ends[0] = (uint32_t)scan->to;
    return 1;
}

static const struct {
    struct pretok pretok;
    size_t n;
    enum pretok_kind kinds[2];
} table[] = {
    {{"none", pretok_whole}, 0, {0}},
    {{"gpt2", pretok_gpt2}, 1, {PRETOK_BYTE_LEVEL}},
    {{"digits+gpt2", pretok_digits_gpt2}, 2, {PRETOK_DIGITS, PRETOK_BYTE_LEVEL}},
};

ft_status pretok_select(const struct pretok **out, const struct pretok_stage *stages, size_t n,
                        ft_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        size_t same = 0;
        while (same < n && same < table[i].n && stages[same].kind == table[i].kinds[same] &&
               stages[same].behavior == PRETOK_ISOLATED)
            same++;
        if (same == n && n == table[i].n) {
            *out = &table[i].pretok;
            return FT_OK;
        }
    }
    return ft_fail(err, FT_EFORMAT, "this sequence of pre-tokenizers is not supported");
}
