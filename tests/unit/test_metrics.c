/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/metrics.h"

#include <math.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/support/check.h"

static void put_text(const char *path, const char *text)
{
    ft_error err;
    ASSERT_OK(file_publish(path, text, strlen(text), &err));
}

static str read_back(struct arena *a, const char *path)
{
    ft_error err;
    str text;
    ASSERT_OK(file_read_all(&text, a, path, 1 << 20, &err));
    return text;
}

static ft_status keep_below_three(bool *keep, void *ctx, const json *line, ft_error *err)
{
    int64_t step;
    (void)ctx, (void)err;
    *keep = json_i64(json_get(line, "step"), &step) && step < 3;
    return FT_OK;
}

static void opening_cuts_off_later_half_written_and_broken_lines(void **state)
{
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n", "{\"step\": 1}\n{\"step\": 2}\n"},
        {"{\"step\": 1}\n{\"step\": 2}", "{\"step\": 1}\n"},
        {"{\"step\": 1}\n{\"st\n{\"step\": 2}\n", "{\"step\": 1}\n"},
        {"{\"other\": 1}\n{\"step\": 1}\n", ""},
        {"{\"step\": 1}\n\n{\"step\": 2}\n", "{\"step\": 1}\n"},
        {"", ""},
    };
    const char *path = test_path("log.jsonl");
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = {0};
        struct step_log log;
        struct buf record = {0};
        ft_error err;
        put_text(path, cases[i].before);
        ASSERT_OK(step_log_open(&log, path, keep_below_three, NULL, &err));
        assert_true(str_is(read_back(&a, path), cases[i].after));
        buf_cstr(&record, "{\"step\": 2}");
        ASSERT_OK(step_log_append(&log, &record, &err));
        assert_true(str_ends(read_back(&a, path), STR("{\"step\": 2}\n")));
        step_log_close(&log);
        buf_free(&record);
        arena_destroy(&a);
    }
}

static void a_resumed_history_is_that_of_its_checkpoint(void **state)
{
    struct arena a = {0};
    struct metrics m;
    ft_error err;
    const char *path = test_path("metrics.jsonl");
    struct step_record r = {
        .epoch = 0.5, .loss = 2, .lr = 1e-4, .tokens = 10, .trained_tokens = 5, .seconds = 0.5};
    (void)state;
    ASSERT_OK(metrics_open(&m, path, -1, -1, &err));
    ASSERT_OK(metrics_eval(&m, 0, 3, 7, 0.1, &err));
    for (r.step = 1; r.step <= 4; r.step++)
        ASSERT_OK(metrics_step(&m, &r, &err));
    ASSERT_OK(metrics_eval(&m, 4, 2.5, 7, 0.1, &err));
    metrics_close(&m);

    /* Step 4 was saved before its evaluation: that one comes again. */
    ASSERT_OK(metrics_open(&m, path, 4, 0, &err));
    assert_int_equal(m.train.n, 4);
    assert_int_equal(m.eval.n, 1);
    metrics_close(&m);
    ASSERT_OK(metrics_open(&m, path, 2, 0, &err));
    assert_int_equal(m.train.n, 2);
    assert_true(m.eval.x[0] == 0 && m.eval.y[0] == 3);
    metrics_close(&m);
    ASSERT_OK(metrics_open(&m, path, -1, -1, &err));
    assert_int_equal(read_back(&a, path).len, 0);
    metrics_close(&m);
    arena_destroy(&a);
}

static void records_are_json_even_without_a_loss(void **state)
{
    struct arena a = {0};
    struct metrics m;
    struct json_doc *doc;
    ft_error err;
    double v;
    const char *path = test_path("metrics.jsonl");
    struct step_record r = {.step = 1, .loss = (double)NAN, .tokens = 10, .seconds = 0.5};
    (void)state;
    ASSERT_OK(metrics_open(&m, path, -1, -1, &err));
    ASSERT_OK(metrics_step(&m, &r, &err));
    assert_int_equal(m.train.n, 0);
    ASSERT_OK(json_parse(&doc, "record", str_trim(read_back(&a, path)), JSON_STRICT, &err));
    assert_int_equal(json_kind(json_get(json_root(doc), "loss")), JSON_NULL);
    assert_true(json_f64(json_get(json_root(doc), "tokens_per_s"), &v) && v == 20);
    json_close(doc);
    metrics_close(&m);
    arena_destroy(&a);
}

static void the_picture_survives_every_length_of_history(void **state)
{
    static const int lengths[] = {0, 1, 2, 40, 5000};
    struct arena a = {0};
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct metrics m;
        struct step_record r = {.tokens = 1, .trained_tokens = 1, .seconds = 1};
        ASSERT_OK(metrics_open(&m, test_path("metrics.jsonl"), -1, -1, &err));
        for (r.step = 1; r.step <= lengths[i]; r.step++) {
            r.loss = 3 / (1 + (double)r.step) + 0.2 * sin((double)r.step * 1.7);
            ASSERT_OK(metrics_step(&m, &r, &err));
        }
        ASSERT_OK(metrics_draw(&m, test_path("loss.svg"), &err));
        str svg = read_back(&a, test_path("loss.svg"));
        assert_true(str_starts(svg, STR("<svg")) && svg.len < 200000);
        metrics_close(&m);
    }
    arena_destroy(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_cuts_off_later_half_written_and_broken_lines),
        cmocka_unit_test(a_resumed_history_is_that_of_its_checkpoint),
        cmocka_unit_test(records_are_json_even_without_a_loss),
        cmocka_unit_test(the_picture_survives_every_length_of_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
