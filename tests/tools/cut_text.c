/* SPDX-License-Identifier: Apache-2.0
 * Where a tokenizer's pre-tokenizer cuts: cut_text TOKENIZER reads texts (u32 length, bytes) from
 * standard input and writes the cuts of each (u32 count, u32 ends). All tiers of the processor must
 * agree. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/tok_internal.h"

static size_t cut(uint32_t *ends, const struct pretok *p, str text, enum cpu_tier tier)
{
    struct pretok_scan s = {
        .text = (const uint8_t *)text.ptr, .to = text.len, .classify = classify_select(tier)};
    size_t n = 0;
    while (s.at < s.to) {
        uint32_t batch[PRETOK_BATCH];
        size_t got = p->next(&s, batch);
        memcpy(ends + n, batch, got * sizeof *batch);
        n += got;
    }
    return n;
}

static bool read_text(struct buf *text)
{
    uint32_t n;
    buf_clear(text);
    if (fread(&n, sizeof n, 1, stdin) != 1)
        return false;
    void *p = buf_reserve(text, n + 1);
    if (p == NULL || fread(p, 1, n, stdin) != n)
        return false;
    text->len = n;
    return true;
}

int main(int argc, char **argv)
{
    struct tok *t;
    ft_error err;
    struct buf text = {0};
    if (argc != 2 || tok_open(&t, argv[1], &err) != FT_OK) {
        fprintf(stderr, "cut_text: %s\n", argc == 2 ? err.text : "usage: cut_text TOKENIZER");
        return 1;
    }
    while (read_text(&text)) {
        uint32_t *ends = mem_alloc(text.len + 1, sizeof *ends);
        uint32_t *others = mem_alloc(text.len + 1, sizeof *others);
        uint32_t n = (uint32_t)cut(ends, t->pretok, buf_view(&text), cpu_tier());
        for (enum cpu_tier tier = CPU_PORTABLE; tier < cpu_tier(); tier++)
            FT_ASSERT(cut(others, t->pretok, buf_view(&text), tier) == n &&
                      memcmp(others, ends, n * sizeof *ends) == 0);
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(ends, sizeof *ends, n, stdout);
        mem_free(ends);
        mem_free(others);
    }
    buf_free(&text);
    tok_close(t);
    return fflush(stdout) == 0 ? 0 : 1;
}
