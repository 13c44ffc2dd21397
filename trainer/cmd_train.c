/* SPDX-License-Identifier: Apache-2.0
 * fttrain train RUN.json [key=value ...] */
#include "trainer/commands.h"
#include "trainer/train.h"

struct train_flags {
    bool dry_run;
};

static const struct opt options[] = {
    {"dry-run", OPT_BOOL, offsetof(struct train_flags, dry_run), "false", 0, 0, NULL, NULL,
     "check the run file, the base and the data set, report steps and memory, and stop", false},
};

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct train_flags *flags = values;
    struct run_config config;
    ft_status st = run_config_load(&config, args[0], args + 1, (size_t)n_args - 1, err);
    if (st == FT_OK)
        st = flags->dry_run ? train_check(&config, err) : train_run(&config, err);
    run_config_close(&config);
    return st;
}

const struct command cmd_train = {
    .name = "train",
    .summary = "Train an adapter, or go on with a run that was stopped",
    .usage = "RUN.json [key=value ...]",
    .details =
        "The run file is JSON with comments: {\"optimizer\": {\"lr\": 0.0002}}. Every key can be\n"
        "given on the command line as well: optimizer.lr=0.0002. Paths in the run file are\n"
        "relative to the run file, paths on the command line to the current directory.\n"
        "\n"
        "The run directory receives config.json (every value in use), metrics.jsonl, loss.svg,\n"
        "checkpoints/step_N, and at the end adapter/ in PEFT form and summary.json. SIGTERM,\n"
        "SIGINT and SIGUSR1 finish the step, save, and end with exit code 3; the same command\n"
        "goes on from there, to the same bits as a run that was never stopped.",
    .examples =
        "  fttrain train run.json                      # train, or go on\n"
        "  fttrain train run.json --dry-run            # steps and memory, without training\n"
        "  fttrain train run.json optimizer.lr=1e-4 run.dir=runs/lr1e-4",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct train_flags),
    .min_args = 1,
    .max_args = -1,
    .config = train_options_table,
    .n_config = TRAIN_OPTIONS,
    .run = run,
};
