/* SPDX-License-Identifier: Apache-2.0
 * llama.cpp's conventions: general.type "adapter", adapter.type "lora"; for each base tensor
 * blk.N.X.weight the pair blk.N.X.weight.lora_a, A with rows of `in` values, and .lora_b, B with
 * rows of `rank` values. It scales by adapter.lora.alpha / rank. */
#include "tools/gguf_lora.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/gguf.h"
#include "tools/stop.h"

static const char *const layer_names[LINEAR_KINDS] = {
    [LIN_Q] = "attn_q",      [LIN_K] = "attn_k",  [LIN_V] = "attn_v",      [LIN_O] = "attn_output",
    [LIN_GATE] = "ffn_gate", [LIN_UP] = "ffn_up", [LIN_DOWN] = "ffn_down",
};

/* llama.cpp runs Mistral models under the architecture "llama". */
static bool is_llama(const struct model_config *model)
{
    return strcmp(model->architecture, "llama") == 0 || strcmp(model->architecture, "mistral") == 0;
}

static void tensor_name(char dst[64], int64_t layer, enum linear_kind k, bool is_b)
{
    snprintf(dst, 64, "blk.%lld.%s.weight.lora_%c", (long long)layer, layer_names[k],
             is_b ? 'b' : 'a');
}

/* GGUF files of Llama models hold the rows of Q and K in the order that makes RoPE pair neighbours:
 * within a head, row 2 i + j comes from row j d/2 + i. The rows of B follow. */
static void pair_neighbours(float *dst, const float *src, int64_t n_heads, int64_t head_dim,
                            int64_t cols)
{
    for (int64_t row = 0; row < n_heads * head_dim; row++) {
        int64_t head = row / head_dim, i = row % head_dim / 2, j = row % 2;
        const float *from = src + (head * head_dim + j * (head_dim / 2) + i) * cols;
        memcpy(dst + row * cols, from, (size_t)cols * sizeof *dst);
    }
}

struct lora_writer {
    struct gguf_writer *file;
    const struct adapter *ad;
    const struct model_config *model;
    enum dtype dtype;
    float *values, *permuted; /* room for the largest tensor */
};

static ft_status declare(struct lora_writer *w, int64_t layer, enum linear_kind k, bool is_b,
                         ft_error *err)
{
    char name[64];
    int64_t rank = adapter_config_of(w->ad)->rank;
    int64_t dims[2] = {is_b ? rank : adapter_in(w->ad, k), is_b ? adapter_out(w->ad, k) : rank};
    tensor_name(name, layer, k, is_b);
    return gguf_write_tensor(w->file, name, w->dtype, dims, 2, err);
}

static ft_status write_data(struct lora_writer *w, int64_t layer, enum linear_kind k, bool is_b,
                            ft_error *err)
{
    char name[64];
    int64_t rank = adapter_config_of(w->ad)->rank;
    int64_t n = rank * (is_b ? adapter_out(w->ad, k) : adapter_in(w->ad, k));
    float *values = w->values;
    size_t bytes;
    FT_TRY(stop_check(err));
    FT_TRY(adapter_read(w->ad, values, layer, k, is_b, err));
    if (is_b && is_llama(w->model) && (k == LIN_Q || k == LIN_K)) {
        pair_neighbours(w->permuted, values, adapter_out(w->ad, k) / w->model->head_dim,
                        w->model->head_dim, rank);
        values = w->permuted;
    }
    int64_t finite = dtype_encode(w->dtype, values, n, values);
    if (finite < n) {
        tensor_name(name, layer, k, is_b);
        return ft_fail(err, FT_EFORMAT,
                       "tensor %s: a value is too large for %s; use --dtype bf16 or f32", name,
                       dtype_name(w->dtype));
    }
    FT_ASSERT(dtype_bytes(w->dtype, n, &bytes));
    FT_TRY(gguf_write_data(w->file, values, bytes, err));
    gguf_write_pad(w->file);
    return FT_OK;
}

/* Calls fn for A and B of every target of every layer. */
static ft_status each_tensor(struct lora_writer *w,
                             ft_status (*fn)(struct lora_writer *, int64_t, enum linear_kind, bool,
                                             ft_error *),
                             ft_error *err)
{
    for (int64_t layer = 0; layer < adapter_layers(w->ad); layer++)
        for (int k = 0; k < LINEAR_KINDS; k++)
            for (int is_b = 0; is_b < 2 && adapter_config_of(w->ad)->target[k]; is_b++)
                FT_TRY(fn(w, layer, (enum linear_kind)k, is_b == 1, err));
    return FT_OK;
}

static ft_status alloc_buffers(struct lora_writer *w, ft_error *err)
{
    size_t n = adapter_largest(w->ad);
    FT_TRY(mem_new(&w->values, n, sizeof *w->values, "a tensor", err));
    return mem_new(&w->permuted, n, sizeof *w->permuted, "a tensor", err);
}

static void write_metadata(struct lora_writer *w)
{
    const struct adapter_config *c = adapter_config_of(w->ad);
    gguf_write_str(w->file, "general.architecture",
                   is_llama(w->model) ? STR("llama") : str_from(w->model->architecture));
    gguf_write_str(w->file, "general.type", STR("adapter"));
    gguf_write_str(w->file, "adapter.type", STR("lora"));
    /* llama.cpp knows alpha / rank only; rank-stabilised scaling is folded into alpha. */
    gguf_write_f32(w->file, "adapter.lora.alpha", (float)(adapter_scaling(c) * (double)c->rank));
}

ft_status gguf_lora_write(struct gguf_writer *file, const char *path, const struct adapter *ad,
                          const struct model_config *model, enum dtype dtype, ft_error *err)
{
    struct lora_writer w = {.file = file, .ad = ad, .model = model, .dtype = dtype};
    ft_status st;
    FT_GOTO(gguf_write_open(file, path, err));
    FT_GOTO(alloc_buffers(&w, err));
    write_metadata(&w);
    FT_GOTO(each_tensor(&w, declare, err));
    FT_GOTO(each_tensor(&w, write_data, err));
out:
    mem_free(w.values);
    mem_free(w.permuted);
    return st;
}

ft_status gguf_lora_check(const char *path, ft_error *err)
{
    struct gguf *g;
    str general, adapter;
    ft_status st;
    FT_TRY(gguf_open(&g, path, err));
    FT_GOTO(gguf_opt_str(&general, g, "general.type", STR(""), err));
    FT_GOTO(gguf_opt_str(&adapter, g, "adapter.type", STR(""), err));
    if (!str_is(general, "adapter") || !str_is(adapter, "lora"))
        st = ft_fail(err, FT_EFORMAT, "%s: is no LoRA adapter", path);
out:
    gguf_close(g);
    return st;
}
