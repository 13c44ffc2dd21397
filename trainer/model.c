/* SPDX-License-Identifier: Apache-2.0
 * Reads top to bottom as the model computes: linear layers, block forward, block backward, head,
 * step, generation. */
#include "trainer/model.h"

#include "common/mem.h"
#include "trainer/lora.h"
#include "trainer/ops.h"
#include "trainer/plan.h"
#include "trainer/weights.h"

struct model {
    struct backend *be;
    const struct model_config *config;
    struct model_options options;
    struct adapter_config adapter; /* options.adapter points here */
    struct attention_shape attention;
    struct weights weights;
    struct adapter_layout layout;
    struct model_params params;
    struct adapter_pair *pairs; /* [n_layers * LINEAR_KINDS] */
    struct plan plan;
    float *vectors, *activations, *scratch, *kv; /* one allocation per class */

    uint64_t dropout_key;  /* of the running step; 0 = no dropout */
    struct sequences seqs; /* of the running batch */
    int64_t n_fed;         /* positions in the KV cache */
};

/* --- linear layers with their adapters -------------------------------------------------------- */

static bool is_adapted(const struct model *m, int64_t layer, enum linear_kind k)
{
    return m->layout.index[layer * LINEAR_KINDS + (int64_t)k] >= 0;
}

static struct tensor param_view(const struct model *m, float *flat, int64_t layer,
                                enum linear_kind k, bool is_b)
{
    const struct param_tensor *t =
        &m->layout.tensors[m->layout.index[layer * LINEAR_KINDS + (int64_t)k] + is_b];
    return tensor_f32(is_b ? "lora_B" : "lora_A", flat + t->offset, t->rows, t->cols);
}

static struct lora lora_of(const struct model *m, int64_t layer, enum linear_kind k)
{
    return (struct lora){.a = param_view(m, m->params.values, layer, k, false),
                         .b = param_view(m, m->params.values, layer, k, true),
                         .scaling = adapter_scaling(&m->adapter),
                         .dropout = m->dropout_key != 0 ? m->adapter.dropout : 0,
                         .key = m->dropout_key,
                         .stream = (uint64_t)(layer * LINEAR_KINDS + (int64_t)k)};
}

static struct lora_scratch lora_scratch_of(const struct model *m)
{
    return (struct lora_scratch){m->plan.scratch.lora_hidden, m->plan.scratch.lora_dropped};
}

/* y = x W^T + bias + scaling * B A drop(x) */
static void linear_fwd(struct model *m, int64_t layer, enum linear_kind k, struct tensor y,
                       struct tensor x)
{
    const struct block_weights *w = &m->weights.blocks[layer];
    op_linear_fwd(m->be, y, x, &w->linear[k], w->bias[k]);
    if (is_adapted(m, layer, k)) {
        struct lora l = lora_of(m, layer, k);
        op_lora_fwd(m->be, y, x, &l, lora_scratch_of(m));
    }
}

/* Gradients of the adapter, and d_x (+= with `add`) unless d_x is absent. */
static void linear_bwd(struct model *m, int64_t layer, enum linear_kind k, struct tensor d_x,
                       struct tensor d_y, struct tensor x, bool add)
{
    if (d_x.data != NULL)
        op_linear_bwd(m->be, d_x, d_y, &m->weights.blocks[layer].linear[k], add);
    if (is_adapted(m, layer, k)) {
        struct lora l = lora_of(m, layer, k);
        float *grads = m->params.gradients;
        op_lora_bwd(m->be, d_x, param_view(m, grads, layer, k, false),
                    param_view(m, grads, layer, k, true), d_y, x, &l, lora_scratch_of(m));
    }
}

/* --- block: x -> middle = x + o(attention(norm x)) -> middle + down(swiglu(norm middle))
 * ---------- */

/* q, k, v with positions applied */
static void block_qkv(struct model *m, int64_t layer, struct tensor x)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    const struct scratch *s = &m->plan.scratch;
    op_rmsnorm_fwd(m->be, s->norm, x, m->weights.blocks[layer].attention_norm, m->config->rms_eps);
    linear_fwd(m, layer, LIN_Q, c->q, s->norm);
    linear_fwd(m, layer, LIN_K, c->k, s->norm);
    linear_fwd(m, layer, LIN_V, c->v, s->norm);
    op_rope(m->be, c->q, s->rope_table, false);
    op_rope(m->be, c->k, s->rope_table, false);
}

/* From the attended values to gate and up. */
static void block_middle(struct model *m, int64_t layer, struct tensor x)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    const struct scratch *s = &m->plan.scratch;
    linear_fwd(m, layer, LIN_O, c->middle, c->attended);
    op_add(m->be, c->middle, x);
    op_rmsnorm_fwd(m->be, s->norm, c->middle, m->weights.blocks[layer].mlp_norm,
                   m->config->rms_eps);
    linear_fwd(m, layer, LIN_GATE, c->gate, s->norm);
    linear_fwd(m, layer, LIN_UP, c->up, s->norm);
}

/* y may be the block's input, which is no longer needed. */
static void block_output(struct model *m, int64_t layer, struct tensor y)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    const struct scratch *s = &m->plan.scratch;
    op_swiglu_fwd(m->be, s->act, c->gate, c->up);
    linear_fwd(m, layer, LIN_DOWN, y, s->act);
    op_add(m->be, y, c->middle);
}

/* Everything the backward needs; with recompute it runs a second time there. */
static void block_fill_cache(struct model *m, int64_t layer)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    struct tensor x = m->plan.inputs[layer];
    block_qkv(m, layer, x);
    op_attention_fwd(m->be, c->attended, c->lse, c->q, c->k, c->v, m->attention, m->seqs);
    block_middle(m, layer, x);
}

/* The gradient t, or none where nothing before the linear layers `k` of this block learns: below
 * the first block only adapters of the same block that come earlier could. */
static struct tensor if_needed(const struct model *m, int64_t layer, enum linear_kind k,
                               struct tensor t)
{
    bool needed = layer > 0;
    for (int earlier = 0; earlier < (int)k; earlier++)
        needed = needed || is_adapted(m, layer, (enum linear_kind)earlier);
    return needed ? t : tensor_none();
}

/* d_x: gradient of the block's output on entry, of `middle` on return. False when nothing below
 * needs it. */
static bool mlp_bwd(struct model *m, int64_t layer, struct tensor d_x)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    const struct scratch *s = &m->plan.scratch;
    struct tensor gain = m->weights.blocks[layer].mlp_norm;
    struct tensor d_act = if_needed(m, layer, LIN_DOWN, s->d_act);
    struct tensor d_norm = if_needed(m, layer, LIN_GATE, s->d_norm);
    op_swiglu_fwd(m->be, s->act, c->gate, c->up);
    linear_bwd(m, layer, LIN_DOWN, d_act, d_x, s->act, false);
    if (d_act.data == NULL)
        return false;
    op_swiglu_bwd(m->be, c->gate, c->up, d_act);
    op_rmsnorm_fwd(m->be, s->norm, c->middle, gain, m->config->rms_eps);
    linear_bwd(m, layer, LIN_GATE, d_norm, c->gate, s->norm, false);
    linear_bwd(m, layer, LIN_UP, d_norm, c->up, s->norm, true);
    if (d_norm.data == NULL)
        return false;
    op_rmsnorm_bwd(m->be, d_x, d_norm, c->middle, gain, m->config->rms_eps);
    return true;
}

/* d_x: gradient of `middle` on entry, of the block's input on return if anything below needs it. */
static void attention_bwd(struct model *m, int64_t layer, struct tensor d_x)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    const struct scratch *s = &m->plan.scratch;
    struct tensor x = m->plan.inputs[layer], gain = m->weights.blocks[layer].attention_norm;
    struct tensor d_attended = if_needed(m, layer, LIN_O, s->d_attended);
    struct tensor d_norm = if_needed(m, layer, LIN_Q, s->d_norm);
    linear_bwd(m, layer, LIN_O, d_attended, d_x, c->attended, false);
    if (d_attended.data == NULL)
        return;
    op_attention_bwd(m->be, s->d_q, s->d_k, s->d_v, s->d_k_heads, s->d_v_heads, d_attended, c->q,
                     c->k, c->v, c->attended, c->lse, m->attention, m->seqs);
    op_rope(m->be, s->d_q, s->rope_table, true);
    op_rope(m->be, s->d_k, s->rope_table, true);
    op_rmsnorm_fwd(m->be, s->norm, x, gain, m->config->rms_eps);
    linear_bwd(m, layer, LIN_Q, d_norm, s->d_q, s->norm, false);
    linear_bwd(m, layer, LIN_K, d_norm, s->d_k, s->norm, true);
    linear_bwd(m, layer, LIN_V, d_norm, s->d_v, s->norm, true);
    if (d_norm.data != NULL)
        op_rmsnorm_bwd(m->be, d_x, d_norm, x, gain, m->config->rms_eps);
}

/* --- whole model ------------------------------------------------------------------------------ */

static void forward(struct model *m, const int32_t *tokens)
{
    struct plan *p = &m->plan;
    op_rope_table(m->be, p->scratch.rope_table, m->weights.inv_freq, p->scratch.positions);
    op_embed_fwd(m->be, p->inputs[0], &m->weights.embedding, tokens);
    for (int64_t layer = 0; layer < m->config->n_layers; layer++) {
        block_fill_cache(m, layer);
        block_output(m, layer, p->inputs[layer + 1]);
    }
}

static void backward(struct model *m)
{
    int64_t last = m->config->n_layers - 1;
    struct tensor d_x = m->plan.scratch.d_x;
    for (int64_t layer = last; layer >= 0; layer--) {
        if (m->options.recompute && layer != last) /* the last one is still there */
            block_fill_cache(m, layer);
        if (mlp_bwd(m, layer, d_x))
            attention_bwd(m, layer, d_x);
    }
}

/* Loss of the n rows that predict a target, the only ones to pass the final norm and the head. With
 * `gradient`, also d_x of the last block's output. */
static void head(struct model *m, int64_t n, double *loss_sum, bool gradient, double loss_scale)
{
    const struct scratch *s = &m->plan.scratch;
    struct tensor x = tensor_rows(s->head_x, 0, n), norm = tensor_rows(s->head_norm, 0, n);
    struct tensor d_norm = gradient ? tensor_rows(s->d_head_norm, 0, n) : tensor_none();
    double eps = m->config->rms_eps;
    op_gather_rows(m->be, x, m->plan.inputs[m->config->n_layers], s->rows);
    op_rmsnorm_fwd(m->be, norm, x, m->weights.final_norm, eps);
    op_head_loss(m->be, loss_sum, d_norm, norm, &m->weights.head, s->targets, loss_scale,
                 s->logits);
    if (!gradient)
        return;
    struct tensor d_x = tensor_rows(s->d_head_x, 0, n);
    op_zero(m->be, d_x);
    op_rmsnorm_bwd(m->be, d_x, d_norm, x, m->weights.final_norm, eps);
    op_zero(m->be, s->d_x);
    op_scatter_add_rows(m->be, s->d_x, d_x, s->rows);
}

/* Cuts the views for the batch, fills positions and the list of targets; returns their number. */
static int64_t begin_batch(struct model *m, const struct micro_batch *b)
{
    struct scratch *s = &m->plan.scratch;
    int64_t n_targets = 0;
    plan_use_rows(&m->plan, m->config, &m->options, b->n_tokens, m->activations, m->scratch);
    m->seqs = (struct sequences){b->n_seqs, b->seq_starts};
    for (int64_t i = 0; i < b->n_seqs; i++) {
        int64_t from = b->seq_starts[i], to = b->seq_starts[i + 1];
        FT_ASSERT(to - from <= m->options.max_sequence);
        for (int64_t t = from; t < to; t++) {
            s->positions[t] = (int32_t)(t - from);
            if (t == from || !b->trained[t])
                continue;
            s->rows[n_targets] = (int32_t)(t - 1);
            s->targets[n_targets++] = b->tokens[t];
        }
    }
    return n_targets;
}

double model_train_step(struct model *m, const struct micro_batch *b, double loss_scale,
                        uint64_t dropout_key)
{
    double loss_sum = 0;
    FT_ASSERT(m->options.training);
    int64_t n_targets = begin_batch(m, b);
    if (n_targets == 0)
        return 0;
    m->dropout_key = dropout_key;
    forward(m, b->tokens);
    head(m, n_targets, &loss_sum, true, loss_scale);
    backward(m);
    m->dropout_key = 0;
    return loss_sum;
}

double model_eval_loss(struct model *m, const struct micro_batch *b)
{
    double loss_sum = 0;
    int64_t n_targets = begin_batch(m, b);
    if (n_targets == 0)
        return 0;
    forward(m, b->tokens);
    head(m, n_targets, &loss_sum, false, 1);
    return loss_sum;
}

/* --- generation ------------------------------------------------------------------------------- */

void model_start(struct model *m)
{
    m->n_fed = 0;
}

int64_t model_fed(const struct model *m)
{
    return m->n_fed;
}

/* One block over n new rows against the cache. */
static void block_cached(struct model *m, int64_t layer, int64_t n)
{
    const struct block_cache *c = &m->plan.blocks[layer];
    struct tensor k_cache = m->plan.k_cache[layer], v_cache = m->plan.v_cache[layer];
    struct tensor x = m->plan.inputs[layer];
    block_qkv(m, layer, x);
    op_copy(m->be, tensor_rows(k_cache, m->n_fed, n), c->k);
    op_copy(m->be, tensor_rows(v_cache, m->n_fed, n), c->v);
    op_attention_cached(m->be, c->attended, c->q, tensor_rows(k_cache, 0, m->n_fed + n),
                        tensor_rows(v_cache, 0, m->n_fed + n), m->attention);
    block_middle(m, layer, x);
    block_output(m, layer, m->plan.inputs[layer + 1]);
}

static void feed_rows(struct model *m, const int32_t *tokens, int64_t n)
{
    struct plan *p = &m->plan;
    plan_use_rows(p, m->config, &m->options, n, m->activations, m->scratch);
    for (int64_t i = 0; i < n; i++)
        p->scratch.positions[i] = (int32_t)(m->n_fed + i);
    op_rope_table(m->be, p->scratch.rope_table, m->weights.inv_freq, p->scratch.positions);
    op_embed_fwd(m->be, p->inputs[0], &m->weights.embedding, tokens);
    for (int64_t layer = 0; layer < m->config->n_layers; layer++)
        block_cached(m, layer, n);
    m->n_fed += n;
}

const float *model_feed(struct model *m, const int32_t *tokens, int64_t n)
{
    FT_ASSERT(n > 0 && m->n_fed + n <= m->options.max_context);
    int64_t rows = 0;
    for (int64_t from = 0; from < n; from += rows) {
        rows = FT_MIN(n - from, m->plan.max_rows);
        feed_rows(m, tokens + from, rows);
    }
    const struct scratch *s = &m->plan.scratch;
    struct tensor last = tensor_rows(m->plan.inputs[m->config->n_layers], rows - 1, 1);
    struct tensor norm = tensor_rows(s->head_norm, 0, 1), logits = tensor_rows(s->logits, 0, 1);
    op_rmsnorm_fwd(m->be, norm, last, m->weights.final_norm, m->config->rms_eps);
    op_linear_fwd(m->be, logits, norm, &m->weights.head, tensor_none());
    return logits.data;
}

/* --- adapter ---------------------------------------------------------------------------------- */

struct model_params *model_params(struct model *m)
{
    return &m->params;
}

void model_init_adapter(struct model *m, uint64_t seed)
{
    adapter_init_values(m->params.values, &m->layout, seed);
}

const struct adapter_pair *model_adapter_pairs(struct model *m)
{
    return m->pairs;
}

/* --- creation --------------------------------------------------------------------------------- */

/* Options with the defaults filled in. */
static struct model_options resolved(const struct model_options *o)
{
    struct model_options r = *o;
    if (r.max_sequence == 0)
        r.max_sequence = r.max_tokens;
    return r;
}

void model_plan_memory(struct memory_plan *out, const struct nf4_file *base,
                       const struct model_options *options, int n_threads)
{
    const struct model_config *c = nf4_file_config(base);
    struct model_options o = resolved(options);
    struct plan p;
    uint64_t adapter_bytes = (uint64_t)adapter_layout_floats(c, o.adapter) * sizeof(float);
    plan_measure(&p, c, &o);
    *out = (struct memory_plan){
        .base_mapped = nf4_file_bytes(base),
        .adapter = adapter_bytes,
        .gradients = o.training ? adapter_bytes : 0,
        .optimizer = o.training ? 2 * adapter_bytes : 0,
        .activations = (uint64_t)p.activation_floats * sizeof(float),
        .scratch = (uint64_t)(p.scratch_floats + weights_vector_floats(c)) * sizeof(float) +
                   backend_workspace_bytes(n_threads),
        .kv_cache = (uint64_t)p.kv_floats * sizeof(float),
    };
    out->total = out->base_mapped + out->adapter + out->gradients + out->optimizer +
                 out->activations + out->scratch + out->kv_cache;
}

static ft_status check_supported(const struct model_config *c, const struct model_options *o,
                                 ft_error *err)
{
    int64_t longest = FT_MAX(o->max_sequence, o->max_context);
    if (c->sliding_window > 0 && c->sliding_window < longest)
        return ft_fail(err, FT_ELIMIT,
                       "the model attends to a sliding window of %lld tokens, but sequences may "
                       "have %lld; use sequences of at most %lld tokens",
                       (long long)c->sliding_window, (long long)longest,
                       (long long)c->sliding_window);
    if (c->head_dim > ATTENTION_MAX_HEAD_DIM)
        return ft_fail(err, FT_ELIMIT, "head_dim is %lld, supported are at most %d",
                       (long long)c->head_dim, ATTENTION_MAX_HEAD_DIM);
    return FT_OK;
}

static ft_status alloc_floats(float **out, struct backend *be, int64_t n, const char *what,
                              ft_error *err)
{
    *out = NULL;
    return n == 0 ? FT_OK : backend_alloc(out, be, (size_t)n * sizeof(float), what, err);
}

static ft_status create_adapter(struct model *m, ft_error *err)
{
    struct model_params *p = &m->params;
    size_t n_pairs = (size_t)m->config->n_layers * LINEAR_KINDS;
    FT_TRY(adapter_layout_init(&m->layout, m->config, m->options.adapter, err));
    FT_TRY(mem_new(&m->pairs, n_pairs, sizeof *m->pairs, "adapter views", err));
    p->n = m->layout.n;
    p->n_tensors = m->layout.n_tensors;
    p->tensors = m->layout.tensors;
    FT_TRY(alloc_floats(&p->values, m->be, p->n, "the adapter", err));
    if (m->options.training)
        FT_TRY(alloc_floats(&p->gradients, m->be, p->n, "gradients", err));
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct param_tensor *t = &p->tensors[i];
        struct adapter_pair *pair = &m->pairs[t->layer * LINEAR_KINDS + (int64_t)t->kind];
        *(t->is_b ? &pair->b : &pair->a) = p->values + t->offset;
    }
    return FT_OK;
}

static ft_status create_buffers(struct model *m, const struct nf4_file *base, ft_error *err)
{
    FT_TRY(alloc_floats(&m->vectors, m->be, weights_vector_floats(m->config), "norms", err));
    FT_TRY(weights_init(&m->weights, base, m->vectors, err));
    FT_TRY(plan_init(&m->plan, m->config, &m->options, err));
    FT_TRY(alloc_floats(&m->activations, m->be, m->plan.activation_floats, "activations", err));
    FT_TRY(alloc_floats(&m->scratch, m->be, m->plan.scratch_floats, "scratch", err));
    FT_TRY(alloc_floats(&m->kv, m->be, m->plan.kv_floats, "the key/value cache", err));
    plan_use_cache(&m->plan, m->config, &m->options, m->kv);
    return FT_OK;
}

ft_status model_create(struct model **out, struct backend *be, const struct nf4_file *base,
                       const struct model_options *o, ft_error *err)
{
    struct model *m;
    const struct model_config *c = nf4_file_config(base);
    *out = NULL;
    FT_TRY(mem_new(&m, 1, sizeof *m, "the model", err));
    m->be = be;
    m->config = c;
    m->options = resolved(o);
    if (o->adapter != NULL) {
        m->adapter = *o->adapter;
        m->options.adapter = &m->adapter;
    }
    m->attention = (struct attention_shape){c->n_heads, c->n_kv_heads, c->head_dim};
    ft_status st = check_supported(c, &m->options, err);
    if (st == FT_OK)
        st = create_adapter(m, err);
    if (st == FT_OK)
        st = create_buffers(m, base, err);
    if (st != FT_OK)
        model_destroy(m);
    else
        *out = m;
    return st;
}

void model_destroy(struct model *m)
{
    if (m == NULL)
        return;
    backend_free(m->be, m->kv);
    backend_free(m->be, m->scratch);
    backend_free(m->be, m->activations);
    backend_free(m->be, m->vectors);
    backend_free(m->be, m->params.gradients);
    backend_free(m->be, m->params.values);
    plan_reset(&m->plan);
    weights_reset(&m->weights);
    adapter_layout_reset(&m->layout);
    mem_free(m->pairs);
    mem_free(m);
}
