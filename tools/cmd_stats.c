/* SPDX-License-Identifier: Apache-2.0
 * ftprep stats: how long the samples are and what batches of them waste. */
#include <inttypes.h>
#include <stdio.h>

#include "common/file.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/stats.h"

enum { BAR_COLUMNS = 48 };

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

/* --- output ---------------------------------------------------------------------------------- */

/* One line per way to make batches, so that they can be compared. */
static void put_padding(struct buf *out, const struct split_stats *s, int64_t batch)
{
    buf_printf(out,
               "\n  padding in batches of %" PRId64 "\n"
               "  %8.2f %%  random order\n"
               "  %8.2f %%  grouped by length   (batch.mode grouped)\n",
               batch, 100 * s->waste_random, 100 * s->waste_grouped);
    for (size_t i = 0; i < s->n_plans; i++) {
        const struct plan_sum *p = &s->plans[i];
        buf_printf(out, "  %8.2f %%  %" PRIu32 " bins of %" PRIu32, 100 * p->waste, p->n_bins,
                   p->length);
        buf_printf(out, p->name == NULL ? "   (batch.mode packed)\n" : "   (data.plan %s)\n",
                   p->name);
    }
    buf_byte(out, '\n');
}

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
    for (int p = 0; p < STATS_PERCENTS; p++)
        buf_printf(out, ", %d %% %" PRIu32, stats_percents[p], s->percentiles[p]);
    buf_printf(out, ", longest %" PRIu32 "\n\n", s->info->longest);
    plot_histogram_text(out, s->bars, s->n_bars, BAR_COLUMNS);
    put_padding(out, s, batch);
}

static void put_plans_json(struct buf *out, const struct split_stats *s)
{
    const char *before = "";
    for (size_t i = 0; i < s->n_plans; i++) {
        if (s->plans[i].name == NULL)
            continue;
        buf_printf(
            out, "%s\"%s\": {\"bins\": %" PRIu32 ", \"length\": %" PRIu32 ", \"padding\": %.6f}",
            before, s->plans[i].name, s->plans[i].n_bins, s->plans[i].length, s->plans[i].waste);
        before = ", ";
    }
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
    for (int p = 0; p < STATS_PERCENTS; p++)
        buf_printf(out, "%s\"%d\": %" PRIu32, p == 0 ? "" : ", ", stats_percents[p],
                   s->percentiles[p]);
    buf_printf(out, "}, \"padding\": {\"batch\": %" PRId64 ", \"random\": %.6f, \"grouped\": %.6f",
               batch, s->waste_random, s->waste_grouped);
    if (s->n_plans > 0 && s->plans[0].name == NULL)
        buf_printf(out, ", \"packed\": %.6f", s->plans[0].waste);
    buf_printf(out, "}, \"packs\": %" PRIu64 ", \"pack_length\": %" PRIu32 ", \"plans\": {",
               s->info->n_packs, s->info->pack_length);
    put_plans_json(out, s);
    buf_cstr(out, "}, \"sources\": [");
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
    if (o->json) {
        buf_printf(out, "%s\"report\": ", before);
        report_json(out, dataset_manifest(d));
        buf_cstr(out, "}\n");
    } else {
        report_text(out, dataset_manifest(d));
    }
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
        FT_GOTO(
            stats_gather(&stats[s], d, args[0], (enum dataset_split)s, (uint64_t)o->batch, err));
    put_all(&out, d, stats, o);
    FT_GOTO(buf_status(&out, "the figures", err));
    printf("%.*s", STR_ARG(buf_view(&out)));
    if (o->svg != NULL)
        FT_GOTO(write_svg(o->svg, &stats[SPLIT_TRAIN], err));
out:
    for (int s = 0; s < SPLITS; s++)
        stats_free(&stats[s]);
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
        "of lengths, what became of every row, and the share of padding in random batches, in\n"
        "batches grouped by length and in each pack plan, side by side. Reads the index only.",
    .examples = "  ftprep stats data/\n"
                "  ftprep stats data/ --svg lengths.svg",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct stats),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
