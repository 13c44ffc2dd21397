/* SPDX-License-Identifier: Apache-2.0
 * plan.json: how the input is divided into parts, and everything that decides what becomes of them.
 * The division depends on the input and part_bytes alone. Byte level: docs/formats/plan.md. */
#ifndef FORMATS_PLAN_H
#define FORMATS_PLAN_H

#include "formats/jsonl.h"
#include "formats/manifest.h"

enum { PLAN_VERSION = 1 };

#define PLAN_FILE "plan.json"

struct plan_piece {
    uint32_t source;
    struct jsonl_piece piece;
};

struct plan_part {
    hash128 key; /* part.h */
    size_t first_piece, n_pieces;
};

struct plan {
    struct manifest manifest; /* without splits and report */
    hash128 tool_hash;        /* of the program; part of every key */
    struct plan_piece *pieces;
    struct plan_part *parts;
    size_t n_pieces, cap_pieces, n_parts, cap_parts;
    uint64_t open_bytes; /* of the pieces behind the last part */
};

void plan_free(struct plan *p); /* zeroed is fine */

/* Appends a piece to the open part; bytes counts towards its size. */
FT_NODISCARD ft_status plan_add_piece(struct plan *p, uint32_t source,
                                      const struct jsonl_piece *piece, uint64_t bytes,
                                      ft_error *err);
/* Makes a part of the pieces behind the last one; none when there are no pieces. */
FT_NODISCARD ft_status plan_close_part(struct plan *p, ft_error *err);

/* Publishes dir/plan.json. */
FT_NODISCARD ft_status plan_write(struct plan *p, const char *dir, ft_error *err);
/* Reads dir/plan.json: checksum, types, ranges; pieces in order and without gaps. */
FT_NODISCARD ft_status plan_load(struct plan *out, const char *dir, ft_error *err);
FT_NODISCARD ft_status plan_parse(struct plan *out, const char *name, str text, ft_error *err);

#endif
