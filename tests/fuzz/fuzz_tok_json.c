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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok *t;
    ft_error err;
    if (tok_json_parse(&t, "fuzz", (str){(const char *)data, size}, &err) == FT_OK) {
        check_blob(t);
        tok_close(t);
    }
    return 0;
}
