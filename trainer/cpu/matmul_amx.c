/* SPDX-License-Identifier: Apache-2.0
 * The matrix product on AMX: blocks of 32 by 32 results in four tiles, from operands in three bf16
 * parts (matmul_split.h).
 *
 * For a range of k the left operand is packed for all tasks; then each task packs a few panels of
 * the right one for itself and goes through all rows, while the panels stay in its cache. Sums run
 * in tiles over a block of k, block after block; the blocks depend on k alone, so threads never
 * change a bit. */
#include "trainer/cpu/matmul_split.h"

#ifdef __x86_64__
#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>

#define AMX_CODE __attribute__((target("amx-tile,amx-bf16"), noinline))

enum {
    KC_MAX = 768,    /* longest block of k */
    ROWS_MAX = 2048, /* most left rows packed at a time */
    UNIT_PANELS = 4, /* most panels a task packs at a time: 576 KiB, of an L2 cache of 2 MiB */
    SIDE = SPLIT_VECTORS,
    MIN_ROWS = 33, /* below, packing the right operand costs more than the product saves */
    MIN_COLS = 64, /* the same for the left one */
    MIN_K = 64,    /* and for storing the result */
};

struct plan {
    struct cpu_phase phase;
    const struct matmul *p;
    int64_t m0, rows;       /* left rows of this round */
    int64_t k0, k1, kb;     /* range of k of this round, length of a block of it */
    int64_t groups, panels; /* of 32 rows and columns */
    int64_t panels_per_unit;
    uint16_t *left; /* packed, block of k by block of k */
    char *private_base;
};

/* Private to a task. */
struct scratch {
    _Alignas(64) float c[SIDE][SIDE];
    _Alignas(64) float values[SPLIT_SCRATCH * KC_MAX];
    _Alignas(64) uint16_t right[UNIT_PANELS][KC_MAX / SPLIT_K * SPLIT_STEP];
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t packed_length(int64_t kc)
{
    return ceil_div(kc, SPLIT_K) * SPLIT_STEP;
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* Layout of Intel's TILECFG: all eight tiles whole. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

/* A thread holds the state of the tiles only while it works, so that a context switch elsewhere
 * does not carry it along. */
AMX_CODE static void tiles_begin(void)
{
    _tile_loadconfig(&tile_config);
}

AMX_CODE static void tiles_end(void)
{
    _tile_release();
}

#define LOAD_LEFT(part)                                                                            \
    _tile_loadd(4, a + (part)*SPLIT_PART, 64);                                                     \
    _tile_loadd(5, a + (part)*SPLIT_PART + SPLIT_TILE, 64)
#define LOAD_RIGHT(part)                                                                           \
    _tile_loadd(6, b + (part)*SPLIT_PART, 64);                                                     \
    _tile_loadd(7, b + (part)*SPLIT_PART + SPLIT_TILE, 64)
#define MULTIPLY                                                                                   \
    _tile_dpbf16ps(0, 4, 6);                                                                       \
    _tile_dpbf16ps(1, 4, 7);                                                                       \
    _tile_dpbf16ps(2, 5, 6);                                                                       \
    _tile_dpbf16ps(3, 5, 7)

/* c = left * right over `steps`. The six products go from one to the next by changing one side. */
AMX_CODE static void block_product(float c[SIDE][SIDE], const uint16_t *a, const uint16_t *b,
                                   int64_t steps)
{
    atomic_signal_fence(memory_order_seq_cst); /* tile loads do not say what they read */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t s = 0; s < steps; s++, a += SPLIT_STEP, b += SPLIT_STEP) {
        LOAD_LEFT(0);
        LOAD_RIGHT(2);
        MULTIPLY;
        LOAD_RIGHT(1);
        MULTIPLY;
        LOAD_LEFT(1);
        MULTIPLY;
        LOAD_RIGHT(0);
        MULTIPLY;
        LOAD_LEFT(2);
        MULTIPLY;
        LOAD_LEFT(0);
        MULTIPLY;
    }
    _tile_stored(0, c[0], sizeof c[0]);
    _tile_stored(1, &c[0][16], sizeof c[0]);
    _tile_stored(2, c[16], sizeof c[0]);
    _tile_stored(3, &c[16][16], sizeof c[0]);
    atomic_signal_fence(memory_order_seq_cst);
}

/* --- result ----------------------------------------------------------------------------------- */

CPU_AVX512_CODE static void store_block(float *c, int64_t ldc, const float block[SIDE][SIDE],
                                        int64_t rows, int64_t cols, float alpha, bool add)
{
    const __m512 factor = _mm512_set1_ps(alpha);
    for (int64_t h = 0; h < cols; h += 16) {
        const __mmask16 live = (__mmask16)(cols - h >= 16 ? 0xFFFF : (1 << (cols - h)) - 1);
        for (int64_t i = 0; i < rows; i++) {
            float *at = c + i * ldc + h;
            __m512 v = _mm512_mul_ps(factor, _mm512_load_ps(&block[i][h]));
            if (add)
                v = _mm512_add_ps(_mm512_maskz_loadu_ps(live, at), v);
            _mm512_mask_storeu_ps(at, live, v);
        }
    }
}

/* The lines of c are on their way while the block is computed. */
static void prefetch_block(const float *c, int64_t ldc, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        __builtin_prefetch(c + i * ldc, 1);
        __builtin_prefetch(c + i * ldc + 16, 1);
    }
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* The packed left rows of a group for the block of k at k0. */
static uint16_t *left_panel(const struct plan *pl, int64_t k0, int64_t group)
{
    int64_t kc = FT_MIN(pl->kb, pl->k1 - k0);
    return pl->left + (k0 - pl->k0) / SPLIT_K * SPLIT_STEP * pl->groups + group * packed_length(kc);
}

static struct scratch *scratch_of(const struct plan *pl, int task)
{
    return (struct scratch *)(void *)(pl->private_base + (size_t)task * sizeof(struct scratch));
}

/* Unit = (block of k, group of left rows). */
static void pack_left_task(void *arg, int task)
{
    const struct plan *pl = arg;
    float *scratch = scratch_of(pl, task)->values;
    for (int64_t u; (u = cpu_phase_claim(&pl->phase, task)) >= 0;) {
        int64_t group = u % pl->groups, i = group * SIDE;
        int64_t k0 = pl->k0 + u / pl->groups * pl->kb;
        split_left(left_panel(pl, k0, group), &pl->p->a, pl->m0 + i, FT_MIN(SIDE, pl->rows - i), k0,
                   FT_MIN(pl->kb, pl->k1 - k0), scratch);
    }
}

/* All left rows times the panels [first, last) for the block of k at k0. */
static void multiply_panels(const struct plan *pl, int64_t first, int64_t last, int64_t k0,
                            struct scratch *s)
{
    const struct matmul *p = pl->p;
    int64_t kc = FT_MIN(pl->kb, pl->k1 - k0);
    bool add = p->accumulate || k0 > 0;
    for (int64_t q = first; q < last; q++)
        split_right(s->right[q - first], &p->b, q * SIDE, FT_MIN(SIDE, p->n - q * SIDE), k0, kc,
                    s->values);
    for (int64_t group = 0; group < pl->groups; group++)
        for (int64_t q = first; q < last; q++) {
            int64_t i = group * SIDE, j = q * SIDE, rows = FT_MIN(SIDE, pl->rows - i);
            float *c = p->c + (pl->m0 + i) * p->ldc + j;
            prefetch_block(c, p->ldc, rows);
            block_product(s->c, left_panel(pl, k0, group), s->right[q - first],
                          ceil_div(kc, SPLIT_K));
            store_block(c, p->ldc, s->c, rows, FT_MIN(SIDE, p->n - j), p->alpha, add);
        }
}

/* Unit = a few panels of the right operand. */
static void multiply_task(void *arg, int task)
{
    const struct plan *pl = arg;
    struct scratch *s = scratch_of(pl, task);
    tiles_begin();
    for (int64_t u; (u = cpu_phase_claim(&pl->phase, task)) >= 0;) {
        int64_t first = u * pl->panels_per_unit;
        int64_t last = FT_MIN(pl->panels, first + pl->panels_per_unit);
        for (int64_t k0 = pl->k0; k0 < pl->k1; k0 += pl->kb)
            multiply_panels(pl, first, last, k0, s);
    }
    tiles_end();
}

/* --- planning --------------------------------------------------------------------------------- */

/* As many panels to a unit as leave all threads busy to the end. */
static int64_t choose_panels_per_unit(int64_t panels, int64_t threads)
{
    int64_t best = 1, best_rounds = ceil_div(panels, threads);
    for (int64_t per = 2; per <= UNIT_PANELS; per++) {
        int64_t rounds = ceil_div(ceil_div(panels, per), threads) * per;
        if (rounds <= best_rounds) {
            best = per;
            best_rounds = rounds;
        }
    }
    return best;
}

enum { LEFT_LENGTH = ROWS_MAX / SIDE * (KC_MAX / SPLIT_K) * SPLIT_STEP };

size_t matmul_amx_bytes(int n_threads)
{
    return LEFT_LENGTH * sizeof(uint16_t) + (size_t)n_threads * sizeof(struct scratch);
}

bool matmul_amx_fits(const struct matmul *p)
{
    return cpu_tier() >= CPU_AMX && p->m >= MIN_ROWS && p->n >= MIN_COLS && p->k >= MIN_K &&
           split_fits(&p->a) && split_fits(&p->b);
}

void matmul_amx(struct backend *be, const struct matmul *p)
{
    struct plan pl = {.phase = {.cpu = cpu_of(be)}, .p = p};
    /* Blocks of equal length, in whole NF4 blocks. */
    int64_t k_blocks = ceil_div(p->k, KC_MAX);
    pl.kb = ceil_div(ceil_div(p->k, k_blocks), NF4_BLOCK) * NF4_BLOCK;
    pl.panels = ceil_div(p->n, SIDE);
    pl.panels_per_unit = choose_panels_per_unit(pl.panels, be->n_threads);
    pl.left = (uint16_t *)(void *)pl.phase.cpu->workspace;
    pl.private_base = pl.phase.cpu->workspace + LEFT_LENGTH * sizeof(uint16_t);
    for (pl.m0 = 0; pl.m0 < p->m; pl.m0 += ROWS_MAX) {
        pl.rows = FT_MIN((int64_t)ROWS_MAX, p->m - pl.m0);
        pl.groups = ceil_div(pl.rows, SIDE);
        int64_t span = FT_MAX(LEFT_LENGTH / (pl.groups * packed_length(pl.kb)), (int64_t)1) * pl.kb;
        for (pl.k0 = 0; pl.k0 < p->k; pl.k0 = pl.k1) {
            pl.k1 = FT_MIN(p->k, pl.k0 + span);
            cpu_phase_run(&pl.phase, pl.groups * ceil_div(pl.k1 - pl.k0, pl.kb), pack_left_task,
                          &pl);
            cpu_phase_run(&pl.phase, ceil_div(pl.panels, pl.panels_per_unit), multiply_task, &pl);
        }
    }
}
#else
size_t matmul_amx_bytes(int n_threads)
{
    (void)n_threads;
    return 0;
}

bool matmul_amx_fits(const struct matmul *p)
{
    (void)p;
    return false;
}

void matmul_amx(struct backend *be, const struct matmul *p)
{
    (void)be;
    (void)p;
}
#endif
