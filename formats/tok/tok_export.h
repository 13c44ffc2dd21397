/* SPDX-License-Identifier: Apache-2.0
 * A loaded tokenizer as the files Hugging Face reads, whatever format it came from. */
#ifndef FORMATS_TOK_TOK_EXPORT_H
#define FORMATS_TOK_TOK_EXPORT_H

#include "formats/tok/tok.h"

/* Appends the text of tokenizer.json. tok_open reads it back to the same fingerprint, and Hugging
 * Face tokenizers gives the same ids. FT_EFORMAT when two ids stand for the same bytes, which the
 * format cannot say. */
FT_NODISCARD ft_status tok_to_json(struct buf *out, const struct tok *t, ft_error *err);
/* The file that holds the tokenizer: tokenizer.model for one of SentencePiece, which no
 * tokenizer.json can say, else tokenizer.json. */
const char *tok_file_name(const struct tok *t);
/* Appends what belongs into that file. */
FT_NODISCARD ft_status tok_to_file(struct buf *out, const struct tok *t, ft_error *err);
/* Appends the text of tokenizer_config.json: class, BOS, EOS, chat template, longest input. */
void tok_to_config_json(struct buf *out, const struct tok *t, int64_t max_positions);

#endif
