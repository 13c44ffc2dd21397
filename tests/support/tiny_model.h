/* SPDX-License-Identifier: Apache-2.0
 * A tiny random Llama (2 layers, hidden 64, 4 heads, 2 key/value heads) under the tokenizer
 * data-samples/tokenizer-tiny.json and the smollm2 chat template, and a random adapter for it.
 * Always the same bytes. */
#ifndef TESTS_SUPPORT_TINY_MODEL_H
#define TESTS_SUPPORT_TINY_MODEL_H

#include "formats/adapter.h"

FT_NODISCARD ft_status tiny_model_config(struct model_config *out, ft_error *err);
/* A Hugging Face directory with F32 weights. */
FT_NODISCARD ft_status tiny_model_write(const char *dir, const struct model_config *c,
                                        ft_error *err);
/* Rank 4, all seven linear layers, A and B both random. Asserts two layers. */
FT_NODISCARD ft_status tiny_adapter_write(const char *dir, const struct model_config *c,
                                          ft_error *err);

#endif
