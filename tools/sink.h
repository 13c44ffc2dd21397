/* SPDX-License-Identifier: Apache-2.0
 * The end of the mapping pipeline: the samples of a part, in input order, into its files. */
#ifndef TOOLS_SINK_H
#define TOOLS_SINK_H

#include "common/buf.h"
#include "formats/part.h"
#include "formats/shard.h"

struct sink {
    const char *dir;                 /* borrowed; exists */
    const struct manifest *manifest; /* borrowed */
    struct shard_executor executor;  /* who compresses; zeroed = the caller of sink_add */
    struct shard_writer *open[SPLITS];
    struct part part;        /* the one that is being written */
    struct buf rows[SPLITS]; /* its part_rows */
};

/* The part that a sample of a source with this use belongs to. For SOURCE_BOTH its tokens decide,
 * so rows with the same tokens are always on the same side, wherever they stand. */
enum dataset_split sink_choose_split(enum source_use use, double eval_fraction,
                                     const int32_t *tokens, uint32_t n_tokens);
/* How many times a sample is stored: weight times on average, chosen by seed and ids. */
uint64_t sink_choose_copies(const struct manifest_group *g, int64_t seed, hash128 ids);

/* manifest->options and token_bytes are set. */
void sink_init(struct sink *s, const char *dir, const struct manifest *manifest);
/* Drops the part that is being written; finished ones stay. */
void sink_abort(struct sink *s);

/* The report of the part is s->part.report, for the caller to fill. key names the part when it is
 * known before its end; several processes may then write into one directory. */
void sink_begin_part(struct sink *s, const hash128 *key);
FT_NODISCARD ft_status sink_add(struct sink *s, enum dataset_split split,
                                const struct shard_sample *sample, const struct part_row *row,
                                ft_error *err);
FT_NODISCARD ft_status sink_end_part(struct sink *s, hash128 key, ft_error *err);

#endif
