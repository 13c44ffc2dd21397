/* SPDX-License-Identifier: Apache-2.0
 * Writes a tokenizer to standard output as tokenizer.json (--json), in its compact form (--blob),
 * or only its fingerprint (--fingerprint).
 *
 * usage: tok_convert --json|--blob|--fingerprint TOKENIZER */
#include <stdio.h>
#include <string.h>

#include "formats/tok/tok_export.h"

static ft_status convert(struct buf *out, const char *form, const struct tok *t, ft_error *err)
{
    char hex[HASH_HEX_LEN + 1];
    if (strcmp(form, "--json") == 0)
        return tok_to_json(out, t, err);
    if (strcmp(form, "--blob") == 0)
        return tok_to_blob(out, t, err);
    hash128_hex(hex, tok_fingerprint(t));
    buf_printf(out, "%s\n", hex);
    return buf_status(out, "a fingerprint", err);
}

int main(int argc, char **argv)
{
    struct tok *t;
    struct buf out = {0};
    ft_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: tok_convert --json|--blob|--fingerprint TOKENIZER\n");
        return 2;
    }
    ft_status st = tok_open(&t, argv[2], &err);
    if (st == FT_OK)
        st = convert(&out, argv[1], t, &err);
    if (st != FT_OK)
        fprintf(stderr, "tok_convert: %s\n", err.text);
    else
        fwrite(out.data, 1, out.len, stdout);
    tok_close(t);
    buf_free(&out);
    return ft_exit_code(st);
}
