/* SPDX-License-Identifier: Apache-2.0
 * GGUF reader, versions 2 and 3, little-endian (docs/formats/gguf.md): metadata and tensor table of
 * a mapped file. Nothing is copied: strings, arrays and tensor data point into the map. */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include "common/error.h"
#include "common/str.h"
#include "formats/dtype.h"

enum {
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_KEYS = 65536,
    GGUF_MAX_TENSORS = 1 << 20,
    GGUF_MAX_NAME = 65535, /* bytes of a key or of a tensor name */
};

enum gguf_kind { /* numbers as in the file */
                 GGUF_U8,
                 GGUF_I8,
                 GGUF_U16,
                 GGUF_I16,
                 GGUF_U32,
                 GGUF_I32,
                 GGUF_F32,
                 GGUF_BOOL,
                 GGUF_STRING,
                 GGUF_ARRAY,
                 GGUF_U64,
                 GGUF_I64,
                 GGUF_F64,
                 GGUF_KINDS
};

/* An array value. Elements are not aligned: read them with the functions below. */
struct gguf_array {
    enum gguf_kind kind; /* of the elements, never GGUF_ARRAY */
    uint64_t n;
    const uint8_t *data; /* borrowed from the file */
};

struct gguf_tensor {
    str name;
    const char *type_name; /* as ggml calls it: "Q4_K" */
    enum dtype dtype;      /* DTYPES when this program cannot decode the type */
    int n_dims;
    int64_t shape[GGUF_MAX_DIMS]; /* in file order: shape[0] runs fastest; 1 beyond n_dims */
    const uint8_t *data;
    size_t bytes;
};

struct gguf;

/* Maps the file and checks the whole header: every count, length and offset against the file size,
 * duplicate keys and tensors, overlapping tensors. Touches no tensor data. */
FT_NODISCARD ft_status gguf_open(struct gguf **out, const char *path, ft_error *err);
/* The same over borrowed memory, which must outlive the handle; name is for messages. */
FT_NODISCARD ft_status gguf_parse(struct gguf **out, const char *name, const void *data,
                                  size_t bytes, ft_error *err);
void gguf_close(struct gguf *g); /* NULL is fine */
const char *gguf_name(const struct gguf *g);

/* Metadata. The need_ and opt_ functions fail with FT_EFORMAT "FILE: KEY is missing", "... expected
 * a string, found an array"; integers of any width and sign are accepted where they fit. */
bool gguf_has(const struct gguf *g, const char *key);
FT_NODISCARD ft_status gguf_need_str(str *out, const struct gguf *g, const char *key,
                                     ft_error *err);
FT_NODISCARD ft_status gguf_need_i64(int64_t *out, const struct gguf *g, const char *key,
                                     int64_t min, int64_t max, ft_error *err);
FT_NODISCARD ft_status gguf_need_array(struct gguf_array *out, const struct gguf *g,
                                       const char *key, enum gguf_kind kind, ft_error *err);
/* An absent key gives the fallback. */
FT_NODISCARD ft_status gguf_opt_str(str *out, const struct gguf *g, const char *key, str fallback,
                                    ft_error *err);
FT_NODISCARD ft_status gguf_opt_i64(int64_t *out, const struct gguf *g, const char *key,
                                    int64_t fallback, int64_t min, int64_t max, ft_error *err);
FT_NODISCARD ft_status gguf_opt_f64(double *out, const struct gguf *g, const char *key,
                                    double fallback, ft_error *err);
FT_NODISCARD ft_status gguf_opt_bool(bool *out, const struct gguf *g, const char *key,
                                     bool fallback, ft_error *err);

/* Takes the first string of an array of strings off its front; asserts that n > 0. Walk a copy. */
str gguf_array_next_str(struct gguf_array *a);
/* Element i of an array of integers or booleans; asserts kind and range. A uint64 above INT64_MAX
 * wraps. */
int64_t gguf_array_i64(const struct gguf_array *a, uint64_t i);
/* Element i of an array of F32 or F64. */
double gguf_array_f64(const struct gguf_array *a, uint64_t i);

size_t gguf_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i);      /* in file order */
const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, str name); /* NULL when absent */
/* Tells the kernel that a tensor's pages are not needed for now; no effect after gguf_parse. */
void gguf_release_tensor(const struct gguf *g, const struct gguf_tensor *t);

#endif
