/* SPDX-License-Identifier: Apache-2.0
 * Rows -> parts on several threads: one reads and cuts the input into batches of rows, n parse,
 * render, encode and compress, one writes in input order. Nothing that is written depends on how
 * many there are. Memory: a fixed number of batches, and at most one batch beyond the byte budget,
 * so a huge row travels alone. */
#ifndef TOOLS_PIPELINE_H
#define TOOLS_PIPELINE_H

#include <stdatomic.h>

#include "formats/plan.h"
#include "tools/sink.h"
#include "tools/source.h"

struct pipeline_options {
    const struct tok *tok;
    const struct chat_template *chat_template;
    const struct source_options *source;
    int n_workers;
    const atomic_bool *stop; /* set from a signal handler: give up soon */
};

/* Reads the whole input of the plan, whose sources are set, writes its parts to the sink and fills
 * in the plan as walk_input does. FT_ESTOP when stop was set. The error is that of the first bad
 * row in input order, whatever the number of threads. Parts that were finished before it stay. */
FT_NODISCARD ft_status pipeline_run(struct sink *sink, struct plan *plan,
                                    const struct pipeline_options *o, ft_error *err);
/* As above, for the n chosen parts of a finished plan. */
FT_NODISCARD ft_status pipeline_run_parts(struct sink *sink, const struct plan *plan,
                                          const size_t *parts, size_t n,
                                          const struct pipeline_options *o, ft_error *err);

#endif
