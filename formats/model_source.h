/* SPDX-License-Identifier: Apache-2.0
 * One view over a published model: a GGUF file, or a Hugging Face directory with config.json and
 * safetensors. Tensors carry Hugging Face names, shapes and row order whatever the container. */
#ifndef FORMATS_MODEL_SOURCE_H
#define FORMATS_MODEL_SOURCE_H

#include "formats/model_config.h"

struct source_tensor {
    struct model_tensor spec;
    enum dtype dtype;
    int64_t rows, cols;  /* a vector is one row, or one row per element when it is permuted */
    const uint8_t *data; /* stored rows, not aligned */
    size_t row_bytes;
    int64_t permuted_heads; /* rows are stored in llama.cpp's RoPE order, within this many heads; 0
                               = in Hugging Face order */
};

struct model_source;

/* path: a .gguf file, a directory, or a .safetensors file or index whose directory also holds
 * config.json. Checks that exactly the tensors of the configuration are there, with the right
 * shapes and decodable types. Touches no tensor data. */
FT_NODISCARD ft_status model_source_open(struct model_source **out, const char *path,
                                         ft_error *err);
void model_source_close(struct model_source *s); /* NULL is fine */
const struct model_config *model_source_config(const struct model_source *s);
const char *model_source_name(const struct model_source *s); /* last component of the path */
/* What tok_open takes: the GGUF file, or the tokenizer.json; NULL when there is none. */
const char *model_source_tokenizer(const struct model_source *s);

/* In the order of model_tensor_at; count = model_tensors(config). */
const struct source_tensor *model_source_tensor(const struct model_source *s, int64_t i);
const struct source_tensor *model_source_find(const struct model_source *s, const char *name);

/* Stored bytes of a row in Hugging Face order. */
const uint8_t *source_row(const struct source_tensor *t, int64_t row);
/* Decodes rows [from, to) to fp32. */
void source_read_rows(const struct source_tensor *t, int64_t from, int64_t to, float *dst);
/* Tells the kernel that the tensor's pages are not needed any more. */
void model_source_release(const struct model_source *s, int64_t i);

#endif
