/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report.h"

#include <inttypes.h>

#include "common/log.h"

static const char *const fate_labels[ROW_FATES] = {
    "kept", "invalid", "no assistant message", "no trained token", "too long", "left out by weight",
};

static void put_place(struct buf *out, const struct manifest *m, const struct report_example *e)
{
    buf_printf(out, "%s:%" PRIu64 " (row %" PRIu64 ")", m->sources[e->source].path, e->line,
               e->row);
}

static void put_line(struct buf *out, const char *label, const char *sign, uint64_t rows,
                     uint64_t tokens)
{
    char a[24], b[24];
    snprintf(a, sizeof a, "%s%" PRIu64, sign, rows);
    snprintf(b, sizeof b, "%s%" PRIu64, sign, tokens);
    buf_printf(out, "%-24s %12s %14s\n", label, a, b);
}

/* From rows to samples, where these are not one for one. */
static void put_samples(struct buf *out, const struct report *r)
{
    const struct report_line *n = r->notes;
    if (n[NOTE_SPLIT].rows + n[NOTE_DUPLICATE].rows + n[NOTE_REPEATED].rows == 0)
        return;
    if (n[NOTE_SPLIT].rows > 0)
        put_line(out, "split at turns", "+", n[NOTE_SPLIT].amount, 0);
    if (n[NOTE_DUPLICATE].rows > 0)
        put_line(out, "duplicates", "-", n[NOTE_DUPLICATE].rows, n[NOTE_DUPLICATE].amount);
    if (n[NOTE_REPEATED].rows > 0)
        put_line(out, "repeated", "+", n[NOTE_REPEATED].rows, n[NOTE_REPEATED].amount);
    put_line(out, "samples", "", report_samples(r), report_stored_tokens(r));
}

static void put_groups(struct buf *out, const struct manifest *m)
{
    if (m->n_groups < 2)
        return;
    buf_printf(out, "\n%-24s %12s %14s  source\n", "", "samples", "tokens");
    for (size_t i = 0; i < m->n_groups; i++)
        buf_printf(out, "%-24s %12" PRIu64 " %14" PRIu64 "  %s\n", "",
                   m->groups[i].stored.n_samples, m->groups[i].stored.n_tokens, m->groups[i].name);
}

static void put_examples(struct buf *out, const struct manifest *m)
{
    for (int f = ROW_KEPT + 1; f < ROW_FATES; f++) {
        const struct report_line *l = &m->report.fates[f];
        if (l->n_examples > 0)
            buf_printf(out, "\n%s:\n", fate_labels[f]);
        for (size_t i = 0; i < l->n_examples; i++) {
            buf_cstr(out, "  ");
            put_place(out, m, &l->examples[i]);
            buf_printf(out, "%s%s\n", l->examples[i].text[0] != '\0' ? ": " : "",
                       l->examples[i].text);
        }
        if (l->rows > l->n_examples)
            buf_printf(out, "  and %" PRIu64 " more\n", l->rows - l->n_examples);
    }
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_split(struct buf *out, const struct manifest *m, enum dataset_split s)
{
    const struct split_info *i = &m->splits[s].info;
    if (i->n_samples == 0)
        return;
    double room = (double)i->n_packs * i->pack_length;
    buf_printf(out,
               "%-5s %12" PRIu64 " %-7s %14" PRIu64 " tokens, %" PRIu64 " trained; %" PRIu64
               " pack%s of %" PRIu32 ", %.2f %% full\n",
               split_names[s], i->n_samples, i->n_samples == 1 ? "sample" : "samples", i->n_tokens,
               i->n_trained, i->n_packs, plural(i->n_packs), i->pack_length,
               room > 0 ? 100 * (double)i->n_tokens / room : 0.0);
}

void report_text(struct buf *out, const struct manifest *m)
{
    const struct report *r = &m->report;
    buf_printf(out, "%-24s %12s %14s\n", "", "rows", "tokens");
    buf_printf(out, "%-24s %12" PRIu64 " %14" PRIu64 "\n", "read", report_rows(r),
               report_tokens(r));
    for (int f = 0; f < ROW_FATES; f++)
        if (f == ROW_KEPT || r->fates[f].rows > 0)
            buf_printf(out, "  %-22s %12" PRIu64 " %14" PRIu64 "\n", fate_labels[f],
                       r->fates[f].rows, r->fates[f].amount);
    if (r->notes[NOTE_CUT].rows > 0)
        buf_printf(out, "  %-22s %12s %14" PRIu64 "\n", "cut at max length", "",
                   r->notes[NOTE_CUT].amount);
    if (r->notes[NOTE_DROPPED_TURNS].rows > 0)
        buf_printf(out, "  %-22s %12s %14" PRIu64 "\n", "turns left out", "",
                   r->notes[NOTE_DROPPED_TURNS].amount);
    put_samples(out, r);
    put_groups(out, m);
    buf_byte(out, '\n');
    for (int s = 0; s < SPLITS; s++)
        put_split(out, m, (enum dataset_split)s);
    put_examples(out, m);
}

static void json_group(struct buf *out, const char *key, const char *const *names,
                       const struct report_line *lines, int n, const char *amount)
{
    buf_printf(out, "\"%s\": {", key);
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s\"%s\": {\"rows\": %" PRIu64 ", \"%s\": %" PRIu64 "}",
                   i == 0 ? "" : ", ", names[i], lines[i].rows, amount, lines[i].amount);
    buf_byte(out, '}');
}

void report_json(struct buf *out, const struct manifest *m)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, m->fingerprint);
    buf_printf(out, "{\"fingerprint\": \"%s\", \"rows\": %" PRIu64 ", \"tokens\": %" PRIu64 ", ",
               hex, report_rows(&m->report), report_tokens(&m->report));
    json_group(out, "fates", row_fate_names, m->report.fates, ROW_FATES, "tokens");
    buf_cstr(out, ", ");
    json_group(out, "notes", row_note_names, m->report.notes, ROW_NOTES, "amount");
    for (int s = 0; s < SPLITS; s++) {
        const struct split_info *i = &m->splits[s].info;
        buf_printf(out,
                   ", \"%s\": {\"samples\": %" PRIu64 ", \"tokens\": %" PRIu64
                   ", \"trained\": %" PRIu64 ", \"longest\": %" PRIu32 ", \"packs\": %" PRIu64
                   ", \"pack_length\": %" PRIu32 "}",
                   split_names[s], i->n_samples, i->n_tokens, i->n_trained, i->longest, i->n_packs,
                   i->pack_length);
    }
    buf_byte(out, '}');
}

void report_warn(const struct manifest *m)
{
    static const char *const what[ROW_NOTES][2] = {
        {"messages behind the last assistant message were left out",
         "message behind the last assistant message was left out"},
        {"assistant messages are empty and are not trained",
         "assistant message is empty and is not trained"},
        {"tokens were cut off at the maximum length", "token was cut off at the maximum length"},
        {"assistant messages in front of all others were left out by the template",
         "assistant message in front of all others was left out by the template"},
        {"special tokens are spelled in messages and are ordinary text there",
         "special token is spelled in a message and is ordinary text there"},
        {"messages were joined to the one before", "message was joined to the one before"},
        {NULL, NULL}, /* asked for */
        {"tokens of turns above the maximum length were left out",
         "token of a turn above the maximum length was left out"},
    };
    static const char *const parsed[2] = {
        "special tokens are spelled in messages and became tokens (--content-specials parse)",
        "special token is spelled in a message and became a token (--content-specials parse)"};
    for (int n = 0; n < ROW_NOTES; n++) {
        bool parse = n == NOTE_SPECIALS && m->options.parse_specials;
        const struct report_line *l = &m->report.notes[n];
        struct buf place = {0};
        if (l->rows == 0 || what[n][0] == NULL)
            continue;
        put_place(&place, m, &l->examples[0]);
        buf_byte(&place, '\0');
        log_warn("%" PRIu64 " %s, in %" PRIu64 " row%s; the first is %s", l->amount,
                 (parse ? parsed : what[n])[l->amount == 1], l->rows, plural(l->rows),
                 place.failed ? "" : (const char *)place.data);
        buf_free(&place);
    }
    uint64_t dropped = report_rows(&m->report) - m->report.fates[ROW_KEPT].rows;
    if (dropped > 0)
        log_warn("%" PRIu64 " of %" PRIu64 " row%s %s dropped", dropped, report_rows(&m->report),
                 plural(report_rows(&m->report)), dropped == 1 ? "was" : "were");
}
