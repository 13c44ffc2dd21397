/* SPDX-License-Identifier: Apache-2.0
 * What a backend implements: one table of operations on raw pointers. Only ops.c, backend.c and the
 * backends include this. Preconditions are those of ops.h and have been checked there, so the
 * functions below neither check nor fail unless they can meet a failure of the device. */
#ifndef TRAINER_BACKEND_OPS_H
#define TRAINER_BACKEND_OPS_H

#include "trainer/ops.h"

struct backend {
    const struct backend_ops *ops;
    int n_threads;
    const char *op; /* being executed, for messages */
    ft_error fault; /* first failure; status FT_OK = none */
};

/* Latches a failure of the running operation unless there is one already. */
void backend_fault(struct backend *be, ft_status status, const char *fmt, ...) FT_PRINTF(3, 4);

struct attention_args {
    const float *q, *k, *v, *out, *lse, *d_out;
    int64_t rows;
    struct attention_shape shape;
    struct sequences seqs;
};

struct backend_ops {
    const char *name;
    void (*close)(struct backend *be);
    void *(*alloc)(struct backend *be,
                   size_t bytes); /* zeroed, 64-byte aligned; NULL = exhausted */
    void (*free)(struct backend *be, void *p);
    void (*sync)(struct backend *be);

    void (*embed_fwd)(struct backend *be, float *x, const struct weight *w, const int32_t *tokens,
                      int64_t rows);
    void (*zero)(struct backend *be, float *x, int64_t n);
    void (*copy)(struct backend *be, float *y, const float *x, int64_t n);
    void (*add)(struct backend *be, float *y, const float *x, int64_t n);
    void (*gather_rows)(struct backend *be, float *y, const float *x, const int32_t *index,
                        int64_t rows, int64_t cols);
    void (*scatter_add_rows)(struct backend *be, float *d_x, const float *d_y, const int32_t *index,
                             int64_t rows, int64_t cols);
    void (*rmsnorm_fwd)(struct backend *be, float *y, const float *x, const float *gain,
                        int64_t rows, int64_t cols, double eps);
    void (*rmsnorm_bwd)(struct backend *be, float *d_x, const float *d_y, const float *x,
                        const float *gain, int64_t rows, int64_t cols, double eps);
    void (*linear_fwd)(struct backend *be, float *y, const float *x, const struct weight *w,
                       const float *bias, int64_t rows);
    void (*linear_bwd)(struct backend *be, float *d_x, const float *d_y, const struct weight *w,
                       int64_t rows, bool add);
    void (*lora_fwd)(struct backend *be, float *y, const float *x, const struct lora *l,
                     int64_t rows, float *hidden, float *dropped);
    void (*lora_bwd)(struct backend *be, float *d_x, float *d_a, float *d_b, const float *d_y,
                     const float *x, const struct lora *l, int64_t rows, float *hidden,
                     float *dropped);
    void (*rope_table)(struct backend *be, float *table, const float *inv_freq,
                       const int32_t *positions, int64_t rows, int64_t half);
    void (*rope)(struct backend *be, float *x, const float *table, int64_t rows, int64_t n_heads,
                 int64_t half, bool inverse);
    void (*attention_fwd)(struct backend *be, float *out, float *lse,
                          const struct attention_args *a);
    void (*attention_bwd)(struct backend *be, float *d_q, float *d_k, float *d_v, float *d_k_heads,
                          float *d_v_heads, const struct attention_args *a);
    void (*attention_cached)(struct backend *be, float *out, const float *q, const float *k,
                             const float *v, int64_t n_queries, int64_t n_keys,
                             struct attention_shape shape);
    void (*swiglu_fwd)(struct backend *be, float *y, const float *gate, const float *up, int64_t n);
    void (*swiglu_bwd)(struct backend *be, float *gate, float *up, const float *d_y, int64_t n);
    void (*head_loss)(struct backend *be, double *loss_sum, float *d_x, const float *x,
                      const struct weight *w, const int32_t *targets, int64_t rows,
                      double loss_scale, float *logits, int64_t chunk);
    void (*adamw)(struct backend *be, float *p, float *m, float *v, const float *g, int64_t n,
                  const struct adamw_step *s);
    void (*scale)(struct backend *be, float *x, int64_t n, double factor);
    void (*sum_squares)(struct backend *be, double *sum, const float *x, int64_t n);
    void (*count_nonfinite)(struct backend *be, uint64_t *count, const float *x, int64_t n);
};

/* One row per backend of this build; backend.c holds the list. */
struct backend_driver {
    const char *name;
    ft_status (*open)(struct backend **out, const struct backend_options *o, ft_error *err);
    size_t (*workspace_bytes)(int n_threads);
};
extern const struct backend_driver cpu_driver;

#endif
