/* SPDX-License-Identifier: Apache-2.0
 * What ftprep never produces, and the loop must still survive. tests/train has the rest. */
#include "trainer/train.h"

#include "common/file.h"
#include "formats/checkpoint.h"
#include "tests/support/check.h"
#include "tests/support/make_dataset.h"
#include "tests/support/model_case.h"

/* A run of two steps over six samples of these lengths in the test directory. */
static void run_two_steps(const uint32_t lengths[6])
{
    const struct made made = {.dir = test_path("train-unit/data"),
                              .vocab = 101,
                              .max_length = 16,
                              .lengths = lengths,
                              .n_train = 6};
    static const char run_file[] =
        "{\"run\": {\"dir\": \"run\", \"threads\": 1}, \"base\": {\"path\": \"../train-unit.nf4\"},"
        " \"data\": {\"path\": \"data\"}, \"train\": {\"max_steps\": 2},"
        " \"batch\": {\"mode\": \"sequential\", \"accumulate\": 3}}";
    const struct model_config model = tiny_config();
    struct run_config c;
    ft_error err;
    ASSERT_OK(dir_remove(test_path("train-unit"), &err));
    make_dataset(&made);
    nf4_file_close(tiny_base("train-unit.nf4", &model, 3));
    ASSERT_OK(file_publish(test_path("train-unit/run.json"), run_file, strlen(run_file), &err));
    ASSERT_OK(run_config_load(&c, test_path("train-unit/run.json"), NULL, 0, &err));
    ASSERT_OK(train_run(&c, &err));
    run_config_close(&c);
}

static void steps_without_a_trained_token_leave_the_weights_alone(void **state)
{
    struct checkpoint_state s;
    struct arena a = {0};
    str metrics;
    ft_error err;
    (void)state;
    run_two_steps((const uint32_t[6]){1, 1, 1, 1, 1, 1}); /* nothing predicts a first token */
    ASSERT_OK(checkpoint_read_state(&s, test_path("train-unit/run/checkpoints/step_2"), &err));
    assert_int_equal(s.step, 2);
    assert_int_equal(s.updates, 0); /* AdamW did not even decay its moments */
    assert_int_equal(s.trained_tokens, 0);
    ASSERT_OK(
        file_read_all(&metrics, &a, test_path("train-unit/run/metrics.jsonl"), 1 << 20, &err));
    assert_non_null(strstr(metrics.ptr, "\"loss\": null"));
    arena_destroy(&a);

    static float m[1 << 17], v[1 << 17];
    assert_in_range(s.n_params, 1, ARRAY_LEN(m));
    ASSERT_OK(checkpoint_read_moments(m, v, s.n_params,
                                      test_path("train-unit/run/checkpoints/step_2"), &err));
    for (int64_t i = 0; i < s.n_params; i++)
        assert_true(m[i] == 0 && v[i] == 0);
}

static void steps_with_trained_tokens_count_as_updates(void **state)
{
    struct checkpoint_state s;
    ft_error err;
    (void)state;
    run_two_steps((const uint32_t[6]){5, 9, 4, 7, 6, 8});
    ASSERT_OK(checkpoint_read_state(&s, test_path("train-unit/run/checkpoints/step_2"), &err));
    assert_int_equal(s.updates, 2);
    assert_true(s.trained_tokens > 0 && s.tokens == 39 && s.train_loss > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_without_a_trained_token_leave_the_weights_alone),
        cmocka_unit_test(steps_with_trained_tokens_count_as_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
