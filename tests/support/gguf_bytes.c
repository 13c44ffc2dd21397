/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/gguf_bytes.h"

#include <string.h>

#include "common/half.h"

void gguf_put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    buf_cstr(b, "GGUF");
    buf_u32le(b, version);
    buf_u64le(b, n_tensors);
    buf_u64le(b, n_keys);
}

void gguf_put_string(struct buf *b, const char *s)
{
    buf_u64le(b, strlen(s));
    buf_cstr(b, s);
}

void gguf_put_key(struct buf *b, const char *key, enum gguf_kind kind)
{
    gguf_put_string(b, key);
    buf_u32le(b, kind);
}

void gguf_put_u32(struct buf *b, const char *key, uint32_t v)
{
    gguf_put_key(b, key, GGUF_U32);
    buf_u32le(b, v);
}

void gguf_put_f32(struct buf *b, const char *key, float v)
{
    gguf_put_key(b, key, GGUF_F32);
    buf_u32le(b, f32_to_bits(v));
}

void gguf_put_str(struct buf *b, const char *key, const char *v)
{
    gguf_put_key(b, key, GGUF_STRING);
    gguf_put_string(b, v);
}

void gguf_put_tensor(struct buf *b, const char *name, uint32_t n_dims, const uint64_t *shape,
                     uint32_t type, uint64_t offset)
{
    gguf_put_string(b, name);
    buf_u32le(b, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        buf_u64le(b, shape[d]);
    buf_u32le(b, type);
    buf_u64le(b, offset);
}
