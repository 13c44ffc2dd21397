/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/plan.h"

#include "common/mem.h"

enum {
    FEED_ROWS = 256,        /* tokens of a prompt processed at a time */
    LOGITS_FLOATS = 1 << 24 /* of a chunk: 64 MiB; half costs 3 % of a step, a quarter 6 % */
};

static int64_t widest_input(const struct model_config *c)
{
    int64_t widest = 0;
    for (int k = 0; k < LINEAR_KINDS; k++)
        widest = FT_MAX(widest, linear_in(c, (enum linear_kind)k));
    return widest;
}

static struct block_cache carve_block(struct carve *a, const struct model_config *c, int64_t n)
{
    int64_t width_q = c->n_heads * c->head_dim, width_kv = c->n_kv_heads * c->head_dim;
    struct block_cache b;
    b.q = carve(a, "q", n, width_q);
    b.k = carve(a, "k", n, width_kv);
    b.v = carve(a, "v", n, width_kv);
    b.attended = carve(a, "attended", n, width_q);
    b.lse = carve(a, "lse", n, c->n_heads);
    b.middle = carve(a, "middle", n, c->hidden);
    b.gate = carve(a, "gate", n, c->intermediate);
    b.up = carve(a, "up", n, c->intermediate);
    return b;
}

/* Training keeps the input of every block, and without recompute the whole cache of every block;
 * otherwise all blocks take turns in one. Returns the floats used; stores views if there is room.
 */
static int64_t cut_activations(struct plan *p, const struct model_config *c,
                               const struct model_options *o, int64_t n, float *base)
{
    struct carve a = {.base = base};
    struct tensor input = carve(&a, "x", n, c->hidden);
    struct block_cache block = carve_block(&a, c, n);
    for (int64_t layer = 0; layer <= c->n_layers; layer++) {
        if (o->training && layer > 0)
            input = carve(&a, "x", n, c->hidden);
        if (o->training && !o->recompute && layer > 0 && layer < c->n_layers)
            block = carve_block(&a, c, n);
        if (p->inputs == NULL)
            continue;
        p->inputs[layer] = input;
        if (layer < c->n_layers)
            p->blocks[layer] = block;
    }
    return a.n;
}

static void carve_mlp(struct scratch *s, struct carve *a, const struct model_config *c,
                      const struct model_options *o, int64_t n)
{
    s->act = carve(a, "act", n, c->intermediate);
    if (o->training)
        s->d_act = carve(a, "d_act", n, c->intermediate);
}

static void carve_attention_bwd(struct scratch *s, struct carve *a, const struct model_config *c,
                                int64_t n)
{
    int64_t width_q = c->n_heads * c->head_dim, width_kv = c->n_kv_heads * c->head_dim;
    s->d_attended = carve(a, "d_attended", n, width_q);
    s->d_q = carve(a, "d_q", n, width_q);
    s->d_k = carve(a, "d_k", n, width_kv);
    s->d_v = carve(a, "d_v", n, width_kv);
    s->d_k_heads = carve(a, "d_k_heads", n, width_q);
    s->d_v_heads = carve(a, "d_v_heads", n, width_q);
}

static void carve_head(struct scratch *s, struct carve *a, const struct model_config *c,
                       const struct model_options *o, int64_t n)
{
    s->head_x = carve(a, "head_x", n, c->hidden);
    s->head_norm = carve(a, "head_norm", n, c->hidden);
    if (o->training) {
        s->d_head_x = carve(a, "d_head_x", n, c->hidden);
        s->d_head_norm = carve(a, "d_head_norm", n, c->hidden);
    }
}

static int64_t cut_scratch(struct scratch *s, const struct model_config *c,
                           const struct model_options *o, int64_t n, float *base)
{
    struct carve a = {.base = base};
    int64_t chunk = FT_MIN(n, FT_MAX(LOGITS_FLOATS / c->vocab, (int64_t)1));
    *s = (struct scratch){.norm = carve(&a, "norm", n, c->hidden)};
    s->rope_table = carve(&a, "rope table", n, c->head_dim);
    s->positions = carve_i32(&a, n);
    s->rows = carve_i32(&a, n);
    s->targets = carve_i32(&a, n);
    s->logits = carve(&a, "logits", chunk, c->vocab);
    if (o->adapter != NULL)
        s->lora_hidden = carve(&a, "lora hidden", 2 * n, o->adapter->rank);
    if (o->training && o->adapter->dropout > 0)
        s->lora_dropped = carve(&a, "lora dropped", n, widest_input(c));
    if (o->training) {
        s->d_x = carve(&a, "d_x", n, c->hidden);
        s->d_norm = carve(&a, "d_norm", n, c->hidden);
    }
    struct carve mlp = a, attention = a, head = a; /* from the same start */
    carve_mlp(s, &mlp, c, o, n);
    if (o->training)
        carve_attention_bwd(s, &attention, c, n);
    carve_head(s, &head, c, o, n);
    return FT_MAX(FT_MAX(mlp.n, attention.n), head.n);
}

static int64_t cut_cache(struct plan *p, const struct model_config *c,
                         const struct model_options *o, float *base)
{
    struct carve a = {.base = base};
    for (int64_t layer = 0; layer < c->n_layers; layer++) {
        struct tensor k = carve(&a, "k cache", o->max_context, c->n_kv_heads * c->head_dim);
        struct tensor v = carve(&a, "v cache", o->max_context, c->n_kv_heads * c->head_dim);
        if (p->k_cache != NULL) {
            p->k_cache[layer] = k;
            p->v_cache[layer] = v;
        }
    }
    return a.n;
}

void plan_measure(struct plan *out, const struct model_config *c, const struct model_options *o)
{
    FT_ASSERT(!o->training || o->adapter != NULL);
    *out = (struct plan){.max_rows =
                             FT_MAX(o->max_tokens, FT_MIN(o->max_context, (int64_t)FEED_ROWS))};
    out->activation_floats = cut_activations(out, c, o, out->max_rows, NULL);
    out->scratch_floats = cut_scratch(&out->scratch, c, o, out->max_rows, NULL);
    out->kv_floats = cut_cache(out, c, o, NULL);
}

ft_status plan_init(struct plan *out, const struct model_config *c, const struct model_options *o,
                    ft_error *err)
{
    size_t layers = (size_t)c->n_layers, tensor = sizeof(struct tensor);
    plan_measure(out, c, o);
    FT_TRY(mem_new(&out->inputs, layers + 1, tensor, "activation views", err));
    FT_TRY(mem_new(&out->blocks, layers, sizeof *out->blocks, "activation views", err));
    FT_TRY(mem_new(&out->k_cache, layers, tensor, "cache views", err));
    return mem_new(&out->v_cache, layers, tensor, "cache views", err);
}

void plan_reset(struct plan *p)
{
    mem_free(p->inputs);
    mem_free(p->blocks);
    mem_free(p->k_cache);
    mem_free(p->v_cache);
    *p = (struct plan){.inputs = NULL};
}

void plan_use_rows(struct plan *p, const struct model_config *c, const struct model_options *o,
                   int64_t n, float *activations, float *scratch)
{
    FT_ASSERT(n > 0 && n <= p->max_rows);
    int64_t activation_floats = cut_activations(p, c, o, n, activations);
    int64_t scratch_floats = cut_scratch(&p->scratch, c, o, n, scratch);
    FT_ASSERT(activation_floats <= p->activation_floats && scratch_floats <= p->scratch_floats);
}

void plan_use_cache(struct plan *p, const struct model_config *c, const struct model_options *o,
                    float *kv)
{
    int64_t floats = cut_cache(p, c, o, kv);
    FT_ASSERT(floats == p->kv_floats);
}
