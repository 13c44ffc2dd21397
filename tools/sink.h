/* SPDX-License-Identifier: Apache-2.0
 * The end of the build pipeline: kept samples, in input order, into the shards of their split; then
 * pack plans, tokenizer and manifest. */
#ifndef TOOLS_SINK_H
#define TOOLS_SINK_H

#include "formats/manifest.h"
#include "formats/shard.h"
#include "formats/tok/tok.h"

struct sink {
    const char *dir;           /* borrowed; exists */
    struct manifest *manifest; /* borrowed; splits are filled in */
    struct shard_writer *open[SPLITS];
    struct shard_executor executor; /* who compresses; zeroed = the caller of sink_add */
};

/* The part that a sample of a source with this use belongs to. For SOURCE_BOTH its tokens decide,
 * so rows with the same tokens are always on the same side, wherever they stand. */
enum dataset_split sink_choose_split(enum source_use use, double eval_fraction,
                                     const int32_t *tokens, uint32_t n_tokens);

/* Writes nothing yet. manifest->options and token_bytes are set. */
void sink_init(struct sink *s, const char *dir, struct manifest *manifest);
void sink_abort(struct sink *s); /* drops the open shards; no effect after sink_finish */

FT_NODISCARD ft_status sink_add(struct sink *s, enum dataset_split split,
                                const struct shard_sample *sample, ft_error *err);
/* Everything but the manifest itself. */
FT_NODISCARD ft_status sink_finish(struct sink *s, const struct tok *tok, ft_error *err);

#endif
