/* SPDX-License-Identifier: Apache-2.0
 * Rows -> samples on several threads: one reads and cuts the sources into batches of rows, n parse,
 * render, encode and compress, one writes in input order. Nothing that is written depends on how
 * many there are. Memory: a fixed number of batches, and at most one batch beyond the byte budget,
 * so a huge row travels alone. */
#ifndef TOOLS_PIPELINE_H
#define TOOLS_PIPELINE_H

#include <stdatomic.h>

#include "tools/sink.h"
#include "tools/source.h"

struct pipeline_options {
    const struct tok *tok;
    const struct chat_template *chat_template;
    const struct source_options *source;
    int n_workers;
    const atomic_bool *stop; /* set from a signal handler: give up soon */
};

/* Reads every source of the manifest (path and use are set), held-out files first, into the sink,
 * and fills in each source's bytes, rows and hash and the report. FT_ESTOP when stop was set. The
 * error is that of the first bad row in input order, whatever the number of threads. */
FT_NODISCARD ft_status pipeline_run(struct sink *sink, const struct pipeline_options *o,
                                    ft_error *err);

#endif
