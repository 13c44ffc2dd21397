/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/samples.h"

#include <inttypes.h>

#include "common/log.h"
#include "common/mem.h"
#include "trainer/signals.h"

enum { LOGGED_BYTES = 100 }; /* of an answer in the log; the file has all of it */

static ft_status encode_prompts(struct samples *s, ft_error *err)
{
    const struct opt_list *prompts = &s->o->sample.prompts;
    struct tok_encoder *e = NULL;
    ft_status st;
    FT_GOTO(mem_new(&s->prompts, prompts->n, sizeof *s->prompts, "sample prompts", err));
    FT_GOTO(tok_encoder_create(&e, s->tok, err));
    for (size_t i = 0; i < prompts->n; i++) {
        st = generate_encode(&s->prompts[i], e, s->chat, s->o->sample.system,
                             str_from(prompts->items[i]), err);
        if (st != FT_OK) {
            st = ft_wrap(err, "sample.prompts[%zu]", i);
            goto out;
        }
    }
out:
    tok_encoder_destroy(e);
    return st;
}

ft_status samples_open(struct samples *out, const struct train_options *o,
                       const struct manifest *data, ft_error *err)
{
    *out = (struct samples){.o = o};
    if (o->sample.prompts.n == 0)
        return FT_OK;
    FT_TRY(tok_open(&out->tok, o->data.path, err));
    if (chat_template_restore(&out->chat, data->chat_template, str_from(data->template_source),
                              out->tok, err) != FT_OK)
        return ft_wrap(err, "sample.prompts: the data set's chat template");
    return encode_prompts(out, err);
}

void samples_close(struct samples *s)
{
    for (size_t i = 0; s->prompts != NULL && i < s->o->sample.prompts.n; i++)
        tok_ids_free(&s->prompts[i]);
    mem_free(s->prompts);
    chat_template_close(s->chat);
    tok_close(s->tok);
    sampler_close(&s->sampler);
    step_log_close(&s->log);
    *s = (struct samples){0};
}

int64_t samples_context(const struct samples *s)
{
    int64_t longest = 0;
    if (s->prompts == NULL)
        return 0;
    for (size_t i = 0; i < s->o->sample.prompts.n; i++)
        longest = FT_MAX(longest, (int64_t)s->prompts[i].n);
    return longest + s->o->sample.max_tokens;
}

static ft_status keep_line(bool *keep, void *ctx, const json *line, ft_error *err)
{
    const int64_t *keep_step = ctx;
    int64_t step;
    (void)err;
    *keep = json_i64(json_get(line, "step"), &step) && step <= *keep_step;
    return FT_OK;
}

ft_status samples_start(struct samples *s, const char *path, int64_t keep_step, int64_t n_vocab,
                        ft_error *err)
{
    const struct sampler_options greedy = {.top_p = 1};
    if (s->prompts == NULL)
        return FT_OK;
    FT_TRY(sampler_open(&s->sampler, &greedy, n_vocab, err));
    return step_log_open(&s->log, path, keep_step < 0 ? NULL : keep_line, &keep_step, err);
}

static ft_status collect(void *ctx, str text, ft_error *err)
{
    buf_str(ctx, text);
    return buf_status(ctx, "an answer", err);
}

/* One line, cut at a character border. */
static void log_answer(const char *prompt, str answer)
{
    char line[LOGGED_BYTES + 4];
    size_t n = FT_MIN(answer.len, (size_t)LOGGED_BYTES);
    n = str_utf8_invalid_at(str_sub(answer, 0, n));
    for (size_t i = 0; i < n; i++)
        line[i] = answer.ptr[i] == '\n' ? ' ' : answer.ptr[i];
    line[n] = '\0';
    log_info("  %s -> %s%s", prompt, line, n < answer.len ? "..." : "");
}

static ft_status answer_one(struct buf *records, struct samples *s, struct model *m,
                            struct backend *be, int64_t step, size_t i, ft_error *err)
{
    const char *prompt = s->o->sample.prompts.items[i];
    struct buf answer = {0};
    struct generate_result r;
    const struct generate_options options = {
        .backend = be,
        .tok = s->tok,
        .chat = s->chat,
        .max_tokens = s->o->sample.max_tokens,
        .sampler = &s->sampler,
        .emit = collect,
        .ctx = &answer,
    };
    ft_status st = generate_answer(&r, m, &s->prompts[i], i, &options, err);
    if (st == FT_OK) {
        buf_printf(records, "%s{\"step\": %" PRId64 ", \"prompt\": ", i == 0 ? "" : "\n", step);
        json_write_str(records, str_from(prompt));
        buf_cstr(records, ", \"answer\": ");
        json_write_str(records, buf_view(&answer));
        buf_printf(records, ", \"tokens\": %" PRId64 ", \"stopped\": %s}", r.n_tokens,
                   r.stopped ? "true" : "false");
        log_answer(prompt, buf_view(&answer));
    }
    buf_free(&answer);
    return st;
}

ft_status samples_answer(bool *done, struct samples *s, struct model *m, struct backend *be,
                         int64_t step, ft_error *err)
{
    struct buf records = {0};
    size_t n = s->o->sample.prompts.n;
    ft_status st = FT_OK;
    *done = false;
    log_info("answers at step %" PRId64 ":", step);
    for (size_t i = 0; i < n && st == FT_OK && !signals_stop_requested(); i++) {
        st = answer_one(&records, s, m, be, step, i, err);
        *done = i + 1 == n;
    }
    if (st == FT_OK && *done)
        st = step_log_append(&s->log, &records, err);
    buf_free(&records);
    return st;
}
