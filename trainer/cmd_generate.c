/* SPDX-License-Identifier: Apache-2.0
 * fttrain generate: answers from a base model, with or without an adapter. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"
#include "common/log.h"
#include "trainer/commands.h"
#include "trainer/generate.h"

enum { DEFAULT_CONTEXT = 2048 };

struct generate_flags {
    const char *base, *adapter, *prompt, *system, *template_name;
    int64_t max_tokens, context, threads, seed, top_k;
    double temperature, top_p;
    bool raw, json;
    int matmul; /* enum matmul_kind */
};

#define AT(member) offsetof(struct generate_flags, member)
static const struct opt options[] = {
    {"base", OPT_STRING, AT(base), NULL, 0, 0, NULL, "FILE", "base model, a .nf4 file", true},
    {"adapter", OPT_STRING, AT(adapter), NULL, 0, 0, NULL, "DIR",
     "LoRA adapter in PEFT form, or a run or checkpoint that holds one", false},
    {"prompt", OPT_STRING, AT(prompt), NULL, 0, 0, NULL, "TEXT",
     "the question; - reads one per line from standard input, blank lines are skipped", true},
    {"system", OPT_STRING, AT(system), NULL, 0, 0, NULL, "TEXT", "system message", false},
    {"max-tokens", OPT_INT, AT(max_tokens), "256", 1, 1 << 24, NULL, "N", "longest answer", false},
    {"context", OPT_INT, AT(context), "0", 0, 1 << 24, NULL, "N",
     "tokens that prompt and answer take together at most; decides the memory; 0 = 2048, or what "
     "the model handles",
     false},
    {"temperature", OPT_FLOAT, AT(temperature), "0", 0, 100, NULL, "X",
     "0 always takes the most likely token", false},
    {"top-p", OPT_FLOAT, AT(top_p), "1", 1e-6, 1, NULL, "X",
     "draw only from the most likely tokens that hold this probability", false},
    {"top-k", OPT_INT, AT(top_k), "0", 0, 1 << 24, NULL, "N",
     "draw only from the N most likely tokens, 0 = all", false},
    {"seed", OPT_INT, AT(seed), "1", 0, 0x1p53, NULL, "N", "same seed, same answers", false},
    {"raw", OPT_BOOL, AT(raw), "false", 0, 0, NULL, NULL,
     "continue the prompt as it is, without a chat template", false},
    {"template", OPT_STRING, AT(template_name), NULL, 0, 0, NULL, "NAME",
     "chat template, default: that of the base model's tokenizer", false},
    {"threads", OPT_INT, AT(threads), "0", 0, 1024, NULL, "N", "0 = all processors", false},
    {"matmul", OPT_CHOICE, AT(matmul), "fast", 0, 0, "fast|reference", NULL,
     "matrix product; reference gives the same bits on every machine", false},
    {"json", OPT_BOOL, AT(json), "false", 0, 0, NULL, NULL,
     "print one JSON object per answer instead of the text", false},
};

/* What stays the same over all prompts. */
struct session {
    const struct generate_flags *f;
    struct nf4_file *base;
    struct arena arena;
    struct tok *tok;
    struct tok_encoder *encoder;
    struct chat_template *chat;
    struct backend *be;
    struct model *model;
    struct sampler sampler;
    struct tok_ids ids;
    struct buf answer; /* with --json */
    int64_t context;
    uint64_t n_answered;
};

/* --- setting up ------------------------------------------------------------------------------ */

static ft_status check_flags(const struct generate_flags *f, ft_error *err)
{
    if (f->temperature == 0 && (f->top_p < 1 || f->top_k > 0))
        return ft_fail(err, FT_EUSAGE,
                       "--top-p and --top-k have no effect with --temperature 0; give a "
                       "temperature, e.g. 0.7");
    if (f->raw && (f->system != NULL || f->template_name != NULL))
        return ft_fail(err, FT_EUSAGE, "--system and --template have no effect with --raw");
    return FT_OK;
}

static ft_status choose_template(struct session *s, ft_error *err)
{
    const char *name = s->f->template_name == NULL ? "auto" : s->f->template_name;
    if (s->f->raw)
        return FT_OK;
    ft_status st = chat_template_open(&s->chat, name, s->tok, err);
    if (st != FT_OK && s->f->template_name == NULL) {
        ft_error inner = *err;
        return ft_fail(err, FT_EUSAGE, "%s, or --raw", inner.text);
    }
    return st;
}

static ft_status open_tokenizer(struct session *s, ft_error *err)
{
    str blob = nf4_file_tokenizer(s->base);
    if (blob.len == 0)
        return ft_fail(err, FT_EFORMAT,
                       "%s holds no tokenizer; quantise a source that comes with one", s->f->base);
    FT_TRY(tok_from_blob(&s->tok, s->f->base, blob, err));
    if (tok_n_vocab(s->tok) > nf4_file_config(s->base)->vocab)
        return ft_fail(err, FT_EFORMAT, "%s: its tokenizer has %d ids, its model %" PRId64,
                       s->f->base, tok_n_vocab(s->tok), nf4_file_config(s->base)->vocab);
    FT_TRY(choose_template(s, err));
    return tok_encoder_create(&s->encoder, s->tok, err);
}

static ft_status choose_context(struct session *s, ft_error *err)
{
    int64_t positions = nf4_file_config(s->base)->max_positions;
    if (s->f->context > positions)
        return ft_fail(err, FT_EUSAGE,
                       "--context is %" PRId64 ", but %s handles %" PRId64 " tokens at most",
                       s->f->context, s->f->base, positions);
    s->context = s->f->context > 0 ? s->f->context : FT_MIN((int64_t)DEFAULT_CONTEXT, positions);
    return FT_OK;
}

static ft_status open_model(struct session *s, ft_error *err)
{
    const struct model_config *config = nf4_file_config(s->base);
    const struct backend_options backend = {s->f->threads > 0 ? (int)s->f->threads : cpu_count(),
                                            (enum matmul_kind)s->f->matmul};
    struct adapter_config adapter;
    const char *dir = NULL;
    const struct model_options model = {
        .adapter = s->f->adapter == NULL ? NULL : &adapter,
        .max_context = s->context,
    };
    if (s->f->adapter != NULL)
        FT_TRY(adapter_locate(&dir, &s->arena, s->f->adapter, err));
    if (dir != NULL)
        FT_TRY(adapter_load_config(&adapter, &s->arena, dir, err));
    FT_TRY(backend_open(&s->be, "cpu", &backend, err));
    FT_TRY(model_create(&s->model, s->be, s->base, &model, err));
    if (dir != NULL)
        FT_TRY(adapter_load(model_adapter_pairs(s->model), dir, &adapter, config, err));
    const struct sampler_options sampling = {s->f->temperature, s->f->top_p, s->f->top_k,
                                             (uint64_t)s->f->seed};
    return sampler_open(&s->sampler, &sampling, tok_n_vocab(s->tok), err);
}

static void close_session(struct session *s)
{
    buf_free(&s->answer);
    tok_ids_free(&s->ids);
    sampler_close(&s->sampler);
    model_destroy(s->model);
    backend_close(s->be);
    tok_encoder_destroy(s->encoder);
    chat_template_close(s->chat);
    tok_close(s->tok);
    arena_destroy(&s->arena);
    nf4_file_close(s->base);
}

/* --- answering ------------------------------------------------------------------------------- */

static ft_status emit(void *ctx, str text, ft_error *err)
{
    struct session *s = ctx;
    if (s->f->json) {
        buf_str(&s->answer, text);
        return buf_status(&s->answer, "the answer", err);
    }
    fwrite(text.ptr, 1, text.len, stdout);
    if (fflush(stdout) != 0)
        return ft_fail_errno(err, "cannot write to standard output");
    return FT_OK;
}

static double rate(int64_t n, double seconds)
{
    return seconds > 0 ? (double)n / seconds : 0;
}

static ft_status print_json(struct session *s, str prompt, const struct generate_result *r,
                            ft_error *err)
{
    struct buf b = {0};
    buf_cstr(&b, "{\"prompt\": ");
    json_write_str(&b, prompt);
    buf_cstr(&b, ", \"answer\": ");
    json_write_str(&b, buf_view(&s->answer));
    buf_printf(&b,
               ", \"prompt_tokens\": %" PRId64 ", \"tokens\": %" PRId64
               ", \"stopped\": %s, \"prompt_seconds\": %.6g, \"seconds\": %.6g, "
               "\"tokens_per_s\": %.6g}\n",
               r->n_prompt, r->n_tokens, r->stopped ? "true" : "false", r->prompt_seconds,
               r->seconds, rate(r->n_tokens, r->seconds));
    ft_status st = buf_status(&b, "the answer", err);
    if (st == FT_OK)
        fwrite(b.data, 1, b.len, stdout);
    buf_free(&b);
    return st;
}

static ft_status check_context(const struct session *s, ft_error *err)
{
    int64_t n = (int64_t)s->ids.n, positions = nf4_file_config(s->base)->max_positions;
    bool beyond_model = n + s->f->max_tokens > positions; /* no --context would help */
    if (n == 0)
        return ft_fail(err, FT_EUSAGE, "--prompt: the prompt is empty");
    if (n + s->f->max_tokens > s->context)
        return ft_fail(err, FT_ELIMIT,
                       "the prompt has %" PRId64 " tokens and --max-tokens allows %" PRId64
                       ", together more than the %" PRId64 " of %s; lower --max-tokens%s",
                       n, s->f->max_tokens, beyond_model ? positions : s->context,
                       beyond_model ? "the model" : "--context",
                       beyond_model ? "" : " or raise --context");
    return FT_OK;
}

static ft_status answer(struct session *s, str prompt, ft_error *err)
{
    struct generate_result r;
    const struct generate_options o = {
        .backend = s->be,
        .tok = s->tok,
        .chat = s->chat,
        .max_tokens = s->f->max_tokens,
        .sampler = &s->sampler,
        .emit = emit,
        .ctx = s,
    };
    buf_clear(&s->answer);
    FT_TRY(generate_encode(&s->ids, s->encoder, s->chat, s->f->system, prompt, err));
    FT_TRY(check_context(s, err));
    FT_TRY(generate_answer(&r, s->model, &s->ids, s->n_answered++, &o, err));
    if (s->f->json)
        FT_TRY(print_json(s, prompt, &r, err));
    else
        putchar('\n');
    log_info("%" PRId64 " prompt tokens at %.0f/s, %" PRId64 " new tokens at %.1f/s%s", r.n_prompt,
             rate(r.n_prompt, r.prompt_seconds), r.n_tokens, rate(r.n_tokens, r.seconds),
             r.stopped ? "" : ", cut at --max-tokens");
    return FT_OK;
}

static ft_status answer_lines(struct session *s, ft_error *err)
{
    char *line = NULL;
    size_t cap = 0;
    ft_status st = FT_OK;
    ssize_t n;
    for (size_t row = 1; st == FT_OK && (n = getline(&line, &cap, stdin)) >= 0; row++) {
        str prompt = {line, (size_t)n - (n > 0 && line[n - 1] == '\n')};
        if (str_trim(prompt).len == 0)
            continue;
        st = answer(s, prompt, err);
        if (st != FT_OK)
            st = ft_wrap(err, "standard input, line %zu", row);
    }
    if (st == FT_OK && ferror(stdin))
        st = ft_fail_errno(err, "cannot read standard input");
    free(line);
    return st;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    struct session s = {.f = values};
    ft_status st;
    (void)n_args, (void)args;
    FT_GOTO(check_flags(s.f, err));
    FT_GOTO(nf4_file_open(&s.base, s.f->base, err));
    FT_GOTO(open_tokenizer(&s, err));
    FT_GOTO(choose_context(&s, err));
    FT_GOTO(open_model(&s, err));
    st = strcmp(s.f->prompt, "-") == 0 ? answer_lines(&s, err)
                                       : answer(&s, str_from(s.f->prompt), err);
out:
    close_session(&s);
    return st;
}

const struct command cmd_generate = {
    .name = "generate",
    .summary = "Answer prompts with a base model and an adapter",
    .usage = "",
    .details = "The answer is streamed to standard output, speed goes to standard error.",
    .examples =
        "  fttrain generate --base base.nf4 --prompt \"Who are you?\"\n"
        "  fttrain generate --base base.nf4 --adapter run/adapter --prompt - < questions.txt\n"
        "  fttrain generate --base base.nf4 --prompt \"Once\" --raw --temperature 0.8 --top-p 0.9",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct generate_flags),
    .max_args = 0,
    .run = run,
};
