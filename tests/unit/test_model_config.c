/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/model_config.h"

#include <math.h>

#include "tests/support/check.h"
#include "tests/support/gguf_bytes.h"

static ft_status from_text(struct model_config *out, const char *text, ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_parse(&doc, "config", str_from(text), JSON_STRICT, err));
    ft_status st = model_config_from_hf(out, json_root(doc), err);
    json_close(doc);
    return st;
}

#define SHAPE                                                                                      \
    "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,"                        \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":100,"                       \
    "\"max_position_embeddings\":512,\"rms_norm_eps\":1e-5"
#define CONFIG(type, more) "{\"model_type\":\"" type "\"," SHAPE more "}"

static void a_llama_3_config_is_understood(void **state)
{
    struct model_config c;
    ft_error err;
    (void)state;
    ASSERT_OK(from_text(&c,
                        CONFIG("llama", ",\"rope_theta\":500000.0,\"bos_token_id\":3,"
                                        "\"eos_token_id\":[7,8],\"tie_word_embeddings\":true,"
                                        "\"torch_dtype\":\"bfloat16\",\"hidden_act\":\"silu\","
                                        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
                                        "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                                        "\"original_max_position_embeddings\":256}"),
                        &err));
    assert_string_equal(c.architecture, "llama");
    assert_true(c.hidden == 64 && c.n_layers == 2 && c.n_heads == 4 && c.n_kv_heads == 2);
    assert_true(c.head_dim == 16 && c.intermediate == 96 && c.vocab == 100);
    assert_true(c.rope_theta == 500000 && c.rms_eps == 1e-5 && c.max_positions == 512);
    assert_true(c.rope_scaling == ROPE_LLAMA3 && c.rope_factor == 8);
    assert_true(c.rope_original_positions == 256 && c.rope_high_freq_factor == 4);
    assert_true(c.tied_head && !c.attention_bias && !c.output_bias && !c.mlp_bias);
    assert_true(c.bos_id == 3 && c.eos_id == 7 && c.sliding_window == 0);
}

static void rope_parameters_of_transformers_5_are_read(void **state)
{
    struct model_config c;
    ft_error err;
    (void)state;
    ASSERT_OK(from_text(&c,
                        CONFIG("llama", ",\"dtype\":\"float32\",\"rope_parameters\":"
                                        "{\"rope_theta\":1234.5,\"rope_type\":\"default\"}"),
                        &err));
    assert_true(c.rope_theta == 1234.5 && c.rope_scaling == ROPE_PLAIN);
    ASSERT_OK(from_text(&c,
                        CONFIG("llama", ",\"rope_theta\":5,\"rope_scaling\":"
                                        "{\"type\":\"linear\",\"factor\":2.5}"),
                        &err));
    assert_true(c.rope_theta == 5 && c.rope_scaling == ROPE_LINEAR && c.rope_factor == 2.5);
    ASSERT_OK(from_text(&c, CONFIG("llama", ",\"rope_scaling\":null"), &err));
    assert_true(c.rope_theta == 10000 && c.rope_scaling == ROPE_PLAIN);
}

static void biases_and_windows_follow_the_architecture(void **state)
{
    struct model_config c;
    ft_error err;
    (void)state;
    ASSERT_OK(from_text(&c, CONFIG("llama", ",\"attention_bias\":true,\"mlp_bias\":true"), &err));
    assert_true(c.attention_bias && c.output_bias && c.mlp_bias && !c.tied_head);
    assert_true(linear_has_bias(&c, LIN_O) && linear_has_bias(&c, LIN_DOWN));
    ASSERT_OK(from_text(&c, CONFIG("qwen2", ",\"sliding_window\":99"), &err));
    assert_true(c.attention_bias && !c.output_bias && !c.mlp_bias && c.sliding_window == 0);
    assert_true(linear_has_bias(&c, LIN_V) && !linear_has_bias(&c, LIN_O));
    ASSERT_OK(
        from_text(&c, CONFIG("qwen2", ",\"sliding_window\":99,\"use_sliding_window\":true"), &err));
    assert_int_equal(c.sliding_window, 99);
    ASSERT_OK(from_text(&c, CONFIG("mistral", ",\"sliding_window\":77,\"head_dim\":32"), &err));
    assert_true(c.sliding_window == 77 && c.head_dim == 32 && !c.attention_bias);
    assert_true(linear_out(&c, LIN_Q) == 128 && linear_out(&c, LIN_K) == 64);
    assert_true(linear_in(&c, LIN_O) == 128 && linear_out(&c, LIN_O) == 64);
    ASSERT_OK(from_text(&c, CONFIG("mistral", ",\"sliding_window\":null,\"head_dim\":null"), &err));
    assert_true(c.sliding_window == 0 && c.head_dim == 16);
    ASSERT_OK(from_text(&c, CONFIG("mistral", ""), &err));
    assert_int_equal(c.sliding_window, 4096);
}

static void what_cannot_be_computed_is_refused_by_key(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[]", "expected an object"},
        {"{" SHAPE "}", "\"model_type\" is missing"},
        {CONFIG("gemma2", ""), "\"model_type\": \"gemma2\" is not supported, only llama"},
        {CONFIG("llama", ",\"hidden_act\":\"gelu\""), "\"hidden_act\": \"gelu\""},
        {CONFIG("llama", ",\"quantization_config\":{\"bits\":4}"), "\"quantization_config\""},
        {CONFIG("llama", ",\"partial_rotary_factor\":0.5"), "\"partial_rotary_factor\""},
        {CONFIG("llama", ",\"rope_parameters\":{\"partial_rotary_factor\":0.5}"),
         "\"partial_rotary_factor\""},
        {CONFIG("llama", ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}"),
         "RoPE scaling \"yarn\" is not supported"},
        {CONFIG("llama", ",\"rope_scaling\":{\"type\":\"linear\"}"), "factor of rope_scaling"},
        {CONFIG("llama", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}"), "is -1"},
        {CONFIG("llama", ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}"),
         "\"original_max_position_embeddings\" is missing"},
        {CONFIG("llama",
                ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
                "\"high_freq_factor\":4,\"original_max_position_embeddings\":8192}"),
         "high_freq_factor must be above"},
        {CONFIG("llama", ",\"rope_scaling\":[]"), "\"rope_scaling\": expected an object"},
        {CONFIG("llama", ",\"rope_theta\":0"), "rope_theta is 0"},
        {CONFIG("llama", ",\"rope_theta\":\"x\""), "\"rope_theta\": expected a number"},
        {CONFIG("llama", ",\"head_dim\":15"), "head_dim is 15, expected an even number"},
        {CONFIG("llama", ",\"bos_token_id\":100"), "outside the vocabulary"},
        {CONFIG("llama", ",\"eos_token_id\":\"a\""), "\"eos_token_id\": expected a token id"},
        {CONFIG("llama", ",\"attention_bias\":1"), "\"attention_bias\": expected true or false"},
        {"{\"model_type\":\"llama\",\"hidden_size\":0}", "\"hidden_size\": 0 is not"},
        {"{\"model_type\":\"llama\",\"hidden_size\":1e300}", "\"hidden_size\""},
        {"{\"model_type\":\"llama\",\"hidden_size\":64}", "\"num_hidden_layers\" is missing"},
    };
    struct model_config c;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ASSERT_FAILS(from_text(&c, cases[i].text, &err), FT_EFORMAT, cases[i].message);
    ASSERT_OK(from_text(&c, CONFIG("llama", ""), &err));
    c.n_kv_heads = 3;
    ASSERT_FAILS(model_config_check(&c, &err), FT_EFORMAT, "is not a multiple of");
    c.n_kv_heads = 5;
    ASSERT_FAILS(model_config_check(&c, &err), FT_EFORMAT, "num_key_value_heads is 5");
    ASSERT_OK(from_text(&c, CONFIG("llama", ""), &err));
    c.output_bias = true;
    ASSERT_FAILS(model_config_check(&c, &err), FT_EFORMAT, "do not have biases on this set");
}

static void what_is_written_reads_back(void **state)
{
    static const char *const texts[] = {
        CONFIG("llama", ",\"rope_theta\":500000.0,\"bos_token_id\":3,\"tie_word_embeddings\":true"),
        CONFIG("llama", ",\"attention_bias\":true,\"mlp_bias\":true,\"rope_scaling\":"
                        "{\"rope_type\":\"llama3\",\"factor\":8.1,\"low_freq_factor\":1,"
                        "\"high_freq_factor\":4,\"original_max_position_embeddings\":256}"),
        CONFIG("mistral", ",\"sliding_window\":77,\"head_dim\":32,\"eos_token_id\":9"),
        CONFIG("mistral", ",\"sliding_window\":null"),
        CONFIG("qwen2", ",\"use_sliding_window\":true,\"sliding_window\":11"),
        CONFIG("qwen2", ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":3}"),
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct model_config first, again;
        struct buf b = {0};
        ft_error err;
        memset(&first, 0, sizeof first);
        memset(&again, 0, sizeof again);
        ASSERT_OK(from_text(&first, texts[i], &err));
        model_config_to_hf(&b, &first);
        buf_byte(&b, '\0');
        ASSERT_OK(from_text(&again, (const char *)b.data, &err));
        struct buf second = {0};
        model_config_to_hf(&second, &again);
        buf_byte(&second, '\0');
        assert_string_equal((const char *)second.data, (const char *)b.data);
        assert_true(again.rope_theta == first.rope_theta && again.rms_eps == first.rms_eps);
        assert_true(again.rope_factor == first.rope_factor && again.head_dim == first.head_dim);
        assert_true(again.sliding_window == first.sliding_window);
        assert_true(again.output_bias == first.output_bias && again.eos_id == first.eos_id);
        buf_free(&b);
        buf_free(&second);
    }
}

static void assert_near(double found, double expected)
{
    if (fabs(found / expected - 1) > 1e-6)
        fail_msg("%.9g, expected %.9g", found, expected);
}

static void inverse_frequencies_have_their_known_values(void **state)
{
    struct model_config c = {.head_dim = 128, .rope_theta = 500000};
    float f[64], scaled[64];
    (void)state;
    model_config_inv_freq(f, &c);
    assert_true(f[0] == 1.0f);
    assert_near(f[1], 0.8146172165870667);
    assert_near(f[2], 0.663601279258728);
    assert_near(f[31], 0.0017360467463731766);
    assert_near(f[32], 0.001414213445968926);
    assert_near(f[63], 2.4551407022954663e-06);
    c.rope_scaling = ROPE_LINEAR;
    c.rope_factor = 4;
    model_config_inv_freq(scaled, &c);
    assert_true(scaled[0] == 0.25f);
    assert_near(scaled[63], f[63] / 4);
    /* Llama 3.1: short wavelengths kept, long ones divided by 8, a ramp between. */
    c.rope_scaling = ROPE_LLAMA3;
    c.rope_factor = 8;
    c.rope_low_freq_factor = 1;
    c.rope_high_freq_factor = 4;
    c.rope_original_positions = 8192;
    model_config_inv_freq(scaled, &c);
    assert_true(scaled[0] == 1.0f && scaled[28] == f[28]);
    assert_near(scaled[63], f[63] / 8);
    assert_near(scaled[36], f[36] / 8);
    for (int i = 1; i < 64; i++)
        assert_true(scaled[i] < scaled[i - 1] && scaled[i] <= f[i] && scaled[i] >= f[i] * 0.1249f);
}

static void the_tensor_list_is_complete_and_in_order(void **state)
{
    struct model_config c;
    struct model_tensor t;
    ft_error err;
    (void)state;
    ASSERT_OK(from_text(&c, CONFIG("qwen2", ""), &err));
    static const char *const first[] = {
        "model.embed_tokens.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.k_proj.bias",
        "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.self_attn.v_proj.bias",
        "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.mlp.gate_proj.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.0.mlp.down_proj.weight",
        "model.layers.1.input_layernorm.weight",
    };
    assert_int_equal(model_tensors(&c), 1 + 2 * 12 + 2);
    for (size_t i = 0; i < ARRAY_LEN(first); i++) {
        model_tensor_at(&t, &c, (int64_t)i);
        assert_string_equal(t.name, first[i]);
    }
    model_tensor_at(&t, &c, 5);
    assert_true(t.n_dims == 1 && t.shape[0] == 32 && t.shape[1] == 1 && t.kind == LIN_K);
    assert_false(t.is_linear);
    model_tensor_at(&t, &c, 12);
    assert_true(t.is_linear && t.shape[0] == 64 && t.shape[1] == 96 && t.layer == 0);
    model_tensor_at(&t, &c, 25);
    assert_string_equal(t.name, "model.norm.weight");
    model_tensor_at(&t, &c, 26);
    assert_string_equal(t.name, "lm_head.weight");
    c.tied_head = true;
    assert_int_equal(model_tensors(&c), 26);
}

/* --- GGUF ------------------------------------------------------------------------------------ */

struct gguf_case {
    const char *arch;
    bool output, q_bias, o_bias;
    const char *scaling;
    float theta;
    float rope_freqs[32]; /* head_dim 64; all 0 = no such tensor */
    uint32_t window, experts;
};

static void put_key(struct buf *b, uint64_t *n, const char *arch, const char *key, uint32_t v)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    gguf_put_u32(b, full, v);
    (*n)++;
}

static void put_vector(struct buf *b, uint64_t *n, uint64_t *offset, const char *name)
{
    gguf_put_tensor(b, name, 1, (uint64_t[]){32}, 0, *offset);
    *offset += 128;
    (*n)++;
}

static ft_status from_gguf(struct model_config *out, const struct gguf_case *c, ft_error *err)
{
    struct buf b = {0};
    uint64_t n_keys = 2, n_tensors = 1, offset = 128;
    struct gguf *g;
    char key[96];
    gguf_put_header(&b, 3, 0, 0);
    gguf_put_str(&b, "general.architecture", c->arch);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", c->arch);
    gguf_put_f32(&b, key, 1e-5f);
    put_key(&b, &n_keys, c->arch, "embedding_length", 128);
    put_key(&b, &n_keys, c->arch, "block_count", 2);
    put_key(&b, &n_keys, c->arch, "attention.head_count", 2);
    put_key(&b, &n_keys, c->arch, "attention.head_count_kv", 1);
    put_key(&b, &n_keys, c->arch, "feed_forward_length", 256);
    put_key(&b, &n_keys, c->arch, "context_length", 1024);
    if (c->window > 0)
        put_key(&b, &n_keys, c->arch, "attention.sliding_window", c->window);
    if (c->experts > 0)
        put_key(&b, &n_keys, c->arch, "expert_count", c->experts);
    if (c->theta > 0) {
        snprintf(key, sizeof key, "%s.rope.freq_base", c->arch);
        gguf_put_f32(&b, key, c->theta);
        n_keys++;
    }
    if (c->scaling != NULL) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", c->arch);
        gguf_put_str(&b, key, c->scaling);
        snprintf(key, sizeof key, "%s.rope.scaling.factor", c->arch);
        gguf_put_f32(&b, key, 2);
        n_keys += 2;
    }
    gguf_put_tensor(&b, "token_embd.weight", 2, (uint64_t[]){1, 32}, 0, 0);
    if (c->rope_freqs[0] != 0)
        put_vector(&b, &n_tensors, &offset, "rope_freqs.weight");
    if (c->output)
        put_vector(&b, &n_tensors, &offset, "output.weight");
    if (c->q_bias)
        put_vector(&b, &n_tensors, &offset, "blk.0.attn_q.bias");
    if (c->o_bias)
        put_vector(&b, &n_tensors, &offset, "blk.0.attn_output.bias");
    buf_pad(&b, 32);
    for (uint64_t i = 0; i < offset; i++)
        buf_byte(&b, 0);
    memcpy(b.data + b.len - offset + 128, c->rope_freqs,
           c->rope_freqs[0] != 0 ? sizeof c->rope_freqs : 0);
    store_u64le(b.data + 8, n_tensors);
    store_u64le(b.data + 16, n_keys);
    ft_status st = gguf_parse(&g, "g", b.data, b.len, err);
    if (st == FT_OK)
        st = model_config_from_gguf(out, g, err);
    gguf_close(g);
    buf_free(&b);
    return st;
}

static void gguf_metadata_gives_the_same_configuration(void **state)
{
    struct model_config c;
    ft_error err;
    (void)state;
    ASSERT_OK(from_gguf(&c, &(struct gguf_case){.arch = "llama", .theta = 500000}, &err));
    assert_string_equal(c.architecture, "llama");
    assert_true(c.hidden == 128 && c.n_layers == 2 && c.n_heads == 2 && c.n_kv_heads == 1);
    assert_true(c.head_dim == 64 && c.intermediate == 256 && c.vocab == 32);
    assert_true(c.rope_theta == 500000 && c.rms_eps == (double)1e-5f && c.max_positions == 1024);
    assert_true(c.tied_head && !c.attention_bias && c.bos_id == -1 && c.eos_id == -1);
    ASSERT_OK(
        from_gguf(&c, &(struct gguf_case){.arch = "llama", .output = true, .window = 99}, &err));
    assert_string_equal(c.architecture, "mistral");
    assert_true(!c.tied_head && c.sliding_window == 99 && c.rope_theta == 10000);
    ASSERT_OK(from_gguf(
        &c, &(struct gguf_case){.arch = "qwen2", .q_bias = true, .scaling = "linear"}, &err));
    assert_true(c.attention_bias && !c.output_bias && c.rope_scaling == ROPE_LINEAR);
    assert_true(c.rope_factor == 2);
    ASSERT_OK(
        from_gguf(&c, &(struct gguf_case){.arch = "llama", .q_bias = true, .o_bias = true}, &err));
    assert_true(c.attention_bias && c.output_bias);
}

static void llama_3_divisors_are_recognised(void **state)
{
    struct gguf_case g = {.arch = "llama", .theta = 500000};
    struct model_config c, expected = {.head_dim = 64,
                                       .rope_theta = 500000,
                                       .rope_scaling = ROPE_LLAMA3,
                                       .rope_factor = 32,
                                       .rope_low_freq_factor = 1,
                                       .rope_high_freq_factor = 4,
                                       .rope_original_positions = 8192};
    float plain[32], scaled[32], found[32];
    ft_error err;
    (void)state;
    model_config_inv_freq(scaled, &expected);
    expected.rope_scaling = ROPE_PLAIN;
    model_config_inv_freq(plain, &expected);
    for (int i = 0; i < 32; i++)
        g.rope_freqs[i] = plain[i] / scaled[i];
    ASSERT_OK(from_gguf(&c, &g, &err));
    assert_true(c.rope_scaling == ROPE_LLAMA3 && c.rope_factor == 32);
    model_config_inv_freq(found, &c);
    assert_memory_equal(found, scaled, sizeof found);
    g.rope_freqs[20] *= 1.01f;
    ASSERT_FAILS(from_gguf(&c, &g, &err), FT_EFORMAT, "rope_freqs.weight does not hold");
}

static void unsupported_gguf_models_are_refused_by_key(void **state)
{
    struct model_config c;
    ft_error err;
    (void)state;
    ASSERT_FAILS(from_gguf(&c, &(struct gguf_case){.arch = "gemma"}, &err), FT_EFORMAT,
                 "g: general.architecture is \"gemma\"");
    ASSERT_FAILS(from_gguf(&c, &(struct gguf_case){.arch = "llama", .experts = 8}, &err),
                 FT_EFORMAT, "llama.expert_count");
    ASSERT_FAILS(from_gguf(&c, &(struct gguf_case){.arch = "llama", .scaling = "yarn"}, &err),
                 FT_EFORMAT, "llama.rope.scaling.type is \"yarn\"");
    ASSERT_FAILS(from_gguf(&c, &(struct gguf_case){.arch = "qwen2"}, &err), FT_EFORMAT,
                 "g: qwen2 models do not have biases on this set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_3_config_is_understood),
        cmocka_unit_test(rope_parameters_of_transformers_5_are_read),
        cmocka_unit_test(biases_and_windows_follow_the_architecture),
        cmocka_unit_test(what_cannot_be_computed_is_refused_by_key),
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(inverse_frequencies_have_their_known_values),
        cmocka_unit_test(the_tensor_list_is_complete_and_in_order),
        cmocka_unit_test(gguf_metadata_gives_the_same_configuration),
        cmocka_unit_test(llama_3_divisors_are_recognised),
        cmocka_unit_test(unsupported_gguf_models_are_refused_by_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
