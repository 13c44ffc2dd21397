/* SPDX-License-Identifier: Apache-2.0
 * The base model of an export: a published model (GGUF file, Hugging Face directory) or an .nf4
 * file, read row by row as fp32 under one interface. */
#ifndef TOOLS_EXPORT_BASE_H
#define TOOLS_EXPORT_BASE_H

#include "formats/model_config.h"
#include "formats/tok/tok.h"

struct export_base;

FT_NODISCARD ft_status export_base_open(struct export_base **out, const char *path, ft_error *err);
void export_base_close(struct export_base *b); /* NULL is fine */
const struct model_config *export_base_config(const struct export_base *b);
/* The weights are NF4: what is read are the dequantised values. */
bool export_base_is_nf4(const struct export_base *b);
/* For .nf4 files the name of the model they were made from, else NULL. */
const char *export_base_source(const struct export_base *b);
/* The Hugging Face directory, NULL when the base is not one. */
const char *export_base_dir(const struct export_base *b);
/* Opens the tokenizer that came with the model; *out is NULL when there was none. */
FT_NODISCARD ft_status export_base_tok(struct tok **out, const struct export_base *b,
                                       ft_error *err);

/* Rows [from, to) of tensor i of model_tensor_at, [(to - from) * cols]; a vector is one row.
 * Thread-safe. */
void export_base_read(const struct export_base *b, int64_t i, int64_t from, int64_t to, float *dst);
/* Tells the kernel that the pages of tensor i are not needed any more. */
void export_base_release(const struct export_base *b, int64_t i);

#endif
