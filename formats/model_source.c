/* SPDX-License-Identifier: Apache-2.0
 * The configuration says which tensors there must be; each is looked up in the container. What is
 * left over belongs to a model we do not compute, and is refused. */
#include "formats/model_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/safetensors.h"

enum { CONFIG_MAX_BYTES = 16 << 20 };

struct model_source {
    struct arena arena;
    struct model_config config;
    const char *path, *name, *tokenizer;
    struct gguf *gguf; /* one of the two */
    struct safetensors *safetensors;
    struct source_tensor *tensors; /* [n] */
    const void **stored;           /* [n]: the container's own record of each tensor */
    int64_t n;
};

/* --- tensors ---------------------------------------------------------------------------------- */

static ft_status bad_tensor(const struct model_source *s, const char *name, const char *what,
                            ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: tensor '%s' %s", s->path, name, what);
}

static ft_status check_type(const struct model_source *s, const char *name, const char *type_name,
                            enum dtype dtype, bool vector, ft_error *err)
{
    if (dtype == DTYPES)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tensor '%s' has the type %s, which is not supported; use a model in "
                       "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K or Q6_K",
                       s->path, name, type_name);
    if (vector && dtype_block(dtype) != 1)
        return bad_tensor(s, name, "is a vector in a block format, expected F32, F16 or BF16", err);
    return FT_OK;
}

static ft_status wrong_shape(const struct model_source *s, const struct model_tensor *spec,
                             const char *name, int64_t rows, int64_t cols, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "%s: tensor '%s' has the shape [%" PRId64 ", %" PRId64
                   "], but the configuration needs [%" PRId64 ", %" PRId64
                   "]; configuration and weights belong to different models",
                   s->path, name, rows, cols, spec->shape[0], spec->shape[1]);
}

/* rows and cols follow from the shape; a permuted vector is reordered element by element. */
static void set_geometry(struct source_tensor *t)
{
    bool split = t->spec.n_dims == 2 || t->permuted_heads > 0;
    size_t bytes = 0;
    t->rows = split ? t->spec.shape[0] : 1;
    t->cols = split ? t->spec.shape[1] : t->spec.shape[0];
    bool fits = dtype_bytes(t->dtype, t->cols, &bytes);
    FT_ASSERT(fits);
    t->row_bytes = bytes;
}

/* --- GGUF ------------------------------------------------------------------------------------- */

static const char *gguf_suffix(const struct model_tensor *spec)
{
    return str_ends(str_from(spec->name), STR(".bias")) ? "bias" : "weight";
}

static void gguf_tensor_name(char dst[64], const struct model_tensor *spec)
{
    static const char *const linears[LINEAR_KINDS] = {
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down",
    };
    str name = str_from(spec->name);
    if (spec->kind >= 0)
        snprintf(dst, 64, "blk.%" PRId64 ".%s.%s", spec->layer, linears[spec->kind],
                 gguf_suffix(spec));
    else if (spec->layer >= 0)
        snprintf(dst, 64, "blk.%" PRId64 ".%s.weight", spec->layer,
                 str_ends(name, STR("input_layernorm.weight")) ? "attn_norm" : "ffn_norm");
    else if (str_is(name, "model.embed_tokens.weight"))
        snprintf(dst, 64, "token_embd.weight");
    else
        snprintf(dst, 64, "%s",
                 str_is(name, "model.norm.weight") ? "output_norm.weight" : "output.weight");
}

/* llama.cpp's converter reorders the rows of Q and K of its llama architecture (not of qwen2), so
 * that its RoPE can work on neighbouring pairs. */
static int64_t permuted_heads(const struct model_config *c, const struct model_tensor *spec)
{
    if (strcmp(c->architecture, "qwen2") == 0)
        return 0;
    if (spec->kind == LIN_Q)
        return c->n_heads;
    return spec->kind == LIN_K ? c->n_kv_heads : 0;
}

static ft_status find_in_gguf(struct model_source *s, int64_t i, ft_error *err)
{
    struct source_tensor *t = &s->tensors[i];
    char name[64];
    gguf_tensor_name(name, &t->spec);
    const struct gguf_tensor *g = gguf_find_tensor(s->gguf, str_from(name));
    if (g == NULL)
        return ft_fail(err, FT_EFORMAT, "%s: the tensor '%s' is missing; the file is incomplete",
                       s->path, name);
    bool vector = t->spec.n_dims == 1;
    int64_t rows = vector ? g->shape[0] : g->shape[1], cols = vector ? g->shape[1] : g->shape[0];
    if (rows != t->spec.shape[0] || cols != t->spec.shape[1] || g->shape[2] * g->shape[3] != 1)
        return wrong_shape(s, &t->spec, name, rows, cols, err);
    FT_TRY(check_type(s, name, g->type_name, g->dtype, vector, err));
    t->dtype = g->dtype;
    t->data = g->data;
    t->permuted_heads = permuted_heads(&s->config, &t->spec);
    set_geometry(t);
    s->stored[i] = g;
    return FT_OK;
}

static ft_status open_gguf(struct model_source *s, ft_error *err)
{
    FT_TRY(gguf_open(&s->gguf, s->path, err));
    FT_TRY(model_config_from_gguf(&s->config, s->gguf, err));
    if (gguf_has(s->gguf, "tokenizer.ggml.model"))
        s->tokenizer = s->path;
    return FT_OK;
}

/* --- safetensors ------------------------------------------------------------------------------ */

static ft_status find_in_safetensors(struct model_source *s, int64_t i, ft_error *err)
{
    struct source_tensor *t = &s->tensors[i];
    const char *name = t->spec.name;
    const struct safetensors_tensor *st = safetensors_find(s->safetensors, name);
    if (st == NULL)
        return bad_tensor(s, name, "is missing; the checkpoint is incomplete, or an adapter", err);
    int64_t rows = st->n_dims > 0 ? st->shape[0] : 1, cols = st->n_dims > 1 ? st->shape[1] : 1;
    if (st->n_dims != t->spec.n_dims || rows != t->spec.shape[0] || cols != t->spec.shape[1])
        return wrong_shape(s, &t->spec, name, rows, cols, err);
    FT_TRY(check_type(s, name, st->type_name, st->dtype, st->n_dims == 1, err));
    t->dtype = st->dtype;
    t->data = st->data;
    set_geometry(t);
    s->stored[i] = st;
    return FT_OK;
}

static ft_status load_config(struct model_source *s, const char *dir, ft_error *err)
{
    struct json_doc *doc;
    const char *path = path_join(&s->arena, dir, "config.json");
    if (path == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    if (!path_exists(path))
        return ft_fail(err, FT_EIO,
                       "%s: missing; a Hugging Face model directory has config.json and "
                       "model.safetensors in it",
                       path);
    FT_TRY(json_load(&doc, path, JSON_STRICT, CONFIG_MAX_BYTES, err));
    ft_status st = model_config_from_hf(&s->config, json_root(doc), err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

/* The file with the weights: the path itself, or what the directory holds. */
static ft_status find_weights(const char **out, struct model_source *s, const char *dir,
                              ft_error *err)
{
    const char *single = path_join(&s->arena, dir, "model.safetensors");
    const char *index = path_join(&s->arena, dir, "model.safetensors.index.json");
    if (single == NULL || index == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    *out = !path_is_dir(s->path) ? s->path : path_exists(index) ? index : single;
    if (path_exists(*out))
        return FT_OK;
    return ft_fail(err, FT_EIO,
                   "%s: holds neither model.safetensors nor model.safetensors.index.json; pickled "
                   "checkpoints (pytorch_model.bin) are not read, save them as safetensors first",
                   dir);
}

static ft_status open_directory(struct model_source *s, ft_error *err)
{
    size_t base = strlen(s->path) - strlen(path_base(s->path));
    const char *weights = NULL, *dir = s->path;
    if (!path_is_dir(s->path))
        dir = arena_cstr(&s->arena, base == 0 ? STR(".") : (str){s->path, base});
    const char *tokenizer = dir == NULL ? NULL : path_join(&s->arena, dir, "tokenizer.json");
    if (tokenizer == NULL)
        return ft_fail_memory(err, strlen(s->path), "a path");
    FT_TRY(load_config(s, dir, err));
    FT_TRY(find_weights(&weights, s, dir, err));
    if (path_exists(tokenizer))
        s->tokenizer = tokenizer;
    return safetensors_open(&s->safetensors, weights, err);
}

/* --- leftovers -------------------------------------------------------------------------------- */

/* Tensors that change nothing: RoPE tables that follow from the configuration, and the head of a
 * tied model, which transformers ignores too. */
static bool is_harmless(const struct model_source *s, str name)
{
    return str_is(name, "rope_freqs.weight") || str_ends(name, STR("rotary_emb.inv_freq")) ||
           (s->config.tied_head && str_is(name, "lm_head.weight"));
}

static str stored_name(const struct model_source *s, size_t i)
{
    return s->gguf != NULL ? gguf_tensor(s->gguf, i)->name
                           : str_from(safetensors_at(s->safetensors, i)->name);
}

static size_t stored_index(const struct model_source *s, const void *stored)
{
    if (s->gguf != NULL)
        return (size_t)((const struct gguf_tensor *)stored - gguf_tensor(s->gguf, 0));
    return (size_t)((const struct safetensors_tensor *)stored - safetensors_at(s->safetensors, 0));
}

static ft_status refuse_leftovers(const struct model_source *s, ft_error *err)
{
    size_t n = s->gguf != NULL ? gguf_tensors(s->gguf) : safetensors_count(s->safetensors);
    bool *used;
    ft_status st = FT_OK;
    FT_TRY(mem_new(&used, n, sizeof *used, "a tensor table", err));
    for (int64_t i = 0; i < s->n; i++)
        used[stored_index(s, s->stored[i])] = true;
    for (size_t i = 0; i < n && st == FT_OK; i++)
        if (!used[i] && !is_harmless(s, stored_name(s, i)))
            st =
                ft_fail(err, FT_EFORMAT,
                        "%s: the tensor '%.*s' has no place in a %s model; models with other parts "
                        "are not supported",
                        s->path, STR_ARG(stored_name(s, i)), s->config.architecture);
    mem_free(used);
    return st;
}

/* --- opening ---------------------------------------------------------------------------------- */

static ft_status find_tensors(struct model_source *s, ft_error *err)
{
    s->n = model_tensors(&s->config);
    s->tensors = arena_alloc(&s->arena, (size_t)s->n, sizeof *s->tensors);
    s->stored = arena_alloc(&s->arena, (size_t)s->n, sizeof *s->stored);
    if (s->tensors == NULL || s->stored == NULL)
        return ft_fail_memory(err, (size_t)s->n * sizeof *s->tensors, "a tensor table");
    for (int64_t i = 0; i < s->n; i++) {
        model_tensor_at(&s->tensors[i].spec, &s->config, i);
        FT_TRY(s->gguf != NULL ? find_in_gguf(s, i, err) : find_in_safetensors(s, i, err));
    }
    return refuse_leftovers(s, err);
}

static ft_status open_source(struct model_source *s, const char *path, ft_error *err)
{
    str p = str_from(path);
    while (p.len > 1 && str_ends(p, STR("/")))
        p.len--;
    s->path = arena_cstr(&s->arena, p);
    if (s->path == NULL)
        return ft_fail_memory(err, p.len, "a path");
    s->name = path_base(s->path);
    if (!path_exists(s->path))
        return ft_fail(err, FT_EIO, "%s: no such file or directory", s->path);
    if (str_ends(p, STR(".gguf")))
        FT_TRY(open_gguf(s, err));
    else if (path_is_dir(s->path) || str_ends(p, STR(".safetensors")) || str_ends(p, STR(".json")))
        FT_TRY(open_directory(s, err));
    else
        return ft_fail(err, FT_EUSAGE,
                       "%s: expected a .gguf file, a .safetensors file, or a Hugging Face model "
                       "directory",
                       s->path);
    return find_tensors(s, err);
}

ft_status model_source_open(struct model_source **out, const char *path, ft_error *err)
{
    struct model_source *s;
    *out = NULL;
    FT_TRY(mem_new(&s, 1, sizeof *s, "a model", err));
    ft_status st = open_source(s, path, err);
    if (st == FT_OK)
        *out = s;
    else
        model_source_close(s);
    return st;
}

void model_source_close(struct model_source *s)
{
    if (s == NULL)
        return;
    gguf_close(s->gguf);
    safetensors_close(s->safetensors);
    arena_destroy(&s->arena);
    mem_free(s);
}

const struct model_config *model_source_config(const struct model_source *s)
{
    return &s->config;
}

const char *model_source_name(const struct model_source *s)
{
    return s->name;
}

const char *model_source_tokenizer(const struct model_source *s)
{
    return s->tokenizer;
}

/* --- reading ---------------------------------------------------------------------------------- */

const struct source_tensor *model_source_tensor(const struct model_source *s, int64_t i)
{
    FT_ASSERT(i >= 0 && i < s->n);
    return &s->tensors[i];
}

const struct source_tensor *model_source_find(const struct model_source *s, const char *name)
{
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(s->tensors[i].spec.name, name) == 0)
            return &s->tensors[i];
    return NULL;
}

/* Within a head, element a * half + b of the Hugging Face order is stored at 2 * b + a. */
static int64_t stored_row(const struct source_tensor *t, int64_t row)
{
    if (t->permuted_heads == 0)
        return row;
    int64_t head_dim = t->rows / t->permuted_heads, half = head_dim / 2;
    int64_t inside = row % head_dim;
    return row - inside + inside % half * 2 + inside / half;
}

const uint8_t *source_row(const struct source_tensor *t, int64_t row)
{
    return t->data + (size_t)stored_row(t, row) * t->row_bytes;
}

void source_read_rows(const struct source_tensor *t, int64_t from, int64_t to, float *dst)
{
    FT_ASSERT(from >= 0 && from <= to && to <= t->rows);
    if (t->permuted_heads == 0) {
        dtype_decode(t->dtype, t->data + (size_t)from * t->row_bytes, (to - from) * t->cols, dst);
        return;
    }
    for (int64_t row = from; row < to; row++)
        dtype_decode(t->dtype, source_row(t, row), t->cols, dst + (row - from) * t->cols);
}

void model_source_release(const struct model_source *s, int64_t i)
{
    if (s->gguf != NULL)
        gguf_release_tensor(s->gguf, s->stored[i]);
    else
        safetensors_release(s->safetensors, s->stored[i]);
}
