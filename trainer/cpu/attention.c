/* SPDX-License-Identifier: Apache-2.0
 * Causal attention in tiles of 64 queries by 64 keys (flash attention: running maximum and sum, no
 * matrix of scores). Scores are held transposed, [keys][queries]: then softmax works on whole
 * vectors of queries, the queries of a tile are transposed once instead of the keys of every tile,
 * and all other operands of the products are used where they lie.
 *
 * Forward, for the queries of a tile and every tile of keys at or before them:
 *     S = s K Q^T;   m' = max(m, S);   P = e^(S - m');   l = l e^(m-m') + sum P;   O = O e^(m-m') +
 * P^T V Backward, with P = e^(S - lse) and D = sum over features of d_out * out: d_V += P d_O; d_S
 * = P * (V d_O^T - D);   d_K += s d_S Q;   d_Q += s d_S^T K */
#include "trainer/cpu/matmul.h"
#include "trainer/cpu/vec_math.h"

enum { TILE = 64, HEAD = ATTENTION_MAX_HEAD_DIM };

/* Private memory of a thread. */
struct workspace {
    float q[HEAD][TILE];                  /* transposed queries */
    float d_out[HEAD][TILE];              /* transposed */
    float p[TILE][TILE], d_s[TILE][TILE]; /* [keys][queries] */
    float acc[TILE][HEAD];                /* output or d_q of the tile */
    float most[TILE], sum[TILE], shrink[TILE], lse[TILE], d_dot[TILE];
};
_Static_assert(sizeof(struct workspace) <= CPU_PRIVATE_BYTES, "attention workspace");

/* One sequence and head: the queries are the last n_queries of n_keys positions. */
struct head {
    const float *q, *k, *v, *out, *d_out;
    const float *lse;
    int64_t n_queries, n_keys, head_dim;
    int64_t ld_q, ld_kv, ld_lse; /* distance of rows */
    float scale;
};

/* Queries [i0, i0 + n) of a head; position of the first among the keys. */
struct query_tile {
    int64_t i0, n, width, position; /* width: n rounded up, columns beyond n are zero */
};

static struct query_tile query_tile_at(const struct head *h, int64_t i0)
{
    struct query_tile t = {.i0 = i0, .n = FT_MIN(h->n_queries - i0, (int64_t)TILE)};
    t.width = FT_MIN((t.n + LANES - 1) / LANES * LANES, (int64_t)TILE);
    t.position = h->n_keys - h->n_queries + i0;
    return t;
}

/* dst[c][r] = src[r][c] for n rows of the head; columns from n to width are zero. */
static void transpose_in(float (*dst)[TILE], const float *src, const struct head *h, int64_t n,
                         int64_t width)
{
    cpu_transpose(dst[0], TILE, src, h->ld_q, n, h->head_dim);
    for (int64_t c = 0; c < h->head_dim; c++)
        for (int64_t r = n; r < width; r++)
            dst[c][r] = 0;
}

/* scores[key][query] of keys [k0, k0 + n_keys); future keys are minus infinity. */
static void tile_scores(const struct backend *be, const struct head *h, struct workspace *w,
                        const struct query_tile *t, int64_t k0, int64_t n_keys)
{
    struct tile product = {
        .m = n_keys,
        .n = t->width,
        .k = h->head_dim,
        .alpha = h->scale,
        .a = h->k + k0 * h->ld_kv,
        .a_row = h->ld_kv,
        .a_col = 1,
        .b = w->q[0],
        .ldb = TILE,
        .c = w->p[0],
        .ldc = TILE,
    };
    cpu_tile(be, &product);
    for (int64_t key = FT_MAX(t->position + 1, k0); key < k0 + n_keys; key++)
        for (int64_t i = 0; i < key - t->position && i < t->width; i++)
            w->p[key - k0][i] = -INFINITY;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* Turns scores into P and updates the running maximum and sum; shrink scales what came before. */
ALWAYS_INLINE void softmax_step_body(struct workspace *w, int64_t n_keys, int64_t width)
{
    float most[TILE], sum[TILE] = {0};
    for (int64_t i = 0; i < width; i++)
        most[i] = w->most[i];
    for (int64_t key = 0; key < n_keys; key++)
        for (int64_t i = 0; i < width; i++)
            most[i] = w->p[key][i] > most[i] ? w->p[key][i] : most[i];
    for (int64_t key = 0; key < n_keys; key++)
        for (int64_t i = 0; i < width; i++) {
            float p = exp_f32(w->p[key][i] - most[i]);
            w->p[key][i] = p;
            sum[i] += p;
        }
    for (int64_t i = 0; i < width; i++) {
        w->shrink[i] = exp_f32(w->most[i] - most[i]);
        w->sum[i] = w->sum[i] * w->shrink[i] + sum[i];
        w->most[i] = most[i];
    }
}
CPU_TIERED(softmax_step, (struct workspace * w, int64_t n_keys, int64_t width), (w, n_keys, width))

ALWAYS_INLINE void scale_row_body(float *row, int64_t n, float factor)
{
    for (int64_t c = 0; c < n; c++)
        row[c] *= factor;
}
CPU_TIERED(scale_row, (float *row, int64_t n, float factor), (row, n, factor))

/* acc += P^T V for one tile of keys. */
static void add_values(const struct backend *be, const struct head *h, struct workspace *w,
                       const struct query_tile *t, int64_t k0, int64_t n_keys)
{
    for (int64_t i = 0; i < t->n; i++)
        if (w->shrink[i] != 1.0f)
            scale_row(w->acc[i], h->head_dim, w->shrink[i]);
    struct tile product = {
        .m = t->n,
        .n = h->head_dim,
        .k = n_keys,
        .alpha = 1,
        .accumulate = true,
        .a = w->p[0],
        .a_row = 1,
        .a_col = TILE,
        .b = h->v + k0 * h->ld_kv,
        .ldb = h->ld_kv,
        .c = w->acc[0],
        .ldc = HEAD,
    };
    cpu_tile(be, &product);
}

/* The attention of one tile of queries; out has the row distance of q, lse may be NULL. */
static void forward_tile(const struct backend *be, const struct head *h, int64_t i0, float *out,
                         float *lse, struct workspace *w)
{
    struct query_tile t = query_tile_at(h, i0);
    transpose_in(w->q, h->q + i0 * h->ld_q, h, t.n, t.width);
    for (int64_t i = 0; i < t.width; i++) {
        w->most[i] = -INFINITY;
        w->sum[i] = 0;
        memset(w->acc[i], 0, (size_t)h->head_dim * sizeof w->acc[i][0]);
    }
    for (int64_t k0 = 0; k0 < t.position + t.n; k0 += TILE) {
        int64_t n_keys = FT_MIN(t.position + t.n - k0, (int64_t)TILE);
        tile_scores(be, h, w, &t, k0, n_keys);
        softmax_step(w, n_keys, t.width);
        add_values(be, h, w, &t, k0, n_keys);
    }
    for (int64_t i = 0; i < t.n; i++) {
        scale_row(w->acc[i], h->head_dim, 1.0f / w->sum[i]);
        memcpy(out + (i0 + i) * h->ld_q, w->acc[i], (size_t)h->head_dim * sizeof *out);
        if (lse != NULL)
            lse[(i0 + i) * h->ld_lse] = w->most[i] + logf(w->sum[i]);
    }
}

struct forward {
    struct backend *be;
    const struct attention_args *a;
    float *out, *lse;
};

static int64_t tiles_of(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

/* Head `index` of rows [from, to) of packed sequences. */
static struct head head_of(const struct attention_args *a, int64_t from, int64_t to, int64_t index)
{
    const struct attention_shape *s = &a->shape;
    int64_t at = (from * s->n_heads + index) * s->head_dim;
    int64_t group = s->n_heads / s->n_kv_heads;
    int64_t kv_at = (from * s->n_kv_heads + index / group) * s->head_dim;
    return (struct head){
        .q = a->q + at,
        .k = a->k + kv_at,
        .v = a->v + kv_at,
        .out = a->out != NULL ? a->out + at : NULL,
        .d_out = a->d_out != NULL ? a->d_out + at : NULL,
        .lse = a->lse != NULL ? a->lse + from * s->n_heads + index : NULL,
        .n_queries = to - from,
        .n_keys = to - from,
        .head_dim = s->head_dim,
        .ld_q = s->n_heads * s->head_dim,
        .ld_kv = s->n_kv_heads * s->head_dim,
        .ld_lse = s->n_heads,
        .scale = (float)(1 / sqrt((double)s->head_dim)),
    };
}

/* Unit = (sequence, tile of queries, head). */
static void forward_unit(void *ctx, int64_t unit, void *private)
{
    const struct forward *f = ctx;
    const struct attention_shape *s = &f->a->shape;
    const int64_t *starts = f->a->seqs.starts;
    int64_t seq = 0, tile = unit / s->n_heads, index = unit % s->n_heads;
    for (; tile >= tiles_of(starts[seq + 1] - starts[seq]); seq++)
        tile -= tiles_of(starts[seq + 1] - starts[seq]);
    int64_t from = starts[seq];
    struct head h = head_of(f->a, from, starts[seq + 1], index);
    forward_tile(f->be, &h, tile * TILE, f->out + (from * s->n_heads + index) * s->head_dim,
                 f->lse + from * s->n_heads + index, private);
}

void cpu_attention_fwd(struct backend *be, float *out, float *lse, const struct attention_args *a)
{
    struct forward f = {be, a, out, lse};
    int64_t tiles = 0;
    for (int64_t i = 0; i < a->seqs.n; i++)
        tiles += tiles_of(a->seqs.starts[i + 1] - a->seqs.starts[i]);
    cpu_units(be, tiles * a->shape.n_heads, forward_unit, &f);
}

/* --- backward --------------------------------------------------------------------------------- */

/* p: scores -> P; d_s: V d_O^T -> d_S. */
ALWAYS_INLINE void softmax_gradient_body(struct workspace *w, int64_t n_keys, int64_t width)
{
    for (int64_t key = 0; key < n_keys; key++)
        for (int64_t i = 0; i < width; i++) {
            float p = exp_f32(w->p[key][i] - w->lse[i]);
            w->p[key][i] = p;
            w->d_s[key][i] = p * (w->d_s[key][i] - w->d_dot[i]);
        }
}
CPU_TIERED(softmax_gradient, (struct workspace * w, int64_t n_keys, int64_t width),
           (w, n_keys, width))

ALWAYS_INLINE void output_dots_body(const struct head *h, const struct query_tile *t,
                                    struct workspace *w)
{
    for (int64_t i = 0; i < t->n; i++)
        w->d_dot[i] = (float)vec_dot(h->d_out + (t->i0 + i) * h->ld_q,
                                     h->out + (t->i0 + i) * h->ld_q, h->head_dim);
}
CPU_TIERED(output_dots, (const struct head *h, const struct query_tile *t, struct workspace *w),
           (h, t, w))

/* What one tile of queries gives to one tile of keys, and to acc = d_q. d_k, d_v: rows of this
 * sequence and query head, with the row distance of q. */
static void backward_pair(const struct backend *be, const struct head *h,
                          const struct query_tile *t, int64_t k0, float *d_k, float *d_v,
                          struct workspace *w)
{
    int64_t n_keys = FT_MIN(t->position + t->n - k0, (int64_t)TILE);
    bool seen = t->position > k0; /* an earlier tile of queries has written these keys */
    tile_scores(be, h, w, t, k0, n_keys);
    struct tile d_p = {.m = n_keys,
                       .n = t->width,
                       .k = h->head_dim,
                       .alpha = 1,
                       .a = h->v + k0 * h->ld_kv,
                       .a_row = h->ld_kv,
                       .a_col = 1,
                       .b = w->d_out[0],
                       .ldb = TILE,
                       .c = w->d_s[0],
                       .ldc = TILE};
    cpu_tile(be, &d_p);
    softmax_gradient(w, n_keys, t->width);
    struct tile to_v = {.m = n_keys,
                        .n = h->head_dim,
                        .k = t->n,
                        .alpha = 1,
                        .accumulate = seen,
                        .a = w->p[0],
                        .a_row = TILE,
                        .a_col = 1,
                        .b = h->d_out + t->i0 * h->ld_q,
                        .ldb = h->ld_q,
                        .c = d_v + k0 * h->ld_q,
                        .ldc = h->ld_q};
    cpu_tile(be, &to_v);
    struct tile to_k = {.m = n_keys,
                        .n = h->head_dim,
                        .k = t->n,
                        .alpha = h->scale,
                        .accumulate = seen,
                        .a = w->d_s[0],
                        .a_row = TILE,
                        .a_col = 1,
                        .b = h->q + t->i0 * h->ld_q,
                        .ldb = h->ld_q,
                        .c = d_k + k0 * h->ld_q,
                        .ldc = h->ld_q};
    cpu_tile(be, &to_k);
    struct tile to_q = {.m = t->n,
                        .n = h->head_dim,
                        .k = n_keys,
                        .alpha = h->scale,
                        .accumulate = k0 > 0,
                        .a = w->d_s[0],
                        .a_row = 1,
                        .a_col = TILE,
                        .b = h->k + k0 * h->ld_kv,
                        .ldb = h->ld_kv,
                        .c = w->acc[0],
                        .ldc = HEAD};
    cpu_tile(be, &to_q);
}

static void backward_head(const struct backend *be, const struct head *h, float *d_q, float *d_k,
                          float *d_v, struct workspace *w)
{
    for (int64_t i0 = 0; i0 < h->n_queries; i0 += TILE) {
        struct query_tile t = query_tile_at(h, i0);
        transpose_in(w->q, h->q + i0 * h->ld_q, h, t.n, t.width);
        transpose_in(w->d_out, h->d_out + i0 * h->ld_q, h, t.n, t.width);
        output_dots(h, &t, w);
        for (int64_t i = 0; i < t.width; i++) /* a padding query gets P = 0 */
            w->lse[i] = i < t.n ? h->lse[(i0 + i) * h->ld_lse] : INFINITY;
        for (int64_t i = t.n; i < t.width; i++)
            w->d_dot[i] = 0;
        for (int64_t k0 = 0; k0 < t.position + t.n; k0 += TILE)
            backward_pair(be, h, &t, k0, d_k, d_v, w);
        for (int64_t i = 0; i < t.n; i++)
            memcpy(d_q + (i0 + i) * h->ld_q, w->acc[i], (size_t)h->head_dim * sizeof *d_q);
    }
}

struct backward {
    struct backend *be;
    const struct attention_args *a;
    float *d_q, *d_k_heads, *d_v_heads;
};

/* Unit = (sequence, query head): one thread walks all pairs of tiles, so every sum has its order.
 */
static void backward_unit(void *ctx, int64_t unit, void *private)
{
    const struct backward *b = ctx;
    const struct attention_shape *s = &b->a->shape;
    const int64_t *starts = b->a->seqs.starts + unit / s->n_heads;
    int64_t index = unit % s->n_heads, at = (starts[0] * s->n_heads + index) * s->head_dim;
    struct head h = head_of(b->a, starts[0], starts[1], index);
    backward_head(b->be, &h, b->d_q + at, b->d_k_heads + at, b->d_v_heads + at, private);
}

/* The query heads of a group share their keys and values: add up their parts, in order. */
struct group_sum {
    float *d_k, *d_v;
    const float *d_k_heads, *d_v_heads;
    int64_t n_kv_heads, group, head_dim;
};

ALWAYS_INLINE void add_group(float *restrict dst, const float *restrict parts, int64_t group,
                             int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = parts[i];
    for (int64_t g = 1; g < group; g++)
        for (int64_t i = 0; i < n; i++)
            dst[i] += parts[g * n + i];
}

ALWAYS_INLINE void group_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct group_sum *j = ctx;
    int64_t n = j->head_dim, heads = j->n_kv_heads;
    for (int64_t i = from * heads; i < to * heads; i++) {
        add_group(j->d_k + i * n, j->d_k_heads + i * j->group * n, j->group, n);
        add_group(j->d_v + i * n, j->d_v_heads + i * j->group * n, j->group, n);
    }
}
CPU_RANGE(group_range)

void cpu_attention_bwd(struct backend *be, float *d_q, float *d_k, float *d_v, float *d_k_heads,
                       float *d_v_heads, const struct attention_args *a)
{
    struct backward b = {be, a, d_q, d_k_heads, d_v_heads};
    const struct attention_shape *s = &a->shape;
    cpu_units(be, a->seqs.n * s->n_heads, backward_unit, &b);
    struct group_sum g = {
        d_k, d_v, d_k_heads, d_v_heads, s->n_kv_heads, s->n_heads / s->n_kv_heads, s->head_dim};
    cpu_range(be, a->rows, 2 * s->n_heads * s->head_dim, group_range, &g);
}

/* --- against a cache -------------------------------------------------------------------------- */

/* One query: dot products with every key, in tiles for the running softmax. */
ALWAYS_INLINE void single_query_body(const struct head *h, float *out, struct workspace *w)
{
    float *scores = w->p[0], most = -INFINITY, sum = 0;
    float *acc = w->acc[0];
    memset(acc, 0, (size_t)h->head_dim * sizeof *acc);
    for (int64_t k0 = 0; k0 < h->n_keys; k0 += TILE) {
        int64_t n = FT_MIN(h->n_keys - k0, (int64_t)TILE);
        for (int64_t i = 0; i < n; i++)
            scores[i] = (float)vec_dot(h->q, h->k + (k0 + i) * h->ld_kv, h->head_dim) * h->scale;
        float new_most = vec_max(scores, n);
        new_most = new_most > most ? new_most : most;
        float shrink = exp_f32(most - new_most);
        most = new_most;
        sum *= shrink;
        for (int64_t c = 0; c < h->head_dim; c++)
            acc[c] *= shrink;
        for (int64_t i = 0; i < n; i++) {
            float p = exp_f32(scores[i] - most);
            const float *v = h->v + (k0 + i) * h->ld_kv;
            sum += p;
            for (int64_t c = 0; c < h->head_dim; c++)
                acc[c] += p * v[c];
        }
    }
    for (int64_t c = 0; c < h->head_dim; c++)
        out[c] = acc[c] / sum;
}
CPU_TIERED(single_query, (const struct head *h, float *out, struct workspace *w), (h, out, w))

struct cached {
    struct backend *be;
    float *out;
    const float *q, *k, *v;
    int64_t n_queries, n_keys;
    struct attention_shape shape;
};

/* Unit = (tile of queries, head). */
static void cached_unit(void *ctx, int64_t unit, void *private)
{
    const struct cached *c = ctx;
    struct attention_args a = {.q = c->q, .k = c->k, .v = c->v, .shape = c->shape};
    int64_t index = unit % c->shape.n_heads, i0 = unit / c->shape.n_heads * TILE;
    struct head h = head_of(&a, 0, c->n_queries, index);
    h.n_keys = c->n_keys;
    float *out = c->out + index * h.head_dim;
    if (c->n_queries == 1)
        single_query(&h, out, private);
    else
        forward_tile(c->be, &h, i0, out, NULL, private);
}

void cpu_attention_cached(struct backend *be, float *out, const float *q, const float *k,
                          const float *v, int64_t n_queries, int64_t n_keys,
                          struct attention_shape shape)
{
    struct cached c = {be, out, q, k, v, n_queries, n_keys, shape};
    cpu_units(be, tiles_of(n_queries) * shape.n_heads, cached_unit, &c);
}
