/* SPDX-License-Identifier: Apache-2.0
 * Where a tokenizer's pre-tokenizer cuts: cut_text TOKENIZER reads texts (u32 length, bytes) from
 * standard input and writes the cuts of each (u32 count, u32 ends). All tiers of the processor must
 * agree. With --stages the stages are run one by one even when they have a scanner. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/tok_internal.h"

struct cuts {
    struct pretok_stages *stages; /* NULL = the scanner */
    struct pretok_pieces pieces;
    uint32_t *ends, *others;
};

static size_t scan(uint32_t *ends, const struct pretok *p, str text, enum cpu_tier tier)
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

static size_t cut(struct cuts *c, const struct tok *t, str text)
{
    ft_error err;
    if (c->stages != NULL) {
        FT_ASSERT(pretok_stages_cut(&c->pieces, c->stages, (const uint8_t *)text.ptr, 0, text.len,
                                    classify_select(cpu_tier()), &err) == FT_OK);
        for (size_t i = 0; i < c->pieces.n; i++)
            c->ends[i] = c->pieces.items[i].to;
        return c->pieces.n;
    }
    size_t n = scan(c->ends, t->pretok, text, cpu_tier());
    for (enum cpu_tier tier = CPU_PORTABLE; tier < cpu_tier(); tier++)
        FT_ASSERT(scan(c->others, t->pretok, text, tier) == n &&
                  memcmp(c->others, c->ends, n * sizeof *c->ends) == 0);
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
    struct cuts c = {0};
    bool slow = argc == 3 && strcmp(argv[2], "--stages") == 0;
    if ((argc != 2 && !slow) || tok_open(&t, argv[1], &err) != FT_OK) {
        fprintf(stderr, "cut_text: %s\n",
                argc >= 2 ? err.text : "usage: cut_text TOKENIZER [--stages]");
        return 1;
    }
    if (slow || t->pretok == NULL)
        FT_ASSERT(pretok_stages_create(&c.stages, t->steps.stages, t->steps.n_stages, &err) ==
                  FT_OK);
    while (read_text(&text)) {
        c.ends = mem_alloc(text.len + 1, sizeof *c.ends);
        c.others = mem_alloc(text.len + 1, sizeof *c.others);
        uint32_t n = (uint32_t)cut(&c, t, buf_view(&text));
        fwrite(&n, sizeof n, 1, stdout);
        fwrite(c.ends, sizeof *c.ends, n, stdout);
        mem_free(c.ends);
        mem_free(c.others);
    }
    buf_free(&text);
    pretok_pieces_free(&c.pieces);
    pretok_stages_destroy(c.stages);
    tok_close(t);
    return fflush(stdout) == 0 ? 0 : 1;
}
