/* SPDX-License-Identifier: Apache-2.0
 * The operations a transformer is made of, at the granularity model code is written in.
 *
 * Every call checks shapes, element types and alignment in one place (ops.c) and hands raw pointers
 * to the backend. Nothing is returned: the first failure is latched with the operation's name and
 * later calls do nothing, until backend_sync reports it. Results that land in host memory
 * (`double *`, `uint64_t *`) are valid after backend_sync.
 *
 * Rows are tokens. Outputs are overwritten unless the comment says "+=". d_x is the derivative of
 * the loss with respect to x. Unless said otherwise an output must not overlap an input. */
#ifndef TRAINER_OPS_H
#define TRAINER_OPS_H

#include "trainer/backend.h"
#include "trainer/tensor.h"

/* --- rows ------------------------------------------------------------------------------------- */

/* x[t] = row tokens[t] of w, decoded. A token outside the vocabulary is a latched FT_EFORMAT. */
void op_embed_fwd(struct backend *be, struct tensor x, const struct weight *w,
                  const int32_t *tokens);
void op_zero(struct backend *be, struct tensor x);
void op_copy(struct backend *be, struct tensor y, struct tensor x);
void op_add(struct backend *be, struct tensor y, struct tensor x); /* y += x */
/* y[i] = x[index[i]] and d_x[index[i]] += d_y[i]; the indices are distinct. */
void op_gather_rows(struct backend *be, struct tensor y, struct tensor x, const int32_t *index);
void op_scatter_add_rows(struct backend *be, struct tensor d_x, struct tensor d_y,
                         const int32_t *index);

/* --- RMSNorm: y = x / sqrt(mean(x^2) + eps) * gain -------------------------------------------- */

void op_rmsnorm_fwd(struct backend *be, struct tensor y, struct tensor x, struct tensor gain,
                    double eps);
/* d_x += ...; the norm of x is computed again. */
void op_rmsnorm_bwd(struct backend *be, struct tensor d_x, struct tensor d_y, struct tensor x,
                    struct tensor gain, double eps);

/* --- linear layers ---------------------------------------------------------------------------- */

/* y = x w^T + bias; bias [1, out] or tensor_none(). */
void op_linear_fwd(struct backend *be, struct tensor y, struct tensor x, const struct weight *w,
                   struct tensor bias);
/* d_x = d_y w, or d_x += d_y w with `add`. */
void op_linear_bwd(struct backend *be, struct tensor d_x, struct tensor d_y, const struct weight *w,
                   bool add);

/* y += scaling * B A drop(x). Dropout keeps feature i of row t with probability 1 - dropout and
 * then divides by it; the decision is a pure function of (key, stream, t, i), see lora_kept. */
struct lora {
    struct tensor a, b; /* [rank, in], [out, rank] */
    double scaling;
    double dropout; /* [0, 1) */
    uint64_t key, stream;
};
struct lora_scratch {
    struct tensor hidden;  /* at least [2 * rows, rank] */
    struct tensor dropped; /* at least [rows, in]; may be absent when dropout is 0 */
};
void op_lora_fwd(struct backend *be, struct tensor y, struct tensor x, const struct lora *l,
                 struct lora_scratch scratch);
/* d_a += ..., d_b += ..., and d_x += ... unless it is absent. */
void op_lora_bwd(struct backend *be, struct tensor d_x, struct tensor d_a, struct tensor d_b,
                 struct tensor d_y, struct tensor x, const struct lora *l,
                 struct lora_scratch scratch);

/* --- rotary position embedding ---------------------------------------------------------------- */

/* table[t] = cosines then sines of positions[t] * inv_freq, [rows, head_dim]. The angle is rounded
 * to fp32 as in transformers. */
void op_rope_table(struct backend *be, struct tensor table, struct tensor inv_freq,
                   const int32_t *positions);
/* In place on every head of x: element i pairs with i + head_dim / 2. inverse turns back, which is
 * also the derivative. */
void op_rope(struct backend *be, struct tensor x, struct tensor table, bool inverse);

/* --- causal attention with grouped key/value heads -------------------------------------------- */

struct attention_shape {
    int64_t n_heads, n_kv_heads, head_dim; /* n_heads is a multiple of n_kv_heads */
};
/* Sequences laid end to end in the rows; attention never crosses a border. */
struct sequences {
    int64_t n;
    const int64_t *starts; /* [n + 1]: 0, ..., rows; strictly ascending */
};
enum { ATTENTION_MAX_HEAD_DIM = 256 };

/* out = softmax(q k^T / sqrt(head_dim)) v per head; lse [rows, n_heads] keeps the logarithm of each
 * softmax denominator for the backward. Memory is independent of the sequence length. */
void op_attention_fwd(struct backend *be, struct tensor out, struct tensor lse, struct tensor q,
                      struct tensor k, struct tensor v, struct attention_shape shape,
                      struct sequences seqs);
/* d_k_heads and d_v_heads [rows, n_heads * head_dim] are scratch: one share per query head. */
void op_attention_bwd(struct backend *be, struct tensor d_q, struct tensor d_k, struct tensor d_v,
                      struct tensor d_k_heads, struct tensor d_v_heads, struct tensor d_out,
                      struct tensor q, struct tensor k, struct tensor v, struct tensor out,
                      struct tensor lse, struct attention_shape shape, struct sequences seqs);
/* The rows of q are the last ones of a sequence whose keys and values are all the rows of k and v.
 */
void op_attention_cached(struct backend *be, struct tensor out, struct tensor q, struct tensor k,
                         struct tensor v, struct attention_shape shape);

/* --- SwiGLU: y = silu(gate) * up -------------------------------------------------------------- */

void op_swiglu_fwd(struct backend *be, struct tensor y, struct tensor gate, struct tensor up);
/* Turns gate into d_gate and up into d_up, in place. */
void op_swiglu_bwd(struct backend *be, struct tensor gate, struct tensor up, struct tensor d_y);

/* --- head and loss ---------------------------------------------------------------------------- */

/* *loss_sum += sum over rows of -log softmax(x w^T)[target]; d_x, unless absent, becomes the
 * derivative of loss_scale * that sum. Works through the rows in chunks of logits.rows, so that no
 * more than logits [chunk, vocab] exists at a time. */
void op_head_loss(struct backend *be, double *loss_sum, struct tensor d_x, struct tensor x,
                  const struct weight *w, const int32_t *targets, double loss_scale,
                  struct tensor logits);

/* --- optimiser -------------------------------------------------------------------------------- */

struct adamw_step {
    double lr, beta1, beta2, eps, weight_decay;
    int64_t t; /* 1 for the first step */
};
/* One step on the flat parameters p with moments m and v (docs/numerics.md has the exact order). */
void op_adamw(struct backend *be, struct tensor p, struct tensor m, struct tensor v,
              struct tensor g, const struct adamw_step *s);
void op_scale(struct backend *be, struct tensor x, double factor);
void op_sum_squares(struct backend *be, double *sum, struct tensor x);         /* *sum = ... */
void op_count_nonfinite(struct backend *be, uint64_t *count, struct tensor x); /* *count = ... */

/* The dropout decision, shared with tests and other backends: feature i of row t is kept where the
 * word of element t * in + i is at least dropout * 2^32. The four words of a generator block go to
 * elements 16 apart within runs of 64, so that 16 blocks side by side give 64 words in order. */
enum { LORA_DROPOUT_RUN = 64 };
uint32_t lora_dropout_word(uint64_t key, uint64_t stream, uint64_t element);

#endif
