/* SPDX-License-Identifier: Apache-2.0
 * Goes through the rows of the input in order, dividing it into parts or following a plan. */
#ifndef TOOLS_WALK_H
#define TOOLS_WALK_H

#include "formats/plan.h"

/* What happens on the way; a failure ends the walk. Members may be NULL. */
struct walk_calls {
    ft_status (*row)(void *ctx, uint32_t source, const struct jsonl_row *row, ft_error *err);
    /* Everything of a part went through `row`. */
    ft_status (*part_end)(void *ctx, const struct plan_part *part, ft_error *err);
    /* Now and then: bytes read so far, of the files as stored, or of the part's pieces; true = give
     * up, with FT_ESTOP. */
    bool (*bytes)(void *ctx, uint64_t n);
    void *ctx;
};

/* Reads all sources to their ends (limits of groups permitting), and fills in the pieces and parts
 * of the plan and the sources' bytes, rows and hashes. A part ends behind the first row that brings
 * it to part_bytes; a compressed file is not divided and counts with its own size. */
FT_NODISCARD ft_status walk_input(struct plan *plan, const struct walk_calls *calls, ft_error *err);
/* As above without looking at the rows, with a progress line, until a stop is requested. */
FT_NODISCARD ft_status walk_ahead(struct plan *plan, ft_error *err);
/* Reads the pieces of one part. FT_EFORMAT when they are not what was planned. */
FT_NODISCARD ft_status walk_part(const struct plan *plan, size_t part,
                                 const struct walk_calls *calls, ft_error *err);

#endif
