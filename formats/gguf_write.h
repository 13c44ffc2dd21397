/* SPDX-License-Identifier: Apache-2.0
 * Writes GGUF version 3 files, streaming: metadata first, then every tensor is declared, then the
 * data of each in the same order. Memory is O(header), never O(tensor). */
#ifndef FORMATS_GGUF_WRITE_H
#define FORMATS_GGUF_WRITE_H

#include "common/buf.h"
#include "common/file.h"
#include "formats/dtype.h"

enum { GGUF_WRITE_MAX_DIMS = 4 };

/* Zeroed = closed. */
struct gguf_writer {
    struct file_writer file;
    struct buf metadata, table; /* encoded key-values and tensor declarations */
    uint64_t n_metadata, n_tensors;
    uint64_t data_bytes; /* padded size of the tensors declared so far */
    uint64_t data_start; /* file offset of the data section; 0 before the first data */
};

FT_NODISCARD ft_status gguf_write_open(struct gguf_writer *w, const char *path, ft_error *err);
/* Metadata. Keys must be distinct. */
void gguf_write_str(struct gguf_writer *w, const char *key, str value);
void gguf_write_u32(struct gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(struct gguf_writer *w, const char *key, float value);
/* Declares a tensor of a plain type (F32, F16, BF16). dims are in GGUF's order: dims[0] is the
 * length of a contiguous row. FT_ELIMIT when sizes overflow. */
FT_NODISCARD ft_status gguf_write_tensor(struct gguf_writer *w, const char *name, enum dtype dtype,
                                         const int64_t *dims, int n_dims, ft_error *err);
/* Data of the next declared tensor, whole, in one or several calls; gguf_write_pad ends it. After
 * the first call nothing more can be declared. */
FT_NODISCARD ft_status gguf_write_data(struct gguf_writer *w, const void *data, size_t n,
                                       ft_error *err);
void gguf_write_pad(struct gguf_writer *w);
/* Publishes the file; asserts that exactly the declared data was written. */
FT_NODISCARD ft_status gguf_write_commit(struct gguf_writer *w, ft_error *err);
void gguf_write_abort(struct gguf_writer *w); /* no effect after commit or on a zeroed writer */

#endif
