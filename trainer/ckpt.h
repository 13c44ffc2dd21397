/* SPDX-License-Identifier: Apache-2.0
 * Saving a run to its checkpoints directory and going on from there. The files are those of
 * formats/checkpoint.h plus config.json, the resolved configuration. */
#ifndef TRAINER_CKPT_H
#define TRAINER_CKPT_H

#include "formats/checkpoint.h"
#include "trainer/inputs.h"
#include "trainer/optim.h"
#include "trainer/run_dir.h"

/* Everything of a run that a checkpoint holds or is checked against. */
struct ckpt_run {
    const struct run_config *config;
    const struct inputs *inputs;
    const struct run_dir *dir;
    struct model *model;
    struct optim *optim;
};

/* Writes step state->step and removes checkpoints beyond checkpoint.keep, except the best. */
FT_NODISCARD ft_status ckpt_save(const struct ckpt_run *r, const struct checkpoint_state *state,
                                 ft_error *err);

/* What run.resume asks for: *path (in the arena) is the checkpoint to go on from, or NULL to start
 * anew. Reads only. Warns of damaged ones that it skips. FT_ESTATE when the directory holds a run
 * that must not be overwritten. */
FT_NODISCARD ft_status ckpt_choose(const char **path, struct arena *a, const char *resume,
                                   const struct run_dir *dir, ft_error *err);

/* Reads the state and checks that it belongs to this run: base, data, and the keys of
 * train_options_fixed. FT_ESTATE names what differs. */
FT_NODISCARD ft_status ckpt_check(struct checkpoint_state *out, const char *path,
                                  const struct run_config *config, const struct inputs *in,
                                  ft_error *err);
/* Loads adapter and optimiser state, and removes later checkpoints of the run, which are damaged or
 * belong to a history that is now rewritten. */
FT_NODISCARD ft_status ckpt_restore(const struct ckpt_run *r, const struct checkpoint_state *state,
                                    const char *path, ft_error *err);

#endif
