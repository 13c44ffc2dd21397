/* SPDX-License-Identifier: Apache-2.0
 * The INPUT arguments of the command line -> files, by the rules of docs/data.md. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include "formats/manifest.h"

/* Fills in m->groups and m->sources: each argument is a group of one or more files,
 *     [name=N,weight=W,repeat=R,limit=L:]PATH
 * where PATH is a file, "-" for standard input, a directory (all row files in and below it), or a
 * pattern with * ? [...]; both of these in the order of their bytes. Training arguments have `use`,
 * those of `eval` follow as SOURCE_EVAL. Every file can be read, and none is named twice.
 * FT_EUSAGE, FT_EIO. */
FT_NODISCARD ft_status inputs_set(struct manifest *m, enum source_use use,
                                  const char *const *inputs, size_t n_inputs,
                                  const char *const *eval, size_t n_eval, ft_error *err);

#endif
