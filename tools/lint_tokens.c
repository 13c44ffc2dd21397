/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lint_tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

/* --- the model ------------------------------------------------------------------------------- */

static bool has_pair(const struct lint_model *m, const char *p)
{
    unsigned pair = (unsigned)(uint8_t)p[0] << 8 | (uint8_t)p[1];
    return (m->pairs[pair / 8] >> pair % 8 & 1) != 0;
}

static ft_status list_specials(struct lint_model *m, ft_error *err)
{
    int32_t n = tok_n_vocab(m->tok);
    size_t count = 0;
    for (int32_t id = 0; id < n; id++)
        count += tok_is_special(m->tok, id);
    FT_TRY(mem_new(&m->specials, count, sizeof *m->specials, "special tokens", err));
    for (int32_t id = 0; id < n; id++) {
        str s = tok_is_special(m->tok, id) ? tok_bytes(m->tok, id) : STR("");
        if (s.len < 2)
            continue; /* a single character is no sign of anything */
        unsigned pair = (unsigned)(uint8_t)s.ptr[0] << 8 | (uint8_t)s.ptr[1];
        m->pairs[pair / 8] |= (uint8_t)(1 << pair % 8);
        m->specials[m->n_specials++] = s;
    }
    return FT_OK;
}

static size_t find_text(str s, str part)
{
    for (size_t i = 0; part.len > 0 && i + part.len <= s.len; i++) {
        const char *p = memchr(s.ptr + i, part.ptr[0], s.len - part.len - i + 1);
        if (p == NULL)
            break;
        i = (size_t)(p - s.ptr);
        if (memcmp(p, part.ptr, part.len) == 0)
            return i;
    }
    return SIZE_MAX;
}

/* Renders one question and answer and takes what stands between them. */
static ft_status find_between(struct lint_model *m, ft_error *err)
{
    static const char question[] = "one-question", answer[] = "one-answer";
    const struct chat_message messages[] = {
        {.role = CHAT_USER, .content = {question, sizeof question - 1}},
        {.role = CHAT_ASSISTANT, .content = {answer, sizeof answer - 1}}};
    const struct chat_conversation probe = {.messages = messages, .n = ARRAY_LEN(messages)};
    struct chat_text text = {0};
    ft_status st = chat_render(&text, m->chat_template, &probe, false, err);
    if (st == FT_EFORMAT)
        return FT_OK; /* rows will say why */
    if (st == FT_OK) {
        str whole = buf_view(&text.text);
        size_t from = find_text(whole, str_from(question)), to = find_text(whole, str_from(answer));
        from += sizeof question - 1;
        while (to != SIZE_MAX && to > from && whole.ptr[to - 1] == ' ')
            to--;
        if (to != SIZE_MAX && to > from)
            buf_append(&m->between, whole.ptr + from, to - from);
        st = buf_status(&m->between, "a probe of the template", err);
    }
    chat_text_free(&text);
    return st;
}

/* The ids of a probe under a template; none when it refuses the probe. */
static ft_status encode_probe(struct tok_ids *ids, struct tok_encoder *e,
                              const struct chat_template *t, const struct chat_conversation *probe,
                              ft_error *err)
{
    struct chat_text text = {0};
    struct buf mask = {0};
    ids->n = 0;
    ft_status st = chat_render(&text, t, probe, false, err);
    if (st == FT_OK)
        st = chat_encode(ids, &mask, e, &text, TOK_SPECIALS_LITERAL, err);
    chat_text_free(&text);
    buf_free(&mask);
    return st == FT_EFORMAT ? FT_OK : st;
}

static const struct chat_message probe_messages[] = {
    {.role = CHAT_SYSTEM, .content = {"Be brief.", 9}},
    {.role = CHAT_USER, .content = {"What is 1 + 1?", 14}},
    {.role = CHAT_ASSISTANT, .content = {"2", 1}},
    {.role = CHAT_USER, .content = {"And 2 + 2?", 10}},
    {.role = CHAT_ASSISTANT, .content = {"4", 1}},
};

/* With a system message, without, and one turn alone. */
static const struct chat_conversation probes[] = {
    {.messages = probe_messages, .n = 5},
    {.messages = probe_messages + 1, .n = 4},
    {.messages = probe_messages + 1, .n = 2},
};

static ft_status compare_probes(const struct lint_model *m, const struct chat_template *own,
                                struct lint_list *l, ft_error *err)
{
    struct tok_encoder *e;
    struct tok_ids a = {0}, b = {0};
    FT_TRY(tok_encoder_create(&e, m->tok, err));
    ft_status st = FT_OK;
    for (size_t i = 0; i < ARRAY_LEN(probes) && st == FT_OK && l->counts[LINT_T12] == 0; i++) {
        size_t at = 0;
        st = encode_probe(&a, e, m->chat_template, &probes[i], err);
        if (st == FT_OK)
            st = encode_probe(&b, e, own, &probes[i], err);
        while (st == FT_OK && at < a.n && at < b.n && a.ids[at] == b.ids[at])
            at++;
        if (st == FT_OK && a.n > 0 && b.n > 0 && (at < a.n || at < b.n))
            lint_add(l, LINT_T12, "",
                     "a probe of %zu messages has %zu tokens with this template and %zu with the "
                     "tokenizer's own; they differ from token %zu on",
                     probes[i].n, a.n, b.n, at);
    }
    tok_ids_free(&a);
    tok_ids_free(&b);
    tok_encoder_destroy(e);
    return st;
}

/* An own template that cannot be opened is compared with nothing. */
static ft_status check_own_template(struct lint_model *m, struct lint_list *l, ft_error *err)
{
    struct chat_template *own;
    if (tok_chat_template(m->tok).len == 0)
        return FT_OK;
    ft_status st = chat_template_open(&own, "auto", m->tok, err);
    if (st == FT_OK)
        st = compare_probes(m, own, l, err);
    m->is_own = st == FT_OK && l->counts[LINT_T12] == 0;
    chat_template_close(own);
    return st == FT_EFORMAT || st == FT_EUSAGE ? FT_OK : st;
}

static void check_stop(const struct lint_model *m, struct lint_list *l)
{
    const int32_t *ids;
    const str *words;
    if (chat_stop_words(m->chat_template, &words) > 0 && chat_stop_ids(m->chat_template, &ids) == 0)
        lint_add(l, LINT_T02, "", "\"%.*s\" is no token of this tokenizer", STR_ARG(words[0]));
}

ft_status lint_model_init(struct lint_model *m, struct lint_list *l, ft_error *err)
{
    if (m->tok == NULL)
        return FT_OK;
    FT_TRY(list_specials(m, err));
    FT_TRY(find_between(m, err));
    check_stop(m, l);
    return check_own_template(m, l, err);
}

void lint_model_free(struct lint_model *m)
{
    mem_free(m->specials);
    buf_free(&m->between);
}

/* --- one row --------------------------------------------------------------------------------- */

ft_status lint_tokens_init(struct lint_tokens *t, const struct lint_model *m, ft_error *err)
{
    *t = (struct lint_tokens){.model = m};
    return m->tok == NULL ? FT_OK : tok_encoder_create(&t->encoder, m->tok, err);
}

void lint_tokens_free(struct lint_tokens *t)
{
    conversation_free(&t->conversation);
    tok_encoder_destroy(t->encoder);
    chat_text_free(&t->text);
    tok_ids_free(&t->ids);
    buf_free(&t->mask);
}

/* The special token that text holds at i; empty = none. */
static str special_at(const struct lint_model *m, str text, size_t i)
{
    str longest = STR("");
    for (size_t k = 0; k < m->n_specials; k++)
        if (m->specials[k].len > longest.len &&
            str_starts(str_sub(text, i, text.len), m->specials[k]))
            longest = m->specials[k];
    return longest;
}

static void check_content(const struct lint_model *m, struct lint_list *l, size_t number, str text)
{
    char field[LINT_FIELD_BYTES];
    snprintf(field, sizeof field, "messages[%zu].content", number);
    if (find_text(text, buf_view(&m->between)) != SIZE_MAX)
        lint_add(l, LINT_T11, field, "holds \"%.*s\"", STR_ARG(buf_view(&m->between)));
    for (size_t i = 0; i + 1 < text.len; i++) {
        str special = has_pair(m, text.ptr + i) ? special_at(m, text, i) : STR("");
        if (special.len > 0) {
            lint_add(l, LINT_T10, field, "\"%.*s\" at byte %zu", STR_ARG(special), i);
            return; /* one per message */
        }
    }
}

/* A token begins at `at`, or nothing does any more. */
static bool is_border(const struct tok_ids *ids, size_t at)
{
    size_t low = 0, high = ids->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ids->offsets[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low == ids->n || ids->offsets[low] == at;
}

static void check_borders(const struct lint_tokens *t, struct lint_list *l)
{
    for (size_t i = 0; i < t->text.n_trained; i++) {
        struct tok_range r = t->text.trained[i];
        if (r.from == r.to)
            continue;
        if (!is_border(&t->ids, r.from))
            lint_add(l, LINT_T01, "", "where trained text %zu begins", i);
        if (r.to < t->text.text.len && !is_border(&t->ids, r.to))
            lint_add(l, LINT_T01, "", "where trained text %zu ends", i);
    }
}

static void check_bos(const struct lint_tokens *t, struct lint_list *l)
{
    int32_t bos = tok_bos(t->model->tok);
    size_t n = 0;
    for (size_t i = 0; bos >= 0 && i < t->ids.n; i++)
        n += t->ids.ids[i] == bos;
    if (n > 1 && t->ids.ids[0] == bos && t->ids.ids[1] == bos)
        lint_add(l, LINT_T03, "", "%s", "");
    else if (n > 1 && !t->model->is_own) /* the model's own may begin turns with it */
        lint_add(l, LINT_T04, "", "%zu times", n);
}

static void check_trained(const struct lint_tokens *t, struct lint_list *l)
{
    uint64_t n = t->ids.n, max = (uint64_t)t->model->max_length, all = 0, within = 0;
    for (uint64_t i = 1; i < n; i++) { /* nothing predicts the first token */
        all += t->mask.data[i];
        within += max == 0 || i < max ? t->mask.data[i] : 0;
    }
    if (all == 0)
        lint_add(l, LINT_T06, "", "%" PRIu64 " tokens, none of them trained", n);
    else if (within == 0)
        lint_add(l, LINT_T05, "", "the first trained token comes behind %" PRIu64, max);
    if (max > 0 && n > max)
        lint_add(l, LINT_T07, "", "%" PRIu64 " tokens, the maximum is %" PRIu64, n, max);
}

static ft_status check_tokens(struct lint_tokens *t, struct lint_list *l, ft_error *err)
{
    const struct lint_model *m = t->model;
    const struct conversation *c = &t->conversation;
    const struct chat_conversation view = conversation_view(c);
    for (size_t i = 0; i < c->n; i++)
        check_content(m, l, i, c->messages[i].content);
    FT_TRY(chat_render(&t->text, m->chat_template, &view, false, err));
    FT_TRY(chat_encode(&t->ids, &t->mask, t->encoder, &t->text, TOK_SPECIALS_LITERAL, err));
    check_borders(t, l);
    check_bos(t, l);
    check_trained(t, l);
    return FT_OK;
}

/* A refusal becomes a finding; what is left is for the caller. */
static ft_status as_finding(struct lint_list *l, enum lint_code code, ft_status st,
                            const ft_error *err)
{
    if (st != FT_EFORMAT && st != FT_ELIMIT)
        return st;
    if (!lint_has_errors(l))
        lint_add(l, code, "", "%s", err->text);
    return FT_OK;
}

ft_status lint_row(struct lint_tokens *t, struct lint_list *l, const json *row, ft_error *err)
{
    bool has_list = lint_messages(l, row, t->model->source);
    ft_status st = source_read_row(&t->conversation, row, t->model->source, err);
    if (st != FT_OK)
        return as_finding(l, has_list ? LINT_M00 : LINT_J13, st, err);
    if (t->model->tok == NULL || t->conversation.n == 0)
        return FT_OK;
    return as_finding(l, LINT_T08, check_tokens(t, l, err), err);
}
