/* SPDX-License-Identifier: Apache-2.0
 * Rules that need the tokenizer and the template, and the last word of the build on a row. */
#ifndef TOOLS_LINT_TOKENS_H
#define TOOLS_LINT_TOKENS_H

#include "formats/chat.h"
#include "tools/lint.h"
#include "tools/source.h"

/* What all threads share, borrowed; tok and chat_template may both be NULL. */
struct lint_model {
    const struct source_options *source;
    const struct tok *tok;
    const struct chat_template *chat_template;
    int64_t max_length; /* 0 = any */
    bool is_own;        /* the template renders as that of the tokenizer's file */
    struct buf between; /* what the template writes between a question and its answer */
    str *specials;      /* texts of special tokens, [n_specials] */
    size_t n_specials;
    uint8_t pairs[1 << 13]; /* a bit for each two bytes that a special token starts with */
};

/* Fills in the rest of m; model-wide findings (T02, T12) go to l. */
FT_NODISCARD ft_status lint_model_init(struct lint_model *m, struct lint_list *l, ft_error *err);
void lint_model_free(struct lint_model *m);

/* Scratch of one thread. */
struct lint_tokens {
    const struct lint_model *model;
    struct conversation conversation;
    struct tok_encoder *encoder;
    struct chat_text text;
    struct tok_ids ids;
    struct buf mask;
};

FT_NODISCARD ft_status lint_tokens_init(struct lint_tokens *t, const struct lint_model *m,
                                        ft_error *err);
void lint_tokens_free(struct lint_tokens *t);
/* The M rules; then the row is read as the build does: what it refuses is an error, under M00 or
 * J13 when no rule has found one. With a model, checks what the row renders to as well. */
FT_NODISCARD ft_status lint_row(struct lint_tokens *t, struct lint_list *l, const json *row,
                                ft_error *err);

#endif
