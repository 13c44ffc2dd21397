/* SPDX-License-Identifier: Apache-2.0
 * The table of templates, the writer they share, and the way from marked text to ids and mask. */
#include "formats/chat.h"

#include <string.h>

#include "common/mem.h"
#include "formats/chat_template.h"

const char *const chat_role_names[CHAT_ROLES] = {"system", "user", "assistant"};

static const struct chat_template *const templates[] = {&chat_smollm2};

const struct chat_template *chat_template_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(templates); i++)
        if (strcmp(templates[i]->name, name) == 0)
            return templates[i];
    return NULL;
}

size_t chat_template_count(void)
{
    return ARRAY_LEN(templates);
}

const char *chat_template_name(size_t i)
{
    FT_ASSERT(i < ARRAY_LEN(templates));
    return templates[i]->name;
}

const char *chat_template_for(str jinja)
{
    for (size_t i = 0; i < ARRAY_LEN(templates); i++)
        if (str_eq(str_trim(jinja), str_trim(str_from(templates[i]->jinja))))
            return templates[i]->name;
    return NULL;
}

int32_t chat_stop_id(const struct chat_template *t, const struct tok *tok)
{
    return tok_special(tok, str_from(t->stop_token));
}

void chat_text_free(struct chat_text *t)
{
    buf_free(&t->text);
    mem_free(t->literal);
    mem_free(t->trained);
    *t = (struct chat_text){0};
}

/* --- writing -----------------------------------------------------------------------------------
 */

/* Opens a range at `from`; one that ends there is continued instead. */
static void open_range(struct chat_writer *w, struct tok_range **ranges, size_t *n, size_t *cap,
                       size_t from)
{
    if (*n > 0 && (*ranges)[*n - 1].to == from)
        return;
    if (*n == *cap) {
        size_t more = FT_MAX(*cap * 2, (size_t)16);
        struct tok_range *p = mem_realloc(*ranges, more, sizeof *p);
        if (p == NULL) {
            w->failed = true;
            return;
        }
        *ranges = p;
        *cap = more;
    }
    (*ranges)[(*n)++] = (struct tok_range){from, from};
}

void chat_put(struct chat_writer *w, str literal)
{
    struct chat_text *t = w->out;
    open_range(w, &t->literal, &t->n_literal, &t->cap_literal, t->text.len);
    buf_str(&t->text, literal);
    if (!w->failed)
        t->literal[t->n_literal - 1].to = t->text.len;
}

void chat_put_content(struct chat_writer *w, str content)
{
    buf_str(&w->out->text, content);
}

void chat_begin_trained(struct chat_writer *w)
{
    struct chat_text *t = w->out;
    open_range(w, &t->trained, &t->n_trained, &t->cap_trained, t->text.len);
}

void chat_end_trained(struct chat_writer *w)
{
    if (!w->failed)
        w->out->trained[w->out->n_trained - 1].to = w->out->text.len;
}

bool chat_is_trained(const struct chat_message *m)
{
    return m->loss == CHAT_LOSS_ON || (m->loss == CHAT_LOSS_DEFAULT && m->role == CHAT_ASSISTANT);
}

ft_status chat_render(struct chat_text *out, const struct chat_template *t,
                      const struct chat_message *messages, size_t n, bool add_prompt, ft_error *err)
{
    struct chat_writer w = {.out = out};
    buf_clear(&out->text);
    out->n_literal = out->n_trained = 0;
    FT_TRY(t->render(&w, messages, n, add_prompt, err));
    if (w.failed)
        return ft_fail_memory(err, out->cap_literal * sizeof *out->literal, "a conversation");
    return buf_status(&out->text, "a conversation", err);
}

/* --- encoding ----------------------------------------------------------------------------------
 */

static ft_status fill_mask(struct buf *mask, const struct tok_ids *ids,
                           const struct chat_text *text, ft_error *err)
{
    buf_clear(mask);
    uint8_t *dst = buf_reserve(mask, ids->n);
    if (dst == NULL)
        return buf_status(mask, "a loss mask", err);
    size_t range = 0;
    for (size_t i = 0; i < ids->n; i++) {
        size_t at = ids->offsets[i];
        while (range < text->n_trained && text->trained[range].to <= at)
            range++;
        dst[i] = range < text->n_trained && text->trained[range].from <= at;
    }
    mask->len = ids->n;
    return FT_OK;
}

ft_status chat_encode(struct tok_ids *ids, struct buf *mask, struct tok_encoder *e,
                      const struct chat_text *text, enum tok_specials content, ft_error *err)
{
    str whole = buf_view(&text->text);
    ids->n = 0;
    ids->want_offsets = true;
    if (content == TOK_SPECIALS_PARSE)
        FT_TRY(tok_encode(e, ids, whole, TOK_SPECIALS_PARSE, err));
    else
        FT_TRY(tok_encode_ranges(e, ids, whole, text->literal, text->n_literal, err));
    return fill_mask(mask, ids, text, err);
}
