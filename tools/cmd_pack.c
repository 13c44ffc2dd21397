/* SPDX-License-Identifier: Apache-2.0
 * ftprep pack: another pack plan beside a data set, from its index. */
#include <inttypes.h>
#include <stdio.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/shard.h"
#include "tools/commands.h"
#include "tools/pack.h"

enum { MODE_WHOLE, MODE_CHOP };

struct pack {
    const char *name;
    int64_t length, shuffle_seed;
    int mode;
    bool force, json;
};

#define FIELD(member) offsetof(struct pack, member)

enum { NO_SEED = -1 };

static const struct opt options[] = {
    {.name = "name",
     .type = OPT_STRING,
     .offset = FIELD(name),
     .metavar = "NAME",
     .required = true,
     .help = "name of the plan, for data.plan in a run file; it becomes DIR/train-NAME.packs"},
    {.name = "length",
     .type = OPT_INT,
     .offset = FIELD(length),
     .metavar = "N",
     .def = "0",
     .min = 0,
     .max = SHARD_MAX_TOKENS,
     .help = "tokens of a bin; 0 = the maximum length of the data set"},
    {.name = "mode",
     .type = OPT_CHOICE,
     .offset = FIELD(mode),
     .def = "whole",
     .choices = "whole|chop",
     .help =
         "whole samples, best fit first; or concatenated and cut every N tokens, as XTuner does"},
    {.name = "shuffle-seed",
     .type = OPT_INT,
     .offset = FIELD(shuffle_seed),
     .metavar = "S",
     .def = "-1",
     .min = NO_SEED,
     .max = 0x1p53,
     .help = "shuffle the samples first; -1 = in their order"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = FIELD(force),
     .def = "false",
     .help = "replace a plan of this name"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = FIELD(json),
     .def = "false",
     .help = "print one JSON object"},
};

/* --- planning -------------------------------------------------------------------------------- */

static ft_status make_whole(struct packs *out, const uint32_t *lengths, const struct dataset *d,
                            uint32_t length, const uint64_t *seed, ft_error *err)
{
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    if (train->longest > length)
        return ft_fail(err, FT_EUSAGE,
                       "--length: the longest sample has %" PRIu32 " tokens, more than %" PRIu32
                       "; whole samples need at least that, --mode chop cuts them",
                       train->longest, length);
    if (seed != NULL)
        return pack_plan_shuffled(out, lengths, train->n_samples, length, *seed, err);
    FT_TRY(pack_plan(out, lengths, train->n_samples, length, err));
    out->version = PACKS_PLAN_VERSION;
    return FT_OK;
}

static ft_status make_chopped(struct packs *out, const uint32_t *lengths, const struct dataset *d,
                              uint32_t length, const uint64_t *seed, ft_error *err)
{
    if (length < 2)
        return ft_fail(err, FT_EUSAGE, "--length: at least 2, for a token is predicted by others");
    FT_TRY(pack_chop(out, lengths, dataset_split(d, SPLIT_TRAIN)->n_samples, length, seed, err));
    FT_TRY(pack_count_trained(out, d, err));
    pack_drop_untrained(out);
    return FT_OK;
}

static ft_status make_plan(struct packs *out, const struct dataset *d, const struct pack *o,
                           ft_error *err)
{
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    uint32_t length = (uint32_t)(o->length > 0 ? o->length : dataset_max_length(d));
    uint64_t seed = (uint64_t)o->shuffle_seed;
    const uint64_t *use = o->shuffle_seed == NO_SEED ? NULL : &seed;
    uint32_t *lengths;
    FT_TRY(mem_new(&lengths, train->n_samples, sizeof *lengths, "the lengths of samples", err));
    ft_status st = FT_OK;
    for (uint64_t i = 0; i < train->n_samples && st == FT_OK; i++) {
        lengths[i] = dataset_sample_info(d, SPLIT_TRAIN, i).n_tokens;
        if (lengths[i] == 0)
            st = ft_fail(err, FT_EFORMAT,
                         "train sample %" PRIu64 " has no tokens: the index is damaged; check the "
                         "data set with ftprep verify",
                         i);
    }
    if (st == FT_OK)
        st = o->mode == MODE_WHOLE ? make_whole(out, lengths, d, length, use, err)
                                   : make_chopped(out, lengths, d, length, use, err);
    mem_free(lengths);
    out->data = dataset_fingerprint(d);
    return st;
}

/* --- report ---------------------------------------------------------------------------------- */

struct sums {
    uint64_t tokens, trained; /* in the bins */
    uint32_t n_cut;           /* places where a sample is cut */
};

static struct sums sum_up(const struct packs *p, const struct dataset *d)
{
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    struct sums s = {.tokens = train->n_tokens, .trained = train->n_trained};
    if (p->parts == NULL)
        return s;
    s = (struct sums){0};
    for (uint32_t i = 0; i < p->n_entries; i++) {
        s.tokens += p->parts[i].n_tokens;
        s.trained += p->parts[i].n_trained;
        s.n_cut += p->parts[i].from > 0;
    }
    return s;
}

static void put_text(const char *path, const struct packs *p, const struct dataset *d)
{
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    struct sums s = sum_up(p, d);
    double room = (double)p->n_bins * p->length;
    printf("%s: %" PRIu32 " bins of %" PRIu32 ", %.2f %% full\n", path, p->n_bins, p->length,
           room > 0 ? 100 * (double)s.tokens / room : 0.0);
    printf("%16" PRIu64 " tokens in %" PRIu64 " samples\n", train->n_tokens, train->n_samples);
    printf("%16" PRIu64 " in bins\n", s.tokens);
    if (p->parts == NULL)
        return;
    printf("%16" PRIu64 " left out, in bins without a trained token\n", p->untrained);
    printf("%16" PRIu32 " cuts inside samples; %" PRIu64 " of %" PRIu64
           " trained tokens stand right behind one and cannot be trained\n",
           s.n_cut, train->n_trained - s.trained, train->n_trained);
}

static void put_json(const struct packs *p, const struct dataset *d)
{
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    struct sums s = sum_up(p, d);
    printf("{\"bins\": %" PRIu32 ", \"length\": %" PRIu32 ", \"samples\": %" PRIu64
           ", \"tokens\": %" PRIu64 ", \"tokens_in_bins\": %" PRIu64
           ", \"tokens_left_out\": %" PRIu64 ", \"trained\": %" PRIu64
           ", \"trained_in_bins\": %" PRIu64 ", \"cut\": %" PRIu32 ", \"fullest\": %" PRIu32 "}\n",
           p->n_bins, p->length, train->n_samples, train->n_tokens, s.tokens, p->untrained,
           train->n_trained, s.trained, s.n_cut, p->fullest);
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct pack *o = values;
    struct dataset *d;
    struct packs plan = {0};
    struct arena a = {0};
    const char *path;
    ft_status st;
    (void)n_args;
    FT_TRY(dataset_open(&d, args[0], err));
    FT_GOTO(dataset_plan_path(&path, &a, args[0], o->name, err));
    if (path_exists(path) && !o->force)
        FT_GOTO(ft_fail(err, FT_ESTATE, "%s: exists; --force replaces it", path));
    FT_GOTO(make_plan(&plan, d, o, err));
    FT_GOTO(packs_write(path, &plan, err));
    if (o->json)
        put_json(&plan, d);
    else
        put_text(path, &plan, d);
out:
    pack_free(&plan);
    arena_destroy(&a);
    dataset_close(d);
    return st;
}

const struct command cmd_pack = {
    .name = "pack",
    .summary = "Make another pack plan for a data set",
    .usage = "DIR",
    .details =
        "A data set comes with a plan that packs whole samples into bins of its maximum length.\n"
        "This writes another one beside it, without touching the samples: other bins, another\n"
        "order, or XTuner's concatenate-and-chop, whose parts are kept apart, lose no tail and\n"
        "start anew in each bin. A run takes it with \"data\": {\"plan\": \"NAME\"}. The plan\n"
        "depends on lengths, options and nothing else. It belongs to this build of the data set.",
    .examples = "  ftprep pack data/ --name 4k --length 4096\n"
                "  ftprep pack data/ --name epoch2 --shuffle-seed 2\n"
                "  ftprep pack data/ --name chopped --mode chop --length 2048",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct pack),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
