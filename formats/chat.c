/* SPDX-License-Identifier: Apache-2.0
 * The table of templates, the writer they share, and the way from marked text to ids and mask. */
#include "formats/chat.h"

#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/chat_xtuner.h"

const char *const chat_role_names[CHAT_ROLES] = {"system",    "developer", "user",
                                                 "assistant", "tool",      "function"};

enum { MAX_TEMPLATE_BYTES = 1 << 20 };

static const struct chat_known others[] = {
    {"smollm2", chat_smollm2_jinja, &chat_smollm2, NULL},
    {CHAT_JINJA, NULL, &chat_jinja, NULL},
    {CHAT_JINJA "-content", NULL, &chat_jinja, "content"},
};

/* --- finding and making ----------------------------------------------------------------------- */

#define AUTOMATIC "auto"

enum { N_KNOWN = ARRAY_LEN(others) + XTUNER_TEMPLATES };

static const struct chat_known *known_at(size_t i)
{
    FT_ASSERT(i < N_KNOWN);
    return i < ARRAY_LEN(others) ? &others[i] : &xtuner_templates[i - ARRAY_LEN(others)];
}

size_t chat_known_count(void)
{
    return N_KNOWN;
}

const char *chat_known_name(size_t i)
{
    return known_at(i)->name;
}

bool chat_known_strings(struct buf *out, size_t i)
{
    if (known_at(i)->kind != &chat_xtuner)
        return false;
    xtuner_write_json(out, known_at(i)->data);
    return true;
}

static const struct chat_known *known_for(str jinja)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        const struct chat_known *k = known_at(i);
        if (k->jinja != NULL && str_eq(str_trim(jinja), str_trim(str_from(k->jinja))))
            return k;
    }
    return NULL;
}

const char *chat_known_for(str jinja)
{
    const struct chat_known *k = known_for(jinja);
    return k == NULL ? NULL : k->name;
}

static const struct chat_known *known_named(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known_at(i)->name, name) == 0)
            return known_at(i);
    return NULL;
}

static ft_status unknown_name(const char *name, ft_error *err)
{
    const char *names[N_KNOWN + 1] = {AUTOMATIC};
    struct buf list = {0};
    for (size_t i = 0; i < N_KNOWN; i++) {
        names[i + 1] = chat_known_name(i);
        buf_printf(&list, ", %s", names[i + 1]);
    }
    buf_byte(&list, '\0');
    const char *near = str_nearest(str_from(name), names, ARRAY_LEN(names));
    ft_status st = ft_fail(err, FT_EUSAGE, "--template: '%s' is not known; there are %s%s%s%s%s",
                           name, AUTOMATIC, list.failed ? "" : (const char *)list.data,
                           near == NULL ? "" : "; did you mean '", near == NULL ? "" : near,
                           near == NULL ? "" : "'?");
    buf_free(&list);
    return st;
}

static ft_status choose(const struct chat_known **out, const char *name, const struct tok *tok,
                        ft_error *err)
{
    str jinja = tok_chat_template(tok);
    if (strcmp(name, AUTOMATIC) != 0) {
        *out = known_named(name);
        return *out == NULL ? unknown_name(name, err) : FT_OK;
    }
    if (jinja.len == 0)
        return ft_fail(err, FT_EFORMAT,
                       "--template auto: the tokenizer file has no chat template; name a template");
    *out = known_for(jinja);
    if (*out == NULL) /* the engine renders it as it stands */
        *out = known_named(CHAT_JINJA);
    return FT_OK;
}

/* The kind whose files end like this one, NULL when it is no file. */
static const struct chat_kind *kind_of_file(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++) {
        const struct chat_kind *kind = known_at(i)->kind;
        if (kind->suffix != NULL && str_ends(str_from(name), str_from(kind->suffix)))
            return kind;
    }
    return NULL;
}

static ft_status make(struct chat_template **out, const struct chat_template *proto, ft_error *err)
{
    struct chat_template *t;
    *out = NULL;
    FT_TRY(mem_new(&t, 1, sizeof *t, "a chat template", err));
    *t = *proto;
    t->name = arena_cstr(&t->arena, str_from(proto->name));
    t->source = arena_str(&t->arena, proto->source);
    ft_status st = t->name == NULL || t->source.ptr == NULL
                       ? ft_fail_memory(err, proto->source.len, "a chat template")
                       : t->kind->create(t, err);
    if (st != FT_OK) {
        chat_template_close(t);
        return st;
    }
    *out = t;
    return FT_OK;
}

static ft_status make_known(struct chat_template **out, const char *name, const struct tok *tok,
                            ft_error *err)
{
    const struct chat_known *k;
    FT_TRY(choose(&k, name, tok, err));
    struct chat_template proto = {
        .kind = k->kind, .name = k->name, .tok = tok, .data = k->data, .source = STR("")};
    return make(out, &proto, err);
}

static ft_status make_file(struct chat_template **out, const struct chat_kind *kind,
                           const char *path, const struct tok *tok, ft_error *err)
{
    struct arena a = {0};
    struct chat_template proto = {.kind = kind, .name = path_base(path), .tok = tok};
    ft_status st = file_read_all(&proto.source, &a, path, MAX_TEMPLATE_BYTES, err);
    if (st == FT_OK && proto.source.len == 0)
        st = ft_fail(err, FT_EFORMAT, "%s: is empty, expected a chat template", path);
    if (st == FT_OK)
        st = make(out, &proto, err);
    arena_destroy(&a);
    return st;
}

ft_status chat_template_open(struct chat_template **out, const char *name, const struct tok *tok,
                             ft_error *err)
{
    const struct chat_kind *kind = kind_of_file(name);
    *out = NULL;
    if (kind != NULL)
        return make_file(out, kind, name, tok, err);
    return make_known(out, name, tok, err);
}

ft_status chat_template_restore(struct chat_template **out, const char *name, str source,
                                const struct tok *tok, ft_error *err)
{
    const struct chat_kind *kind = kind_of_file(name);
    *out = NULL;
    if (source.len == 0)
        return make_known(out, name, tok, err);
    if (kind == NULL)
        return ft_fail(err, FT_EFORMAT, "the chat template '%s' is of no kind that is known", name);
    return make(out,
                &(struct chat_template){.kind = kind, .name = name, .tok = tok, .source = source},
                err);
}

void chat_template_close(struct chat_template *t)
{
    if (t == NULL)
        return;
    if (t->kind->destroy != NULL)
        t->kind->destroy(t);
    arena_destroy(&t->arena);
    mem_free(t);
}

const char *chat_template_name(const struct chat_template *t)
{
    return t->name;
}

str chat_template_source(const struct chat_template *t)
{
    return t->source;
}

/* --- what ends a turn ------------------------------------------------------------------------- */

ft_status chat_reserve_stops(struct chat_template *t, size_t n, ft_error *err)
{
    t->stop_ids = arena_alloc(&t->arena, n, sizeof *t->stop_ids);
    t->stop_words = arena_alloc(&t->arena, n, sizeof *t->stop_words);
    t->cap_stops = n;
    return t->stop_ids == NULL || t->stop_words == NULL
               ? ft_fail_memory(err, n * sizeof *t->stop_words, "stop words")
               : FT_OK;
}

void chat_add_stop(struct chat_template *t, str word)
{
    int32_t id = tok_special(t->tok, word);
    FT_ASSERT(t->n_stop_ids + t->n_stop_words < t->cap_stops);
    if (id >= 0)
        t->stop_ids[t->n_stop_ids++] = id;
    else
        t->stop_words[t->n_stop_words++] = word;
}

bool chat_is_stop(const struct chat_template *t, int32_t id)
{
    for (size_t i = 0; i < t->n_stop_ids; i++)
        if (t->stop_ids[i] == id)
            return true;
    return id == tok_eos(t->tok);
}

size_t chat_stop_ids(const struct chat_template *t, const int32_t **ids)
{
    *ids = t->stop_ids;
    return t->n_stop_ids;
}

size_t chat_stop_words(const struct chat_template *t, const str **words)
{
    *words = t->stop_words;
    return t->n_stop_words;
}

/* --- writing ---------------------------------------------------------------------------------- */

void chat_text_free(struct chat_text *t)
{
    buf_free(&t->text);
    mem_free(t->literal);
    mem_free(t->trained);
    mem_free(t->cuts);
    *t = (struct chat_text){0};
}

/* Room for one more element of *items. */
static bool grow(struct chat_writer *w, void *items, size_t n, size_t *cap, size_t size)
{
    void **p = items;
    if (n < *cap)
        return true;
    size_t more = FT_MAX(*cap * 2, (size_t)16);
    void *grown = mem_realloc(*p, more, size);
    if (grown == NULL) {
        w->failed = true;
        return false;
    }
    *p = grown;
    *cap = more;
    return true;
}

/* Where the piece that is being written starts. */
static size_t piece_start(const struct chat_text *t)
{
    return t->n_cuts == 0 ? 0 : t->cuts[t->n_cuts - 1].at;
}

static size_t piece_first_literal(const struct chat_text *t)
{
    return t->n_cuts == 0 ? 0 : t->cuts[t->n_cuts - 1].n_literal;
}

void chat_put(struct chat_writer *w, str literal)
{
    struct chat_text *t = w->out;
    size_t from = t->text.len - piece_start(t), to = from + literal.len;
    buf_str(&t->text, literal);
    if (literal.len == 0)
        return;
    if (t->n_literal > piece_first_literal(t) && t->literal[t->n_literal - 1].to == from)
        t->literal[t->n_literal - 1].to = to;
    else if (grow(w, &t->literal, t->n_literal, &t->cap_literal, sizeof *t->literal))
        t->literal[t->n_literal++] = (struct tok_range){from, to};
}

void chat_put_content(struct chat_writer *w, str content)
{
    buf_str(&w->out->text, content);
}

void chat_begin_trained(struct chat_writer *w)
{
    struct chat_text *t = w->out;
    size_t at = t->text.len;
    if (t->n_trained > 0 && t->trained[t->n_trained - 1].to == at)
        return; /* goes on */
    if (grow(w, &t->trained, t->n_trained, &t->cap_trained, sizeof *t->trained))
        t->trained[t->n_trained++] = (struct tok_range){at, at};
}

void chat_end_trained(struct chat_writer *w)
{
    if (!w->failed)
        w->out->trained[w->out->n_trained - 1].to = w->out->text.len;
}

void chat_insert(struct chat_writer *w, int32_t id, bool trained)
{
    struct chat_text *t = w->out;
    if (grow(w, &t->cuts, t->n_cuts, &t->cap_cuts, sizeof *t->cuts))
        t->cuts[t->n_cuts++] = (struct chat_cut){t->text.len, id, trained, t->n_literal};
}

void chat_cut(struct chat_writer *w)
{
    chat_insert(w, -1, false);
}

bool chat_is_trained(const struct chat_message *m)
{
    return m->loss == CHAT_LOSS_ON || (m->loss == CHAT_LOSS_DEFAULT && m->role == CHAT_ASSISTANT);
}

/* --- rendering -------------------------------------------------------------------------------- */

/* null and [] are as good as absent. */
static bool is_set(const json *v)
{
    return v != NULL && json_kind(v) != JSON_NULL &&
           !(json_kind(v) == JSON_ARRAY && json_count(v) == 0);
}

bool chat_message_has_calls(const struct chat_message *m)
{
    return is_set(json_get(m->json, "tool_calls")) || is_set(json_get(m->json, "function_call"));
}

static ft_status refuse_tools(const struct chat_template *t, const struct chat_conversation *c,
                              ft_error *err)
{
    static const char why[] = "cannot express tools; use one that can, such as the model's own "
                              "(--template auto)";
    if (is_set(c->tools))
        return ft_fail(err, FT_EFORMAT, "tools: the template '%s' %s", t->name, why);
    for (size_t i = 0; i < c->n; i++) {
        const struct chat_message *m = &c->messages[i];
        if (m->role == CHAT_TOOL || m->role == CHAT_FUNCTION)
            return ft_fail(err, FT_EFORMAT, "messages[%zu].role: \"%s\": the template '%s' %s", i,
                           chat_role_names[m->role], t->name, why);
        if (chat_message_has_calls(m))
            return ft_fail(err, FT_EFORMAT, "messages[%zu]: holds tool calls: the template '%s' %s",
                           i, t->name, why);
    }
    return FT_OK;
}

static ft_status refuse_turn_ends(const struct chat_template *t, const struct chat_conversation *c,
                                  ft_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->messages[i].no_eos || c->messages[i].sep.len > 0)
            return ft_fail(
                err, FT_EFORMAT,
                "messages[%zu]: \"%s\" is decided by the template '%s'; leave it out, or "
                "use --template plain for text that is complete as it is",
                i, c->messages[i].no_eos ? "need_eos_token" : "sep", t->name);
    return FT_OK;
}

ft_status chat_render(struct chat_text *out, const struct chat_template *t,
                      const struct chat_conversation *c, bool add_prompt, ft_error *err)
{
    struct chat_writer w = {.out = out};
    buf_clear(&out->text);
    out->n_literal = out->n_trained = out->n_cuts = out->n_skipped = 0;
    if (!t->kind->tools)
        FT_TRY(refuse_tools(t, c, err));
    if (!t->keeps_turn_ends)
        FT_TRY(refuse_turn_ends(t, c, err));
    FT_TRY(t->kind->render(&w, t, c, add_prompt, err));
    if (w.failed)
        return ft_fail_memory(err, out->cap_literal * sizeof *out->literal, "a conversation");
    return buf_status(&out->text, "a conversation", err);
}

/* --- encoding --------------------------------------------------------------------------------- */

/* An encoding under way. */
struct job {
    struct tok_ids *ids;
    struct buf *mask;
    struct tok_encoder *encoder;
    const struct chat_text *text;
    enum tok_specials content;
    size_t at;      /* start of the piece */
    size_t literal; /* index of its first literal range */
    size_t trained; /* index of the first trained range that does not end before it */
};

/* The mask of the ids from `first` on, whose offsets count from the start of the piece. */
static ft_status fill_mask(struct job *j, size_t first, ft_error *err)
{
    const struct chat_text *t = j->text;
    size_t n = j->ids->n - first;
    uint8_t *dst = buf_reserve(j->mask, n);
    if (dst == NULL)
        return buf_status(j->mask, "a loss mask", err);
    for (size_t i = 0; i < n; i++) {
        size_t at = j->at + j->ids->offsets[first + i];
        j->ids->offsets[first + i] = (uint32_t)at;
        while (j->trained < t->n_trained && t->trained[j->trained].to <= at)
            j->trained++;
        dst[i] = j->trained < t->n_trained && t->trained[j->trained].from <= at;
    }
    j->mask->len += n;
    return FT_OK;
}

/* Special tokens among the ids from `first` on that the template did not write. Their offsets still
 * count from the start of the piece. */
static size_t count_typed(const struct job *j, size_t first, const struct tok_range *literal,
                          size_t n)
{
    const struct tok *tok = tok_encoder_tok(j->encoder);
    size_t typed = 0, k = 0;
    for (size_t i = first; i < j->ids->n; i++) {
        size_t at = j->ids->offsets[i];
        while (k < n && literal[k].to <= at)
            k++;
        typed += tok_is_special(tok, j->ids->ids[i]) && !(k < n && literal[k].from <= at);
    }
    return typed;
}

/* The piece up to `to`, which has the literal ranges up to `literal`. */
static ft_status encode_piece(struct job *j, size_t to, size_t literal, ft_error *err)
{
    str piece = str_sub(buf_view(&j->text->text), j->at, to);
    size_t first = j->ids->n, n_parse = literal - j->literal;
    const struct tok_range *parse = n_parse == 0 ? NULL : &j->text->literal[j->literal];
    if (j->content == TOK_SPECIALS_PARSE) {
        FT_TRY(tok_encode(j->encoder, j->ids, piece, TOK_SPECIALS_PARSE, err));
        j->ids->n_special_text += count_typed(j, first, parse, n_parse);
    } else {
        FT_TRY(tok_encode_ranges(j->encoder, j->ids, piece, parse, n_parse, err));
    }
    FT_TRY(fill_mask(j, first, err));
    j->at = to;
    j->literal = literal;
    return FT_OK;
}

static ft_status put_id(struct job *j, const struct chat_cut *cut, ft_error *err)
{
    buf_byte(j->mask, cut->trained);
    FT_TRY(buf_status(j->mask, "a loss mask", err));
    return tok_ids_put(j->ids, cut->id, (uint32_t)cut->at, err);
}

ft_status chat_encode(struct tok_ids *ids, struct buf *mask, struct tok_encoder *e,
                      const struct chat_text *text, enum tok_specials content, ft_error *err)
{
    struct job j = {.ids = ids, .mask = mask, .encoder = e, .text = text, .content = content};
    ids->n = ids->n_special_text = 0;
    ids->want_offsets = true;
    buf_clear(mask);
    for (size_t i = 0; i < text->n_cuts; i++) {
        FT_TRY(encode_piece(&j, text->cuts[i].at, text->cuts[i].n_literal, err));
        if (text->cuts[i].id >= 0)
            FT_TRY(put_id(&j, &text->cuts[i], err));
    }
    return encode_piece(&j, text->text.len, text->n_literal, err);
}
