/* SPDX-License-Identifier: Apache-2.0
 * The options of a training run. One table row per key gives the default, the checks, the help
 * text, the resolved dump and the comparison on resume. docs/training.md explains the keys. */
#ifndef TRAINER_TRAIN_OPTIONS_H
#define TRAINER_TRAIN_OPTIONS_H

#include "common/opt.h"
#include "formats/adapter.h"

enum batch_mode {
    BATCH_PACKED,     /* bins of the data set's pack plan */
    BATCH_GROUPED,    /* samples of similar length together */
    BATCH_SEQUENTIAL, /* samples in the order of the data set */
};

enum schedule_kind { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT };

/* Field x.y is the key "x.y". */
struct train_options {
    struct {
        const char *dir, *resume;
        int64_t seed, threads;
    } run;
    struct {
        const char *path;
    } base;
    struct {
        const char *path, *plan;
    } data;
    struct {
        int64_t rank;
        double alpha, dropout;
        bool rslora;
        struct opt_list targets;
        const char *init; /* NULL = new */
    } lora;
    struct {
        int mode; /* enum batch_mode */
        int64_t micro, accumulate;
    } batch;
    struct {
        double lr, beta1, beta2, eps, weight_decay, clip;
    } optimizer;
    struct {
        int kind; /* enum schedule_kind */
        double warmup_ratio, min_lr_ratio;
        int64_t warmup_steps;
    } schedule;
    struct {
        double epochs;
        int64_t max_steps;
    } train;
    struct {
        int64_t every, max_samples;
    } eval;
    struct {
        struct opt_list prompts;
        const char *system;
        int64_t every, max_tokens;
    } sample;
    struct {
        int64_t every, keep;
        bool best;
    } checkpoint;
    struct {
        bool recompute;
        int64_t limit; /* MiB */
    } memory;
    struct {
        const char *name;
        int matmul; /* enum matmul_kind */
    } backend;
    bool no_eval_split; /* not a key: found when the data set is opened */
};

enum { TRAIN_OPTIONS = 41 };
extern const struct opt train_options_table[TRAIN_OPTIONS];

/* The value names a file or directory (for run.resume: unless it is auto or never). */
bool train_options_is_path(const struct opt *o, str value);

/* The key that says the same in another way (train.epochs and train.max_steps, ...), or NULL.
 * Giving one on the command line takes the other back. */
const char *train_options_alternative(const struct opt *o);

/* Rules between keys, given what the user set: an option that has no effect under the others is
 * refused, and so are unknown or repeated LoRA targets. Never adjusts anything. */
FT_NODISCARD ft_status train_options_check(const struct train_options *v, const struct opt_set *set,
                                           ft_error *err);

/* Why the key has no effect under these values, or NULL when it has one. */
const char *train_options_no_effect(const struct train_options *v, const struct opt_set *set,
                                    const struct opt *o);

/* True when a resumed run must have the same value, or it would not be the same run. */
bool train_options_fixed(const struct train_options *v, const struct opt_set *set,
                         const struct opt *o);

/* The adapter that the lora.* keys describe. Call after train_options_check. */
void train_options_adapter(struct adapter_config *out, const struct train_options *v);

#endif
