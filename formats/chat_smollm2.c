/* SPDX-License-Identifier: Apache-2.0
 * The template of the SmolLM2 Instruct models. A conversation that does not open with a system
 * message gets the model's own. Trained: the content and the token that ends the turn, but not the
 * newline behind it, which generation never has to produce. */
#include "formats/chat_template.h"

const char chat_smollm2_jinja[] =
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "' }}"
    "{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n"
    "' + message['content'] + '<|im_end|>' + '\n"
    "'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n"
    "' }}"
    "{% endif %}";

static void put_message(struct chat_writer *w, const struct chat_message *m)
{
    bool trained = chat_is_trained(m);
    enum chat_role role = m->role == CHAT_DEVELOPER ? CHAT_SYSTEM : m->role;
    chat_put(w, STR("<|im_start|>"));
    chat_put(w, str_from(chat_role_names[role]));
    chat_put(w, STR("\n"));
    if (trained)
        chat_begin_trained(w);
    chat_put_content(w, m->content);
    chat_put(w, STR("<|im_end|>"));
    if (trained)
        chat_end_trained(w);
    chat_put(w, STR("\n"));
}

/* Any sequence of roles is allowed. */
static ft_status render(struct chat_writer *w, const struct chat_template *t,
                        const struct chat_conversation *c, bool add_prompt, ft_error *err)
{
    static const struct chat_message own = {
        .role = CHAT_SYSTEM,
        .loss = CHAT_LOSS_OFF,
        .content = {"You are a helpful AI assistant named SmolLM, trained by Hugging Face", 68},
    };
    (void)t, (void)err;
    if (c->n > 0 && c->messages[0].role != CHAT_SYSTEM && c->messages[0].role != CHAT_DEVELOPER)
        put_message(w, &own);
    for (size_t i = 0; i < c->n; i++)
        put_message(w, &c->messages[i]);
    if (add_prompt)
        chat_put(w, STR("<|im_start|>assistant\n"));
    return FT_OK;
}

static ft_status create(struct chat_template *t, ft_error *err)
{
    FT_TRY(chat_reserve_stops(t, 1, err));
    chat_add_stop(t, STR("<|im_end|>"));
    return FT_OK;
}

const struct chat_kind chat_smollm2 = {.create = create, .render = render};
