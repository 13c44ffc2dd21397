/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece models: text to ids and back, exactly as sentencepiece 0.2.3 does with the same
 * file. BPE, unigram and character models; all normalisation rules; byte fallback; user-defined
 * symbols. */
#ifndef FORMATS_TOK_SPM_H
#define FORMATS_TOK_SPM_H

#include "common/buf.h"
#include "formats/tok/spm_file.h"
#include "formats/tok/tok.h"

struct spm; /* immutable, shared between threads */

/* Copies what it needs. FT_EFORMAT when the file does not make a tokenizer, names what is wrong. */
FT_NODISCARD ft_status spm_create(struct spm **out, const struct spm_file *file, ft_error *err);
void spm_destroy(struct spm *s); /* NULL is fine */

/* The file the model was made of, without what does not matter for ids and text. */
const struct spm_file *spm_contents(const struct spm *s);
int32_t spm_bos(const struct spm *s); /* -1 = none, so the next */
int32_t spm_eos(const struct spm *s);

/* What a piece decodes to in the middle of a text. */
str spm_text(const struct spm *s, int32_t id);

struct spm_encoder; /* scratch and cache of one thread */
FT_NODISCARD ft_status spm_encoder_create(struct spm_encoder **out, const struct spm *s,
                                          ft_error *err);
void spm_encoder_destroy(struct spm_encoder *e); /* NULL is fine */

/* Appends the ids of text (valid UTF-8, under 4 GiB) as one call of SentencePiece's Encode. Offsets
 * are those of SentencePiece's pieces plus `offset`: the byte of the input that the first byte of
 * the normalised piece comes from; all bytes of a character stand at its beginning. */
FT_NODISCARD ft_status spm_encode(struct spm_encoder *e, struct tok_ids *out, str text,
                                  size_t offset, ft_error *err);
/* The normalised text of the last spm_encode, with U+0020 for U+2581. For tests. */
str spm_normalized(const struct spm_encoder *e);

/* Decoding, id by id, appends what becomes certain with this one. Control pieces give nothing. */
void spm_decode(const struct spm *s, struct tok_decoding *d, struct buf *out, int32_t id);
/* Appends what an incomplete character becomes. */
void spm_decode_end(struct tok_decoding *d, struct buf *out);

#endif
