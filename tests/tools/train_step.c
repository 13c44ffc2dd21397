/* SPDX-License-Identifier: Apache-2.0
 * Runs training steps or generation outside the training loop, for benchmarks and for comparison
 * with an oracle. Results as one JSON object on stdout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/opt.h"
#include "tests/support/model_case.h"

struct values {
    const char *gradients;
    int64_t threads, steps;
    bool recompute, reference;
};

#define AT(field) offsetof(struct values, field)
static const struct opt step_options[] = {
    {"gradients", OPT_STRING, AT(gradients), NULL, 0, 0, NULL, "DIR",
     "write the gradients of one step here, in the form of an adapter", false},
    {"threads", OPT_INT, AT(threads), "2", 1, 256, NULL, "N", "worker threads", false},
    {"steps", OPT_INT, AT(steps), "1", 1, 1000, NULL, "N", "steps to time", false},
    {"recompute", OPT_BOOL, AT(recompute), "false", 0, 0, NULL, NULL, "keep block inputs only",
     false},
    {"reference", OPT_BOOL, AT(reference), "false", 0, 0, NULL, NULL,
     "use the reference matrix product", false},
};

static const struct opt feed_options[] = {
    {"threads", OPT_INT, AT(threads), "2", 1, 256, NULL, "N", "worker threads", false},
    {"steps", OPT_INT, AT(steps), "64", 1, 4096, NULL, "N", "tokens to generate", false},
};

struct session {
    struct backend *be;
    struct nf4_file *base;
    struct model *model;
    struct arena arena;
    struct adapter_config adapter;
};

static void close_session(struct session *s)
{
    model_destroy(s->model);
    backend_close(s->be);
    nf4_file_close(s->base);
    arena_destroy(&s->arena);
}

/* adapter_dir "-" = base alone. */
static ft_status open_session(struct session *s, const struct values *v, const char *base,
                              const char *adapter_dir, struct model_options o, ft_error *err)
{
    const struct backend_options backend = {(int)v->threads,
                                            v->reference ? MATMUL_REFERENCE : MATMUL_FAST};
    FT_TRY(nf4_file_open(&s->base, base, err));
    if (strcmp(adapter_dir, "-") != 0) {
        FT_TRY(adapter_load_config(&s->adapter, &s->arena, adapter_dir, err));
        o.adapter = &s->adapter;
    }
    FT_TRY(backend_open(&s->be, "cpu", &backend, err));
    FT_TRY(model_create(&s->model, s->be, s->base, &o, err));
    if (o.adapter == NULL)
        return FT_OK;
    return adapter_load(model_adapter_pairs(s->model), adapter_dir, o.adapter,
                        nf4_file_config(s->base), err);
}

/* Views of the gradients where the adapter's values are expected. */
static ft_status save_gradients(struct session *s, const char *dir, ft_error *err)
{
    const struct model_config *c = nf4_file_config(s->base);
    const struct model_params *p = model_params(s->model);
    struct adapter_pair *pairs;
    FT_TRY(mem_new(&pairs, (size_t)c->n_layers * LINEAR_KINDS, sizeof *pairs, "views", err));
    for (size_t i = 0; i < p->n_tensors; i++) {
        const struct param_tensor *t = &p->tensors[i];
        struct adapter_pair *pair = &pairs[t->layer * LINEAR_KINDS + (int64_t)t->kind];
        *(t->is_b ? &pair->b : &pair->a) = p->gradients + t->offset;
    }
    ft_status st = adapter_save(dir, &s->adapter, c, pairs, err);
    mem_free(pairs);
    return st;
}

static ft_status time_steps(struct session *s, const struct values *v, const struct micro_batch *b,
                            ft_error *err)
{
    double loss = 0, best = 1e30, cpu = 1e30;
    const struct model_params *p = model_params(s->model);
    for (int64_t i = 0; i < v->steps; i++) {
        double start = clock_seconds();
        clock_t cpu_start = clock();
        memset(p->gradients, 0, (size_t)p->n * sizeof *p->gradients);
        loss = model_train_step(s->model, b, 1, 0);
        FT_TRY(backend_sync(s->be, err));
        best = FT_MIN(best, clock_seconds() - start);
        cpu = FT_MIN(cpu, (double)(clock() - cpu_start) / CLOCKS_PER_SEC);
    }
    printf("{\"loss_sum\": %.17g, \"tokens\": %lld, \"seconds\": %.4f, \"cpu_seconds\": %.4f, "
           "\"tokens_per_second\": %.1f, \"peak_rss\": %llu}\n",
           loss, (long long)b->n_tokens, best, cpu, (double)b->n_tokens / best,
           (unsigned long long)mem_peak_rss());
    return v->gradients != NULL ? save_gradients(s, v->gradients, err) : FT_OK;
}

static ft_status run_step(void *values, int n_args, const char **args, ft_error *err)
{
    const struct values *v = values;
    struct session s = {0};
    struct micro_batch b = load_batch(args[2]);
    struct model_options o = {
        .max_tokens = b.n_tokens, .training = true, .recompute = v->recompute};
    (void)n_args;
    ft_status st = open_session(&s, v, args[0], args[1], o, err);
    if (st == FT_OK)
        st = time_steps(&s, v, &b, err);
    close_session(&s);
    return st;
}

static int32_t best_of(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static ft_status time_feeding(struct session *s, const struct values *v,
                              const struct micro_batch *b, ft_error *err)
{
    int64_t vocab = nf4_file_config(s->base)->vocab;
    double start = clock_seconds();
    const float *logits = model_feed(s->model, b->tokens, b->n_tokens);
    double prompt = clock_seconds() - start;
    start = clock_seconds();
    printf("{\"tokens\": [");
    for (int64_t i = 0; i < v->steps; i++) {
        int32_t token = best_of(logits, vocab);
        printf("%s%d", i > 0 ? ", " : "", (int)token);
        logits = model_feed(s->model, &token, 1);
    }
    FT_TRY(backend_sync(s->be, err));
    double decode = clock_seconds() - start;
    printf("], \"prompt_tokens_per_second\": %.1f, \"tokens_per_second\": %.1f, "
           "\"peak_rss\": %llu}\n",
           (double)b->n_tokens / prompt, (double)v->steps / decode,
           (unsigned long long)mem_peak_rss());
    return FT_OK;
}

static ft_status run_feed(void *values, int n_args, const char **args, ft_error *err)
{
    const struct values *v = values;
    struct session s = {0};
    struct micro_batch b = load_batch(args[2]);
    (void)n_args;
    ft_status st = open_session(&s, v, args[0], args[1],
                                (struct model_options){.max_context = b.n_tokens + v->steps}, err);
    if (st == FT_OK)
        st = time_feeding(&s, v, &b, err);
    close_session(&s);
    return st;
}

/* Logits behind every token, [n_tokens, vocab] fp32, to stdout. */
static ft_status run_logits(void *values, int n_args, const char **args, ft_error *err)
{
    const struct values *v = values;
    struct session s = {0};
    struct micro_batch b = load_batch(args[2]);
    (void)n_args;
    ft_status st = open_session(&s, v, args[0], args[1],
                                (struct model_options){.max_context = b.n_tokens}, err);
    for (int64_t i = 0; st == FT_OK && i < b.n_tokens; i++) {
        const float *logits = model_feed(s.model, b.tokens + i, 1);
        st = backend_sync(s.be, err);
        fwrite(logits, sizeof *logits, (size_t)nf4_file_config(s.base)->vocab, stdout);
    }
    close_session(&s);
    return st;
}

int main(int argc, char **argv)
{
    const struct command commands[] = {
        {.name = "step",
         .summary = "loss, gradients and speed of training steps on one batch",
         .usage = "BASE.nf4 ADAPTER BATCH.json",
         .options = step_options,
         .n_options = ARRAY_LEN(step_options),
         .values_bytes = sizeof(struct values),
         .min_args = 3,
         .max_args = 3,
         .run = run_step},
        {.name = "feed",
         .summary = "greedy generation after the batch as prompt, with its speed; ADAPTER may be -",
         .usage = "BASE.nf4 ADAPTER BATCH.json",
         .options = feed_options,
         .n_options = ARRAY_LEN(feed_options),
         .values_bytes = sizeof(struct values),
         .min_args = 3,
         .max_args = 3,
         .run = run_feed},
        {.name = "logits",
         .summary = "logits behind every token of the batch, fp32 to stdout; ADAPTER may be -",
         .usage = "BASE.nf4 ADAPTER BATCH.json",
         .options = step_options,
         .n_options = ARRAY_LEN(step_options),
         .values_bytes = sizeof(struct values),
         .min_args = 3,
         .max_args = 3,
         .run = run_logits},
    };
    const struct program program = {.name = "train_step",
                                    .summary = "Training steps and generation for tests",
                                    .version = FT_VERSION,
                                    .commands = commands,
                                    .n_commands = ARRAY_LEN(commands)};
    return program_main(&program, argc, argv);
}
