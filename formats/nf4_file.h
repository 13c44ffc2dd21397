/* SPDX-License-Identifier: Apache-2.0
 * The quantised base model, one file: header with model_config and tensor table, then aligned
 * tensors: NF4 for the linear layers, everything else in its own dtype; and the tokenizer as an
 * opaque blob (formats/tok/tok.h). Byte level: docs/formats/nf4.md. */
#ifndef FORMATS_NF4_FILE_H
#define FORMATS_NF4_FILE_H

#include "common/hash.h"
#include "formats/dtype.h"
#include "formats/model_config.h"
#include "formats/nf4.h"

/* What the weights were rounded to before quantisation. */
enum nf4_quant_from { NF4_FROM_CHECKPOINT, NF4_FROM_F16, NF4_FROM_BF16, NF4_FROMS };
#define NF4_FROM_CHOICES "checkpoint|f16|bf16"

struct nf4_tensor {
    const char *name; /* Hugging Face name: "model.layers.0.self_attn.q_proj.weight" */
    enum dtype dtype;
    int n_dims;
    int64_t shape[2];      /* [rows, cols]; [n, 1] for vectors */
    const void *data;      /* mapped, 64-byte aligned; NULL for DT_NF4 */
    size_t bytes;          /* of data; 0 for DT_NF4 */
    struct nf4_matrix nf4; /* DT_NF4 only */
};

struct nf4_file;

/* Maps and validates the header: sizes, ranges, alignment; that every tensor the config asks for is
 * there with the right shape. Touches no tensor data. */
FT_NODISCARD ft_status nf4_file_open(struct nf4_file **out, const char *path, ft_error *err);
/* The same over borrowed memory, 64-byte aligned, which must outlive the handle. */
FT_NODISCARD ft_status nf4_file_parse(struct nf4_file **out, const char *name, const void *data,
                                      size_t bytes, ft_error *err);
void nf4_file_close(struct nf4_file *f); /* NULL is fine */
const struct model_config *nf4_file_config(const struct nf4_file *f);
/* NULL when absent. */
const struct nf4_tensor *nf4_file_find(const struct nf4_file *f, const char *name);
size_t nf4_file_tensors(const struct nf4_file *f);
const struct nf4_tensor *nf4_file_tensor(const struct nf4_file *f, size_t i);
/* XXH3-128 over all tensor data and the config: identifies the base in checkpoints and adapters.
 * Stored in the header; nf4_file_verify recomputes it. */
hash128 nf4_file_fingerprint(const struct nf4_file *f);
str nf4_file_source(const struct nf4_file *f); /* base name of the source, for messages */
hash128 nf4_file_source_fingerprint(const struct nf4_file *f);
enum nf4_quant_from nf4_file_quant_from(const struct nf4_file *f);
str nf4_file_tokenizer(const struct nf4_file *f); /* blob; empty when the source had none */
hash128 nf4_file_tokenizer_fingerprint(const struct nf4_file *f); /* zero when there is none */
uint64_t nf4_file_bytes(const struct nf4_file *f);
/* Reads everything: fingerprints of tensors and tokenizer blob, finite scales. */
FT_NODISCARD ft_status nf4_file_verify(const struct nf4_file *f, ft_error *err);

#endif
