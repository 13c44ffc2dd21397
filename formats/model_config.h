/* SPDX-License-Identifier: Apache-2.0
 * Shape and constants of a Llama-family decoder, read from a Hugging Face config.json or from GGUF
 * metadata, and written into .nf4 files and merged exports. */
#ifndef FORMATS_MODEL_CONFIG_H
#define FORMATS_MODEL_CONFIG_H

#include "formats/gguf.h"
#include "formats/json.h"

enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3 };

struct model_config {
    char architecture[16]; /* Hugging Face model_type: "llama", "mistral", "qwen2" */
    int64_t hidden, n_layers, n_heads, n_kv_heads, head_dim, intermediate, vocab;
    int64_t max_positions;
    int64_t sliding_window; /* 0 = none; training beyond it is refused */
    double rms_eps, rope_theta;
    enum rope_scaling rope_scaling;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_positions;
    bool tied_head;      /* lm_head shares the embedding */
    bool attention_bias; /* on q, k, v */
    bool output_bias;    /* on o */
    bool mlp_bias;
    int32_t bos_id, eos_id; /* -1 = none */
};

/* FT_EFORMAT names the key and says what is supported (architecture, activation, scaling type). */
FT_NODISCARD ft_status model_config_from_hf(struct model_config *out, const json *config,
                                            ft_error *err);
/* The same from GGUF metadata (architectures llama, which Mistral uses too, and qwen2) and from
 * which tensors are there (biases, a separate head, RoPE factors). Messages start with the file
 * name. */
FT_NODISCARD ft_status model_config_from_gguf(struct model_config *out, const struct gguf *g,
                                              ft_error *err);
/* Appends the Hugging Face config.json text (loads in transformers); model_config_from_hf reads it
 * back to the same struct. */
void model_config_to_hf(struct buf *out, const struct model_config *c);
/* Ranges and divisibility; called by both readers. */
FT_NODISCARD ft_status model_config_check(const struct model_config *c, ft_error *err);

/* RoPE inverse frequencies, [head_dim / 2], with scaling applied: evaluated in double, rounded
 * once. */
void model_config_inv_freq(float *dst, const struct model_config *c);

/* The linear layers of a block, in the order of adapters and reports. */
enum linear_kind { LIN_Q, LIN_K, LIN_V, LIN_O, LIN_GATE, LIN_UP, LIN_DOWN, LINEAR_KINDS };
extern const char *const linear_names[LINEAR_KINDS]; /* "q_proj", ... */
/* Hugging Face module path "model.layers.3.self_attn.q_proj"; dst of at least 96 bytes. */
void linear_module(char dst[96], int64_t layer, enum linear_kind k);
int64_t linear_in(const struct model_config *c, enum linear_kind k);
int64_t linear_out(const struct model_config *c, enum linear_kind k);
bool linear_has_bias(const struct model_config *c, enum linear_kind k);

/* Every tensor of a model, in the order of .nf4 files: embedding, layer by layer, final norm, head
 * unless tied. */
enum { MODEL_TENSOR_NAME = 96 };
struct model_tensor {
    char name[MODEL_TENSOR_NAME]; /* Hugging Face name: "model.layers.0.mlp.up_proj.weight" */
    int n_dims;
    int64_t shape[2]; /* [rows, cols]; [n, 1] for vectors */
    int64_t layer;    /* -1 outside the blocks */
    int kind;         /* enum linear_kind when it belongs to a linear layer, else -1 */
    bool is_linear;   /* the weight of a linear layer: what NF4 applies to */
};
int64_t model_tensors(const struct model_config *c);
void model_tensor_at(struct model_tensor *out, const struct model_config *c, int64_t i);

#endif
