/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pipeline.h"

#include "tests/support/check.h"
#include "tools/assemble.h"
#include "tools/verify.h"

#define TOKENIZER "data-samples/tokenizer-tiny.json"

struct run {
    const char *dir, *parts;
    struct plan plan;
    struct manifest *manifest; /* of the plan */
    struct tok *tok;
    struct chat_template *chat;
    struct source_options source;
    struct pipeline_options options;
    atomic_bool stop;
};

/* Rows to `name`.jsonl, and what build prepares for one source. */
static void prepare(struct run *r, const char *name, const char *rows, int n_workers)
{
    ft_error err;
    char file[64];
    *r = (struct run){.dir = test_path(name), .parts = test_path("parts")};
    snprintf(file, sizeof file, "%s.jsonl", name);
    const char *path = test_path(file);
    ASSERT_OK(file_publish(path, rows, strlen(rows), &err));
    ASSERT_OK(dir_remove(r->dir, &err));
    ASSERT_OK(dir_create(r->dir, &err));
    ASSERT_OK(dir_remove(r->parts, &err));
    ASSERT_OK(dir_create(r->parts, &err));
    ASSERT_OK(tok_open(&r->tok, TOKENIZER, &err));
    ASSERT_OK(chat_template_open(&r->chat, "smollm2", r->tok, &err));
    r->options = (struct pipeline_options){r->tok, r->chat, &r->source, n_workers, &r->stop};
    struct manifest *m = r->manifest = &r->plan.manifest;
    m->tool = "test";
    m->chat_template = "smollm2";
    m->options = (struct manifest_options){
        .max_length = 400, .part_bytes = 1 << 20, .shard_bytes = 1 << 20, .compression_level = 1};
    m->n_vocab = tok_n_vocab(r->tok);
    m->token_bytes = shard_token_bytes(m->n_vocab);
    m->tokenizer_fingerprint = tok_fingerprint(r->tok);
    m->n_sources = 1;
    m->sources = arena_alloc(&m->arena, 1, sizeof *m->sources);
    m->sources[0] = (struct manifest_source){.path = arena_cstr(&m->arena, str_from(path))};
    m->n_groups = 1;
    m->groups = arena_alloc(&m->arena, 1, sizeof *m->groups);
    m->groups[0] = (struct manifest_group){.name = "rows", .weight = 1, .repeat = 1};
}

static ft_status run_all(struct run *r, ft_error *err)
{
    struct assemble a = {.dir = r->dir, .parts = r->parts, .plan = &r->plan, .tok = r->tok};
    struct sink sink;
    sink_init(&sink, r->parts, r->manifest);
    ft_status st = pipeline_run(&sink, &r->plan, &r->options, err);
    sink_abort(&sink);
    return st == FT_OK ? assemble_run(&a, err) : st;
}

static void finish(struct run *r)
{
    plan_free(&r->plan);
    chat_template_close(r->chat);
    tok_close(r->tok);
}

#define ROW(answer)                                                                                \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"},{\"role\":\"assistant\","            \
    "\"content\":\"" answer "\"}]}\n"
#define NO_ANSWER "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}\n"
#define UNTRAINED "[{\"role\":\"assistant\",\"content\":\"x\",\"loss\":false}]\n"
#define TRAILING                                                                                   \
    "[{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"bye\"}]\n"
#define BROKEN "{\"messages\":[}\n"

static void every_row_is_counted_once(void **state)
{
    char rows[8000] = ROW("one") NO_ANSWER UNTRAINED "\n" BROKEN TRAILING ROW("two");
    struct run r;
    ft_error err;
    (void)state;
    strcat(rows, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"");
    memset(rows + strlen(rows), 'z', 5000);
    strcat(rows, "\"}]}\n");
    prepare(&r, "counted", rows, 3);
    r.manifest->options.skip_errors = true;
    ASSERT_OK(run_all(&r, &err));
    const struct report *p = &r.manifest->report;
    assert_int_equal(report_rows(p), 7);
    assert_int_equal(r.manifest->sources[0].rows, 7);
    assert_int_equal(p->fates[ROW_KEPT].rows, 3);
    assert_int_equal(p->fates[ROW_NO_ASSISTANT].rows, 1);
    assert_int_equal(p->fates[ROW_UNTRAINED].rows, 1);
    assert_int_equal(p->fates[ROW_INVALID].rows, 1);
    assert_int_equal(p->fates[ROW_TOO_LONG].rows, 1);
    assert_true(p->fates[ROW_TOO_LONG].amount > 400);
    assert_int_equal(p->notes[NOTE_TRAILING].rows, 1);
    assert_int_equal(p->fates[ROW_INVALID].examples[0].row, 3);
    assert_int_equal(p->fates[ROW_INVALID].examples[0].line, 5); /* behind a blank line */
    assert_int_equal(p->fates[ROW_TOO_LONG].examples[0].line, 8);
    ASSERT_OK(verify_dataset(r.dir, &err));
    finish(&r);
}

static void too_long_samples_can_be_cut(void **state)
{
    struct run r;
    ft_error err;
    (void)state;
    prepare(&r, "cut_rows",
            ROW("a fairly long answer, a fairly long answer, a fairly long answer, "
                "a fairly long answer, a fairly long answer, a fairly long answer"),
            1);
    r.manifest->options.max_length = 120;
    r.manifest->options.too_long = TOO_LONG_TRUNCATE;
    ASSERT_OK(run_all(&r, &err));
    assert_int_equal(r.manifest->splits[SPLIT_TRAIN].info.longest, 120);
    assert_true(r.manifest->report.notes[NOTE_CUT].amount > 0);
    assert_int_equal(report_tokens(&r.manifest->report),
                     120 + r.manifest->report.notes[NOTE_CUT].amount);
    ASSERT_OK(verify_dataset(r.dir, &err));
    finish(&r);
}

/* The message is that of the first bad row, although later batches fail earlier in time. */
static void the_first_bad_row_is_reported_whatever_the_threads(void **state)
{
    static char rows[1 << 20];
    size_t n = 0;
    (void)state;
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(rows + n, sizeof rows - n, "%s",
                              i >= 1000 && i % 7 == 0 ? NO_ANSWER "{\"mesages\":1}\n" : ROW("ok"));
    for (int workers = 1; workers <= 7; workers += 2) {
        struct run r;
        ft_error err;
        prepare(&r, "first_bad", rows, workers);
        ASSERT_FAILS(run_all(&r, &err), FT_EFORMAT,
                     "first_bad.jsonl:1003 (row 1002): the row: none of \"messages\"");
        finish(&r);
    }
}

static void a_stop_request_ends_the_run(void **state)
{
    struct run r;
    ft_error err;
    (void)state;
    prepare(&r, "stopped", ROW("x") ROW("y"), 2);
    atomic_store(&r.stop, true);
    ASSERT_FAILS(run_all(&r, &err), FT_ESTOP, "nothing was written");
    finish(&r);
}

static void syntax_errors_name_line_and_column_of_the_file(void **state)
{
    struct run r;
    ft_error err;
    (void)state;
    prepare(&r, "syntax", "[\n" ROW("x") ",\n{\"messages\":\n  [{'role': 1}]\n}\n]", 2);
    ASSERT_FAILS(run_all(&r, &err), FT_EFORMAT,
                 "syntax.jsonl:5 (row 1): column 5: not JSON: strings need double quotes");
    finish(&r);
}

static void a_value_spread_over_lines_gets_a_hint(void **state)
{
    struct run r;
    ft_error err;
    (void)state;
    prepare(&r, "spread", "{\n  \"messages\": [\n  ]\n}\n", 1);
    ASSERT_FAILS(run_all(&r, &err), FT_EFORMAT,
                 "the text ends too early; expected one row per line, or one JSON array");
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_counted_once),
        cmocka_unit_test(too_long_samples_can_be_cut),
        cmocka_unit_test(the_first_bad_row_is_reported_whatever_the_threads),
        cmocka_unit_test(a_stop_request_ends_the_run),
        cmocka_unit_test(syntax_errors_name_line_and_column_of_the_file),
        cmocka_unit_test(a_value_spread_over_lines_gets_a_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
