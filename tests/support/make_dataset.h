/* SPDX-License-Identifier: Apache-2.0
 * Small valid data sets with known content, without a tokenizer. */
#ifndef TESTS_SUPPORT_MAKE_DATASET_H
#define TESTS_SUPPORT_MAKE_DATASET_H

#include "formats/manifest.h"

struct made {
    const char *dir;
    int64_t vocab;
    uint32_t max_length;
    const uint32_t *lengths; /* [n_train + n_eval], each 2 .. max_length */
    size_t n_train, n_eval;
    uint64_t samples_per_shard; /* 0 = all in one */
};

/* Writes the whole directory; fails the running test otherwise. tokenizer.tok holds the bytes
 * "none". */
void make_dataset(const struct made *m);

/* Token and mask of sample i of a split at position j. */
int32_t made_token(const struct made *m, enum dataset_split s, uint64_t i, uint32_t j);
uint8_t made_mask(const struct made *m, enum dataset_split s, uint64_t i, uint32_t j);

#endif
