/* SPDX-License-Identifier: Apache-2.0
 * How many tokens of a part are trained. Whole samples are in the index; those that are cut have to
 * be read, sorted so that each block is decompressed once. */
#include <stdlib.h>

#include "common/mem.h"
#include "tools/pack.h"

/* The part itself, sorted by its sample. */
struct cut {
    uint32_t sample, part;
};

static int compare_cuts(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;
    if (x->sample != y->sample)
        return x->sample < y->sample ? -1 : 1;
    return x->part < y->part ? -1 : x->part > y->part;
}

/* Whole samples get their count from the index; the others are listed. */
static size_t count_whole(struct cut *cuts, struct pack_part *parts, uint32_t n,
                          const struct dataset *d)
{
    size_t n_cuts = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct sample_info e = dataset_sample_info(d, SPLIT_TRAIN, parts[i].sample);
        if (parts[i].n_tokens == e.n_tokens)
            parts[i].n_trained = e.n_trained;
        else
            cuts[n_cuts++] = (struct cut){parts[i].sample, i};
    }
    return n_cuts;
}

/* The first token of a part is no target. */
static uint32_t count_mask(const uint8_t *mask, const struct pack_part *part)
{
    uint32_t n = 0;
    for (uint32_t i = part->from + 1; i < part->from + part->n_tokens; i++)
        n += mask[i];
    return n;
}

static ft_status count_cuts(struct pack_part *parts, const struct cut *cuts, size_t n,
                            const struct dataset *d, ft_error *err)
{
    uint32_t longest = dataset_split(d, SPLIT_TRAIN)->longest;
    struct dataset_reader *reader = NULL;
    int32_t *tokens = NULL;
    uint8_t *mask = NULL;
    ft_status st;
    FT_GOTO(mem_new(&tokens, longest, sizeof *tokens, "a sample", err));
    FT_GOTO(mem_new(&mask, longest, sizeof *mask, "a sample", err));
    FT_GOTO(dataset_reader_create(&reader, d, err));
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || cuts[i].sample != cuts[i - 1].sample)
            FT_GOTO(dataset_read(reader, SPLIT_TRAIN, cuts[i].sample, tokens, mask, err));
        parts[cuts[i].part].n_trained = count_mask(mask, &parts[cuts[i].part]);
    }
out:
    dataset_reader_destroy(reader);
    mem_free(tokens);
    mem_free(mask);
    return st;
}

ft_status pack_count_trained(struct packs *p, const struct dataset *d, ft_error *err)
{
    struct pack_part *parts = (struct pack_part *)(uintptr_t)p->parts;
    struct cut *cuts;
    FT_TRY(mem_new(&cuts, p->n_entries, sizeof *cuts, "the cut samples", err));
    size_t n = count_whole(cuts, parts, p->n_entries, d);
    qsort(cuts, n, sizeof *cuts, compare_cuts);
    ft_status st = count_cuts(parts, cuts, n, d, err);
    mem_free(cuts);
    return st;
}
