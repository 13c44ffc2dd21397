/* SPDX-License-Identifier: Apache-2.0
 * The Llama-family decoder with LoRA: forward, loss, backward and generation as straight op_ calls
 * in model order. One model serves one thread of control; the operations inside use all threads. */
#ifndef TRAINER_MODEL_H
#define TRAINER_MODEL_H

#include "formats/adapter.h"
#include "formats/nf4_file.h"
#include "trainer/backend.h"

struct model;

struct model_options {
    const struct adapter_config *adapter; /* NULL = base alone (generation, evaluation) */
    int64_t max_tokens;                   /* most tokens of a micro-batch; 0 = generation only */
    int64_t max_sequence;                 /* longest sequence in one; 0 = max_tokens */
    int64_t max_context;                  /* KV cache positions; 0 = no generation */
    bool training;                        /* gradients and optimiser state are planned too */
    bool recompute; /* keep only each block's input and recompute the rest in backward */
};

/* What will be allocated, before anything is: one line per class. */
struct memory_plan {
    uint64_t base_mapped; /* file-backed, shared between processes */
    uint64_t adapter;     /* LoRA weights */
    uint64_t gradients;
    uint64_t optimizer; /* AdamW m and v; the caller allocates them */
    uint64_t activations;
    uint64_t scratch; /* workspaces, logits chunk, norms and biases in fp32 */
    uint64_t kv_cache;
    uint64_t total; /* all of the above */
};
void model_plan_memory(struct memory_plan *out, const struct nf4_file *base,
                       const struct model_options *o, int n_threads);

/* Allocates exactly the plan (all of it, but for the optimiser state and the backend's own
 * workspace) and nothing later. FT_ELIMIT when the base cannot be run: attention over a sliding
 * window smaller than a sequence, too large a head. base and be must outlive the model. */
FT_NODISCARD ft_status model_create(struct model **out, struct backend *be,
                                    const struct nf4_file *base, const struct model_options *o,
                                    ft_error *err);
void model_destroy(struct model *m);

/* All LoRA values in one flat fp32 buffer and their gradients in another of the same layout: layer
 * by layer, linear kinds in order, A then B. Padding between tensors stays zero. */
struct model_params {
    float *values, *gradients; /* [n]; gradients NULL unless training */
    int64_t n;
    size_t n_tensors;
    const struct param_tensor {
        int64_t offset, rows, cols; /* B: [out, rank]; A: [rank, in] */
        int64_t layer;
        enum linear_kind kind;
        bool is_b;
    } * tensors;
};
struct model_params *model_params(struct model *m);
/* A ~ U(-1/sqrt(in), 1/sqrt(in)), B = 0, as PEFT's default; a pure function of (seed, layer, kind).
 */
void model_init_adapter(struct model *m, uint64_t seed);
/* [n_layers * LINEAR_KINDS] views into params->values, for adapter_save and adapter_load. */
const struct adapter_pair *model_adapter_pairs(struct model *m);

/* Sequences laid end to end; attention never crosses a border. */
struct micro_batch {
    int64_t n_tokens;
    const int32_t *tokens;  /* [n_tokens] */
    const uint8_t *trained; /* [n_tokens]: 1 where this token is a target, as prediction of the
                               token before it; the first token of a sequence never is */
    int64_t n_seqs;
    const int64_t *seq_starts; /* [n_seqs + 1], first 0, last n_tokens; positions restart at each */
};

/* Loss sum over the targets of the batch. With training: adds d(loss_sum * loss_scale) / d(LoRA) to
 * the gradients; dropout masks are a pure function of (dropout_key, layer, linear, token index,
 * feature). dropout_key 0 = no dropout. */
double model_train_step(struct model *m, const struct micro_batch *b, double loss_scale,
                        uint64_t dropout_key);
double model_eval_loss(struct model *m, const struct micro_batch *b);

/* --- generation ------------------------------------------------------------------------------- */

/* Forgets the KV cache. */
void model_start(struct model *m);
/* Feeds n tokens after those already in the cache and returns the logits of the last one [vocab],
 * valid until the next call. Asserts that max_context holds them. */
const float *model_feed(struct model *m, const int32_t *tokens, int64_t n);
int64_t model_fed(const struct model *m); /* tokens in the cache */

#endif
