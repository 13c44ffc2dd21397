/* SPDX-License-Identifier: Apache-2.0
 * A JSON row -> a conversation, by the rules of docs/data.md. Every rule that is broken gives a
 * message with the path inside the row ("messages[2].content: ..."), what is accepted and, where a
 * key looks like a typing error, the nearest one. */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include "formats/chat.h"
#include "formats/json.h"

/* Zeroed = empty; reuse it to keep its memory. */
struct conversation {
    struct chat_message *messages;
    size_t n, cap;
    size_t n_trailing;   /* messages behind the last assistant message, not in `messages` */
    size_t n_empty;      /* assistant messages without content; their loss is off */
    struct arena joined; /* contents that were lists of parts */
};

void conversation_free(struct conversation *c);

/* Replaces the content of out; it borrows strings from row. n = 0 when there is no assistant
 * message. strict makes an empty assistant message an error. FT_EFORMAT, FT_EMEM. */
FT_NODISCARD ft_status source_read_row(struct conversation *out, const json *row, bool strict,
                                       ft_error *err);

#endif
