/* SPDX-License-Identifier: Apache-2.0
 * Rows to conversations: whatever is accepted keeps the rules of tools/source.h. */
#include "tools/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct conversation *c)
{
    if (c->n > 0)
        FT_ASSERT(c->messages[c->n - 1].role == CHAT_ASSISTANT);
    for (size_t i = 0; i < c->n; i++) {
        const struct chat_message *m = &c->messages[i];
        FT_ASSERT(m->role < CHAT_ROLES && str_utf8_invalid_at(m->content) == m->content.len);
        FT_ASSERT(i == 0 || m->role != CHAT_SYSTEM || m[-1].role != CHAT_SYSTEM);
        FT_ASSERT(m->role == CHAT_ASSISTANT || (!m->no_eos && m->sep.len == 0));
        FT_ASSERT(m->role != CHAT_ASSISTANT || m->content.len > 0 || chat_message_has_calls(m) ||
                  m->loss == CHAT_LOSS_OFF);
    }
}

/* The options that the size of the input stands for. */
static struct source_options options_of(size_t size)
{
    static const char *items[] = {"user=q", "user=context", "assistant=a", "system=s", "history=h"};
    static const char *const rules[] = {"assistant", "last", "flagged", "from-turn:2"};
    struct opt_list columns = {items, size % 7 == 0 ? ARRAY_LEN(items) : 0};
    struct source_options o = {.strict = size % 2 == 0, .merge = size % 3 == 0};
    const char *rows =
        size % 5 == 0 && columns.n == 0 ? source_shape_name(size / 5 % source_shape_count()) : NULL;
    ft_error err;
    FT_ASSERT(source_set_rows(&o, rows, &columns, &err) == FT_OK);
    FT_ASSERT(source_set_train_on(&o, rules[size / 2 % ARRAY_LEN(rules)], &err) == FT_OK);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct conversation c; /* reused, as workers do */
    struct source_options o = options_of(size);
    struct json_doc *doc;
    ft_error err;
    if (json_parse(&doc, "row", (str){(const char *)data, size}, JSON_STRICT, &err) == FT_OK &&
        source_read_row(&c, json_root(doc), &o, &err) == FT_OK)
        check(&c);
    json_close(doc);
    return 0;
}
