/* SPDX-License-Identifier: Apache-2.0
 * Writes .nf4 files tensor by tensor in the order of model_tensor_at; the file appears under its
 * name only when complete. */
#ifndef FORMATS_NF4_WRITE_H
#define FORMATS_NF4_WRITE_H

#include "formats/nf4_file.h"

struct nf4_write_options {
    const struct model_config *config;
    const enum dtype
        *dtypes; /* [model_tensors(config)]: DT_NF4 for linear weights, never elsewhere */
    enum nf4_quant_from quant_from;
    const char *source; /* base name of the source */
    str tokenizer;      /* blob, may be empty; borrowed until commit */
    hash128 tokenizer_fingerprint;
};

struct nf4_writer;

/* options and what they point to must outlive the writer. */
FT_NODISCARD ft_status nf4_writer_open(struct nf4_writer **out, const char *path,
                                       const struct nf4_write_options *options, ft_error *err);
/* The next tensor, which must be a linear weight: codes, absmax, absmax2 and offset are read, the
 * map is always the canonical one. */
void nf4_writer_matrix(struct nf4_writer *w, const struct nf4_matrix *m);
/* The next bytes of the next tensor, which must not be a linear weight; any number of pieces. */
void nf4_writer_data(struct nf4_writer *w, const void *data, size_t bytes);
/* Asserts that all tensors were written. */
FT_NODISCARD ft_status nf4_writer_commit(struct nf4_writer *w, hash128 source_fingerprint,
                                         ft_error *err);
uint64_t nf4_writer_bytes(const struct nf4_writer *w); /* size of the finished file */
void nf4_writer_close(struct nf4_writer *w);           /* drops an uncommitted file; NULL is fine */

#endif
