/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tiny_model.h"

#include <math.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/rng.h"
#include "formats/chat_template.h"
#include "formats/safetensors.h"
#include "formats/tok/tok.h"

static const char TOKENIZER[] = "data-samples/tokenizer-tiny.json";

static ft_status put(const char *dir, const char *name, str text, ft_error *err)
{
    struct arena a = {0};
    const char *path = path_join(&a, dir, name);
    ft_status st = path == NULL ? ft_fail_memory(err, 0, "a path")
                                : file_publish(path, text.ptr, text.len, err);
    arena_destroy(&a);
    return st;
}

/* Uniform with the given standard deviation around the mean. */
static void fill(float *x, int64_t n, uint64_t stream, double mean, double deviation)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(mean + deviation * sqrt(3) * (2 * rng_unit(7, stream, (uint64_t)i) - 1));
}

static ft_status write_tensor(struct safetensors_writer *w, const struct model_tensor *t, int64_t i,
                              ft_error *err)
{
    int64_t n = t->shape[0] * t->shape[1];
    bool norm = t->n_dims == 1;
    float *x;
    FT_TRY(mem_new(&x, (size_t)n, sizeof *x, t->name, err));
    fill(x, n, (uint64_t)i, norm ? 1 : 0, norm ? 0.1 : 1.5 / sqrt((double)t->shape[1]));
    safetensors_write(w, x, (size_t)n * sizeof *x);
    mem_free(x);
    return FT_OK;
}

static ft_status write_weights(const char *path, const struct model_config *c, ft_error *err)
{
    struct safetensors_writer w = {0};
    int64_t n = model_tensors(c);
    struct model_tensor *tensors = NULL;
    struct safetensors_entry *entries = NULL;
    ft_status st;
    FT_GOTO(mem_new(&tensors, (size_t)n, sizeof *tensors, "tensors", err));
    FT_GOTO(mem_new(&entries, (size_t)n, sizeof *entries, "tensors", err));
    for (int64_t i = 0; i < n; i++) {
        model_tensor_at(&tensors[i], c, i);
        entries[i] =
            (struct safetensors_entry){.name = tensors[i].name,
                                       .dtype = DT_F32,
                                       .n_dims = tensors[i].n_dims,
                                       .shape = {tensors[i].shape[0], tensors[i].shape[1]}};
    }
    FT_GOTO(safetensors_writer_open(&w, path, entries, (size_t)n, NULL, 0, err));
    for (int64_t i = 0; i < n; i++)
        FT_GOTO(write_tensor(&w, &tensors[i], i, err));
    FT_GOTO(safetensors_writer_commit(&w, err));
out:
    safetensors_writer_abort(&w);
    mem_free(tensors);
    mem_free(entries);
    return st;
}

ft_status tiny_model_write(const char *dir, const struct model_config *c, ft_error *err)
{
    struct arena a = {0};
    struct buf config = {0};
    str tokenizer;
    const char *weights = path_join(&a, dir, "model.safetensors");
    ft_status st;
    if (weights == NULL)
        FT_GOTO(ft_fail_memory(err, 0, "a path"));
    FT_GOTO(dir_create(dir, err));
    FT_GOTO(file_read_all(&tokenizer, &a, TOKENIZER, 1 << 24, err));
    FT_GOTO(put(dir, "tokenizer.json", tokenizer, err));
    FT_GOTO(put(dir, "chat_template.jinja", str_from(chat_smollm2_jinja), err));
    model_config_to_hf(&config, c);
    FT_GOTO(put(dir, "config.json", buf_view(&config), err));
    FT_GOTO(write_weights(weights, c, err));
out:
    buf_free(&config);
    arena_destroy(&a);
    return st;
}

ft_status tiny_adapter_write(const char *dir, const struct model_config *c, ft_error *err)
{
    const struct adapter_config config = {.rank = 4,
                                          .alpha = 8,
                                          .target = {true, true, true, true, true, true, true},
                                          .base_name = "tiny"};
    struct adapter_pair pairs[2 * LINEAR_KINDS] = {0};
    ft_status st;
    FT_ASSERT(c->n_layers == 2);
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        enum linear_kind k = (enum linear_kind)(i % LINEAR_KINDS);
        int64_t n_a = 4 * linear_in(c, k), n_b = 4 * linear_out(c, k);
        FT_GOTO(mem_new(&pairs[i].a, (size_t)n_a, sizeof(float), "an adapter", err));
        FT_GOTO(mem_new(&pairs[i].b, (size_t)n_b, sizeof(float), "an adapter", err));
        fill(pairs[i].a, n_a, (uint64_t)(1000 + 2 * i), 0, 1 / sqrt((double)linear_in(c, k)));
        fill(pairs[i].b, n_b, (uint64_t)(1001 + 2 * i), 0, 0.1);
    }
    FT_GOTO(adapter_save(dir, &config, c, pairs, err));
out:
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        mem_free(pairs[i].a);
        mem_free(pairs[i].b);
    }
    return st;
}

ft_status tiny_model_config(struct model_config *out, ft_error *err)
{
    struct tok *tok;
    FT_TRY(tok_open(&tok, TOKENIZER, err));
    *out = (struct model_config){.architecture = "llama",
                                 .hidden = 64,
                                 .n_layers = 2,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .intermediate = 96,
                                 .vocab = tok_n_vocab(tok),
                                 .max_positions = 2048,
                                 .rms_eps = 1e-5,
                                 .rope_theta = 10000,
                                 .tied_head = true,
                                 .bos_id = tok_special(tok, STR("<|im_start|>")),
                                 .eos_id = tok_special(tok, STR("<|im_end|>"))};
    tok_close(tok);
    return FT_OK;
}
