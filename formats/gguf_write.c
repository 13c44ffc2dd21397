/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/gguf_write.h"

#include <string.h>

#include "common/half.h"

enum { GGUF_VERSION = 3, GGUF_ALIGNMENT = 32 };

/* Type codes of metadata values and of tensors. */
enum { VALUE_U32 = 4, VALUE_F32 = 6, VALUE_STRING = 8 };
enum { TENSOR_F32 = 0, TENSOR_F16 = 1, TENSOR_BF16 = 30 };

static const uint8_t zeros[GGUF_ALIGNMENT];

static void put_str(struct buf *b, str s)
{
    buf_u64le(b, s.len);
    buf_str(b, s);
}

static void put_key(struct gguf_writer *w, const char *key, uint32_t type)
{
    FT_ASSERT(w->data_start == 0);
    put_str(&w->metadata, str_from(key));
    buf_u32le(&w->metadata, type);
    w->n_metadata++;
}

ft_status gguf_write_open(struct gguf_writer *w, const char *path, ft_error *err)
{
    *w = (struct gguf_writer){0};
    return file_writer_open(&w->file, path, err);
}

void gguf_write_str(struct gguf_writer *w, const char *key, str value)
{
    put_key(w, key, VALUE_STRING);
    put_str(&w->metadata, value);
}

void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, key, VALUE_U32);
    buf_u32le(&w->metadata, value);
}

void gguf_write_f32(struct gguf_writer *w, const char *key, float value)
{
    put_key(w, key, VALUE_F32);
    buf_u32le(&w->metadata, f32_to_bits(value));
}

static uint32_t tensor_type(enum dtype t)
{
    FT_ASSERT(t == DT_F32 || t == DT_F16 || t == DT_BF16);
    return t == DT_F32 ? TENSOR_F32 : t == DT_F16 ? TENSOR_F16 : TENSOR_BF16;
}

ft_status gguf_write_tensor(struct gguf_writer *w, const char *name, enum dtype dtype,
                            const int64_t *dims, int n_dims, ft_error *err)
{
    int64_t n = 1;
    size_t bytes, end;
    FT_ASSERT(w->data_start == 0 && n_dims >= 1 && n_dims <= GGUF_WRITE_MAX_DIMS);
    put_str(&w->table, str_from(name));
    buf_u32le(&w->table, (uint32_t)n_dims);
    for (int i = 0; i < n_dims; i++) {
        FT_ASSERT(dims[i] > 0);
        if (__builtin_mul_overflow(n, dims[i], &n))
            return ft_fail(err, FT_ELIMIT, "%s: the tensor is too large", name);
        buf_u64le(&w->table, (uint64_t)dims[i]);
    }
    if (!dtype_bytes(dtype, n, &bytes) || !size_add(w->data_bytes, bytes, &end) ||
        !size_add(end, GGUF_ALIGNMENT, &end))
        return ft_fail(err, FT_ELIMIT, "%s: the file would be too large", name);
    buf_u32le(&w->table, tensor_type(dtype));
    buf_u64le(&w->table, w->data_bytes);
    w->data_bytes = size_align(w->data_bytes + bytes, GGUF_ALIGNMENT);
    w->n_tensors++;
    return FT_OK;
}

static ft_status write_header(struct gguf_writer *w, ft_error *err)
{
    uint8_t head[24] = {'G', 'G', 'U', 'F', GGUF_VERSION};
    FT_TRY(buf_status(&w->metadata, "GGUF metadata", err));
    FT_TRY(buf_status(&w->table, "the GGUF tensor table", err));
    store_u64le(head + 8, w->n_tensors);
    store_u64le(head + 16, w->n_metadata);
    file_write(&w->file, head, sizeof head);
    file_write(&w->file, w->metadata.data, w->metadata.len);
    file_write(&w->file, w->table.data, w->table.len);
    gguf_write_pad(w);
    w->data_start = w->file.written;
    return FT_OK;
}

ft_status gguf_write_data(struct gguf_writer *w, const void *data, size_t n, ft_error *err)
{
    if (w->data_start == 0)
        FT_TRY(write_header(w, err));
    file_write(&w->file, data, n);
    return FT_OK;
}

void gguf_write_pad(struct gguf_writer *w)
{
    uint64_t at = w->file.written;
    file_write(&w->file, zeros,
               (size_t)((at + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT - at));
}

ft_status gguf_write_commit(struct gguf_writer *w, ft_error *err)
{
    if (w->data_start == 0) { /* no tensors */
        ft_status st = write_header(w, err);
        if (st != FT_OK) {
            gguf_write_abort(w);
            return st;
        }
    }
    FT_ASSERT(w->file.written == w->data_start + w->data_bytes);
    ft_status st = file_writer_commit(&w->file, err);
    gguf_write_abort(w);
    return st;
}

void gguf_write_abort(struct gguf_writer *w)
{
    file_writer_abort(&w->file);
    buf_free(&w->metadata);
    buf_free(&w->table);
    *w = (struct gguf_writer){0};
}
