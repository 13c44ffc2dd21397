/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "common/mem.h"
#include "tests/support/numeric.h"

struct attention_case {
    struct attention_shape s;
    struct sequences seqs;
    int64_t rows;
    float *qkv; /* q, then k, then v: what the loss is differentiated by */
    float *d_out;
};

static int64_t width_q(const struct attention_case *c)
{
    return c->s.n_heads * c->s.head_dim;
}

static int64_t width_kv(const struct attention_case *c)
{
    return c->s.n_kv_heads * c->s.head_dim;
}

/* Row i of one head, attending to rows [first, i]: out[head_dim], returns log sum e^score. */
static double attend(double *out, const struct attention_case *c, const double *qkv, int64_t first,
                     int64_t i, int64_t head)
{
    int64_t dim = c->s.head_dim, kv_head = head / (c->s.n_heads / c->s.n_kv_heads);
    const double *q = qkv + i * width_q(c) + head * dim;
    const double *k = qkv + c->rows * width_q(c) + kv_head * dim;
    const double *v = k + c->rows * width_kv(c);
    double sum = 0;
    for (int64_t d = 0; d < dim; d++)
        out[d] = 0;
    for (int64_t j = first; j <= i; j++) {
        double score = 0;
        for (int64_t d = 0; d < dim; d++)
            score += q[d] * k[j * width_kv(c) + d];
        double p = exp(score / sqrt((double)dim));
        sum += p;
        for (int64_t d = 0; d < dim; d++)
            out[d] += p * v[j * width_kv(c) + d];
    }
    for (int64_t d = 0; d < dim; d++)
        out[d] /= sum;
    return log(sum);
}

static void reference(double *out, double *lse, const struct attention_case *c, const double *qkv)
{
    for (int64_t s = 0; s < c->seqs.n; s++)
        for (int64_t i = c->seqs.starts[s]; i < c->seqs.starts[s + 1]; i++)
            for (int64_t h = 0; h < c->s.n_heads; h++)
                lse[i * c->s.n_heads + h] = attend(out + i * width_q(c) + h * c->s.head_dim, c, qkv,
                                                   c->seqs.starts[s], i, h);
}

static double loss(const void *ctx, const double *qkv)
{
    const struct attention_case *c = ctx;
    int64_t n = c->rows * width_q(c);
    double *out = mem_alloc((size_t)(n + c->rows * c->s.n_heads), sizeof *out), sum = 0;
    reference(out, out + n, c, qkv);
    for (int64_t i = 0; i < n; i++)
        sum += out[i] * (double)c->d_out[i];
    mem_free(out);
    return sum;
}

/* The derivative of loss in closed form, in double: central differences of a long sequence would
 * take hours. It is itself compared with them on the short cases. */
static void reference_gradient(double *d_qkv, const struct attention_case *c, const double *qkv)
{
    int64_t dim = c->s.head_dim, wq = width_q(c), wkv = width_kv(c), n_q = c->rows * wq;
    double out[ATTENTION_MAX_HEAD_DIM];
    for (int64_t s = 0; s < c->seqs.n; s++)
        for (int64_t i = c->seqs.starts[s]; i < c->seqs.starts[s + 1]; i++)
            for (int64_t h = 0; h < c->s.n_heads; h++) {
                int64_t kv = h / (c->s.n_heads / c->s.n_kv_heads) * dim;
                double lse = attend(out, c, qkv, c->seqs.starts[s], i, h), along = 0;
                for (int64_t d = 0; d < dim; d++)
                    along += out[d] * (double)c->d_out[i * wq + h * dim + d];
                for (int64_t j = c->seqs.starts[s]; j <= i; j++) {
                    const double *q = qkv + i * wq + h * dim, *k = qkv + n_q + j * wkv + kv;
                    const double *v = k + c->rows * wkv;
                    double score = 0, d_p = 0, scale = 1 / sqrt((double)dim);
                    for (int64_t d = 0; d < dim; d++) {
                        score += q[d] * k[d] * scale;
                        d_p += v[d] * (double)c->d_out[i * wq + h * dim + d];
                    }
                    double p = exp(score - lse), d_s = p * (d_p - along) * scale;
                    for (int64_t d = 0; d < dim; d++) {
                        d_qkv[i * wq + h * dim + d] += d_s * k[d];
                        d_qkv[n_q + j * wkv + kv + d] += d_s * q[d];
                        d_qkv[n_q + (c->rows + j) * wkv + kv + d] +=
                            p * (double)c->d_out[i * wq + h * dim + d];
                    }
                }
            }
}

/* out, lse, d_q, d_k, d_v */
static void run(struct backend *be, const void *ctx, float *result)
{
    const struct attention_case *c = ctx;
    int64_t n_q = c->rows * width_q(c), n_kv = c->rows * width_kv(c),
            n_lse = c->rows * c->s.n_heads;
    float *parts = mem_alloc_aligned((size_t)(2 * n_q) * sizeof *parts);
    struct tensor q = tensor_f32("q", c->qkv, c->rows, width_q(c));
    struct tensor k = tensor_f32("k", c->qkv + n_q, c->rows, width_kv(c));
    struct tensor v = tensor_f32("v", c->qkv + n_q + n_kv, c->rows, width_kv(c));
    struct tensor out = tensor_f32("out", result, c->rows, width_q(c));
    struct tensor lse = tensor_f32("lse", result + n_q, c->rows, c->s.n_heads);
    float *grads = result + n_q + n_lse;
    op_attention_fwd(be, out, lse, q, k, v, c->s, c->seqs);
    op_attention_bwd(be, tensor_f32("d_q", grads, c->rows, width_q(c)),
                     tensor_f32("d_k", grads + n_q, c->rows, width_kv(c)),
                     tensor_f32("d_v", grads + n_q + n_kv, c->rows, width_kv(c)),
                     tensor_f32("d_k_heads", parts, c->rows, width_q(c)),
                     tensor_f32("d_v_heads", parts + n_q, c->rows, width_q(c)),
                     tensor_f32("d_out", c->d_out, c->rows, width_q(c)), q, k, v, out, lse, c->s,
                     c->seqs);
    mem_free(parts);
}

static void check_attention(struct attention_shape s, struct sequences seqs, bool differences)
{
    struct attention_case c = {.s = s, .seqs = seqs, .rows = seqs.starts[seqs.n]};
    int64_t n_q = c.rows * width_q(&c), n_kv = c.rows * width_kv(&c), n = n_q + 2 * n_kv;
    int64_t n_lse = c.rows * s.n_heads;
    c.qkv = random_f32(n, 1, 1);
    c.d_out = random_f32(n_q, 2, 1);
    double *qkv = zeros_f64(n), *out = zeros_f64(n_q), *lse = zeros_f64(n_lse);
    double *grads = zeros_f64(n);
    for (int64_t i = 0; i < n; i++)
        qkv[i] = (double)c.qkv[i];
    reference(out, lse, &c, qkv);
    reference_gradient(grads, &c, qkv);
    if (differences) {
        double *numeric = zeros_f64(n), worst = 0, norm = 0;
        central_differences(numeric, c.qkv, n, loss, &c);
        for (int64_t i = 0; i < n; i++) {
            worst = fmax(worst, fabs(numeric[i] - grads[i]));
            norm = fmax(norm, fabs(grads[i]));
        }
        assert_true(worst <= 1e-6 * norm);
    }
    const struct expected parts[] = {{"out", n_q, out, 2e-6},
                                     {"lse", n_lse, lse, 2e-6},
                                     {"d_q", n_q, grads, 1e-5},
                                     {"d_k", n_kv, grads + n_q, 1e-5},
                                     {"d_v", n_kv, grads + n_q + n_kv, 1e-5}};
    check_op(run, &c, parts, ARRAY_LEN(parts), false);
}

static void value_and_gradients_match_central_differences(void **state)
{
    (void)state;
    static const int64_t one[] = {0, 1}, packed[] = {0, 3, 4, 11};
    check_attention((struct attention_shape){1, 1, 2}, (struct sequences){1, one}, true);
    check_attention((struct attention_shape){2, 2, 5}, (struct sequences){3, packed}, true);
    check_attention((struct attention_shape){6, 2, 8}, (struct sequences){3, packed}, true);
}

static void sequences_longer_than_a_tile_and_of_any_length(void **state)
{
    (void)state;
    static const int64_t borders[] = {0, 64, 65, 192, 193, 273}, odd[] = {0, 130};
    check_attention((struct attention_shape){3, 1, 16}, (struct sequences){5, borders}, false);
    check_attention((struct attention_shape){2, 1, 64}, (struct sequences){1, odd}, false);
    check_attention((struct attention_shape){1, 1, 128}, (struct sequences){1, odd}, false);
    check_attention((struct attention_shape){2, 2, 20}, (struct sequences){1, odd}, false);
}

static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    enum { ROWS = 70, DIM = 16 };
    static const int64_t starts[] = {0, ROWS};
    float *qkv = random_f32(3 * ROWS * DIM, 1, 40), *out = zeros_f32(ROWS * DIM);
    float *lse = zeros_f32(ROWS);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    uint64_t bad = 1;
    op_attention_fwd(be, tensor_f32("out", out, ROWS, DIM), tensor_f32("lse", lse, ROWS, 1),
                     tensor_f32("q", qkv, ROWS, DIM), tensor_f32("k", qkv + ROWS * DIM, ROWS, DIM),
                     tensor_f32("v", qkv + 2 * ROWS * DIM, ROWS, DIM),
                     (struct attention_shape){1, 1, DIM}, (struct sequences){1, starts});
    op_count_nonfinite(be, &bad, tensor_f32("out", out, ROWS, DIM));
    sync_ok(be);
    backend_close(be);
    assert_int_equal(bad, 0);
}

/* The last n rows of a sequence, from a cache of all its keys. */
static void cached_attention_equals_the_rows_of_the_whole_sequence(void **state)
{
    (void)state;
    enum { ROWS = 150 };
    static const int64_t starts[] = {0, ROWS}, n_queries[] = {1, 2, 64, 65, 149, 150};
    struct attention_case c = {.s = {6, 2, 24}, .seqs = {1, starts}, .rows = ROWS};
    int64_t wq = width_q(&c), wkv = width_kv(&c), n = ROWS * (wq + 2 * wkv);
    c.qkv = random_f32(n, 1, 1);
    double *qkv = zeros_f64(n), *out = zeros_f64(ROWS * wq), *lse = zeros_f64(ROWS * 6);
    for (int64_t i = 0; i < n; i++)
        qkv[i] = (double)c.qkv[i];
    reference(out, lse, &c, qkv);
    float *got = zeros_f32(ROWS * wq), *k = c.qkv + ROWS * wq, *v = k + ROWS * wkv;
    for (int tier = 0; tier < CPU_TIERS; tier++)
        for (size_t i = 0; i < ARRAY_LEN(n_queries); i++) {
            int64_t m = n_queries[i], at = (ROWS - m) * wq;
            cpu_tier_limit((enum cpu_tier)tier);
            struct backend *be = open_cpu(3, MATMUL_FAST);
            op_attention_cached(be, tensor_f32("out", got, m, wq),
                                tensor_f32("q", c.qkv + at, m, wq), tensor_f32("k", k, ROWS, wkv),
                                tensor_f32("v", v, ROWS, wkv), c.s);
            sync_ok(be);
            backend_close(be);
            assert_true(relative_error(got, out + at, m * wq) <= 2e-6);
        }
    cpu_tier_limit(CPU_TIERS);
}

static void impossible_arguments_are_latched(void **state)
{
    (void)state;
    float x[64] = {0};
    static const int64_t gap[] = {0, 1}, empty[] = {0, 0, 2};
    struct attention_shape s = {2, 1, 4};
    struct tensor q = tensor_f32("q", x, 2, 8), k = tensor_f32("k", x, 2, 4);
    struct tensor lse = tensor_f32("lse", x, 2, 2);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_attention_fwd(be, q, lse, q, k, k, s, (struct sequences){1, gap});
    sync_fails(be, "attention_fwd: the sequence borders do not cover 2 rows");
    op_attention_fwd(be, q, lse, q, k, k, s, (struct sequences){2, empty});
    sync_fails(be, "attention_fwd: the sequence borders do not cover 2 rows");
    op_attention_fwd(be, q, lse, q, k, k, (struct attention_shape){3, 2, 4},
                     (struct sequences){1, gap});
    sync_fails(be, "3 heads, 2 key/value heads of 4 are not supported");
    op_attention_cached(be, q, q, tensor_rows(k, 0, 1), tensor_rows(k, 0, 1), s);
    sync_fails(be, "attention_cached: 2 queries but 1 keys");
    backend_close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(value_and_gradients_match_central_differences),
        cmocka_unit_test(sequences_longer_than_a_tile_and_of_any_length),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(cached_attention_equals_the_rows_of_the_whole_sequence),
        cmocka_unit_test(impossible_arguments_are_latched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
