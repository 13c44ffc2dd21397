/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/model_case.h"

#include "common/half.h"
#include "common/mem.h"
#include "common/rng.h"
#include "formats/nf4_write.h"

struct model_config tiny_config(void)
{
    return (struct model_config){.architecture = "llama",
                                 .hidden = 48,
                                 .n_layers = 2,
                                 .n_heads = 6,
                                 .n_kv_heads = 2,
                                 .head_dim = 8,
                                 .intermediate = 72,
                                 .vocab = 101,
                                 .max_positions = 512,
                                 .rms_eps = 1e-5,
                                 .rope_theta = 10000,
                                 .bos_id = -1,
                                 .eos_id = -1};
}

struct adapter_config tiny_adapter(void)
{
    struct adapter_config a = {.rank = 4, .alpha = 8};
    for (int k = 0; k < LINEAR_KINDS; k++)
        a.target[k] = true;
    return a;
}

static enum dtype stored_type(const struct model_tensor *t)
{
    return t->is_linear ? DT_NF4 : t->n_dims == 2 ? DT_F16 : DT_F32;
}

static void write_tensor(struct nf4_writer *w, const struct model_tensor *t, uint64_t key)
{
    struct weight v;
    size_t bytes;
    if (t->is_linear || t->n_dims == 2) {
        v = random_weight(stored_type(t), t->shape[0], t->shape[1], key);
    } else {
        v = random_weight(DT_F32, t->shape[0], 1, key);
        for (int64_t i = 0; t->kind < 0 && i < t->shape[0]; i++) /* norm gains lie around one */
            ((float *)(uintptr_t)v.data)[i] += 1;
    }
    if (v.dtype == DT_NF4) {
        nf4_writer_matrix(w, &v.nf4);
        return;
    }
    FT_ASSERT(dtype_bytes(v.dtype, v.rows * v.cols, &bytes));
    nf4_writer_data(w, v.data, bytes);
}

struct nf4_file *tiny_base(const char *name, const struct model_config *c, uint64_t seed)
{
    const char *path = test_path(name);
    enum dtype types[64];
    struct model_tensor t;
    struct nf4_writer *w;
    struct nf4_file *base;
    ft_error err;
    int64_t n = model_tensors(c);
    FT_ASSERT(n <= (int64_t)ARRAY_LEN(types));
    for (int64_t i = 0; i < n; i++) {
        model_tensor_at(&t, c, i);
        types[i] = stored_type(&t);
    }
    const struct nf4_write_options o = {.config = c, .dtypes = types, .source = "test"};
    ASSERT_OK(nf4_writer_open(&w, path, &o, &err));
    for (int64_t i = 0; i < n; i++) {
        model_tensor_at(&t, c, i);
        write_tensor(w, &t, seed + (uint64_t)i);
    }
    ASSERT_OK(nf4_writer_commit(w, (hash128){0, 0}, &err));
    nf4_writer_close(w);
    ASSERT_OK(nf4_file_open(&base, path, &err));
    return base;
}

void randomize_adapter(struct model *m, uint64_t seed)
{
    const struct model_params *p = model_params(m);
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct param_tensor *t = &p->tensors[i];
        fill_random(p->values + t->offset, t->rows * t->cols, seed + i, 0.2);
    }
}

static struct micro_batch empty_batch(int64_t n_tokens, int64_t n_seqs)
{
    /* Backed by numeric.c's blocks, which are at least as wide as these types. */
    return (struct micro_batch){.n_tokens = n_tokens,
                                .tokens = (int32_t *)(void *)zeros_f32(n_tokens),
                                .trained = (uint8_t *)zeros_f32(n_tokens),
                                .n_seqs = n_seqs,
                                .seq_starts = (int64_t *)(void *)zeros_f64(n_seqs + 1)};
}

struct micro_batch random_batch(const int64_t *lengths, int64_t n_seqs, int64_t vocab,
                                uint64_t seed)
{
    int64_t n = 0;
    for (int64_t i = 0; i < n_seqs; i++)
        n += lengths[i];
    struct micro_batch b = empty_batch(n, n_seqs);
    int64_t *starts = (int64_t *)(uintptr_t)b.seq_starts;
    for (int64_t i = 0; i < n_seqs; i++)
        starts[i + 1] = starts[i] + lengths[i];
    for (int64_t t = 0; t < n; t++) {
        ((int32_t *)(uintptr_t)b.tokens)[t] =
            (int32_t)(rng_u64(seed, 0, (uint64_t)t) % (uint64_t)vocab);
        ((uint8_t *)(uintptr_t)b.trained)[t] = rng_u64(seed, 1, (uint64_t)t) % 4 != 0;
    }
    return b;
}

static int64_t number_at(const json *v)
{
    int64_t n;
    FT_ASSERT(json_i64(v, &n));
    return n;
}

struct micro_batch load_batch(const char *path)
{
    struct json_doc *doc;
    ft_error err;
    int64_t i = 0;
    ASSERT_OK(json_load(&doc, path, JSON_STRICT, 1 << 24, &err));
    const json *root = json_root(doc);
    const json *tokens = json_get(root, "tokens"), *starts = json_get(root, "starts");
    struct micro_batch b =
        empty_batch((int64_t)json_count(tokens), (int64_t)json_count(starts) - 1);
    for (const json *v = json_first(tokens); v != NULL; v = json_next(v))
        ((int32_t *)(uintptr_t)b.tokens)[i++] = (int32_t)number_at(v);
    i = 0;
    for (const json *v = json_first(json_get(root, "trained")); v != NULL; v = json_next(v))
        ((uint8_t *)(uintptr_t)b.trained)[i++] = (uint8_t)number_at(v);
    i = 0;
    for (const json *v = json_first(starts); v != NULL; v = json_next(v))
        ((int64_t *)(uintptr_t)b.seq_starts)[i++] = number_at(v);
    json_close(doc);
    return b;
}

struct model *open_model(struct backend *be, const struct nf4_file *base,
                         const struct model_options *o)
{
    struct model *m;
    ft_error err;
    ASSERT_OK(model_create(&m, be, base, o, &err));
    return m;
}
