/* SPDX-License-Identifier: Apache-2.0
 * safetensors: a reader for one mapped file or a sharded set behind model.safetensors.index.json,
 * and a streaming writer that publishes atomically (docs/formats/safetensors.md). */
#ifndef FORMATS_SAFETENSORS_H
#define FORMATS_SAFETENSORS_H

#include "common/file.h"
#include "formats/dtype.h"

enum {
    SAFETENSORS_MAX_DIMS = 8,
    SAFETENSORS_MAX_HEADER = 100000000, /* bytes, the limit of the reference implementation */
    SAFETENSORS_MAX_SHARDS = 4096,
};

struct safetensors_tensor {
    const char *name;
    const char *type_name; /* as in the file: "BF16" */
    enum dtype dtype;      /* DTYPES when it cannot be decoded (integers, F64, ...) */
    int n_dims;
    int64_t shape[SAFETENSORS_MAX_DIMS]; /* row-major: the last extent runs fastest */
    int64_t numel;
    const uint8_t *data; /* not aligned */
    size_t bytes;
    size_t shard; /* index of the file it lies in */
};

struct safetensors;

/* A .safetensors file, or an index (*.json) whose shards lie beside it. Checks every header in
 * full: sizes, types, offsets without holes or overlaps, duplicate names, and for an index that
 * each tensor is in the file it names. Touches no tensor data. */
FT_NODISCARD ft_status safetensors_open(struct safetensors **out, const char *path, ft_error *err);
/* One file in borrowed memory, which must outlive the handle; name is for messages. */
FT_NODISCARD ft_status safetensors_parse(struct safetensors **out, const char *name,
                                         const void *data, size_t bytes, ft_error *err);
void safetensors_close(struct safetensors *s); /* NULL is fine */

size_t safetensors_count(const struct safetensors *s);
const struct safetensors_tensor *safetensors_at(const struct safetensors *s,
                                                size_t i); /* by name */
const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name);
/* Value of a __metadata__ key of the (first) file; ptr NULL when absent. */
str safetensors_metadata(const struct safetensors *s, const char *key);
/* Tells the kernel that a tensor's pages are not needed for now; no effect after _parse. */
void safetensors_release(const struct safetensors *s, const struct safetensors_tensor *t);

/* --- writing --------------------------------------------------------------------------------- */

struct safetensors_entry {
    const char *name;
    enum dtype dtype; /* DT_F32, DT_F16 or DT_BF16 */
    int n_dims;
    int64_t shape[SAFETENSORS_MAX_DIMS];
};

struct safetensors_writer {
    struct file_writer file;
    uint64_t end; /* size of the finished file */
};

/* Writes the header; data follows with safetensors_write in the order of the entries. metadata is
 * n_metadata pairs {key, value}, e.g. {"format", "pt"}. Asserts dtypes and dimensions. */
FT_NODISCARD ft_status safetensors_writer_open(struct safetensors_writer *w, const char *path,
                                               const struct safetensors_entry *entries, size_t n,
                                               const char *const (*metadata)[2], size_t n_metadata,
                                               ft_error *err);
void safetensors_write(struct safetensors_writer *w, const void *data, size_t bytes);
/* Asserts that exactly the announced bytes were written. */
FT_NODISCARD ft_status safetensors_writer_commit(struct safetensors_writer *w, ft_error *err);
void safetensors_writer_abort(
    struct safetensors_writer *w); /* no effect after commit or when zeroed */

#endif
