/* SPDX-License-Identifier: Apache-2.0
 * A pattern, NUL, a text: rewriting must end in a compiled pattern or in an error, and matches must
 * lie in order inside the text. */
#include "formats/tok/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(str pattern, str text, enum regex_dialect dialect)
{
    struct regex *r;
    ft_error err;
    size_t start, end, last = 0;
    bool found = true;
    if (regex_create(&r, pattern, dialect, &err) != FT_OK)
        return;
    struct regex_search s = {.regex = r, .text = text};
    while (regex_next(&start, &end, &found, &s, &err) == FT_OK && found) {
        FT_ASSERT(last <= start && start <= end && end <= text.len);
        last = end;
    }
    regex_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str text = {(const char *)data, size};
    if (size > 512)
        return 0;
    str pattern = str_cut(&text, '\0');
    if (str_utf8_invalid_at(text) != text.len)
        return 0;
    run(pattern, text, REGEX_ONIGURUMA);
    run(pattern, text, REGEX_FANCY);
    return 0;
}
