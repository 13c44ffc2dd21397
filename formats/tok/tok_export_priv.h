/* SPDX-License-Identifier: Apache-2.0
 * Writing tokenizer.json: the components around the model. */
#ifndef FORMATS_TOK_TOK_EXPORT_PRIV_H
#define FORMATS_TOK_TOK_EXPORT_PRIV_H

#include "formats/tok/tok_internal.h"

void tok_export_normalizer(struct buf *out, const struct tok_steps *s);
void tok_export_pre_tokenizer(struct buf *out, const struct tok_steps *s, bool byte_level);
void tok_export_decoder(struct buf *out, const struct tok_steps *s);

#endif
