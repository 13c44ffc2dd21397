/* SPDX-License-Identifier: Apache-2.0
 * ftprep plan: divides the input into parts that machines can map one by one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "formats/part.h"
#include "tools/commands.h"
#include "tools/emit.h"
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
     .help = "directory of the plan and its parts, on a file system that all machines see"},
    {.name = "emit",
     .type = OPT_CHOICE,
     .offset = RECIPE_FIELD(emit),
     .def = "none",
     .choices = "none|make|slurm",
     .help = "print a Makefile, or a script that submits Slurm job arrays"},
    {.name = "per-task",
     .type = OPT_INT,
     .offset = RECIPE_FIELD(per_task),
     .metavar = "N",
     .def = "16",
     .min = 1,
     .max = 1e6,
     .help = "parts that one Slurm task maps"},
    {.name = "array-size",
     .type = OPT_INT,
     .offset = RECIPE_FIELD(array_size),
     .metavar = "N",
     .def = "1000",
     .min = 1,
     .max = 1e6,
     .help = "most tasks of one Slurm array (MaxArraySize of slurm.conf, less one)"},
};

enum { EMIT_NONE, EMIT_MAKE, EMIT_SLURM };

static ft_status check_regular(const struct manifest *m, ft_error *err)
{
    struct stat sb;
    for (size_t i = 0; i < m->n_sources; i++)
        if (stat(m->sources[i].path, &sb) == 0 && !S_ISREG(sb.st_mode))
            return ft_fail(err, FT_EUSAGE,
                           "%s: not a regular file: other machines cannot read it; use 'ftprep "
                           "build'",
                           m->sources[i].path);
    return FT_OK;
}

/* The tokenizer stands beside the plan, so that a map needs no other file than its input. */
static ft_status write_tokenizer(struct manifest *m, const char *dir, const struct tok *tok,
                                 ft_error *err)
{
    struct buf blob = {0};
    const char *path = path_join(&m->arena, dir, TOKENIZER_FILE);
    ft_status st = path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
    if (st == FT_OK)
        st = tok_to_blob(&blob, tok, err);
    if (st == FT_OK)
        st = file_publish(path, blob.data, blob.len, err);
    if (st == FT_OK)
        st = manifest_file_of(&m->tokenizer, &m->arena, dir, TOKENIZER_FILE, err);
    buf_free(&blob);
    return st;
}

/* --- scripts --------------------------------------------------------------------------------- */

struct part_names {
    const struct plan *plan;
    char name[PART_NAME_BYTES];
};

static const char *name_of_part(void *ctx, size_t i)
{
    struct part_names *n = ctx;
    part_name(n->name, n->plan->parts[i].key, "json");
    return n->name;
}

static ft_status print_script(const struct plan *plan, const struct recipe_options *o,
                              ft_error *err)
{
    struct part_names names = {.plan = plan};
    struct buf text = {0};
    const struct emit_options e = {o->out, plan->n_parts, (size_t)o->per_task,
                                   (size_t)o->array_size};
    if (o->emit == EMIT_MAKE)
        emit_make(&text, &e, name_of_part, &names);
    else if (o->emit == EMIT_SLURM)
        emit_slurm(&text, &e);
    ft_status st = buf_status(&text, "the script", err);
    if (st == FT_OK)
        printf("%.*s", STR_ARG(buf_view(&text)));
    buf_free(&text);
    return st;
}

/* --- all together ---------------------------------------------------------------------------- */

static ft_status make_plan(struct recipe *r, const struct recipe_options *o, ft_error *err)
{
    struct plan *plan = &r->plan;
    FT_TRY(check_regular(&plan->manifest, err));
    FT_TRY(walk_ahead(plan, err));
    if (plan->n_parts == 0)
        return ft_fail(err, FT_EFORMAT, "there is no row in the input");
    FT_TRY(dir_create(o->out, err));
    FT_TRY(write_tokenizer(&plan->manifest, o->out, r->tok, err));
    FT_TRY(plan_write(plan, o->out, err));
    log_info("%s: %zu part%s", o->out, plan->n_parts, plan->n_parts == 1 ? "" : "s");
    return print_script(plan, o, err);
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct recipe_options *o = values;
    struct recipe r = {0};
    struct stop stop;
    ft_status st = recipe_open(&r, o, n_args, args, err);
    stop_catch(&stop);
    if (st == FT_OK)
        st = make_plan(&r, o, err);
    stop_restore(&stop);
    recipe_close(&r);
    return st;
}

const struct command cmd_plan = {
    .name = "plan",
    .summary = "Divide the input into parts for many processes or machines",
    .usage = "INPUT...",
    .details =
        "Reads the input once and writes DIR/plan.json: parts of --part-bytes of input, cut "
        "between\n"
        "rows, with their checksums and all options. 'ftprep map' then maps parts, anywhere and "
        "in\n"
        "any order, and 'ftprep merge' makes the data set, the same bytes as 'ftprep build'. A "
        "new\n"
        "plan for a changed input keeps the parts that have not changed. INPUT as for build.",
    .examples =
        "  ftprep plan --tokenizer model/ --template auto --max-length 2048 --out work raw/\n"
        "  ftprep plan ... --out work --emit make raw/ > work.mk && make -j 8 -f work.mk OUT=data\n"
        "  ftprep plan ... --out work --emit slurm raw/ > submit.sh && sh submit.sh data",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct recipe_options),
    .min_args = 1,
    .max_args = -1,
    .run = run,
};
