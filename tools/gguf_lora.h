/* SPDX-License-Identifier: Apache-2.0
 * An adapter as a GGUF file for llama.cpp and what is built on it (docs/export.md). */
#ifndef TOOLS_GGUF_LORA_H
#define TOOLS_GGUF_LORA_H

#include "formats/adapter.h"
#include "formats/gguf_write.h"

/* Opens file and writes all of it; gguf_write_commit publishes it, gguf_write_abort, due after a
 * failure as well, drops it. model is the base the adapter was checked against. dtype: F32, F16 or
 * BF16. FT_ESTOP after a signal (tools/stop.h). */
FT_NODISCARD ft_status gguf_lora_write(struct gguf_writer *file, const char *path,
                                       const struct adapter *ad, const struct model_config *model,
                                       enum dtype dtype, ft_error *err);

/* FT_OK when path is a GGUF file of a LoRA adapter. */
FT_NODISCARD ft_status gguf_lora_check(const char *path, ft_error *err);

#endif
