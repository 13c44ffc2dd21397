/* SPDX-License-Identifier: Apache-2.0
 * make_tiny MODEL_DIR [ADAPTER_DIR]: the files of tests/support/tiny_model.h. */
#include <stdio.h>

#include "tests/support/tiny_model.h"

static ft_status make(int argc, char **argv, ft_error *err)
{
    struct model_config c;
    if (argc != 2 && argc != 3)
        return ft_fail(err, FT_EUSAGE, "usage: make_tiny MODEL_DIR [ADAPTER_DIR]");
    FT_TRY(tiny_model_config(&c, err));
    FT_TRY(tiny_model_write(argv[1], &c, err));
    return argc == 3 ? tiny_adapter_write(argv[2], &c, err) : FT_OK;
}

int main(int argc, char **argv)
{
    ft_error err;
    ft_status st = make(argc, argv, &err);
    if (st != FT_OK)
        fprintf(stderr, "make_tiny: %s\n", err.text);
    return ft_exit_code(st);
}
