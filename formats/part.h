/* SPDX-License-Identifier: Apache-2.0
 * A part: the samples of some consecutive pieces of the input, mapped and ready to be merged. Files
 * in a directory of parts, named by a key over everything that decides their bytes:
 *   KEY.train.shard, KEY.eval.shard   the samples (shard.h); none where there is no sample
 *   KEY.rows                          a part_row per sample, those of the training part first
 *   KEY.json                          counts, checksums, report; written last
 * Byte level: docs/formats/plan.md. */
#ifndef FORMATS_PART_H
#define FORMATS_PART_H

#include "formats/manifest.h"

enum { PART_VERSION = 1, PART_ROW_BYTES = 24, PART_NAME_BYTES = 64 };

struct part_row {
    hash128 ids; /* XXH3-128 of the ids as little-endian 32-bit words */
    uint64_t line;
};

struct part_split {
    struct manifest_file file; /* name NULL = no samples */
    struct shard_counts counts;
};

struct part {
    struct arena arena;
    hash128 key;
    struct part_split splits[SPLITS];
    struct manifest_file rows; /* name NULL = no samples */
    struct report report;
};

void part_free(struct part *p); /* zeroed is fine */
/* "<key>.<suffix>" */
void part_name(char dst[PART_NAME_BYTES], hash128 key, const char *suffix);

void part_put_row(struct buf *b, const struct part_row *row);
struct part_row part_row_at(const uint8_t *rows, uint64_t i);

/* Publishes dir/KEY.json: from then on the part is there. */
FT_NODISCARD ft_status part_write(const struct part *p, const char *dir, ft_error *err);
/* Reads dir/KEY.json: checksum, types, ranges, sums. */
FT_NODISCARD ft_status part_load(struct part *out, const char *dir, hash128 key, size_t n_sources,
                                 ft_error *err);
FT_NODISCARD ft_status part_parse(struct part *out, const char *name, str text, size_t n_sources,
                                  ft_error *err);
/* All its files have the size and hash that they should have. */
FT_NODISCARD ft_status part_check(const struct part *p, const char *dir, ft_error *err);

#endif
