/* SPDX-License-Identifier: Apache-2.0
 * Batches: which samples make up a step is a pure function of (data set, options, step), computed
 * in constant time from the data set's index. Nothing is replayed after a resume.
 *
 * The unit of a batch is a bin of the pack plan (BATCH_PACKED) or a sample. A step takes
 * micro * accumulate units; the last step of an epoch takes what is left. */
#ifndef TRAINER_LOADER_H
#define TRAINER_LOADER_H

#include "formats/dataset.h"
#include "formats/packs.h"
#include "trainer/model.h"
#include "trainer/train_options.h"

struct loader_options {
    enum batch_mode mode;
    int64_t micro, accumulate;
    uint64_t seed;
};

struct loader_shape {
    uint64_t n_units;        /* of an epoch */
    int64_t steps_per_epoch; /* >= 1 */
    int64_t max_tokens;      /* most tokens of a micro-batch, evaluation included */
};

/* FT_EUSAGE when the mode needs a pack plan that the data set lacks, FT_EFORMAT when the train
 * split is empty. Allocates nothing. */
FT_NODISCARD ft_status loader_measure(struct loader_shape *out, const struct dataset *data,
                                      const struct loader_options *o, ft_error *err);

struct loader;

/* data must outlive the loader. */
FT_NODISCARD ft_status loader_create(struct loader **out, const struct dataset *data,
                                     const struct loader_options *o, ft_error *err);
void loader_destroy(struct loader *l); /* NULL is fine */

/* The samples of one step. Micro-batch i is samples[micro_starts[i] .. micro_starts[i + 1]). */
struct step_batch {
    int64_t epoch;
    int64_t n_samples, n_tokens, n_trained;
    const uint64_t *samples; /* indices into the train split, [n_samples] */
    /* The part of each that is meant, when the plan cuts samples; NULL = whole samples. */
    const struct pack_part *parts;
    int64_t n_micro;
    const int64_t *micro_starts; /* [n_micro + 1] */
};

/* Chooses the samples of a step from 0; valid until the next call. Reads only the index. */
FT_NODISCARD ft_status loader_seek(struct step_batch *out, struct loader *l, int64_t step,
                                   ft_error *err);
/* Reads micro-batch i of the step last sought; valid until the next read. */
FT_NODISCARD ft_status loader_read(struct micro_batch *out, struct loader *l, int64_t i,
                                   ft_error *err);

/* Reads eval samples from *next on, as many as fit max_tokens but none from `end` on, and moves
 * *next behind them. n_trained receives the number of targets. Asserts *next < end <= n_samples. */
FT_NODISCARD ft_status loader_read_eval(struct micro_batch *out, int64_t *n_trained,
                                        struct loader *l, uint64_t *next, uint64_t end,
                                        ft_error *err);

#endif
