/* SPDX-License-Identifier: Apache-2.0
 * Conversations and chat templates: messages -> text with marks -> ids and loss mask.
 * Templates are rows of the tables in chat.c and chat_xtuner_table.c, or files of the user. */
#ifndef FORMATS_CHAT_H
#define FORMATS_CHAT_H

#include "formats/json.h"
#include "formats/tok/tok.h"

/* --- conversations --------------------------------------------------------------------------- */

enum chat_role {
    CHAT_SYSTEM,
    CHAT_DEVELOPER, /* OpenAI's later name for system messages */
    CHAT_USER,
    CHAT_ASSISTANT,
    CHAT_TOOL,     /* the result of a tool call */
    CHAT_FUNCTION, /* its older form */
    CHAT_ROLES
};
extern const char *const chat_role_names[CHAT_ROLES];

enum chat_loss { CHAT_LOSS_DEFAULT, CHAT_LOSS_OFF, CHAT_LOSS_ON }; /* default: assistant only */

struct chat_message {
    enum chat_role role;
    enum chat_loss loss;
    str content; /* valid UTF-8, may contain NUL; parts joined; empty when null; borrowed */
    str name;    /* of the participant or function; empty = none */
    /* The message as it stands in the row, in OpenAI's form, for what has no field here (tool_calls
     * and so on); NULL when the row had another form. Borrowed. */
    const json *json;
    /* Of XTuner's own rows, for text that is complete as it is. */
    bool no_eos; /* "need_eos_token": false */
    str sep;     /* behind the turn */
};

/* Borrowed, all of it. */
struct chat_conversation {
    const struct chat_message *messages;
    size_t n;
    const json *tools; /* list of tool definitions in OpenAI's form; NULL = none */
    const json *row;   /* the whole row, when it is an object; NULL = none */
};

bool chat_message_has_calls(const struct chat_message *m); /* "tool_calls" or "function_call" */

/* --- rendered text --------------------------------------------------------------------------- */

/* A place where encoding starts anew: no token reaches across it. */
struct chat_cut {
    size_t at;
    int32_t id;       /* put in here, between what is before and behind; -1 = none */
    bool trained;     /* the loss is computed on that id */
    size_t n_literal; /* literal ranges before it */
};

/* Rendered text with three kinds of marks, all ascending. Zeroed = empty; reusable. */
struct chat_text {
    struct buf text;
    /* Written by the template: special tokens are parsed here. Counted from the cut before. */
    struct tok_range *literal;
    struct tok_range *trained; /* the loss is computed on tokens whose first byte lies inside */
    struct chat_cut *cuts;     /* several may be at one place: their ids follow each other */
    size_t n_literal, cap_literal, n_trained, cap_trained, n_cuts, cap_cuts;
    size_t n_skipped; /* messages in front that the template leaves out by its own rules */
};
void chat_text_free(struct chat_text *t);

/* --- templates ------------------------------------------------------------------------------- */

/* A template made for one tokenizer. Immutable: threads share it. */
struct chat_template;

/* name: one of the table; "auto" for what the tokenizer's file carries, as a template of the table
 * when it equals one; or the path of a user's own template, told by its suffix. The tokenizer must
 * live on. FT_EUSAGE for an unknown name, FT_EFORMAT for a template that is broken or does not fit
 * the tokenizer. */
FT_NODISCARD ft_status chat_template_open(struct chat_template **out, const char *name,
                                          const struct tok *tok, ft_error *err);
/* From what chat_template_name and chat_template_source gave when a data set was built. */
FT_NODISCARD ft_status chat_template_restore(struct chat_template **out, const char *name,
                                             str source, const struct tok *tok, ft_error *err);
void chat_template_close(struct chat_template *t);             /* NULL is fine */
const char *chat_template_name(const struct chat_template *t); /* of the table, or the file's */
str chat_template_source(const struct chat_template *t);       /* a file's text; empty for names */

/* The table. */
size_t chat_known_count(void);
const char *chat_known_name(size_t i);
/* Appends the strings a template is made of as JSON, in the form of a user's file; false when it is
 * not made of strings. */
bool chat_known_strings(struct buf *out, size_t i);
/* Name of the template whose Jinja source equals `jinja` (but for white space at the ends), or NULL
 * when there is none. */
const char *chat_known_for(str jinja);

/* Replaces the content of out. add_prompt appends the assistant's header, for generation. Fails
 * with FT_EFORMAT, naming the message, on what the template does not allow or cannot express. */
FT_NODISCARD ft_status chat_render(struct chat_text *out, const struct chat_template *t,
                                   const struct chat_conversation *c, bool add_prompt,
                                   ft_error *err);

/* Encodes rendered text, replacing ids. mask[i] is 1 where token i is trained; [ids->n], owned by
 * the caller as part of `mask` (cleared first). Content specials per `content`: literal (default)
 * or parse; ids->n_special_text counts them either way. */
FT_NODISCARD ft_status chat_encode(struct tok_ids *ids, struct buf *mask, struct tok_encoder *e,
                                   const struct chat_text *text, enum tok_specials content,
                                   ft_error *err);

/* What ends the assistant's turn when text is generated (the tokenizer's EOS always does, too).
 * Words that are one token of the tokenizer end it as ids, the others as text. */
bool chat_is_stop(const struct chat_template *t, int32_t id);
size_t chat_stop_ids(const struct chat_template *t, const int32_t **ids);
size_t chat_stop_words(const struct chat_template *t, const str **words);

#endif
