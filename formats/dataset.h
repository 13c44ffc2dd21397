/* SPDX-License-Identifier: Apache-2.0
 * A prepared data set, read side: manifest.json, *.shard, *.packs, tokenizer.tok. Opening maps
 * files and reads headers only, so it takes the same time for any number of samples. Byte level:
 * docs/formats/{manifest,shard,packs}.md. Write side: formats/shard.h and formats/manifest.h. */
#ifndef FORMATS_DATASET_H
#define FORMATS_DATASET_H

#include "common/arena.h"
#include "common/hash.h"

enum dataset_split { SPLIT_TRAIN, SPLIT_EVAL, SPLITS };
extern const char *const split_names[SPLITS];

struct dataset;

FT_NODISCARD ft_status dataset_open(struct dataset **out, const char *dir, ft_error *err);
void dataset_close(struct dataset *d);                /* NULL is fine */
hash128 dataset_fingerprint(const struct dataset *d); /* of the manifest, and of a plan in use */
hash128 dataset_tokenizer_fingerprint(const struct dataset *d); /* tok_fingerprint at build time */
const char *dataset_template(const struct dataset *d);          /* chat template name */
int64_t dataset_vocab(const struct dataset *d);
int64_t dataset_max_length(const struct dataset *d);
struct manifest; /* formats/manifest.h: sources, shards, options, the conservation report */
const struct manifest *dataset_manifest(const struct dataset *d);

struct split_info {
    uint64_t n_samples, n_tokens, n_trained;
    uint32_t longest;        /* tokens in the longest sample */
    uint64_t longest_sample; /* its index */
    uint64_t n_packs;        /* bins of the pack plan; 0 = no plan */
    uint32_t pack_length;    /* tokens a bin may hold */
    uint32_t longest_pack;   /* tokens in the fullest bin, from the plan's header */
};
const struct split_info *dataset_split(const struct dataset *d, enum dataset_split s);

/* How many samples are sorted by length together when batches are grouped: whole steps, of
 * `per_step` samples each. At most 50 steps, fewer in small data sets, so that there are at least
 * four groups to shuffle (the rule of XTuner's LengthGroupedSampler). */
uint64_t dataset_group_samples(uint64_t n_samples, uint64_t per_step);

/* One fixed-width index entry, O(1), no decompression. Asserts i < n_samples. n_tokens is never
 * above the split's `longest`, so buffers of that size always hold a sample. */
struct sample_info {
    uint32_t n_tokens, n_trained;
    uint32_t source; /* index of the input file */
    uint64_t row;    /* zero-based row in it */
};
struct sample_info dataset_sample_info(const struct dataset *d, enum dataset_split s, uint64_t i);
const char *dataset_source_path(const struct dataset *d, uint32_t source);

/* Sample indices of bin b, valid until close. Asserts b < n_packs. NULL when the stored plan or
 * index is damaged there (the bin would not fit): an error for the caller to report, as the plan is
 * mapped and only what is asked for is checked. */
const uint32_t *dataset_pack(const struct dataset *d, enum dataset_split s, uint64_t b, size_t *n);

/* A plan made later by `ftprep pack` takes the place of the data set's own plan of the training
 * part. From then on dataset_fingerprint covers it. FT_EFORMAT when it is damaged or belongs to
 * another data set. */
FT_NODISCARD ft_status dataset_use_plan(struct dataset *d, const char *name, ft_error *err);
/* The bins of such a plan may hold parts of samples; then dataset_pack asserts and these are asked
 * for instead. Each part lies inside its sample. */
struct pack_part; /* formats/packs.h */
bool dataset_has_parts(const struct dataset *d, enum dataset_split s);
const struct pack_part *dataset_pack_parts(const struct dataset *d, enum dataset_split s,
                                           uint64_t b, size_t *n);
/* The plan in use, for what is stored in it besides. */
struct packs;
const struct packs *dataset_plan(const struct dataset *d, enum dataset_split s);
/* "<dir>/train-<name>.packs" in the arena; FT_EUSAGE when the name is not made of letters, digits,
 * '.', '_' and '-'. */
FT_NODISCARD ft_status dataset_plan_path(const char **out, struct arena *a, const char *dir,
                                         const char *name, ft_error *err);

/* NAME of "train-NAME.packs", in the arena; NULL for other files, and on exhaustion. */
const char *dataset_plan_name(struct arena *a, const char *file);

/* Reads samples: decompresses a block, checks its XXH3 once, keeps the last few blocks. One reader
 * per thread. */
struct dataset_reader;
FT_NODISCARD ft_status dataset_reader_create(struct dataset_reader **out, const struct dataset *d,
                                             ft_error *err);
void dataset_reader_destroy(struct dataset_reader *r);
/* tokens[n_tokens] and mask[n_tokens] (1 = trained) into caller memory. FT_EFORMAT names shard and
 * block when the stored bytes are damaged. */
FT_NODISCARD ft_status dataset_read(struct dataset_reader *r, enum dataset_split s, uint64_t i,
                                    int32_t *tokens, uint8_t *mask, ft_error *err);

#endif
