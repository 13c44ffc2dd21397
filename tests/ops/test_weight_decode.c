/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/numeric.h"
#include "trainer/cpu/cpu.h"

static void check_tiles(enum dtype type, int64_t rows, int64_t cols)
{
    struct weight w = random_weight(type, rows, cols, 7);
    float *values = weight_values(&w), *tile = zeros_f32((rows + 1) * (cols + 3));
    int64_t step = FT_MAX(cols / 7, (int64_t)1), ld = cols + 3;
    for (int64_t col0 = 0; col0 < cols; col0 += step)
        for (int64_t n_cols = 1; col0 + n_cols <= cols; n_cols += step) {
            int64_t row0 = col0 % rows, n_rows = rows - row0;
            for (int64_t i = 0; i < n_rows * ld; i++)
                tile[i] = 12345;
            cpu_weight_decode(&w, row0, n_rows, col0, n_cols, tile, ld);
            for (int64_t r = 0; r < n_rows; r++) {
                assert_memory_equal(tile + r * ld, values + (row0 + r) * cols + col0,
                                    (size_t)n_cols * sizeof *tile);
                assert_true(tile[r * ld + n_cols] == 12345); /* nothing beyond the tile */
            }
        }
}

static void every_tile_equals_the_definition_to_the_bit(void **state)
{
    (void)state;
    for (int tier = 0; tier < CPU_TIERS; tier++) {
        cpu_tier_limit((enum cpu_tier)tier);
        for (int type = 0; type < DT_NF4; type++)
            check_tiles((enum dtype)type, 3, 2 * dtype_block((enum dtype)type));
        check_tiles(DT_F16, 5, 37);
        check_tiles(DT_NF4, 3, 256);
        check_tiles(DT_NF4, 5, 72); /* blocks cross rows */
        check_tiles(DT_NF4, 7, 33); /* rows begin inside a byte; the last block is short */
        check_tiles(DT_NF4, 1, 1);
    }
    cpu_tier_limit(CPU_TIERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_equals_the_definition_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
