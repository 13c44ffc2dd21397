/* SPDX-License-Identifier: Apache-2.0
 * The directory a run writes, and the lock that keeps a second process out of it. */
#ifndef TRAINER_RUN_DIR_H
#define TRAINER_RUN_DIR_H

#include "common/arena.h"
#include "common/error.h"

struct run_dir {
    struct arena arena;
    const char *path;
    const char *config, *metrics, *samples, *checkpoints, *adapter, *picture, *summary; /* paths */
    int lock_fd;
};

/* Creates the directory and takes its lock, which the kernel drops when the process ends however
 * it ends. FT_ESTATE names the process that holds it. */
FT_NODISCARD ft_status run_dir_open(struct run_dir *out, const char *path, ft_error *err);
/* As run_dir_open for a dry run: finds out whether the directory could be made, written and locked,
 * and leaves nothing behind. */
FT_NODISCARD ft_status run_dir_probe(struct run_dir *out, const char *path, ft_error *err);
void run_dir_close(struct run_dir *d); /* also after a failed open */

#endif
