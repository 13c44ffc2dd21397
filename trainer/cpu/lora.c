/* SPDX-License-Identifier: Apache-2.0
 * Low-rank adapters. With x' = drop(x), h = x' A^T and s = scaling:
 *
 *     y += s h B^T
 *     d_h = s d_y B     d_B += s d_y^T h     d_A += d_h^T x'     d_x += drop(d_h A)
 *
 * where drop keeps the same features and divides them by the same 1 - p: the mask is not stored but
 * drawn again from its counters. h is computed again in the backward, too: at rank 16 that costs
 * 1/80 of a step and saves memory in every layer. */
#include "common/rng.h"
#include "trainer/cpu/matmul.h"

struct dropout {
    float *out;
    const float *x;
    int64_t cols;
    uint64_t key, stream;
    uint32_t threshold; /* a feature is kept when its word is at least this */
    float scale;
    bool add;
};

/* lora_dropout_word of the LORA_DROPOUT_RUN elements from `run` times that on. */
ALWAYS_INLINE void dropout_words(uint32_t words[4][LORA_DROPOUT_RUN / 4], uint64_t key,
                                 uint64_t stream, uint64_t run)
{
    const uint64_t counters = LORA_DROPOUT_RUN / 4;
    for (uint64_t i = 0; i < counters; i++) {
        struct rng_block block = rng_block_at(key, stream, run * counters + i);
        words[0][i] = block.v[0];
        words[1][i] = block.v[1];
        words[2][i] = block.v[2];
        words[3][i] = block.v[3];
    }
}

ALWAYS_INLINE void drop(float *restrict out, const float *restrict x, const uint32_t *word,
                        int64_t n, uint32_t threshold, float scale, bool add)
{
    for (int64_t i = 0; i < n; i++) {
        float v = word[i] >= threshold ? x[i] * scale : 0.0f;
        out[i] = add ? out[i] + v : v;
    }
}

/* Rows need not start where a run does. */
ALWAYS_INLINE void dropout_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct dropout *j = ctx;
    int64_t end = to * j->cols, next;
    for (int64_t e = from * j->cols; e < end; e = next) {
        int64_t run = e / LORA_DROPOUT_RUN, skip = e % LORA_DROPOUT_RUN;
        uint32_t words[4][LORA_DROPOUT_RUN / 4];
        dropout_words(words, j->key, j->stream, (uint64_t)run);
        next = FT_MIN(end, (run + 1) * LORA_DROPOUT_RUN);
        drop(j->out + e, j->x + e, words[0] + skip, next - e, j->threshold, j->scale, j->add);
    }
}
CPU_RANGE(dropout_range)

/* out = drop(x), or out += drop(x). */
static void dropout(struct backend *be, float *out, const float *x, const struct lora *l,
                    int64_t rows, bool add)
{
    struct dropout j = {
        .out = out,
        .x = x,
        .cols = l->a.cols,
        .key = l->key,
        .stream = l->stream,
        .threshold = (uint32_t)(l->dropout * 0x1p32),
        .scale = (float)(1 / (1 - l->dropout)),
        .add = add,
    };
    cpu_range(be, rows, 16 * j.cols, dropout_range, &j);
}

/* hidden = x A^T */
static void project_down(struct backend *be, float *hidden, const float *x, const struct lora *l,
                         int64_t rows)
{
    int64_t rank = l->a.rows, in = l->a.cols;
    struct matmul product = {
        .m = rows,
        .n = rank,
        .k = in,
        .alpha = 1,
        .a = matmul_rows(x, in),
        .b = matmul_transposed(l->a.data, in),
        .c = hidden,
        .ldc = rank,
    };
    cpu_matmul(be, &product);
}

static const float *dropped_input(struct backend *be, const float *x, const struct lora *l,
                                  int64_t rows, float *dropped)
{
    if (l->dropout == 0)
        return x;
    dropout(be, dropped, x, l, rows, false);
    return dropped;
}

void cpu_lora_fwd(struct backend *be, float *y, const float *x, const struct lora *l, int64_t rows,
                  float *hidden, float *dropped)
{
    int64_t rank = l->a.rows, out = l->b.rows;
    project_down(be, hidden, dropped_input(be, x, l, rows, dropped), l, rows);
    struct matmul product = {
        .m = rows,
        .n = out,
        .k = rank,
        .alpha = (float)l->scaling,
        .accumulate = true,
        .a = matmul_rows(hidden, rank),
        .b = matmul_transposed(l->b.data, rank),
        .c = y,
        .ldc = out,
    };
    cpu_matmul(be, &product);
}

/* d_h = s d_y B */
static void hidden_gradient(struct backend *be, float *d_hidden, const float *d_y,
                            const struct lora *l, int64_t rows)
{
    int64_t rank = l->a.rows, out = l->b.rows;
    struct matmul product = {
        .m = rows,
        .n = rank,
        .k = out,
        .alpha = (float)l->scaling,
        .a = matmul_rows(d_y, out),
        .b = matmul_rows(l->b.data, rank),
        .c = d_hidden,
        .ldc = rank,
    };
    cpu_matmul(be, &product);
}

/* d_w[n_left, n_right] += alpha * left^T right, summed over rows. */
static void outer_sum(struct backend *be, float *d_w, const float *left, int64_t n_left,
                      const float *right, int64_t n_right, int64_t rows, double alpha)
{
    struct matmul product = {
        .m = n_left,
        .n = n_right,
        .k = rows,
        .alpha = (float)alpha,
        .accumulate = true,
        .a = matmul_transposed(left, n_left),
        .b = matmul_rows(right, n_right),
        .c = d_w,
        .ldc = n_right,
    };
    cpu_matmul(be, &product);
}

/* d_x += drop(d_h A); with dropout the product passes through `dropped`, which holds x' until now.
 */
static void input_gradient(struct backend *be, float *d_x, const float *d_hidden,
                           const struct lora *l, int64_t rows, float *dropped)
{
    int64_t rank = l->a.rows, in = l->a.cols;
    bool direct = l->dropout == 0;
    struct matmul product = {
        .m = rows,
        .n = in,
        .k = rank,
        .alpha = 1,
        .accumulate = direct,
        .a = matmul_rows(d_hidden, rank),
        .b = matmul_rows(l->a.data, in),
        .c = direct ? d_x : dropped,
        .ldc = in,
    };
    cpu_matmul(be, &product);
    if (!direct)
        dropout(be, d_x, dropped, l, rows, true);
}

void cpu_lora_bwd(struct backend *be, float *d_x, float *d_a, float *d_b, const float *d_y,
                  const float *x, const struct lora *l, int64_t rows, float *hidden, float *dropped)
{
    int64_t rank = l->a.rows, in = l->a.cols, out = l->b.rows;
    float *d_hidden = hidden + rows * rank;
    const float *input = dropped_input(be, x, l, rows, dropped);
    project_down(be, hidden, input, l, rows);
    outer_sum(be, d_b, d_y, out, hidden, rank, rows, l->scaling);
    hidden_gradient(be, d_hidden, d_y, l, rows);
    outer_sum(be, d_a, d_hidden, rank, input, in, rows, 1);
    if (d_x != NULL)
        input_gradient(be, d_x, d_hidden, l, rows, dropped);
}
