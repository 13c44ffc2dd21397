/* SPDX-License-Identifier: Apache-2.0
 * Between chat.c and the kinds of templates: what a template is, and what its renderer may write.
 */
#ifndef FORMATS_CHAT_TEMPLATE_H
#define FORMATS_CHAT_TEMPLATE_H

#include "formats/chat.h"

/* --- writing --------------------------------------------------------------------------------- */

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
/* Encoding starts anew here. */
void chat_cut(struct chat_writer *w);
/* A cut with an id in it. */
void chat_insert(struct chat_writer *w, int32_t id, bool trained);
/* Whether a message is trained: its own wish, else whether it is the assistant's. */
bool chat_is_trained(const struct chat_message *m);

/* --- templates ------------------------------------------------------------------------------- */

/* How a family of templates works. */
struct chat_kind {
    const char *suffix; /* of the files that hold one, e.g. ".json"; NULL = none do */
    bool tools;         /* it can express tools, calls and results; else chat_render refuses them */
    /* Makes `state` (in the arena or on the heap) and the stop words; name, tok, data and source
     * are set. What it made so far is freed by `destroy` also when it fails. */
    ft_status (*create)(struct chat_template *t, ft_error *err);
    ft_status (*render)(struct chat_writer *w, const struct chat_template *t,
                        const struct chat_conversation *c, bool add_prompt, ft_error *err);
    void (*destroy)(struct chat_template *t); /* NULL = nothing to do */
};

struct chat_template {
    const struct chat_kind *kind;
    const char *name;
    const struct tok *tok; /* borrowed */
    const void *data;      /* of the table row; NULL for files */
    str source;            /* text of the file; empty for rows of the table */
    void *state;           /* the kind's own */
    bool keeps_turn_ends;  /* honours no_eos and sep of messages; else chat_render refuses them */
    struct arena arena;
    int32_t *stop_ids; /* in the arena, as are the words */
    str *stop_words;
    size_t n_stop_ids, n_stop_words, cap_stops;
};

/* Makes room for n stop words; then adds one, as an id or as text. The word is borrowed. */
FT_NODISCARD ft_status chat_reserve_stops(struct chat_template *t, size_t n, ft_error *err);
void chat_add_stop(struct chat_template *t, str word);

/* A row of the table in chat.c. */
struct chat_known {
    const char *name;
    const char *jinja; /* the source it reproduces; NULL = none */
    const struct chat_kind *kind;
    const void *data;
};

/* The tokenizer's own Jinja template, or a file; data "content": the loss is on the messages' own
 * text, wherever the template puts it. */
#define CHAT_JINJA "jinja"
extern const struct chat_kind chat_jinja;

extern const struct chat_kind chat_smollm2;
/* The Jinja source of the SmolLM2 Instruct models. */
extern const char chat_smollm2_jinja[];

#endif
