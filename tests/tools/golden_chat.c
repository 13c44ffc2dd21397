/* SPDX-License-Identifier: Apache-2.0
 * golden_chat TOKENIZER FILE...: checks golden conversations on a tokenizer and prints its
 * fingerprint. Exit code 1 when one differs. */
#include <stdio.h>

#include "tests/support/golden_chat.h"

static ft_status run(int n_files, char **files, const struct tok *tok, ft_error *err)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, tok_fingerprint(tok));
    printf("fingerprint %s\n", hex);
    for (int i = 0; i < n_files; i++) {
        size_t n;
        FT_TRY(golden_chat_check(&n, tok, files[i], err));
        printf("%s: %zu conversations\n", files[i], n);
    }
    return FT_OK;
}

int main(int argc, char **argv)
{
    ft_error err;
    struct tok *tok = NULL;
    if (argc < 2)
        return 2;
    ft_status st = tok_open(&tok, argv[1], &err);
    if (st == FT_OK)
        st = run(argc - 2, argv + 2, tok, &err);
    if (st != FT_OK)
        fprintf(stderr, "golden_chat: error: %s\n", err.text);
    tok_close(tok);
    return ft_exit_code(st);
}
