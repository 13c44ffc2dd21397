/* SPDX-License-Identifier: Apache-2.0
 * ftprep check: what is wrong with chat rows, before anything is built from them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cpu.h"
#include "common/log.h"
#include "common/mem.h"
#include "tools/commands.h"
#include "tools/inputs.h"
#include "tools/lint_run.h"
#include "tools/stop.h"

struct check {
    const char *tokenizer, *chat_template, *explain, *fix, *rows, *train_on;
    int64_t max_length, max_per_code, threads;
    struct opt_list ignore, columns;
    bool strict, merge, force, json;
};

#define FIELD(name) offsetof(struct check, name)

static const struct opt options[] = {
    {.name = "tokenizer",
     .type = OPT_STRING,
     .offset = FIELD(tokenizer),
     .metavar = "PATH",
     .help = "as for ftprep build; with it the rules about tokens (T) are checked as well"},
    {.name = "template",
     .type = OPT_STRING,
     .offset = FIELD(chat_template),
     .metavar = "NAME",
     .def = "auto",
     .help = "chat template, as for ftprep build"},
    {.name = "max-length",
     .type = OPT_INT,
     .offset = FIELD(max_length),
     .metavar = "N",
     .min = 0,
     .max = 1 << 24,
     .def = "0",
     .help = "most tokens of a sample; 0 = any"},
    {.name = "rows",
     .type = OPT_STRING,
     .offset = FIELD(rows),
     .metavar = "SHAPE",
     .def = "auto",
     .help = "shape of the rows, as for ftprep build"},
    {.name = "columns",
     .type = OPT_LIST,
     .offset = FIELD(columns),
     .metavar = "ROLE=KEY,...",
     .help = "which keys hold what, as for ftprep build"},
    {.name = "train-on",
     .type = OPT_STRING,
     .offset = FIELD(train_on),
     .metavar = "WHICH",
     .def = "assistant",
     .help = "answers that carry loss, as for ftprep build"},
    {.name = "merge-consecutive",
     .type = OPT_BOOL,
     .offset = FIELD(merge),
     .def = "false",
     .help = "neighbouring user or system messages will be joined, as for ftprep build"},
    {.name = "max-per-code",
     .type = OPT_INT,
     .offset = FIELD(max_per_code),
     .metavar = "N",
     .min = 0,
     .max = 1e15,
     .def = "20",
     .help = "findings of one code that are shown; all are counted"},
    {.name = "ignore",
     .type = OPT_LIST,
     .offset = FIELD(ignore),
     .metavar = "CODE,...",
     .help = "codes that are neither shown nor counted"},
    {.name = "strict",
     .type = OPT_BOOL,
     .offset = FIELD(strict),
     .def = "false",
     .help = "warnings make the exit code 1, too"},
    {.name = "fix",
     .type = OPT_STRING,
     .offset = FIELD(fix),
     .metavar = "FILE",
     .help = "write all rows to FILE, one a line, with the harmless faults repaired"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = FIELD(force),
     .def = "false",
     .help = "with --fix: replace FILE"},
    {.name = "explain",
     .type = OPT_STRING,
     .offset = FIELD(explain),
     .metavar = "CODE",
     .help = "say what a code means, or all of them, and check nothing"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = FIELD(threads),
     .metavar = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "checking threads; 0 = one per processor"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print one JSON object"},
};

/* --- explaining ------------------------------------------------------------------------------ */

static ft_status unknown_code(const char *option, const char *name, ft_error *err)
{
    return ft_fail(err, FT_EUSAGE, "%s: '%s' is no code; ftprep check --explain all lists them",
                   option, name);
}

static ft_status explain(const struct check *o, ft_error *err)
{
    struct buf out = {0};
    enum lint_code code = lint_find(str_from(o->explain));
    bool all = strcmp(o->explain, "all") == 0;
    if (!all && code == LINT_CODES)
        return unknown_code("--explain", o->explain, err);
    for (int c = all ? 0 : (int)code; c < (all ? LINT_CODES : (int)code + 1); c++) {
        lint_explain(&out, (enum lint_code)c);
        buf_cstr(&out, all && c + 1 < LINT_CODES ? "\n" : "");
    }
    ft_status st = buf_status(&out, "the explanation", err);
    if (st == FT_OK)
        printf("%.*s", STR_ARG(buf_view(&out)));
    buf_free(&out);
    return st;
}

/* --- findings -------------------------------------------------------------------------------- */

struct output {
    const struct check *options;
    uint64_t shown[LINT_CODES];
    bool ignored[LINT_CODES];
    bool color;
    struct buf json; /* findings as list elements */
};

static void put_finding_json(struct buf *out, const struct lint_place *p,
                             const struct lint_finding *f)
{
    buf_cstr(out, out->len == 0 ? "\n  {\"file\": " : ",\n  {\"file\": ");
    json_write_str(out, str_from(p->path));
    if (!p->whole_file)
        buf_printf(out, ", \"line\": %" PRIu64 ", \"row\": %" PRIu64, p->line, p->row);
    buf_printf(out,
               ", \"code\": \"%s\", \"severity\": \"%s\", \"field\": ", lint_rules[f->code].code,
               lint_severity_names[lint_rules[f->code].severity]);
    json_write_str(out, str_from(f->field));
    buf_cstr(out, ", \"text\": ");
    json_write_str(out, str_from(f->text));
    buf_byte(out, '}');
}

/* FILE:LINE (row N): FIELD: severity CODE: title: text */
static void put_finding(const struct output *o, const struct lint_place *p,
                        const struct lint_finding *f)
{
    static const char *const colors[] = {"\033[36m", "\033[33m", "\033[31m"};
    const struct lint_rule *r = &lint_rules[f->code];
    printf("%s", p->path);
    if (!p->whole_file)
        printf(":%" PRIu64 " (row %" PRIu64 ")", p->line, p->row);
    printf(": %s%s%s%s %s%s: %s%s%s\n", f->field, f->field[0] == '\0' ? "" : ": ",
           o->color ? colors[r->severity] : "", lint_severity_names[r->severity], r->code,
           o->color ? "\033[0m" : "", r->title, f->text[0] == '\0' ? "" : ": ", f->text);
}

static ft_status found(void *ctx, const struct lint_place *place, const struct lint_finding *f,
                       ft_error *err)
{
    struct output *o = ctx;
    if (o->ignored[f->code] || o->shown[f->code] == (uint64_t)o->options->max_per_code)
        return FT_OK;
    o->shown[f->code]++;
    if (!o->options->json) {
        put_finding(o, place, f);
        return FT_OK;
    }
    put_finding_json(&o->json, place, f);
    return buf_status(&o->json, "the findings", err);
}

/* --- the end --------------------------------------------------------------------------------- */

static uint64_t count(const struct lint_run *r, const struct output *o, enum lint_severity s)
{
    uint64_t n = 0;
    for (int c = 0; c < LINT_CODES; c++)
        if (!o->ignored[c] && lint_rules[c].severity == s)
            n += r->counts[c];
    return n;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void put_summary(const struct lint_run *r, const struct output *o)
{
    uint64_t errors = count(r, o, LINT_ERROR), warnings = count(r, o, LINT_WARNING);
    uint64_t notes = count(r, o, LINT_NOTE);
    printf("%s", errors + warnings + notes > 0 ? "\n" : "");
    for (int c = 0; c < LINT_CODES; c++)
        if (r->counts[c] > 0 && !o->ignored[c])
            printf("%12" PRIu64 "  %-7s  %s  %s%s\n", r->counts[c],
                   lint_severity_names[lint_rules[c].severity], lint_rules[c].code,
                   lint_rules[c].title,
                   r->counts[c] > o->shown[c] ? " (not all are shown: --max-per-code)" : "");
    printf("%" PRIu64 " row%s: %" PRIu64 " error%s", r->n_rows, plural(r->n_rows), errors,
           plural(errors));
    if (errors > 0)
        printf(" in %" PRIu64 " row%s", r->n_bad_rows, plural(r->n_bad_rows));
    printf(", %" PRIu64 " warning%s, %" PRIu64 " note%s\n", warnings, plural(warnings), notes,
           plural(notes));
}

static void put_fixes(const struct lint_run *r, const struct check *o)
{
    printf("%s: %" PRIu64 " row%s written\n", o->fix, r->n_rows, plural(r->n_rows));
    for (int c = 0; c < LINT_CODES; c++)
        if (r->fixes[c] > 0)
            printf("%12" PRIu64 "  fixed    %s  %s\n", r->fixes[c], lint_rules[c].code,
                   lint_rules[c].title);
}

static void put_counts_json(struct buf *out, const char *name, const uint64_t *counts,
                            const struct output *o)
{
    bool first = true;
    buf_printf(out, "\"%s\": {", name);
    for (int c = 0; c < LINT_CODES; c++) {
        if (counts[c] == 0 || o->ignored[c])
            continue;
        buf_printf(out, "%s\"%s\": %" PRIu64, first ? "" : ", ", lint_rules[c].code, counts[c]);
        first = false;
    }
    buf_byte(out, '}');
}

static ft_status put_json(const struct lint_run *r, struct output *o, ft_error *err)
{
    struct buf out = {0};
    buf_printf(&out,
               "{\"rows\": %" PRIu64 ", \"bad_rows\": %" PRIu64 ", \"errors\": %" PRIu64
               ", \"warnings\": %" PRIu64 ", \"notes\": %" PRIu64 ",\n ",
               r->n_rows, r->n_bad_rows, count(r, o, LINT_ERROR), count(r, o, LINT_WARNING),
               count(r, o, LINT_NOTE));
    put_counts_json(&out, "counts", r->counts, o);
    buf_cstr(&out, ",\n ");
    put_counts_json(&out, "fixed", r->fixes, o);
    buf_cstr(&out, ",\n \"findings\": [");
    buf_str(&out, buf_view(&o->json));
    buf_cstr(&out, "]}\n");
    ft_status st = buf_status(&out, "the findings", err);
    if (st == FT_OK)
        printf("%.*s", STR_ARG(buf_view(&out)));
    buf_free(&out);
    return st;
}

static ft_status conclude(const struct lint_run *r, const struct output *o, ft_error *err)
{
    uint64_t errors = count(r, o, LINT_ERROR), warnings = count(r, o, LINT_WARNING);
    if (errors > 0)
        return ft_fail(err, FT_EFORMAT,
                       "%" PRIu64 " error%s; ftprep check --explain CODE says more", errors,
                       plural(errors));
    if (warnings > 0 && o->options->strict)
        return ft_fail(err, FT_EFORMAT, "%" PRIu64 " warning%s (--strict)", warnings,
                       plural(warnings));
    return FT_OK;
}

/* --- all together ---------------------------------------------------------------------------- */

static ft_status set_ignored(struct output *o, ft_error *err)
{
    for (size_t i = 0; i < o->options->ignore.n; i++) {
        enum lint_code code = lint_find(str_from(o->options->ignore.items[i]));
        if (code == LINT_CODES)
            return unknown_code("--ignore", o->options->ignore.items[i], err);
        o->ignored[code] = true;
    }
    return FT_OK;
}

static ft_status check_options(const struct check *o, const struct manifest *m, ft_error *err)
{
    if (o->max_length > 0 && o->tokenizer == NULL)
        return ft_fail(err, FT_EUSAGE, "--max-length counts tokens: give --tokenizer, too");
    for (size_t i = 0; i < m->n_sources && o->fix != NULL; i++)
        if (path_exists(o->fix) && path_same(m->sources[i].path, o->fix))
            return ft_fail(err, FT_EUSAGE, "--fix: %s is an input; name a new file", o->fix);
    if (o->fix != NULL && path_exists(o->fix) && !o->force)
        return ft_fail(err, FT_ESTATE, "%s: exists; --force replaces it", o->fix);
    return FT_OK;
}

/* Both stay NULL without a tokenizer. */
static ft_status open_model(struct tok **tok, struct chat_template **chat_template,
                            const struct check *o, ft_error *err)
{
    if (o->tokenizer == NULL)
        return FT_OK;
    FT_TRY(tok_open(tok, o->tokenizer, err));
    return chat_template_open(chat_template, o->chat_template, *tok, err);
}

static ft_status check_model(struct lint_model *m, struct lint_run *r, const char *path,
                             ft_error *err)
{
    struct lint_list l = {0};
    ft_status st = lint_model_init(m, &l, err);
    if (st == FT_OK)
        st = lint_whole_file(r, path, &l, err);
    lint_list_clear(&l);
    return st;
}

static ft_status check_inputs(struct lint_run *r, const struct check *o, const struct manifest *m,
                              ft_error *err)
{
    struct file_writer fixed = {.fd = -1};
    struct stop stop;
    if (o->fix != NULL) {
        FT_TRY(file_writer_open(&fixed, o->fix, err));
        r->fixed = &fixed;
    }
    stop_catch(&stop);
    ft_status st = lint_files(r, m->sources, m->n_sources, err);
    stop_restore(&stop);
    if (st == FT_OK && o->fix != NULL)
        return file_writer_commit(&fixed, err);
    file_writer_abort(&fixed);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct check *o = values;
    if (o->explain != NULL)
        return explain(o, err);
    struct output out = {.options = o, .color = log_color(1)};
    struct tok *tok = NULL;
    struct chat_template *chat_template = NULL;
    struct manifest inputs = {0}; /* its sources only */
    struct source_options source = {.merge = o->merge};
    struct lint_model model = {.source = &source, .max_length = o->max_length};
    struct lint_run r = {.model = &model,
                         .n_threads = o->threads > 0 ? (int)o->threads : cpu_count(),
                         .stop = stop_flag(),
                         .found = found,
                         .ctx = &out};
    ft_status st;
    if (n_args == 0)
        FT_GOTO(ft_fail(err, FT_EUSAGE, "no INPUT is given; expected files, or --explain CODE"));
    FT_GOTO(inputs_set(&inputs, SOURCE_TRAIN, args, (size_t)n_args, NULL, 0, err));
    FT_GOTO(check_options(o, &inputs, err));
    FT_GOTO(set_ignored(&out, err));
    FT_GOTO(source_set_rows(&source, o->rows, &o->columns, err));
    FT_GOTO(source_set_train_on(&source, o->train_on, err));
    FT_GOTO(open_model(&tok, &chat_template, o, err));
    model.tok = tok;
    model.chat_template = chat_template;
    FT_GOTO(check_model(&model, &r, o->tokenizer, err));
    FT_GOTO(check_inputs(&r, o, &inputs, err));
    if (o->json)
        FT_GOTO(put_json(&r, &out, err));
    else
        put_summary(&r, &out);
    if (o->fix != NULL && !o->json)
        put_fixes(&r, o);
    FT_GOTO(conclude(&r, &out, err));
out:
    buf_free(&out.json);
    lint_model_free(&model);
    manifest_free(&inputs);
    chat_template_close(chat_template);
    tok_close(tok);
    return st;
}

const struct command cmd_check = {
    .name = "check",
    .summary = "Find what is wrong with chat rows before building from them",
    .usage = "INPUT...",
    .details =
        "Checks every row against the rules of docs/lint.md and prints what breaks them, with\n"
        "file, line, row, field and a code. Errors are what ftprep build refuses; warnings are\n"
        "what it drops or changes, or what trains something else than it seems to; notes are\n"
        "harmless here and break other programs. With --tokenizer also what the rows render to.\n"
        "INPUT is what ftprep build takes: files, directories, quoted patterns, - for standard "
        "input.\n"
        "Exit code 1 when there is an error. --fix never writes into an input.",
    .examples = "  ftprep check chat.jsonl\n"
                "  ftprep check --tokenizer model/ --max-length 2048 chat.jsonl\n"
                "  ftprep check --fix clean.jsonl chat.jsonl\n"
                "  ftprep check --explain M06\n"
                "  ftprep check --json chat.jsonl | jq .counts",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct check),
    .max_args = -1,
    .run = run,
};
