/* SPDX-License-Identifier: Apache-2.0
 * ftprep stats: how long the samples are and what batches of them waste. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/plot.h"
#include "common/rng.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "tools/commands.h"

enum { MAX_BARS = 24, MEGA_BATCHES = 50, BAR_COLUMNS = 48 };

struct stats {
    const char *svg;
    int64_t batch;
    bool json;
};

#define FIELD(name) offsetof(struct stats, name)

static const struct opt options[] = {
    {.name = "batch",
     .type = OPT_INT,
     .offset = FIELD(batch),
     .metavar = "N",
     .def = "8",
     .min = 1,
     .max = 65536,
     .help = "samples of a padded batch, for the padding figures"},
    {.name = "svg",
     .type = OPT_STRING,
     .offset = FIELD(svg),
     .metavar = "FILE",
     .help = "write a picture of the lengths"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print one JSON object"},
};

/* --- figures --------------------------------------------------------------------------------- */

static const int percents[] = {1, 5, 25, 50, 75, 95, 99};

struct source_sum {
    uint64_t n_samples, n_tokens, n_trained;
};

struct split_stats {
    const struct split_info *info;
    uint32_t shortest;
    uint32_t percentiles[ARRAY_LEN(percents)];
    struct plot_bar bars[MAX_BARS];
    size_t n_bars;
    double waste_random, waste_grouped, waste_packed; /* share of positions that hold padding */
    struct source_sum *sources;                       /* [n_sources] */
};

static int compare_lengths(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
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

/* Length grouping as trainers do it: shuffled, then sorted inside stretches of 50 batches. */
static double grouped_padding(uint32_t *shuffled, uint64_t n, uint64_t batch)
{
    uint64_t stretch = batch * MEGA_BATCHES;
    for (uint64_t from = 0; from < n; from += stretch)
        qsort(shuffled + from, FT_MIN(stretch, n - from), sizeof *shuffled, compare_lengths);
    return padding(shuffled, n, batch);
}

/* Bars of a round width from the shortest to the longest. */
static void fill_bars(struct split_stats *s, const uint32_t *sorted)
{
    uint64_t n = s->info->n_samples, width = 1, i = 0;
    for (uint64_t unit = 1; s->info->longest / width >= MAX_BARS; unit *= 10)
        for (uint64_t k = 1; k <= 5 && s->info->longest / width >= MAX_BARS; k = k == 1 ? 2 : k + 3)
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
    double room = (double)s->info->n_packs * s->info->pack_length;
    s->waste_packed = room > 0 ? 1 - (double)s->info->n_tokens / room : 0;
    qsort(lengths, n, sizeof *lengths, compare_lengths);
    s->shortest = lengths[0];
    for (size_t p = 0; p < ARRAY_LEN(percents); p++)
        s->percentiles[p] = lengths[(n - 1) * (uint64_t)percents[p] / 100];
    fill_bars(s, lengths);
}

static ft_status gather(struct split_stats *s, const struct dataset *d, enum dataset_split split,
                        uint64_t batch, ft_error *err)
{
    size_t n_sources = dataset_manifest(d)->n_sources;
    uint32_t *lengths = NULL, *shuffled = NULL;
    ft_status st;
    s->info = dataset_split(d, split);
    FT_TRY(mem_new(&s->sources, n_sources, sizeof *s->sources, "sums over sources", err));
    if (s->info->n_samples == 0)
        return FT_OK;
    FT_GOTO(mem_new(&lengths, s->info->n_samples, sizeof *lengths, "lengths", err));
    FT_GOTO(mem_new(&shuffled, s->info->n_samples, sizeof *shuffled, "lengths", err));
    read_split(s, lengths, d, split, n_sources);
    fill_figures(s, lengths, shuffled, batch);
out:
    mem_free(lengths);
    mem_free(shuffled);
    return st;
}

/* --- output ---------------------------------------------------------------------------------- */

static void put_split_text(struct buf *out, const struct dataset *d, const struct split_stats *s,
                           enum dataset_split split, int64_t batch)
{
    const struct manifest *m = dataset_manifest(d);
    buf_printf(out,
               "%s: %" PRIu64 " samples, %" PRIu64 " tokens, %" PRIu64 " trained (%.1f %%)\n\n",
               split_names[split], s->info->n_samples, s->info->n_tokens, s->info->n_trained,
               100 * (double)s->info->n_trained / (double)s->info->n_tokens);
    buf_printf(out, "  %12s %14s %14s  source\n", "samples", "tokens", "trained");
    for (size_t i = 0; i < m->n_sources; i++)
        if (s->sources[i].n_samples > 0)
            buf_printf(out, "  %12" PRIu64 " %14" PRIu64 " %14" PRIu64 "  %s\n",
                       s->sources[i].n_samples, s->sources[i].n_tokens, s->sources[i].n_trained,
                       m->sources[i].path);
    buf_printf(out, "\n  length: shortest %" PRIu32, s->shortest);
    for (size_t p = 0; p < ARRAY_LEN(percents); p++)
        buf_printf(out, ", %d %% %" PRIu32, percents[p], s->percentiles[p]);
    buf_printf(out, ", longest %" PRIu32 "\n\n", s->info->longest);
    plot_histogram_text(out, s->bars, s->n_bars, BAR_COLUMNS);
    buf_printf(out,
               "\n  padding: %.1f %% in random batches of %" PRId64
               ", %.1f %% grouped by length, %.2f %% in %" PRIu64 " packs of %" PRIu32 "\n\n",
               100 * s->waste_random, batch, 100 * s->waste_grouped, 100 * s->waste_packed,
               s->info->n_packs, s->info->pack_length);
}

static void put_split_json(struct buf *out, const struct dataset *d, const struct split_stats *s,
                           enum dataset_split split, int64_t batch)
{
    const struct manifest *m = dataset_manifest(d);
    buf_printf(out,
               "\"%s\": {\"samples\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"trained\": %" PRIu64
               ", \"shortest\": %" PRIu32 ", \"longest\": %" PRIu32 ", \"percentiles\": {",
               split_names[split], s->info->n_samples, s->info->n_tokens, s->info->n_trained,
               s->shortest, s->info->longest);
    for (size_t p = 0; p < ARRAY_LEN(percents); p++)
        buf_printf(out, "%s\"%d\": %" PRIu32, p == 0 ? "" : ", ", percents[p], s->percentiles[p]);
    buf_printf(out,
               "}, \"padding\": {\"batch\": %" PRId64
               ", \"random\": %.6f, \"grouped\": %.6f, \"packed\": %.6f}, \"packs\": %" PRIu64
               ", \"pack_length\": %" PRIu32 ", \"sources\": [",
               batch, s->waste_random, s->waste_grouped, s->waste_packed, s->info->n_packs,
               s->info->pack_length);
    for (size_t i = 0; i < m->n_sources; i++) {
        buf_cstr(out, i == 0 ? "{\"path\": " : ", {\"path\": ");
        json_write_str(out, str_from(m->sources[i].path));
        buf_printf(out,
                   ", \"samples\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"trained\": %" PRIu64 "}",
                   s->sources[i].n_samples, s->sources[i].n_tokens, s->sources[i].n_trained);
    }
    buf_cstr(out, "]}");
}

static ft_status write_svg(const char *path, const struct split_stats *s, ft_error *err)
{
    struct buf svg = {0};
    char title[96];
    snprintf(title, sizeof title, "%" PRIu64 " training samples, %" PRIu64 " tokens",
             s->info->n_samples, s->info->n_tokens);
    plot_histogram_svg(&svg, title, "tokens in a sample", "samples", s->bars, s->n_bars);
    ft_status st = buf_status(&svg, "the picture", err);
    if (st == FT_OK)
        st = file_publish(path, svg.data, svg.len, err);
    buf_free(&svg);
    return st;
}

static void put_all(struct buf *out, const struct dataset *d, const struct split_stats *stats,
                    const struct stats *o)
{
    const char *before = "{";
    for (int s = 0; s < SPLITS; s++) {
        if (stats[s].info->n_samples == 0)
            continue;
        if (o->json) {
            buf_cstr(out, before);
            before = ", ";
            put_split_json(out, d, &stats[s], (enum dataset_split)s, o->batch);
        } else {
            put_split_text(out, d, &stats[s], (enum dataset_split)s, o->batch);
        }
    }
    buf_cstr(out, o->json ? "}\n" : "");
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct stats *o = values;
    struct split_stats stats[SPLITS] = {0};
    struct dataset *d;
    struct buf out = {0};
    ft_status st;
    (void)n_args;
    FT_TRY(dataset_open(&d, args[0], err));
    for (int s = 0; s < SPLITS; s++)
        FT_GOTO(gather(&stats[s], d, (enum dataset_split)s, (uint64_t)o->batch, err));
    put_all(&out, d, stats, o);
    FT_GOTO(buf_status(&out, "the figures", err));
    printf("%.*s", STR_ARG(buf_view(&out)));
    if (o->svg != NULL)
        FT_GOTO(write_svg(o->svg, &stats[SPLIT_TRAIN], err));
out:
    for (int s = 0; s < SPLITS; s++)
        mem_free(stats[s].sources);
    buf_free(&out);
    dataset_close(d);
    return st;
}

const struct command cmd_stats = {
    .name = "stats",
    .summary = "Show lengths, sources and padding of a data set",
    .usage = "DIR",
    .details =
        "Samples, tokens and trained tokens of each part and source, percentiles and a histogram\n"
        "of lengths, and the share of padding in random batches, in batches grouped by length\n"
        "and in the packs of the stored plan. Reads the index only, no sample.",
    .examples = "  ftprep stats data/\n"
                "  ftprep stats data/ --svg lengths.svg",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct stats),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
