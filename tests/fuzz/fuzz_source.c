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
        FT_ASSERT(m->role != CHAT_ASSISTANT || m->content.len > 0 || chat_message_has_calls(m) ||
                  m->loss == CHAT_LOSS_OFF);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct conversation c; /* reused, as workers do */
    struct json_doc *doc;
    ft_error err;
    if (json_parse(&doc, "row", (str){(const char *)data, size}, JSON_STRICT, &err) == FT_OK &&
        source_read_row(&c, json_root(doc), size % 2 == 0, &err) == FT_OK)
        check(&c);
    json_close(doc);
    return 0;
}
