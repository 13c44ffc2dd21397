/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/weights.h"

#include <stdio.h>

#include "common/mem.h"
#include "trainer/carve.h"

static struct weight matrix_view(const struct nf4_tensor *t)
{
    return (struct weight){.data = t->data,
                           .dtype = t->dtype,
                           .rows = t->shape[0],
                           .cols = t->shape[1],
                           .nf4 = t->nf4,
                           .name = t->name};
}

/* The file has been checked to hold every tensor of its config. */
static const struct nf4_tensor *get(const struct nf4_file *base, const char *name)
{
    const struct nf4_tensor *t = nf4_file_find(base, name);
    FT_ASSERT(t != NULL);
    return t;
}

static struct tensor vector(struct carve *c, const struct nf4_file *base, const char *name)
{
    const struct nf4_tensor *t = get(base, name);
    struct tensor v = carve(c, t->name, 1, t->shape[0]);
    dtype_decode(t->dtype, t->data, t->shape[0], v.data);
    return v;
}

static struct tensor layer_vector(struct carve *c, const struct nf4_file *base, int64_t layer,
                                  const char *what)
{
    char name[MODEL_TENSOR_NAME];
    snprintf(name, sizeof name, "model.layers.%lld.%s.weight", (long long)layer, what);
    return vector(c, base, name);
}

static void init_linear(struct block_weights *b, struct carve *c, const struct nf4_file *base,
                        int64_t layer, enum linear_kind k)
{
    char module[MODEL_TENSOR_NAME], name[MODEL_TENSOR_NAME + 8];
    linear_module(module, layer, k);
    snprintf(name, sizeof name, "%s.weight", module);
    b->linear[k] = matrix_view(get(base, name));
    snprintf(name, sizeof name, "%s.bias", module);
    b->bias[k] = linear_has_bias(nf4_file_config(base), k) ? vector(c, base, name) : tensor_none();
}

int64_t weights_vector_floats(const struct model_config *config)
{
    struct carve c = {.base = NULL};
    for (int64_t layer = 0; layer < config->n_layers; layer++) {
        carve(&c, "attention norm", 1, config->hidden);
        carve(&c, "mlp norm", 1, config->hidden);
        for (int k = 0; k < LINEAR_KINDS; k++)
            if (linear_has_bias(config, (enum linear_kind)k))
                carve(&c, "bias", 1, linear_out(config, (enum linear_kind)k));
    }
    carve(&c, "final norm", 1, config->hidden);
    carve(&c, "inv_freq", 1, config->head_dim / 2);
    return c.n;
}

ft_status weights_init(struct weights *out, const struct nf4_file *base, float *vectors,
                       ft_error *err)
{
    const struct model_config *config = nf4_file_config(base);
    struct carve c = {.base = vectors};
    *out = (struct weights){.blocks = NULL};
    FT_TRY(
        mem_new(&out->blocks, (size_t)config->n_layers, sizeof *out->blocks, "weight views", err));
    for (int64_t layer = 0; layer < config->n_layers; layer++) {
        struct block_weights *b = &out->blocks[layer];
        b->attention_norm = layer_vector(&c, base, layer, "input_layernorm");
        b->mlp_norm = layer_vector(&c, base, layer, "post_attention_layernorm");
        for (int k = 0; k < LINEAR_KINDS; k++)
            init_linear(b, &c, base, layer, (enum linear_kind)k);
    }
    out->final_norm = vector(&c, base, "model.norm.weight");
    out->inv_freq = carve(&c, "inv_freq", 1, config->head_dim / 2);
    model_config_inv_freq(out->inv_freq.data, config);
    FT_ASSERT(c.n == weights_vector_floats(config));
    out->embedding = matrix_view(get(base, "model.embed_tokens.weight"));
    out->head = config->tied_head ? out->embedding : matrix_view(get(base, "lm_head.weight"));
    return FT_OK;
}

void weights_reset(struct weights *w)
{
    mem_free(w->blocks);
    w->blocks = NULL;
}
