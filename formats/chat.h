/* SPDX-License-Identifier: Apache-2.0
 * Conversations and named chat templates: messages -> text with marked spans -> ids and loss mask.
 * A template is one file formats/chat_<name>.c and one row of the table in chat.c. */
#ifndef FORMATS_CHAT_H
#define FORMATS_CHAT_H

#include "formats/tok/tok.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };
extern const char *const chat_role_names[CHAT_ROLES];

enum chat_loss { CHAT_LOSS_DEFAULT, CHAT_LOSS_OFF, CHAT_LOSS_ON }; /* default: assistant only */

struct chat_message {
    enum chat_role role;
    enum chat_loss loss;
    str content; /* valid UTF-8, may contain NUL; borrowed */
};

/* Rendered text with two kinds of marks, both ascending and disjoint. Zeroed = empty; reusable. */
struct chat_text {
    struct buf text;
    struct tok_range *literal; /* written by the template: special tokens are parsed here */
    struct tok_range *trained; /* the loss is computed on tokens whose first byte lies inside */
    size_t n_literal, cap_literal, n_trained, cap_trained;
};
void chat_text_free(struct chat_text *t);

struct chat_template;
/* NULL when unknown. */
const struct chat_template *chat_template_find(const char *name);
size_t chat_template_count(void);
const char *chat_template_name(size_t i);
/* Name of the template whose Jinja source equals `jinja` (but for white space at the ends), or NULL
 * when there is none. */
const char *chat_template_for(str jinja);

/* Replaces the content of out. add_prompt appends the assistant's header, for generation. Fails
 * with FT_EFORMAT, naming the message index, on a sequence the template does not allow. */
FT_NODISCARD ft_status chat_render(struct chat_text *out, const struct chat_template *t,
                                   const struct chat_message *messages, size_t n, bool add_prompt,
                                   ft_error *err);

/* Encodes rendered text. mask[i] is 1 where token i is trained; [ids->n], owned by the caller as
 * part of `mask` (cleared first). Content specials per `content`: literal (default) or parse. */
FT_NODISCARD ft_status chat_encode(struct tok_ids *ids, struct buf *mask, struct tok_encoder *e,
                                   const struct chat_text *text, enum tok_specials content,
                                   ft_error *err);

/* Special ids that end the assistant's turn under this template (for generation), e.g. <|im_end|>.
 * -1 when the tokenizer lacks it. */
int32_t chat_stop_id(const struct chat_template *t, const struct tok *tok);

#endif
