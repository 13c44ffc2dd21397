/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/inspect_html.h"

#include <inttypes.h>

#include "common/log.h"
#include "formats/manifest.h"
#include "tools/report.h"
#include "tools/stats.h"
#include "tools/visible.h"

/* The policy forbids scripts and loading even if an escape were ever forgotten. */
static const char page_head[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<title>Data set</title>\n"
    "<style>\n"
    ":root { --ink: #1c2128; --soft: #59636e; --page: #ffffff; --card: #f6f8fa; --line: #d1d9e0;\n"
    "  --trained: #c9f2d3; --trained-ink: #0a3d1b; --special: #6639ba; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --page: "
    "#0d1117;\n"
    "  --card: #151b23; --line: #3d444d; --trained: #12432a; --trained-ink: #b4f1c6; --special: "
    "#b392f0; } }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);\n"
    "  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }\n"
    "h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: "
    "2.5rem; }\n"
    "h3 { font-size: 1rem; }\n"
    "table { border-collapse: collapse; margin: .75rem 0; }\n"
    "th, td { padding: .2rem .8rem; border-bottom: 1px solid var(--line); text-align: left; }\n"
    "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }\n"
    "td.path { overflow-wrap: anywhere; }\n"
    "pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px;\n"
    "  padding: .75rem 1rem; overflow-x: auto; font-size: 13px; line-height: 1.45; }\n"
    ".sample pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 0; }\n"
    ".sample { margin: 1.2rem 0; } .sample summary { color: var(--soft); cursor: pointer;\n"
    "  overflow-wrap: anywhere; }\n"
    "mark { background: var(--trained); color: var(--trained-ink); border-radius: 2px; }\n"
    "b { color: var(--special); font-weight: 600; }\n"
    "dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem; }\n"
    "dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }\n"
    "svg { max-width: 100%; height: auto; } .note { color: var(--soft); }\n"
    "</style>\n</head>\n<body>\n";

/* --- what it is ------------------------------------------------------------------------------ */

static void put_field(struct buf *out, const char *name, str value)
{
    buf_printf(out, "<dt>%s</dt><dd>", name);
    visible_html(out, value);
    buf_cstr(out, "</dd>\n");
}

static uint64_t stored_bytes(const struct manifest *m)
{
    uint64_t bytes = 0;
    for (int s = 0; s < SPLITS; s++)
        for (size_t i = 0; i < m->splits[s].n_shards; i++)
            bytes += m->splits[s].shards[i].file.bytes;
    return bytes;
}

static void put_size(struct buf *out, const struct manifest *m)
{
    char size[32], in[32];
    uint64_t tokens = 0, read = 0, stored = stored_bytes(m);
    for (int s = 0; s < SPLITS; s++)
        tokens += m->splits[s].info.n_tokens;
    for (size_t i = 0; i < m->n_sources; i++)
        read += m->sources[i].bytes;
    buf_printf(out,
               "<dt>size</dt><dd>%" PRIu64 " tokens in %s of shards, %.2f bytes per token; from "
               "%s of input</dd>\n",
               tokens, format_bytes(size, (double)stored),
               tokens == 0 ? 0.0 : (double)stored / (double)tokens, format_bytes(in, (double)read));
}

static void put_identity(struct buf *out, const struct manifest *m, const char *dir)
{
    char hex[HASH_HEX_LEN + 1];
    buf_cstr(out, "<h1>Data set ");
    visible_html(out, str_from(dir));
    buf_cstr(out, "</h1>\n<dl>\n");
    put_field(out, "template", str_from(m->chat_template));
    hash128_hex(hex, m->tokenizer_fingerprint);
    buf_printf(out, "<dt>tokenizer</dt><dd>%" PRId64 " tokens, %s</dd>\n", m->n_vocab, hex);
    buf_printf(out, "<dt>max length</dt><dd>%" PRId64 " tokens; longer samples: %s</dd>\n",
               m->options.max_length, too_long_names[m->options.too_long]);
    put_size(out, m);
    put_field(out, "built by", str_from(m->tool));
    hash128_hex(hex, m->fingerprint);
    put_field(out, "fingerprint", str_from(hex));
    buf_cstr(out, "</dl>\n");
}

static void put_report(struct buf *out, const struct manifest *m)
{
    struct buf text = {0};
    report_text(&text, m);
    buf_cstr(out, "<h2>What became of the rows</h2>\n<pre>");
    visible_html(out, buf_view(&text));
    buf_cstr(out, "</pre>\n");
    out->failed |= text.failed;
    buf_free(&text);
}

/* --- figures --------------------------------------------------------------------------------- */

static void put_sources(struct buf *out, const struct manifest *m, const struct split_stats *s)
{
    buf_cstr(out, "<table><tr><th class=\"n\">samples</th><th class=\"n\">tokens</th>"
                  "<th class=\"n\">trained</th><th>source</th></tr>\n");
    for (size_t i = 0; i < m->n_sources; i++) {
        const struct source_sum *sum = &s->sources[i];
        if (sum->n_samples == 0)
            continue;
        buf_printf(out,
                   "<tr><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
                   "</td><td class=\"n\">%.1f %%</td><td class=\"path\">",
                   sum->n_samples, sum->n_tokens,
                   100 * (double)sum->n_trained / (double)sum->n_tokens);
        visible_html(out, str_from(m->sources[i].path));
        buf_cstr(out, "</td></tr>\n");
    }
    buf_cstr(out, "</table>\n");
}

static void put_waste(struct buf *out, double waste, const char *what)
{
    buf_printf(out, "<tr><td class=\"n\">%.2f %%</td><td>%s</td></tr>\n", 100 * waste, what);
}

static void put_padding(struct buf *out, const struct split_stats *s, uint64_t batch)
{
    char what[192];
    buf_printf(out, "<table><tr><th class=\"n\">padding</th><th>batches of %" PRIu64 "</th></tr>\n",
               batch);
    put_waste(out, s->waste_random, "in random order");
    put_waste(out, s->waste_grouped, "grouped by length");
    for (size_t i = 0; i < s->n_plans; i++) {
        const struct plan_sum *p = &s->plans[i]; /* names are letters, digits, '.', '_', '-' */
        snprintf(what, sizeof what, "%" PRIu32 " bins of %" PRIu32 "%s%s", p->n_bins, p->length,
                 p->name == NULL ? "" : ", plan ", p->name == NULL ? "" : p->name);
        put_waste(out, p->waste, what);
    }
    buf_cstr(out, "</table>\n");
}

static void put_lengths(struct buf *out, const struct split_stats *s)
{
    buf_printf(out, "<p>Lengths: shortest %" PRIu32, s->shortest);
    for (int p = 0; p < STATS_PERCENTS; p++)
        buf_printf(out, ", %d %% up to %" PRIu32, stats_percents[p], s->percentiles[p]);
    buf_printf(out, ", longest %" PRIu32 ".</p>\n", s->info->longest);
    plot_histogram_svg(out, "Lengths", "tokens in a sample", "samples", s->bars, s->n_bars);
}

static ft_status put_split(struct buf *out, const struct dataset *d, const char *dir,
                           enum dataset_split split, uint64_t batch, ft_error *err)
{
    struct split_stats s;
    ft_status st = stats_gather(&s, d, dir, split, batch, err);
    if (st == FT_OK && s.info->n_samples > 0) {
        buf_printf(out,
                   "<h2>Part %s: %" PRIu64 " samples, %" PRIu64 " tokens, %.1f %% trained</h2>\n",
                   split_names[split], s.info->n_samples, s.info->n_tokens,
                   100 * (double)s.info->n_trained / (double)s.info->n_tokens);
        put_sources(out, dataset_manifest(d), &s);
        put_lengths(out, &s);
        put_padding(out, &s, batch);
    }
    stats_free(&s);
    return st;
}

ft_status inspect_html_head(struct buf *out, const struct dataset *d, const char *dir,
                            uint64_t batch, ft_error *err)
{
    buf_cstr(out, page_head);
    put_identity(out, dataset_manifest(d), dir);
    put_report(out, dataset_manifest(d));
    for (enum dataset_split s = 0; s < SPLITS; s++)
        FT_TRY(put_split(out, d, dir, s, batch, err));
    buf_cstr(out, "<h2>Samples</h2>\n<p class=\"note\">As the model sees them: <mark>trained "
                  "tokens</mark> are marked, <b>special tokens</b> are coloured. Bytes that are no "
                  "text and control characters appear as \\xNN.</p>\n");
    return buf_status(out, "the page", err);
}

/* --- samples --------------------------------------------------------------------------------- */

static void put_tokens(struct buf *out, const struct inspect_sample *s, const struct tok *tok)
{
    struct buf text = {0};
    uint32_t i = 0, n = s->info.n_tokens;
    while (i < n) {
        uint32_t start = i++;
        bool trained = s->mask[start] != 0, special = tok_is_special(tok, s->tokens[start]);
        /* Ordinary tokens of a kind together: one may hold a part of a character only. */
        while (i < n && !special && (s->mask[i] != 0) == trained &&
               !tok_is_special(tok, s->tokens[i]))
            i++;
        buf_clear(&text);
        tok_decode(tok, &text, s->tokens + start, i - start, false);
        buf_cstr(out, trained ? "<mark>" : "");
        buf_cstr(out, special ? "<b>" : "");
        visible_html(out, buf_view(&text));
        buf_cstr(out, special ? "</b>" : "");
        buf_cstr(out, trained ? "</mark>" : "");
    }
    out->failed |= text.failed;
    buf_free(&text);
}

void inspect_html_sample(struct buf *out, const struct inspect_sample *s, const struct tok *tok)
{
    buf_printf(out, "<details class=\"sample\" open><summary>%s %" PRIu64 ": ",
               split_names[s->split], s->number);
    visible_html(out, str_from(s->source));
    buf_printf(out,
               " row %" PRIu64 ", %" PRIu32 " tokens, %" PRIu32 " trained</summary>"
               "<pre dir=\"auto\">",
               s->info.row, s->info.n_tokens, s->info.n_trained);
    put_tokens(out, s, tok);
    buf_cstr(out, "</pre></details>\n");
}

void inspect_html_tail(struct buf *out, uint64_t n_shown, uint64_t n_samples)
{
    buf_printf(out, "<p class=\"note\">%" PRIu64 " of %" PRIu64 " samples are shown.%s</p>\n",
               n_shown, n_samples,
               n_shown < n_samples ? " ftprep inspect --rows A:B or --limit N shows others." : "");
    buf_cstr(out, "</body>\n</html>\n");
}
