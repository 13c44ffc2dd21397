/* SPDX-License-Identifier: Apache-2.0
 * An adapter as a GGUF file for llama.cpp and what is built on it (docs/export.md). */
#ifndef TOOLS_GGUF_LORA_H
#define TOOLS_GGUF_LORA_H

#include "formats/adapter.h"

/* model is the base the adapter was checked against. dtype: F32, F16 or BF16. */
FT_NODISCARD ft_status gguf_lora_write(const char *path, const struct adapter *ad,
                                       const struct model_config *model, enum dtype dtype,
                                       ft_error *err);

#endif
