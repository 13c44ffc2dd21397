/* SPDX-License-Identifier: Apache-2.0
 * The weights of a model as Hugging Face safetensors, with an adapter folded in. */
#ifndef TOOLS_EXPORT_MERGED_H
#define TOOLS_EXPORT_MERGED_H

#include "common/thread.h"
#include "formats/adapter.h"
#include "tools/export_base.h"

struct export_merged {
    const struct export_base *base;
    const struct adapter *adapter; /* checked against the base; NULL = the base as it is */
    enum dtype dtype;              /* F32, F16 or BF16 */
    uint64_t shard_bytes;          /* most tensor bytes of a file, unless one tensor has more */
    const char *dir;               /* existing directory */
    struct pool *pool;
};

struct export_merged_result {
    int64_t n_tensors, n_files;
    uint64_t bytes; /* of all tensors */
};

/* Writes model.safetensors, or numbered files and model.safetensors.index.json. Weights are read,
 * merged, rounded once to the type and written a few rows at a time. FT_EFORMAT names the tensor
 * when a value does not fit the type; FT_ESTOP after a signal (tools/stop.h). */
FT_NODISCARD ft_status export_merged_write(struct export_merged_result *out,
                                           const struct export_merged *m, ft_error *err);

#endif
