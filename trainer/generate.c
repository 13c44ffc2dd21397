/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/generate.h"

#include <string.h>

#include "common/clock.h"

/* --- prompts ---------------------------------------------------------------------------------- */

static ft_status encode_chat(struct tok_ids *out, struct tok_encoder *e,
                             const struct chat_template *t, const char *system, str prompt,
                             ft_error *err)
{
    struct chat_message messages[2];
    size_t n = 0;
    struct chat_text text = {0};
    struct buf mask = {0};
    ft_status st;
    if (system != NULL)
        messages[n++] = (struct chat_message){.role = CHAT_SYSTEM, .content = str_from(system)};
    messages[n++] = (struct chat_message){.role = CHAT_USER, .content = prompt};
    FT_GOTO(chat_render(&text, t, &(struct chat_conversation){.messages = messages, .n = n}, true,
                        err));
    FT_GOTO(chat_encode(out, &mask, e, &text, TOK_SPECIALS_LITERAL, err));
out:
    chat_text_free(&text);
    buf_free(&mask);
    return st;
}

ft_status generate_encode(struct tok_ids *out, struct tok_encoder *e, const struct chat_template *t,
                          const char *system, str prompt, ft_error *err)
{
    size_t bad = str_utf8_invalid_at(prompt);
    if (bad != prompt.len)
        return ft_fail(err, FT_EFORMAT, "the prompt is not UTF-8 at byte %zu", bad);
    out->n = 0;
    if (t != NULL)
        return encode_chat(out, e, t, system, prompt, err);
    return tok_encode(e, out, prompt, TOK_SPECIALS_PARSE, err);
}

/* --- text ------------------------------------------------------------------------------------- */

/* Bytes at the end of s that may be the start of a character whose rest is still to come. */
static size_t open_tail(str s)
{
    for (size_t n = 1; n <= 3 && n <= s.len; n++) {
        unsigned char c = (unsigned char)s.ptr[s.len - n];
        if ((c & 0xC0) == 0x80)
            continue;
        size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return length > n ? n : 0;
    }
    return 0;
}

/* The longest end of s that is a start of word, but not all of it. */
static size_t start_at_end(str s, str word)
{
    size_t n = FT_MIN(s.len, word.len - 1);
    while (n > 0 && memcmp(s.ptr + s.len - n, word.ptr, n) != 0)
        n--;
    return n;
}

static size_t find_word(str s, str word)
{
    for (size_t i = 0; i + word.len <= s.len; i++)
        if (memcmp(s.ptr + i, word.ptr, word.len) == 0)
            return i;
    return s.len;
}

bool generate_cut_at_stop(struct buf *pending, size_t *keep, const str *words, size_t n)
{
    str s = buf_view(pending);
    size_t end = s.len;
    *keep = 0;
    for (size_t i = 0; i < n; i++) {
        end = FT_MIN(end, find_word(s, words[i]));
        *keep = FT_MAX(*keep, start_at_end(s, words[i]));
    }
    pending->len = end;
    return end < s.len;
}

void generate_take_text(struct buf *out, struct buf *pending, size_t keep, bool last)
{
    str s = buf_view(pending);
    size_t tail = last ? 0 : keep + open_tail(str_sub(s, 0, s.len - keep));
    str ready = str_sub(s, 0, s.len - tail);
    buf_clear(out);
    while (ready.len > 0) {
        size_t valid = str_utf8_invalid_at(ready);
        buf_str(out, str_sub(ready, 0, valid));
        ready = str_sub(ready, valid, ready.len);
        if (ready.len > 0) {
            buf_cstr(out, "\xEF\xBF\xBD");
            ready = str_sub(ready, 1, ready.len);
        }
    }
    if (tail > 0)
        memmove(pending->data, s.ptr + s.len - tail, tail);
    pending->len = tail;
}

/* --- answers ---------------------------------------------------------------------------------- */

static bool is_stop(const struct generate_options *o, int32_t id)
{
    return o->chat != NULL ? chat_is_stop(o->chat, id) : id == tok_eos(o->tok);
}

struct answer {
    struct buf pending, ready;
    struct tok_decoding decoding;
};

/* What tokens of the answer become may depend on there being text in front of them. */
static void begin_behind(struct answer *a, const struct tok *t, const struct tok_ids *prompt)
{
    for (size_t i = 0; i < prompt->n; i++) {
        tok_decode_next(&a->decoding, t, &a->pending, prompt->ids[i], true);
        buf_clear(&a->pending);
    }
}

/* *stopped = the text holds a stop word; what is in front of it is the end of the answer. */
static ft_status emit_text(bool *stopped, struct answer *a, const struct generate_options *o,
                           bool last, ft_error *err)
{
    const str *words;
    size_t n = o->chat == NULL ? 0 : chat_stop_words(o->chat, &words), keep;
    FT_TRY(buf_status(&a->pending, "the answer", err));
    *stopped = n > 0 && generate_cut_at_stop(&a->pending, &keep, words, n);
    generate_take_text(&a->ready, &a->pending, n > 0 ? keep : 0, last || *stopped);
    FT_TRY(buf_status(&a->ready, "the answer", err));
    return a->ready.len > 0 ? o->emit(o->ctx, buf_view(&a->ready), err) : FT_OK;
}

ft_status generate_answer(struct generate_result *out, struct model *m,
                          const struct tok_ids *prompt, uint64_t text,
                          const struct generate_options *o, ft_error *err)
{
    struct answer a = {0};
    ft_status st = FT_OK;
    bool stop_word = false;
    double started = clock_seconds();
    FT_ASSERT(prompt->n >= 1);
    *out = (struct generate_result){.n_prompt = (int64_t)prompt->n};
    begin_behind(&a, o->tok, prompt);
    model_start(m);
    const float *logits = model_feed(m, prompt->ids, (int64_t)prompt->n);
    out->prompt_seconds = clock_seconds() - started;
    started = clock_seconds();
    while (out->n_tokens < o->max_tokens) {
        FT_GOTO(backend_sync(o->backend, err));
        int32_t id = sampler_pick(o->sampler, logits, text, (uint64_t)out->n_tokens);
        if (is_stop(o, id)) {
            out->stopped = true;
            break;
        }
        tok_decode_next(&a.decoding, o->tok, &a.pending, id, true);
        FT_GOTO(emit_text(&out->stopped, &a, o, false, err));
        out->n_tokens++;
        if (out->stopped)
            break;
        if (out->n_tokens < o->max_tokens)
            logits = model_feed(m, &id, 1);
    }
    tok_decode_end(&a.decoding, &a.pending);
    FT_GOTO(emit_text(&stop_word, &a, o, true, err));
    out->seconds = clock_seconds() - started;
out:
    buf_free(&a.pending);
    buf_free(&a.ready);
    return st;
}
