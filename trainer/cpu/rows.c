/* SPDX-License-Identifier: Apache-2.0
 * Moving and adding rows: embedding, gather, scatter, element-wise helpers. */
#include <string.h>

#include "trainer/cpu/cpu.h"

struct embed {
    float *x;
    const struct weight *w;
    const int32_t *tokens;
};

static void embed_range(void *ctx, int64_t from, int64_t to)
{
    const struct embed *e = ctx;
    for (int64_t t = from; t < to; t++)
        cpu_weight_decode(e->w, e->tokens[t], 1, 0, e->w->cols, e->x + t * e->w->cols, e->w->cols);
}

void cpu_embed_fwd(struct backend *be, float *x, const struct weight *w, const int32_t *tokens,
                   int64_t rows)
{
    struct embed e = {x, w, tokens};
    cpu_range(be, rows, w->cols, embed_range, &e);
}

struct gather {
    float *y;
    const float *x;
    const int32_t *index;
    int64_t cols;
};

static void gather_range(void *ctx, int64_t from, int64_t to)
{
    const struct gather *g = ctx;
    for (int64_t i = from; i < to; i++)
        memcpy(g->y + i * g->cols, g->x + g->index[i] * g->cols, (size_t)g->cols * sizeof *g->y);
}

void cpu_gather_rows(struct backend *be, float *y, const float *x, const int32_t *index,
                     int64_t rows, int64_t cols)
{
    struct gather g = {y, x, index, cols};
    cpu_range(be, rows, cols, gather_range, &g);
}

/* The indices are distinct, so rows may be added in any order. */
ALWAYS_INLINE void scatter_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct gather *g = ctx;
    for (int64_t i = from; i < to; i++) {
        float *y = g->y + g->index[i] * g->cols;
        const float *x = g->x + i * g->cols;
        for (int64_t c = 0; c < g->cols; c++)
            y[c] += x[c];
    }
}
CPU_RANGE(scatter_range)

void cpu_scatter_add_rows(struct backend *be, float *d_x, const float *d_y, const int32_t *index,
                          int64_t rows, int64_t cols)
{
    struct gather g = {d_x, d_y, index, cols};
    cpu_range(be, rows, cols, scatter_range, &g);
}

struct elements {
    float *y;
    const float *x;
    float factor;
};

static void zero_range(void *ctx, int64_t from, int64_t to)
{
    const struct elements *e = ctx;
    memset(e->y + from, 0, (size_t)(to - from) * sizeof *e->y);
}

void cpu_zero(struct backend *be, float *x, int64_t n)
{
    struct elements e = {.y = x};
    cpu_range(be, n, 1, zero_range, &e);
}

static void copy_range(void *ctx, int64_t from, int64_t to)
{
    const struct elements *e = ctx;
    memcpy(e->y + from, e->x + from, (size_t)(to - from) * sizeof *e->y);
}

void cpu_copy(struct backend *be, float *y, const float *x, int64_t n)
{
    struct elements e = {.y = y, .x = x};
    cpu_range(be, n, 1, copy_range, &e);
}

ALWAYS_INLINE void add_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct elements *e = ctx;
    float *y = e->y;
    const float *x = e->x;
    for (int64_t i = from; i < to; i++)
        y[i] += x[i];
}
CPU_RANGE(add_range)

void cpu_add(struct backend *be, float *y, const float *x, int64_t n)
{
    struct elements e = {.y = y, .x = x};
    cpu_range(be, n, 1, add_range, &e);
}

ALWAYS_INLINE void scale_range_body(void *ctx, int64_t from, int64_t to)
{
    const struct elements *e = ctx;
    float *y = e->y, factor = e->factor;
    for (int64_t i = from; i < to; i++)
        y[i] *= factor;
}
CPU_RANGE(scale_range)

void cpu_scale(struct backend *be, float *x, int64_t n, double factor)
{
    struct elements e = {.y = x, .factor = (float)factor};
    cpu_range(be, n, 1, scale_range, &e);
}
