/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/stats.h"

#include <stdlib.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/rng.h"
#include "formats/manifest.h"
#include "formats/packs.h"

const int stats_percents[STATS_PERCENTS] = {1, 5, 25, 50, 75, 95, 99};

/* --- lengths --------------------------------------------------------------------------------- */

static int compare_lengths(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_longest_first(const void *a, const void *b)
{
    return compare_lengths(b, a);
}

/* Padding when groups of `batch` neighbours are padded to their longest. */
static double padding(const uint32_t *lengths, uint64_t n, uint64_t batch)
{
    uint64_t tokens = 0, room = 0;
    for (uint64_t from = 0; from < n; from += batch) {
        uint64_t to = FT_MIN(from + batch, n);
        uint32_t longest = 0;
        for (uint64_t i = from; i < to; i++) {
            tokens += lengths[i];
            longest = FT_MAX(longest, lengths[i]);
        }
        room += longest * (to - from);
    }
    return room == 0 ? 0 : 1 - (double)tokens / (double)room;
}

/* Shuffled, then sorted inside groups, longest first. */
static double grouped_padding(uint32_t *shuffled, uint64_t n, uint64_t batch)
{
    uint64_t group = dataset_group_samples(n, batch);
    for (uint64_t from = 0; from < n; from += group)
        qsort(shuffled + from, FT_MIN(group, n - from), sizeof *shuffled, compare_longest_first);
    return padding(shuffled, n, batch);
}

/* Bars of a round width from the shortest to the longest. */
static void fill_bars(struct split_stats *s, const uint32_t *sorted)
{
    uint64_t n = s->info->n_samples, width = 1, i = 0;
    for (uint64_t unit = 1; s->info->longest / width >= STATS_BARS; unit *= 10)
        for (uint64_t k = 1; k <= 5 && s->info->longest / width >= STATS_BARS;
             k = k == 1 ? 2 : k + 3)
            width = unit * k;
    uint64_t first = s->shortest / width;
    s->n_bars = s->info->longest / width - first + 1;
    for (size_t b = 0; b < s->n_bars; b++) {
        uint64_t start = i, end = (first + b + 1) * width;
        while (i < n && sorted[i] < end)
            i++;
        s->bars[b] = (struct plot_bar){(double)(end - width), (double)end, (double)(i - start)};
    }
}

static void read_split(struct split_stats *s, uint32_t *lengths, const struct dataset *d,
                       enum dataset_split split, size_t n_sources)
{
    for (uint64_t i = 0; i < s->info->n_samples; i++) {
        struct sample_info e = dataset_sample_info(d, split, i);
        lengths[i] = e.n_tokens;
        if (e.source >= n_sources)
            continue; /* damaged; `ftprep verify` reports it */
        s->sources[e.source].n_samples++;
        s->sources[e.source].n_tokens += e.n_tokens;
        s->sources[e.source].n_trained += e.n_trained;
    }
}

static void fill_figures(struct split_stats *s, uint32_t *lengths, uint32_t *shuffled,
                         uint64_t batch)
{
    uint64_t n = s->info->n_samples;
    for (uint64_t i = 0; i < n; i++)
        shuffled[i] = lengths[rng_permute(0, 0, n, i)];
    s->waste_random = padding(shuffled, n, batch);
    s->waste_grouped = grouped_padding(shuffled, n, batch);
    qsort(lengths, n, sizeof *lengths, compare_lengths);
    s->shortest = lengths[0];
    for (size_t p = 0; p < STATS_PERCENTS; p++)
        s->percentiles[p] = lengths[(n - 1) * (uint64_t)stats_percents[p] / 100];
    fill_bars(s, lengths);
}

/* --- plans ----------------------------------------------------------------------------------- */

static struct plan_sum sum_plan(const char *name, const struct packs *p, uint64_t n_tokens)
{
    double room = (double)p->n_bins * p->length;
    double in_bins = (double)n_tokens - (double)p->untrained;
    return (struct plan_sum){name, p->n_bins, p->length, room > 0 ? 1 - in_bins / room : 0};
}

static ft_status add_plan(struct split_stats *s, const struct dataset *d, const char *dir,
                          const char *name, ft_error *err)
{
    const char *path;
    struct packs p;
    ft_error unfit;
    FT_TRY(dataset_plan_path(&path, &s->arena, dir, name, err));
    if (packs_open(&p, path, &unfit) != FT_OK)
        return unfit.status == FT_EMEM ? ft_fail(err, FT_EMEM, "%s", unfit.text) : FT_OK;
    if (p.version == PACKS_PLAN_VERSION && hash128_eq(p.data, dataset_fingerprint(d)))
        s->plans[s->n_plans++] = sum_plan(name, &p, s->info->n_tokens);
    packs_close(&p);
    return FT_OK;
}

static ft_status find_plans(struct split_stats *s, const struct dataset *d, const char *dir,
                            enum dataset_split split, ft_error *err)
{
    const char **names;
    size_t n = 0, n_named = 0;
    if (split == SPLIT_TRAIN) {
        FT_TRY(dir_list(&names, &n, &s->arena, dir, err));
        for (size_t i = 0; i < n; i++) {
            names[n_named] = dataset_plan_name(&s->arena, names[i]);
            n_named += names[n_named] != NULL;
        }
    }
    s->plans = arena_alloc(&s->arena, n_named + 1, sizeof *s->plans);
    if (s->plans == NULL)
        return ft_fail_memory(err, n_named * sizeof *s->plans, "the list of plans");
    if (s->info->n_packs > 0)
        s->plans[s->n_plans++] = sum_plan(NULL, dataset_plan(d, split), s->info->n_tokens);
    for (size_t i = 0; i < n_named; i++)
        FT_TRY(add_plan(s, d, dir, names[i], err));
    return FT_OK;
}

/* --- all together ---------------------------------------------------------------------------- */

static ft_status gather_lengths(struct split_stats *s, const struct dataset *d,
                                enum dataset_split split, uint64_t batch, ft_error *err)
{
    size_t n_sources = dataset_manifest(d)->n_sources;
    uint32_t *lengths = NULL, *shuffled = NULL;
    ft_status st;
    FT_GOTO(mem_new(&lengths, s->info->n_samples, sizeof *lengths, "lengths", err));
    FT_GOTO(mem_new(&shuffled, s->info->n_samples, sizeof *shuffled, "lengths", err));
    read_split(s, lengths, d, split, n_sources);
    fill_figures(s, lengths, shuffled, batch);
out:
    mem_free(lengths);
    mem_free(shuffled);
    return st;
}

ft_status stats_gather(struct split_stats *s, const struct dataset *d, const char *dir,
                       enum dataset_split split, uint64_t batch, ft_error *err)
{
    *s = (struct split_stats){.info = dataset_split(d, split)};
    FT_TRY(mem_new(&s->sources, dataset_manifest(d)->n_sources, sizeof *s->sources,
                   "sums over sources", err));
    if (s->info->n_samples == 0)
        return FT_OK;
    FT_TRY(gather_lengths(s, d, split, batch, err));
    return find_plans(s, d, dir, split, err);
}

void stats_free(struct split_stats *s)
{
    mem_free(s->sources);
    arena_destroy(&s->arena);
    *s = (struct split_stats){0};
}
