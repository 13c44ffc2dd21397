/* SPDX-License-Identifier: Apache-2.0
 * Writes a tokenizer to standard output as tokenizer.json, or with --blob in its compact form.
 *
 * usage: tok_convert [--blob] TOKENIZER */
#include <stdio.h>
#include <string.h>

#include "formats/tok/tok_export.h"

int main(int argc, char **argv)
{
    bool blob = argc == 3 && strcmp(argv[1], "--blob") == 0;
    struct tok *t;
    struct buf out = {0};
    ft_error err;
    if (argc != 2 + blob) {
        fprintf(stderr, "usage: tok_convert [--blob] TOKENIZER\n");
        return 2;
    }
    ft_status st = tok_open(&t, argv[1 + blob], &err);
    if (st == FT_OK)
        st = blob ? tok_to_blob(&out, t, &err) : tok_to_json(&out, t, &err);
    if (st != FT_OK)
        fprintf(stderr, "tok_convert: %s\n", err.text);
    else
        fwrite(out.data, 1, out.len, stdout);
    tok_close(t);
    buf_free(&out);
    return ft_exit_code(st);
}
