/* SPDX-License-Identifier: Apache-2.0
 * A whole adapter directory from one input: the config text, a NUL byte, the tensor file.
 * Everything that opens is read to the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "formats/adapter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_VALUES = 1 << 20 };

static void read_all(const struct adapter *ad)
{
    ft_error err;
    size_t n = adapter_largest(ad);
    float *values = n > MAX_VALUES ? NULL : malloc((n + 1) * sizeof *values);
    for (int64_t layer = 0; values != NULL && layer < adapter_layers(ad); layer++)
        for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
            enum linear_kind k = (enum linear_kind)(i / 2);
            ft_status st = FT_OK;
            if (adapter_config_of(ad)->target[k])
                st = adapter_read(ad, values, layer, k, i % 2 == 1, &err);
            FT_ASSERT(st == FT_OK || st == FT_EFORMAT);
        }
    free(values);
}

/* Plain writes: making millions of inputs durable would be most of the work. */
static void put_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    FT_ASSERT(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char dir[] = "build/fuzz-adapter";
    struct adapter *ad;
    ft_error err;
    const uint8_t *nul = size == 0 ? NULL : memchr(data, 0, size);
    size_t n_config = nul == NULL ? size : (size_t)(nul - data);
    size_t n_tensors = nul == NULL ? 0 : size - n_config - 1;
    FT_ASSERT(dir_create(dir, &err) == FT_OK);
    put_file("build/fuzz-adapter/adapter_config.json", data, n_config);
    put_file("build/fuzz-adapter/adapter_model.safetensors", data + size - n_tensors, n_tensors);
    if (adapter_open(&ad, dir, &err) == FT_OK)
        read_all(ad);
    adapter_close(ad);
    return 0;
}
