/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/mem.h"
#include "formats/nf4_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile float sink;

/* The header's own checks (file size, hash) would stop every mutation: they are made to fit. */
static void seal(uint8_t *data, size_t size)
{
    if (size < 64)
        return;
    uint64_t json_bytes = load_u64le(data + 16);
    store_u64le(data + 24, size);
    if (json_bytes <= size - 64)
        store_u64le(data + 32, hash64(data + 64, json_bytes));
}

static void read_all(const struct nf4_file *f)
{
    for (size_t i = 0; i < nf4_file_tensors(f); i++) {
        const struct nf4_tensor *t = nf4_file_tensor(f, i);
        int64_t n = t->shape[0] * t->shape[1];
        float last;
        FT_ASSERT(nf4_file_find(f, t->name) == t);
        if (t->dtype == DT_NF4) {
            nf4_decode(&t->nf4, n - 1, n, &last);
            sink = last;
        } else {
            sink = ((const uint8_t *)t->data)[t->bytes - 1];
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nf4_file *f;
    ft_error err;
    uint8_t *copy = mem_alloc_aligned(size);
    memcpy(copy, data, size);
    seal(copy, size);
    if (nf4_file_parse(&f, "fuzz", copy, size, &err) == FT_OK) {
        read_all(f);
        sink = (float)nf4_file_verify(f, &err);
        nf4_file_close(f);
    }
    mem_free(copy);
    return 0;
}
