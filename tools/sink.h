/* SPDX-License-Identifier: Apache-2.0
 * The end of the build pipeline: kept samples, in input order, into the shards of their split; then
 * pack plans, tokenizer and manifest. */
#ifndef TOOLS_SINK_H
#define TOOLS_SINK_H

#include "common/buf.h"
#include "formats/manifest.h"
#include "formats/shard.h"
#include "formats/tok/tok.h"

struct sink {
    const char *dir;           /* borrowed; exists */
    struct manifest *manifest; /* borrowed; splits are filled in */
    struct shard_writer *open[SPLITS];
    struct shard_executor executor; /* who compresses; zeroed = the caller of sink_add */
    struct buf held_out;            /* uint64_t: hashes of the samples of --eval files */
    bool sorted;                    /* held_out is in ascending order */
    uint64_t n_repeated;            /* training samples whose tokens are held out, too */
};

/* The part that a sample of a source with this use belongs to. For SOURCE_BOTH its tokens decide,
 * so rows with the same tokens are always on the same side, wherever they stand. */
enum dataset_split sink_choose_split(enum source_use use, double eval_fraction,
                                     const int32_t *tokens, uint32_t n_tokens);

/* Writes nothing yet. manifest->options and token_bytes are set. */
void sink_init(struct sink *s, const char *dir, struct manifest *manifest);
/* Drops what is open and frees memory; the shards of a sink_finish before it stay. */
void sink_abort(struct sink *s);

/* Held-out samples come before those trained on, so that each of the latter can be looked up among
 * all of the former: 8 bytes of memory per held-out sample, none per training sample. With an
 * eval_fraction nothing is looked up, for equal samples are on the same side then. */
FT_NODISCARD ft_status sink_add(struct sink *s, enum dataset_split split,
                                const struct shard_sample *sample, ft_error *err);
/* Everything but the manifest itself. */
FT_NODISCARD ft_status sink_finish(struct sink *s, const struct tok *tok, ft_error *err);

#endif
