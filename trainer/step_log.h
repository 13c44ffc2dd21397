/* SPDX-License-Identifier: Apache-2.0
 * An append-only file of JSON lines that each carry a "step", never falling: metrics.jsonl and
 * samples.jsonl. Opening cuts it back, so that a resumed run continues its own history. */
#ifndef TRAINER_STEP_LOG_H
#define TRAINER_STEP_LOG_H

#include "common/buf.h"
#include "formats/json.h"

struct step_log {
    int fd; /* -1 = closed */
    char *path;
};

/* Opens the file and cuts it back: keep(ctx, line) says of each whole line whether it stays; the
 * first that does not goes with everything behind it. keep == NULL empties the file. */
FT_NODISCARD ft_status step_log_open(struct step_log *out, const char *path,
                                     ft_status (*keep)(bool *keep, void *ctx, const json *line,
                                                       ft_error *err),
                                     void *ctx, ft_error *err);
/* Writes one record and a newline to the file (to the kernel, not necessarily the disk). */
FT_NODISCARD ft_status step_log_append(struct step_log *l, const struct buf *record, ft_error *err);
FT_NODISCARD ft_status step_log_sync(struct step_log *l, ft_error *err);
void step_log_close(struct step_log *l); /* also after a failed open */

#endif
