/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/checkpoint.h"

#include <unistd.h>

#include "common/buf.h"
#include "common/file.h"
#include "tests/support/check.h"

static const float first[5] = {1, -2, 3.5f, 0, 1e-30f}, second[5] = {0, 1, 2, 3, 4};

static struct checkpoint_state sample_state(int64_t step)
{
    return (struct checkpoint_state){
        .step = step,
        .updates = step - 1,
        .tokens = 1000,
        .trained_tokens = 400,
        .seconds = 12.345678901234567,
        .eval_step = step,
        .first_eval_loss = 3,
        .eval_loss = 1.1,
        .best_step = 2,
        .best_eval_loss = 0.1 + 0.2,
        .train_loss = 1.5,
        .sample_step = -1,
        .n_params = 5,
        .base = {1, 2},
        .data = {UINT64_MAX, 3},
    };
}

static const char *fresh_parent(const char *name)
{
    ft_error err;
    ASSERT_OK(dir_remove(test_path(name), &err));
    ASSERT_OK(dir_create(test_path(name), &err));
    return test_path(name);
}

static void save(const char *parent, int64_t step)
{
    struct arena a = {0};
    struct checkpoint_state s = sample_state(step);
    const char *dir;
    ft_error err;
    ASSERT_OK(checkpoint_begin(&dir, &a, parent, step, &err));
    ASSERT_OK(checkpoint_write_moments(dir, first, second, 5, &err));
    ASSERT_OK(checkpoint_write_state(dir, &s, &err));
    ASSERT_OK(checkpoint_commit(parent, step, &err));
    arena_destroy(&a);
}

static void what_is_saved_comes_back(void **state)
{
    struct arena a = {0};
    struct checkpoint_state s, want = sample_state(7);
    float m[5], v[5];
    ft_error err;
    const char *parent = fresh_parent("ckpt-round");
    (void)state;
    save(parent, 7);
    const char *dir = checkpoint_path(&a, parent, 7);
    ASSERT_OK(checkpoint_verify(dir, &err));
    ASSERT_OK(checkpoint_read_state(&s, dir, &err));
    assert_int_equal(s.step, 7);
    assert_int_equal(s.updates, 6);
    assert_int_equal(s.sample_step, -1);
    assert_true(s.seconds == want.seconds && s.best_eval_loss == want.best_eval_loss);
    assert_true(hash128_eq(s.base, want.base) && hash128_eq(s.data, want.data));
    ASSERT_OK(checkpoint_read_moments(m, v, 5, dir, &err));
    assert_memory_equal(m, first, sizeof m);
    assert_memory_equal(v, second, sizeof v);
    ASSERT_FAILS(checkpoint_read_moments(m, v, 4, dir, &err), FT_EFORMAT, "the adapter has 4");
    arena_destroy(&a);
}

static void steps_are_listed_in_numeric_order_and_other_names_ignored(void **state)
{
    static const char *const others[] = {"step_",
                                         "step_x",
                                         "step_01",
                                         "step_-3",
                                         "step_3a",
                                         "step_5.tmp",
                                         "step_99999999999999999999"};
    struct arena a = {0};
    int64_t *steps;
    size_t n;
    ft_error err;
    const char *parent = fresh_parent("ckpt-list");
    (void)state;
    save(parent, 100);
    save(parent, 9);
    save(parent, 20);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        ASSERT_OK(dir_create(path_join(&a, parent, others[i]), &err));
    ASSERT_OK(checkpoint_list(&steps, &n, &a, parent, &err));
    assert_int_equal(n, 3);
    assert_true(steps[0] == 9 && steps[1] == 20 && steps[2] == 100);
    ASSERT_OK(checkpoint_clean(parent, &err));
    assert_false(path_exists(path_join(&a, parent, "step_5.tmp")));
    assert_true(path_exists(path_join(&a, parent, "step_x")));
    ASSERT_OK(checkpoint_remove(parent, 20, &err));
    ASSERT_OK(checkpoint_list(&steps, &n, &a, parent, &err));
    assert_int_equal(n, 2);
    ASSERT_OK(checkpoint_list(&steps, &n, &a, "no/such/parent", &err));
    assert_int_equal(n, 0);
    arena_destroy(&a);
}

static void saving_a_step_again_replaces_it(void **state)
{
    struct arena a = {0};
    const char **names;
    size_t n;
    ft_error err;
    const char *parent = fresh_parent("ckpt-again");
    (void)state;
    save(parent, 3);
    ASSERT_OK(file_publish(path_join(&a, parent, "step_3/stale"), "x", 1, &err));
    save(parent, 3);
    ASSERT_OK(checkpoint_verify(checkpoint_path(&a, parent, 3), &err));
    ASSERT_OK(dir_list(&names, &n, &a, parent, &err));
    assert_int_equal(n, 1);
    assert_false(path_exists(path_join(&a, parent, "step_3/stale")));
    arena_destroy(&a);
}

/* Every byte of every file, and every truncation of the small ones, is noticed. */
static void any_damage_is_found(void **state)
{
    static const char *const files[] = {"state.json", "optimizer.bin", "COMMIT"};
    struct arena a = {0};
    ft_error err;
    const char *parent = fresh_parent("ckpt-damage");
    (void)state;
    save(parent, 1);
    const char *dir = checkpoint_path(&a, parent, 1);
    for (size_t f = 0; f < ARRAY_LEN(files); f++) {
        const char *path = path_join(&a, dir, files[f]);
        str whole;
        ASSERT_OK(file_read_all(&whole, &a, path, 1 << 20, &err));
        char *copy = (char *)(uintptr_t)arena_cstr(&a, whole);
        for (size_t i = 0; i < whole.len; i++) {
            copy[i] ^= 4;
            ASSERT_OK(file_publish(path, copy, whole.len, &err));
            assert_int_equal(checkpoint_verify(dir, &err), FT_EFORMAT);
            copy[i] ^= 4;
        }
        ASSERT_OK(file_publish(path, whole.ptr, whole.len / 2, &err));
        assert_int_equal(checkpoint_verify(dir, &err), FT_EFORMAT);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(checkpoint_verify(dir, &err), FT_EFORMAT);
        ASSERT_OK(file_publish(path, whole.ptr, whole.len, &err));
        ASSERT_OK(checkpoint_verify(dir, &err));
    }
    arena_destroy(&a);
}

static void contradicting_or_foreign_states_are_refused(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"fttrain checkpoint", "something", "\"format\": expected"},
        {"\"version\": 1", "\"version\": 2", "version 2"},
        {"\"updates\": 0", "\"updates\": 5", "contradict"},
        {"\"step\": 1", "\"step\": -9", "-9 is not a whole number"},
        {"\"seconds\": 12", "\"seconds\": \"\", \"s\": 12", "\"seconds\": expected a number"},
        {"\"base\": \"", "\"base\": \"x", "expected 32 hex digits"},
    };
    struct arena a = {0};
    struct checkpoint_state s;
    ft_error err;
    const char *parent = fresh_parent("ckpt-state");
    (void)state;
    save(parent, 1);
    const char *dir = checkpoint_path(&a, parent, 1), *path = path_join(&a, dir, "state.json");
    str text;
    ASSERT_OK(file_read_all(&text, &a, path, 1 << 20, &err));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b = {0};
        const char *at = strstr(text.ptr, cases[i].from);
        assert_non_null(at);
        buf_append(&b, text.ptr, (size_t)(at - text.ptr));
        buf_cstr(&b, cases[i].to);
        buf_cstr(&b, at + strlen(cases[i].from));
        ASSERT_OK(file_publish(path, b.data, b.len, &err));
        buf_free(&b);
        ASSERT_FAILS(checkpoint_read_state(&s, dir, &err), FT_EFORMAT, cases[i].message);
    }
    arena_destroy(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_comes_back),
        cmocka_unit_test(steps_are_listed_in_numeric_order_and_other_names_ignored),
        cmocka_unit_test(saving_a_step_again_replaces_it),
        cmocka_unit_test(any_damage_is_found),
        cmocka_unit_test(contradicting_or_foreign_states_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
