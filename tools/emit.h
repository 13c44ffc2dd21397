/* SPDX-License-Identifier: Apache-2.0
 * Scripts that run the parts of a plan: for make, and for Slurm. */
#ifndef TOOLS_EMIT_H
#define TOOLS_EMIT_H

#include "common/buf.h"

struct emit_options {
    const char *dir; /* of the plan */
    size_t n_parts;
    size_t per_task;   /* parts that one Slurm task maps */
    size_t array_size; /* most tasks of one Slurm array */
};

/* A Makefile with one target per part and one for the data set. part_name(i) is the file that says
 * that part i is there. */
void emit_make(struct buf *out, const struct emit_options *o,
               const char *(*part_name)(void *ctx, size_t i), void *ctx);
/* A shell script that submits job arrays and, behind them, the merge. */
void emit_slurm(struct buf *out, const struct emit_options *o);

#endif
