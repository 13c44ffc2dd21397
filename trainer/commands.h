/* SPDX-License-Identifier: Apache-2.0
 * The commands of fttrain, one per cmd_<name>.c. */
#ifndef TRAINER_COMMANDS_H
#define TRAINER_COMMANDS_H

#include "common/opt.h"

extern const struct command cmd_train, cmd_generate;

#endif
