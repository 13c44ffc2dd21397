/* SPDX-License-Identifier: Apache-2.0
 * Rows through all rules that need no model: an error is exactly what the build refuses, and what
 * --fix writes is one line that parses when the row did. */
#include <string.h>

#include "tools/lint_shape.h"
#include "tools/lint_tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct source_options as_told;

static bool is_refused(const struct json_doc *doc)
{
    struct conversation c = {0};
    ft_error err;
    bool refused = doc == NULL ||
                   source_read_row(&c, json_root(doc), &(struct source_options){0}, &err) != FT_OK;
    conversation_free(&c);
    return refused;
}

static void check_fix(str text, const struct json_doc *doc)
{
    struct buf fixed = {0};
    uint64_t counts[LINT_CODES] = {0};
    struct json_doc *again;
    ft_error err;
    FT_ASSERT(lint_fix_row(&fixed, counts, text, doc, &as_told, &err) == FT_OK);
    if (doc != NULL || counts[LINT_J12] > 0) {
        FT_ASSERT(json_parse(&again, "fixed", buf_view(&fixed), JSON_STRICT, &err) == FT_OK);
        FT_ASSERT(memchr(fixed.data, '\n', fixed.len) == NULL);
        json_close(again);
    }
    buf_free(&fixed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lint_model no_model = {.source = &as_told};
    str text = str_trim((str){(const char *)data, size});
    struct lint_tokens t;
    struct lint_list l = {0};
    struct lint_shape *shape;
    struct json_doc *doc;
    ft_error err;
    FT_ASSERT(lint_tokens_init(&t, &no_model, &err) == FT_OK);
    FT_ASSERT(lint_shape_create(&shape, &err) == FT_OK);
    FT_ASSERT(lint_json(&doc, &l, text, &err) == FT_OK);
    if (doc != NULL) {
        FT_ASSERT(lint_row(&t, &l, json_root(doc), &err) == FT_OK);
        lint_shape_row(shape, &l, json_root(doc));
    }
    FT_ASSERT(lint_has_errors(&l) == is_refused(doc));
    check_fix(text, doc);
    lint_tokens_free(&t);
    lint_shape_destroy(shape);
    lint_list_clear(&l);
    json_close(doc);
    return 0;
}
