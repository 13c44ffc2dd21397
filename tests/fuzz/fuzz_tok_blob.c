/* SPDX-License-Identifier: Apache-2.0
 * The last eight bytes, a checksum, are put right so that the fuzzer reaches what lies behind it. A
 * blob that loads is used, and written again must load again. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/tok.h"
#include "tests/support/tok_round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tok *t)
{
    static const char text[] = "It's 42 <|im_end|>\n  the end\xE3\x80\x80<s>";
    struct tok_encoder *e;
    struct tok_ids ids = {.want_offsets = true};
    struct buf out = {0};
    ft_error err;
    if (tok_encoder_create(&e, t, &err) != FT_OK)
        return;
    if (tok_encode(e, &ids, STR(text), TOK_SPECIALS_PARSE, &err) == FT_OK)
        tok_decode(t, &out, ids.ids, ids.n, false);
    buf_free(&out);
    tok_ids_free(&ids);
    tok_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok *t;
    ft_error err;
    char *blob = mem_alloc(size + 1, 1);
    if (blob == NULL)
        return 0;
    memcpy(blob, data, size);
    if (size >= 8)
        store_u64le(blob + size - 8, hash64(blob, size - 8));
    if (tok_from_blob(&t, "fuzz", (str){blob, size}, &err) == FT_OK) {
        use(t);
        tok_round_trip(t);
        tok_close(t);
    }
    mem_free(blob);
    return 0;
}
