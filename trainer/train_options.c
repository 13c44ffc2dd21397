/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/train_options.h"

#include <string.h>

#define AT(member) offsetof(struct train_options, member)

static const double MAX_COUNT = 1e12, HUGE_LR = 1e30;

const struct opt train_options_table[TRAIN_OPTIONS] = {
    {"run.dir", OPT_STRING, AT(run.dir), NULL, 0, 0, NULL, "DIR",
     "directory for everything the run writes", true},
    {"run.resume", OPT_STRING, AT(run.resume), "auto", 0, 0, NULL, "auto|never|PATH",
     "auto: go on from the newest whole checkpoint of run.dir if there is one; never: refuse a "
     "directory that has checkpoints; PATH: go on from this checkpoint",
     false},
    {"run.seed", OPT_INT, AT(run.seed), "1", 0, 0x1p53, NULL, "N",
     "decides the sample order, the initial adapter and the dropout", false},
    {"run.threads", OPT_INT, AT(run.threads), "0", 0, 1024, NULL, "N",
     "threads for the computation, 0 = all processors", false},
    {"base.path", OPT_STRING, AT(base.path), NULL, 0, 0, NULL, "FILE",
     "base model, a .nf4 file written by ftprep quantize", true},
    {"data.path", OPT_STRING, AT(data.path), NULL, 0, 0, NULL, "DIR",
     "data set, a directory written by ftprep build", true},
    {"data.plan", OPT_STRING, AT(data.plan), NULL, 0, 0, NULL, "NAME",
     "pack plan made by ftprep pack, instead of the one that the data set was built with", false},
    {"lora.rank", OPT_INT, AT(lora.rank), "16", 1, 4096, NULL, "N", "rank of the adapter", false},
    {"lora.alpha", OPT_FLOAT, AT(lora.alpha), "32", 0, 1e6, NULL, "X",
     "the adapter is scaled by alpha / rank", false},
    {"lora.dropout", OPT_FLOAT, AT(lora.dropout), "0", 0, 0.99, NULL, "X",
     "probability of dropping an input feature of the adapter", false},
    {"lora.rslora", OPT_BOOL, AT(lora.rslora), "false", 0, 0, NULL, NULL,
     "scale by alpha / sqrt(rank) instead", false},
    {"lora.targets", OPT_LIST, AT(lora.targets),
     "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", 0, 0, NULL, "NAME,...",
     "linear layers that get an adapter", false},
    {"lora.init", OPT_STRING, AT(lora.init), NULL, 0, 0, NULL, "DIR",
     "adapter to start from, of an earlier run or of PEFT; it must have the rank, the scaling and "
     "the targets of this run",
     false},
    {"batch.mode", OPT_CHOICE, AT(batch.mode), "packed", 0, 0, "packed|grouped|sequential", NULL,
     "packed: whole samples share bins of the data set's pack plan; grouped: samples of similar "
     "length together; sequential: the order of the data set",
     false},
    {"batch.micro", OPT_INT, AT(batch.micro), "1", 1, 65536, NULL, "N",
     "bins (packed) or samples that are computed at once; decides the memory", false},
    {"batch.accumulate", OPT_INT, AT(batch.accumulate), "8", 1, 1e6, NULL, "N",
     "micro-batches per optimiser step", false},
    {"optimizer.lr", OPT_FLOAT, AT(optimizer.lr), "0.0002", 0, HUGE_LR, NULL, "X",
     "peak learning rate", false},
    {"optimizer.beta1", OPT_FLOAT, AT(optimizer.beta1), "0.9", 0, 0.999999, NULL, "X",
     "decay of the first moment", false},
    {"optimizer.beta2", OPT_FLOAT, AT(optimizer.beta2), "0.999", 0, 0.999999, NULL, "X",
     "decay of the second moment", false},
    {"optimizer.eps", OPT_FLOAT, AT(optimizer.eps), "1e-8", 1e-30, 1, NULL, "X",
     "added to the root of the second moment", false},
    {"optimizer.weight_decay", OPT_FLOAT, AT(optimizer.weight_decay), "0", 0, 100, NULL, "X",
     "decoupled weight decay", false},
    {"optimizer.clip", OPT_FLOAT, AT(optimizer.clip), "1", 0, 1e30, NULL, "X",
     "largest gradient norm, 0 = no clipping", false},
    {"schedule.kind", OPT_CHOICE, AT(schedule.kind), "cosine", 0, 0, "cosine|linear|constant", NULL,
     "how the learning rate goes on after the warm-up", false},
    {"schedule.warmup_ratio", OPT_FLOAT, AT(schedule.warmup_ratio), "0.03", 0, 1, NULL, "X",
     "warm-up as a part of all steps", false},
    {"schedule.warmup_steps", OPT_INT, AT(schedule.warmup_steps), NULL, 0, MAX_COUNT, NULL, "N",
     "warm-up in steps, instead of schedule.warmup_ratio", false},
    {"schedule.min_lr_ratio", OPT_FLOAT, AT(schedule.min_lr_ratio), "0", 0, 1, NULL, "X",
     "learning rate at the end as a part of the peak", false},
    {"train.epochs", OPT_FLOAT, AT(train.epochs), "1", 1e-6, 1e6, NULL, "X",
     "passes over the data, fractions allowed", false},
    {"train.max_steps", OPT_INT, AT(train.max_steps), NULL, 1, MAX_COUNT, NULL, "N",
     "optimiser steps, instead of train.epochs", false},
    {"eval.every", OPT_INT, AT(eval.every), "100", 0, MAX_COUNT, NULL, "N",
     "steps between evaluations on the eval split; 0 = only before the first step and at the end",
     false},
    {"eval.max_samples", OPT_INT, AT(eval.max_samples), "0", 0, MAX_COUNT, NULL, "N",
     "samples of the eval split to use, 0 = all", false},
    {"sample.prompts", OPT_LIST, AT(sample.prompts), NULL, 0, 0, NULL, "TEXT,...",
     "questions that the model answers during training, into samples.jsonl", false},
    {"sample.system", OPT_STRING, AT(sample.system), NULL, 0, 0, NULL, "TEXT",
     "system message before each of them", false},
    {"sample.every", OPT_INT, AT(sample.every), "100", 0, MAX_COUNT, NULL, "N",
     "steps between answers; 0 = only before the first step and at the end", false},
    {"sample.max_tokens", OPT_INT, AT(sample.max_tokens), "64", 1, 1 << 20, NULL, "N",
     "longest answer", false},
    {"checkpoint.every", OPT_INT, AT(checkpoint.every), "100", 0, MAX_COUNT, NULL, "N",
     "steps between checkpoints; 0 = only at the end and when stopped", false},
    {"checkpoint.keep", OPT_INT, AT(checkpoint.keep), "2", 1, 1e6, NULL, "N",
     "newest checkpoints to keep", false},
    {"checkpoint.best", OPT_BOOL, AT(checkpoint.best), "true", 0, 0, NULL, NULL,
     "save and keep the step with the lowest evaluation loss too", false},
    {"memory.recompute", OPT_BOOL, AT(memory.recompute), "false", 0, 0, NULL, NULL,
     "keep only the input of each block and compute the rest again in the backward pass", false},
    {"memory.limit", OPT_INT, AT(memory.limit), "0", 0, 1 << 30, NULL, "MiB",
     "refuse to start when more memory is needed, 0 = what the machine has", false},
    {"backend.name", OPT_STRING, AT(backend.name), "cpu", 0, 0, NULL, "NAME", "where to compute",
     false},
    {"backend.matmul", OPT_CHOICE, AT(backend.matmul), "fast", 0, 0, "fast|reference", NULL,
     "matrix product; reference gives the same bits on every machine", false},
};

static bool key_is(const struct opt *o, const char *name)
{
    return strcmp(o->name, name) == 0;
}

static bool in_section(const struct opt *o, const char *section)
{
    size_t n = strlen(section);
    return strncmp(o->name, section, n) == 0 && o->name[n] == '.';
}

bool train_options_is_path(const struct opt *o, str value)
{
    if (key_is(o, "run.resume"))
        return !str_is(value, "auto") && !str_is(value, "never");
    return key_is(o, "run.dir") || key_is(o, "base.path") || key_is(o, "data.path") ||
           key_is(o, "lora.init");
}

const char *train_options_alternative(const struct opt *o)
{
    static const char *const pairs[][2] = {{"train.epochs", "train.max_steps"},
                                           {"schedule.warmup_ratio", "schedule.warmup_steps"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        for (size_t side = 0; side < 2; side++)
            if (key_is(o, pairs[i][side]))
                return pairs[i][1 - side];
    return NULL;
}

const char *train_options_no_effect(const struct train_options *v, const struct opt_set *set,
                                    const struct opt *o)
{
    bool steps_given = opt_given(set, "train.max_steps");
    bool warmup_given = opt_given(set, "schedule.warmup_steps");
    if (key_is(o, "train.epochs") && steps_given)
        return "train.max_steps is set";
    if (key_is(o, "train.max_steps") && !steps_given)
        return "train.epochs decides";
    if (key_is(o, "schedule.warmup_ratio") && warmup_given)
        return "schedule.warmup_steps is set";
    if (key_is(o, "schedule.warmup_steps") && !warmup_given)
        return "schedule.warmup_ratio decides";
    if (key_is(o, "schedule.min_lr_ratio") && v->schedule.kind == SCHEDULE_CONSTANT)
        return "schedule.kind is constant";
    if (key_is(o, "data.plan") && v->batch.mode != BATCH_PACKED)
        return "batch.mode is not packed";
    if (in_section(o, "sample") && !key_is(o, "sample.prompts") && v->sample.prompts.n == 0)
        return "sample.prompts is empty";
    if ((in_section(o, "eval") || key_is(o, "checkpoint.best")) && v->no_eval_split)
        return "the data set has no eval split";
    return NULL;
}

bool train_options_fixed(const struct train_options *v, const struct opt_set *set,
                         const struct opt *o)
{
    static const char *const sections[] = {"lora", "batch", "optimizer", "schedule"};
    if (train_options_no_effect(v, set, o) != NULL)
        return false;
    /* The length shapes the learning rate unless nothing is relative to it. */
    if (in_section(o, "train"))
        return v->schedule.kind != SCHEDULE_CONSTANT || !opt_given(set, "schedule.warmup_steps");
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        if (in_section(o, sections[i]))
            return true;
    return key_is(o, "run.seed");
}

static int target_kind(const char *name)
{
    for (int k = 0; k < LINEAR_KINDS; k++)
        if (strcmp(name, linear_names[k]) == 0)
            return k;
    return -1;
}

static ft_status check_targets(const struct opt_list *targets, ft_error *err)
{
    bool seen[LINEAR_KINDS] = {false};
    if (targets->n == 0)
        return ft_fail(err, FT_EUSAGE, "lora.targets: at least one linear layer is needed");
    for (size_t i = 0; i < targets->n; i++) {
        const char *name = targets->items[i];
        int kind = target_kind(name);
        if (kind < 0) {
            const char *near = str_nearest(str_from(name), linear_names, LINEAR_KINDS);
            return ft_fail(err, FT_EUSAGE, "lora.targets: unknown linear layer '%s'%s%s%s", name,
                           near == NULL ? "" : "; did you mean '", near == NULL ? "" : near,
                           near == NULL ? "" : "'?");
        }
        if (seen[kind])
            return ft_fail(err, FT_EUSAGE, "lora.targets: '%s' appears twice", name);
        seen[kind] = true;
    }
    return FT_OK;
}

ft_status train_options_check(const struct train_options *v, const struct opt_set *set,
                              ft_error *err)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct opt *o = &set->table[i];
        const char *why = set->given[i] ? train_options_no_effect(v, set, o) : NULL;
        if (why != NULL)
            return ft_fail(err, FT_EUSAGE, "%s has no effect because %s; remove it", o->name, why);
    }
    return check_targets(&v->lora.targets, err);
}

void train_options_adapter(struct adapter_config *out, const struct train_options *v)
{
    *out = (struct adapter_config){
        .rank = v->lora.rank,
        .alpha = v->lora.alpha,
        .dropout = v->lora.dropout,
        .rslora = v->lora.rslora,
    };
    for (size_t i = 0; i < v->lora.targets.n; i++)
        out->target[target_kind(v->lora.targets.items[i])] = true;
}
