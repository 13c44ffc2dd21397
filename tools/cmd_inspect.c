/* SPDX-License-Identifier: Apache-2.0
 * ftprep inspect: what the model will see, sample by sample. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "formats/dataset.h"
#include "formats/json.h"
#include "formats/tok/tok.h"
#include "tools/commands.h"
#include "tools/inspect_html.h"
#include "tools/visible.h"

enum { DEFAULT_LIMIT = 10, HTML_LIMIT = 200, HTML_BATCH = 8, SPLIT_ALL = 0 };

struct inspect {
    int split; /* 0 = all, else enum dataset_split + 1 */
    const char *rows, *html;
    int64_t limit;
    bool json;
};

#define FIELD(name) offsetof(struct inspect, name)

static const struct opt options[] = {
    {.name = "split",
     .type = OPT_CHOICE,
     .offset = FIELD(split),
     .def = "all",
     .choices = "all|train|eval",
     .help = "which part"},
    {.name = "rows",
     .type = OPT_STRING,
     .offset = FIELD(rows),
     .metavar = "A:B",
     .help = "samples A to B - 1 of each part, counted from 0; either side may be left out"},
    {.name = "limit",
     .type = OPT_INT,
     .offset = FIELD(limit),
     .metavar = "N",
     .min = 1,
     .max = 1e15,
     .help = "show at most N samples; unless --rows or --json is given 10, in a page 200"},
    {.name = "html",
     .type = OPT_STRING,
     .offset = FIELD(html),
     .metavar = "FILE",
     .help = "write one page for a browser instead, with the figures of the data set"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "one JSON object a line: file, row, split, input_ids, labels (-100 = not trained),"
             " images (always [])"},
};

struct view {
    const struct dataset *dataset;
    const struct tok *tok;
    struct dataset_reader *reader;
    int32_t *tokens;
    uint8_t *mask; /* both [longest of the split] */
    bool json, color;
    uint64_t from, to, left; /* range of samples, and how many may still be shown */
    uint64_t n_shown;
    struct buf out;
    struct file_writer *page; /* NULL = no HTML */
};

/* --- one sample ------------------------------------------------------------------------------ */

static void put_json(struct buf *out, const struct view *v, enum dataset_split s,
                     const struct sample_info *e)
{
    buf_cstr(out, "{\"file\": ");
    json_write_str(out, str_from(dataset_source_path(v->dataset, e->source)));
    buf_printf(out, ", \"row\": %" PRIu64 ", \"split\": \"%s\", \"input_ids\": [", e->row,
               split_names[s]);
    for (uint32_t i = 0; i < e->n_tokens; i++)
        buf_printf(out, "%s%" PRId32, i == 0 ? "" : ", ", v->tokens[i]);
    buf_cstr(out, "], \"labels\": [");
    for (uint32_t i = 0; i < e->n_tokens; i++)
        buf_printf(out, "%s%" PRId32, i == 0 ? "" : ", ", v->mask[i] ? v->tokens[i] : -100);
    buf_cstr(out, "], \"images\": []}\n");
}

static void put_text(struct buf *out, struct view *v, const struct sample_info *e)
{
    struct buf piece = {0};
    for (uint32_t i = 0; i < e->n_tokens;) {
        uint32_t start = i;
        while (i < e->n_tokens && v->mask[i] == v->mask[start])
            i++;
        buf_clear(&piece);
        tok_decode(v->tok, &piece, v->tokens + start, i - start, false);
        bool trained = v->mask[start] != 0;
        buf_cstr(out, !trained ? "" : v->color ? "\033[32m" : "\u27E6");
        visible_text(out, buf_view(&piece));
        buf_cstr(out, !trained ? "" : v->color ? "\033[0m" : "\u27E7");
        out->failed |= piece.failed;
    }
    buf_free(&piece);
}

static void put_sample(struct buf *out, struct view *v, enum dataset_split s, uint64_t i,
                       const struct sample_info *e)
{
    buf_printf(
        out,
        "%s--- %s %" PRIu64 ": %s row %" PRIu64 ", %" PRIu32 " tokens, %" PRIu32 " trained%s\n",
        v->color ? "\033[1m" : "", split_names[s], i, dataset_source_path(v->dataset, e->source),
        e->row, e->n_tokens, e->n_trained, v->color ? "\033[0m" : "");
    put_text(out, v, e);
    buf_cstr(out, "\n\n");
}

static void put_html(struct buf *out, const struct view *v, enum dataset_split s, uint64_t i,
                     const struct sample_info *e)
{
    const struct inspect_sample sample = {
        s, i, *e, dataset_source_path(v->dataset, e->source), v->tokens, v->mask};
    inspect_html_sample(out, &sample, v->tok);
}

static ft_status show_sample(struct view *v, enum dataset_split s, uint64_t i, ft_error *err)
{
    struct sample_info e = dataset_sample_info(v->dataset, s, i);
    FT_TRY(dataset_read(v->reader, s, i, v->tokens, v->mask, err));
    buf_clear(&v->out);
    if (v->page != NULL)
        put_html(&v->out, v, s, i, &e);
    else if (v->json)
        put_json(&v->out, v, s, &e);
    else
        put_sample(&v->out, v, s, i, &e);
    FT_TRY(buf_status(&v->out, "a sample", err));
    v->n_shown++;
    if (v->page != NULL)
        file_write(v->page, v->out.data, v->out.len);
    else if (fwrite(v->out.data, 1, v->out.len, stdout) != v->out.len)
        return ft_fail_errno(err, "cannot write to standard output");
    return FT_OK;
}

/* --- which samples --------------------------------------------------------------------------- */

static bool parse_bound(str text, uint64_t *out)
{
    int64_t v;
    if (text.len == 0)
        return true; /* open: keeps the default */
    if (!str_to_i64(text, &v) || v < 0)
        return false;
    *out = (uint64_t)v;
    return true;
}

static ft_status choose_range(struct view *v, const struct inspect *o, ft_error *err)
{
    v->from = 0;
    v->to = UINT64_MAX;
    v->left = o->json || o->rows != NULL ? UINT64_MAX
              : o->html != NULL          ? HTML_LIMIT
                                         : DEFAULT_LIMIT;
    if (o->limit > 0)
        v->left = (uint64_t)o->limit;
    if (o->rows == NULL)
        return FT_OK;
    str rest = str_from(o->rows), from = str_cut(&rest, ':');
    if (from.len == strlen(o->rows) || !parse_bound(from, &v->from) || !parse_bound(rest, &v->to) ||
        v->from > v->to)
        return ft_fail(err, FT_EUSAGE, "--rows: '%s' is not a range A:B with A <= B", o->rows);
    return FT_OK;
}

static bool is_shown(const struct inspect *o, enum dataset_split s)
{
    return o->split == SPLIT_ALL || o->split == (int)s + 1;
}

/* A range that no part reaches is more likely a mistake than a wish to see nothing. */
static ft_status check_range(const struct view *v, const struct inspect *o, ft_error *err)
{
    uint64_t longest = 0;
    if (o->rows == NULL)
        return FT_OK;
    for (enum dataset_split s = 0; s < SPLITS; s++)
        if (is_shown(o, s))
            longest = FT_MAX(longest, dataset_split(v->dataset, s)->n_samples);
    if (v->from < longest)
        return FT_OK;
    return ft_fail(err, FT_EUSAGE,
                   "--rows: '%s' is past the end: train has %" PRIu64 " samples, eval %" PRIu64,
                   o->rows, (uint64_t)dataset_split(v->dataset, SPLIT_TRAIN)->n_samples,
                   (uint64_t)dataset_split(v->dataset, SPLIT_EVAL)->n_samples);
}

static ft_status show_split(struct view *v, enum dataset_split s, ft_error *err)
{
    const struct split_info *info = dataset_split(v->dataset, s);
    uint64_t to = FT_MIN(v->to, info->n_samples), i = v->from;
    ft_status st;
    FT_GOTO(mem_new(&v->tokens, info->longest, sizeof *v->tokens, "a sample", err));
    FT_GOTO(mem_new(&v->mask, info->longest, sizeof *v->mask, "a sample", err));
    for (; i < to && v->left > 0; i++, v->left--)
        FT_GOTO(show_sample(v, s, i, err));
    if (i < to && !v->json && v->page == NULL)
        log_info("%" PRIu64 " more %s sample%s; --rows A:B or --limit N shows more", to - i,
                 split_names[s], to - i == 1 ? "" : "s");
out:
    mem_free(v->tokens);
    mem_free(v->mask);
    v->tokens = NULL;
    v->mask = NULL;
    return st;
}

static ft_status show_splits(struct view *v, const struct inspect *o, ft_error *err)
{
    for (enum dataset_split s = 0; s < SPLITS; s++)
        if (is_shown(o, s))
            FT_TRY(show_split(v, s, err));
    return FT_OK;
}

/* --- the page -------------------------------------------------------------------------------- */

/* Appends what put_.. left in v->out. */
static ft_status write_part(struct view *v, ft_error *err)
{
    FT_TRY(buf_status(&v->out, "the page", err));
    file_write(v->page, v->out.data, v->out.len);
    buf_clear(&v->out);
    return FT_OK;
}

static ft_status write_page(struct view *v, const struct inspect *o, const char *dir, ft_error *err)
{
    struct file_writer page;
    uint64_t n_samples = dataset_split(v->dataset, SPLIT_TRAIN)->n_samples +
                         dataset_split(v->dataset, SPLIT_EVAL)->n_samples;
    ft_status st;
    FT_TRY(file_writer_open(&page, o->html, err));
    v->page = &page;
    FT_GOTO(inspect_html_head(&v->out, v->dataset, dir, HTML_BATCH, err));
    FT_GOTO(write_part(v, err));
    FT_GOTO(show_splits(v, o, err));
    buf_clear(&v->out);
    inspect_html_tail(&v->out, v->n_shown, n_samples);
    FT_GOTO(write_part(v, err));
    v->page = NULL;
    return file_writer_commit(&page, err);
out:
    file_writer_abort(&page);
    v->page = NULL;
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct inspect *o = values;
    struct view v = {.json = o->json, .color = log_color(1)};
    struct dataset *d = NULL;
    struct tok *tok = NULL;
    ft_status st;
    (void)n_args;
    if (o->json && o->html != NULL)
        return ft_fail(err, FT_EUSAGE, "--json and --html exclude each other");
    FT_GOTO(choose_range(&v, o, err));
    FT_GOTO(dataset_open(&d, args[0], err));
    FT_GOTO(dataset_reader_create(&v.reader, d, err));
    if (!o->json)
        FT_GOTO(tok_open(&tok, args[0], err));
    v.dataset = d;
    v.tok = tok;
    FT_GOTO(check_range(&v, o, err));
    FT_GOTO(o->html != NULL ? write_page(&v, o, args[0], err) : show_splits(&v, o, err));
out:
    buf_free(&v.out);
    dataset_reader_destroy(v.reader);
    tok_close(tok);
    dataset_close(d);
    return st;
}

const struct command cmd_inspect = {
    .name = "inspect",
    .summary = "Show samples of a data set with what is trained",
    .usage = "DIR",
    .details =
        "Prints the decoded text of samples as stored, special tokens included. Trained tokens\n"
        "are green on a terminal and stand between \u27E6 and \u27E7 elsewhere. Bytes that are "
        "no UTF-8\n"
        "and control characters appear as \\xNN. --html writes one page without scripts, to look "
        "at\n"
        "or to send: what became of the rows, sources, lengths, padding, and samples with their\n"
        "trained tokens marked.",
    .examples = "  ftprep inspect data/\n"
                "  ftprep inspect data/ --split eval --rows 5:8\n"
                "  ftprep inspect data/ --html data.html\n"
                "  ftprep inspect data/ --json | head -1",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct inspect),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
