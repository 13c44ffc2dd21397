/* SPDX-License-Identifier: Apache-2.0
 * Prints the rules of docs/lint.md: lint_doc > rules.md. */
#include <stdio.h>

#include "tools/lint.h"

int main(void)
{
    struct buf out = {0};
    lint_document(&out);
    printf("%.*s", STR_ARG(buf_view(&out)));
    buf_free(&out);
    return 0;
}
