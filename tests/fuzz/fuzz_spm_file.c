/* SPDX-License-Identifier: Apache-2.0
 * A .model file of any bytes. One that loads is used, and what is written of it must load again as
 * the same tokenizer. */
#include <stdlib.h>

#include "formats/tok/tok_internal.h"
#include "tests/support/tok_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tok *t)
{
    static const char text[] = "Hello  \xE2\x96\x81world<s> \xEF\xBD\x86\xCC\x81 "
                               "\xF0\x9F\xA6\x99\n\tab\xE4\xB8\xAD\xE6\x96\x87 ";
    struct tok_encoder *e;
    struct tok_ids ids = {.want_offsets = true};
    struct buf out = {0};
    ft_error err;
    if (tok_encoder_create(&e, t, &err) != FT_OK)
        return;
    if (tok_encode(e, &ids, STR(text), TOK_SPECIALS_PARSE, &err) == FT_OK)
        tok_decode(t, &out, ids.ids, ids.n, false);
    for (size_t i = 0; i < ids.n; i++)
        if (ids.offsets[i] > sizeof text - 1)
            abort();
    buf_free(&out);
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok *t;
    ft_error err;
    if (tok_spm_parse(&t, "fuzz", (str){(const char *)data, size}, &err) != FT_OK)
        return 0;
    use(t);
    tok_round_trip(t);
    tok_close(t);
    return 0;
}
