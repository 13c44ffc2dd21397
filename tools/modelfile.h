/* SPDX-License-Identifier: Apache-2.0
 * The chat template for Ollama, so that a model is asked there exactly as it was trained. */
#ifndef TOOLS_MODELFILE_H
#define TOOLS_MODELFILE_H

#include "formats/chat.h"

struct modelfile {
    const char *from;    /* base model or "." */
    const char *note;    /* comment on the FROM line; NULL = none */
    const char *adapter; /* NULL = none */
    const struct tok *tok;
};

/* Appends the text of a Modelfile. The TEMPLATE is derived from what chat_render writes for the
 * tokenizer's template, so both come from the same text. *has_template is false when the tokenizer
 * has no template, or one that is unknown here or cannot be written message by message: Ollama then
 * uses what the base model holds. */
FT_NODISCARD ft_status modelfile_write(struct buf *out, bool *has_template,
                                       const struct modelfile *m, ft_error *err);

#endif
