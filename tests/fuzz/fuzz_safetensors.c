/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors *s;
    ft_error err;
    if (safetensors_parse(&s, "fuzz", data, size, &err) != FT_OK)
        return 0;
    size_t total = 0;
    for (size_t i = 0; i < safetensors_count(s); i++) {
        const struct safetensors_tensor *t = safetensors_at(s, i);
        FT_ASSERT(safetensors_find(s, t->name) == t);
        if (t->bytes > 0) {
            sink = t->data[0];
            sink = t->data[t->bytes - 1];
        }
        total += t->bytes;
    }
    FT_ASSERT(total <= size); /* disjoint */
    sink = safetensors_metadata(s, "format").len > 0;
    safetensors_close(s);
    return 0;
}
