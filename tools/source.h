/* SPDX-License-Identifier: Apache-2.0
 * A JSON row -> a conversation, by the rules of docs/data.md. Every rule that is broken gives a
 * message with the path inside the row ("messages[2].content: ..."), what is accepted and, where a
 * key looks like a typing error, the nearest one. */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include "common/opt.h"
#include "formats/chat.h"

/* Which keys of a row hold what. Unset = NULL. */
struct row_shape {
    const char *name;
    const char *messages; /* a list of messages, OpenAI's or ShareGPT's */
    const char *turns;    /* a list of XTuner's turns */
    const char *system;   /* may be missing in a row */
    const char *history;  /* earlier [question, answer] pairs; may be missing */
    const char *user[4];  /* joined by line breaks; all but the first may be missing */
    const char *assistant;
    const char *system_text; /* for every row */
    const char *no_answer;   /* an answer that stands for none */
};

enum train_on {
    TRAIN_ON_ASSISTANT, /* every assistant message */
    TRAIN_ON_LAST,      /* the last one */
    TRAIN_ON_FLAGGED,   /* those that say so */
    TRAIN_ON_FROM,      /* from the n-th one on */
};

struct source_options {
    bool strict;            /* an empty assistant message is an error */
    bool merge;             /* neighbouring user or system messages are joined */
    struct row_shape shape; /* without a name: told by the keys of each row */
    enum train_on train_on;
    int64_t from_turn; /* TRAIN_ON_FROM: from 1 */
};

/* From the values of --rows (or NULL), --columns and --train-on (or NULL). FT_EUSAGE. */
FT_NODISCARD ft_status source_set_rows(struct source_options *o, const char *rows,
                                       const struct opt_list *columns, ft_error *err);
FT_NODISCARD ft_status source_set_train_on(struct source_options *o, const char *text,
                                           ft_error *err);
size_t source_shape_count(void);
const char *source_shape_name(size_t i);

/* One message of a list in either form: its role, and the keys it goes by. False when the role is
 * missing or unknown; the keys are set all the same. */
struct message_keys {
    const char *role, *content;
    bool is_openai;
};
bool source_message_role(enum chat_role *out, struct message_keys *keys, const json *message);

/* Zeroed = empty; reuse it to keep its memory. */
struct conversation {
    struct chat_message *messages;
    size_t n, cap;
    const json *tools, *row;
    size_t n_trailing;          /* messages behind the last assistant message, not in `messages` */
    size_t n_empty;             /* assistant messages without content; their loss is off */
    size_t n_merged;            /* messages joined to the one before */
    struct arena joined;        /* contents made of several strings */
    struct json_doc *tools_doc; /* tools that were written as a string */
};

void conversation_free(struct conversation *c);
struct chat_conversation conversation_view(const struct conversation *c);

/* Replaces the content of out; it borrows strings from row. n = 0 when there is no assistant
 * message. FT_EFORMAT, FT_EMEM. */
FT_NODISCARD ft_status source_read_row(struct conversation *out, const json *row,
                                       const struct source_options *o, ft_error *err);

#endif
