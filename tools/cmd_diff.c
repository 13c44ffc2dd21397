/* SPDX-License-Identifier: Apache-2.0
 * ftprep diff: what is different between two data sets. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/json.h"
#include "formats/manifest.h"
#include "tools/commands.h"
#include "tools/diff_samples.h"
#include "tools/stop.h"

enum { WINDOW = 60, BEFORE = 24 };

struct diff {
    int64_t examples;
    bool json;
};

#define FIELD(name) offsetof(struct diff, name)

static const struct opt options[] = {
    {.name = "examples",
     .type = OPT_INT,
     .offset = FIELD(examples),
     .metavar = "N",
     .def = "3",
     .min = 0,
     .max = 1e6,
     .help = "samples that are shown of each kind of difference; all are counted"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print one JSON object"},
};

static const char *const kind_names[DIFF_KINDS] = {"same", "changed", "moved", "only_a", "only_b"};
static const char *const kind_labels[DIFF_KINDS] = {
    "the same", "changed", "the same, in the other part", "only in A", "only in B"};

/* --- what they are made of ------------------------------------------------------------------- */

struct output {
    struct buf settings; /* lines, or members of an object */
    struct buf sources;
    struct buf examples;
    size_t n_settings, n_sources;
    bool json;
};

static void put_pair(struct buf *out, size_t *n, bool as_json, const char *name, str a, str b)
{
    if (str_eq(a, b))
        return;
    if (as_json) {
        buf_cstr(out, *n == 0 ? "" : ", ");
        json_write_str(out, str_from(name));
        buf_cstr(out, ": [");
        json_write_str(out, a);
        buf_cstr(out, ", ");
        json_write_str(out, b);
        buf_byte(out, ']');
    } else {
        buf_printf(out, "  %-24s %.*s -> %.*s\n", name, STR_ARG(a), STR_ARG(b));
    }
    (*n)++;
}

static void put_setting(struct output *o, const char *name, const char *a, const char *b)
{
    put_pair(&o->settings, &o->n_settings, o->json, name, str_from(a), str_from(b));
}

static void put_number(struct output *o, const char *name, double a, double b)
{
    char x[32], y[32];
    snprintf(x, sizeof x, "%.15g", a);
    snprintf(y, sizeof y, "%.15g", b);
    put_setting(o, name, x, y);
}

static void put_hash(struct output *o, const char *name, hash128 a, hash128 b)
{
    char x[HASH_HEX_LEN + 1], y[HASH_HEX_LEN + 1];
    hash128_hex(x, a);
    hash128_hex(y, b);
    put_setting(o, name, x, y);
}

static const char *or_text(const char *s, const char *fallback)
{
    return s == NULL || s[0] == '\0' ? fallback : s;
}

static hash128 text_hash(const char *s)
{
    return hash128_of(or_text(s, ""), strlen(or_text(s, "")));
}

static void put_settings(struct output *o, const struct manifest *a, const struct manifest *b)
{
    const struct manifest_options *x = &a->options, *y = &b->options;
    static const char *const no_yes[] = {"no", "yes"};
    put_setting(o, "tool", a->tool, b->tool);
    put_setting(o, "template", a->chat_template, b->chat_template);
    put_hash(o, "template text", text_hash(a->template_source), text_hash(b->template_source));
    put_hash(o, "template of the model", a->template_hash, b->template_hash);
    put_hash(o, "tokenizer", a->tokenizer_fingerprint, b->tokenizer_fingerprint);
    put_number(o, "vocabulary", (double)a->n_vocab, (double)b->n_vocab);
    put_number(o, "max-length", (double)x->max_length, (double)y->max_length);
    put_setting(o, "too-long", too_long_names[x->too_long], too_long_names[y->too_long]);
    put_setting(o, "on-error skip", no_yes[x->skip_errors], no_yes[y->skip_errors]);
    put_setting(o, "strict", no_yes[x->strict], no_yes[y->strict]);
    put_setting(o, "content-specials parse", no_yes[x->parse_specials], no_yes[y->parse_specials]);
    put_setting(o, "rows", or_text(x->rows, "auto"), or_text(y->rows, "auto"));
    put_setting(o, "train-on", or_text(x->train_on, "assistant"),
                or_text(y->train_on, "assistant"));
    put_setting(o, "merge-consecutive", no_yes[x->merge], no_yes[y->merge]);
    put_setting(o, "dedup", no_yes[x->dedup], no_yes[y->dedup]);
    put_number(o, "eval-fraction", x->eval_fraction, y->eval_fraction);
    put_number(o, "seed", (double)x->seed, (double)y->seed);
    put_number(o, "shard-bytes", (double)x->shard_bytes, (double)y->shard_bytes);
    put_number(o, "compression-level", (double)x->compression_level, (double)y->compression_level);
}

static void put_source(struct output *o, const struct manifest_source *a,
                       const struct manifest_source *b)
{
    char x[96] = "none", y[96] = "none", hex[HASH_HEX_LEN + 1];
    const char *name = a != NULL ? a->path : b->path;
    if (a != NULL) {
        hash128_hex(hex, a->hash);
        snprintf(x, sizeof x, "%" PRIu64 " bytes, %s", a->bytes, hex);
    }
    if (b != NULL) {
        hash128_hex(hex, b->hash);
        snprintf(y, sizeof y, "%" PRIu64 " bytes, %s", b->bytes, hex);
    }
    /* Matched by content, so only the name differs. */
    bool renamed = a != NULL && b != NULL && strcmp(a->path, b->path) != 0;
    put_pair(&o->sources, &o->n_sources, o->json, name, str_from(renamed ? a->path : x),
             str_from(renamed ? b->path : y));
}

static ft_status put_sources(struct output *o, const struct dataset *a, const struct dataset *b,
                             ft_error *err)
{
    const struct manifest *ma = dataset_manifest(a), *mb = dataset_manifest(b);
    uint32_t *b_of_a = NULL;
    bool *b_matched = NULL;
    ft_status st = diff_match_sources(&b_of_a, &b_matched, a, b, err);
    for (size_t i = 0; st == FT_OK && i < ma->n_sources; i++)
        put_source(o, &ma->sources[i], b_of_a[i] == NO_SOURCE ? NULL : &mb->sources[b_of_a[i]]);
    for (size_t i = 0; st == FT_OK && i < mb->n_sources; i++)
        if (!b_matched[i])
            put_source(o, NULL, &mb->sources[i]);
    mem_free(b_of_a);
    mem_free(b_matched);
    return st;
}

/* --- examples -------------------------------------------------------------------------------- */

/* The text around the first difference, as one line. */
static void put_window(struct buf *out, str s, size_t at)
{
    size_t from = at > BEFORE ? at - BEFORE : 0;
    while (from > 0 && ((unsigned char)s.ptr[from] & 0xC0) == 0x80)
        from--;
    str shown = str_sub(s, from, FT_MIN(s.len, from + WINDOW));
    shown.len = str_utf8_invalid_at(shown);
    buf_cstr(out, from > 0 ? "..." : "");
    for (size_t i = 0; i < shown.len; i++) {
        if (shown.ptr[i] == '\n')
            buf_cstr(out, "\\n");
        else
            buf_byte(out, (uint8_t)shown.ptr[i]);
    }
    buf_cstr(out, from + shown.len < s.len ? "..." : "");
}

static size_t first_difference(str a, str b)
{
    size_t at = 0;
    while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at])
        at++;
    return at;
}

static void put_example_json(struct buf *out, const struct diff_example *e)
{
    buf_printf(out, "%s{\"kind\": \"%s\", \"file\": ", out->len == 0 ? "" : ",\n  ",
               kind_names[e->kind]);
    json_write_str(out, str_from(e->path));
    buf_printf(out, ", \"row\": %" PRIu64, e->row);
    if (e->kind != DIFF_ONLY_B) {
        buf_printf(out, ", \"split_a\": \"%s\", \"a\": ", split_names[e->a_split]);
        json_write_str(out, e->a);
    }
    if (e->kind != DIFF_ONLY_A) {
        buf_printf(out, ", \"split_b\": \"%s\", \"b\": ", split_names[e->b_split]);
        json_write_str(out, e->b);
    }
    buf_byte(out, '}');
}

static void put_example_text(struct buf *out, const struct diff_example *e)
{
    bool both = e->kind == DIFF_CHANGED || e->kind == DIFF_MOVED;
    size_t at = both ? first_difference(e->a, e->b) : 0;
    buf_printf(out, "\n%s: %s row %" PRIu64 "\n", kind_labels[e->kind], e->path, e->row);
    if (e->kind == DIFF_MOVED) {
        buf_printf(out, "  %s -> %s\n", split_names[e->a_split], split_names[e->b_split]);
        return;
    }
    if (e->kind != DIFF_ONLY_B) {
        buf_printf(out, "- %-5s ", split_names[e->a_split]);
        put_window(out, e->a, at);
        buf_byte(out, '\n');
    }
    if (e->kind != DIFF_ONLY_A) {
        buf_printf(out, "+ %-5s ", split_names[e->b_split]);
        put_window(out, e->b, at);
        buf_byte(out, '\n');
    }
}

static ft_status example(void *ctx, const struct diff_example *e, ft_error *err)
{
    struct output *o = ctx;
    if (o->json)
        put_example_json(&o->examples, e);
    else
        put_example_text(&o->examples, e);
    return buf_status(&o->examples, "the examples", err);
}

/* --- output ---------------------------------------------------------------------------------- */

static bool is_same(const struct output *o, const struct diff_samples *d)
{
    uint64_t others = 0;
    for (int k = DIFF_SAME + 1; k < DIFF_KINDS; k++)
        others += d->counts[k];
    return o->n_settings + o->n_sources + others == 0;
}

static void print_text(const struct output *o, const struct diff_samples *d)
{
    if (o->n_settings > 0)
        printf("settings:\n%.*s\n", STR_ARG(buf_view(&o->settings)));
    if (o->n_sources > 0)
        printf("sources:\n%.*s\n", STR_ARG(buf_view(&o->sources)));
    printf("samples:\n");
    for (int k = 0; k < DIFF_KINDS; k++)
        if (k == DIFF_SAME || d->counts[k] > 0)
            printf("%14" PRIu64 "  %s\n", d->counts[k], kind_labels[k]);
    printf("%.*s", STR_ARG(buf_view(&o->examples)));
}

static void print_json(const struct output *o, const struct diff_samples *d)
{
    printf("{\"same\": %s,\n \"settings\": {%.*s},\n \"sources\": {%.*s},\n \"samples\": {",
           is_same(o, d) ? "true" : "false", STR_ARG(buf_view(&o->settings)),
           STR_ARG(buf_view(&o->sources)));
    for (int k = 0; k < DIFF_KINDS; k++)
        printf("%s\"%s\": %" PRIu64, k == 0 ? "" : ", ", kind_names[k], d->counts[k]);
    printf("},\n \"examples\": [%.*s]}\n", STR_ARG(buf_view(&o->examples)));
}

static ft_status compare(struct output *o, struct diff_samples *d, ft_error *err)
{
    struct stop stop;
    put_settings(o, dataset_manifest(d->a.data), dataset_manifest(d->b.data));
    FT_TRY(put_sources(o, d->a.data, d->b.data, err));
    FT_TRY(buf_status(&o->settings, "the settings", err));
    FT_TRY(buf_status(&o->sources, "the sources", err));
    stop_catch(&stop);
    ft_status st = diff_samples(d, err);
    stop_restore(&stop);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct diff *opts = values;
    struct dataset *data[2] = {NULL, NULL};
    struct tok *tok[2] = {NULL, NULL};
    struct output o = {.json = opts->json};
    struct diff_samples d = {.stop = stop_flag(),
                             .max_examples = (uint64_t)opts->examples,
                             .example = example,
                             .ctx = &o};
    ft_status st;
    (void)n_args;
    for (int i = 0; i < 2; i++) {
        FT_GOTO(dataset_open(&data[i], args[i], err));
        FT_GOTO(tok_open(&tok[i], args[i], err));
    }
    d.a = (struct diff_side){data[0], tok[0]};
    d.b = (struct diff_side){data[1], tok[1]};
    FT_GOTO(compare(&o, &d, err));
    if (o.json)
        print_json(&o, &d);
    else
        print_text(&o, &d);
    if (!is_same(&o, &d))
        st = ft_fail(err, FT_ESTATE, "%s and %s differ", args[0], args[1]);
out:
    for (int i = 0; i < 2; i++) {
        tok_close(tok[i]);
        dataset_close(data[i]);
    }
    buf_free(&o.settings);
    buf_free(&o.sources);
    buf_free(&o.examples);
    return st;
}

const struct command cmd_diff = {
    .name = "diff",
    .summary = "Say what is different between two data sets",
    .usage = "A B",
    .details =
        "Settings (template, tokenizer, options), sources, and the samples of each row: the same,\n"
        "changed, in the other part, only in A, only in B, with the place where the first of each\n"
        "kind differ. Sources are matched by name, renamed ones by content; samples by source and\n"
        "row. Tokens and masks are compared, or the texts when the tokenizers differ. Both data\n"
        "sets are read once, whatever their size. Exit code 0 when nothing differs, 1 when\n"
        "something does.",
    .examples = "  ftprep diff data/ data-new/\n"
                "  ftprep diff data/ data-new/ --json | jq .samples",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct diff),
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
