/* SPDX-License-Identifier: Apache-2.0
 * Everything that would change the computation is either understood or refused by its key. */
#include "formats/model_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/half.h"

enum { MAX_EXTENT = 1 << 24, MAX_LAYERS = 4096, MAX_POSITIONS = 1 << 30 };

static bool is_arch(const struct model_config *c, const char *name)
{
    return strcmp(c->architecture, name) == 0;
}

/* --- linear layers and tensors ---------------------------------------------------------------- */

const char *const linear_names[LINEAR_KINDS] = {
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
};

void linear_module(char dst[96], int64_t layer, enum linear_kind k)
{
    snprintf(dst, 96, "model.layers.%" PRId64 ".%s.%s", layer, k <= LIN_O ? "self_attn" : "mlp",
             linear_names[k]);
}

int64_t linear_in(const struct model_config *c, enum linear_kind k)
{
    if (k == LIN_O)
        return c->n_heads * c->head_dim;
    return k == LIN_DOWN ? c->intermediate : c->hidden;
}

int64_t linear_out(const struct model_config *c, enum linear_kind k)
{
    switch (k) {
    case LIN_Q:
        return c->n_heads * c->head_dim;
    case LIN_K:
    case LIN_V:
        return c->n_kv_heads * c->head_dim;
    case LIN_GATE:
    case LIN_UP:
        return c->intermediate;
    default:
        return c->hidden;
    }
}

bool linear_has_bias(const struct model_config *c, enum linear_kind k)
{
    if (k == LIN_O)
        return c->output_bias;
    return k < LIN_O ? c->attention_bias : c->mlp_bias;
}

/* One block: the norm in front of attention, its linears, the norm in front of the MLP, its
 * linears; a bias follows its weight. */
static int64_t tensors_per_layer(const struct model_config *c)
{
    int64_t n = 2 + LINEAR_KINDS;
    for (int k = 0; k < LINEAR_KINDS; k++)
        n += linear_has_bias(c, (enum linear_kind)k);
    return n;
}

int64_t model_tensors(const struct model_config *c)
{
    return 2 + c->n_layers * tensors_per_layer(c) + !c->tied_head;
}

static void set_tensor(struct model_tensor *t, const char *name, int n_dims, int64_t rows,
                       int64_t cols)
{
    *t = (struct model_tensor){.n_dims = n_dims, .shape = {rows, cols}, .layer = -1, .kind = -1};
    snprintf(t->name, sizeof t->name, "%s", name);
}

static void set_norm(struct model_tensor *t, const struct model_config *c, int64_t layer,
                     const char *which)
{
    set_tensor(t, "", 1, c->hidden, 1);
    snprintf(t->name, sizeof t->name, "model.layers.%" PRId64 ".%s.weight", layer, which);
    t->layer = layer;
}

static void set_linear(struct model_tensor *t, const struct model_config *c, int64_t layer,
                       enum linear_kind k, bool bias)
{
    char module[96];
    linear_module(module, layer, k);
    set_tensor(t, "", bias ? 1 : 2, linear_out(c, k), bias ? 1 : linear_in(c, k));
    snprintf(t->name, sizeof t->name, "%.80s.%s", module, bias ? "bias" : "weight");
    t->layer = layer;
    t->kind = (int)k;
    t->is_linear = !bias;
}

static void layer_tensor(struct model_tensor *out, const struct model_config *c, int64_t layer,
                         int64_t slot)
{
    for (int k = 0; k < LINEAR_KINDS; k++) {
        if (k == LIN_Q || k == LIN_GATE)
            if (slot-- == 0) {
                set_norm(out, c, layer,
                         k == LIN_Q ? "input_layernorm" : "post_attention_layernorm");
                return;
            }
        int64_t n = 1 + linear_has_bias(c, (enum linear_kind)k);
        if (slot < n) {
            set_linear(out, c, layer, (enum linear_kind)k, slot == 1);
            return;
        }
        slot -= n;
    }
    FT_ASSERT(slot < 0);
}

void model_tensor_at(struct model_tensor *out, const struct model_config *c, int64_t i)
{
    int64_t per_layer = tensors_per_layer(c), after = i - 1 - c->n_layers * per_layer;
    FT_ASSERT(i >= 0 && i < model_tensors(c));
    if (i == 0)
        set_tensor(out, "model.embed_tokens.weight", 2, c->vocab, c->hidden);
    else if (after < 0)
        layer_tensor(out, c, (i - 1) / per_layer, (i - 1) % per_layer);
    else if (after == 0)
        set_tensor(out, "model.norm.weight", 1, c->hidden, 1);
    else
        set_tensor(out, "lm_head.weight", 2, c->vocab, c->hidden);
}

/* --- checks ----------------------------------------------------------------------------------- */

static ft_status check_extent(int64_t v, int64_t max, const char *what, ft_error *err)
{
    if (v >= 1 && v <= max)
        return FT_OK;
    return ft_fail(err, FT_EFORMAT, "%s is %" PRId64 ", expected 1 to %" PRId64, what, v, max);
}

static ft_status check_positive(double v, const char *what, ft_error *err)
{
    if (isfinite(v) && v > 0)
        return FT_OK;
    return ft_fail(err, FT_EFORMAT, "%s is %g, expected a positive number", what, v);
}

/* Biases and windows must be ones that the architecture's config.json can express. */
static ft_status check_architecture(const struct model_config *c, ft_error *err)
{
    bool llama = is_arch(c, "llama"), qwen2 = is_arch(c, "qwen2");
    bool biases = llama ? c->output_bias == c->attention_bias
                        : c->attention_bias == qwen2 && !c->output_bias && !c->mlp_bias;
    if (!llama && !qwen2 && !is_arch(c, "mistral"))
        return ft_fail(err, FT_EFORMAT, "architecture \"%s\" is not supported", c->architecture);
    if (!biases)
        return ft_fail(err, FT_EFORMAT, "%s models do not have biases on this set of linear layers",
                       c->architecture);
    if (c->sliding_window < 0 || c->sliding_window > MAX_POSITIONS ||
        (llama && c->sliding_window != 0))
        return ft_fail(err, FT_EFORMAT, "sliding_window is %" PRId64 " in a %s model",
                       c->sliding_window, c->architecture);
    return FT_OK;
}

static ft_status check_scaling(const struct model_config *c, ft_error *err)
{
    if (c->rope_scaling == ROPE_PLAIN)
        return FT_OK;
    FT_TRY(check_positive(c->rope_factor, "the factor of rope_scaling", err));
    if (c->rope_scaling == ROPE_LINEAR)
        return FT_OK;
    FT_TRY(check_positive(c->rope_low_freq_factor, "low_freq_factor", err));
    FT_TRY(check_positive(c->rope_high_freq_factor, "high_freq_factor", err));
    if (c->rope_high_freq_factor <= c->rope_low_freq_factor)
        return ft_fail(err, FT_EFORMAT, "high_freq_factor must be above low_freq_factor");
    return check_extent(c->rope_original_positions, MAX_POSITIONS,
                        "original_max_position_embeddings", err);
}

ft_status model_config_check(const struct model_config *c, ft_error *err)
{
    FT_TRY(check_architecture(c, err));
    FT_TRY(check_extent(c->hidden, MAX_EXTENT, "hidden_size", err));
    FT_TRY(check_extent(c->n_layers, MAX_LAYERS, "num_hidden_layers", err));
    FT_TRY(check_extent(c->n_heads, 65536, "num_attention_heads", err));
    FT_TRY(check_extent(c->n_kv_heads, c->n_heads, "num_key_value_heads", err));
    FT_TRY(check_extent(c->head_dim, 65536, "head_dim", err));
    FT_TRY(
        check_extent(c->n_heads * c->head_dim, MAX_EXTENT, "num_attention_heads * head_dim", err));
    FT_TRY(check_extent(c->intermediate, MAX_EXTENT, "intermediate_size", err));
    FT_TRY(check_extent(c->vocab, MAX_EXTENT, "vocab_size", err));
    FT_TRY(check_extent(c->max_positions, MAX_POSITIONS, "max_position_embeddings", err));
    if (c->n_heads % c->n_kv_heads != 0)
        return ft_fail(err, FT_EFORMAT,
                       "num_attention_heads (%" PRId64
                       ") is not a multiple of num_key_value_heads (%" PRId64 ")",
                       c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2 != 0)
        return ft_fail(err, FT_EFORMAT, "head_dim is %" PRId64 ", expected an even number",
                       c->head_dim);
    if (c->bos_id < -1 || c->bos_id >= c->vocab || c->eos_id < -1 || c->eos_id >= c->vocab)
        return ft_fail(err, FT_EFORMAT, "bos_token_id or eos_token_id is outside the vocabulary");
    FT_TRY(check_positive(c->rms_eps, "rms_norm_eps", err));
    FT_TRY(check_positive(c->rope_theta, "rope_theta", err));
    return check_scaling(c, err);
}

/* --- RoPE ------------------------------------------------------------------------------------- */

/* Llama 3: long wavelengths are stretched by the factor, short ones kept, those between blended. */
static double llama3_frequency(const struct model_config *c, double f)
{
    double context = (double)c->rope_original_positions;
    double wavelength = 2 * 3.14159265358979323846 / f;
    if (wavelength > context / c->rope_low_freq_factor)
        return f / c->rope_factor;
    if (wavelength < context / c->rope_high_freq_factor)
        return f;
    double smooth = (context / wavelength - c->rope_low_freq_factor) /
                    (c->rope_high_freq_factor - c->rope_low_freq_factor);
    return (1 - smooth) * f / c->rope_factor + smooth * f;
}

void model_config_inv_freq(float *dst, const struct model_config *c)
{
    for (int64_t i = 0; i < c->head_dim / 2; i++) {
        double f = pow(c->rope_theta, -2.0 * (double)i / (double)c->head_dim);
        if (c->rope_scaling == ROPE_LINEAR)
            f /= c->rope_factor;
        else if (c->rope_scaling == ROPE_LLAMA3)
            f = llama3_frequency(c, f);
        dst[i] = (float)f;
    }
}

/* --- Hugging Face config.json ----------------------------------------------------------------- */

static ft_status read_architecture(struct model_config *out, const json *config, ft_error *err)
{
    str type;
    FT_TRY(json_need_str(&type, config, "model_type", err));
    if (!str_is(type, "llama") && !str_is(type, "mistral") && !str_is(type, "qwen2"))
        return ft_fail(err, FT_EFORMAT,
                       "\"model_type\": \"%.*s\" is not supported, only llama, mistral and qwen2",
                       STR_ARG(type));
    memcpy(out->architecture, type.ptr, type.len);
    return FT_OK;
}

/* Keys whose effect is not implemented: absent, null, or the value that switches them off. */
static ft_status refuse_unsupported(const json *config, ft_error *err)
{
    const json *quantized = json_get(config, "quantization_config");
    str act = STR("silu");
    double partial;
    if (quantized != NULL && json_kind(quantized) != JSON_NULL)
        return ft_fail(err, FT_EFORMAT,
                       "\"quantization_config\": the weights are already "
                       "quantised; use the original checkpoint");
    FT_TRY(json_opt_f64(&partial, config, "partial_rotary_factor", 1, err));
    if (partial != 1)
        return ft_fail(err, FT_EFORMAT, "\"partial_rotary_factor\": only 1 is supported");
    if (json_get(config, "hidden_act") != NULL)
        FT_TRY(json_need_str(&act, config, "hidden_act", err));
    if (!str_is(act, "silu") && !str_is(act, "swish"))
        return ft_fail(err, FT_EFORMAT, "\"hidden_act\": \"%.*s\" is not supported, only silu",
                       STR_ARG(act));
    return FT_OK;
}

static ft_status read_llama3(struct model_config *out, const json *rope, ft_error *err)
{
    out->rope_scaling = ROPE_LLAMA3;
    FT_TRY(json_opt_f64(&out->rope_factor, rope, "factor", 0, err));
    FT_TRY(json_opt_f64(&out->rope_low_freq_factor, rope, "low_freq_factor", 0, err));
    FT_TRY(json_opt_f64(&out->rope_high_freq_factor, rope, "high_freq_factor", 0, err));
    return json_need_i64(&out->rope_original_positions, rope, "original_max_position_embeddings", 1,
                         MAX_POSITIONS, err);
}

static ft_status read_scaling(struct model_config *out, const json *rope, ft_error *err)
{
    str type = STR("default");
    const char *key = json_get(rope, "rope_type") != NULL ? "rope_type" : "type";
    if (json_get(rope, key) != NULL)
        FT_TRY(json_need_str(&type, rope, key, err));
    if (str_is(type, "default"))
        return FT_OK;
    if (str_is(type, "llama3"))
        return read_llama3(out, rope, err);
    if (!str_is(type, "linear"))
        return ft_fail(err, FT_EFORMAT,
                       "RoPE scaling \"%.*s\" is not supported, only default, linear and llama3",
                       STR_ARG(type));
    out->rope_scaling = ROPE_LINEAR;
    return json_opt_f64(&out->rope_factor, rope, "factor", 0, err);
}

/* Up to transformers 4: rope_theta and rope_scaling. From 5 on: rope_parameters with both. */
static ft_status read_rope(struct model_config *out, const json *config, ft_error *err)
{
    const json *rope = json_get(config, "rope_parameters");
    if (rope == NULL || json_kind(rope) == JSON_NULL)
        rope = json_get(config, "rope_scaling");
    FT_TRY(json_opt_f64(&out->rope_theta, config, "rope_theta", 10000, err));
    if (rope == NULL || json_kind(rope) == JSON_NULL)
        return FT_OK;
    if (json_kind(rope) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "\"rope_scaling\": expected an object, found %s",
                       json_kind_name(json_kind(rope)));
    double partial;
    FT_TRY(json_opt_f64(&partial, rope, "partial_rotary_factor", 1, err));
    if (partial != 1)
        return ft_fail(err, FT_EFORMAT, "\"partial_rotary_factor\": only 1 is supported");
    FT_TRY(json_opt_f64(&out->rope_theta, rope, "rope_theta", out->rope_theta, err));
    return read_scaling(out, rope, err);
}

static ft_status read_shape(struct model_config *out, const json *config, ft_error *err)
{
    FT_TRY(json_need_i64(&out->hidden, config, "hidden_size", 1, MAX_EXTENT, err));
    FT_TRY(json_need_i64(&out->n_layers, config, "num_hidden_layers", 1, MAX_LAYERS, err));
    FT_TRY(json_need_i64(&out->n_heads, config, "num_attention_heads", 1, 65536, err));
    FT_TRY(
        json_opt_i64(&out->n_kv_heads, config, "num_key_value_heads", out->n_heads, 1, 65536, err));
    FT_TRY(json_need_i64(&out->intermediate, config, "intermediate_size", 1, MAX_EXTENT, err));
    FT_TRY(json_need_i64(&out->vocab, config, "vocab_size", 1, MAX_EXTENT, err));
    FT_TRY(json_need_i64(&out->max_positions, config, "max_position_embeddings", 1, MAX_POSITIONS,
                         err));
    return json_opt_i64(&out->head_dim, config, "head_dim", out->hidden / out->n_heads, 1, 65536,
                        err);
}

/* Mistral attends within sliding_window unless it is null; Qwen2 only when told to. Both assume
 * 4,096 when the key is absent. */
static ft_status read_window(struct model_config *out, const json *config, ft_error *err)
{
    bool windowed = is_arch(out, "mistral");
    int64_t fallback = json_get(config, "sliding_window") == NULL ? 4096 : 0;
    if (is_arch(out, "qwen2"))
        FT_TRY(json_opt_bool(&windowed, config, "use_sliding_window", false, err));
    if (!windowed)
        return FT_OK;
    return json_opt_i64(&out->sliding_window, config, "sliding_window", fallback, 0, MAX_POSITIONS,
                        err);
}

/* Qwen2 always has biases on q, k and v; Llama's attention_bias also puts one on o. */
static ft_status read_biases(struct model_config *out, const json *config, ft_error *err)
{
    if (is_arch(out, "llama")) {
        FT_TRY(json_opt_bool(&out->attention_bias, config, "attention_bias", false, err));
        FT_TRY(json_opt_bool(&out->mlp_bias, config, "mlp_bias", false, err));
        out->output_bias = out->attention_bias;
    }
    out->attention_bias |= is_arch(out, "qwen2");
    return FT_OK;
}

/* null, one id, or a list whose first id is meant. */
static ft_status read_id(int32_t *out, const json *config, const char *key, ft_error *err)
{
    const json *v = json_get(config, key);
    int64_t id = -1;
    if (json_kind(v) == JSON_ARRAY)
        v = json_first(v);
    if (v != NULL && json_kind(v) != JSON_NULL && (!json_i64(v, &id) || id < 0 || id > INT32_MAX))
        return ft_fail(err, FT_EFORMAT, "\"%s\": expected a token id", key);
    *out = (int32_t)id;
    return FT_OK;
}

ft_status model_config_from_hf(struct model_config *out, const json *config, ft_error *err)
{
    *out = (struct model_config){0};
    if (json_kind(config) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "expected an object with the model's configuration");
    FT_TRY(read_architecture(out, config, err));
    FT_TRY(refuse_unsupported(config, err));
    FT_TRY(read_shape(out, config, err));
    FT_TRY(json_opt_f64(&out->rms_eps, config, "rms_norm_eps", 1e-6, err));
    FT_TRY(read_rope(out, config, err));
    FT_TRY(json_opt_bool(&out->tied_head, config, "tie_word_embeddings", false, err));
    FT_TRY(read_window(out, config, err));
    FT_TRY(read_biases(out, config, err));
    FT_TRY(read_id(&out->bos_id, config, "bos_token_id", err));
    FT_TRY(read_id(&out->eos_id, config, "eos_token_id", err));
    return model_config_check(out, err);
}

static void write_id(struct buf *out, const char *key, int32_t id)
{
    if (id < 0)
        buf_printf(out, "  \"%s\": null,\n", key);
    else
        buf_printf(out, "  \"%s\": %d,\n", key, id);
}

static void write_int(struct buf *out, const char *key, int64_t v)
{
    buf_printf(out, "  \"%s\": %" PRId64 ",\n", key, v);
}

static void write_bool(struct buf *out, const char *key, bool v)
{
    buf_printf(out, "  \"%s\": %s,\n", key, v ? "true" : "false");
}

static void write_scaling(struct buf *out, const struct model_config *c)
{
    if (c->rope_scaling == ROPE_PLAIN) {
        buf_cstr(out, "  \"rope_scaling\": null,\n");
        return;
    }
    buf_printf(out, "  \"rope_scaling\": {\"rope_type\": \"%s\", \"factor\": %.17g",
               c->rope_scaling == ROPE_LINEAR ? "linear" : "llama3", c->rope_factor);
    if (c->rope_scaling == ROPE_LLAMA3)
        buf_printf(out,
                   ", \"low_freq_factor\": %.17g, \"high_freq_factor\": %.17g, "
                   "\"original_max_position_embeddings\": %" PRId64,
                   c->rope_low_freq_factor, c->rope_high_freq_factor, c->rope_original_positions);
    buf_cstr(out, "},\n");
}

void model_config_to_hf(struct buf *out, const struct model_config *c)
{
    const char *cls = is_arch(c, "llama")     ? "LlamaForCausalLM"
                      : is_arch(c, "mistral") ? "MistralForCausalLM"
                                              : "Qwen2ForCausalLM";
    buf_printf(out, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n", cls,
               c->architecture);
    write_int(out, "hidden_size", c->hidden);
    write_int(out, "num_hidden_layers", c->n_layers);
    write_int(out, "num_attention_heads", c->n_heads);
    write_int(out, "num_key_value_heads", c->n_kv_heads);
    write_int(out, "head_dim", c->head_dim);
    write_int(out, "intermediate_size", c->intermediate);
    write_int(out, "vocab_size", c->vocab);
    write_int(out, "max_position_embeddings", c->max_positions);
    if (c->sliding_window > 0)
        write_int(out, "sliding_window", c->sliding_window);
    else
        buf_cstr(out, "  \"sliding_window\": null,\n");
    if (is_arch(c, "qwen2"))
        write_bool(out, "use_sliding_window", c->sliding_window > 0);
    buf_printf(out, "  \"rms_norm_eps\": %.17g,\n  \"rope_theta\": %.17g,\n", c->rms_eps,
               c->rope_theta);
    write_scaling(out, c);
    write_bool(out, "tie_word_embeddings", c->tied_head);
    write_bool(out, "attention_bias", c->attention_bias);
    write_bool(out, "mlp_bias", c->mlp_bias);
    write_id(out, "bos_token_id", c->bos_id);
    write_id(out, "eos_token_id", c->eos_id);
    buf_cstr(out, "  \"hidden_act\": \"silu\"\n}\n");
}

/* --- GGUF ------------------------------------------------------------------------------------- */

/* "llama" + ".block_count" */
static const char *arch_key(char dst[96], const char *arch, const char *key)
{
    snprintf(dst, 96, "%s.%s", arch, key);
    return dst;
}

static ft_status need(int64_t *out, const struct gguf *g, const char *arch, const char *key,
                      int64_t max, ft_error *err)
{
    char full[96];
    return gguf_need_i64(out, g, arch_key(full, arch, key), 1, max, err);
}

static ft_status optional(int64_t *out, const struct gguf *g, const char *arch, const char *key,
                          int64_t fallback, int64_t max, ft_error *err)
{
    char full[96];
    return gguf_opt_i64(out, g, arch_key(full, arch, key), fallback, 0, max, err);
}

static ft_status gguf_architecture(struct model_config *out, const struct gguf *g, ft_error *err)
{
    str arch;
    FT_TRY(gguf_need_str(&arch, g, "general.architecture", err));
    if (!str_is(arch, "llama") && !str_is(arch, "qwen2"))
        return ft_fail(err, FT_EFORMAT,
                       "%s: general.architecture is \"%.*s\", only llama (with Mistral) and qwen2 "
                       "are supported",
                       gguf_name(g), STR_ARG(arch));
    memcpy(out->architecture, arch.ptr, arch.len);
    return FT_OK;
}

static ft_status gguf_vocab(struct model_config *out, const struct gguf *g, const char *arch,
                            ft_error *err)
{
    const struct gguf_tensor *embd = gguf_find_tensor(g, STR("token_embd.weight"));
    if (embd == NULL)
        return ft_fail(err, FT_EFORMAT, "%s: the tensor token_embd.weight is missing",
                       gguf_name(g));
    return optional(&out->vocab, g, arch, "vocab_size", embd->shape[1], MAX_EXTENT, err);
}

static ft_status gguf_shape(struct model_config *out, const struct gguf *g, const char *arch,
                            ft_error *err)
{
    int64_t experts, value_dim, rotary;
    FT_TRY(need(&out->hidden, g, arch, "embedding_length", MAX_EXTENT, err));
    FT_TRY(need(&out->n_layers, g, arch, "block_count", MAX_LAYERS, err));
    FT_TRY(need(&out->n_heads, g, arch, "attention.head_count", 65536, err));
    FT_TRY(
        optional(&out->n_kv_heads, g, arch, "attention.head_count_kv", out->n_heads, 65536, err));
    FT_TRY(need(&out->intermediate, g, arch, "feed_forward_length", MAX_EXTENT, err));
    FT_TRY(need(&out->max_positions, g, arch, "context_length", MAX_POSITIONS, err));
    FT_TRY(optional(&out->head_dim, g, arch, "attention.key_length", out->hidden / out->n_heads,
                    65536, err));
    FT_TRY(optional(&value_dim, g, arch, "attention.value_length", out->head_dim, 65536, err));
    FT_TRY(optional(&rotary, g, arch, "rope.dimension_count", out->head_dim, 65536, err));
    FT_TRY(optional(&experts, g, arch, "expert_count", 0, 65536, err));
    FT_TRY(
        optional(&out->sliding_window, g, arch, "attention.sliding_window", 0, MAX_POSITIONS, err));
    if (value_dim != out->head_dim || rotary != out->head_dim || experts != 0)
        return ft_fail(err, FT_EFORMAT,
                       "%s: experts, partial rotary dimensions, or keys and values of different "
                       "size are not supported (%s.expert_count, .rope.dimension_count, "
                       ".attention.value_length)",
                       gguf_name(g), arch);
    return gguf_vocab(out, g, arch, err);
}

/* llama.cpp's converter stores Llama 3 scaling only as one divisor per frequency. The divisors of
 * the published models (8,192 positions, factors 1 and 4) are recomputed and compared. */
static ft_status gguf_rope_factors(struct model_config *out, const struct gguf *g, ft_error *err)
{
    const struct gguf_tensor *t = gguf_find_tensor(g, STR("rope_freqs.weight"));
    if (t == NULL)
        return FT_OK;
    struct model_config plain = *out, scaled = *out;
    bool match = t->dtype == DT_F32 && t->n_dims == 1 && t->shape[0] == out->head_dim / 2 &&
                 out->rope_scaling == ROPE_PLAIN;
    double largest = 0;
    for (int64_t i = 0; match && i < t->shape[0]; i++)
        largest = fmax(largest, bits_to_f32(load_u32le(t->data + 4 * i)));
    scaled.rope_scaling = ROPE_LLAMA3;
    scaled.rope_factor = largest;
    scaled.rope_low_freq_factor = 1;
    scaled.rope_high_freq_factor = 4;
    scaled.rope_original_positions = 8192;
    for (int64_t i = 0; match && i < t->shape[0]; i++) {
        double f = pow(plain.rope_theta, -2.0 * (double)i / (double)plain.head_dim);
        double divisor = f / llama3_frequency(&scaled, f);
        match = fabs(bits_to_f32(load_u32le(t->data + 4 * i)) / divisor - 1) < 1e-4;
    }
    if (!match)
        return ft_fail(err, FT_EFORMAT,
                       "%s: rope_freqs.weight does not hold the RoPE scaling of a published Llama "
                       "3 model; quantise from the Hugging Face directory, whose config.json "
                       "states the scaling",
                       gguf_name(g));
    *out = scaled;
    return FT_OK;
}

static ft_status gguf_rope(struct model_config *out, const struct gguf *g, const char *arch,
                           ft_error *err)
{
    char key[96];
    str type;
    FT_TRY(gguf_opt_f64(&out->rope_theta, g, arch_key(key, arch, "rope.freq_base"), 10000, err));
    FT_TRY(gguf_opt_str(&type, g, arch_key(key, arch, "rope.scaling.type"), STR("none"), err));
    FT_TRY(gguf_opt_f64(&out->rope_factor, g, arch_key(key, arch, "rope.scaling.factor"), 0, err));
    if (str_is(type, "linear"))
        out->rope_scaling = ROPE_LINEAR;
    else if (!str_is(type, "none"))
        return ft_fail(err, FT_EFORMAT,
                       "%s: %s.rope.scaling.type is \"%.*s\", only none and linear are supported",
                       gguf_name(g), arch, STR_ARG(type));
    else
        out->rope_factor = 0;
    return gguf_rope_factors(out, g, err);
}

static void gguf_switches(struct model_config *out, const struct gguf *g)
{
    out->tied_head = gguf_find_tensor(g, STR("output.weight")) == NULL;
    out->attention_bias = gguf_find_tensor(g, STR("blk.0.attn_q.bias")) != NULL;
    out->output_bias = gguf_find_tensor(g, STR("blk.0.attn_output.bias")) != NULL;
    out->mlp_bias = gguf_find_tensor(g, STR("blk.0.ffn_gate.bias")) != NULL;
    /* The architecture name llama covers Mistral, which alone has a window. */
    if (is_arch(out, "llama") && out->sliding_window > 0)
        memcpy(out->architecture, "mistral", sizeof "mistral");
}

static ft_status gguf_id(int32_t *out, const struct gguf *g, const char *key, ft_error *err)
{
    int64_t id;
    FT_TRY(gguf_opt_i64(&id, g, key, -1, -1, INT32_MAX, err));
    *out = (int32_t)id;
    return FT_OK;
}

ft_status model_config_from_gguf(struct model_config *out, const struct gguf *g, ft_error *err)
{
    char key[96];
    *out = (struct model_config){0};
    FT_TRY(gguf_architecture(out, g, err));
    const char *arch = out->architecture;
    FT_TRY(gguf_shape(out, g, arch, err));
    FT_TRY(gguf_opt_f64(&out->rms_eps, g, arch_key(key, arch, "attention.layer_norm_rms_epsilon"),
                        0, err));
    FT_TRY(gguf_rope(out, g, arch, err));
    gguf_switches(out, g); /* may rename the architecture: after the last use of its keys */
    FT_TRY(gguf_id(&out->bos_id, g, "tokenizer.ggml.bos_token_id", err));
    FT_TRY(gguf_id(&out->eos_id, g, "tokenizer.ggml.eos_token_id", err));
    return model_config_check(out, err) == FT_OK ? FT_OK : ft_wrap(err, "%s", gguf_name(g));
}
