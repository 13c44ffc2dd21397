/* SPDX-License-Identifier: Apache-2.0
 * model_dump MODEL: every tensor decoded to fp32 on stdout, for comparison with an oracle. Each is
 * {u64 length of name, name, u64 elements, elements}, little-endian. */
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/model_source.h"

static void put_u64(uint64_t v)
{
    uint8_t b[8];
    store_u64le(b, v);
    fwrite(b, 1, sizeof b, stdout);
}

static ft_status dump(const struct source_tensor *t, ft_error *err)
{
    size_t n = (size_t)(t->rows * t->cols);
    float *x;
    FT_TRY(mem_new(&x, n, sizeof *x, t->spec.name, err));
    source_read_rows(t, 0, t->rows, x);
    put_u64(strlen(t->spec.name));
    fwrite(t->spec.name, 1, strlen(t->spec.name), stdout);
    put_u64(n);
    fwrite(x, sizeof *x, n, stdout);
    mem_free(x);
    return FT_OK;
}

int main(int argc, char **argv)
{
    struct model_source *s = NULL;
    ft_error err = {.text = "usage: model_dump MODEL"};
    ft_status st = argc == 2 ? model_source_open(&s, argv[1], &err) : FT_EUSAGE;
    for (int64_t i = 0; st == FT_OK && i < model_tensors(model_source_config(s)); i++)
        st = dump(model_source_tensor(s, i), &err);
    model_source_close(s);
    if (st != FT_OK)
        fprintf(stderr, "%s\n", err.text);
    return fflush(stdout) == 0 && st == FT_OK ? 0 : 1;
}
