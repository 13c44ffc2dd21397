/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/gguf.h"

#include "formats/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t sink;

/* Whatever the reader accepts must be readable in full. */
static void touch_tensors(const struct gguf *g)
{
    for (size_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        FT_ASSERT(gguf_find_tensor(g, t->name) == t);
        sink = t->data[0];
        sink = t->data[t->bytes - 1];
    }
}

static void touch_metadata(const struct gguf *g, ft_error *err)
{
    struct gguf_array a;
    str s;
    if (gguf_need_array(&a, g, "tokenizer.ggml.tokens", GGUF_STRING, err) == FT_OK)
        while (a.n > 0) {
            s = gguf_array_next_str(&a);
            if (s.len > 0)
                sink = (uint8_t)s.ptr[s.len - 1];
        }
    if (gguf_need_array(&a, g, "numbers", GGUF_I32, err) == FT_OK && a.n > 0)
        sink = (uint8_t)gguf_array_i64(&a, a.n - 1);
    if (gguf_need_str(&s, g, "general.architecture", err) == FT_OK && s.len > 0)
        sink = (uint8_t)s.ptr[s.len - 1];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf *g;
    struct model_config c;
    ft_error err;
    if (gguf_parse(&g, "fuzz", data, size, &err) != FT_OK)
        return 0;
    touch_tensors(g);
    touch_metadata(g, &err);
    if (model_config_from_gguf(&c, g, &err) == FT_OK)
        FT_ASSERT(model_config_check(&c, &err) == FT_OK);
    gguf_close(g);
    return 0;
}
