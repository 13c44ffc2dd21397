/* SPDX-License-Identifier: Apache-2.0
 * The adapter's place in memory: which tensors there are, where each lies in the flat buffers, and
 * how they start. */
#ifndef TRAINER_LORA_H
#define TRAINER_LORA_H

#include "trainer/model.h"

struct adapter_layout {
    struct param_tensor *tensors; /* [n_tensors], owned */
    size_t n_tensors;
    int64_t n; /* floats in all, padding included */
    /* First tensor (A; B follows) of a layer and kind, [n_layers * LINEAR_KINDS]; -1 = no adapter.
     * Owned. */
    int32_t *index;
};

/* Floats of the flat buffer; 0 without an adapter. */
int64_t adapter_layout_floats(const struct model_config *c, const struct adapter_config *adapter);
FT_NODISCARD ft_status adapter_layout_init(struct adapter_layout *out, const struct model_config *c,
                                           const struct adapter_config *adapter, ft_error *err);
void adapter_layout_reset(struct adapter_layout *l);

/* PEFT's default start: see model_init_adapter. */
void adapter_init_values(float *values, const struct adapter_layout *l, uint64_t seed);

#endif
