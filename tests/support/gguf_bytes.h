/* SPDX-License-Identifier: Apache-2.0
 * GGUF files in memory, byte by byte, so that tests can also write wrong ones. */
#ifndef TESTS_SUPPORT_GGUF_BYTES_H
#define TESTS_SUPPORT_GGUF_BYTES_H

#include "common/buf.h"
#include "formats/gguf.h"

void gguf_put_header(struct buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys);
void gguf_put_string(struct buf *b, const char *s);
/* A key and its type; the value follows. */
void gguf_put_key(struct buf *b, const char *key, enum gguf_kind kind);
void gguf_put_u32(struct buf *b, const char *key, uint32_t v);
void gguf_put_f32(struct buf *b, const char *key, float v);
void gguf_put_str(struct buf *b, const char *key, const char *v);
/* A tensor declaration; type is ggml's number. */
void gguf_put_tensor(struct buf *b, const char *name, uint32_t n_dims, const uint64_t *shape,
                     uint32_t type, uint64_t offset);

#endif
