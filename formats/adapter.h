/* SPDX-License-Identifier: Apache-2.0
 * LoRA adapters on disk in PEFT's form: adapter_config.json and adapter_model.safetensors
 * (docs/formats/adapter.md). */
#ifndef FORMATS_ADAPTER_H
#define FORMATS_ADAPTER_H

#include "formats/model_config.h"

struct adapter_config {
    int64_t rank;
    double alpha, dropout;
    bool rslora;
    bool target[LINEAR_KINDS];
    const char *base_name; /* base_model_name_or_path; may be NULL */
};

/* alpha / rank, or alpha / sqrt(rank) with rslora. */
double adapter_scaling(const struct adapter_config *c);

/* A [rank, in] and B [out, rank] of one linear layer, fp32 row-major; NULL when not targeted. */
struct adapter_pair {
    float *a, *b;
};

/* Writes both files atomically into dir (created). pairs is [n_layers][LINEAR_KINDS]. */
FT_NODISCARD ft_status adapter_save(const char *dir, const struct adapter_config *c,
                                    const struct model_config *model,
                                    const struct adapter_pair *pairs, ft_error *err);

/* Reads the config of any PEFT LoRA adapter this project supports; others are refused by key (DoRA,
 * modules_to_save, per-layer ranks, ...). base_name lives in the arena. */
FT_NODISCARD ft_status adapter_load_config(struct adapter_config *out, struct arena *a,
                                           const char *dir, ft_error *err);
/* Reads the tensors (F32, F16 or BF16) into caller memory, checking names, shapes and that nothing
 * is missing or left over. */
FT_NODISCARD ft_status adapter_load(const struct adapter_pair *pairs, const char *dir,
                                    const struct adapter_config *c,
                                    const struct model_config *model, ft_error *err);

#endif
