/* SPDX-License-Identifier: Apache-2.0
 * Folds messages into turns as XTuner's openai_map_fn does, and writes them as its template_map_fn
 * and encode_fn do: the pieces "system and user text", "answer and suffix" and "separator" are
 * encoded on their own; BOS stands in front of the first turn and of each behind an EOS. */
#include "formats/chat_xtuner.h"

#include <stdio.h>
#include <string.h>

/* --- strings with places to fill in ----------------------------------------------------------- */

enum place { PLACE_NONE, PLACE_INPUT, PLACE_SYSTEM, PLACE_ROUND };
static const char *const place_names[] = {"", "{input}", "{system}", "{round}"};

struct part {
    str literal;      /* text, then */
    enum place place; /* what is filled in behind it */
};

struct format {
    struct part *parts;
    size_t n;
};

static enum place place_at(str rest)
{
    for (int p = PLACE_INPUT; p <= PLACE_ROUND; p++)
        if (str_starts(rest, str_from(place_names[p])))
            return (enum place)p;
    return PLACE_NONE;
}

static bool is_brace(char c)
{
    return c == '{' || c == '}';
}

/* Cuts the next part off *rest. False at a brace that is neither doubled nor part of a place. */
static bool next_part(struct part *out, str *rest)
{
    size_t n = 0;
    while (n < rest->len && !is_brace(rest->ptr[n]))
        n++;
    out->place = place_at(str_sub(*rest, n, rest->len));
    bool doubled = n + 1 < rest->len && rest->ptr[n] == rest->ptr[n + 1];
    if (n < rest->len && out->place == PLACE_NONE && !doubled)
        return false;
    /* Of a doubled brace the first stays, as the end of this literal. */
    size_t kept = n + (n < rest->len && out->place == PLACE_NONE);
    size_t used = out->place != PLACE_NONE ? n + strlen(place_names[out->place])
                  : n < rest->len          ? n + 2
                                           : n;
    out->literal = str_sub(*rest, 0, kept);
    *rest = str_sub(*rest, used, rest->len);
    return true;
}

/* content: the place that must be there, exactly once; round: whether {round} may be. */
static ft_status parse_format(struct format *out, struct arena *arena, const char *key,
                              const char *text, enum place content, bool round, ft_error *err)
{
    size_t max_parts = 1, n_content = 0;
    for (const char *p = text; *p != '\0'; p++)
        max_parts += is_brace(*p);
    out->parts = arena_alloc(arena, max_parts, sizeof *out->parts);
    if (out->parts == NULL)
        return ft_fail_memory(err, max_parts * sizeof *out->parts, "a template");
    for (str rest = str_from(text); rest.len > 0; out->n++) {
        struct part *part = &out->parts[out->n];
        size_t at = strlen(text) - rest.len;
        if (!next_part(part, &rest) || (part->place == PLACE_ROUND && !round) ||
            (part->place != PLACE_NONE && part->place != PLACE_ROUND && part->place != content))
            return ft_fail(err, FT_EFORMAT,
                           "%s: a brace behind byte %zu is none of %s%s; write {{ or }} for a "
                           "brace that stays",
                           key, at, place_names[content], round ? " and {round}" : "");
        n_content += part->place == content;
    }
    if (n_content != 1)
        return ft_fail(err, FT_EFORMAT, "%s: %s must be in it once, found %zu times", key,
                       place_names[content], n_content);
    return FT_OK;
}

/* --- templates -------------------------------------------------------------------------------- */

struct xtuner {
    struct format system, instruction; /* system.n == 0: there can be no system message */
    str suffix, sep;
    bool add_eos; /* behind every turn, and so BOS in front of every turn */
    int32_t bos[2], eos;
    size_t n_bos;
};

/* XTuner goes by the name of the tokenizer's class; the special tokens tell the same. Qwen's
 * tokenizers add no BOS although some files name one, and ChatGLM's prompts start with two ids. */
static void choose_bos(struct xtuner *x, const struct tok *tok)
{
    int32_t bos = tok_bos(tok), mask = tok_special(tok, STR("[gMASK]")),
            sop = tok_special(tok, STR("sop"));
    bool qwen = bos >= 0 && str_is(tok_bytes(tok, bos), "<|endoftext|>") &&
                tok_special(tok, STR("<|im_start|>")) == bos + 1;
    if (mask >= 0 && sop >= 0) {
        x->bos[0] = mask;
        x->bos[1] = sop;
        x->n_bos = 2;
    } else if (bos >= 0 && !qwen) {
        x->bos[0] = bos;
        x->n_bos = 1;
    }
}

static ft_status add_stops(struct chat_template *t, const struct xtuner_strings *s, ft_error *err)
{
    FT_TRY(chat_reserve_stops(t, XTUNER_MAX_STOP_WORDS, err));
    for (size_t i = 0; i < XTUNER_MAX_STOP_WORDS && s->stop_words[i] != NULL; i++)
        chat_add_stop(t, str_from(s->stop_words[i]));
    return FT_OK;
}

static ft_status compile(struct chat_template *t, const struct xtuner_strings *s, ft_error *err)
{
    struct xtuner *x = arena_alloc(&t->arena, 1, sizeof *x);
    if (x == NULL)
        return ft_fail_memory(err, sizeof *x, "a template");
    t->state = x;
    FT_TRY(parse_format(&x->instruction, &t->arena, "INSTRUCTION", s->instruction, PLACE_INPUT,
                        true, err));
    if (s->system != NULL)
        FT_TRY(parse_format(&x->system, &t->arena, "SYSTEM", s->system, PLACE_SYSTEM, false, err));
    x->suffix = str_from(s->suffix == NULL ? "" : s->suffix);
    x->sep = str_from(s->sep == NULL ? "" : s->sep);
    x->add_eos = !s->suffix_as_eos;
    t->keeps_turn_ends = s->keeps_turn_ends;
    x->eos = tok_eos(t->tok);
    choose_bos(x, t->tok);
    if (x->add_eos && x->eos < 0)
        return ft_fail(err, FT_EFORMAT,
                       "the template '%s' ends every turn with the tokenizer's EOS, but the "
                       "tokenizer names none",
                       t->name);
    return add_stops(t, s, err);
}

/* --- users' files ----------------------------------------------------------------------------- */

static const char *const keys[] = {"SYSTEM",        "INSTRUCTION", "SUFFIX",
                                   "SUFFIX_AS_EOS", "SEP",         "STOP_WORDS"};

static ft_status check_keys(const json *root, ft_error *err)
{
    if (json_kind(root) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "expected an object with \"INSTRUCTION\", found %s",
                       json_kind_name(json_kind(root)));
    for (const json *m = json_first(root); m != NULL; m = json_next(m)) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
            known = known || str_is(json_key(m), keys[i]);
        const char *near = str_nearest(json_key(m), keys, ARRAY_LEN(keys));
        if (!known)
            return ft_fail(err, FT_EFORMAT,
                           "\"%.*s\" is not known; there are SYSTEM, INSTRUCTION, SUFFIX, "
                           "SUFFIX_AS_EOS, SEP and STOP_WORDS%s%s%s",
                           STR_ARG(json_key(m)), near == NULL ? "" : "; did you mean ",
                           near == NULL ? "" : near, near == NULL ? "" : "?");
    }
    return FT_OK;
}

/* A string, copied; absent, null and "" give NULL. */
static ft_status get_string(const char **out, struct arena *arena, const json *v, const char *key,
                            ft_error *err)
{
    str s;
    *out = NULL;
    if (v == NULL || json_kind(v) == JSON_NULL)
        return FT_OK;
    if (!json_str(v, &s))
        return ft_fail(err, FT_EFORMAT, "%s: expected a string, found %s", key,
                       json_kind_name(json_kind(v)));
    if (memchr(s.ptr, '\0', s.len) != NULL)
        return ft_fail(err, FT_EFORMAT, "%s: holds \\u0000", key);
    if (s.len == 0)
        return FT_OK;
    *out = arena_cstr(arena, s);
    return *out == NULL ? ft_fail_memory(err, s.len, "a template") : FT_OK;
}

static ft_status get_stop_words(struct xtuner_strings *s, struct arena *arena, const json *v,
                                ft_error *err)
{
    size_t n = 0;
    if (v != NULL && json_kind(v) != JSON_ARRAY)
        return ft_fail(err, FT_EFORMAT, "STOP_WORDS: expected a list of strings, found %s",
                       json_kind_name(json_kind(v)));
    for (const json *word = json_first(v); word != NULL; word = json_next(word)) {
        const char *text;
        FT_TRY(get_string(&text, arena, word, "STOP_WORDS", err));
        if (text == NULL)
            return ft_fail(err, FT_EFORMAT, "STOP_WORDS: an empty word would end every answer");
        if (n == XTUNER_MAX_STOP_WORDS)
            return ft_fail(err, FT_ELIMIT, "STOP_WORDS: more than %d words", XTUNER_MAX_STOP_WORDS);
        s->stop_words[n++] = text;
    }
    return FT_OK;
}

static ft_status read_strings(struct xtuner_strings *s, struct arena *arena, const json *root,
                              ft_error *err)
{
    FT_TRY(check_keys(root, err));
    FT_TRY(get_string(&s->system, arena, json_get(root, "SYSTEM"), "SYSTEM", err));
    FT_TRY(get_string(&s->instruction, arena, json_get(root, "INSTRUCTION"), "INSTRUCTION", err));
    FT_TRY(get_string(&s->suffix, arena, json_get(root, "SUFFIX"), "SUFFIX", err));
    FT_TRY(get_string(&s->sep, arena, json_get(root, "SEP"), "SEP", err));
    FT_TRY(json_opt_bool(&s->suffix_as_eos, root, "SUFFIX_AS_EOS", false, err));
    if (s->instruction == NULL)
        return ft_fail(err, FT_EFORMAT,
                       "INSTRUCTION is missing: the text around a user message, with {input}");
    if (s->suffix_as_eos && s->suffix == NULL)
        return ft_fail(
            err, FT_EFORMAT,
            "SUFFIX_AS_EOS is true, but there is no SUFFIX: nothing would end an answer");
    return get_stop_words(s, arena, json_get(root, "STOP_WORDS"), err);
}

static ft_status create_from_file(struct chat_template *t, ft_error *err)
{
    struct xtuner_strings s = {0};
    struct json_doc *doc;
    FT_TRY(json_parse(&doc, "JSON", t->source, JSON_COMMENTS, err));
    ft_status st = read_strings(&s, &t->arena, json_root(doc), err);
    json_close(doc);
    return st == FT_OK ? compile(t, &s, err) : st;
}

static ft_status create(struct chat_template *t, ft_error *err)
{
    if (t->data != NULL)
        return compile(t, t->data, err);
    ft_status st = create_from_file(t, err);
    return st == FT_EFORMAT || st == FT_ELIMIT ? ft_wrap(err, "%s", t->name) : st;
}

static void write_member(struct buf *out, const char *key, const char *value)
{
    if (value == NULL)
        return;
    buf_printf(out, "  \"%s\": ", key);
    json_write_str(out, str_from(value));
    buf_cstr(out, ",\n");
}

void xtuner_write_json(struct buf *out, const struct xtuner_strings *s)
{
    buf_cstr(out, "{\n");
    write_member(out, "SYSTEM", s->system);
    write_member(out, "INSTRUCTION", s->instruction);
    write_member(out, "SUFFIX", s->suffix);
    write_member(out, "SEP", s->sep);
    buf_printf(out, "  \"SUFFIX_AS_EOS\": %s,\n  \"STOP_WORDS\": [",
               s->suffix_as_eos ? "true" : "false");
    for (size_t i = 0; i < XTUNER_MAX_STOP_WORDS && s->stop_words[i] != NULL; i++) {
        buf_cstr(out, i == 0 ? "" : ", ");
        json_write_str(out, str_from(s->stop_words[i]));
    }
    buf_cstr(out, "]\n}\n");
}

/* --- rendering -------------------------------------------------------------------------------- */

/* A conversation on its way into turns. */
struct fold {
    struct chat_writer *w;
    const struct chat_template *t;
    const struct xtuner *x;
    const struct chat_message *system, *user; /* waiting for their answer; NULL = none */
    size_t n_turns;
    bool needs_bos;
};

static void put_filled(struct fold *f, const struct format *format, const struct chat_message *m)
{
    char round[24];
    for (size_t i = 0; i < format->n; i++) {
        const struct part *part = &format->parts[i];
        chat_put(f->w, part->literal);
        if (part->place == PLACE_ROUND) {
            snprintf(round, sizeof round, "%zu", f->n_turns + 1);
            chat_put(f->w, str_from(round));
        } else if (part->place != PLACE_NONE && m != NULL) {
            if (chat_is_trained(m))
                chat_begin_trained(f->w);
            chat_put_content(f->w, m->content);
            if (chat_is_trained(m))
                chat_end_trained(f->w);
        }
    }
}

/* BOS, system and user text. */
static void put_question(struct fold *f)
{
    chat_cut(f->w);
    for (size_t i = 0; f->needs_bos && i < f->x->n_bos; i++)
        chat_insert(f->w, f->x->bos[i], false);
    if (f->system != NULL)
        put_filled(f, &f->x->system, f->system);
    put_filled(f, &f->x->instruction, f->user);
    f->system = f->user = NULL;
}

static void put_answer(struct fold *f, const struct chat_message *m)
{
    bool trained = chat_is_trained(m), eos = f->x->add_eos && !m->no_eos;
    chat_cut(f->w);
    if (trained)
        chat_begin_trained(f->w);
    chat_put_content(f->w, m->content);
    chat_put(f->w, f->x->suffix);
    if (trained)
        chat_end_trained(f->w);
    chat_insert(f->w, eos ? f->x->eos : -1, trained);
    f->needs_bos = eos;
    chat_put(f->w, f->x->sep);
    chat_put(f->w, m->sep);
    f->n_turns++;
}

static ft_status hold_system(struct fold *f, const struct chat_message *m, size_t i, ft_error *err)
{
    if (m->content.len == 0)
        return FT_OK; /* an empty one is none */
    if (f->x->system.n == 0)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].role: \"%s\": the template '%s' has no place for it", i,
                       chat_role_names[m->role], f->t->name);
    if (f->system != NULL)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].role: a second system message before an answer", i);
    f->system = m;
    return FT_OK;
}

static ft_status hold_user(struct fold *f, const struct chat_message *m, size_t i, ft_error *err)
{
    if (f->user != NULL)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].role: a second user message before an answer "
                       "(--merge-consecutive joins neighbours)",
                       i);
    f->user = m;
    return FT_OK;
}

static ft_status skip(struct fold *f, const struct chat_message *m, size_t i, ft_error *err)
{
    if (m->loss == CHAT_LOSS_ON)
        return ft_fail(err, FT_EFORMAT,
                       "messages[%zu].loss: true, but the template '%s' leaves out an assistant "
                       "message in front of all others",
                       i, f->t->name);
    f->w->out->n_skipped++;
    return FT_OK;
}

static ft_status fold_message(struct fold *f, const struct chat_message *m, size_t i, ft_error *err)
{
    if (m->role == CHAT_SYSTEM || m->role == CHAT_DEVELOPER)
        return hold_system(f, m, i, err);
    if (m->role == CHAT_USER)
        return hold_user(f, m, i, err);
    if (f->w->out->n_skipped == i) /* all before it were such, too */
        return skip(f, m, i, err);
    put_question(f);
    put_answer(f, m);
    return FT_OK;
}

static ft_status render(struct chat_writer *w, const struct chat_template *t,
                        const struct chat_conversation *c, bool add_prompt, ft_error *err)
{
    struct fold f = {.w = w, .t = t, .x = t->state, .needs_bos = true};
    for (size_t i = 0; i < c->n; i++)
        FT_TRY(fold_message(&f, &c->messages[i], i, err));
    if (add_prompt)
        put_question(&f);
    else if (f.user != NULL || f.system != NULL)
        return ft_fail(err, FT_EFORMAT, "messages[%zu]: no answer follows", c->n - 1);
    return FT_OK;
}

const struct chat_kind chat_xtuner = {.suffix = ".json", .create = create, .render = render};
