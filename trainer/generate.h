/* SPDX-License-Identifier: Apache-2.0
 * Answers: prompt -> ids -> tokens one by one through the KV cache -> text. Used by the command
 * fttrain generate and by the sample prompts of a training run. */
#ifndef TRAINER_GENERATE_H
#define TRAINER_GENERATE_H

#include "formats/chat.h"
#include "trainer/model.h"
#include "trainer/sampler.h"

/* Encodes a question as the chat template asks it, with the assistant's header behind it; system
 * may be NULL. Without a template the prompt is encoded as it is, special tokens included. out is
 * replaced. */
FT_NODISCARD ft_status generate_encode(struct tok_ids *out, struct tok_encoder *e,
                                       const struct chat_template *t, const char *system,
                                       str prompt, ft_error *err);

struct generate_options {
    struct backend *backend;
    const struct tok *tok;
    const struct chat_template *chat; /* NULL = raw */
    int64_t max_tokens;
    struct sampler *sampler;
    /* Receives the answer in pieces of whole characters; each byte that is not UTF-8 becomes
     * U+FFFD. */
    ft_status (*emit)(void *ctx, str text, ft_error *err);
    void *ctx;
};

struct generate_result {
    int64_t n_prompt, n_tokens; /* tokens fed, tokens generated without the stop token */
    bool stopped;               /* by a stop token, not by max_tokens */
    double prompt_seconds, seconds;
};

/* Generates after the prompt's ids. text numbers the answer for the sampler. Asserts that
 * prompt->n >= 1 and that the model's context holds prompt->n + max_tokens. */
FT_NODISCARD ft_status generate_answer(struct generate_result *out, struct model *m,
                                       const struct tok_ids *prompt, uint64_t text,
                                       const struct generate_options *o, ft_error *err);

/* Cuts pending in front of the first stop word in it and returns true; else *keep is how many bytes
 * at its end may be the start of one. */
bool generate_cut_at_stop(struct buf *pending, size_t *keep, const str *words, size_t n);
/* Moves pending without its last `keep` bytes, up to a character border, into out (which is
 * cleared), bytes that are not UTF-8 replaced; `last` moves everything. */
void generate_take_text(struct buf *out, struct buf *pending, size_t keep, bool last);

#endif
