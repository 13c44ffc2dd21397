/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/nf4.h"

#include <math.h>
#include <stdlib.h>

#include "common/cpu.h"
#include "common/file.h"
#include "common/half.h"
#include "common/rng.h"
#include "tests/support/check.h"

/* A golden file, its parts in order; see tests/golden/nf4/README.md. */
struct golden {
    struct arena arena;
    int64_t rows, cols, n, n_blocks, n_blocks2;
    const float *x, *absmax, *absmax2, *decoded;
    const uint8_t *codes, *absmax_q;
    float offset;
};

static const char *take(str *rest, size_t bytes)
{
    assert_true(rest->len >= bytes);
    const char *p = rest->ptr;
    *rest = str_sub(*rest, bytes, rest->len);
    return p;
}

/* Floats in the file follow odd numbers of bytes: copied to where they are aligned. */
static const float *take_floats(struct golden *g, str *rest, int64_t n)
{
    float *p = arena_alloc(&g->arena, (size_t)n, sizeof *p);
    assert_non_null(p);
    memcpy(p, take(rest, (size_t)n * 4), (size_t)n * 4);
    return p;
}

static void load(struct golden *g, const char *name)
{
    char path[96];
    ft_error err;
    str rest;
    *g = (struct golden){0};
    snprintf(path, sizeof path, "tests/golden/nf4/%s.bin", name);
    ASSERT_OK(file_read_all(&rest, &g->arena, path, 1 << 20, &err));
    g->rows = (int64_t)load_u64le(take(&rest, 8));
    g->cols = (int64_t)load_u64le(take(&rest, 8));
    g->n = g->rows * g->cols;
    g->n_blocks = nf4_blocks(g->n);
    g->n_blocks2 = nf4_blocks2(g->n);
    g->x = take_floats(g, &rest, g->n);
    g->codes = (const uint8_t *)take(&rest, (size_t)(g->n + 1) / 2);
    g->absmax = take_floats(g, &rest, g->n_blocks);
    g->absmax_q = (const uint8_t *)take(&rest, (size_t)g->n_blocks);
    g->absmax2 = take_floats(g, &rest, g->n_blocks2);
    g->offset = *take_floats(g, &rest, 1);
    g->decoded = take_floats(g, &rest, g->n);
    assert_int_equal(rest.len, 0);
}

static const float *canonical_map(void)
{
    static float map[NF4_MAP];
    memcpy(map, nf4_map_bits, sizeof map);
    return map;
}

static void check_first_level(const struct golden *g)
{
    uint8_t *codes = malloc((size_t)(g->n + 1) / 2);
    float *absmax = malloc((size_t)g->n_blocks * sizeof *absmax);
    int64_t zeros = 0;
    for (int64_t b = 0; b < g->n_blocks; b++)
        zeros += g->absmax[b] == 0;
    for (int tier = 0; tier < CPU_TIERS; tier++) {
        cpu_tier_limit((enum cpu_tier)tier);
        assert_int_equal(nf4_quantize(codes, absmax, g->x, g->n), zeros);
        assert_memory_equal(codes, g->codes, (size_t)(g->n + 1) / 2);
        assert_memory_equal(absmax, g->absmax, (size_t)g->n_blocks * sizeof *absmax);
    }
    cpu_tier_limit(CPU_TIERS);
    free(codes);
    free(absmax);
}

static void check_second_level(const struct golden *g)
{
    uint8_t *q = malloc((size_t)g->n_blocks);
    float *absmax2 = malloc((size_t)g->n_blocks2 * sizeof *absmax2), offset;
    nf4_quantize_absmax(q, absmax2, &offset, g->absmax, g->n_blocks);
    assert_memory_equal(q, g->absmax_q, (size_t)g->n_blocks);
    assert_memory_equal(absmax2, g->absmax2, (size_t)g->n_blocks2 * sizeof *absmax2);
    assert_int_equal(f32_to_bits(offset), f32_to_bits(g->offset));
    free(q);
    free(absmax2);
}

static void check_decoding(const struct golden *g)
{
    struct nf4_matrix m = {g->rows,    g->cols,         g->codes, g->absmax_q,
                           g->absmax2, canonical_map(), g->offset};
    float *w = malloc((size_t)g->n * sizeof *w);
    nf4_decode(&m, 0, g->n, w);
    assert_memory_equal(w, g->decoded, (size_t)g->n * sizeof *w);
    for (int64_t from = 0; from < FT_MIN(g->n, (int64_t)130); from += 7) {
        int64_t to = FT_MIN(from + 71, g->n);
        nf4_decode(&m, from, to, w);
        assert_memory_equal(w, g->decoded + from, (size_t)(to - from) * sizeof *w);
    }
    free(w);
}

static void goldens_are_reproduced_bit_for_bit(void **state)
{
    static const char *const names[] = {
        "gaussian",        "crossing-rows", "zero-block",  "short-block",
        "odd-short-block", "thresholds",    "many-blocks", "tiny"};
    struct golden g;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        load(&g, names[i]);
        check_first_level(&g);
        check_second_level(&g);
        check_decoding(&g);
        arena_destroy(&g.arena);
    }
}

static void the_map_is_the_canonical_one(void **state)
{
    static const char digest[] = "e732639a65f497b4ad684bb166a4467708255edd5207757de8b8f0c7e1fda89c";
    char command[1200], line[128] = "";
    ft_error err;
    (void)state;
    const char *path = test_path("nf4-map.bin");
    ASSERT_OK(file_publish(path, nf4_map_bits, sizeof nf4_map_bits, &err));
    snprintf(command, sizeof command, "sha256sum '%s'", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(pclose(f), 0);
    assert_int_equal(strncmp(line, digest, sizeof digest - 1), 0);
    for (int i = 1; i < NF4_MAP; i++)
        assert_true(canonical_map()[i - 1] < canonical_map()[i]);
}

/* Blocks that mix random values with the neighbourhood of every threshold, scaled by powers of two
 * so that the products stay on the thresholds. */
static void fill_near_thresholds(float *x, int64_t n, uint64_t key)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)rng_u64(key, 0, (uint64_t)i);
        float scale = ldexpf(1, (int)(i / NF4_BLOCK % 60) - 30);
        uint32_t near = nf4_thresholds[u % (NF4_CODES - 1)] + (u >> 8) % 5 - 2;
        float v = (u >> 16) % 3 == 0 ? (float)(int32_t)u * 0x1p-31f : bits_to_f32(near);
        x[i] = i % NF4_BLOCK == (int64_t)(u >> 20) % NF4_BLOCK ? scale : v * scale;
    }
}

static void all_tiers_give_the_same_bits(void **state)
{
    enum { N = 64 * 512 + 37 };
    static float x[N], absmax[CPU_TIERS][N / 64 + 1];
    static uint8_t codes[CPU_TIERS][N / 2 + 1];
    (void)state;
    for (int round = 0; round < 20; round++) {
        fill_near_thresholds(x, N, (uint64_t)round);
        x[64 * round + 3] = round % 2 == 0 ? INFINITY : NAN;
        for (int i = 0; i < 64; i++)
            x[64 * 30 + i] = round % 2 == 0 ? 0.0f : -0.0f;
        for (int tier = 0; tier < CPU_TIERS; tier++) {
            cpu_tier_limit((enum cpu_tier)tier);
            nf4_quantize(codes[tier], absmax[tier], x, N);
            assert_memory_equal(codes[tier], codes[0], sizeof codes[0]);
            assert_memory_equal(absmax[tier], absmax[0], sizeof absmax[0]);
        }
        assert_false(isfinite(absmax[0][round]));
        assert_true(absmax[0][30] == 0);
    }
    cpu_tier_limit(CPU_TIERS);
}

static void a_zero_block_is_code_0_and_counted(void **state)
{
    float x[128] = {[64] = 1}, absmax[2];
    uint8_t codes[64];
    (void)state;
    assert_int_equal(nf4_quantize(codes, absmax, x, 128), 1);
    for (int i = 0; i < 32; i++)
        assert_int_equal(codes[i], 0);
    assert_int_equal(codes[32], 0xF7);
    assert_true(absmax[0] == 0 && absmax[1] == 1);
}

static void ranges_that_start_at_block_borders_join_up(void **state)
{
    static float x[640], absmax[10], parts_absmax[10];
    static uint8_t codes[320], parts[320];
    (void)state;
    fill_near_thresholds(x, 640, 99);
    nf4_quantize(codes, absmax, x, 640);
    nf4_quantize(parts, parts_absmax, x, 192);
    nf4_quantize(parts + 96, parts_absmax + 3, x + 192, 448);
    assert_memory_equal(parts, codes, sizeof codes);
    assert_memory_equal(parts_absmax, absmax, sizeof absmax);
}

static void equal_maxima_decode_to_themselves(void **state)
{
    float absmax[300], absmax2[2], offset;
    uint8_t q[300], codes[1] = {0xF0};
    (void)state;
    for (int i = 0; i < 300; i++)
        absmax[i] = 0.25f;
    nf4_quantize_absmax(q, absmax2, &offset, absmax, 300);
    struct nf4_matrix m = {1, 2, codes, q, absmax2, canonical_map(), offset};
    assert_true(nf4_scale(&m, 0) == 0.25f);
    assert_true(nf4_scale(&m, 299) == 0.25f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_are_reproduced_bit_for_bit),
        cmocka_unit_test(the_map_is_the_canonical_one),
        cmocka_unit_test(all_tiers_give_the_same_bits),
        cmocka_unit_test(a_zero_block_is_code_0_and_counted),
        cmocka_unit_test(ranges_that_start_at_block_borders_join_up),
        cmocka_unit_test(equal_maxima_decode_to_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
