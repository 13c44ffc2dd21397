/* SPDX-License-Identifier: Apache-2.0
 * The commands of ftprep, one per cmd_<name>.c. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "common/opt.h"

extern const struct command cmd_build;
extern const struct command cmd_check;
extern const struct command cmd_plan;
extern const struct command cmd_map;
extern const struct command cmd_merge;
extern const struct command cmd_inspect;
extern const struct command cmd_stats;
extern const struct command cmd_pack;
extern const struct command cmd_verify;
extern const struct command cmd_diff;
extern const struct command cmd_templates;
extern const struct command cmd_quantize;
extern const struct command cmd_export;
extern const struct command cmd_tokenize;
extern const struct command cmd_detokenize;
extern const struct command cmd_count;

#endif
