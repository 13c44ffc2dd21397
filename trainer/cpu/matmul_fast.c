/* SPDX-License-Identifier: Apache-2.0
 * The default matrix product.
 *
 * Either matrix can play the left or the right part of a micro-kernel (matmul_kernels.h), since
 * C^T = B^T A^T. The planner picks the cheaper one. In particular, with few tokens the weights of a
 * forward layer are the left operand: each row is used where it lies, or is decoded into a buffer
 * that stays in cache, and is never transposed.
 *
 * For every block of k: first all panels of the right operand are packed (shared, each element
 * once), then the result is computed, the unit of work being a group of left rows; or each task
 * packs a few panels for itself and goes through all rows. Nothing is ever split along k between
 * threads, and the blocks of k depend on the shape alone: threads never change a bit. */
#include <stdatomic.h>

#include "trainer/cpu/matmul_kernels.h"

enum {
    KC_MAX = 768,    /* longest block of k */
    DOT_KC = 1024,   /* the same for dot products */
    QC_MAX = 1536,   /* most columns of the right operand packed at a time */
    GROUP_TILES = 8, /* most micro-tiles stacked in one group of left rows */
    MAX_GROUP = 8 * GROUP_TILES,
    DIRECT_ROWS = 64,    /* up to this many left rows, packing does not pay */
    OWN_ROWS_MAX = 2048, /* most left rows copied for all tasks at a time */
    COPY_BLOCKS = 4,     /* most blocks of k they are copied for at a time */
    OWN_PANELS = 3,      /* most panels a task packs for itself at a time */
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t b)
{
    return ceil_div(a, b) * b;
}

/* --- planning --------------------------------------------------------------------------------- */

/* Strides are those of the role an operand plays: "vector" runs over rows of
 * the left and columns of the right operand, "k" along the sum. */
struct side {
    const float *data;
    int64_t vector_stride, k_stride;
    const struct weight *weight; /* stored matrix, decoded on use */
    bool rows_are_k;             /* its rows run along k */
};

struct plan {
    struct cpu_phase phase;
    const struct matmul_kernels *kernels;
    struct side left, right;
    int64_t rows, cols, k; /* of the product as computed, perhaps transposed */
    float alpha;
    bool add; /* to what C holds */
    float *c;
    int64_t ldc;
    bool c_transposed;
    bool direct_right; /* full panels of the right operand are used in place */
    bool copy_left;    /* left rows go through a private buffer */

    /* the current block; a task working on several has its own copy of the plan */
    int64_t kb, k0, kc, q0, qc;
    bool accumulate;
    int64_t span0, span1; /* with own_panels: the range of k of the current phase */

    int64_t group, n_groups, panels_per_unit, n_chunks;
    bool own_panels; /* each task packs the panels of its unit, for all rows */
    float *packed;   /* shared: panels of the right operand or, with own_panels, copied left rows */
    float *private_base;
    int64_t private_floats;
};

/* Blocks of equal length, so that there is no short last one; a multiple of 16. */
static int64_t k_block(int64_t k, int64_t most)
{
    const int64_t blocks = ceil_div(k, most);
    return blocks <= 1 ? k : round_up(ceil_div(k, blocks), 16);
}

static struct side side_of(const struct matmul_operand *o, bool k_is_row)
{
    struct side s;
    s.data = o->data;
    s.vector_stride = k_is_row ? o->col_stride : o->row_stride;
    s.k_stride = k_is_row ? o->row_stride : o->col_stride;
    s.weight = o->weight;
    s.rows_are_k = k_is_row ? !o->transposed : o->transposed;
    if (s.weight) {
        s.vector_stride = s.rows_are_k;
        s.k_stride = !s.rows_are_k;
    }
    return s;
}

static bool right_is_direct(const struct side *right, int64_t rows, int nr)
{
    /* In place also where the rows are about as close together as in a panel. */
    return !right->weight && right->vector_stride == 1 &&
           (rows <= DIRECT_ROWS || right->k_stride <= nr);
}

/* Relative cost of preparing the operands: an element of the right one costs
 * one if it has to be transposed, a quarter if copied, nothing if used in
 * place; one of the left one costs an eighth if it does not lie along k. */
static int64_t layout_cost(const struct side *left, int64_t rows, const struct side *right,
                           int64_t cols, int64_t k, int nr)
{
    int64_t cost = cols * k;
    if (right_is_direct(right, rows, nr))
        cost = 0;
    else if (right->vector_stride == 1)
        cost /= 4;
    return cost + (left->k_stride == 1 ? 0 : rows * k / 8);
}

/* C^T = B^T A^T costs a transposition of every tile of C, but may spare packing B. */
static bool worth_swapping(const struct matmul *p, const struct side *a, const struct side *b,
                           int nr)
{
    const int64_t c_tiles = 2 * ceil_div(p->k, KC_MAX) * p->m * p->n;
    return layout_cost(b, p->n, a, p->m, p->k, nr) + c_tiles <
           layout_cost(a, p->m, b, p->n, p->k, nr);
}

/* A stride that is a multiple of a large power of two sends all rows to a few
 * cache sets, and a very long one costs a TLB entry per row. */
static bool left_needs_copy(const struct plan *pl)
{
    const struct side *l = &pl->left;
    if (l->weight != NULL)
        return true;
    if (pl->cols <= 2 * pl->kernels->nr)
        return false;
    if (l->k_stride == 1)
        return l->vector_stride % 1024 == 0 || l->vector_stride >= 4096;
    return true;
}

static void plan_operands(struct plan *pl, const struct matmul *p)
{
    /* "A as right" has k along its columns like "A as left": the role changes nothing. */
    const struct side a = side_of(&p->a, false), b = side_of(&p->b, true);
    const bool swap = worth_swapping(p, &a, &b, pl->kernels->nr);

    pl->left = swap ? b : a;
    pl->right = swap ? a : b;
    pl->rows = swap ? p->n : p->m;
    pl->cols = swap ? p->m : p->n;
    pl->k = p->k;
    pl->c_transposed = swap;
    pl->c = p->c;
    pl->ldc = p->ldc;
    pl->alpha = p->alpha;
    pl->direct_right = right_is_direct(&pl->right, pl->rows, pl->kernels->nr);
    pl->copy_left = left_needs_copy(pl);
}

/* Private to a task: a tile of C, decoded rows of the right operand, and left rows or panels. */
static int64_t private_floats(int64_t kc)
{
    const int64_t work = FT_MAX(MAX_GROUP, MATMUL_MAX_NR + OWN_PANELS * MATMUL_MAX_NR);
    return round_up(work * kc + MATMUL_MAX_MR * MATMUL_MAX_NR, 16);
}

/* Shared: packed panels of the right operand, or copied rows of the left one. */
static int64_t shared_floats(int64_t rows, int64_t cols, int64_t k, int64_t kc)
{
    const int64_t panels = FT_MIN(cols + MATMUL_MAX_NR, (int64_t)QC_MAX) * kc;
    const int64_t copies = FT_MIN(rows, (int64_t)OWN_ROWS_MAX) * FT_MIN(k, COPY_BLOCKS * kc);
    return round_up(FT_MAX(panels, copies), 16);
}

/* --- packing ---------------------------------------------------------------------------------- */

static void copy_strided(const float *src, int64_t rs, int64_t cs, int64_t rows, int64_t cols,
                         float *dst, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            dst[r * ld + c] = src[r * rs + c * cs];
}

/* A last panel is only as wide as it has to be. */
static int64_t panel_width(const struct plan *pl, int64_t width)
{
    return round_up(width, pl->kernels->lanes);
}

/* dst[kc][] = right operand, columns j.. of the product; missing columns become zero. */
static void pack_panel(const struct plan *pl, int64_t j, int64_t width, float *dst, float *tmp)
{
    const struct side *s = &pl->right;
    const int64_t nr = panel_width(pl, width), kc = pl->kc;

    if (width < nr)
        memset(dst, 0, (size_t)(kc * nr) * sizeof *dst);
    if (s->weight && s->rows_are_k) {
        cpu_weight_decode(s->weight, pl->k0, kc, j, width, dst, nr);
    } else if (s->weight) {
        cpu_weight_decode(s->weight, j, width, pl->k0, kc, tmp, kc);
        pl->kernels->transpose(tmp, kc, width, kc, dst, nr, false);
    } else {
        const float *src = s->data + j * s->vector_stride + pl->k0 * s->k_stride;
        if (s->vector_stride == 1)
            pl->kernels->copy(src, s->k_stride, kc, width, dst, nr);
        else if (s->k_stride == 1)
            pl->kernels->transpose(src, s->vector_stride, width, kc, dst, nr, false);
        else
            copy_strided(src, s->k_stride, s->vector_stride, kc, width, dst, nr);
    }
}

/* With direct_right only a panel that is not made of whole vectors is packed. */
static bool panel_is_direct(const struct plan *pl, int64_t width)
{
    return pl->direct_right && width % pl->kernels->lanes == 0;
}

static void pack_task(void *arg, int task)
{
    struct plan *pl = arg;
    const int64_t nr = pl->kernels->nr;
    float *tmp = pl->private_base + task * pl->private_floats;

    for (int64_t j; (j = cpu_phase_claim(&pl->phase, task)) >= 0;) {
        const int64_t width = FT_MIN(nr, pl->qc - j * nr);
        if (!panel_is_direct(pl, width))
            pack_panel(pl, pl->q0 + j * nr, width, pl->packed + j * nr * pl->kc, tmp);
    }
}

/* Points t at left rows i.., copying or decoding them into buf first where needed. */
static void fetch_left(const struct plan *pl, int64_t i, int64_t rows, float *buf,
                       struct micro_tile *t)
{
    const struct side *s = &pl->left;
    const bool by_rows = s->weight ? !s->rows_are_k : s->vector_stride != 1;
    const float *src = s->data;

    if (!s->weight)
        src += i * s->vector_stride + pl->k0 * s->k_stride;
    if (!pl->copy_left) {
        t->a = src;
        t->a_rs = s->vector_stride;
        t->a_cs = s->k_stride;
        return;
    }
    t->a = buf;
    t->a_rs = by_rows ? pl->kc : 1;
    t->a_cs = by_rows ? 1 : rows;
    if (s->weight && by_rows)
        cpu_weight_decode(s->weight, i, rows, pl->k0, pl->kc, buf, pl->kc);
    else if (s->weight)
        cpu_weight_decode(s->weight, pl->k0, pl->kc, i, rows, buf, rows);
    else if (by_rows && s->k_stride == 1)
        matmul_copy_rows(src, s->vector_stride, rows, pl->kc, buf, pl->kc);
    else if (by_rows)
        copy_strided(src, s->vector_stride, s->k_stride, rows, pl->kc, buf, pl->kc);
    else
        matmul_copy_rows(src, s->k_stride, pl->kc, rows, buf, rows);
}

/* --- compute ---------------------------------------------------------------------------------- */

/* Full tiles go straight to C; partial ones and transposed C pass through a buffer. */
static void add_tile(float *c, int64_t ldc, const float *tile, int64_t ld, int64_t rows,
                     int64_t cols, bool add)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const float v = tile[i * ld + j];
            c[i * ldc + j] = add ? c[i * ldc + j] + v : v;
        }
}

static void tile_plain(const struct plan *pl, struct micro_tile *t, int64_t i, int64_t j,
                       int64_t rows, int64_t width, float *buf)
{
    const int64_t lanes = pl->kernels->lanes;
    const int vectors = (int)ceil_div(width, lanes);
    float *c = pl->c + i * pl->ldc + j;
    const bool whole = width % lanes == 0;

    t->c = whole ? c : buf;
    t->ldc = whole ? pl->ldc : MATMUL_MAX_NR;
    t->accumulate = whole && pl->accumulate;
    pl->kernels->tile((int)rows, vectors, t);
    if (!whole)
        add_tile(c, pl->ldc, buf, MATMUL_MAX_NR, rows, width, pl->accumulate);
}

/* Up to MATMUL_MAX_MR left rows at a time, so that C is written in whole cache lines. */
static void tile_transposed(const struct plan *pl, struct micro_tile *t, int64_t i, int64_t j,
                            int64_t rows, int64_t step, int64_t width, float *buf)
{
    const float *a = t->a;
    const int vectors = (int)ceil_div(width, pl->kernels->lanes);

    t->ldc = MATMUL_MAX_NR;
    t->accumulate = false;
    for (int64_t r = 0; r < rows; r += step) {
        t->a = a + r * t->a_rs;
        t->c = buf + r * MATMUL_MAX_NR;
        pl->kernels->tile((int)FT_MIN(step, rows - r), vectors, t);
    }
    pl->kernels->transpose(buf, MATMUL_MAX_NR, rows, width, pl->c + j * pl->ldc + i, pl->ldc,
                           pl->accumulate);
}

/* All left rows of a group against one panel of the right operand. */
static void group_times_panel(const struct plan *pl, struct micro_tile t, int64_t i0, int64_t rows,
                              int64_t j, int64_t width, float *buf)
{
    const struct matmul_kernels *kernels = pl->kernels;
    const int64_t mr = width <= kernels->lanes ? kernels->mr_narrow : kernels->mr;
    const int64_t step = pl->c_transposed ? MATMUL_MAX_MR / mr * mr : mr;
    const float *a = t.a;

    for (int64_t r = 0; r < rows; r += step) {
        const int64_t part = FT_MIN(step, rows - r);
        t.a = a + r * t.a_rs;
        if (pl->c_transposed)
            tile_transposed(pl, &t, i0 + r, j, part, mr, width, buf);
        else
            tile_plain(pl, &t, i0 + r, j, part, width, buf);
    }
}

/* Left rows i0.. times the panels [first, last) of the block, packed at panels. */
static void group_times_panels(const struct plan *pl, struct micro_tile t, int64_t i0, int64_t rows,
                               int64_t first, int64_t last, const float *panels, float *tile)
{
    const int64_t nr = pl->kernels->nr;

    for (int64_t j = first; j < last; j += nr) {
        const int64_t width = FT_MIN(nr, pl->qc - j);
        if (panel_is_direct(pl, width)) {
            t.b = pl->right.data + pl->q0 + j + pl->k0 * pl->right.k_stride;
            t.ldb = pl->right.k_stride;
        } else {
            t.b = panels + (j - first) * pl->kc;
            t.ldb = panel_width(pl, width);
        }
        group_times_panel(pl, t, i0, rows, pl->q0 + j, width, tile);
    }
}

static void compute_task(void *arg, int task)
{
    struct plan *pl = arg;
    const int64_t nr = pl->kernels->nr;
    float *tile = pl->private_base + task * pl->private_floats;
    float *left = tile + MATMUL_MAX_MR * MATMUL_MAX_NR;

    for (int64_t u; (u = cpu_phase_claim(&pl->phase, task)) >= 0;) {
        const int64_t i0 = u / pl->n_chunks * pl->group, rows = FT_MIN(pl->group, pl->rows - i0);
        const int64_t first = u % pl->n_chunks * pl->panels_per_unit * nr;
        const int64_t last = FT_MIN(pl->qc, first + pl->panels_per_unit * nr);
        struct micro_tile t = {.k = pl->kc, .alpha = pl->alpha};

        fetch_left(pl, i0, rows, left, &t);
        group_times_panels(pl, t, i0, rows, first, last, pl->packed + first * pl->kc, tile);
    }
}

static void set_block(struct plan *pl, int64_t k0)
{
    pl->k0 = k0;
    pl->kc = FT_MIN(pl->kb, pl->k - k0);
    pl->accumulate = pl->add || k0 > 0;
}

/* Where the copy of left rows i0.. for the current block is. */
static float *copied_left(const struct plan *pl, int64_t i0)
{
    return pl->packed + (pl->k0 - pl->span0) * pl->rows + i0 * pl->kc;
}

static void copy_left_task(void *arg, int task)
{
    const struct plan *shared = arg;
    const int64_t blocks = ceil_div(shared->span1 - shared->span0, shared->kb);
    struct plan pl = *shared;
    struct micro_tile t;

    for (int64_t u; (u = cpu_phase_claim(&pl.phase, task)) >= 0;) {
        const int64_t i0 = u / blocks * pl.group;
        set_block(&pl, pl.span0 + u % blocks * pl.kb);
        fetch_left(&pl, i0, FT_MIN(pl.group, pl.rows - i0), copied_left(&pl, i0), &t);
    }
}

static void left_group(const struct plan *pl, int64_t i0, int64_t rows, struct micro_tile *t)
{
    const bool by_rows = pl->left.vector_stride != 1;

    if (!pl->copy_left) {
        fetch_left(pl, i0, rows, NULL, t);
        return;
    }
    t->a = copied_left(pl, i0);
    t->a_rs = by_rows ? pl->kc : 1;
    t->a_cs = by_rows ? 1 : rows;
}

/* All left rows times a few panels, for one block of k. */
static void own_panels_block(const struct plan *pl, int64_t first, int64_t last, float *tile)
{
    const int64_t nr = pl->kernels->nr;
    float *tmp = tile + MATMUL_MAX_MR * MATMUL_MAX_NR, *panels = tmp + MATMUL_MAX_NR * pl->kc;

    for (int64_t j = first; j < last; j += nr) {
        const int64_t width = FT_MIN(nr, pl->qc - j);
        if (!panel_is_direct(pl, width))
            pack_panel(pl, pl->q0 + j, width, panels + (j - first) * pl->kc, tmp);
    }
    for (int64_t i0 = 0; i0 < pl->rows; i0 += pl->group) {
        const int64_t rows = FT_MIN(pl->group, pl->rows - i0);
        struct micro_tile t = {.k = pl->kc, .alpha = pl->alpha};
        left_group(pl, i0, rows, &t);
        group_times_panels(pl, t, i0, rows, first, last, panels, tile);
    }
}

static void own_panels_task(void *arg, int task)
{
    struct plan pl = *(const struct plan *)arg;
    float *tile = pl.private_base + task * pl.private_floats;

    for (int64_t u; (u = cpu_phase_claim(&pl.phase, task)) >= 0;) {
        const int64_t width = pl.panels_per_unit * pl.kernels->nr, first = u * width;
        for (int64_t k0 = pl.span0; k0 < pl.span1; k0 += pl.kb) {
            set_block(&pl, k0);
            own_panels_block(&pl, first, FT_MIN(pl.qc, first + width), tile);
        }
    }
}

/* Panels packed by the task that uses them are still in its cache when it does.
 * That needs enough panels to occupy all threads, and a left operand that need
 * not be decoded, since every task goes through all of it. */
static bool plan_own_panels(struct plan *pl, int threads)
{
    const int64_t panels = ceil_div(pl->cols, pl->kernels->nr);

    if (pl->left.weight || (pl->copy_left && pl->rows > OWN_ROWS_MAX))
        return false;
    for (int64_t per = OWN_PANELS; per > 0; per--) {
        const int64_t rounds = ceil_div(ceil_div(panels, per), threads);
        if (panels * 10 >= rounds * threads * per * 9) {
            pl->panels_per_unit = per;
            return true;
        }
    }
    return false;
}

/* Large groups reuse a panel while it is in cache; small ones balance the load.
 * Only when rows run out are the panels divided too, and never for a quantised
 * left operand, which would then be decoded more than once. */
static void plan_units(struct plan *pl, int threads)
{
    const int64_t panels = ceil_div(pl->qc, pl->kernels->nr);
    const int64_t wanted = threads > 1 ? 8 * (int64_t)threads : 1;
    int64_t tiles = GROUP_TILES;

    while (!pl->own_panels && tiles > 2 && ceil_div(pl->rows, tiles * pl->kernels->mr) < wanted)
        tiles /= 2;
    pl->group = tiles * pl->kernels->mr;
    pl->n_groups = ceil_div(pl->rows, pl->group);
    if (!pl->own_panels) {
        pl->panels_per_unit = panels;
        if (!pl->left.weight && pl->n_groups < wanted)
            pl->panels_per_unit = FT_MAX((int64_t)1, panels / ceil_div(wanted, pl->n_groups));
    }
    pl->n_chunks = ceil_div(panels, pl->panels_per_unit);
}

static void run_blocks(struct plan *pl)
{
    for (int64_t k0 = 0; k0 < pl->k; k0 += pl->kb) {
        set_block(pl, k0);
        if (!pl->direct_right || pl->qc % pl->kernels->lanes != 0)
            cpu_phase_run(&pl->phase, ceil_div(pl->qc, pl->kernels->nr), pack_task, pl);
        cpu_phase_run(&pl->phase, pl->n_groups * pl->n_chunks, compute_task, pl);
    }
}

/* One phase for all of k, unless the left operand is copied: then the copy bounds it. */
static void run_spans(struct plan *pl)
{
    const int64_t span = pl->copy_left ? COPY_BLOCKS * pl->kb : pl->k;

    for (pl->span0 = 0; pl->span0 < pl->k; pl->span0 += span) {
        pl->span1 = FT_MIN(pl->k, pl->span0 + span);
        if (pl->copy_left)
            cpu_phase_run(&pl->phase, pl->n_groups * ceil_div(pl->span1 - pl->span0, pl->kb),
                          copy_left_task, pl);
        cpu_phase_run(&pl->phase, pl->n_chunks, own_panels_task, pl);
    }
}

static void multiply_tiled(struct plan *pl, struct cpu_backend *cpu)
{
    const int64_t kb = k_block(pl->k, KC_MAX);
    int64_t qb = pl->cols;

    pl->kb = kb;
    pl->own_panels = plan_own_panels(pl, cpu->base.n_threads);
    if (!pl->own_panels)
        qb = FT_MIN((int64_t)QC_MAX, round_up(pl->cols, pl->kernels->nr));
    pl->packed = (float *)(void *)cpu->workspace;
    pl->private_floats = private_floats(kb);
    pl->private_base = pl->packed + shared_floats(pl->rows, pl->cols, pl->k, kb);
    for (pl->q0 = 0; pl->q0 < pl->cols; pl->q0 += qb) {
        pl->qc = FT_MIN(qb, pl->cols - pl->q0);
        plan_units(pl, cpu->base.n_threads);
        if (pl->own_panels)
            run_spans(pl);
        else
            run_blocks(pl);
    }
}

/* --- few rows: dot products ------------------------------------------------------------------- */

static bool is_dot_shape(const struct matmul *p)
{
    const struct matmul_operand *b = &p->b;
    const bool k_contiguous = b->weight ? b->transposed : b->row_stride == 1;
    return p->m <= MATMUL_FEW_ROWS && p->a.col_stride == 1 && k_contiguous;
}

struct dot_job {
    const struct matmul *p;
    const struct matmul_kernels *kernels;
    int64_t per_unit, units;
    float *private_base;
    int64_t private_floats;
    atomic_llong next;
};

/* Columns j.. of C, at most MATMUL_DOT_ROWS of them: all of k, block after block. */
static void dot_columns(const struct dot_job *d, int64_t j, int rows, float *buf)
{
    const struct matmul *p = d->p;
    const int m = (int)p->m;
    const int64_t kb = k_block(p->k, (int64_t)DOT_KC);
    float out[MATMUL_DOT_ROWS * MATMUL_FEW_ROWS];

    for (int64_t k0 = 0; k0 < p->k; k0 += kb) {
        const int64_t kc = FT_MIN(kb, p->k - k0);
        const float *w = buf;
        int64_t ldw = kc;
        if (p->b.weight) {
            cpu_weight_decode(p->b.weight, j, rows, k0, kc, buf, kc);
        } else {
            ldw = p->b.col_stride;
            w = p->b.data + j * ldw + k0;
        }
        d->kernels->dots(kc, w, ldw, rows, p->a.data + k0, p->a.row_stride, m, out);
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < m; i++) {
                float *c = &p->c[i * p->ldc + j + r];
                const float v = p->alpha * out[r * m + i];
                *c = p->accumulate || k0 > 0 ? *c + v : v;
            }
    }
}

static void dot_task(void *arg, int task)
{
    struct dot_job *d = arg;
    float *buf = d->private_base + task * d->private_floats;

    for (int64_t u;
         (u = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed)) < d->units;) {
        const int64_t end = FT_MIN(d->p->n, (u + 1) * d->per_unit);
        for (int64_t j = u * d->per_unit; j < end; j += MATMUL_DOT_ROWS)
            dot_columns(d, j, (int)FT_MIN((int64_t)MATMUL_DOT_ROWS, end - j), buf);
    }
}

static void multiply_dots(const struct matmul *p, const struct matmul_kernels *kernels,
                          struct cpu_backend *cpu)
{
    struct dot_job d = {.p = p, .kernels = kernels};
    d.per_unit = round_up(
        FT_MAX((int64_t)1, FT_MIN((int64_t)256, p->n / (4 * (int64_t)cpu->base.n_threads))),
        (int64_t)MATMUL_DOT_ROWS);
    d.units = ceil_div(p->n, d.per_unit);
    d.private_base = (float *)(void *)cpu->workspace;
    d.private_floats = private_floats(k_block(p->k, DOT_KC));
    atomic_init(&d.next, 0);
    pool_run(cpu->pool, (int)FT_MIN((int64_t)cpu->base.n_threads, d.units), dot_task, &d);
}

/* --- entry ------------------------------------------------------------------------------------ */

size_t matmul_fast_bytes(int n_threads)
{
    int64_t many = INT64_MAX / 2; /* beyond every limit */
    int64_t floats = shared_floats(many, many - MATMUL_MAX_NR, many, KC_MAX) +
                     n_threads * private_floats(FT_MAX(KC_MAX, DOT_KC));
    return (size_t)floats * sizeof(float);
}

void matmul_fast(struct backend *be, const struct matmul *p)
{
    struct plan pl = {
        .phase = {.cpu = cpu_of(be)}, .kernels = matmul_kernels(), .add = p->accumulate};
    if (p->m == 0 || p->n == 0)
        return;
    if (is_dot_shape(p)) {
        multiply_dots(p, pl.kernels, pl.phase.cpu);
        return;
    }
    plan_operands(&pl, p);
    multiply_tiled(&pl, pl.phase.cpu);
}

/* --- small products --------------------------------------------------------------------------- */

/* Columns [j, j + width) of the product, width a multiple of the lanes. */
static void tile_columns(const struct matmul_kernels *kernels, struct micro_tile t,
                         const struct tile *p, int64_t j, int64_t width)
{
    int vectors = (int)(width / kernels->lanes);
    int64_t mr = vectors == 1 ? kernels->mr_narrow : kernels->mr;
    for (int64_t i = 0; i < p->m; i += mr) {
        t.a = p->a + i * p->a_row;
        t.c = p->c + i * p->ldc + j;
        kernels->tile((int)FT_MIN(mr, p->m - i), vectors, &t);
    }
}

/* The last n columns, fewer than a vector: through padded copies of B and C. */
static void tile_tail(const struct matmul_kernels *kernels, struct micro_tile t,
                      const struct tile *p, int64_t j, int64_t n)
{
    float b[TILE_MAX_K * MATMUL_MAX_MR] = {0}, c[MATMUL_MAX_MR * MATMUL_MAX_MR];
    int64_t lanes = kernels->lanes;
    matmul_copy_rows(p->b + j, p->ldb, p->k, n, b, lanes);
    t.b = b;
    t.ldb = lanes;
    t.c = c;
    t.ldc = lanes;
    t.accumulate = false;
    for (int64_t i = 0; i < p->m; i += kernels->mr_narrow) {
        int64_t rows = FT_MIN((int64_t)kernels->mr_narrow, p->m - i);
        t.a = p->a + i * p->a_row;
        kernels->tile((int)rows, 1, &t);
        add_tile(p->c + i * p->ldc + j, p->ldc, c, lanes, rows, n, p->accumulate);
    }
}

void tile_fast(const struct tile *p)
{
    const struct matmul_kernels *kernels = matmul_kernels();
    int64_t lanes = kernels->lanes, whole = p->n / lanes * lanes;
    int64_t panels = ceil_div(whole, kernels->nr);
    int64_t step = panels > 0 ? round_up(ceil_div(whole, panels), lanes) : 0; /* of equal width */
    struct micro_tile t = {.k = p->k,
                           .a_rs = p->a_row,
                           .a_cs = p->a_col,
                           .ldb = p->ldb,
                           .ldc = p->ldc,
                           .alpha = p->alpha,
                           .accumulate = p->accumulate};
    for (int64_t j = 0; j < whole; j += step) {
        t.b = p->b + j;
        tile_columns(kernels, t, p, j, FT_MIN(step, whole - j));
    }
    if (whole < p->n)
        tile_tail(kernels, t, p, whole, p->n - whole);
}
