/* SPDX-License-Identifier: Apache-2.0
 * What must hold between runs of the model itself; tests/unit/test_model_golden.c compares it with
 * transformers and PEFT. */
#include <math.h>

#include "tests/support/model_case.h"

static const int64_t lengths[] = {17, 1, 70, 5};
enum { N_SEQS = ARRAY_LEN(lengths), N_TOKENS = 17 + 1 + 70 + 5, KEY = 99 };

struct step_options {
    const struct nf4_file *base;
    struct adapter_config adapter;
    int threads;
    enum matmul_kind matmul;
    bool recompute;
};

/* Loss and gradients of one step; gradients from the heap of numeric.c. */
static double step(float **gradients, int64_t *n, const struct step_options *o,
                   const struct micro_batch *b, uint64_t key)
{
    struct backend *be = open_cpu(o->threads, o->matmul);
    struct model_options options = {.adapter = &o->adapter,
                                    .max_tokens = N_TOKENS,
                                    .training = true,
                                    .recompute = o->recompute};
    struct model *m = open_model(be, o->base, &options);
    randomize_adapter(m, 5);
    double loss = model_train_step(m, b, 0.5, key);
    sync_ok(be);
    *n = model_params(m)->n;
    *gradients = zeros_f32(*n);
    memcpy(*gradients, model_params(m)->gradients, (size_t)*n * sizeof **gradients);
    model_destroy(m);
    backend_close(be);
    return loss;
}

static struct step_options default_step(const struct nf4_file *base)
{
    return (struct step_options){.base = base, .adapter = tiny_adapter(), .threads = 1};
}

static void bits_do_not_depend_on_recompute_or_threads(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("bits.nf4", &c, 1);
    struct micro_batch b = random_batch(lengths, N_SEQS, c.vocab, 3);
    for (int matmul = 0; matmul <= MATMUL_REFERENCE; matmul++) {
        struct step_options o = default_step(base);
        float *first, *again;
        int64_t n;
        o.matmul = (enum matmul_kind)matmul;
        o.adapter.dropout = 0.3;
        double loss = step(&first, &n, &o, &b, KEY);
        assert_true(loss > 0);
        for (int variant = 1; variant < 4; variant++) {
            o.recompute = variant & 1;
            o.threads = variant & 2 ? 4 : 1;
            assert_true(step(&again, &n, &o, &b, KEY) == loss);
            assert_memory_equal(first, again, (size_t)n * sizeof *first);
        }
    }
    nf4_file_close(base);
}

static void every_variant_of_the_architecture_trains_the_same_with_recompute(void **state)
{
    (void)state;
    struct model_config variants[4];
    for (int i = 0; i < 4; i++)
        variants[i] = tiny_config();
    variants[0].tied_head = true;
    snprintf(variants[1].architecture, sizeof variants[1].architecture, "qwen2");
    variants[1].attention_bias = true;
    variants[2].attention_bias = variants[2].output_bias = variants[2].mlp_bias = true;
    variants[3].rope_scaling = ROPE_LLAMA3;
    variants[3].rope_factor = 8;
    variants[3].rope_low_freq_factor = 1;
    variants[3].rope_high_freq_factor = 4;
    variants[3].rope_original_positions = 64;
    for (int i = 0; i < 4; i++) {
        struct nf4_file *base = tiny_base("variant.nf4", &variants[i], 1);
        struct micro_batch b = random_batch(lengths, N_SEQS, variants[i].vocab, 3);
        struct step_options o = default_step(base);
        float *kept, *recomputed;
        int64_t n;
        double loss = step(&kept, &n, &o, &b, 0);
        o.recompute = true;
        assert_true(loss > 0 && step(&recomputed, &n, &o, &b, 0) == loss);
        assert_memory_equal(kept, recomputed, (size_t)n * sizeof *kept);
        nf4_file_close(base);
    }
}

/* Adapters outside the subset have B = 0, so that they change nothing; with the reference product
 * the others must then get the same gradients to the bit, whatever parts of the backward a subset
 * makes unnecessary. */
static void a_subset_of_the_adapters_gets_the_gradients_it_would_get_among_all(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("subset.nf4", &c, 1);
    struct micro_batch b = random_batch(lengths, N_SEQS, c.vocab, 3);
    struct backend *be = open_cpu(1, MATMUL_REFERENCE);
    for (unsigned subset = 1; subset < 1u << LINEAR_KINDS; subset++) {
        struct adapter_config all = tiny_adapter(), some = tiny_adapter();
        for (int k = 0; k < LINEAR_KINDS; k++)
            some.target[k] = subset >> k & 1;
        struct model_options o = {.adapter = &all, .max_tokens = N_TOKENS, .training = true};
        struct model *full = open_model(be, base, &o);
        o.adapter = &some;
        struct model *part = open_model(be, base, &o);
        struct model_params *f = model_params(full), *p = model_params(part);
        randomize_adapter(full, 5);
        for (size_t i = 0, j = 0; i < f->n_tensors; i++) {
            const struct param_tensor *t = &f->tensors[i];
            size_t bytes = (size_t)(t->rows * t->cols) * sizeof *f->values;
            if (some.target[t->kind])
                memcpy(p->values + p->tensors[j++].offset, f->values + t->offset, bytes);
            else if (t->is_b)
                memset(f->values + t->offset, 0, bytes);
        }
        double loss = model_train_step(full, &b, 1, 0);
        assert_true(model_train_step(part, &b, 1, 0) == loss);
        sync_ok(be);
        for (size_t i = 0, j = 0; i < f->n_tensors; i++) {
            const struct param_tensor *t = &f->tensors[i];
            if (!some.target[t->kind])
                continue;
            const float *expected = f->gradients + t->offset;
            const float *got = p->gradients + p->tensors[j++].offset;
            for (int64_t e = 0; e < t->rows * t->cols; e++)
                assert_true(got[e] == expected[e]);
        }
        model_destroy(part);
        model_destroy(full);
    }
    backend_close(be);
    nf4_file_close(base);
}

/* Loss and gradients of the sequences of b, one step each, against those of the pack. */
static void check_pack(const struct nf4_file *base, const struct micro_batch *b,
                       enum matmul_kind matmul, double loss_tolerance)
{
    struct step_options o = default_step(base);
    float *packed;
    int64_t n;
    o.matmul = matmul;
    double loss = step(&packed, &n, &o, b, 0), sum = 0;
    struct backend *be = open_cpu(1, matmul);
    struct model_options options = {
        .adapter = &o.adapter, .max_tokens = N_TOKENS, .training = true};
    struct model *m = open_model(be, base, &options);
    randomize_adapter(m, 5);
    for (int64_t i = 0; i < N_SEQS; i++) {
        int64_t from = b->seq_starts[i], starts[2] = {0, lengths[i]};
        struct micro_batch one = {lengths[i], b->tokens + from, b->trained + from, 1, starts};
        sum += model_train_step(m, &one, 0.5, 0);
    }
    sync_ok(be);
    double *reference = zeros_f64(n);
    for (int64_t i = 0; i < n; i++)
        reference[i] = (double)packed[i];
    assert_true(fabs(sum - loss) <= loss_tolerance * loss);
    assert_true(relative_error(model_params(m)->gradients, reference, n) <= 2e-6);
    model_destroy(m);
    backend_close(be);
}

/* With the reference product every row is computed alike in both, positions included, so that only
 * the order in which the losses are added differs. */
static void a_pack_equals_its_sequences_one_by_one(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("packs.nf4", &c, 1);
    struct micro_batch b = random_batch(lengths, N_SEQS, c.vocab, 3);
    check_pack(base, &b, MATMUL_FAST, 1e-6);
    check_pack(base, &b, MATMUL_REFERENCE, 1e-14);
    nf4_file_close(base);
}

static void padding_between_parameters_stays_zero(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("padding.nf4", &c, 1);
    struct micro_batch b = random_batch(lengths, N_SEQS, c.vocab, 3);
    struct adapter_config adapter = tiny_adapter();
    struct backend *be = open_cpu(1, MATMUL_FAST);
    adapter.rank = 3;
    struct model_options o = {.adapter = &adapter, .max_tokens = N_TOKENS, .training = true};
    struct model *m = open_model(be, base, &o);
    struct model_params *p = model_params(m);
    model_init_adapter(m, 1);
    model_train_step(m, &b, 1, 0);
    sync_ok(be);
    int64_t at = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        for (; at < p->tensors[i].offset; at++)
            assert_true(p->values[at] == 0 && p->gradients[at] == 0);
        at += p->tensors[i].rows * p->tensors[i].cols;
    }
    model_destroy(m);
    backend_close(be);
    nf4_file_close(base);
}

static void a_batch_without_targets_changes_nothing(void **state)
{
    (void)state;
    static const int64_t starts[] = {0, 1, 4};
    static const int32_t tokens[] = {1, 2, 3, 4};
    static const uint8_t firsts_only[] = {1, 1, 0, 0};
    struct micro_batch b = {4, tokens, firsts_only, 2, starts};
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("untrained.nf4", &c, 1);
    struct step_options o = default_step(base);
    float *gradients;
    int64_t n;
    assert_true(step(&gradients, &n, &o, &b, 0) == 0);
    for (int64_t i = 0; i < n; i++)
        assert_true(gradients[i] == 0);
    nf4_file_close(base);
}

static void a_token_outside_the_vocabulary_fails_at_the_sync(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("tokens.nf4", &c, 1);
    struct micro_batch b = random_batch(lengths, N_SEQS, c.vocab + 50, 3);
    struct adapter_config adapter = tiny_adapter();
    struct backend *be = open_cpu(1, MATMUL_FAST);
    struct model_options o = {.adapter = &adapter, .max_tokens = N_TOKENS, .training = true};
    struct model *m = open_model(be, base, &o);
    model_train_step(m, &b, 1, 0);
    sync_fails(be, "embed_fwd: row");
    model_destroy(m);
    backend_close(be);
    nf4_file_close(base);
}

static void the_adapter_starts_as_peft_does(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("init.nf4", &c, 1);
    struct adapter_config adapter = tiny_adapter();
    struct backend *be = open_cpu(1, MATMUL_FAST);
    struct model_options o = {.adapter = &adapter};
    struct model *m = open_model(be, base, &o);
    const struct model_params *p = model_params(m);
    model_init_adapter(m, 42);
    assert_int_equal(p->n_tensors, 2 * 7 * c.n_layers);
    double squares = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct param_tensor *t = &p->tensors[i];
        const struct adapter_pair *pair =
            &model_adapter_pairs(m)[t->layer * LINEAR_KINDS + (int64_t)t->kind];
        const float *x = p->values + t->offset;
        assert_ptr_equal(t->is_b ? pair->b : pair->a, x);
        assert_int_equal(t->is_b ? t->cols : t->rows, adapter.rank);
        double bound = 1 / sqrt((double)t->cols);
        for (int64_t e = 0; e < t->rows * t->cols; e++) {
            assert_true(t->is_b ? x[e] == 0 : fabs((double)x[e]) <= bound);
            squares += t->is_b ? 0 : (double)x[e] * (double)x[e] * (double)t->cols;
        }
    }
    int64_t n_a = c.n_layers * adapter.rank * (6 * c.hidden + c.intermediate);
    assert_true(fabs(squares / (double)n_a - 1.0 / 3) < 0.02); /* variance of a uniform */
    float first = p->values[0];
    model_init_adapter(m, 43);
    assert_true(p->values[0] != first);
    model_init_adapter(m, 42);
    assert_true(p->values[0] == first);
    model_destroy(m);
    backend_close(be);
    nf4_file_close(base);
}

/* --- generation ------------------------------------------------------------------------------- */

static double token_loss(const float *logits, int64_t vocab, int32_t target)
{
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i]);
    return log(sum) - (double)logits[target];
}

/* Feeds a sequence in pieces and compares the loss of every token after the first piece with that
 * of the training forward. */
static void check_feeding(const struct nf4_file *base, const struct adapter_config *adapter,
                          enum matmul_kind matmul)
{
    enum { N = 300 };
    static const int64_t one_length[] = {N}, pieces[] = {1, 2, 270, 1, 3};
    int64_t vocab = nf4_file_config(base)->vocab;
    struct micro_batch b = random_batch(one_length, 1, vocab, 8);
    struct backend *be = open_cpu(2, matmul);
    struct model_options o = {.adapter = adapter, .max_tokens = N, .max_context = N};
    struct model *m = open_model(be, base, &o);
    if (adapter != NULL)
        randomize_adapter(m, 5);
    for (int round = 0; round < 2; round++) { /* the second round starts over */
        int64_t fed = 0;
        model_start(m);
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
            const float *logits = model_feed(m, b.tokens + fed, pieces[i]);
            sync_ok(be);
            fed += pieces[i];
            assert_int_equal(model_fed(m), fed);
            double fed_loss = token_loss(logits, vocab, b.tokens[fed]);
            memset((uint8_t *)(uintptr_t)b.trained, 0, N);
            ((uint8_t *)(uintptr_t)b.trained)[fed] = 1;
            double batch_loss = model_eval_loss(m, &b);
            sync_ok(be);
            assert_true(fabs(fed_loss - batch_loss) <= 5e-6 * batch_loss);
        }
    }
    model_destroy(m);
    backend_close(be);
}

static void feeding_a_sequence_in_pieces_gives_the_logits_of_the_whole(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("feed.nf4", &c, 1);
    struct adapter_config adapter = tiny_adapter();
    check_feeding(base, NULL, MATMUL_FAST);
    check_feeding(base, &adapter, MATMUL_FAST);
    check_feeding(base, &adapter, MATMUL_REFERENCE);
    nf4_file_close(base);
}

/* --- planning --------------------------------------------------------------------------------- */

static void the_plan_counts_every_class(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    struct nf4_file *base = tiny_base("plan.nf4", &c, 1);
    struct adapter_config adapter = tiny_adapter();
    struct model_options o = {.adapter = &adapter, .max_tokens = 100, .training = true};
    struct memory_plan kept, recomputed, generating;
    model_plan_memory(&kept, base, &o, 2);
    o.recompute = true;
    model_plan_memory(&recomputed, base, &o, 2);
    o = (struct model_options){.max_context = 64};
    model_plan_memory(&generating, base, &o, 2);
    int64_t per_layer = 6 * c.hidden + c.intermediate /* A */ + 2 * c.hidden + 2 * 16 +
                        2 * c.intermediate + c.hidden /* B */;
    assert_int_equal(kept.adapter, c.n_layers * per_layer * adapter.rank * 4);
    assert_int_equal(kept.gradients, kept.adapter);
    assert_int_equal(kept.optimizer, 2 * kept.adapter);
    assert_int_equal(kept.base_mapped, nf4_file_bytes(base));
    assert_int_equal(kept.total, kept.base_mapped + kept.adapter + kept.gradients + kept.optimizer +
                                     kept.activations + kept.scratch);
    assert_true(recomputed.activations < kept.activations);
    assert_int_equal(generating.adapter + generating.gradients + generating.optimizer, 0);
    assert_int_equal(generating.kv_cache, c.n_layers * 2 * 64 * 16 * 4);
    nf4_file_close(base);
}

static void a_sliding_window_smaller_than_a_sequence_is_refused(void **state)
{
    (void)state;
    struct model_config c = tiny_config();
    snprintf(c.architecture, sizeof c.architecture, "mistral");
    c.sliding_window = 64;
    struct nf4_file *base = tiny_base("window.nf4", &c, 1);
    struct adapter_config adapter = tiny_adapter();
    struct backend *be = open_cpu(1, MATMUL_FAST);
    struct model_options o = {.adapter = &adapter, .max_tokens = 65, .training = true};
    struct model *m;
    ft_error err;
    ASSERT_FAILS(model_create(&m, be, base, &o, &err), FT_ELIMIT,
                 "sliding window of 64 tokens, but sequences may have 65");
    assert_null(m);
    o.max_sequence = 64; /* the batch is longer, no sequence is */
    ASSERT_OK(model_create(&m, be, base, &o, &err));
    model_destroy(m);
    o = (struct model_options){.max_context = 100};
    ASSERT_FAILS(model_create(&m, be, base, &o, &err), FT_ELIMIT, "may have 100");
    backend_close(be);
    nf4_file_close(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_recompute_or_threads),
        cmocka_unit_test(every_variant_of_the_architecture_trains_the_same_with_recompute),
        cmocka_unit_test(a_subset_of_the_adapters_gets_the_gradients_it_would_get_among_all),
        cmocka_unit_test(a_pack_equals_its_sequences_one_by_one),
        cmocka_unit_test(padding_between_parameters_stays_zero),
        cmocka_unit_test(a_batch_without_targets_changes_nothing),
        cmocka_unit_test(a_token_outside_the_vocabulary_fails_at_the_sync),
        cmocka_unit_test(the_adapter_starts_as_peft_does),
        cmocka_unit_test(feeding_a_sequence_in_pieces_gives_the_logits_of_the_whole),
        cmocka_unit_test(the_plan_counts_every_class),
        cmocka_unit_test(a_sliding_window_smaller_than_a_sequence_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
