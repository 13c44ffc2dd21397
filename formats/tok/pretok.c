/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/pretok.h"

static const struct pretok table[] = {
    {"gpt2", pretok_gpt2},
    {"digits+gpt2", pretok_digits_gpt2},
};

const struct pretok *pretok_find(str name)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (str_is(name, table[i].name))
            return &table[i];
    return NULL;
}
