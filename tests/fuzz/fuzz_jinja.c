/* SPDX-License-Identifier: Apache-2.0
 * A template, a NUL, and its variables as JSON. What renders must be valid UTF-8, be covered by its
 * pieces, and come out the same again. */
#include <stdlib.h>
#include <string.h>

#include "formats/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_output(const struct jinja_output *o)
{
    size_t end = 0;
    if (str_utf8_invalid_at(o->text) != o->text.len)
        abort();
    for (size_t i = 0; i < o->n_pieces; i++) {
        if (o->pieces[i].end <= end)
            abort();
        end = o->pieces[i].end;
    }
    if (end != o->text.len)
        abort();
}

static void render(const struct jinja *t, const json *vars)
{
    static const struct tm clock = {.tm_year = 124, .tm_mon = 6, .tm_mday = 26};
    struct jinja_run *run;
    struct jinja_output first, second;
    ft_error err;
    if (jinja_run_create(&run, (struct jinja_limits){200 * 1000, 1 << 25}, &err) != FT_OK)
        abort();
    jinja_run_clock(run, &clock);
    struct jinja_value v = jinja_json(run, vars, JINJA_DATA);
    if (jinja_render(&first, t, run, v, &err) == FT_OK) {
        check_output(&first);
        if (jinja_render(&second, t, run, v, &err) == FT_OK && !str_eq(first.text, second.text))
            abort();
    }
    jinja_run_destroy(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size == 0 ? NULL : memchr(data, '\0', size);
    size_t n = nul == NULL ? size : (size_t)(nul - data);
    str text = nul == NULL ? STR("{}") : (str){(const char *)nul + 1, size - n - 1};
    struct json_doc *doc = NULL;
    struct jinja *t = NULL;
    ft_error err;
    if (jinja_compile(&t, "fuzz", (str){(const char *)data, n}, &err) == FT_OK &&
        json_parse(&doc, "vars", text, JSON_STRICT, &err) == FT_OK &&
        json_kind(json_root(doc)) == JSON_OBJECT)
        render(t, json_root(doc));
    json_close(doc);
    jinja_destroy(t);
    return 0;
}
