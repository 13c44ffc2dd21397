/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "formats/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ft_status read_config(struct model_config *out, str text, ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_parse(&doc, "fuzz", text, JSON_STRICT, err));
    ft_status st = model_config_from_hf(out, json_root(doc), err);
    json_close(doc);
    return st;
}

/* What is accepted survives being written and read. */
static void check_round_trip(const struct model_config *c)
{
    struct model_config again;
    struct buf first = {0}, second = {0};
    ft_error err;
    model_config_to_hf(&first, c);
    FT_ASSERT(read_config(&again, buf_view(&first), &err) == FT_OK);
    model_config_to_hf(&second, &again);
    FT_ASSERT(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    buf_free(&first);
    buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config c;
    struct model_tensor t;
    ft_error err;
    if (read_config(&c, (str){(const char *)data, size}, &err) != FT_OK)
        return 0;
    check_round_trip(&c);
    int64_t n = model_tensors(&c);
    for (int64_t i = 0; i < n; i += 1 + n / 50) {
        model_tensor_at(&t, &c, i);
        FT_ASSERT(t.shape[0] >= 1 && t.shape[1] >= 1 && strlen(t.name) > 0);
    }
    return 0;
}
