/* SPDX-License-Identifier: Apache-2.0
 * What a run reads: base model and data set, opened and checked against each other and against the
 * configuration, and the numbers that follow from the three. Reads headers only. */
#ifndef TRAINER_INPUTS_H
#define TRAINER_INPUTS_H

#include "trainer/loader.h"
#include "trainer/run_config.h"

struct inputs {
    struct arena arena;
    struct nf4_file *base;
    struct dataset *data;
    struct adapter_config adapter;
    struct loader_options loader;
    struct loader_shape shape;
    int64_t total_steps;
    uint64_t n_eval; /* eval samples in use; 0 = no evaluation */
    int n_threads;
};

/* Errors name both sides of what does not fit: a vocabulary of another model, samples longer than
 * the model's positions, an option that has no effect with this data set. Sets
 * c->values.no_eval_split. */
FT_NODISCARD ft_status inputs_open(struct inputs *out, struct run_config *c, ft_error *err);
void inputs_close(struct inputs *in); /* also after a failed open */

#endif
