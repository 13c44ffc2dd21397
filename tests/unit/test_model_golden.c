/* SPDX-License-Identifier: Apache-2.0
 * Loss and LoRA gradients of tiny models against transformers and PEFT;
 * tests/golden/model/README.md says how the expected values were made. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/model_case.h"
#include "tools/commands.h"

static const char *golden(const char *name, const char *file)
{
    static char path[2][256];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "tests/golden/model/%s/%s", name, file);
    return path[turn];
}

/* The checkpoint through `ftprep quantize`. */
static struct nf4_file *quantized_base(const char *name)
{
    char out[256];
    struct nf4_file *base;
    ft_error err;
    snprintf(out, sizeof out, "%s", test_path("golden.nf4"));
    char checkpoint[256], tokenizer[] = "--no-tokenizer", flag[] = "--out", command[] = "quantize";
    char force[] = "--force"; /* of an earlier run */
    char program_name[] = "ftprep";
    snprintf(checkpoint, sizeof checkpoint, "tests/golden/model/%s", name);
    char *argv[] = {program_name, command, checkpoint, flag, out, tokenizer, force, NULL};
    const struct program program = {.name = "ftprep", .commands = &cmd_quantize, .n_commands = 1};
    assert_int_equal(program_main(&program, ARRAY_LEN(argv) - 1, argv), 0);
    ASSERT_OK(nf4_file_open(&base, out, &err));
    return base;
}

static double expected_loss(const char *name)
{
    struct json_doc *doc;
    double loss;
    ft_error err;
    ASSERT_OK(json_load(&doc, golden(name, "expected.json"), JSON_STRICT, 1 << 16, &err));
    assert_true(json_f64(json_get(json_root(doc), "loss_sum"), &loss));
    json_close(doc);
    return loss;
}

/* One tensor against the golden gradients, which were read into a model of the same layout. */
static double compare_tensor(const struct model_params *got, const float *expected, size_t i)
{
    const struct param_tensor *t = &got->tensors[i];
    int64_t n = t->rows * t->cols;
    double *reference = zeros_f64(n);
    for (int64_t e = 0; e < n; e++)
        reference[e] = (double)expected[t->offset + e];
    return relative_error(got->gradients + t->offset, reference, n);
}

static void check_case(const char *name, enum matmul_kind matmul, bool recompute)
{
    struct nf4_file *base = quantized_base(name);
    const struct model_config *c = nf4_file_config(base);
    struct micro_batch b = load_batch(golden(name, "batch.json"));
    struct adapter_config adapter;
    struct arena arena = {0};
    ft_error err;
    ASSERT_OK(adapter_load_config(&adapter, &arena, golden(name, "adapter"), &err));
    struct backend *be = open_cpu(2, matmul);
    struct model_options o = {
        .adapter = &adapter, .max_tokens = b.n_tokens, .training = true, .recompute = recompute};
    struct model *m = open_model(be, base, &o), *expected = open_model(be, base, &o);
    ASSERT_OK(adapter_load(model_adapter_pairs(m), golden(name, "adapter"), &adapter, c, &err));
    ASSERT_OK(
        adapter_load(model_adapter_pairs(expected), golden(name, "gradients"), &adapter, c, &err));

    double loss = model_train_step(m, &b, 1, 0), want = expected_loss(name);
    sync_ok(be);
    double loss_error = fabs(loss - want) / want, worst = 0;
    for (size_t i = 0; i < model_params(m)->n_tensors; i++)
        worst = fmax(worst, compare_tensor(model_params(m), model_params(expected)->values, i));
    print_message("%-12s loss %.2e, worst gradient %.2e\n", name, loss_error, worst);
    assert_true(loss_error <= 2e-6);
    assert_true(worst <= 1e-5);

    model_destroy(expected);
    model_destroy(m);
    backend_close(be);
    nf4_file_close(base);
    arena_destroy(&arena);
}

static void check_all(enum matmul_kind matmul, bool recompute)
{
    static const char *const names[] = {"gqa", "tied-packed", "bias", "qwen2"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        check_case(names[i], matmul, recompute);
}

static void loss_and_gradients_match_transformers_and_peft(void **state)
{
    (void)state;
    check_all(MATMUL_FAST, false);
}

static void so_they_do_with_the_reference_product_and_recompute(void **state)
{
    (void)state;
    check_all(MATMUL_REFERENCE, true);
}

int main(void)
{
    setenv("FT_LOG", "error", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_match_transformers_and_peft),
        cmocka_unit_test(so_they_do_with_the_reference_product_and_recompute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
