/* SPDX-License-Identifier: Apache-2.0
 * ftprep build: chat rows -> data set, in one process what plan, map and merge do in several. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cpu.h"
#include "common/log.h"
#include "common/mem.h"
#include "tools/commands.h"
#include "tools/data_set.h"
#include "tools/parts_dir.h"
#include "tools/pipeline.h"
#include "tools/recipe.h"
#include "tools/stop.h"
#include "tools/walk.h"

static const struct opt options[] = {
    RECIPE_ROWS,
    {.name = "out",
     .type = OPT_STRING,
     .offset = RECIPE_FIELD(out),
     .metavar = "DIR",
     .required = true,
     .help = "directory of the data set; it appears when everything is written"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = RECIPE_FIELD(threads),
     .metavar = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "encoding threads; 0 = one per processor"},
    {.name = "parts",
     .type = OPT_CHOICE,
     .offset = RECIPE_FIELD(parts),
     .def = "keep",
     .choices = "keep|drop",
     .help = "DIR.parts, from which the next build takes what has not changed"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = RECIPE_FIELD(force),
     .def = "false",
     .help = "replace another data set in DIR; it stays as it is until the new one is whole"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = RECIPE_FIELD(json),
     .def = "false",
     .help = "print the report as one JSON object"},
};

enum { PARTS_KEEP, PARTS_DROP };

struct build {
    const struct recipe_options *o;
    struct recipe recipe;
    struct parts_dir parts;
    struct buf report;
};

/* --- mapping --------------------------------------------------------------------------------- */

/* A pipe can be read only once, so what it holds is not known before it is mapped. */
static bool can_look_ahead(const struct manifest *m)
{
    struct stat sb;
    for (size_t i = 0; i < m->n_sources; i++)
        if (stat(m->sources[i].path, &sb) != 0 || !S_ISREG(sb.st_mode))
            return false;
    return true;
}

/* Reads the input once to know its parts, then maps those that are not there. */
static ft_status map_missing(struct build *b, struct sink *sink, const struct pipeline_options *p,
                             ft_error *err)
{
    struct plan *plan = &b->recipe.plan;
    size_t *parts, n = 0;
    FT_TRY(walk_ahead(plan, err));
    FT_TRY(mem_new(&parts, plan->n_parts, sizeof *parts, "the list of parts", err));
    for (size_t i = 0; i < plan->n_parts; i++)
        if (!parts_dir_has(b->parts.path, plan, i))
            parts[n++] = i;
    if (n < plan->n_parts)
        log_info("%zu of %zu parts are taken from %s", plan->n_parts - n, plan->n_parts,
                 b->parts.path);
    ft_status st = n == 0 ? FT_OK : pipeline_run_parts(sink, plan, parts, n, p, err);
    mem_free(parts);
    return st;
}

static ft_status map(struct build *b, ft_error *err)
{
    struct plan *plan = &b->recipe.plan;
    const struct pipeline_options p = {b->recipe.tok, b->recipe.chat_template, &b->recipe.source,
                                       b->o->threads > 0 ? (int)b->o->threads : cpu_count(),
                                       stop_flag()};
    struct sink sink;
    sink_init(&sink, b->parts.path, &plan->manifest);
    ft_status st = b->parts.is_empty || !can_look_ahead(&plan->manifest)
                       ? pipeline_run(&sink, plan, &p, err)
                       : map_missing(b, &sink, &p, err);
    sink_abort(&sink);
    return st;
}

/* --- building -------------------------------------------------------------------------------- */

/* What was mapped is kept when a later step fails, but for files that were not finished. */
static void close_parts(struct build *b, bool done)
{
    struct plan *plan = done && b->o->parts == PARTS_DROP ? NULL : &b->recipe.plan;
    ft_error err;
    if (b->parts.path != NULL && done && parts_dir_prune(&b->parts, plan, &err) != FT_OK)
        log_warn("%s", err.text);
    parts_dir_close(&b->parts, done);
}

static ft_status build_in(struct build *b, struct out_dir *out, ft_error *err)
{
    struct assemble a = {.plan = &b->recipe.plan, .tok = b->recipe.tok};
    ft_status st = parts_dir_open(&b->parts, b->o->out, out->work, err);
    a.parts = b->parts.path;
    a.discard_parts = b->parts.lock < 0;
    if (st == FT_OK)
        st = map(b, err);
    if (st != FT_OK) {
        out_dir_abort(out);
        return st;
    }
    return data_set_publish(&b->report, out, &a, b->o->force, b->o->json, err);
}

static ft_status build(struct build *b, ft_error *err)
{
    struct out_dir out;
    struct stop stop;
    FT_TRY(out_dir_begin(&out, b->o->out, err));
    stop_catch(&stop);
    ft_status st = build_in(b, &out, err);
    stop_restore(&stop);
    close_parts(b, st == FT_OK);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    struct build b = {.o = values};
    bool there, same = false;
    ft_status st;
    FT_GOTO(recipe_open(&b.recipe, b.o, n_args, args, err));
    FT_GOTO(data_set_check_place(&there, b.o->out, err));
    if (there)
        FT_GOTO(data_set_same(&same, &b.report, b.o->out, &b.recipe.plan.manifest, true, b.o->force,
                              b.o->json, err));
    if (!same)
        FT_GOTO(build(&b, err));
    printf("%.*s", STR_ARG(buf_view(&b.report)));
out:
    buf_free(&b.report);
    recipe_close(&b.recipe);
    return st;
}

const struct command cmd_build = {
    .name = "build",
    .summary = "Turn chat rows into a tokenised data set",
    .usage = "INPUT...",
    .details =
        "Reads JSON Lines files or JSON arrays of chat rows, plain or compressed "
        "with\n"
        "gzip or zstd, renders each conversation with the chat template, encodes it and stores\n"
        "tokens and loss mask in DIR, together with a plan that packs whole samples into "
        "sequences\n"
        "of --max-length. Every row is kept or counted with its reason. The result does not "
        "depend\n"
        "on --threads. Nothing is done when DIR holds this data set already.\n"
        "\n"
        "INPUT is a file, a directory, a quoted pattern, or - for standard input. In front of it\n"
        "may stand name=N, weight=W (each sample W times on average; 0.1 takes a tenth), repeat=R\n"
        "and limit=L (rows), joined by commas and closed by a colon: "
        "weight=2,limit=5000:chat.jsonl",
    .examples = "  ftprep build --tokenizer model/ --template auto --max-length 2048 --out data "
                "chat.jsonl\n"
                "  ftprep build ... --eval-fraction 0.01 --on-error skip --dedup --out data "
                "'raw/*.jsonl.gz'\n"
                "  ftprep build ... --out data chats/ name=code,weight=0.5:code.json",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct recipe_options),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
