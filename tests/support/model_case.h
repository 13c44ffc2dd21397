/* SPDX-License-Identifier: Apache-2.0
 * Small models and batches for tests of the trainer. */
#ifndef TESTS_SUPPORT_MODEL_CASE_H
#define TESTS_SUPPORT_MODEL_CASE_H

#include "tests/support/numeric.h"
#include "trainer/model.h"

/* A Llama configuration with every size odd enough to matter: grouped heads, NF4 blocks that cross
 * rows. 2 layers, hidden 48, vocabulary 101. */
struct model_config tiny_config(void);
/* Writes a base with random weights for c under the test directory and opens it. Embedding and head
 * are F16, norms and biases F32. */
struct nf4_file *tiny_base(const char *name, const struct model_config *c, uint64_t seed);
/* Rank 4, alpha 8, all seven kinds. */
struct adapter_config tiny_adapter(void);
/* Gives A and B of every adapter random values; B too, so that gradients flow everywhere. */
void randomize_adapter(struct model *m, uint64_t seed);

/* n_seqs sequences of these lengths with random tokens below vocab; about three in four trained. */
struct micro_batch random_batch(const int64_t *lengths, int64_t n_seqs, int64_t vocab,
                                uint64_t seed);
/* {"tokens": [...], "trained": [0 or 1, ...], "starts": [0, ...]} */
struct micro_batch load_batch(const char *path);

struct model *open_model(struct backend *be, const struct nf4_file *base,
                         const struct model_options *o);

#endif
