/* SPDX-License-Identifier: Apache-2.0
 * Lint of whole files: rows are read in batches, checked on several threads and handed on in input
 * order. Memory: one batch, and one row more. */
#ifndef TOOLS_LINT_RUN_H
#define TOOLS_LINT_RUN_H

#include <stdatomic.h>

#include "common/file.h"
#include "formats/manifest.h"
#include "tools/lint_tokens.h"

/* Where a finding stands. */
struct lint_place {
    const char *path;
    bool whole_file;    /* then row and line mean nothing */
    uint64_t row, line; /* row from 0, line from 1 */
};

struct lint_run {
    const struct lint_model *model;
    int n_threads;
    const atomic_bool *stop;
    struct file_writer *fixed; /* where fixed rows go; NULL = nowhere */
    /* Called in input order for every finding that was kept; an error ends the run. */
    ft_status (*found)(void *ctx, const struct lint_place *place, const struct lint_finding *f,
                       ft_error *err);
    void *ctx;

    /* results */
    uint64_t n_rows, n_bad_rows; /* bad = with at least one error */
    uint64_t counts[LINT_CODES], fixes[LINT_CODES];
};

/* FT_OK whatever the files hold; errors are those of the machine, a missing file, FT_ESTOP. */
FT_NODISCARD ft_status lint_files(struct lint_run *r, const struct manifest_source *sources,
                                  size_t n, ft_error *err);
/* Adds findings that belong to no row. */
FT_NODISCARD ft_status lint_whole_file(struct lint_run *r, const char *path,
                                       const struct lint_list *l, ft_error *err);

#endif
