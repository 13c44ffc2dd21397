/* SPDX-License-Identifier: Apache-2.0
 * Rules of any bytes, behind a length that is put right, applied to text in both ways. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/charsmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct charsmap *m, str text)
{
    str becomes;
    size_t single = 0, n;
    for (str rest = text; rest.len > 0; rest = str_sub(rest, n, rest.len)) {
        n = charsmap_next(&becomes, &single, m, rest);
        if (n == 0 || n > rest.len || str_utf8_invalid_at(becomes) != becomes.len)
            abort();
    }
    for (str rest = text; rest.len > 0; rest = str_sub(rest, FT_MAX(n, (size_t)1), rest.len)) {
        n = charsmap_longest(&becomes, m, rest);
        if (n > CHARSMAP_MAX_KEY)
            abort();
    }
}

/* data: the end of the double array, sixteen bits each for label and distance, in the first block;
 * then the replacements. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "abc \xCC\x81\xEF\xBD\x81 aaaa\xE1\x84\x80\xE1\x85\xA1 \xC2\xA9\r\n";
    enum { UNITS = 512 };
    struct arena a = {0};
    struct charsmap m;
    ft_error err;
    size_t n = FT_MIN(size / 2, (size_t)UNITS * 4);
    char *bytes = mem_alloc(4 + UNITS * 4 + size - n + 1, 1);
    if (bytes == NULL)
        return 0;
    store_u32le(bytes, UNITS * 4);
    memcpy(bytes + 4, data, n);
    memcpy(bytes + 4 + UNITS * 4, data + n, size - n);
    str rules = {bytes, 4 + UNITS * 4 + size - n + 1};
    if (charsmap_init(&m, &a, rules, &err) == FT_OK)
        walk(&m, STR(text));
    if (charsmap_init(&m, &a, (str){(const char *)data, size}, &err) == FT_OK)
        walk(&m, STR(text));
    arena_destroy(&a);
    mem_free(bytes);
    return 0;
}
