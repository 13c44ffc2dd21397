/* SPDX-License-Identifier: Apache-2.0
 * Checkpoint directories: PARENT/step_N with the adapter in PEFT form, the optimiser's moments, the
 * counters and, written last, the COMMIT record with the hash of every other file. A directory
 * without a matching COMMIT is not a checkpoint. Byte level: docs/formats/checkpoint.md. */
#ifndef FORMATS_CHECKPOINT_H
#define FORMATS_CHECKPOINT_H

#include "common/arena.h"
#include "common/hash.h"

/* state.json: where the run stands, and what it is a run of. */
struct checkpoint_state {
    int64_t step;                   /* steps done; the position in the data */
    int64_t updates;                /* of them, steps that changed the weights: AdamW's t */
    int64_t tokens, trained_tokens; /* seen so far */
    double seconds;                 /* spent in steps so far */
    int64_t eval_step;              /* step of the last evaluation, -1 = none */
    double first_eval_loss, eval_loss;
    int64_t best_step; /* step with the lowest evaluation loss, -1 = none */
    double best_eval_loss;
    double train_loss;   /* of the last step */
    int64_t sample_step; /* step of the last sample answers, -1 = none */
    int64_t n_params;    /* adapter values, padding included */
    hash128 base, data;  /* nf4_file_fingerprint, dataset_fingerprint */
};

/* --- writing: begin, put files into the directory, commit ------------------------------------ */

/* Creates PARENT/step_N.tmp, empty, and returns its path in the arena. */
FT_NODISCARD ft_status checkpoint_begin(const char **dir, struct arena *a, const char *parent,
                                        int64_t step, ft_error *err);
FT_NODISCARD ft_status checkpoint_write_state(const char *dir, const struct checkpoint_state *s,
                                              ft_error *err);
/* AdamW's first and second moment, n values each. */
FT_NODISCARD ft_status checkpoint_write_moments(const char *dir, const float *m, const float *v,
                                                int64_t n, ft_error *err);
/* Writes COMMIT and renames to PARENT/step_N, replacing an older one of that step. Durable when it
 * returns. On failure PARENT/step_N is what it was. */
FT_NODISCARD ft_status checkpoint_commit(const char *parent, int64_t step, ft_error *err);

/* --- reading --------------------------------------------------------------------------------- */

/* Steps of the directories PARENT/step_N, ascending, whole or not. A missing parent has none. */
FT_NODISCARD ft_status checkpoint_list(int64_t **steps, size_t *n, struct arena *a,
                                       const char *parent, ft_error *err);
/* Path of PARENT/step_N; NULL on exhaustion. */
const char *checkpoint_path(struct arena *a, const char *parent, int64_t step);

/* Reads every file and compares it with COMMIT. FT_EFORMAT says what is missing or differs. */
FT_NODISCARD ft_status checkpoint_verify(const char *dir, ft_error *err);
FT_NODISCARD ft_status checkpoint_read_state(struct checkpoint_state *out, const char *dir,
                                             ft_error *err);
FT_NODISCARD ft_status checkpoint_read_moments(float *m, float *v, int64_t n, const char *dir,
                                               ft_error *err);

/* --- upkeep ---------------------------------------------------------------------------------- */

/* Removes PARENT/step_N so that a crash leaves it whole or not listed. */
FT_NODISCARD ft_status checkpoint_remove(const char *parent, int64_t step, ft_error *err);
/* Removes what interrupted writes and removals left behind. */
FT_NODISCARD ft_status checkpoint_clean(const char *parent, ft_error *err);

#endif
