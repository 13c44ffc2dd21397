/* SPDX-License-Identifier: Apache-2.0
 * The checked front door of the operations: everything ops.h asks for is verified here and nowhere
 * else, so that kernels stay bare. A broken rule latches FT_EDEVICE with the names involved. */
#include "trainer/ops.h"

#include "common/rng.h"
#include "trainer/backend_ops.h"

enum { TENSOR_ALIGN = 4 }; /* rows of an odd width leave no more; backend_alloc itself gives 64 */

/* --- checks: each latches and returns false on the first broken rule
 * ------------------------------ */

/* False when an earlier operation has failed: this one then does nothing. */
static bool begin(struct backend *be, const char *op)
{
    if (be->fault.status != FT_OK)
        return false;
    be->op = op;
    return true;
}

static bool shaped(struct backend *be, struct tensor t, int64_t rows, int64_t cols)
{
    const char *name = t.name != NULL ? t.name : "tensor";
    if (t.data == NULL)
        backend_fault(be, FT_EDEVICE, "%s is missing", name);
    else if (t.dtype != DT_F32)
        backend_fault(be, FT_EDEVICE, "%s is %s, expected f32", name, dtype_name(t.dtype));
    else if (t.rows != rows || t.cols != cols)
        backend_fault(be, FT_EDEVICE, "%s is [%lld, %lld], expected [%lld, %lld]", name,
                      (long long)t.rows, (long long)t.cols, (long long)rows, (long long)cols);
    else if ((uintptr_t)t.data % TENSOR_ALIGN != 0)
        backend_fault(be, FT_EDEVICE, "%s is not aligned", name);
    else
        return true;
    return false;
}

static bool same_shape(struct backend *be, struct tensor a, struct tensor b)
{
    return shaped(be, a, a.rows, a.cols) && shaped(be, b, a.rows, a.cols);
}

/* Scratch: any number of rows and columns as long as the elements suffice. */
static bool has_room(struct backend *be, struct tensor t, int64_t elements)
{
    if (!shaped(be, t, t.rows, t.cols))
        return false;
    if (t.rows * t.cols >= elements)
        return true;
    backend_fault(be, FT_EDEVICE, "%s has %lld elements, expected at least %lld", t.name,
                  (long long)(t.rows * t.cols), (long long)elements);
    return false;
}

static bool weight_shaped(struct backend *be, const struct weight *w, int64_t rows, int64_t cols)
{
    if (w->rows == rows && w->cols == cols)
        return true;
    backend_fault(be, FT_EDEVICE, "%s is [%lld, %lld], expected [%lld, %lld]", w->name,
                  (long long)w->rows, (long long)w->cols, (long long)rows, (long long)cols);
    return false;
}

static bool indices_in(struct backend *be, const int32_t *index, int64_t n, int64_t limit)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= limit) {
            backend_fault(be, FT_EFORMAT, "row %lld: index %d is outside [0, %lld)", (long long)i,
                          (int)index[i], (long long)limit);
            return false;
        }
    return true;
}

static bool attention_valid(struct backend *be, struct attention_shape s)
{
    if (s.n_kv_heads > 0 && s.n_heads % s.n_kv_heads == 0 && s.head_dim > 0 &&
        s.head_dim <= ATTENTION_MAX_HEAD_DIM)
        return true;
    backend_fault(be, FT_EDEVICE, "%lld heads, %lld key/value heads of %lld are not supported",
                  (long long)s.n_heads, (long long)s.n_kv_heads, (long long)s.head_dim);
    return false;
}

static bool sequences_cover(struct backend *be, struct sequences s, int64_t rows)
{
    bool ok = s.n > 0 && s.starts[0] == 0 && s.starts[s.n] == rows;
    for (int64_t i = 0; ok && i < s.n; i++)
        ok = s.starts[i] < s.starts[i + 1];
    if (!ok)
        backend_fault(be, FT_EDEVICE, "the sequence borders do not cover %lld rows",
                      (long long)rows);
    return ok;
}

/* --- rows ------------------------------------------------------------------------------------- */

void op_embed_fwd(struct backend *be, struct tensor x, const struct weight *w,
                  const int32_t *tokens)
{
    if (begin(be, "embed_fwd") && shaped(be, x, x.rows, w->cols) &&
        indices_in(be, tokens, x.rows, w->rows))
        be->ops->embed_fwd(be, x.data, w, tokens, x.rows);
}

void op_zero(struct backend *be, struct tensor x)
{
    if (begin(be, "zero") && shaped(be, x, x.rows, x.cols))
        be->ops->zero(be, x.data, x.rows * x.cols);
}

void op_copy(struct backend *be, struct tensor y, struct tensor x)
{
    if (begin(be, "copy") && same_shape(be, y, x))
        be->ops->copy(be, y.data, x.data, x.rows * x.cols);
}

void op_add(struct backend *be, struct tensor y, struct tensor x)
{
    if (begin(be, "add") && same_shape(be, y, x))
        be->ops->add(be, y.data, x.data, x.rows * x.cols);
}

void op_gather_rows(struct backend *be, struct tensor y, struct tensor x, const int32_t *index)
{
    if (begin(be, "gather_rows") && shaped(be, x, x.rows, y.cols) &&
        shaped(be, y, y.rows, y.cols) && indices_in(be, index, y.rows, x.rows))
        be->ops->gather_rows(be, y.data, x.data, index, y.rows, y.cols);
}

void op_scatter_add_rows(struct backend *be, struct tensor d_x, struct tensor d_y,
                         const int32_t *index)
{
    if (begin(be, "scatter_add_rows") && shaped(be, d_x, d_x.rows, d_y.cols) &&
        shaped(be, d_y, d_y.rows, d_y.cols) && indices_in(be, index, d_y.rows, d_x.rows))
        be->ops->scatter_add_rows(be, d_x.data, d_y.data, index, d_y.rows, d_y.cols);
}

/* --- RMSNorm ---------------------------------------------------------------------------------- */

void op_rmsnorm_fwd(struct backend *be, struct tensor y, struct tensor x, struct tensor gain,
                    double eps)
{
    if (begin(be, "rmsnorm_fwd") && same_shape(be, y, x) && shaped(be, gain, 1, x.cols))
        be->ops->rmsnorm_fwd(be, y.data, x.data, gain.data, x.rows, x.cols, eps);
}

void op_rmsnorm_bwd(struct backend *be, struct tensor d_x, struct tensor d_y, struct tensor x,
                    struct tensor gain, double eps)
{
    if (begin(be, "rmsnorm_bwd") && same_shape(be, d_x, x) && same_shape(be, d_y, x) &&
        shaped(be, gain, 1, x.cols))
        be->ops->rmsnorm_bwd(be, d_x.data, d_y.data, x.data, gain.data, x.rows, x.cols, eps);
}

/* --- linear layers ---------------------------------------------------------------------------- */

void op_linear_fwd(struct backend *be, struct tensor y, struct tensor x, const struct weight *w,
                   struct tensor bias)
{
    if (begin(be, "linear_fwd") && shaped(be, x, x.rows, x.cols) && shaped(be, y, x.rows, y.cols) &&
        weight_shaped(be, w, y.cols, x.cols) && (bias.data == NULL || shaped(be, bias, 1, y.cols)))
        be->ops->linear_fwd(be, y.data, x.data, w, bias.data, x.rows);
}

void op_linear_bwd(struct backend *be, struct tensor d_x, struct tensor d_y, const struct weight *w,
                   bool add)
{
    if (begin(be, "linear_bwd") && shaped(be, d_y, d_y.rows, d_y.cols) &&
        shaped(be, d_x, d_y.rows, d_x.cols) && weight_shaped(be, w, d_y.cols, d_x.cols))
        be->ops->linear_bwd(be, d_x.data, d_y.data, w, d_y.rows, add);
}

static bool lora_fits(struct backend *be, const struct lora *l, int64_t rows, int64_t in,
                      int64_t out, struct lora_scratch scratch)
{
    return shaped(be, l->a, l->a.rows, in) && shaped(be, l->b, out, l->a.rows) &&
           has_room(be, scratch.hidden, 2 * rows * l->a.rows) &&
           (l->dropout == 0 || has_room(be, scratch.dropped, rows * in));
}

void op_lora_fwd(struct backend *be, struct tensor y, struct tensor x, const struct lora *l,
                 struct lora_scratch scratch)
{
    if (begin(be, "lora_fwd") && shaped(be, x, x.rows, x.cols) && shaped(be, y, x.rows, y.cols) &&
        lora_fits(be, l, x.rows, x.cols, y.cols, scratch))
        be->ops->lora_fwd(be, y.data, x.data, l, x.rows, scratch.hidden.data, scratch.dropped.data);
}

void op_lora_bwd(struct backend *be, struct tensor d_x, struct tensor d_a, struct tensor d_b,
                 struct tensor d_y, struct tensor x, const struct lora *l,
                 struct lora_scratch scratch)
{
    if (begin(be, "lora_bwd") && shaped(be, x, x.rows, x.cols) &&
        shaped(be, d_y, x.rows, d_y.cols) && (d_x.data == NULL || same_shape(be, d_x, x)) &&
        same_shape(be, d_a, l->a) && same_shape(be, d_b, l->b) &&
        lora_fits(be, l, x.rows, x.cols, d_y.cols, scratch))
        be->ops->lora_bwd(be, d_x.data, d_a.data, d_b.data, d_y.data, x.data, l, x.rows,
                          scratch.hidden.data, scratch.dropped.data);
}

uint32_t lora_dropout_word(uint64_t key, uint64_t stream, uint64_t element)
{
    const uint64_t counters = LORA_DROPOUT_RUN / 4, at = element % LORA_DROPOUT_RUN;
    uint64_t counter = element / LORA_DROPOUT_RUN * counters + at % counters;
    return rng_block_at(key, stream, counter).v[at / counters];
}

/* --- rotary position embedding ---------------------------------------------------------------- */

void op_rope_table(struct backend *be, struct tensor table, struct tensor inv_freq,
                   const int32_t *positions)
{
    if (begin(be, "rope_table") && shaped(be, inv_freq, 1, inv_freq.cols) &&
        shaped(be, table, table.rows, 2 * inv_freq.cols))
        be->ops->rope_table(be, table.data, inv_freq.data, positions, table.rows, inv_freq.cols);
}

void op_rope(struct backend *be, struct tensor x, struct tensor table, bool inverse)
{
    if (begin(be, "rope") && shaped(be, table, x.rows, table.cols) &&
        shaped(be, x, x.rows, x.cols / table.cols * table.cols))
        be->ops->rope(be, x.data, table.data, x.rows, x.cols / table.cols, table.cols / 2, inverse);
}

/* --- attention -------------------------------------------------------------------------------- */

static bool qkv_fit(struct backend *be, struct tensor q, struct tensor k, struct tensor v,
                    struct attention_shape s)
{
    return attention_valid(be, s) && shaped(be, q, q.rows, s.n_heads * s.head_dim) &&
           shaped(be, k, k.rows, s.n_kv_heads * s.head_dim) && same_shape(be, v, k);
}

void op_attention_fwd(struct backend *be, struct tensor out, struct tensor lse, struct tensor q,
                      struct tensor k, struct tensor v, struct attention_shape shape,
                      struct sequences seqs)
{
    if (begin(be, "attention_fwd") && qkv_fit(be, q, k, v, shape) &&
        shaped(be, k, q.rows, k.cols) && same_shape(be, out, q) &&
        shaped(be, lse, q.rows, shape.n_heads) && sequences_cover(be, seqs, q.rows)) {
        struct attention_args a = {
            .q = q.data, .k = k.data, .v = v.data, .rows = q.rows, .shape = shape, .seqs = seqs};
        be->ops->attention_fwd(be, out.data, lse.data, &a);
    }
}

void op_attention_bwd(struct backend *be, struct tensor d_q, struct tensor d_k, struct tensor d_v,
                      struct tensor d_k_heads, struct tensor d_v_heads, struct tensor d_out,
                      struct tensor q, struct tensor k, struct tensor v, struct tensor out,
                      struct tensor lse, struct attention_shape shape, struct sequences seqs)
{
    if (begin(be, "attention_bwd") && qkv_fit(be, q, k, v, shape) &&
        shaped(be, k, q.rows, k.cols) && same_shape(be, out, q) && same_shape(be, d_out, q) &&
        same_shape(be, d_q, q) && same_shape(be, d_k, k) && same_shape(be, d_v, k) &&
        same_shape(be, d_k_heads, q) && same_shape(be, d_v_heads, q) &&
        shaped(be, lse, q.rows, shape.n_heads) && sequences_cover(be, seqs, q.rows)) {
        struct attention_args a = {.q = q.data,
                                   .k = k.data,
                                   .v = v.data,
                                   .out = out.data,
                                   .lse = lse.data,
                                   .d_out = d_out.data,
                                   .rows = q.rows,
                                   .shape = shape,
                                   .seqs = seqs};
        be->ops->attention_bwd(be, d_q.data, d_k.data, d_v.data, d_k_heads.data, d_v_heads.data,
                               &a);
    }
}

void op_attention_cached(struct backend *be, struct tensor out, struct tensor q, struct tensor k,
                         struct tensor v, struct attention_shape shape)
{
    if (!begin(be, "attention_cached") || !qkv_fit(be, q, k, v, shape) || !same_shape(be, out, q))
        return;
    if (k.rows < q.rows)
        backend_fault(be, FT_EDEVICE, "%lld queries but %lld keys", (long long)q.rows,
                      (long long)k.rows);
    else
        be->ops->attention_cached(be, out.data, q.data, k.data, v.data, q.rows, k.rows, shape);
}

/* --- SwiGLU, head, optimiser ------------------------------------------------------------------ */

void op_swiglu_fwd(struct backend *be, struct tensor y, struct tensor gate, struct tensor up)
{
    if (begin(be, "swiglu_fwd") && same_shape(be, y, gate) && same_shape(be, up, gate))
        be->ops->swiglu_fwd(be, y.data, gate.data, up.data, y.rows * y.cols);
}

void op_swiglu_bwd(struct backend *be, struct tensor gate, struct tensor up, struct tensor d_y)
{
    if (begin(be, "swiglu_bwd") && same_shape(be, d_y, gate) && same_shape(be, up, gate))
        be->ops->swiglu_bwd(be, gate.data, up.data, d_y.data, d_y.rows * d_y.cols);
}

void op_head_loss(struct backend *be, double *loss_sum, struct tensor d_x, struct tensor x,
                  const struct weight *w, const int32_t *targets, double loss_scale,
                  struct tensor logits)
{
    if (begin(be, "head_loss") && shaped(be, x, x.rows, w->cols) &&
        (d_x.data == NULL || same_shape(be, d_x, x)) && shaped(be, logits, logits.rows, w->rows) &&
        has_room(be, logits, w->rows) && indices_in(be, targets, x.rows, w->rows))
        be->ops->head_loss(be, loss_sum, d_x.data, x.data, w, targets, x.rows, loss_scale,
                           logits.data, logits.rows);
}

void op_adamw(struct backend *be, struct tensor p, struct tensor m, struct tensor v,
              struct tensor g, const struct adamw_step *s)
{
    if (begin(be, "adamw") && same_shape(be, m, p) && same_shape(be, v, p) && same_shape(be, g, p))
        be->ops->adamw(be, p.data, m.data, v.data, g.data, p.rows * p.cols, s);
}

void op_scale(struct backend *be, struct tensor x, double factor)
{
    if (begin(be, "scale") && shaped(be, x, x.rows, x.cols))
        be->ops->scale(be, x.data, x.rows * x.cols, factor);
}

void op_sum_squares(struct backend *be, double *sum, struct tensor x)
{
    if (begin(be, "sum_squares") && shaped(be, x, x.rows, x.cols))
        be->ops->sum_squares(be, sum, x.data, x.rows * x.cols);
}

void op_count_nonfinite(struct backend *be, uint64_t *count, struct tensor x)
{
    if (begin(be, "count_nonfinite") && shaped(be, x, x.rows, x.cols))
        be->ops->count_nonfinite(be, count, x.data, x.rows * x.cols);
}
