/* SPDX-License-Identifier: Apache-2.0
 * Between adapter.c and adapter_config.c only. */
#ifndef FORMATS_ADAPTER_PRIV_H
#define FORMATS_ADAPTER_PRIV_H

#include "formats/adapter.h"

#define ADAPTER_CONFIG_NAME  "adapter_config.json"
#define ADAPTER_TENSORS_NAME "adapter_model.safetensors"

/* The text of adapter_config.json. */
void adapter_config_text(struct buf *out, const struct adapter_config *c);

#endif
