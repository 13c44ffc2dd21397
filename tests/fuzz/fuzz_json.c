/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t walk(const json *v)
{
    size_t n = 1;
    str s;
    if (json_str(v, &s))
        if (str_utf8_invalid_at(s) != s.len)
            abort();
    if (json_kind(v) == JSON_ARRAY || json_kind(v) == JSON_OBJECT)
        for (const json *c = json_first(v); c != NULL; c = json_next(c))
            n += walk(c);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_doc *doc;
    ft_error err;
    enum json_flags flags = size > 0 && data[0] == '/' ? JSON_COMMENTS : JSON_STRICT;
    if (json_parse(&doc, "fuzz", (str){(const char *)data, size}, flags, &err) == FT_OK)
        walk(json_root(doc));
    json_close(doc);
    return 0;
}
