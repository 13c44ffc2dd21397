/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/numeric.h"

static void embedding_rows_are_decoded_from_every_stored_type(void **state)
{
    (void)state;
    static const int32_t tokens[] = {3, 0, 3, 4};
    for (int type = 0; type < DTYPES; type++) {
        int64_t cols = 2 * dtype_block((enum dtype)type);
        struct weight w = random_weight((enum dtype)type, 5, cols, 1);
        float *values = weight_values(&w), *x = zeros_f32(4 * cols);
        struct backend *be = open_cpu(2, MATMUL_FAST);
        op_embed_fwd(be, tensor_f32("x", x, 4, cols), &w, tokens);
        sync_ok(be);
        backend_close(be);
        for (int64_t t = 0; t < 4; t++)
            assert_memory_equal(x + t * cols, values + tokens[t] * cols, (size_t)cols * sizeof *x);
    }
}

static void a_token_outside_the_vocabulary_is_latched(void **state)
{
    (void)state;
    static const int32_t beyond[] = {0, 5}, negative[] = {-1, 0};
    float x[8];
    struct weight w = random_weight(DT_F32, 5, 4, 1);
    struct backend *be = open_cpu(1, MATMUL_FAST);
    op_embed_fwd(be, tensor_f32("x", x, 2, 4), &w, beyond);
    sync_fails(be, "embed_fwd: row 1: index 5 is outside [0, 5)");
    op_embed_fwd(be, tensor_f32("x", x, 2, 4), &w, negative);
    sync_fails(be, "embed_fwd: row 0: index -1 is outside [0, 5)");
    backend_close(be);
}

enum { ROWS = 700, COLS = 130 };

/* gather; scatter of the gathered rows onto x; sum; scaled; zeroed */
static void run(struct backend *be, const void *ctx, float *out)
{
    float *x_data = random_f32(ROWS * COLS, 1, 1), *copy = zeros_f32(ROWS * COLS);
    const int32_t *index = ctx;
    struct tensor x = tensor_f32("x", x_data, ROWS, COLS), y = tensor_f32("y", out, ROWS, COLS);
    struct tensor sum = tensor_f32("sum", out + ROWS * COLS, ROWS, COLS);
    struct tensor zeroed = tensor_f32("zeroed", out + 2 * ROWS * COLS, ROWS, COLS);
    struct tensor scaled = tensor_f32("copy", copy, ROWS, COLS);
    op_gather_rows(be, y, x, index);
    op_copy(be, sum, x);
    op_scatter_add_rows(be, sum, y, index); /* x + x */
    op_copy(be, scaled, x);
    op_scale(be, scaled, 3);
    op_add(be, sum, scaled); /* 5 x */
    op_copy(be, zeroed, x);
    op_zero(be, zeroed);
}

static void moving_and_adding_rows(void **state)
{
    (void)state;
    int32_t index[ROWS];
    float *x = random_f32(ROWS * COLS, 1, 1);
    double *expected = zeros_f64(3 * ROWS * COLS);
    for (int32_t i = 0; i < ROWS; i++)
        index[i] = (i * 37 + 5) % ROWS; /* a permutation */
    for (int64_t i = 0; i < ROWS * COLS; i++) {
        expected[i] = (double)x[(int64_t)index[i / COLS] * COLS + i % COLS];
        expected[ROWS * COLS + i] = 5 * (double)x[i];
    }
    const struct expected parts[] = {{"gathered", ROWS * COLS, expected, 0},
                                     {"sum", ROWS * COLS, expected + ROWS * COLS, 1e-7},
                                     {"zeroed", ROWS * COLS, expected + 2 * ROWS * COLS, 0}};
    check_op(run, index, parts, ARRAY_LEN(parts), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_rows_are_decoded_from_every_stored_type),
        cmocka_unit_test(a_token_outside_the_vocabulary_is_latched),
        cmocka_unit_test(moving_and_adding_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
