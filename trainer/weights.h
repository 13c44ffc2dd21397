/* SPDX-License-Identifier: Apache-2.0
 * The frozen base as views: matrices stay in the mapped file in the form they are stored in; the
 * few vectors (norm gains, biases, RoPE frequencies) are decoded to fp32 once. */
#ifndef TRAINER_WEIGHTS_H
#define TRAINER_WEIGHTS_H

#include "formats/nf4_file.h"
#include "trainer/tensor.h"

struct block_weights {
    struct weight linear[LINEAR_KINDS];
    struct tensor bias[LINEAR_KINDS]; /* tensor_none() where the layer has none */
    struct tensor attention_norm, mlp_norm;
};

struct weights {
    struct weight embedding, head; /* the same matrix when tied */
    struct tensor final_norm;
    struct tensor inv_freq;       /* [1, head_dim / 2] */
    struct block_weights *blocks; /* [n_layers], owned */
};

/* Floats that the decoded vectors take. */
int64_t weights_vector_floats(const struct model_config *c);
/* vectors: fp32 memory of that size, which must outlive the views, as base must. */
FT_NODISCARD ft_status weights_init(struct weights *out, const struct nf4_file *base,
                                    float *vectors, ft_error *err);
void weights_reset(struct weights *w);

#endif
