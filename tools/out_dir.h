/* SPDX-License-Identifier: Apache-2.0
 * A directory that appears whole or not at all: it is filled under "<path>.tmp.<pid>" beside its
 * final place and moved there by one rename. A killed process leaves the final place as it was, and
 * its working directory to be removed by the next one. */
#ifndef TOOLS_OUT_DIR_H
#define TOOLS_OUT_DIR_H

#include "common/file.h"

struct out_dir {
    char *path;   /* without a trailing slash */
    char *work;   /* where the files go until the commit */
    char *parent; /* directory of both */
    int lock;     /* work, opened and locked as long as we live; -1 = cannot be locked */
};

/* Creates the working directory, and the parents of path. Removes the working directories of
 * processes that are surely dead (their lock is free, and they ran under this boot of this machine)
 * and names the others. */
FT_NODISCARD ft_status out_dir_begin(struct out_dir *o, const char *path, ft_error *err);
/* Moves it into place. What is there already is swapped out and removed when `replace`; otherwise
 * only an empty directory may be there. Ends the use of o either way. */
FT_NODISCARD ft_status out_dir_commit(struct out_dir *o, bool replace, ft_error *err);
void out_dir_abort(struct out_dir *o); /* removes what was written; zeroed is fine */

/* Opens the directory and takes its lock; -1 when somebody else has it or it cannot be locked. The
 * lock lasts until the descriptor is closed, at the latest by the end of the process. */
int dir_lock(const char *path);

#endif
