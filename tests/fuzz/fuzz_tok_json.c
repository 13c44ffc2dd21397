/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json; one that loads must survive the way through a blob with the same fingerprint. */
#include <stdlib.h>

#include "formats/tok/tok_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_blob(const struct tok *t)
{
    struct buf blob = {0};
    struct tok *copy;
    ft_error err;
    if (tok_to_blob(&blob, t, &err) != FT_OK ||
        tok_from_blob(&copy, "copy", buf_view(&blob), &err) != FT_OK ||
        !hash128_eq(tok_fingerprint(t), tok_fingerprint(copy)))
        abort();
    tok_close(copy);
    buf_free(&blob);
}

static void use(const struct tok *t)
{
    static const char text[] = "ab  a\xC3\xA9\xCC\xA3 12<s>\xE2\x96\x81"
                               "ab\n";
    struct tok_encoder *e;
    struct tok_ids ids = {.want_offsets = true};
    struct buf out = {0};
    ft_error err;
    if (tok_encoder_create(&e, t, &err) != FT_OK)
        abort();
    if (tok_encode(e, &ids, STR(text), TOK_SPECIALS_PARSE, &err) == FT_OK)
        tok_decode(t, &out, ids.ids, ids.n, false);
    tok_ids_free(&ids);
    buf_free(&out);
    tok_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok *t;
    ft_error err;
    if (tok_json_parse(&t, "fuzz", (str){(const char *)data, size}, &err) == FT_OK) {
        check_blob(t);
        use(t);
        tok_close(t);
    }
    return 0;
}
