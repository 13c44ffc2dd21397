/* SPDX-License-Identifier: Apache-2.0
 * ftprep merge: the mapped parts of a plan -> data set. */
#include <stdio.h>

#include "tools/commands.h"
#include "tools/data_set.h"
#include "tools/recipe.h"
#include "tools/stop.h"

struct merge_options {
    const char *out;
    bool force, json;
};

#define FIELD(name) offsetof(struct merge_options, name)

static const struct opt options[] = {
    {.name = "out",
     .type = OPT_STRING,
     .offset = FIELD(out),
     .metavar = "DIR",
     .required = true,
     .help = "directory of the data set; it appears when everything is written"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = FIELD(force),
     .def = "false",
     .help = "replace another data set in DIR; it stays as it is until the new one is whole"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print the report as one JSON object"},
};

static ft_status merge(struct buf *report, struct recipe *r, const struct merge_options *o,
                       const char *parts, ft_error *err)
{
    struct assemble a = {.parts = parts, .plan = &r->plan, .tok = r->tok};
    struct out_dir out;
    struct stop stop;
    FT_TRY(out_dir_begin(&out, o->out, err));
    stop_catch(&stop);
    ft_status st = data_set_publish(report, &out, &a, o->force, o->json, err);
    stop_restore(&stop);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct merge_options *o = values;
    struct recipe r = {0};
    struct buf report = {0};
    bool there, same = false;
    ft_status st;
    (void)n_args;
    FT_GOTO(recipe_restore(&r, args[0], err));
    FT_GOTO(data_set_check_place(&there, o->out, err));
    if (there)
        FT_GOTO(
            data_set_same(&same, &report, o->out, &r.plan.manifest, false, o->force, o->json, err));
    if (!same)
        FT_GOTO(merge(&report, &r, o, args[0], err));
    printf("%.*s", STR_ARG(buf_view(&report)));
out:
    buf_free(&report);
    recipe_close(&r);
    return st;
}

const struct command cmd_merge = {
    .name = "merge",
    .summary = "Make a data set of the mapped parts of a plan",
    .usage = "PLAN",
    .details =
        "Joins the parts in PLAN in the order of the input: removes duplicates (--dedup of the "
        "plan),\n"
        "repeats what has a weight, packs samples into sequences and writes DIR, the same bytes\n"
        "whatever machines mapped the parts. A part that is missing or damaged is an error.",
    .examples = "  ftprep merge work --out data",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct merge_options),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
