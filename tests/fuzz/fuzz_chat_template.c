/* SPDX-License-Identifier: Apache-2.0
 * Users' own templates: what opens renders every conversation with marks in order, and encodes it
 * to as many mask bytes as ids; what it gives as its source opens again. */
#include <stdlib.h>

#include "formats/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONTENT(text)                                                                              \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const struct chat_message messages[] = {
    {.role = CHAT_ASSISTANT, .content = CONTENT("left out")},
    {.role = CHAT_SYSTEM, .content = CONTENT("{input} <|im_end|>")},
    {.role = CHAT_USER, .content = CONTENT("q\0{round}"), .loss = CHAT_LOSS_ON},
    {.role = CHAT_ASSISTANT, .content = CONTENT("a")},
    {.role = CHAT_ASSISTANT, .content = CONTENT(""), .loss = CHAT_LOSS_OFF},
    {.role = CHAT_USER, .content = CONTENT("r")},
    {.role = CHAT_ASSISTANT, .content = CONTENT("b")},
};

static void check_text(const struct chat_text *t)
{
    size_t at = 0;
    for (size_t i = 0; i < t->n_trained; i++) {
        FT_ASSERT(t->trained[i].from >= at && t->trained[i].to >= t->trained[i].from);
        at = t->trained[i].to;
    }
    FT_ASSERT(at <= t->text.len);
    at = 0;
    for (size_t i = 0; i < t->n_cuts; i++) {
        FT_ASSERT(t->cuts[i].at >= at && t->cuts[i].n_literal <= t->n_literal);
        at = t->cuts[i].at;
    }
    FT_ASSERT(at <= t->text.len);
}

static void check_template(const struct chat_template *t, const struct tok *tok)
{
    static struct chat_text text; /* reused, as workers do */
    static struct tok_ids ids;
    static struct buf mask;
    struct tok_encoder *e;
    ft_error err;
    FT_ASSERT(tok_encoder_create(&e, tok, &err) == FT_OK);
    for (size_t n = 1; n <= ARRAY_LEN(messages); n++) {
        struct chat_conversation c = {.messages = messages, .n = n};
        if (chat_render(&text, t, &c, n % 2 == 0, &err) != FT_OK)
            continue;
        check_text(&text);
        FT_ASSERT(chat_encode(&ids, &mask, e, &text, (enum tok_specials)(n % 2), &err) == FT_OK);
        FT_ASSERT(ids.n == mask.len);
    }
    tok_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tok *tok;
    struct chat_template *t, *again;
    str source = {(const char *)data, size};
    ft_error err;
    if (tok == NULL && tok_open(&tok, "data-samples/tokenizer-tiny.json", &err) != FT_OK)
        abort(); /* run from the repository root */
    if (size > 0 && chat_template_restore(&t, "fuzz.json", source, tok, &err) == FT_OK) {
        check_template(t, tok);
        FT_ASSERT(chat_template_restore(&again, "fuzz.json", chat_template_source(t), tok, &err) ==
                  FT_OK);
        chat_template_close(again);
        chat_template_close(t);
    }
    return 0;
}
