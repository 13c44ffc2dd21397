/* SPDX-License-Identifier: Apache-2.0
 * ftprep quantize from end to end, against the definition applied to the same weights. */
#include <math.h>
#include <stdlib.h>

#include "common/file.h"
#include "common/half.h"
#include "formats/nf4_file.h"
#include "formats/safetensors.h"
#include "tests/support/check.h"
#include "tests/support/source_case.h"
#include "tools/commands.h"

static int run(const char *const *args, int n)
{
    const struct program p = {.name = "ftprep", .commands = &cmd_quantize, .n_commands = 1};
    /* --force: earlier runs of the tests left their files. */
    char *argv[16] = {(char *)(uintptr_t) "ftprep", (char *)(uintptr_t) "quantize",
                      (char *)(uintptr_t) "--force"};
    for (int i = 0; i < n; i++)
        argv[i + 3] = (char *)(uintptr_t)args[i];
    return program_main(&p, n + 3, argv);
}

#define RUN(...)                                                                                   \
    run((const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static void round_each(float *x, int64_t n, enum nf4_quant_from from)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = from == NF4_FROM_F16    ? f16_to_f32(f32_to_f16(x[i]))
               : from == NF4_FROM_BF16 ? bf16_to_f32(f32_to_bf16(x[i]))
                                       : x[i];
}

static void check_matrix(const struct nf4_tensor *t, const float *x, int64_t n)
{
    int64_t n_blocks = nf4_blocks(n);
    uint8_t *codes = malloc((size_t)(n + 1) / 2), *q = malloc((size_t)n_blocks);
    float *absmax = malloc((size_t)n_blocks * 4), *absmax2 = malloc((size_t)nf4_blocks2(n) * 4),
          mean;
    nf4_quantize(codes, absmax, x, n);
    nf4_quantize_absmax(q, absmax2, &mean, absmax, n_blocks);
    assert_memory_equal(t->nf4.codes, codes, (size_t)(n + 1) / 2);
    assert_memory_equal(t->nf4.absmax, q, (size_t)n_blocks);
    assert_memory_equal(t->nf4.absmax2, absmax2, (size_t)nf4_blocks2(n) * 4);
    assert_true(t->nf4.offset == mean);
    free(codes);
    free(q);
    free(absmax);
    free(absmax2);
}

static void check_file(const char *path, const struct model_config *c, enum nf4_quant_from from)
{
    struct nf4_file *f;
    ft_error err;
    ASSERT_OK(nf4_file_open(&f, path, &err));
    ASSERT_OK(nf4_file_verify(f, &err));
    assert_int_equal(nf4_file_quant_from(f), from);
    for (int64_t i = 0; i < model_tensors(c); i++) {
        struct model_tensor spec;
        const struct nf4_tensor *t = nf4_file_tensor(f, (size_t)i);
        model_tensor_at(&spec, c, i);
        int64_t n = spec.shape[0] * spec.shape[1];
        float *x = malloc((size_t)n * 4);
        source_values(x, &spec, i);
        if (spec.is_linear) {
            round_each(x, n, from);
            check_matrix(t, x, n);
        } else {
            assert_memory_equal(t->data, x, (size_t)n * 4);
        }
        free(x);
    }
    nf4_file_close(f);
}

static void both_containers_quantise_to_the_definition(void **state)
{
    static const char *const architectures[] = {"llama", "qwen2"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        struct model_config c = source_config(architectures[i]);
        write_hf_model(test_path("q-hf"), &c, DT_F32);
        write_gguf_model(test_path("q.gguf"), &c);
        assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q1.nf4")), 0);
        check_file(test_path("q1.nf4"), &c, NF4_FROM_CHECKPOINT);
        assert_int_equal(RUN(test_path("q.gguf"), "--out", test_path("q2.nf4"), "--json"), 0);
        check_file(test_path("q2.nf4"), &c, NF4_FROM_CHECKPOINT);
    }
}

static void biases_of_permuted_layers_are_stored_in_order(void **state)
{
    struct model_config c = source_config("llama");
    (void)state;
    c.attention_bias = c.output_bias = c.mlp_bias = true;
    write_gguf_model(test_path("q.gguf"), &c);
    assert_int_equal(RUN(test_path("q.gguf"), "--out", test_path("q.nf4")), 0);
    check_file(test_path("q.nf4"), &c, NF4_FROM_CHECKPOINT);
}

static void weights_are_rounded_first_when_asked(void **state)
{
    struct model_config c = source_config("llama");
    (void)state;
    write_hf_model(test_path("q-hf"), &c, DT_F32);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q.nf4"), "--quant-from", "f16"), 0);
    check_file(test_path("q.nf4"), &c, NF4_FROM_F16);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q.nf4"), "--quant-from=bf16"), 0);
    check_file(test_path("q.nf4"), &c, NF4_FROM_BF16);
}

static void the_bytes_do_not_depend_on_threads(void **state)
{
    struct model_config c = source_config("llama");
    struct arena a = {0};
    str one, many;
    ft_error err;
    (void)state;
    c.intermediate = 3000; /* several chunks per matrix */
    write_hf_model(test_path("q-hf"), &c, DT_BF16);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q1.nf4"), "--threads", "1"), 0);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q2.nf4"), "--threads", "5"), 0);
    ASSERT_OK(file_read_all(&one, &a, test_path("q1.nf4"), 1 << 24, &err));
    ASSERT_OK(file_read_all(&many, &a, test_path("q2.nf4"), 1 << 24, &err));
    assert_true(str_eq(one, many));
    arena_destroy(&a);
}

/* Overwrites element 70 of a tensor of the directory's weights. */
static void plant(const char *dir, const char *tensor, float value)
{
    char path[1100];
    struct safetensors *s;
    ft_error err;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    ASSERT_OK(safetensors_open(&s, path, &err));
    const struct safetensors_tensor *first = safetensors_find(s, "model.embed_tokens.weight");
    const struct safetensors_tensor *t = safetensors_find(s, tensor);
    long at = (long)(t->data - first->data);
    safetensors_close(s);
    FILE *f = fopen(path, "r+b");
    uint8_t header[8];
    assert_int_equal(fread(header, 1, 8, f), 8);
    fseek(f, 8 + (long)load_u64le(header) + at + 70 * 4, SEEK_SET);
    fwrite(&value, 4, 1, f);
    fclose(f);
}

static void values_that_are_not_finite_are_refused(void **state)
{
    static const char *const tensors[] = {"model.layers.1.mlp.up_proj.weight", "model.norm.weight",
                                          "lm_head.weight"};
    struct model_config c = source_config("llama");
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(tensors); i++) {
        write_hf_model(test_path("q-hf"), &c, DT_F32);
        plant(test_path("q-hf"), tensors[i], i == 0 ? NAN : INFINITY);
        remove(test_path("q.nf4"));
        assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q.nf4")), 1);
        assert_false(path_exists(test_path("q.nf4")));
    }
    write_hf_model(test_path("q-hf"), &c, DT_F32);
    plant(test_path("q-hf"), tensors[0], 1e6f);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q.nf4")), 0);
    assert_int_equal(RUN(test_path("q-hf"), "--out", test_path("q.nf4"), "--quant-from", "f16"), 1);
}

static void a_wrong_command_line_is_a_usage_error(void **state)
{
    (void)state;
    assert_int_equal(RUN("model.gguf"), 2);
    assert_int_equal(RUN("--out", "x.nf4"), 2);
    assert_int_equal(RUN("model.txt", "--out", "x.nf4", "--quant-from", "f64"), 2);
    assert_int_equal(RUN(test_path("nowhere.gguf"), "--out", test_path("q.nf4")), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_containers_quantise_to_the_definition),
        cmocka_unit_test(biases_of_permuted_layers_are_stored_in_order),
        cmocka_unit_test(weights_are_rounded_first_when_asked),
        cmocka_unit_test(the_bytes_do_not_depend_on_threads),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(a_wrong_command_line_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
