/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>

#include "common/cpu.h"
#include "common/half.h"
#include "common/rng.h"
#include "tests/support/numeric.h"
#include "trainer/cpu/matmul.h"

struct product {
    int64_t m, n, k;
    bool accumulate;
    int layout_a, layout_b; /* 0 rows, 1 transposed; b also 2 weight, 3 weight transposed */
    enum dtype stored;      /* of a weight; 0 = NF4 */
    float *a, *b, *c;
    struct weight w;
};

static struct matmul_operand operand(int layout, const float *data, int64_t rows, int64_t cols,
                                     const struct weight *w)
{
    if (layout >= 2)
        return matmul_weight(w, layout == 3);
    return layout == 1 ? matmul_transposed(data, rows) : matmul_rows(data, cols);
}

static void run(struct backend *be, const void *ctx, float *out)
{
    const struct product *p = ctx;
    struct matmul product = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .alpha = 0.5f,
        .accumulate = p->accumulate,
        .a = operand(p->layout_a, p->a, p->m, p->k, NULL),
        .b = operand(p->layout_b, p->b, p->k, p->n, &p->w),
        .c = out,
        .ldc = p->n,
    };
    for (int64_t i = 0; i < p->m * p->n; i++)
        out[i] = p->accumulate ? p->c[i] : NAN;
    cpu_matmul(be, &product);
}

static double element(int layout, const float *data, int64_t r, int64_t c, int64_t rows,
                      int64_t cols)
{
    return (double)(layout % 2 == 1 ? data[c * rows + r] : data[r * cols + c]);
}

static void check_product(struct product p)
{
    p.a = random_f32(p.m * p.k, 1, 1);
    p.b = random_f32(p.k * p.n, 2, 1);
    p.c = random_f32(p.m * p.n, 3, 1);
    if (p.layout_b >= 2) {
        enum dtype stored = p.stored == 0 ? DT_NF4 : p.stored;
        p.w = p.layout_b == 3 ? random_weight(stored, p.n, p.k, 4)
                              : random_weight(stored, p.k, p.n, 4);
        p.b = weight_values(&p.w);
    }
    double *expected = zeros_f64(p.m * p.n);
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < p.k; q++)
                sum += element(p.layout_a, p.a, i, q, p.m, p.k) *
                       element(p.layout_b, p.b, q, j, p.k, p.n);
            expected[i * p.n + j] = 0.5 * sum + (p.accumulate ? (double)p.c[i * p.n + j] : 0);
        }
    const struct expected part = {"c", p.m * p.n, expected, 1e-6};
    check_op(run, &p, &part, 1, false);
}

static void all_layouts_and_awkward_shapes_match_double(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},     {1, 65, 130}, {2, 3, 5},     {5, 48, 16},
                                        {7, 100, 1},   {64, 64, 64}, {65, 63, 129}, {33, 16, 300},
                                        {16, 130, 70}, {33, 64, 64}, {90, 200, 65}, {40, 96, 832}};
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++)
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 4; b++)
                for (int accumulate = 0; accumulate < 2; accumulate++)
                    check_product((struct product){.m = shapes[s][0],
                                                   .n = shapes[s][1],
                                                   .k = shapes[s][2],
                                                   .layout_a = a,
                                                   .layout_b = b,
                                                   .accumulate = accumulate != 0});
}

static void long_sums_stay_accurate(void **state)
{
    (void)state;
    check_product((struct product){.m = 5, .n = 24, .k = 49152, .layout_b = 0});
    check_product((struct product){.m = 24, .n = 6, .k = 14336, .layout_b = 3});
    check_product((struct product){.m = 33, .n = 64, .k = 6000, .layout_b = 0});
}

/* Large enough for tiles, with panels and steps that are not whole where the type allows it. */
static void every_stored_type_is_decoded_into_large_products(void **state)
{
    static const enum dtype stored[] = {DT_NF4, DT_Q8_0, DT_F16};
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(stored); t++)
        for (int layout = 2; layout < 4; layout++) {
            struct product p = {
                .m = 70, .n = 128, .k = 192, .layout_b = layout, .stored = stored[t]};
            check_product(p);
            (layout == 3 ? &p.n : &p.k)[0] += 13; /* rows */
            check_product(p);
        }
}

/* --- values that are hard for bf16 parts ------------------------------------------------------ */

enum { HARD_M = 48, HARD_N = 96, HARD_K = 160 };

static void hard_product(struct backend *be, float *c, const float *a, const float *b)
{
    struct matmul p = {.m = HARD_M,
                       .n = HARD_N,
                       .k = HARD_K,
                       .alpha = 1,
                       .a = matmul_rows(a, HARD_K),
                       .b = matmul_rows(b, HARD_N),
                       .c = c,
                       .ldc = HARD_N};
    cpu_matmul(be, &p);
    sync_ok(be);
}

/* The error of every element is small against the sum of its terms' magnitudes. */
static void check_elements(const float *c, const float *a, const float *b)
{
    for (int64_t i = 0; i < HARD_M; i++)
        for (int64_t j = 0; j < HARD_N; j++) {
            double sum = 0, size = 0;
            for (int64_t q = 0; q < HARD_K; q++) {
                double term = (double)a[i * HARD_K + q] * (double)b[q * HARD_N + j];
                sum += term;
                size += fabs(term);
            }
            double error = fabs((double)c[i * HARD_N + j] - sum);
            if (!(error <= 1e-6 * size + 1e-36))
                fail_msg("element %d, %d: error %.3g of %.3g", (int)i, (int)j, error, size);
        }
}

/* Powers of two from -50 to 50 on the left, so that parts of one number are as large as others. */
static void spread_exponents(float *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] = ldexpf(a[i], (int)(rng_u64(9, 0, (uint64_t)i) % 101) - 50);
}

static void amx_is_exact_to_fp32_for_every_finite_value(void **state)
{
    (void)state;
    if (cpu_tier() < CPU_AMX) {
        print_message("skipped: this machine has no AMX, or the system does not allow it\n");
        skip();
    }
    struct backend *be = open_cpu(2, MATMUL_FAST);
    float *a = random_f32((int64_t)HARD_M * HARD_K, 1, 1), *c = zeros_f32((int64_t)HARD_M * HARD_N);
    float *b = random_f32((int64_t)HARD_K * HARD_N, 2, 1);
    spread_exponents(a, (int64_t)HARD_M * HARD_K);
    hard_product(be, c, a, b);
    check_elements(c, a, b);
    /* The largest number would round up to infinity in bf16. */
    for (int64_t q = 0; q < HARD_K; q++)
        a[q] = q % 2 == 0 ? FLT_MAX : -FLT_MAX;
    for (int64_t q = 0; q < (int64_t)HARD_K * HARD_N; q++)
        b[q] *= 0x1p-20f;
    hard_product(be, c, a, b);
    check_elements(c, a, b);
    backend_close(be);
}

static void infinity_and_nan_spoil_their_row_only_in_every_tier(void **state)
{
    (void)state;
    for (int tier = 0; tier < CPU_TIERS; tier++) {
        cpu_tier_limit((enum cpu_tier)tier);
        struct backend *be = open_cpu(1, MATMUL_FAST);
        float *a = random_f32((int64_t)HARD_M * HARD_K, 1, 1);
        float *b = random_f32((int64_t)HARD_K * HARD_N, 2, 1);
        float *c = zeros_f32((int64_t)HARD_M * HARD_N);
        a[3 * HARD_K + 7] = INFINITY;
        a[40 * HARD_K + 150] = bits_to_f32(0x7F800001); /* a NaN whose upper half is infinity */
        hard_product(be, c, a, b);
        for (int64_t i = 0; i < (int64_t)HARD_M * HARD_N; i++) {
            bool spoilt = i / HARD_N == 3 || i / HARD_N == 40;
            assert_true(spoilt == !isfinite(c[i]));
        }
        backend_close(be);
    }
    cpu_tier_limit(CPU_TIERS);
}

struct tile_case {
    float *a, *b, *c;
    int64_t m, n, k;
};

static void run_tile(struct backend *be, const void *ctx, float *out)
{
    const struct tile_case *p = ctx;
    memcpy(out, p->c, (size_t)(p->m * p->n) * sizeof *out);
    struct tile by_rows = {.m = p->m,
                           .n = p->n,
                           .k = p->k,
                           .alpha = 2,
                           .accumulate = true,
                           .a = p->a,
                           .a_row = p->k,
                           .a_col = 1,
                           .b = p->b,
                           .ldb = p->n,
                           .c = out,
                           .ldc = p->n};
    cpu_tile(be, &by_rows);
    struct tile by_columns = by_rows; /* the same numbers read with the other strides */
    by_columns.accumulate = false;
    by_columns.a_row = 1;
    by_columns.a_col = p->m;
    by_columns.c = out + p->m * p->n;
    cpu_tile(be, &by_columns);
}

static void tiles_match_double(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},   {64, 64, 64}, {13, 80, 9},  {5, 8, 64},
                                        {64, 20, 3}, {3, 256, 17}, {17, 100, 33}};
    for (size_t s = 0; s < ARRAY_LEN(shapes); s++) {
        struct tile_case p = {.m = shapes[s][0], .n = shapes[s][1], .k = shapes[s][2]};
        int64_t n = p.m * p.n;
        p.a = random_f32(p.m * p.k, 1, 1);
        p.b = random_f32(p.k * p.n, 2, 1);
        p.c = random_f32(n, 3, 1);
        double *expected = zeros_f64(2 * n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t q = 0; q < p.k; q++) {
                double b = (double)p.b[q * p.n + i % p.n];
                expected[i] += 2 * (double)p.a[i / p.n * p.k + q] * b;
                expected[n + i] += 2 * (double)p.a[q * p.m + i / p.n] * b;
            }
        for (int64_t i = 0; i < n; i++)
            expected[i] += (double)p.c[i];
        const struct expected parts[] = {{"rows", n, expected, 1e-6},
                                         {"columns", n, expected + n, 1e-6}};
        check_op(run_tile, &p, parts, ARRAY_LEN(parts), false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts_and_awkward_shapes_match_double),
        cmocka_unit_test(long_sums_stay_accurate),
        cmocka_unit_test(every_stored_type_is_decoded_into_large_products),
        cmocka_unit_test(amx_is_exact_to_fp32_for_every_finite_value),
        cmocka_unit_test(infinity_and_nan_spoil_their_row_only_in_every_tier),
        cmocka_unit_test(tiles_match_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
