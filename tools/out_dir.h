/* SPDX-License-Identifier: Apache-2.0
 * A directory that appears whole or not at all: it is filled under "<path>.tmp.<pid>" beside its
 * final place and moved there by one rename. A killed process leaves the final place as it was. */
#ifndef TOOLS_OUT_DIR_H
#define TOOLS_OUT_DIR_H

#include "common/file.h"

struct out_dir {
    char *path;   /* without a trailing slash */
    char *work;   /* where the files go until the commit */
    char *parent; /* directory of both */
};

/* Creates the working directory, and the parents of path. */
FT_NODISCARD ft_status out_dir_begin(struct out_dir *o, const char *path, ft_error *err);
/* Moves it into place. What is there already is swapped out and removed when `replace`; otherwise
 * only an empty directory may be there. Ends the use of o either way. */
FT_NODISCARD ft_status out_dir_commit(struct out_dir *o, bool replace, ft_error *err);
void out_dir_abort(struct out_dir *o); /* removes what was written; zeroed is fine */

#endif
