/* SPDX-License-Identifier: Apache-2.0
 * Private to the CPU backend: its state, the kernels of the table, and how kernels are written.
 *
 * Rule of every kernel: what a number becomes depends on the inputs alone, never on the number of
 * threads or on which thread computes it. Loops over rows are split anywhere; sums across rows have
 * a fixed order. Kernels other than matrix products give the same bits on every instruction set,
 * because none of them lets the compiler fuse or reorder (-ffp-contract=off, explicit lanes). */
#ifndef TRAINER_CPU_CPU_H
#define TRAINER_CPU_CPU_H

#include <stdatomic.h>

#include "common/cpu.h"
#include "common/thread.h"
#include "trainer/backend_ops.h"

/* What a task of a parallel loop takes next; a cache line each. */
struct cpu_counter {
    _Alignas(64) atomic_llong next;
};

struct cpu_backend {
    struct backend base;
    struct pool *pool;
    struct cpu_counter *counters; /* [n_threads] */
    enum matmul_kind matmul;
    char *workspace; /* 64-byte aligned */
    size_t workspace_bytes;
};

static inline struct cpu_backend *cpu_of(struct backend *be)
{
    return (struct cpu_backend *)be;
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Compiles NAME_body, an ALWAYS_INLINE function, once per instruction set and defines NAME, which
 * picks by cpu_tier(). The body is plain C: the compiler's vectoriser does the rest. */
#if defined(__x86_64__)
#define CPU_AVX2_CODE   __attribute__((target("avx2,fma,f16c")))
#define CPU_AVX512_CODE __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define CPU_TIERED(name, params, args)                                                             \
    static void name##_portable params                                                             \
    {                                                                                              \
        name##_body args;                                                                          \
    }                                                                                              \
    CPU_AVX2_CODE static void name##_avx2 params                                                   \
    {                                                                                              \
        name##_body args;                                                                          \
    }                                                                                              \
    CPU_AVX512_CODE static void name##_avx512 params                                               \
    {                                                                                              \
        name##_body args;                                                                          \
    }                                                                                              \
    static void name params                                                                        \
    {                                                                                              \
        enum cpu_tier tier = cpu_tier();                                                           \
        if (tier >= CPU_AVX512)                                                                    \
            name##_avx512 args;                                                                    \
        else if (tier >= CPU_AVX2)                                                                 \
            name##_avx2 args;                                                                      \
        else                                                                                       \
            name##_portable args;                                                                  \
    }
#else
#define CPU_TIERED(name, params, args)                                                             \
    static void name params                                                                        \
    {                                                                                              \
        name##_body args;                                                                          \
    }
#endif

/* For pool_range: NAME(ctx, from, to). */
#define CPU_RANGE(name) CPU_TIERED(name, (void *ctx, int64_t from, int64_t to), (ctx, from, to))

/* Runs fn over [0, n) where an item costs about `work` element operations; small jobs stay on the
 * calling thread. */
void cpu_range(struct backend *be, int64_t n, int64_t work,
               void (*fn)(void *ctx, int64_t from, int64_t to), void *ctx);

/* Runs fn(ctx, unit, private) for every unit, handed out one by one. `private` points to
 * CPU_PRIVATE_BYTES of the running thread. */
enum { CPU_PRIVATE_BYTES = 1 << 19 };
void cpu_units(struct backend *be, int64_t n_units,
               void (*fn)(void *ctx, int64_t unit, void *private), void *ctx);

/* A loop over units whose order in memory matters: each task starts on a range of its own, so that
 * from one phase to the next a core meets the data that its cache holds; done with that, it takes
 * units from the others, as other work may share the cores. fn(ctx, task) claims units until there
 * are none. Not reentrant. */
struct cpu_phase {
    struct cpu_backend *cpu;
    int64_t units;
    int tasks;
};
void cpu_phase_run(struct cpu_phase *p, int64_t units, void (*fn)(void *ctx, int task), void *ctx);
int64_t cpu_phase_claim(const struct cpu_phase *p, int task); /* -1: nothing is left */

/* Kernels; contracts in trainer/ops.h, one file each. */
void cpu_embed_fwd(struct backend *be, float *x, const struct weight *w, const int32_t *tokens,
                   int64_t rows);
void cpu_zero(struct backend *be, float *x, int64_t n);
void cpu_copy(struct backend *be, float *y, const float *x, int64_t n);
void cpu_add(struct backend *be, float *y, const float *x, int64_t n);
void cpu_scale(struct backend *be, float *x, int64_t n, double factor);
void cpu_gather_rows(struct backend *be, float *y, const float *x, const int32_t *index,
                     int64_t rows, int64_t cols);
void cpu_scatter_add_rows(struct backend *be, float *d_x, const float *d_y, const int32_t *index,
                          int64_t rows, int64_t cols);
void cpu_rmsnorm_fwd(struct backend *be, float *y, const float *x, const float *gain, int64_t rows,
                     int64_t cols, double eps);
void cpu_rmsnorm_bwd(struct backend *be, float *d_x, const float *d_y, const float *x,
                     const float *gain, int64_t rows, int64_t cols, double eps);
void cpu_linear_fwd(struct backend *be, float *y, const float *x, const struct weight *w,
                    const float *bias, int64_t rows);
void cpu_linear_bwd(struct backend *be, float *d_x, const float *d_y, const struct weight *w,
                    int64_t rows, bool add);
void cpu_lora_fwd(struct backend *be, float *y, const float *x, const struct lora *l, int64_t rows,
                  float *hidden, float *dropped);
void cpu_lora_bwd(struct backend *be, float *d_x, float *d_a, float *d_b, const float *d_y,
                  const float *x, const struct lora *l, int64_t rows, float *hidden,
                  float *dropped);
void cpu_rope_table(struct backend *be, float *table, const float *inv_freq,
                    const int32_t *positions, int64_t rows, int64_t half);
void cpu_rope(struct backend *be, float *x, const float *table, int64_t rows, int64_t n_heads,
              int64_t half, bool inverse);
void cpu_attention_fwd(struct backend *be, float *out, float *lse, const struct attention_args *a);
void cpu_attention_bwd(struct backend *be, float *d_q, float *d_k, float *d_v, float *d_k_heads,
                       float *d_v_heads, const struct attention_args *a);
void cpu_attention_cached(struct backend *be, float *out, const float *q, const float *k,
                          const float *v, int64_t n_queries, int64_t n_keys,
                          struct attention_shape shape);
void cpu_swiglu_fwd(struct backend *be, float *y, const float *gate, const float *up, int64_t n);
void cpu_swiglu_bwd(struct backend *be, float *gate, float *up, const float *d_y, int64_t n);
void cpu_head_loss(struct backend *be, double *loss_sum, float *d_x, const float *x,
                   const struct weight *w, const int32_t *targets, int64_t rows, double loss_scale,
                   float *logits, int64_t chunk);
void cpu_adamw(struct backend *be, float *p, float *m, float *v, const float *g, int64_t n,
               const struct adamw_step *s);
void cpu_sum_squares(struct backend *be, double *sum, const float *x, int64_t n);
void cpu_count_nonfinite(struct backend *be, uint64_t *count, const float *x, int64_t n);

/* nf4_scale, inlined: it runs once for 64 elements that take about 16 cycles. */
ALWAYS_INLINE float cpu_nf4_scale(const struct nf4_matrix *m, int64_t block)
{
    float scaled = m->map[m->absmax[block]] * m->absmax2[block / NF4_BLOCK2];
    return scaled + m->offset;
}

/* dst[r, c] = w[row0 + r, col0 + c], decoded, leading dimension ld. Thread-safe. */
void cpu_weight_decode(const struct weight *w, int64_t row0, int64_t n_rows, int64_t col0,
                       int64_t n_cols, float *dst, int64_t ld);

#endif
