/* SPDX-License-Identifier: Apache-2.0
 * Every buffer of a step: its size, and what shares memory with what. The views are cut anew for
 * the number of rows of each batch, out of allocations made for the largest. */
#ifndef TRAINER_PLAN_H
#define TRAINER_PLAN_H

#include "trainer/carve.h"
#include "trainer/model.h"

/* What a block leaves for its backward; n rows each. Norms, the SwiGLU product and the low-rank
 * intermediates are cheap and are computed again instead. */
struct block_cache {
    struct tensor q, k, v; /* after RoPE */
    struct tensor attended, lse;
    struct tensor middle;   /* residual stream between attention and MLP */
    struct tensor gate, up; /* in the backward: their gradients */
};

/* Valid within one operation or one part of a block. The three groups are never alive together and
 * share their memory. */
struct scratch {
    struct tensor norm;       /* [n, hidden] output of a norm */
    struct tensor rope_table; /* [n, head_dim] */
    struct tensor lora_hidden, lora_dropped;
    struct tensor logits;      /* [chunk, vocab] */
    struct tensor d_x, d_norm; /* training: [n, hidden] */
    struct tensor act, d_act;  /* MLP: [n, intermediate] */
    struct tensor d_attended;  /* attention backward: [n, heads * head_dim] */
    struct tensor d_q, d_k, d_v, d_k_heads, d_v_heads;
    struct tensor head_x, head_norm, d_head_x, d_head_norm; /* head: target rows only */
    int32_t *positions;                                     /* [n] */
    int32_t *rows, *targets; /* [n]: rows that predict a target, and the target */
};

struct plan {
    /* Rows and floats of the largest batch, fixed at creation. */
    int64_t max_rows;
    int64_t activation_floats, scratch_floats, kv_floats;
    /* Views for the rows in use; the arrays are owned, [n_layers] and inputs [n_layers + 1]. */
    struct tensor *inputs; /* residual stream into each block and out of the last */
    struct block_cache *blocks;
    struct tensor *k_cache, *v_cache; /* [max_context, kv_heads * head_dim] */
    struct scratch scratch;
};

/* Sizes only; allocates nothing. */
void plan_measure(struct plan *out, const struct model_config *c, const struct model_options *o);
/* Measures and makes room for the views. */
FT_NODISCARD ft_status plan_init(struct plan *out, const struct model_config *c,
                                 const struct model_options *o, ft_error *err);
void plan_reset(struct plan *p);

/* Cuts the views for n rows, 0 < n <= max_rows. */
void plan_use_rows(struct plan *p, const struct model_config *c, const struct model_options *o,
                   int64_t n, float *activations, float *scratch);
void plan_use_cache(struct plan *p, const struct model_config *c, const struct model_options *o,
                    float *kv);

#endif
