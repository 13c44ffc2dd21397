/* SPDX-License-Identifier: Apache-2.0
 * ftprep build: chat rows -> data set. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cpu.h"
#include "common/log.h"
#include "common/mem.h"
#include "tools/commands.h"
#include "tools/out_dir.h"
#include "tools/pipeline.h"
#include "tools/report.h"
#include "tools/stop.h"

struct build {
    const char *tokenizer, *chat_template, *out;
    int64_t max_length, threads, shard_bytes, compression_level;
    double eval_fraction;
    struct opt_list eval, columns;
    const char *rows, *train_on;
    int too_long, on_error, content_specials;
    bool strict, merge, force, json;
    struct source_options source;
};

#define FIELD(name) offsetof(struct build, name)

static const struct opt options[] = {
    {.name = "tokenizer",
     .type = OPT_STRING,
     .offset = FIELD(tokenizer),
     .metavar = "PATH",
     .required = true,
     .help = "tokenizer.json, a directory that holds it, a GGUF or .nf4 file, or a data set"},
    {.name = "template",
     .type = OPT_STRING,
     .offset = FIELD(chat_template),
     .metavar = "NAME",
     .required = true,
     .help = "chat template: auto for the one that the tokenizer file carries, a name, or a file; "
             "help lists them"},
    {.name = "max-length",
     .type = OPT_INT,
     .offset = FIELD(max_length),
     .metavar = "N",
     .required = true,
     .min = 2,
     .max = SHARD_MAX_TOKENS,
     .help = "most tokens of a sample, and the length of a packed sequence"},
    {.name = "out",
     .type = OPT_STRING,
     .offset = FIELD(out),
     .metavar = "DIR",
     .required = true,
     .help = "directory of the data set; it appears when everything is written"},
    {.name = "eval-fraction",
     .type = OPT_FLOAT,
     .offset = FIELD(eval_fraction),
     .metavar = "F",
     .def = "0",
     .min = 0,
     .max = 0.9,
     .help = "share of the samples held out for evaluation, chosen by content"},
    {.name = "eval",
     .type = OPT_LIST,
     .offset = FIELD(eval),
     .metavar = "FILE,...",
     .help = "files whose rows are the held-out part, instead of --eval-fraction"},
    {.name = "too-long",
     .type = OPT_CHOICE,
     .offset = FIELD(too_long),
     .def = "drop",
     .choices = "drop|truncate",
     .help = "what happens to samples above the maximum length"},
    {.name = "on-error",
     .type = OPT_CHOICE,
     .offset = FIELD(on_error),
     .def = "stop",
     .choices = "stop|skip",
     .help = "what happens at a row that breaks the rules"},
    {.name = "strict",
     .type = OPT_BOOL,
     .offset = FIELD(strict),
     .def = "false",
     .help = "an empty assistant message is an error"},
    {.name = "rows",
     .type = OPT_STRING,
     .offset = FIELD(rows),
     .metavar = "SHAPE",
     .def = "auto",
     .help = "shape of the rows: auto tells messages, conversations, conversation and alpaca by "
             "their keys"},
    {.name = "columns",
     .type = OPT_LIST,
     .offset = FIELD(columns),
     .metavar = "ROLE=KEY,...",
     .help = "which keys hold what, e.g. user=question,assistant=answer; roles are messages, "
             "turns, system, history, user (several) and assistant"},
    {.name = "train-on",
     .type = OPT_STRING,
     .offset = FIELD(train_on),
     .metavar = "WHICH",
     .def = "assistant",
     .help = "answers that carry loss: assistant (all), last, flagged, or from-turn:N"},
    {.name = "merge-consecutive",
     .type = OPT_BOOL,
     .offset = FIELD(merge),
     .def = "false",
     .help = "join neighbouring user or system messages"},
    {.name = "content-specials",
     .type = OPT_CHOICE,
     .offset = FIELD(content_specials),
     .def = "literal",
     .choices = "literal|parse",
     .help = "special tokens spelled inside messages: ordinary text, or the token"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = FIELD(threads),
     .metavar = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "encoding threads; 0 = one per processor"},
    {.name = "shard-bytes",
     .type = OPT_INT,
     .offset = FIELD(shard_bytes),
     .metavar = "N",
     .def = "268435456",
     .min = 4096,
     .max = 1e15,
     .help = "a shard is closed above this size, before compression"},
    {.name = "compression-level",
     .type = OPT_INT,
     .offset = FIELD(compression_level),
     .metavar = "N",
     .def = "3",
     .min = COMPRESS_LEVEL_MIN,
     .max = COMPRESS_LEVEL_MAX,
     .help = "zstd level of the shards"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = FIELD(force),
     .def = "false",
     .help = "replace the data set in DIR; it stays as it is until the new one is whole"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print the report as one JSON object"},
};

/* --- preparing ------------------------------------------------------------------------------- */

static ft_status set_source(struct manifest_source *s, struct manifest *m, const char *path,
                            enum source_use use, ft_error *err)
{
    if (strcmp(path, "-") == 0)
        path = "/dev/stdin";
    *s = (struct manifest_source){.path = arena_cstr(&m->arena, str_from(path)), .use = use};
    if (s->path == NULL)
        return ft_fail_memory(err, strlen(path), "a path");
    if (path_is_dir(path))
        return ft_fail(err, FT_EIO, "%s: is a directory; name the files in it", path);
    if (access(path, R_OK) != 0) /* before any work; opening may still fail */
        return ft_fail_errno(err, "%s: cannot be read", path);
    return FT_OK;
}

/* A file under two names counts as one. */
static ft_status refuse_twice(const struct manifest_source *a, const struct manifest_source *b,
                              ft_error *err)
{
    if (a->use != b->use)
        return ft_fail(err, FT_EUSAGE,
                       "%s: is both trained on and held out by --eval; --eval-fraction holds out a "
                       "part of a file",
                       b->path);
    return ft_fail(err, FT_EUSAGE, "%s: is given twice, first as %s", b->path, a->path);
}

static ft_status check_distinct(const struct manifest *m, ft_error *err)
{
    struct stat *files = NULL;
    ft_status st;
    FT_GOTO(mem_new(&files, m->n_sources, sizeof *files, "the list of sources", err));
    for (size_t i = 0; i < m->n_sources; i++) {
        if (stat(m->sources[i].path, &files[i]) != 0)
            FT_GOTO(ft_fail_errno(err, "%s: cannot be read", m->sources[i].path));
        for (size_t k = 0; k < i; k++)
            if (files[k].st_dev == files[i].st_dev && files[k].st_ino == files[i].st_ino)
                FT_GOTO(refuse_twice(&m->sources[k], &m->sources[i], err));
    }
out:
    mem_free(files);
    return st;
}

static ft_status set_sources(struct manifest *m, const struct build *o, int n_inputs,
                             const char **inputs, ft_error *err)
{
    m->n_sources = (size_t)n_inputs + o->eval.n;
    m->sources = arena_alloc(&m->arena, m->n_sources, sizeof *m->sources);
    if (m->sources == NULL)
        return ft_fail_memory(err, m->n_sources * sizeof *m->sources, "the list of sources");
    for (size_t i = 0; i < m->n_sources; i++) {
        bool held_out = i >= (size_t)n_inputs;
        const char *path = held_out ? o->eval.items[i - (size_t)n_inputs] : inputs[i];
        enum source_use use = held_out               ? SOURCE_EVAL
                              : o->eval_fraction > 0 ? SOURCE_BOTH
                                                     : SOURCE_TRAIN;
        FT_TRY(set_source(&m->sources[i], m, path, use, err));
    }
    return check_distinct(m, err);
}

/* The value of --rows, or the items of --columns. */
static ft_status describe_rows(const char **out, struct arena *arena, const struct build *o,
                               ft_error *err)
{
    struct buf text = {0};
    for (size_t i = 0; i < o->columns.n; i++)
        buf_printf(&text, "%s%s", i == 0 ? "" : ",", o->columns.items[i]);
    ft_status st = buf_status(&text, "the columns", err);
    *out = o->columns.n == 0 ? o->rows : arena_cstr(arena, buf_view(&text));
    buf_free(&text);
    return st == FT_OK && *out == NULL ? ft_fail_memory(err, text.len, "the columns") : st;
}

static ft_status prepare_source(struct build *o, ft_error *err)
{
    o->source = (struct source_options){.strict = o->strict, .merge = o->merge};
    FT_TRY(source_set_rows(&o->source, o->rows, &o->columns, err));
    return source_set_train_on(&o->source, o->train_on, err);
}

static ft_status prepare(struct manifest *m, const struct build *o, const struct tok *tok,
                         const struct chat_template *chat_template, int n_inputs,
                         const char **inputs, ft_error *err)
{
    m->tool = "ftprep " FT_VERSION;
    m->chat_template = chat_template_name(chat_template);
    m->template_source = chat_template_source(chat_template).ptr;
    m->n_vocab = tok_n_vocab(tok);
    m->token_bytes = shard_token_bytes(m->n_vocab);
    m->tokenizer_fingerprint = tok_fingerprint(tok);
    m->options = (struct manifest_options){
        .max_length = o->max_length,
        .truncate = o->too_long == 1,
        .skip_errors = o->on_error == 1,
        .strict = o->strict,
        .merge = o->merge,
        .train_on = o->train_on,
        .parse_specials = o->content_specials == 1,
        .eval_fraction = o->eval_fraction,
        .shard_bytes = o->shard_bytes,
        .compression_level = o->compression_level,
    };
    FT_TRY(describe_rows(&m->options.rows, &m->arena, o, err));
    if (o->eval.n > 0 && o->eval_fraction > 0)
        return ft_fail(err, FT_EUSAGE, "--eval and --eval-fraction exclude each other");
    return set_sources(m, o, n_inputs, inputs, err);
}

/* --- what is in the place of the output ------------------------------------------------------- */

/* Names that builds write: nothing else is ever removed. */
static bool is_ours(const char *name)
{
    str s = str_from(name);
    return str_is(s, MANIFEST_FILE) || str_is(s, TOKENIZER_FILE) ||
           ((str_starts(s, STR("train")) || str_starts(s, STR("eval"))) &&
            (str_ends(s, STR(".shard")) || str_ends(s, STR(".packs"))));
}

/* What differs first between the data set there and the one asked for; NULL when nothing does. */
static const char *first_difference(const struct manifest *old, struct manifest *new)
{
    hash128 a, b;
    ft_error err;
    if (!hash128_eq(old->tokenizer_fingerprint, new->tokenizer_fingerprint))
        return "with another tokenizer";
    if (strcmp(old->chat_template, new->chat_template) != 0 ||
        strcmp(old->template_source, new->template_source) != 0)
        return "with another template";
    for (size_t i = 0; i < new->n_sources; i++) {
        struct file_map map;
        if (file_map_open(&map, new->sources[i].path, &err) != FT_OK)
            return "from other inputs";
        new->sources[i].hash = hash128_of(map.data, map.bytes);
        file_map_close(&map);
    }
    if (manifest_build_key(&a, old, &err) == FT_OK && manifest_build_key(&b, new, &err) == FT_OK &&
        hash128_eq(a, b))
        return NULL;
    return "from other inputs or with other options";
}

static ft_status refuse_existing(const char *dir, struct manifest *new, ft_error *err)
{
    struct manifest old;
    if (manifest_load(&old, dir, err) != FT_OK)
        return ft_fail(err, FT_ESTATE,
                       "%s: holds a data set that is not whole or not readable; --force replaces "
                       "it",
                       dir);
    const char *difference = first_difference(&old, new);
    manifest_free(&old);
    if (difference == NULL)
        return ft_fail(err, FT_ESTATE,
                       "%s: this data set is there already, built from the same inputs with the "
                       "same options: use it, or build it again with --force",
                       dir);
    return ft_fail(err, FT_ESTATE,
                   "%s: another data set is there, built %s: choose another --out, or replace it "
                   "with --force",
                   dir, difference);
}

/* Only an empty directory, or with --force one that holds nothing but a data set, is replaced. */
static ft_status check_out(const char *dir, bool force, struct manifest *new, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n = 0;
    if (!path_exists(dir))
        return FT_OK;
    if (!path_is_dir(dir))
        return ft_fail(err, FT_ESTATE, "%s: exists and is not a directory", dir);
    ft_status st = dir_list(&names, &n, &a, dir, err);
    for (size_t i = 0; st == FT_OK && i < n; i++)
        if (!is_ours(names[i]))
            st = ft_fail(err, FT_ESTATE,
                         "%s: holds \"%s\", which is no part of a data set: choose another --out",
                         dir, names[i]);
    if (st == FT_OK && n > 0 && !force)
        st = refuse_existing(dir, new, err);
    arena_destroy(&a);
    return st;
}

/* --- building -------------------------------------------------------------------------------- */

static ft_status check_result(const struct manifest *m, const struct build *o, ft_error *err)
{
    const struct report *r = &m->report;
    if (m->splits[SPLIT_TRAIN].info.n_samples == 0)
        return ft_fail(err, FT_EFORMAT,
                       "no sample is left to train on: %llu row%s read, %llu invalid, %llu without "
                       "an assistant message, %llu without a trained token, %llu longer than %lld "
                       "tokens, %llu held out",
                       (unsigned long long)report_rows(r), report_rows(r) == 1 ? "" : "s",
                       (unsigned long long)r->fates[ROW_INVALID].rows,
                       (unsigned long long)r->fates[ROW_NO_ASSISTANT].rows,
                       (unsigned long long)r->fates[ROW_UNTRAINED].rows,
                       (unsigned long long)r->fates[ROW_TOO_LONG].rows, (long long)o->max_length,
                       (unsigned long long)m->splits[SPLIT_EVAL].info.n_samples);
    if (m->splits[SPLIT_EVAL].info.n_samples == 0 && (o->eval_fraction > 0 || o->eval.n > 0))
        log_warn("the held-out part is empty");
    return FT_OK;
}

static ft_status fill(const char *dir, struct manifest *m, const struct build *o,
                      const struct tok *tok, const struct chat_template *chat_template,
                      ft_error *err)
{
    struct pipeline_options p = {tok, chat_template, &o->source,
                                 o->threads > 0 ? (int)o->threads : cpu_count(), stop_flag()};
    struct sink sink;
    sink_init(&sink, dir, m);
    ft_status st = pipeline_run(&sink, &p, err);
    if (st == FT_OK)
        st = check_result(m, o, err);
    if (st == FT_OK)
        st = sink_finish(&sink, tok, err);
    if (st == FT_OK)
        st = manifest_write(m, dir, err);
    if (st == FT_OK && sink.n_repeated > 0)
        log_warn("%" PRIu64 " training sample%s also in the --eval files: the evaluation measures "
                 "what was learnt by heart",
                 sink.n_repeated, sink.n_repeated == 1 ? " is" : "s are");
    sink_abort(&sink);
    return st;
}

static ft_status render_report(struct buf *out, const struct manifest *m, bool as_json,
                               ft_error *err)
{
    if (as_json)
        report_json(out, m);
    else
        report_text(out, m);
    buf_cstr(out, as_json ? "\n" : "");
    return buf_status(out, "the report", err);
}

/* The report is rendered before the commit: once the data set is in its place, nothing fails. */
static ft_status build_into(const char *dir, struct buf *report, struct manifest *m,
                            const struct build *o, const struct tok *tok,
                            const struct chat_template *chat_template, ft_error *err)
{
    struct out_dir out;
    struct stop stop;
    FT_TRY(out_dir_begin(&out, dir, err));
    stop_catch(&stop);
    ft_status st = fill(out.work, m, o, tok, chat_template, err);
    stop_restore(&stop);
    if (st == FT_OK)
        st = render_report(report, m, o->json, err);
    if (st == FT_OK)
        return out_dir_commit(&out, o->force, err);
    out_dir_abort(&out);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    struct build *o = values;
    struct chat_template *chat_template = NULL;
    struct manifest m = {0};
    struct buf report = {0};
    struct tok *tok = NULL;
    ft_status st;
    FT_GOTO(prepare_source(o, err));
    FT_GOTO(tok_open(&tok, o->tokenizer, err));
    FT_GOTO(chat_template_open(&chat_template, o->chat_template, tok, err));
    FT_GOTO(prepare(&m, o, tok, chat_template, n_args, args, err));
    FT_GOTO(check_out(o->out, o->force, &m, err));
    FT_GOTO(build_into(o->out, &report, &m, o, tok, chat_template, err));
    report_warn(&m);
    printf("%.*s", STR_ARG(buf_view(&report)));
out:
    buf_free(&report);
    manifest_free(&m);
    chat_template_close(chat_template);
    tok_close(tok);
    return st;
}

const struct command cmd_build = {
    .name = "build",
    .summary = "Turn chat rows into a tokenised data set",
    .usage = "INPUT...",
    .details =
        "Reads JSON Lines files or JSON arrays of chat rows, renders each conversation\n"
        "with the chat template, encodes it and stores tokens and loss mask in DIR, together with\n"
        "a plan that packs whole samples into sequences of --max-length. Every row is kept or\n"
        "counted with its reason. The result does not depend on --threads. INPUT - is standard "
        "input.",
    .examples = "  ftprep build --tokenizer model/ --template auto --max-length 2048 --out data "
                "chat.jsonl\n"
                "  ftprep build ... --eval-fraction 0.01 --on-error skip --out data a.json b.jsonl",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct build),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
