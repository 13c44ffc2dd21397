/* SPDX-License-Identifier: Apache-2.0
 * The GGUF writer against the reader. */
#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "tests/support/check.h"

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    ft_error err;
    struct gguf_writer w;
    struct gguf *g;
    str text;
    int64_t number;
    double real;
    const float a[6] = {1, 2, 3, 4, 5, 6};
    const uint16_t b[5] = {1, 2, 3, 4, 5};
    const char *path = test_path("written.gguf");
    ASSERT_OK(gguf_write_open(&w, path, &err));
    gguf_write_str(&w, "general.architecture", STR("llama"));
    gguf_write_u32(&w, "some.count", 4000000000u);
    gguf_write_f32(&w, "some.number", 0.1f);
    ASSERT_OK(gguf_write_tensor(&w, "a", DT_F32, (const int64_t[]){3, 2}, 2, &err));
    ASSERT_OK(gguf_write_tensor(&w, "b", DT_F16, (const int64_t[]){5}, 1, &err));
    ASSERT_OK(gguf_write_data(&w, a, 12, &err));
    ASSERT_OK(gguf_write_data(&w, a + 3, 12, &err));
    gguf_write_pad(&w);
    ASSERT_OK(gguf_write_data(&w, b, sizeof b, &err));
    gguf_write_pad(&w);
    ASSERT_OK(gguf_write_commit(&w, &err));

    ASSERT_OK(gguf_open(&g, path, &err));
    ASSERT_OK(gguf_need_str(&text, g, "general.architecture", &err));
    assert_true(str_is(text, "llama"));
    ASSERT_OK(gguf_need_i64(&number, g, "some.count", 0, INT64_MAX, &err));
    assert_true(number == 4000000000);
    ASSERT_OK(gguf_opt_f64(&real, g, "some.number", 0, &err));
    assert_true(real == (double)0.1f);
    assert_int_equal(gguf_tensors(g), 2);
    const struct gguf_tensor *t = gguf_find_tensor(g, STR("a"));
    assert_true(t->dtype == DT_F32 && t->n_dims == 2 && t->shape[0] == 3 && t->shape[1] == 2);
    assert_memory_equal(t->data, a, sizeof a);
    t = gguf_find_tensor(g, STR("b"));
    assert_true(t->dtype == DT_F16 && t->n_dims == 1 && t->shape[0] == 5);
    assert_memory_equal(t->data, b, sizeof b);
    gguf_close(g);
}

static void a_file_without_tensors_is_whole(void **state)
{
    (void)state;
    ft_error err;
    struct gguf_writer w;
    struct gguf *g;
    const char *path = test_path("empty.gguf");
    ASSERT_OK(gguf_write_open(&w, path, &err));
    gguf_write_str(&w, "general.type", STR("adapter"));
    ASSERT_OK(gguf_write_commit(&w, &err));
    ASSERT_OK(gguf_open(&g, path, &err));
    assert_int_equal(gguf_tensors(g), 0);
    gguf_close(g);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    ft_error err;
    struct gguf_writer w;
    const int64_t big = (int64_t)1 << 62;
    ASSERT_OK(gguf_write_open(&w, test_path("big.gguf"), &err));
    ASSERT_FAILS(gguf_write_tensor(&w, "huge", DT_F32, (const int64_t[]){big, 4}, 2, &err),
                 FT_ELIMIT, "huge");
    ASSERT_FAILS(gguf_write_tensor(&w, "huge", DT_F32, &big, 1, &err), FT_ELIMIT, "huge");
    gguf_write_abort(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(a_file_without_tensors_is_whole),
        cmocka_unit_test(sizes_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
