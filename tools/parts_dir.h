/* SPDX-License-Identifier: Apache-2.0
 * The mapped parts of a data set, in "<out>.parts" beside it: what a killed build has finished, and
 * what the next build need not map again. */
#ifndef TOOLS_PARTS_DIR_H
#define TOOLS_PARTS_DIR_H

#include "formats/plan.h"

struct parts_dir {
    char *path;
    int lock;      /* of the directory; -1 = it is private and goes away */
    bool is_empty; /* no part was there when it was opened */
};

/* Opens "<out>.parts", or when another build uses it a directory in `work`. */
FT_NODISCARD ft_status parts_dir_open(struct parts_dir *d, const char *out, const char *work,
                                      ft_error *err);
/* Removes the parts that are not in the plan, or all of them without one. */
FT_NODISCARD ft_status parts_dir_prune(const struct parts_dir *d, const struct plan *plan,
                                       ft_error *err);
/* A private or empty directory is removed; that another one stays is told when the command did not
 * finish. Zeroed is fine. */
void parts_dir_close(struct parts_dir *d, bool finished);

/* The part is there and whole. */
bool parts_dir_has(const char *dir, const struct plan *plan, size_t part);

#endif
