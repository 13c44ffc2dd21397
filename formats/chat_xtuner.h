/* SPDX-License-Identifier: Apache-2.0
 * Templates made of strings, as XTuner writes them: its 27 own ones, and users' files with the same
 * keys. */
#ifndef FORMATS_CHAT_XTUNER_H
#define FORMATS_CHAT_XTUNER_H

#include "formats/chat_template.h"

enum { XTUNER_MAX_STOP_WORDS = 16, XTUNER_TEMPLATES = 28 };

/* {input}, {system} and {round} are replaced in one pass; {{ and }} stand for braces. */
struct xtuner_strings {
    const char *system;      /* around a system message; NULL = there can be none */
    const char *instruction; /* around a user message, up to the answer */
    const char *suffix;      /* behind an answer, encoded with it; NULL = nothing */
    bool suffix_as_eos;      /* the tokenizer's EOS is not added, nor BOS at every turn */
    const char *sep;         /* behind a turn; NULL = nothing */
    const char *stop_words[XTUNER_MAX_STOP_WORDS];
    bool keeps_turn_ends; /* chat_template.h */
};

extern const struct chat_kind chat_xtuner;
/* The table, for chat.c. */
extern const struct chat_known xtuner_templates[XTUNER_TEMPLATES];

/* Appends the strings as the JSON object that a user's file holds. */
void xtuner_write_json(struct buf *out, const struct xtuner_strings *s);

#endif
