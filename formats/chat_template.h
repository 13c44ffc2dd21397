/* SPDX-License-Identifier: Apache-2.0
 * Between chat.c and the templates: what a template is, and the three things it may write. */
#ifndef FORMATS_CHAT_TEMPLATE_H
#define FORMATS_CHAT_TEMPLATE_H

#include "formats/chat.h"

/* A chat_text being filled. Exhausted memory is latched and reported once at the end. */
struct chat_writer {
    struct chat_text *out;
    bool failed;
};

/* Text of the template itself, where special tokens are meant. */
void chat_put(struct chat_writer *w, str literal);
/* Text from the conversation. */
void chat_put_content(struct chat_writer *w, str content);
/* The loss is computed on what is written between the two. */
void chat_begin_trained(struct chat_writer *w);
void chat_end_trained(struct chat_writer *w);
/* Whether a message is trained: its own wish, else whether it is the assistant's. */
bool chat_is_trained(const struct chat_message *m);

struct chat_template {
    const char *name;
    const char *jinja;      /* the source it reproduces */
    const char *stop_token; /* ends the assistant's turn */
    ft_status (*render)(struct chat_writer *w, const struct chat_message *messages, size_t n,
                        bool add_prompt, ft_error *err);
};

extern const struct chat_template chat_smollm2;

#endif
