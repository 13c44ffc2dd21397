/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/model_source.h"

#include <stdlib.h>

#include "common/file.h"
#include "formats/safetensors.h"
#include "tests/support/check.h"
#include "tests/support/source_case.h"

/* "<test directory>/a/b" */
static const char *inside(const char *dir, const char *name)
{
    char joined[128];
    snprintf(joined, sizeof joined, "%s/%s", dir, name);
    return test_path(joined);
}

static void check_tensor(const struct source_tensor *t, int64_t i)
{
    int64_t n = t->spec.shape[0] * t->spec.shape[1];
    float *expected = malloc((size_t)n * sizeof *expected), *found = malloc((size_t)n * 4);
    source_values(expected, &t->spec, i);
    source_read_rows(t, 0, t->rows, found);
    assert_memory_equal(found, expected, (size_t)n * 4);
    if (t->rows > 8) {
        source_read_rows(t, 3, 8, found);
        assert_memory_equal(found, expected + 3 * t->cols, (size_t)(5 * t->cols) * 4);
    }
    assert_int_equal(t->rows * t->cols, n);
    free(expected);
    free(found);
}

static void check_source(const char *path, const struct model_config *c)
{
    struct model_source *s;
    ft_error err;
    ASSERT_OK(model_source_open(&s, path, &err));
    struct buf a = {0}, b = {0};
    model_config_to_hf(&a, c);
    model_config_to_hf(&b, model_source_config(s));
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    for (int64_t i = 0; i < model_tensors(c); i++) {
        const struct source_tensor *t = model_source_tensor(s, i);
        assert_ptr_equal(model_source_find(s, t->spec.name), t);
        check_tensor(t, i);
        model_source_release(s, i);
    }
    assert_null(model_source_find(s, "lm_head.bias"));
    buf_free(&a);
    buf_free(&b);
    model_source_close(s);
}

static void both_containers_give_hugging_face_order(void **state)
{
    static const char *const architectures[] = {"llama", "mistral", "qwen2"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++) {
        struct model_config c = source_config(architectures[i]);
        c.sliding_window = i == 1 ? 64 : 0;
        c.tied_head = i == 2;
        write_hf_model(test_path("hf"), &c, DT_F32);
        check_source(test_path("hf"), &c);
        check_source(inside("hf", "/"), &c);
        check_source(inside("hf", "model.safetensors"), &c);
        write_gguf_model(test_path("m.gguf"), &c);
        check_source(test_path("m.gguf"), &c);
    }
}

static void biases_of_a_permuted_layer_are_put_back_too(void **state)
{
    struct model_config c = source_config("llama");
    (void)state;
    c.attention_bias = c.output_bias = c.mlp_bias = true;
    write_hf_model(test_path("hf"), &c, DT_F32);
    check_source(test_path("hf"), &c);
    write_gguf_model(test_path("m.gguf"), &c);
    check_source(test_path("m.gguf"), &c);
}

static void the_tokenizer_is_found_beside_the_weights(void **state)
{
    struct model_config c = source_config("llama");
    struct model_source *s;
    ft_error err;
    (void)state;
    write_hf_model(test_path("hf-tok"), &c, DT_BF16);
    ASSERT_OK(model_source_open(&s, test_path("hf-tok"), &err));
    assert_null(model_source_tokenizer(s));
    assert_string_equal(model_source_name(s), "hf-tok");
    model_source_close(s);
    ASSERT_OK(file_publish(inside("hf-tok", "tokenizer.json"), "{}", 2, &err));
    ASSERT_OK(model_source_open(&s, test_path("hf-tok"), &err));
    assert_string_equal(model_source_tokenizer(s), inside("hf-tok", "tokenizer.json"));
    model_source_close(s);
    ASSERT_OK(dir_remove(test_path("hf-tok"), &err));
}

/* Writes a directory whose weights are these tensors of F32, all zero. */
static void write_tensors(const char *dir, const struct safetensors_entry *entries, size_t n)
{
    static const float zeros[64 * 96];
    struct safetensors_writer w;
    ft_error err;
    ASSERT_OK(
        safetensors_writer_open(&w, inside(dir, "model.safetensors"), entries, n, NULL, 0, &err));
    while (w.file.written < w.end)
        safetensors_write(&w, zeros, FT_MIN(sizeof zeros, (size_t)(w.end - w.file.written)));
    ASSERT_OK(safetensors_writer_commit(&w, &err));
}

static size_t list_entries(struct safetensors_entry *entries, struct model_tensor *tensors,
                           const struct model_config *c)
{
    int64_t n = model_tensors(c);
    for (int64_t i = 0; i < n; i++) {
        model_tensor_at(&tensors[i], c, i);
        entries[i] = (struct safetensors_entry){
            tensors[i].name, DT_F32, tensors[i].n_dims, {tensors[i].shape[0], tensors[i].shape[1]}};
    }
    return (size_t)n;
}

static void wrong_tensors_are_refused_by_name(void **state)
{
    struct safetensors_entry entries[64];
    struct model_tensor tensors[64];
    struct model_config c = source_config("llama");
    struct model_source *s;
    ft_error err;
    (void)state;
    write_hf_model(test_path("wrong"), &c, DT_F32);
    size_t n = list_entries(entries, tensors, &c);

    write_tensors("wrong", entries, n - 1);
    ASSERT_FAILS(model_source_open(&s, test_path("wrong"), &err), FT_EFORMAT,
                 "tensor 'lm_head.weight' is missing");
    entries[2].shape[0] += 1;
    write_tensors("wrong", entries, n);
    ASSERT_FAILS(model_source_open(&s, test_path("wrong"), &err), FT_EFORMAT,
                 "tensor 'model.layers.0.self_attn.q_proj.weight' has the shape [61, 96], but the "
                 "configuration needs [60, 96]");
    entries[2].shape[0] -= 1;
    entries[1].n_dims = 2;
    entries[1].shape[1] = 1;
    write_tensors("wrong", entries, n);
    ASSERT_FAILS(model_source_open(&s, test_path("wrong"), &err), FT_EFORMAT,
                 "input_layernorm.weight' has the shape");
    entries[1].n_dims = 1;
    entries[n] =
        (struct safetensors_entry){"model.layers.0.self_attn.q_norm.weight", DT_F32, 1, {10}};
    write_tensors("wrong", entries, n + 1);
    ASSERT_FAILS(
        model_source_open(&s, test_path("wrong"), &err), FT_EFORMAT,
        "the tensor 'model.layers.0.self_attn.q_norm.weight' has no place in a llama model");
    entries[n].name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    write_tensors("wrong", entries, n + 1);
    ASSERT_OK(model_source_open(&s, test_path("wrong"), &err));
    model_source_close(s);
}

static void wrong_paths_are_explained(void **state)
{
    struct model_config c = source_config("llama");
    struct model_source *s;
    ft_error err;
    (void)state;
    ASSERT_FAILS(model_source_open(&s, test_path("nowhere"), &err), FT_EIO,
                 "no such file or directory");
    assert_null(s);
    ASSERT_OK(file_publish(test_path("weights.bin"), "x", 1, &err));
    ASSERT_FAILS(model_source_open(&s, test_path("weights.bin"), &err), FT_EUSAGE,
                 "expected a .gguf file, a .safetensors file, or");
    ASSERT_OK(dir_remove(test_path("bare"), &err)); /* of an earlier run */
    ASSERT_OK(dir_create(test_path("bare"), &err));
    ASSERT_FAILS(model_source_open(&s, test_path("bare"), &err), FT_EIO, "config.json: missing");
    write_hf_model(test_path("bare"), &c, DT_F32);
    ASSERT_OK(dir_remove(inside("bare", "model.safetensors"), &err));
    ASSERT_FAILS(model_source_open(&s, test_path("bare"), &err), FT_EIO, "pytorch_model.bin");
    ASSERT_OK(file_publish(inside("bare", "config.json"), "{}", 2, &err));
    ASSERT_FAILS(model_source_open(&s, test_path("bare"), &err), FT_EFORMAT,
                 "config.json: \"model_type\" is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_containers_give_hugging_face_order),
        cmocka_unit_test(biases_of_a_permuted_layer_are_put_back_too),
        cmocka_unit_test(the_tokenizer_is_found_beside_the_weights),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(wrong_paths_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
