/* SPDX-License-Identifier: Apache-2.0
 * LoRA adapters on disk in PEFT's form: adapter_config.json and adapter_model.safetensors
 * (docs/formats/adapter.md). */
#ifndef FORMATS_ADAPTER_H
#define FORMATS_ADAPTER_H

#include "formats/dtype.h"
#include "formats/model_config.h"

enum { ADAPTER_MAX_RANK = 4096 };

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

/* Writes both files into dir (created), each atomically, the config last. pairs is
 * [n_layers][LINEAR_KINDS]. FT_EFORMAT names a tensor with a value that is not finite; nothing is
 * published then. */
FT_NODISCARD ft_status adapter_save(const char *dir, const struct adapter_config *c,
                                    const struct model_config *model,
                                    const struct adapter_pair *pairs, ft_error *err);

/* The adapter that dir names: dir itself, or dir/adapter when dir is a run or holds an adapter that
 * way. Only looks: opening reports what is missing. */
FT_NODISCARD ft_status adapter_locate(const char **out, struct arena *a, const char *dir,
                                      ft_error *err);
/* Reads the config of any PEFT LoRA adapter this project supports; others are refused by key (DoRA,
 * modules_to_save, per-layer ranks, ...). base_name lives in the arena. */
FT_NODISCARD ft_status adapter_load_config(struct adapter_config *out, struct arena *a,
                                           const char *dir, ft_error *err);
/* Reads the tensors (F32, F16 or BF16) into caller memory, checking names, shapes, that nothing is
 * missing or left over, and that every value is finite. c gives the rank and the targets that the
 * caller made room for. */
FT_NODISCARD ft_status adapter_load(const struct adapter_pair *pairs, const char *dir,
                                    const struct adapter_config *c,
                                    const struct model_config *model, ft_error *err);

/* --- one tensor at a time ----------------------------------------------------------------------
 */

/* An adapter directory opened for reading: the tensor file is mapped and its table checked; values
 * are decoded on demand. */
struct adapter;

/* Checks everything that needs no base model: that the config is supported, that each layer from 0
 * up has both tensors of every target, with shapes that agree, and nothing else. */
FT_NODISCARD ft_status adapter_open(struct adapter **out, const char *dir, ft_error *err);
void adapter_close(struct adapter *ad); /* NULL is fine */
const struct adapter_config *adapter_config_of(const struct adapter *ad);
int64_t adapter_layers(const struct adapter *ad);
/* Input and output features of a targeted kind. */
int64_t adapter_in(const struct adapter *ad, enum linear_kind k);
int64_t adapter_out(const struct adapter *ad, enum linear_kind k);
/* Elements of the largest tensor: the room that adapter_read needs for any of them. */
size_t adapter_largest(const struct adapter *ad);
/* FT_EFORMAT when the layers or shapes are not those of the model. */
FT_NODISCARD ft_status adapter_check_model(const struct adapter *ad,
                                           const struct model_config *model, ft_error *err);
/* Decodes A [rank, in] (or B [out, rank]) of a targeted layer. FT_EFORMAT names the tensor when a
 * value is not finite. */
FT_NODISCARD ft_status adapter_read(const struct adapter *ad, float *dst, int64_t layer,
                                    enum linear_kind k, bool is_b, ft_error *err);
/* Writes an adapter directory with the values in the given plain type, as adapter_save does. */
FT_NODISCARD ft_status adapter_convert(const struct adapter *ad, const char *dir, enum dtype dtype,
                                       ft_error *err);

#endif
