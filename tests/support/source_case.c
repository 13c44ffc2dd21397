/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/source_case.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/file.h"
#include "common/rng.h"
#include "formats/gguf_write.h"
#include "formats/safetensors.h"
#include "tests/support/check.h"

struct model_config source_config(const char *architecture)
{
    bool qwen2 = strcmp(architecture, "qwen2") == 0;
    struct model_config c = {
        .hidden = 96,
        .n_layers = 2,
        .n_heads = 6,
        .n_kv_heads = 2,
        .head_dim = 10,
        .intermediate = 65,
        .vocab = 50,
        .max_positions = 128,
        .rms_eps = (double)1e-5f,
        .rope_theta = 10000,
        .attention_bias = qwen2,
        .bos_id = 1,
        .eos_id = 2,
    };
    snprintf(c.architecture, sizeof c.architecture, "%s", architecture);
    return c;
}

void source_values(float *dst, const struct model_tensor *t, int64_t i)
{
    for (int64_t e = 0; e < t->shape[0] * t->shape[1]; e++)
        dst[e] = (float)(rng_unit(11, (uint64_t)i, (uint64_t)e) - 0.5);
}

static float *new_values(const struct model_config *c, int64_t i, struct model_tensor *t)
{
    model_tensor_at(t, c, i);
    float *x = malloc((size_t)(t->shape[0] * t->shape[1]) * sizeof *x);
    assert_non_null(x);
    source_values(x, t, i);
    return x;
}

static void write_config(const char *dir, const struct model_config *c)
{
    struct buf b = {0};
    struct arena a = {0};
    ft_error err;
    model_config_to_hf(&b, c);
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_publish(path_join(&a, dir, "config.json"), b.data, b.len, &err));
    arena_destroy(&a);
    buf_free(&b);
}

void write_hf_model(const char *dir, const struct model_config *c, enum dtype dtype)
{
    enum { MAX = 64 };
    struct safetensors_entry entries[MAX];
    struct model_tensor tensors[MAX];
    struct safetensors_writer w;
    struct arena a = {0};
    ft_error err;
    int64_t n = model_tensors(c);
    assert_true(n <= MAX);
    for (int64_t i = 0; i < n; i++) {
        struct model_tensor *t = &tensors[i];
        model_tensor_at(t, c, i);
        entries[i] =
            (struct safetensors_entry){t->name, dtype, t->n_dims, {t->shape[0], t->shape[1]}};
    }
    write_config(dir, c);
    ASSERT_OK(safetensors_writer_open(&w, path_join(&a, dir, "model.safetensors"), entries,
                                      (size_t)n, NULL, 0, &err));
    for (int64_t i = 0; i < n; i++) {
        struct model_tensor t;
        float *x = new_values(c, i, &t);
        int64_t numel = t.shape[0] * t.shape[1];
        dtype_encode(dtype, x, numel, x);
        safetensors_write(&w, x, (size_t)numel * dtype_block_bytes(dtype));
        free(x);
    }
    ASSERT_OK(safetensors_writer_commit(&w, &err));
    arena_destroy(&a);
}

/* --- GGUF ------------------------------------------------------------------------------------ */

static void gguf_name_of(char dst[64], const struct model_tensor *t)
{
    static const char *const linears[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                          "ffn_gate", "ffn_up", "ffn_down"};
    const char *suffix = strstr(t->name, ".bias") != NULL ? "bias" : "weight";
    if (t->kind >= 0)
        snprintf(dst, 64, "blk.%d.%s.%s", (int)t->layer, linears[t->kind], suffix);
    else if (t->layer >= 0)
        snprintf(dst, 64, "blk.%d.%s.weight", (int)t->layer,
                 strstr(t->name, "input") != NULL ? "attn_norm" : "ffn_norm");
    else
        snprintf(dst, 64, "%s.weight",
                 strstr(t->name, "embed") != NULL  ? "token_embd"
                 : strstr(t->name, "norm") != NULL ? "output_norm"
                                                   : "output");
}

/* Rows of each head from [2, head_dim / 2] to [head_dim / 2, 2]. */
static void permute(float *x, int64_t rows, int64_t cols, int64_t head_dim)
{
    size_t bytes = (size_t)(rows * cols) * sizeof *x;
    float *old = malloc(bytes);
    memcpy(old, x, bytes);
    for (int64_t head = 0; head < rows; head += head_dim)
        for (int64_t pair = 0; pair < head_dim / 2; pair++)
            for (int64_t part = 0; part < 2; part++)
                memcpy(x + (head + 2 * pair + part) * cols,
                       old + (head + part * head_dim / 2 + pair) * cols, (size_t)cols * sizeof *x);
    free(old);
}

static void put_metadata(struct gguf_writer *w, const struct model_config *c)
{
    const char *arch = strcmp(c->architecture, "qwen2") == 0 ? "qwen2" : "llama";
    const struct {
        const char *key;
        int64_t value;
    } values[] = {
        {"embedding_length", c->hidden},       {"block_count", c->n_layers},
        {"attention.head_count", c->n_heads},  {"attention.head_count_kv", c->n_kv_heads},
        {"attention.key_length", c->head_dim}, {"attention.value_length", c->head_dim},
        {"rope.dimension_count", c->head_dim}, {"feed_forward_length", c->intermediate},
        {"context_length", c->max_positions},
    };
    char key[96];
    gguf_write_str(w, "general.architecture", str_from(arch));
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, values[i].key);
        gguf_write_u32(w, key, (uint32_t)values[i].value);
    }
    if (c->sliding_window > 0)
        gguf_write_u32(w, "llama.attention.sliding_window", (uint32_t)c->sliding_window);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gguf_write_f32(w, key, (float)c->rms_eps);
    gguf_write_u32(w, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos_id);
    gguf_write_u32(w, "tokenizer.ggml.eos_token_id", (uint32_t)c->eos_id);
}

void write_gguf_model(const char *path, const struct model_config *c)
{
    struct gguf_writer w;
    ft_error err;
    char name[64];
    ASSERT_OK(gguf_write_open(&w, path, &err));
    put_metadata(&w, c);
    for (int64_t i = 0; i < model_tensors(c); i++) {
        struct model_tensor t;
        model_tensor_at(&t, c, i);
        gguf_name_of(name, &t);
        int64_t dims[2] = {t.n_dims == 2 ? t.shape[1] : t.shape[0], t.shape[0]};
        ASSERT_OK(gguf_write_tensor(&w, name, DT_F32, dims, t.n_dims, &err));
    }
    for (int64_t i = 0; i < model_tensors(c); i++) {
        struct model_tensor t;
        float *x = new_values(c, i, &t);
        if ((t.kind == LIN_Q || t.kind == LIN_K) && strcmp(c->architecture, "qwen2") != 0)
            permute(x, t.shape[0], t.shape[1], c->head_dim);
        ASSERT_OK(gguf_write_data(&w, x, (size_t)(t.shape[0] * t.shape[1]) * sizeof *x, &err));
        gguf_write_pad(&w);
        free(x);
    }
    ASSERT_OK(gguf_write_commit(&w, &err));
}
