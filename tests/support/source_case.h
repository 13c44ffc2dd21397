/* SPDX-License-Identifier: Apache-2.0
 * Small published models, the same weights as a Hugging Face directory or as a GGUF file. */
#ifndef TESTS_SUPPORT_SOURCE_CASE_H
#define TESTS_SUPPORT_SOURCE_CASE_H

#include "formats/model_config.h"

/* Two blocks with grouped heads; rows of 96 and 65 elements, so that NF4 blocks cross rows and the
 * MLP's matrices end in a short block. */
struct model_config source_config(const char *architecture);

/* Weights of tensor i, a pure function of i and the position. */
void source_values(float *dst, const struct model_tensor *t, int64_t i);

/* Writes dir/config.json and dir/model.safetensors in F32, F16 or BF16. */
void write_hf_model(const char *dir, const struct model_config *c, enum dtype dtype);
/* Writes an F32 GGUF file, Q and K permuted as llama.cpp's converter does. */
void write_gguf_model(const char *path, const struct model_config *c);

#endif
