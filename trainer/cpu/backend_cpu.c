/* SPDX-License-Identifier: Apache-2.0
 * The CPU backend: a thread pool, a workspace and the table of kernels. */
#include <string.h>

#include "common/mem.h"
#include "trainer/cpu/cpu.h"
#include "trainer/cpu/matmul.h"

/* Elements below which waking the other threads costs more than it saves (about 10 us). */
enum { RANGE_GRAIN = 32768 };

void cpu_range(struct backend *be, int64_t n, int64_t work,
               void (*fn)(void *ctx, int64_t from, int64_t to), void *ctx)
{
    pool_range(cpu_of(be)->pool, n, RANGE_GRAIN / FT_MAX(work, (int64_t)1), fn, ctx);
}

struct units {
    void (*fn)(void *ctx, int64_t unit, void *private);
    void *ctx;
    int64_t n;
    atomic_llong next;
    char *workspace;
};

static void run_units(void *arg, int task)
{
    struct units *u = arg;
    void *private = u->workspace + (size_t)task * CPU_PRIVATE_BYTES;
    for (;;) {
        int64_t unit = atomic_fetch_add_explicit(&u->next, 1, memory_order_relaxed);
        if (unit >= u->n)
            return;
        u->fn(u->ctx, unit, private);
    }
}

void cpu_units(struct backend *be, int64_t n_units,
               void (*fn)(void *ctx, int64_t unit, void *private), void *ctx)
{
    struct cpu_backend *cpu = cpu_of(be);
    struct units u = {.fn = fn, .ctx = ctx, .n = n_units, .workspace = cpu->workspace};
    int64_t tasks = FT_MIN((int64_t)be->n_threads, n_units);
    atomic_init(&u.next, 0);
    pool_run(cpu->pool, (int)tasks, run_units, &u);
}

void cpu_phase_run(struct cpu_phase *p, int64_t units, void (*fn)(void *ctx, int task), void *ctx)
{
    p->units = units;
    p->tasks = (int)FT_MIN((int64_t)p->cpu->base.n_threads, units);
    for (int t = 0; t < p->tasks; t++)
        atomic_store_explicit(&p->cpu->counters[t].next, t * units / p->tasks,
                              memory_order_relaxed);
    pool_run(p->cpu->pool, p->tasks, fn, ctx);
}

int64_t cpu_phase_claim(const struct cpu_phase *p, int task)
{
    for (int d = 0; d < p->tasks; d++) {
        int owner = (task + d) % p->tasks;
        int64_t unit =
            atomic_fetch_add_explicit(&p->cpu->counters[owner].next, 1, memory_order_relaxed);
        if (unit < (owner + 1) * p->units / p->tasks)
            return unit;
    }
    return -1;
}

/* --- memory and lifetime ---------------------------------------------------------------------- */

static void *cpu_alloc(struct backend *be, size_t bytes)
{
    (void)be;
    void *p = mem_alloc_aligned(bytes);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

static void cpu_free(struct backend *be, void *p)
{
    (void)be;
    mem_free(p);
}

static void cpu_sync(struct backend *be)
{
    (void)be; /* every operation has finished when it returns */
}

static void cpu_close(struct backend *be)
{
    struct cpu_backend *cpu = cpu_of(be);
    pool_destroy(cpu->pool);
    mem_free(cpu->workspace);
    mem_free(cpu->counters);
    mem_free(cpu);
}

static const struct backend_ops cpu_ops = {
    .name = "cpu",
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .sync = cpu_sync,
    .embed_fwd = cpu_embed_fwd,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .add = cpu_add,
    .gather_rows = cpu_gather_rows,
    .scatter_add_rows = cpu_scatter_add_rows,
    .rmsnorm_fwd = cpu_rmsnorm_fwd,
    .rmsnorm_bwd = cpu_rmsnorm_bwd,
    .linear_fwd = cpu_linear_fwd,
    .linear_bwd = cpu_linear_bwd,
    .lora_fwd = cpu_lora_fwd,
    .lora_bwd = cpu_lora_bwd,
    .rope_table = cpu_rope_table,
    .rope = cpu_rope,
    .attention_fwd = cpu_attention_fwd,
    .attention_bwd = cpu_attention_bwd,
    .attention_cached = cpu_attention_cached,
    .swiglu_fwd = cpu_swiglu_fwd,
    .swiglu_bwd = cpu_swiglu_bwd,
    .head_loss = cpu_head_loss,
    .adamw = cpu_adamw,
    .scale = cpu_scale,
    .sum_squares = cpu_sum_squares,
    .count_nonfinite = cpu_count_nonfinite,
};

static size_t cpu_workspace_bytes(int n_threads)
{
    size_t matmul = FT_MAX(matmul_fast_bytes(n_threads), matmul_amx_bytes(n_threads));
    return FT_MAX((size_t)n_threads * CPU_PRIVATE_BYTES, matmul);
}

static ft_status cpu_open(struct backend **out, const struct backend_options *o, ft_error *err)
{
    struct cpu_backend *cpu;
    FT_TRY(mem_new(&cpu, 1, sizeof *cpu, "the cpu backend", err));
    cpu->base = (struct backend){.ops = &cpu_ops, .n_threads = o->n_threads};
    cpu->matmul = o->matmul;
    cpu->workspace_bytes = cpu_workspace_bytes(o->n_threads);
    cpu->workspace = mem_alloc_aligned(cpu->workspace_bytes);
    cpu->counters = mem_alloc_aligned((size_t)o->n_threads * sizeof *cpu->counters);
    ft_status st = FT_OK;
    if (cpu->workspace == NULL || cpu->counters == NULL)
        st = ft_fail_memory(err, cpu->workspace_bytes, "the cpu workspace");
    if (st == FT_OK)
        st = pool_create(&cpu->pool, o->n_threads, err);
    if (st != FT_OK) {
        cpu_close(&cpu->base);
        return st;
    }
    *out = &cpu->base;
    return FT_OK;
}

const struct backend_driver cpu_driver = {
    .name = "cpu",
    .open = cpu_open,
    .workspace_bytes = cpu_workspace_bytes,
};
