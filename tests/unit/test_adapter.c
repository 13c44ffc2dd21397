/* SPDX-License-Identifier: Apache-2.0
 * Adapters: what PEFT wrote is read exactly, what we write is read back, every unsupported feature
 * and every damaged file is refused by name. The golden directories are described in
 * tests/golden/adapter/README.md. */
#include <math.h>
#include <stdlib.h>

#include "common/file.h"
#include "formats/adapter.h"
#include "tests/support/check.h"

#define GOLDEN "tests/golden/adapter/"

static const struct model_config tiny = {
    .architecture = "llama",
    .hidden = 32,
    .n_layers = 2,
    .n_heads = 4,
    .n_kv_heads = 2,
    .head_dim = 8,
    .intermediate = 48,
    .vocab = 64,
};

/* --- configuration --------------------------------------------------------------------------- */

/* A complete configuration with extra members in front. */
#define CONFIG(extra)                                                                              \
    "{" extra " \"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, \"target_modules\": "        \
    "[\"q_proj\"]}"

static const char *config_dir(const char *text)
{
    ft_error err;
    const char *dir = test_path("adapter-config");
    char path[512];
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_publish(path, text, strlen(text), &err));
    return dir;
}

static void refuses(const char *config, const char *message)
{
    struct adapter_config c;
    struct arena a = {0};
    ft_error err;
    ASSERT_FAILS(adapter_load_config(&c, &a, config_dir(config), &err), FT_EFORMAT, message);
    assert_non_null(strstr(err.text, "adapter_config.json"));
    arena_destroy(&a);
}

static struct adapter_config accepts(const char *config)
{
    struct adapter_config c;
    struct arena a = {0};
    ft_error err;
    ASSERT_OK(adapter_load_config(&c, &a, config_dir(config), &err));
    arena_destroy(&a);
    return c;
}

static void config_of_a_minimal_adapter_is_read(void **state)
{
    (void)state;
    struct adapter_config c = accepts(CONFIG(""));
    assert_int_equal(c.rank, 4);
    assert_true(c.alpha == 8 && c.dropout == 0 && !c.rslora && c.base_name == NULL);
    for (int k = 0; k < LINEAR_KINDS; k++)
        assert_int_equal(c.target[k], k == LIN_Q);
}

static void every_unsupported_feature_is_refused_by_its_key(void **state)
{
    (void)state;
    refuses(CONFIG("\"use_dora\": true,"), "\"use_dora\"");
    refuses(CONFIG("\"rank_pattern\": {\"k_proj\": 2},"), "\"rank_pattern\"");
    refuses(CONFIG("\"alpha_pattern\": {\"k_proj\": 2},"), "\"alpha_pattern\"");
    refuses(CONFIG("\"modules_to_save\": [\"lm_head\"],"), "\"modules_to_save\"");
    refuses(CONFIG("\"fan_in_fan_out\": true,"), "\"fan_in_fan_out\"");
    refuses(CONFIG("\"layers_to_transform\": [0],"), "\"layers_to_transform\"");
    refuses(CONFIG("\"layer_replication\": [[0, 1]],"), "\"layer_replication\"");
    refuses(CONFIG("\"lora_bias\": true,"), "\"lora_bias\"");
    refuses(CONFIG("\"trainable_token_indices\": [1],"), "\"trainable_token_indices\"");
    refuses(CONFIG("\"some_future_option\": 3,"), "\"some_future_option\"");
    refuses(CONFIG("\"bias\": \"all\","), "\"bias\": \"all\" is not supported");
    refuses(CONFIG("\"task_type\": \"SEQ_CLS\","), "\"task_type\": \"SEQ_CLS\"");
    refuses("{\"peft_type\": \"LOHA\"}", "\"peft_type\": \"LOHA\"");
    refuses("{\"r\": 4}", "\"peft_type\" is missing");
}

static void initialisations_that_change_the_base_are_refused(void **state)
{
    (void)state;
    refuses(CONFIG("\"init_lora_weights\": \"pissa_niter_4\","), "pissa_niter_4");
    refuses(CONFIG("\"init_lora_weights\": \"olora\","), "olora");
    refuses(CONFIG("\"init_lora_weights\": 3,"), "init_lora_weights");
    accepts(CONFIG("\"init_lora_weights\": \"gaussian\","));
    accepts(CONFIG("\"init_lora_weights\": false,"));
}

static void unused_and_informational_keys_are_accepted(void **state)
{
    (void)state;
    accepts(CONFIG("\"eva_config\": null, \"use_dora\": false, \"rank_pattern\": {}, "
                   "\"modules_to_save\": [], \"some_future_option\": \"\", \"revision\": \"main\", "
                   "\"peft_version\": \"0.21.2\", \"qalora_group_size\": 16, \"bias\": \"none\", "
                   "\"task_type\": null,"));
}

static void targets_may_be_names_suffixes_full_paths_or_all_linear(void **state)
{
    (void)state;
#define TARGETS(t)                                                                                 \
    "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, \"target_modules\": " t "}"
    struct adapter_config c = accepts(TARGETS("\"all-linear\""));
    for (int k = 0; k < LINEAR_KINDS; k++)
        assert_true(c.target[k]);
    c = accepts(TARGETS("[\"self_attn.v_proj\", \"model.layers.7.mlp.up_proj\", "
                        "\"layers.11.mlp.down_proj\"]"));
    for (int k = 0; k < LINEAR_KINDS; k++)
        assert_int_equal(c.target[k], k == LIN_V || k == LIN_UP || k == LIN_DOWN);
    refuses(TARGETS("\".*\\\\.(q|v)_proj\""), "\"target_modules\"");
    refuses(TARGETS("[\"q_proj\", \"lm_head\"]"), "\"lm_head\" is not supported");
    refuses(TARGETS("[\"_proj\"]"), "\"_proj\"");
    refuses(TARGETS("[\"\"]"), "\"\" is not supported");
    refuses(TARGETS("[\"layers.x.mlp.up_proj\"]"), "layers.x.mlp.up_proj");
    refuses(TARGETS("[\"layers.03.mlp.up_proj\"]"), "layers.03.mlp.up_proj");
    refuses(TARGETS("[\"mlp.q_proj\"]"), "mlp.q_proj");
    refuses(TARGETS("[]"), "the list is empty");
    refuses(TARGETS("[3]"), "expected strings");
    refuses(TARGETS("null"), "\"target_modules\"");
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
#define NUMBERS(r, alpha, dropout)                                                                 \
    "{\"peft_type\": \"LORA\", \"r\": " r ", \"lora_alpha\": " alpha                               \
    ", \"lora_dropout\": " dropout ", \"target_modules\": [\"q_proj\"]}"
    refuses(NUMBERS("0", "8", "0"), "\"r\"");
    refuses(NUMBERS("4097", "8", "0"), "\"r\"");
    refuses(NUMBERS("2.5", "8", "0"), "\"r\"");
    refuses(NUMBERS("4", "0", "0"), "\"lora_alpha\"");
    refuses(NUMBERS("4", "-1", "0"), "\"lora_alpha\"");
    refuses(NUMBERS("4", "1e999", "0"), "\"lora_alpha\"");
    refuses(NUMBERS("4", "\"8\"", "0"), "\"lora_alpha\"");
    refuses(NUMBERS("4", "8", "1"), "\"lora_dropout\"");
    refuses(NUMBERS("4", "8", "-0.1"), "\"lora_dropout\"");
    refuses("[]", "expected an object");
    refuses("{", "not JSON");
}

static void scaling_is_alpha_over_rank_or_its_root(void **state)
{
    (void)state;
    struct adapter_config c = {.rank = 64, .alpha = 16};
    assert_true(adapter_scaling(&c) == 0.25);
    c.rslora = true;
    assert_true(adapter_scaling(&c) == 2);
}

/* --- tensors --------------------------------------------------------------------------------- */

/* The value make_adapter.py gives element i. */
static float golden_value(int64_t i, int64_t layer, bool is_b)
{
    return (float)((7 * i) % 31 - 15) / 16 + (is_b ? (float)layer : 0);
}

static void assert_golden(const char *name, int64_t rank, bool rslora, int n_targets)
{
    struct adapter *ad;
    ft_error err;
    static float values[48 * 32];
    char dir[128];
    snprintf(dir, sizeof dir, GOLDEN "%s", name);
    ASSERT_OK(adapter_open(&ad, dir, &err));
    ASSERT_OK(adapter_check_model(ad, &tiny, &err));
    const struct adapter_config *c = adapter_config_of(ad);
    assert_int_equal(c->rank, rank);
    assert_int_equal(c->rslora, rslora);
    assert_int_equal(adapter_layers(ad), 2);
    for (int k = 0; k < LINEAR_KINDS; k++) {
        n_targets -= c->target[k];
        for (int64_t layer = 0; c->target[k] && layer < 2; layer++) {
            for (int is_b = 0; is_b < 2; is_b++) {
                int64_t n = rank * (is_b ? adapter_out(ad, (enum linear_kind)k)
                                         : adapter_in(ad, (enum linear_kind)k));
                ASSERT_OK(adapter_read(ad, values, layer, (enum linear_kind)k, is_b, &err));
                for (int64_t i = 0; i < n; i++)
                    assert_true(values[i] == golden_value(i, layer, is_b));
            }
        }
    }
    assert_int_equal(n_targets, 0);
    adapter_close(ad);
}

static void adapters_saved_by_peft_are_read_exactly(void **state)
{
    (void)state;
    assert_golden("plain", 4, false, 2);
    assert_golden("rslora-bf16", 3, true, 7);
    assert_golden("all-linear-f16", 2, false, 7);
}

static void refuses_dir(const char *dir, const char *message)
{
    struct adapter *ad;
    ft_error err;
    ASSERT_FAILS(adapter_open(&ad, dir, &err), FT_EFORMAT, message);
    assert_null(ad);
}

static void unsupported_adapters_saved_by_peft_are_refused(void **state)
{
    (void)state;
    refuses_dir(GOLDEN "dora", "\"use_dora\"");
    refuses_dir(GOLDEN "rank-pattern", "\"rank_pattern\"");
    refuses_dir(GOLDEN "modules-to-save", "\"modules_to_save\"");
    refuses_dir(GOLDEN "lm-head", "lm_head");
}

/* Room for a whole adapter of the tiny model, with distinct values everywhere. */
static struct adapter_pair *make_pairs(const struct adapter_config *c, float seed)
{
    struct adapter_pair *pairs = calloc(2 * LINEAR_KINDS, sizeof *pairs);
    assert_non_null(pairs);
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        enum linear_kind k = (enum linear_kind)(i % LINEAR_KINDS);
        if (!c->target[k])
            continue;
        int64_t n_a = c->rank * linear_in(&tiny, k), n_b = c->rank * linear_out(&tiny, k);
        pairs[i].a = calloc((size_t)n_a, sizeof(float));
        pairs[i].b = calloc((size_t)n_b, sizeof(float));
        assert_true(pairs[i].a != NULL && pairs[i].b != NULL);
        for (int64_t j = 0; j < n_a; j++)
            pairs[i].a[j] = seed * (float)(i + 1) / (float)(j + 3);
        for (int64_t j = 0; j < n_b; j++)
            pairs[i].b[j] = -seed * (float)(j + 1) / (float)(i + 7);
    }
    return pairs;
}

static void free_pairs(struct adapter_pair *pairs)
{
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        free(pairs[i].a);
        free(pairs[i].b);
    }
    free(pairs);
}

static const struct adapter_config seven = {
    .rank = 3,
    .alpha = 6.5,
    .dropout = 0.05,
    .rslora = true,
    .target = {true, true, true, true, true, true, true},
    .base_name = "models/\"quoted\".gguf",
};

static void a_saved_adapter_is_loaded_back(void **state)
{
    (void)state;
    ft_error err;
    struct arena a = {0};
    struct adapter_config read;
    const char *dir = test_path("adapter-saved");
    struct adapter_pair *saved = make_pairs(&seven, 1), *loaded = make_pairs(&seven, 0);
    ASSERT_OK(dir_remove(dir, &err));
    ASSERT_OK(adapter_save(dir, &seven, &tiny, saved, &err));
    ASSERT_OK(adapter_load_config(&read, &a, dir, &err));
    assert_int_equal(read.rank, 3);
    assert_true(read.alpha == 6.5 && read.dropout == 0.05 && read.rslora);
    assert_memory_equal(read.target, seven.target, sizeof read.target);
    assert_string_equal(read.base_name, seven.base_name);
    ASSERT_OK(adapter_load(loaded, dir, &seven, &tiny, &err));
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        enum linear_kind k = (enum linear_kind)(i % LINEAR_KINDS);
        assert_memory_equal(loaded[i].a, saved[i].a, (size_t)(3 * linear_in(&tiny, k)) * 4);
        assert_memory_equal(loaded[i].b, saved[i].b, (size_t)(3 * linear_out(&tiny, k)) * 4);
    }
    free_pairs(saved);
    free_pairs(loaded);
    arena_destroy(&a);
}

static void saving_twice_gives_the_same_bytes_and_leaves_no_other_files(void **state)
{
    (void)state;
    ft_error err;
    struct arena a = {0};
    str first, second;
    const char **names;
    size_t n;
    const char *dir = test_path("adapter-twice");
    struct adapter_pair *pairs = make_pairs(&seven, 1);
    ASSERT_OK(dir_remove(dir, &err));
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    const char *path = path_join(&a, dir, "adapter_model.safetensors");
    ASSERT_OK(file_read_all(&first, &a, path, 1 << 20, &err));
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    ASSERT_OK(file_read_all(&second, &a, path, 1 << 20, &err));
    assert_true(str_eq(first, second));
    ASSERT_OK(dir_list(&names, &n, &a, dir, &err));
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "adapter_config.json");
    assert_string_equal(names[1], "adapter_model.safetensors");
    free_pairs(pairs);
    arena_destroy(&a);
}

static void the_written_config_is_sorted_and_holds_the_safe_set_of_keys(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "bias",
        "fan_in_fan_out",
        "inference_mode",
        "init_lora_weights",
        "layer_replication",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_alpha",
        "lora_dropout",
        "megatron_config",
        "megatron_core",
        "modules_to_save",
        "peft_type",
        "r",
        "rank_pattern",
        "revision",
        "target_modules",
        "task_type",
        "use_dora",
        "use_rslora",
    };
    ft_error err;
    struct json_doc *doc;
    char path[512];
    const char *dir = test_path("adapter-keys");
    struct adapter_pair *pairs = make_pairs(&seven, 1);
    size_t i = 0;
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    ASSERT_OK(json_load(&doc, path, JSON_STRICT, 1 << 16, &err));
    assert_int_equal(json_count(json_root(doc)), ARRAY_LEN(expected));
    for (const json *m = json_first(json_root(doc)); m != NULL; m = json_next(m), i++)
        assert_true(str_is(json_key(m), expected[i]));
    json_close(doc);
    free_pairs(pairs);
}

static void an_adapter_for_another_model_or_configuration_is_refused(void **state)
{
    (void)state;
    ft_error err;
    const char *dir = test_path("adapter-other");
    struct adapter_pair *pairs = make_pairs(&seven, 1);
    struct model_config deeper = tiny, wider = tiny;
    struct adapter_config rank = seven, fewer = seven;
    deeper.n_layers = 3;
    wider.intermediate = 64;
    rank.rank = 4;
    fewer.target[LIN_UP] = false;
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    ASSERT_FAILS(adapter_load(pairs, dir, &seven, &deeper, &err), FT_EFORMAT,
                 "2 layers, the model 3");
    ASSERT_FAILS(adapter_load(pairs, dir, &seven, &wider, &err), FT_EFORMAT,
                 "gate_proj maps 32 features to 48, the model's 32 to 64");
    ASSERT_FAILS(adapter_load(pairs, dir, &rank, &tiny, &err), FT_EFORMAT, "rank 3, expected 4");
    ASSERT_FAILS(adapter_load(pairs, dir, &fewer, &tiny, &err), FT_EFORMAT, "up_proj");
    free_pairs(pairs);
}

static void conversion_rounds_once_and_refuses_overflow(void **state)
{
    (void)state;
    ft_error err;
    struct adapter *ad, *half;
    float values[32 * 3];
    const char *dir = test_path("adapter-f32"), *half_dir = test_path("adapter-half");
    struct adapter_pair *pairs = make_pairs(&seven, 1);
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    ASSERT_OK(adapter_open(&ad, dir, &err));
    ASSERT_OK(adapter_convert(ad, half_dir, DT_BF16, &err));
    ASSERT_OK(adapter_open(&half, half_dir, &err));
    ASSERT_OK(adapter_read(half, values, 1, LIN_V, false, &err));
    for (int i = 0; i < 32 * 3; i++)
        assert_true(fabsf(values[i] - pairs[LINEAR_KINDS + LIN_V].a[i]) <=
                    fabsf(values[i]) * 0x1p-8f);
    adapter_close(half);
    adapter_close(ad);

    pairs[LIN_K].b[5] = 70000;
    ASSERT_OK(adapter_save(dir, &seven, &tiny, pairs, &err));
    ASSERT_OK(adapter_open(&ad, dir, &err));
    ASSERT_FAILS(adapter_convert(ad, half_dir, DT_F16, &err), FT_EFORMAT,
                 "layers.0.self_attn.k_proj.lora_B.weight");
    adapter_close(ad);
    free_pairs(pairs);
}

static void values_that_are_not_finite_are_not_saved(void **state)
{
    (void)state;
    ft_error err;
    const char *dir = test_path("adapter-nan");
    struct adapter_pair *pairs = make_pairs(&seven, 1);
    pairs[LIN_O].a[7] = NAN;
    ASSERT_OK(dir_remove(dir, &err));
    ASSERT_FAILS(adapter_save(dir, &seven, &tiny, pairs, &err), FT_EFORMAT,
                 "layers.0.self_attn.o_proj.lora_A.weight: element 7");
    assert_false(path_exists(test_path("adapter-nan/adapter_config.json")));
    assert_false(path_exists(test_path("adapter-nan/adapter_model.safetensors")));
    free_pairs(pairs);
}

/* --- hand-made tensor files ------------------------------------------------------------------ */

#define KEY(layer, name) "\"base_model.model.model.layers." layer ".self_attn." name ".weight\": "
#define F32(shape, from, to)                                                                       \
    "{\"dtype\": \"F32\", \"shape\": " shape ", \"data_offsets\": [" from ", " to "]}"

/* An adapter with r = 4 on q_proj whose tensor file has this header and data of one byte value. */
static const char *tensor_dir_filled(const char *header, size_t data_bytes, uint8_t value)
{
    ft_error err;
    struct buf b = {0};
    char path[512];
    const char *dir = config_dir(CONFIG(""));
    buf_u64le(&b, strlen(header));
    buf_cstr(&b, header);
    for (size_t i = 0; i < data_bytes; i++)
        buf_byte(&b, value);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    ASSERT_OK(file_publish(path, b.data, b.len, &err));
    buf_free(&b);
    return dir;
}

static const char *tensor_dir(const char *header, size_t data_bytes)
{
    return tensor_dir_filled(header, data_bytes, 0);
}

static void a_complete_hand_made_file_is_accepted(void **state)
{
    (void)state;
    struct adapter *ad;
    ft_error err;
    const char *dir = tensor_dir("{" KEY("0", "q_proj.lora_A")
                                     F32("[4, 8]", "0", "128") ", " KEY("0", "q_proj.lora_B")
                                         F32("[6, 4]", "128", "224") "}",
                                 224);
    ASSERT_OK(adapter_open(&ad, dir, &err));
    assert_int_equal(adapter_layers(ad), 1);
    assert_int_equal(adapter_in(ad, LIN_Q), 8);
    assert_int_equal(adapter_out(ad, LIN_Q), 6);
    adapter_close(ad);
}

static void values_that_are_not_finite_are_not_read(void **state)
{
    (void)state;
    struct adapter *ad;
    ft_error err;
    float values[32];
    const char *dir = tensor_dir_filled("{" KEY("0", "q_proj.lora_A")
                                            F32("[4, 8]", "0", "128") ", " KEY("0", "q_proj.lora_B")
                                                F32("[6, 4]", "128", "224") "}",
                                        224, 0xFF);
    ASSERT_OK(adapter_open(&ad, dir, &err));
    ASSERT_FAILS(adapter_read(ad, values, 0, LIN_Q, true, &err), FT_EFORMAT,
                 "q_proj.lora_B.weight: element 0 is not a finite number");
    adapter_close(ad);
}

static void missing_tensors_are_named(void **state)
{
    (void)state;
    refuses_dir(tensor_dir("{}", 0), "layers.0.self_attn.q_proj.lora_A.weight is missing");
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") F32("[4, 8]", "0", "128") "}", 128),
                "layers.0.self_attn.q_proj.lora_B.weight is missing");
    /* Two tensors, the number one layer has, but of layer 1. */
    refuses_dir(tensor_dir("{" KEY("1", "q_proj.lora_A") F32("[4, 8]", "0", "128") ", " KEY(
                               "1", "q_proj.lora_B") F32("[6, 4]", "128", "224") "}",
                           224),
                "layers.0.self_attn.q_proj.lora_A.weight is missing");
    refuses_dir(
        tensor_dir("{" KEY("2147483646", "q_proj.lora_A") F32("[4, 8]", "0", "128") "}", 128),
        "layers.0.self_attn.q_proj.lora_A.weight is missing");
}

static void unexpected_tensors_are_named(void **state)
{
    (void)state;
    static const char *const names[] = {
        "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight",
        "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
        "base_model.model.model.layers.00.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.-1.self_attn.q_proj.lora_A.weight",
        "base_model.model.model.layers.9223372036854775808.self_attn.q_proj.lora_A.weight",
        "base_model.model.lm_head.lora_A.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
    };
    char header[512], message[256];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(header, sizeof header, "{\"%s\": %s}", names[i], F32("[4, 8]", "0", "128"));
        snprintf(message, sizeof message, "tensor %s: unexpected", names[i]);
        refuses_dir(tensor_dir(header, 128), message);
    }
}

static void wrong_shapes_and_types_are_named(void **state)
{
    (void)state;
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") F32("[5, 8]", "0", "160") "}", 160),
                "expected the shape [4, 8], found [5, 8]");
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") F32("[32]", "0", "128") "}", 128),
                "expected 2 dimensions, found 1");
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") F32("[4, 0]", "0", "0") "}", 0),
                "lora_A.weight: expected the shape");
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") "{\"dtype\": \"I32\", \"shape\": [4, 8], "
                                                         "\"data_offsets\": [0, 128]}}",
                           128),
                "lora_A.weight");
    /* Layers that disagree. */
    refuses_dir(tensor_dir("{" KEY("0", "q_proj.lora_A") F32("[4, 8]", "0", "128") ", " KEY(
                               "1", "q_proj.lora_A") F32("[4, 9]", "128", "272") "}",
                           272),
                "expected the shape [4, 8], found [4, 9]");
}

static void pickle_files_are_refused_with_advice(void **state)
{
    (void)state;
    ft_error err;
    char path[512];
    const char *dir = test_path("adapter-pickle");
    ASSERT_OK(dir_create(dir, &err));
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    ASSERT_OK(file_publish(path, CONFIG(""), strlen(CONFIG("")), &err));
    snprintf(path, sizeof path, "%s/adapter_model.bin", dir);
    ASSERT_OK(file_publish(path, "x", 1, &err));
    refuses_dir(dir, "safe_serialization=True");
}

static void a_missing_directory_is_an_io_error(void **state)
{
    (void)state;
    struct adapter *ad;
    ft_error err;
    ASSERT_FAILS(adapter_open(&ad, test_path("adapter-nowhere"), &err), FT_EIO,
                 "adapter_config.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_of_a_minimal_adapter_is_read),
        cmocka_unit_test(every_unsupported_feature_is_refused_by_its_key),
        cmocka_unit_test(initialisations_that_change_the_base_are_refused),
        cmocka_unit_test(unused_and_informational_keys_are_accepted),
        cmocka_unit_test(targets_may_be_names_suffixes_full_paths_or_all_linear),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(scaling_is_alpha_over_rank_or_its_root),
        cmocka_unit_test(adapters_saved_by_peft_are_read_exactly),
        cmocka_unit_test(unsupported_adapters_saved_by_peft_are_refused),
        cmocka_unit_test(a_saved_adapter_is_loaded_back),
        cmocka_unit_test(saving_twice_gives_the_same_bytes_and_leaves_no_other_files),
        cmocka_unit_test(the_written_config_is_sorted_and_holds_the_safe_set_of_keys),
        cmocka_unit_test(an_adapter_for_another_model_or_configuration_is_refused),
        cmocka_unit_test(conversion_rounds_once_and_refuses_overflow),
        cmocka_unit_test(values_that_are_not_finite_are_not_saved),
        cmocka_unit_test(values_that_are_not_finite_are_not_read),
        cmocka_unit_test(a_complete_hand_made_file_is_accepted),
        cmocka_unit_test(missing_tensors_are_named),
        cmocka_unit_test(unexpected_tensors_are_named),
        cmocka_unit_test(wrong_shapes_and_types_are_named),
        cmocka_unit_test(pickle_files_are_refused_with_advice),
        cmocka_unit_test(a_missing_directory_is_an_io_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
