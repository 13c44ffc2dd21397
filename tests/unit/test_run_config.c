/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/run_config.h"

#include <unistd.h>

#include "common/file.h"
#include "tests/support/check.h"

#define MINIMAL                                                                                    \
    "\"run\": {\"dir\": \"out\"}, \"base\": {\"path\": \"b.nf4\"}, \"data\": {\"path\": \"d\"}"

/* Loads {MINIMAL, extra} with the overrides, up to NULL. */
static ft_status load(struct run_config *c, const char *extra, const char *const *overrides,
                      ft_error *err)
{
    const char *path = test_path("run.json");
    struct buf b = {0};
    size_t n = 0;
    buf_printf(&b, "{ // a comment\n%s%s}", MINIMAL, extra);
    ft_error ignored;
    assert_int_equal(file_publish(path, b.data, b.len, &ignored), FT_OK);
    buf_free(&b);
    while (overrides != NULL && overrides[n] != NULL)
        n++;
    return run_config_load(c, path, overrides, n, err);
}

static void every_row_of_the_table_is_filled(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRAIN_OPTIONS; i++) {
        assert_non_null(train_options_table[i].name);
        assert_non_null(train_options_table[i].help);
    }
}

static void defaults_file_and_overrides_apply_in_that_order(void **state)
{
    struct run_config c;
    ft_error err;
    const char *const overrides[] = {"optimizer.lr=0.5", "optimizer.lr=0.25",
                                     "lora.targets=q_proj,v_proj", NULL};
    (void)state;
    ASSERT_OK(load(&c, ", \"optimizer\": {\"lr\": 1, \"beta1\": 0.8}, \"lora\": {\"rslora\": true}",
                   overrides, &err));
    assert_true(c.values.optimizer.lr == 0.25 && c.values.optimizer.beta1 == 0.8);
    assert_true(c.values.optimizer.beta2 == 0.999 && c.values.lora.rslora);
    assert_int_equal(c.values.lora.targets.n, 2);
    assert_int_equal(c.values.batch.mode, BATCH_PACKED);
    struct adapter_config adapter;
    train_options_adapter(&adapter, &c.values);
    assert_true(adapter.target[LIN_Q] && adapter.target[LIN_V] && !adapter.target[LIN_K]);
    assert_int_equal(adapter.rank, 16);
    run_config_close(&c);
}

static void paths_in_the_file_are_relative_to_it_and_overrides_to_the_caller(void **state)
{
    struct run_config c;
    ft_error err;
    const char *const overrides[] = {"data.path=elsewhere", "run.resume=ckpt/step_3", NULL};
    (void)state;
    ASSERT_OK(load(&c, "", overrides, &err));
    assert_string_equal(c.values.base.path, test_path("b.nf4"));
    assert_string_equal(c.values.data.path, "elsewhere");
    assert_string_equal(c.values.run.resume, "ckpt/step_3");
    run_config_close(&c);
    ASSERT_OK(load(&c, "", NULL, &err));
    assert_string_equal(c.values.run.resume, "auto");
    run_config_close(&c);
}

static void an_override_takes_the_alternative_key_back(void **state)
{
    struct run_config c;
    ft_error err;
    const char *overrides[] = {"train.max_steps=7", "schedule.warmup_ratio=0.5", NULL};
    (void)state;
    ASSERT_OK(load(&c, ", \"train\": {\"epochs\": 3}, \"schedule\": {\"warmup_steps\": 9}",
                   overrides, &err));
    assert_int_equal(c.values.train.max_steps, 7);
    assert_false(opt_given(&c.set, "train.epochs"));
    assert_int_equal(c.values.schedule.warmup_steps, 0);
    assert_false(opt_given(&c.set, "schedule.warmup_steps"));
    run_config_close(&c);
}

static void prompts_keep_their_commas(void **state)
{
    struct run_config c;
    ft_error err;
    const char *const overrides[] = {"sample.prompts=[\"a, b\", \"c\"]", NULL};
    (void)state;
    ASSERT_OK(load(&c, ", \"sample\": {\"prompts\": [\"Hello, you\"]}", NULL, &err));
    assert_int_equal(c.values.sample.prompts.n, 1);
    assert_string_equal(c.values.sample.prompts.items[0], "Hello, you");
    run_config_close(&c);
    ASSERT_OK(load(&c, ", \"sample\": {\"prompts\": [\"Hello, you\"]}", overrides, &err));
    assert_int_equal(c.values.sample.prompts.n, 2);
    assert_string_equal(c.values.sample.prompts.items[0], "a, b");
    run_config_close(&c);
}

static void a_dotted_key_means_the_same_as_the_key_in_its_section(void **state)
{
    static const char text[] = "{\"run.dir\": \"out\", \"base\": {\"path\": \"b.nf4\"}, "
                               "\"data.path\": \"d\", \"lora.targets\": [\"q_proj\"]}";
    struct run_config c;
    ft_error err;
    (void)state;
    ASSERT_OK(file_publish(test_path("dotted.json"), text, sizeof text - 1, &err));
    ASSERT_OK(run_config_load(&c, test_path("dotted.json"), NULL, 0, &err));
    assert_string_equal(c.values.run.dir, test_path("out"));
    assert_string_equal(c.values.data.path, test_path("d"));
    assert_int_equal(c.values.lora.targets.n, 1);
    run_config_close(&c);
}

static void everything_wrong_is_named_with_file_and_key(void **state)
{
    static const struct {
        const char *extra, *override, *message;
    } cases[] = {
        {", \"optimizer\": {\"lrr\": 1}", NULL,
         "unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"},
        {", \"optimiser\": {\"lr\": 1}", NULL, "did you mean 'optimizer.lr'?"},
        {", \"optimizer\": {\"lr\": \"1\"}", NULL,
         "run.json: optimizer.lr: expected a number, found a string"},
        {", \"optimizer\": {\"lr\": null}", NULL, "optimizer.lr: expected a number, found null"},
        {", \"batch\": {\"micro\": 1.5}", NULL, "batch.micro: expected a whole number, found 1.5"},
        {", \"batch\": {\"micro\": 0}", NULL,
         "batch.micro: '0' is not valid, expected a number from 1"},
        {", \"batch\": {\"mode\": \"paked\"}", NULL, "expected one of packed|grouped|sequential"},
        {", \"lora\": {\"rslora\": 1}", NULL,
         "lora.rslora: expected true or false, found a number"},
        {", \"lora\": {\"targets\": \"q_proj\"}", NULL, "lora.targets: expected a list of strings"},
        {", \"lora\": {\"targets\": [1]}", NULL,
         "lora.targets: expected a list of strings, found a number"},
        {", \"lora\": {\"targets\": []}", NULL, "at least one linear layer"},
        {", \"lora\": {\"targets\": [\"q_prj\"]}", NULL, "did you mean 'q_proj'?"},
        {", \"lora\": {\"targets\": [\"q_proj\", \"q_proj\"]}", NULL, "'q_proj' appears twice"},
        {", \"log\": 3", NULL, "unknown section 'log'"},
        {", \"log\": {}", NULL, "unknown section 'log'"},
        {", \"lora\": 3", NULL, "lora: expected an object with the keys of the section"},
        {", \"lora\": {\"rank\": 1, \"rank\": 2}", NULL, "\"rank\" appears twice"},
        {", \"run.dir\": \"x\"", NULL, "run.json: run.dir is given twice"},
        {", \"optimizer.lrr\": 1", NULL,
         "unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"},
        {", \"optimizer.lr\": {}", NULL, "optimizer.lr: expected a number, found an object"},
        {", ", NULL, "not JSON"},
        {"", "optimizer.lr", "'optimizer.lr': expected key=value"},
        {"", "optimizer.lrr=1", "did you mean 'optimizer.lr'?"},
        {"", "optimizer.lr=fast", "optimizer.lr: 'fast' is not valid"},
        {"", "sample.prompts=[1", "sample.prompts: line 1"},
        {", \"schedule\": {\"kind\": \"constant\", \"min_lr_ratio\": 0.1}", NULL,
         "schedule.min_lr_ratio has no effect because schedule.kind is constant"},
        {", \"schedule\": {\"warmup_ratio\": 0.1, \"warmup_steps\": 3}", NULL,
         "schedule.warmup_ratio has no effect because schedule.warmup_steps is set"},
        {", \"train\": {\"epochs\": 2, \"max_steps\": 3}", NULL,
         "train.epochs has no effect because train.max_steps is set"},
        {", \"sample\": {\"every\": 3}", NULL,
         "sample.every has no effect because sample.prompts is empty"},
    };
    struct run_config c;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const overrides[] = {cases[i].override, NULL};
        ASSERT_FAILS(load(&c, cases[i].extra, overrides, &err), FT_EUSAGE, cases[i].message);
        run_config_close(&c);
    }
    ASSERT_FAILS(run_config_load(&c, "no/such.json", NULL, 0, &err), FT_EIO, "no/such.json");
    run_config_close(&c);
    ASSERT_OK(file_publish(test_path("bare.json"), "{}", 2, &err));
    ASSERT_FAILS(run_config_load(&c, test_path("bare.json"), NULL, 0, &err), FT_EUSAGE,
                 "run.dir is required");
    run_config_close(&c);
    ASSERT_OK(file_publish(test_path("bare.json"), "[]", 2, &err));
    ASSERT_FAILS(run_config_load(&c, test_path("bare.json"), NULL, 0, &err), FT_EUSAGE,
                 "expected an object, found a list");
    run_config_close(&c);
}

static void the_resolved_dump_loads_to_itself(void **state)
{
    static const char *const extras[] = {
        "",
        ", \"schedule\": {\"kind\": \"constant\", \"warmup_steps\": 3}, \"train\": {\"max_steps\": "
        "9}",
        ", \"sample\": {\"prompts\": [\"a, \\\"b\\\"\\n\", \"\xC3\xA9\"], \"system\": \"s\"}, "
        "\"optimizer\": {\"lr\": 0.1}, \"run\": {}",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct run_config first, second;
        struct buf a = {0}, b = {0};
        ft_error err;
        ASSERT_OK(load(&first, extras[i], NULL, &err));
        ASSERT_OK(run_config_json(&a, &first, &err));
        ASSERT_OK(file_publish(test_path("dump.json"), a.data, a.len, &err));
        ASSERT_OK(run_config_load(&second, test_path("dump.json"), NULL, 0, &err));
        ASSERT_OK(run_config_json(&b, &second, &err));
        assert_true(str_eq(buf_view(&a), buf_view(&b)));
        assert_int_equal(second.values.base.path[0], '/');
        ASSERT_OK(run_config_check_same(&first, &second, "dump.json", &err));
        run_config_close(&first);
        run_config_close(&second);
        buf_free(&a);
        buf_free(&b);
    }
}

static void a_resumed_run_must_keep_what_shapes_it(void **state)
{
    static const struct {
        const char *override, *message; /* NULL = allowed to change */
    } cases[] = {
        {"lora.rank=8", "lora.rank is 8 now, but 16 in the checkpoint"},
        {"optimizer.lr=0.1", "optimizer.lr is 0.1"},
        {"run.seed=2", "run.seed is 2 now"},
        {"batch.micro=2", "batch.micro is 2 now"},
        {"train.epochs=3", "train.epochs is 3 now, but 1 in"},
        {"train.max_steps=3", "train.epochs is not set now, but 1 in"},
        {"schedule.warmup_steps=3", "schedule.warmup_ratio is not set now"},
        {"lora.init=elsewhere", "lora.init is "},
        {"run.threads=7", NULL},
        {"run.dir=other", NULL},
        {"eval.every=7", NULL},
        {"checkpoint.keep=9", NULL},
        {"memory.recompute=true", NULL},
    };
    struct run_config saved, now;
    ft_error err;
    (void)state;
    ASSERT_OK(load(&saved, "", NULL, &err));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *const overrides[] = {cases[i].override, NULL};
        ASSERT_OK(load(&now, "", overrides, &err));
        if (cases[i].message == NULL)
            ASSERT_OK(run_config_check_same(&now, &saved, "saved.json", &err));
        else
            ASSERT_FAILS(run_config_check_same(&now, &saved, "saved.json", &err), FT_ESTATE,
                         cases[i].message);
        run_config_close(&now);
    }
    run_config_close(&saved);
}

static void a_path_is_the_same_however_it_is_spelled(void **state)
{
    char absolute[2048];
    struct run_config saved, now;
    ft_error err;
    (void)state;
    ASSERT_OK(dir_create(test_path("init-adapter"), &err));
    snprintf(absolute, sizeof absolute, "lora.init=%s/../init-adapter/.",
             test_path("init-adapter"));
    const char *const before[] = {absolute, NULL};
    ASSERT_OK(load(&saved, "", before, &err));
    ASSERT_OK(load(&now, ", \"lora\": {\"init\": \"init-adapter\"}", NULL, &err));
    ASSERT_OK(run_config_check_same(&now, &saved, "saved.json", &err));
    run_config_close(&now);
    run_config_close(&saved);
}

static void a_constant_schedule_lets_a_run_be_extended(void **state)
{
    const char *const before[] = {"schedule.kind=constant", "schedule.warmup_steps=0",
                                  "train.max_steps=10", NULL};
    const char *const after[] = {"schedule.kind=constant", "schedule.warmup_steps=0",
                                 "train.max_steps=20", NULL};
    struct run_config saved, now;
    ft_error err;
    (void)state;
    ASSERT_OK(load(&saved, "", before, &err));
    ASSERT_OK(load(&now, "", after, &err));
    ASSERT_OK(run_config_check_same(&now, &saved, "saved.json", &err));
    run_config_close(&now);
    run_config_close(&saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_table_is_filled),
        cmocka_unit_test(defaults_file_and_overrides_apply_in_that_order),
        cmocka_unit_test(paths_in_the_file_are_relative_to_it_and_overrides_to_the_caller),
        cmocka_unit_test(an_override_takes_the_alternative_key_back),
        cmocka_unit_test(prompts_keep_their_commas),
        cmocka_unit_test(a_dotted_key_means_the_same_as_the_key_in_its_section),
        cmocka_unit_test(everything_wrong_is_named_with_file_and_key),
        cmocka_unit_test(the_resolved_dump_loads_to_itself),
        cmocka_unit_test(a_resumed_run_must_keep_what_shapes_it),
        cmocka_unit_test(a_path_is_the_same_however_it_is_spelled),
        cmocka_unit_test(a_constant_schedule_lets_a_run_be_extended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
