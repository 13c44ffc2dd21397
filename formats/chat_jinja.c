/* SPDX-License-Identifier: Apache-2.0
 * Chat templates written in Jinja: the tokenizer's own, or a file. The conversation is rendered as
 * transformers renders it (apply_chat_template), and encoded in one go.
 *
 * What is trained. With {% generation %} in the template: what stands inside. Otherwise a turn goes
 * from where the prompt for it ends (the conversation before it, rendered with
 * add_generation_prompt) to the first special token behind its text, which ends it; without one, to
 * where the conversation up to it ends. That is exact only if both renderings are beginnings of the
 * whole text, so this is checked; a template that writes a turn differently once others follow is
 * refused for it. `jinja-content` trains the message's own text and a special token right behind
 * it, wherever the template has put them. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/mem.h"
#include "formats/chat_template.h"
#include "formats/jinja.h"

/* Origins of what message i holds. Roles count as the template's own text: templates build special
 * tokens of them, and they are one of six words. */
enum { FIRST_MESSAGE = JINJA_DATA + 1 };

static uint32_t origin_of(size_t message)
{
    return (uint32_t)FIRST_MESSAGE + (uint32_t)message;
}

struct state {
    struct jinja *template;
    struct tm now; /* when the template was opened */
    str *specials; /* texts of the tokenizer's special tokens */
    size_t n_specials;
};

/* A conversation being rendered. */
struct job {
    const struct chat_template *t;
    const struct state *state;
    const struct chat_conversation *c;
    struct jinja_run *run;
    struct jinja_value messages, vars;
    struct jinja_output whole;
    ft_error *err;
};

/* Bytes [from, to) of the whole text. */
struct span {
    size_t from, to;
};

/* --- what the template sees ------------------------------------------------------------------ */

static bool is_null(const json *v)
{
    return v == NULL || json_kind(v) == JSON_NULL;
}

/* Newer templates read reasoning under one name, gpt-oss under another; rows have three. */
static const json *reasoning_of(const json *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!is_null(json_get(message, names[i])))
            return json_get(message, names[i]);
    return NULL;
}

static bool has_text_only(const json *parts)
{
    if (json_kind(parts) != JSON_ARRAY)
        return false;
    for (const json *p = json_first(parts); p != NULL; p = json_next(p))
        if (json_kind(p) != JSON_STRING && is_null(json_get(p, "text")))
            return false;
    return true;
}

static struct jinja_value field_value(struct job *j, size_t i, str key, const json *v)
{
    const struct chat_message *m = &j->c->messages[i];
    if (str_is(key, "role"))
        return jinja_text(j->run, str_from(chat_role_names[m->role]), JINJA_TEMPLATE);
    if (str_is(key, "content") && has_text_only(v))
        return jinja_text(j->run, m->content, origin_of(i));
    return jinja_json(j->run, v, origin_of(i));
}

/* The message's fields in the order of the row, without those that are null. */
static struct jinja_value message_value(struct job *j, size_t i)
{
    const struct chat_message *m = &j->c->messages[i];
    struct jinja_value out = jinja_dict(j->run);
    if (m->json == NULL) {
        str role = str_from(chat_role_names[m->role]);
        jinja_dict_put(j->run, out, STR("role"), jinja_text(j->run, role, JINJA_TEMPLATE));
        jinja_dict_put(j->run, out, STR("content"), jinja_text(j->run, m->content, origin_of(i)));
        if (m->name.len > 0)
            jinja_dict_put(j->run, out, STR("name"), jinja_text(j->run, m->name, origin_of(i)));
        return out;
    }
    const json *reasoning = reasoning_of(m->json);
    if (reasoning != NULL)
        jinja_dict_put(j->run, out, STR("thinking"), jinja_json(j->run, reasoning, origin_of(i)));
    for (const json *f = json_first(m->json); f != NULL; f = json_next(f))
        if (!is_null(f))
            jinja_dict_put(j->run, out, json_key(f), field_value(j, i, json_key(f), f));
    if (reasoning != NULL)
        jinja_dict_put(j->run, out, STR("reasoning_content"),
                       jinja_json(j->run, reasoning, origin_of(i)));
    return out;
}

static void put_token(struct job *j, const char *name, int32_t id)
{
    if (id >= 0)
        jinja_dict_put(j->run, j->vars, str_from(name),
                       jinja_text(j->run, tok_bytes(j->t->tok, id), JINJA_TEMPLATE));
}

static void put_json(struct job *j, const char *name, const json *v)
{
    jinja_dict_put(j->run, j->vars, str_from(name),
                   v == NULL ? jinja_none() : jinja_json(j->run, v, JINJA_DATA));
}

static void make_vars(struct job *j)
{
    j->messages = jinja_list(j->run);
    j->vars = jinja_dict(j->run);
    for (size_t i = 0; i < j->c->n; i++)
        jinja_list_push(j->run, j->messages, message_value(j, i));
    put_token(j, "bos_token", tok_bos(j->t->tok));
    put_token(j, "eos_token", tok_eos(j->t->tok));
    put_json(j, "tools", j->c->tools);
    put_json(j, "documents", json_get(j->c->row, "documents"));
    const json *more = json_get(j->c->row, "chat_template_kwargs");
    for (const json *v = json_first(more); v != NULL && json_kind(more) == JSON_OBJECT;
         v = json_next(v))
        jinja_dict_put(j->run, j->vars, json_key(v), jinja_json(j->run, v, JINJA_DATA));
}

/* The first n messages. */
static ft_status render_head(struct jinja_output *out, struct job *j, size_t n, bool add_prompt)
{
    jinja_dict_put(j->run, j->vars, STR("messages"), jinja_list_head(j->run, j->messages, n));
    jinja_dict_put(j->run, j->vars, STR("add_generation_prompt"), jinja_bool(add_prompt));
    return jinja_render(out, j->state->template, j->run, j->vars, j->err);
}

/* --- pieces of the whole text ---------------------------------------------------------------- */

static uint32_t plain(uint32_t origin)
{
    return origin & ~(uint32_t)JINJA_GENERATION;
}

static size_t piece_start(const struct jinja_output *o, size_t i)
{
    return i == 0 ? 0 : o->pieces[i - 1].end;
}

/* From the first to behind the last byte of a message; empty at SIZE_MAX when it has none. */
static struct span text_of(const struct job *j, size_t message)
{
    struct span s = {SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < j->whole.n_pieces; i++) {
        if (plain(j->whole.pieces[i].origin) != origin_of(message))
            continue;
        if (s.from == SIZE_MAX)
            s.from = piece_start(&j->whole, i);
        s.to = j->whole.pieces[i].end;
    }
    return s;
}

/* A message with text inside the span that is not `own`; SIZE_MAX when there is none. */
static size_t stranger_in(const struct job *j, struct span s, size_t own)
{
    for (size_t i = 0; i < j->whole.n_pieces; i++) {
        uint32_t origin = plain(j->whole.pieces[i].origin);
        if (piece_start(&j->whole, i) < s.to && j->whole.pieces[i].end > s.from &&
            origin >= FIRST_MESSAGE && origin != origin_of(own))
            return origin - FIRST_MESSAGE;
    }
    return SIZE_MAX;
}

/* Where the template's own text that starts at `at` ends. */
static size_t template_end(const struct job *j, size_t at)
{
    for (size_t i = 0; i < j->whole.n_pieces; i++)
        if (j->whole.pieces[i].end > at && plain(j->whole.pieces[i].origin) != JINJA_TEMPLATE)
            return FT_MAX(at, piece_start(&j->whole, i));
    return j->whole.text.len;
}

/* Behind the first special token that begins in [from, to), the longest there; `from` when there is
 * none. *at: where it begins. */
static size_t behind_special(const struct job *j, size_t from, size_t to, size_t *at)
{
    str text = str_sub(j->whole.text, from, to);
    size_t best = text.len, end = 0;
    for (size_t i = 0; i < j->state->n_specials; i++) {
        str token = j->state->specials[i];
        size_t found = str_find(text, token);
        if (found < best || (found == best && found < text.len && found + token.len > end)) {
            best = found;
            end = found + token.len;
        }
    }
    *at = from + best;
    return from + end;
}

static bool is_space_only(str s)
{
    return str_trim(s).len == 0;
}

/* --- trained spans --------------------------------------------------------------------------- */

static const char remedy[] =
    "put {% generation %} ... {% endgeneration %} around the answers in a copy of the template, "
    "train the last answer only (--train-on last), or take --template jinja-content";

static ft_status ambiguous(struct job *j, size_t i, const char *why)
{
    return ft_fail(j->err, FT_EFORMAT,
                   "messages[%zu]: what of the text is this answer cannot be told: the template "
                   "%s; %s",
                   i, why, remedy);
}

/* The conversation before message i, with the prompt for an answer. */
static ft_status prompt_end(size_t *out, struct job *j, size_t i, bool add_prompt)
{
    struct jinja_output head;
    char why[600];
    *out = 0;
    if (render_head(&head, j, i, add_prompt) != FT_OK) {
        if (j->err->status != FT_EFORMAT)
            return j->err->status;
        snprintf(why, sizeof why, "cannot render the messages before it alone (%.400s)",
                 j->err->text);
        return ambiguous(j, i, why);
    }
    *out = head.text.len;
    return str_starts(j->whole.text, head.text)
               ? FT_OK
               : ambiguous(j, i, "writes the messages before it differently when it follows");
}

/* What stands between the prompt and the message's text is generated by the model only if the
 * template has a prompt at all; the header of a turn is not. */
static ft_status check_header(struct job *j, size_t i, size_t begin, size_t text)
{
    size_t without;
    if (is_space_only(str_sub(j->whole.text, begin, text)))
        return FT_OK;
    FT_TRY(prompt_end(&without, j, i, false));
    return without < begin ? FT_OK : ambiguous(j, i, "has no prompt for answers");
}

/* How far the text is the same when message i is the last one. */
static ft_status common_with_head(size_t *out, bool *complete, struct job *j, size_t i)
{
    struct jinja_output head = j->whole;
    if (i + 1 < j->c->n)
        FT_TRY(render_head(&head, j, i + 1, false));
    size_t n = FT_MIN(head.text.len, j->whole.text.len), k = 0;
    while (k < n && head.text.ptr[k] == j->whole.text.ptr[k])
        k++;
    *out = k;
    *complete = k == head.text.len;
    return FT_OK;
}

/* Where the beginning of a conversation is special (an answer that opens it, a system message of
 * the template's own), the prompt is known from the end of the conversation, and must stand right
 * before the message's text. */
static ft_status stands_behind_prompt(bool *out, struct job *j, size_t text)
{
    struct jinja_output prompted;
    *out = false;
    FT_TRY(render_head(&prompted, j, j->c->n, true));
    if (text == SIZE_MAX || !str_starts(prompted.text, j->whole.text))
        return FT_OK;
    str prompt = str_sub(prompted.text, j->whole.text.len, prompted.text.len);
    *out = prompt.len > 0 && str_ends(str_sub(j->whole.text, 0, text), prompt);
    return FT_OK;
}

/* Where the turn of message i begins, whose text is at `text`. */
static ft_status turn_begin(size_t *out, struct job *j, size_t i, size_t text)
{
    ft_error why;
    bool behind = false;
    if (prompt_end(out, j, i, true) == FT_OK)
        return FT_OK;
    why = *j->err;
    if (why.status == FT_EFORMAT && stands_behind_prompt(&behind, j, text) == FT_OK && behind) {
        *out = text;
        return FT_OK;
    }
    *j->err = why;
    return why.status;
}

static ft_status turn_span(struct span *out, struct job *j, size_t i)
{
    struct span text = text_of(j, i);
    size_t begin, same, token;
    bool complete;
    FT_TRY(turn_begin(&begin, j, i, text.from));
    if (text.from == SIZE_MAX)
        text = (struct span){begin, begin};
    if (text.from < begin)
        return ambiguous(j, i, "moves its text away from its turn");
    FT_TRY(check_header(j, i, begin, text.from));
    FT_TRY(common_with_head(&same, &complete, j, i));
    size_t tail = template_end(j, text.to);
    size_t end = behind_special(j, text.to, tail, &token);
    if (end == text.to && complete)
        end = same;
    if (end > same || (end == text.to && !complete))
        return ambiguous(j, i, "writes it differently when other messages follow");
    *out = (struct span){begin, end};
    return stranger_in(j, *out, i) == SIZE_MAX
               ? FT_OK
               : ambiguous(j, i, "mixes it with the text of another message");
}

/* The message's own text, and the special token that follows it directly. */
static ft_status content_span(struct span *out, struct job *j, size_t i)
{
    *out = text_of(j, i);
    if (out->from == SIZE_MAX) {
        *out = (struct span){0, 0};
        return FT_OK;
    }
    if (stranger_in(j, *out, i) != SIZE_MAX)
        return ambiguous(j, i, "mixes it with the text of another message");
    size_t token, end = behind_special(j, out->to, template_end(j, out->to), &token);
    if (token == out->to)
        out->to = end;
    return FT_OK;
}

/* The message whose turn a piece inside {% generation %} belongs to, SIZE_MAX for the template's
 * own text. */
static size_t message_of(uint32_t origin)
{
    return plain(origin) >= FIRST_MESSAGE ? plain(origin) - FIRST_MESSAGE : SIZE_MAX;
}

/* Of answers that have left no text: whether they are trained, *mixed when only some are. Without
 * any, the template marks text of its own, which is. */
static bool silent_answers_trained(const struct job *j, bool *mixed)
{
    bool any = false, trained = true;
    *mixed = false;
    for (size_t i = 0; i < j->c->n; i++) {
        const struct chat_message *m = &j->c->messages[i];
        if (m->role != CHAT_ASSISTANT || text_of(j, i).from != SIZE_MAX)
            continue;
        *mixed |= any && chat_is_trained(m) != trained;
        any = true;
        trained = chat_is_trained(m);
    }
    return trained;
}

/* One stretch of pieces inside {% generation %} is trained as its message is. */
static ft_status generation_span(bool *out, struct job *j, size_t first, size_t behind)
{
    size_t owner = SIZE_MAX;
    bool mixed = false;
    for (size_t i = first; i < behind && !mixed; i++) {
        size_t m = message_of(j->whole.pieces[i].origin);
        if (m == SIZE_MAX || m == owner)
            continue;
        mixed = owner != SIZE_MAX && chat_is_trained(&j->c->messages[m]) != *out;
        owner = m;
        *out = chat_is_trained(&j->c->messages[m]);
    }
    if (owner == SIZE_MAX)
        *out = silent_answers_trained(j, &mixed);
    return mixed ? ft_fail(j->err, FT_EFORMAT,
                           "only some answers are trained, and it cannot be told whose the text in "
                           "a {%% generation %%} of the template is")
                 : FT_OK;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Writes [from, to) of the whole text, template's and messages' parts apart. */
static void write_part(struct chat_writer *w, const struct job *j, size_t from, size_t to)
{
    for (size_t i = 0; i < j->whole.n_pieces && from < to; i++) {
        size_t end = FT_MIN((size_t)j->whole.pieces[i].end, to);
        if (end <= from)
            continue;
        str part = str_sub(j->whole.text, from, end);
        if (plain(j->whole.pieces[i].origin) == JINJA_TEMPLATE)
            chat_put(w, part);
        else
            chat_put_content(w, part);
        from = end;
    }
}

static void write_trained(struct chat_writer *w, const struct job *j, struct span s)
{
    if (s.to <= s.from)
        return;
    chat_begin_trained(w);
    write_part(w, j, s.from, s.to);
    chat_end_trained(w);
}

static ft_status write_generation(struct chat_writer *w, struct job *j)
{
    const struct jinja_output *o = &j->whole;
    for (size_t i = 0; i < j->c->n; i++)
        if (chat_is_trained(&j->c->messages[i]) && j->c->messages[i].role != CHAT_ASSISTANT)
            return ft_fail(j->err, FT_EFORMAT,
                           "messages[%zu]: is to be trained, but the template marks answers of the "
                           "assistant only",
                           i);
    for (size_t i = 0, behind; i < o->n_pieces; i = behind) {
        bool inside = o->pieces[i].origin & JINJA_GENERATION, trained = false;
        for (behind = i + 1; behind < o->n_pieces; behind++)
            if (((o->pieces[behind].origin & JINJA_GENERATION) != 0) != inside)
                break;
        if (inside)
            FT_TRY(generation_span(&trained, j, i, behind));
        struct span s = {piece_start(o, i), o->pieces[behind - 1].end};
        if (trained)
            write_trained(w, j, s);
        else
            write_part(w, j, s.from, s.to);
    }
    return FT_OK;
}

static ft_status write_spans(struct chat_writer *w, struct job *j)
{
    size_t at = 0;
    for (size_t i = 0; i < j->c->n; i++) {
        struct span s;
        if (!chat_is_trained(&j->c->messages[i]))
            continue;
        bool turn = j->t->data == NULL && j->c->messages[i].role == CHAT_ASSISTANT;
        FT_TRY(turn ? turn_span(&s, j, i) : content_span(&s, j, i));
        if (s.to == s.from)
            continue;
        if (s.from < at)
            return ambiguous(j, i, "does not keep the order of the messages");
        write_part(w, j, at, s.from);
        write_trained(w, j, s);
        at = s.to;
    }
    write_part(w, j, at, j->whole.text.len);
    return FT_OK;
}

/* --- the kind -------------------------------------------------------------------------------- */

static ft_status render_in(struct chat_writer *w, struct job *j, bool add_prompt)
{
    make_vars(j);
    FT_TRY(render_head(&j->whole, j, j->c->n, add_prompt));
    if (add_prompt) {
        write_part(w, j, 0, j->whole.text.len);
        return FT_OK;
    }
    return jinja_has_generation(j->state->template) ? write_generation(w, j) : write_spans(w, j);
}

static ft_status start(struct job *j, const struct chat_template *t,
                       const struct chat_conversation *c, ft_error *err)
{
    *j = (struct job){.t = t, .state = t->state, .c = c, .err = err};
    FT_TRY(jinja_run_create(&j->run, JINJA_LIMITS, err));
    jinja_run_clock(j->run, &j->state->now);
    return FT_OK;
}

static ft_status render(struct chat_writer *w, const struct chat_template *t,
                        const struct chat_conversation *c, bool add_prompt, ft_error *err)
{
    struct job j;
    FT_TRY(start(&j, t, c, err));
    ft_status st = render_in(w, &j, add_prompt);
    jinja_run_destroy(j.run);
    return st;
}

static ft_status find_specials(struct state *s, struct chat_template *t, ft_error *err)
{
    size_t n = 0;
    for (int32_t id = 0; id < tok_n_vocab(t->tok); id++)
        n += tok_is_special(t->tok, id) && tok_bytes(t->tok, id).len > 0;
    s->specials = arena_alloc(&t->arena, n, sizeof *s->specials);
    if (s->specials == NULL)
        return ft_fail_memory(err, n * sizeof *s->specials, "special tokens");
    for (int32_t id = 0; id < tok_n_vocab(t->tok); id++)
        if (tok_is_special(t->tok, id) && tok_bytes(t->tok, id).len > 0)
            s->specials[s->n_specials++] = tok_bytes(t->tok, id);
    return FT_OK;
}

/* What ends a turn is seen in a small conversation; the EOS token always does, and a template that
 * cannot render it has no other. */
static ft_status find_stop(struct chat_template *t, ft_error *err)
{
    static const struct chat_message messages[] = {
        {.role = CHAT_USER, .content = {"a", 1}, .name = {"", 0}, .sep = {"", 0}},
        {.role = CHAT_ASSISTANT, .content = {"b", 1}, .name = {"", 0}, .sep = {"", 0}}};
    const struct chat_conversation c = {.messages = messages, .n = 2};
    struct job j;
    size_t at;
    FT_TRY(chat_reserve_stops(t, 1, err));
    FT_TRY(start(&j, t, &c, err));
    make_vars(&j);
    ft_status st = render_head(&j.whole, &j, 2, false);
    struct span text = st == FT_OK ? text_of(&j, 1) : (struct span){SIZE_MAX, SIZE_MAX};
    if (text.from != SIZE_MAX) {
        size_t end = behind_special(&j, text.to, j.whole.text.len, &at);
        str word = arena_str(&t->arena, str_sub(j.whole.text, FT_MIN(at, end), end));
        if (word.ptr == NULL)
            st = ft_fail_memory(err, end - at, "a stop word");
        else if (end > at)
            chat_add_stop(t, word);
    }
    jinja_run_destroy(j.run);
    return st == FT_EFORMAT || st == FT_ELIMIT ? FT_OK : st;
}

static ft_status create(struct chat_template *t, ft_error *err)
{
    str source = t->source.len > 0 ? t->source : tok_chat_template(t->tok);
    time_t now = time(NULL);
    struct state *s;
    if (source.len == 0)
        return ft_fail(
            err, FT_EFORMAT,
            "--template %s: the tokenizer file has no chat template; name another one or "
            "give a file",
            t->name);
    t->state = s = arena_alloc(&t->arena, 1, sizeof *s);
    if (s == NULL)
        return ft_fail_memory(err, sizeof *s, "a chat template");
    localtime_r(&now, &s->now);
    FT_TRY(jinja_compile(&s->template, t->source.len > 0 ? t->name : "chat_template", source, err));
    FT_TRY(find_specials(s, t, err));
    return find_stop(t, err);
}

static void destroy(struct chat_template *t)
{
    struct state *s = t->state;
    if (s != NULL)
        jinja_destroy(s->template);
}

const struct chat_kind chat_jinja = {
    .suffix = ".jinja", .tools = true, .create = create, .render = render, .destroy = destroy};
