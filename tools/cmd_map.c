/* SPDX-License-Identifier: Apache-2.0
 * ftprep map: maps parts of a plan. */
#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"
#include "common/log.h"
#include "common/mem.h"
#include "tools/commands.h"
#include "tools/parts_dir.h"
#include "tools/pipeline.h"
#include "tools/recipe.h"
#include "tools/stop.h"

struct map_options {
    const char *shard;
    bool rank_from_env;
    int64_t threads;
};

#define FIELD(name) offsetof(struct map_options, name)

static const struct opt options[] = {
    {.name = "shard",
     .type = OPT_STRING,
     .offset = FIELD(shard),
     .metavar = "K|A-B|A+N",
     .help = "part number K, or A to B, or N of them from A on; parts past the end are no error"},
    {.name = "rank-from-env",
     .type = OPT_BOOL,
     .offset = FIELD(rank_from_env),
     .def = "false",
     .help = "every n-th part, by the rank that mpirun or srun sets"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = FIELD(threads),
     .metavar = "N",
     .def = "0",
     .min = 0,
     .max = 1024,
     .help = "encoding threads; 0 = one per processor"},
};

/* Parts first, first + step, ... below end. */
struct choice {
    size_t first, step, end;
};

/* --- which parts ----------------------------------------------------------------------------- */

static ft_status parse_shard(struct choice *out, const char *text, ft_error *err)
{
    size_t at = strcspn(text, "-+");
    int64_t first, second;
    bool ok = str_to_i64((str){text, at}, &first) && first >= 0;
    second = first;
    if (ok && text[at] != '\0')
        ok = str_to_i64(str_from(text + at + 1), &second) && second >= 0;
    if (ok && text[at] == '+')
        second += first - 1;
    if (!ok || second < first)
        return ft_fail(err, FT_EUSAGE, "--shard: '%s' is not valid, expected K, A-B or A+N", text);
    *out = (struct choice){(size_t)first, 1, (size_t)second + 1};
    return FT_OK;
}

static bool env_number(size_t *out, const char *name)
{
    const char *text = getenv(name);
    int64_t v;
    if (text == NULL || !str_to_i64(str_from(text), &v) || v < 0)
        return false;
    *out = (size_t)v;
    return true;
}

/* In a batch script Slurm sets rank 0 of n without having started the others. */
static ft_status check_step(ft_error *err)
{
    size_t n;
    if (env_number(&n, "SLURM_NTASKS") && n > 1 && getenv("SLURM_STEP_ID") == NULL)
        return ft_fail(err, FT_EUSAGE,
                       "--rank-from-env: this is the batch script, where 1 of %zu tasks runs; "
                       "start with srun",
                       n);
    return FT_OK;
}

static ft_status choose_by_rank(struct choice *out, ft_error *err)
{
    static const char *const names[][2] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"RANK", "WORLD_SIZE"},
    };
    size_t rank, size;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!env_number(&rank, names[i][0]) || !env_number(&size, names[i][1]))
            continue;
        if (strcmp(names[i][0], "SLURM_PROCID") == 0)
            FT_TRY(check_step(err));
        if (rank >= size)
            return ft_fail(err, FT_EUSAGE, "--rank-from-env: %s=%zu is not below %s=%zu",
                           names[i][0], rank, names[i][1], size);
        *out = (struct choice){rank, size, SIZE_MAX};
        return FT_OK;
    }
    return ft_fail(err, FT_EUSAGE,
                   "--rank-from-env: no rank is set; start with mpirun or srun, or name --shard");
}

static ft_status choose(struct choice *out, const struct map_options *o, ft_error *err)
{
    if ((o->shard != NULL) == o->rank_from_env)
        return ft_fail(err, FT_EUSAGE, "one of --shard and --rank-from-env is needed");
    return o->rank_from_env ? choose_by_rank(out, err) : parse_shard(out, o->shard, err);
}

/* --- mapping --------------------------------------------------------------------------------- */

static ft_status map_parts(const char *dir, const struct recipe *r, const size_t *parts, size_t n,
                           int64_t threads, ft_error *err)
{
    const struct pipeline_options p = {r->tok, r->chat_template, &r->source,
                                       threads > 0 ? (int)threads : cpu_count(), stop_flag()};
    struct sink sink;
    struct stop stop;
    stop_catch(&stop);
    sink_init(&sink, dir, &r->plan.manifest);
    ft_status st = n == 0 ? FT_OK : pipeline_run_parts(&sink, &r->plan, parts, n, &p, err);
    sink_abort(&sink);
    stop_restore(&stop);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct map_options *o = values;
    struct recipe r = {0};
    struct choice c = {0, 1, 0};
    size_t *parts = NULL, n = 0, there = 0;
    ft_status st;
    (void)n_args;
    FT_GOTO(choose(&c, o, err));
    FT_GOTO(recipe_restore(&r, args[0], err));
    FT_GOTO(mem_new(&parts, r.plan.n_parts, sizeof *parts, "the list of parts", err));
    for (size_t i = c.first; i < FT_MIN(c.end, r.plan.n_parts); i += c.step)
        if (parts_dir_has(args[0], &r.plan, i))
            there++;
        else
            parts[n++] = i;
    if (there > 0)
        log_info("%zu part%s there already", there, there == 1 ? " is" : "s are");
    st = map_parts(args[0], &r, parts, n, o->threads, err);
out:
    mem_free(parts);
    recipe_close(&r);
    return st;
}

const struct command cmd_map = {
    .name = "map",
    .summary = "Map parts of a plan",
    .usage = "PLAN",
    .details =
        "Reads PLAN/plan.json, renders and encodes the rows of the chosen parts and writes them "
        "into\n"
        "PLAN. What is there and whole is not done again, so a command may be killed and "
        "repeated,\n"
        "and several may run at once. Paths are those given to 'ftprep plan': run it in the same\n"
        "directory, or plan with absolute paths.",
    .examples = "  ftprep map work --shard 7\n"
                "  seq 0 99 | xargs -P 8 -I{} ftprep map work --threads 1 --shard {}\n"
                "  mpirun ftprep map work --rank-from-env",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct map_options),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
