/* SPDX-License-Identifier: Apache-2.0
 * A training run from its configuration to the finished adapter. docs/training.md walks through a
 * step. */
#ifndef TRAINER_TRAIN_H
#define TRAINER_TRAIN_H

#include "trainer/run_config.h"

/* Trains, or goes on with, the run that c describes. FT_ESTOP after a request to stop: everything
 * is saved and the same call continues. */
FT_NODISCARD ft_status train_run(struct run_config *c, ft_error *err);

/* Opens and checks everything, reports steps and memory, writes nothing. */
FT_NODISCARD ft_status train_check(struct run_config *c, ft_error *err);

#endif
