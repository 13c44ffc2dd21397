/* SPDX-License-Identifier: Apache-2.0
 * Any text through the encoders. The first byte of the input picks the tokenizer and where special
 * tokens are parsed.
 * With offsets and without, the ids must be the same; where no added token can be, they must give
 * back the text. */
#include <stdlib.h>
#include <string.h>

#include "formats/tok/tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const files[] = {
    "tests/golden/tok/added.json",
    "tests/fuzz/corpus/tok_json/legacy.json",
    "tests/fuzz/corpus/tok_json/legacy-late.json",
    "tests/fuzz/corpus/tok_json/metaspace.json",
    "tests/fuzz/corpus/tok_json/forms.json",
    "tests/fuzz/corpus/tok_json/split.json",
};
static struct tok_encoder *encoders[ARRAY_LEN(files)]; /* kept: caches meet all inputs of a run */

static void setup(void)
{
    ft_error err;
    for (size_t i = 0; i < ARRAY_LEN(files) && encoders[ARRAY_LEN(files) - 1] == NULL; i++) {
        struct tok *tok;
        if (tok_open(&tok, files[i], &err) != FT_OK ||
            tok_encoder_create(&encoders[i], tok, &err) != FT_OK)
            abort();
    }
}

static void encode(struct tok_encoder *encoder, struct tok_ids *ids, str text, uint8_t choice)
{
    struct tok_range parse[] = {{text.len / 4, text.len / 2}, {text.len / 2, text.len * 3 / 4}};
    ft_error err;
    ids->n = 0;
    ft_status st = choice % 3 == 2
                       ? tok_encode_ranges(encoder, ids, text, parse, 2, &err)
                       : tok_encode(encoder, ids, text, (enum tok_specials)(choice % 3), &err);
    if (st != FT_OK)
        abort();
}

static void check_offsets(const struct tok_ids *ids, str text)
{
    for (size_t i = 0; i < ids->n; i++)
        if (ids->offsets[i] >= text.len)
            abort();
}

/* Without added tokens around nothing is lost and each token starts where the last one ended. */
static void check_bytes(const struct tok_ids *ids, str text)
{
    const struct tok *tok = tok_encoder_tok(encoders[0]);
    struct buf out = {0};
    size_t at = 0;
    for (size_t i = 0; i < ids->n; at += tok_bytes(tok, ids->ids[i++]).len)
        if (ids->offsets[i] != at)
            abort();
    tok_decode(tok, &out, ids->ids, ids->n, false);
    if (!str_eq(buf_view(&out), text))
        abort();
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tok_ids with = {.want_offsets = true}, without = {0};
    if (size == 0)
        return 0;
    setup();
    str text = {(const char *)data + 1, size - 1};
    size_t file = data[0] / 3 % ARRAY_LEN(files);
    /* Bytes alone may be anything; characters are valid UTF-8, which callers see to. */
    if (file > 0 && str_utf8_invalid_at(text) != text.len)
        return 0;
    encode(encoders[file], &with, text, data[0]);
    encode(encoders[file], &without, text, data[0]);
    if (with.n != without.n || (with.n > 0 && memcmp(with.ids, without.ids, with.n * 4) != 0))
        abort();
    check_offsets(&with, text);
    if (file == 0 && text.len > 0 && memchr(text.ptr, '<', text.len) == NULL &&
        memchr(text.ptr, ' ', text.len) == NULL && memchr(text.ptr, 'n', text.len) == NULL)
        check_bytes(&with, text);
    tok_ids_free(&with);
    tok_ids_free(&without);
    return 0;
}
