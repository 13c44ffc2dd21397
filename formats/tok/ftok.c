/* SPDX-License-Identifier: Apache-2.0
 * The public library over tok.h: what it adds is a pool of encoders, so that one tokenizer serves
 * any number of threads, and the rule that a special token in a text is allowed or an error. */
#include "formats/tok/ftok.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/tok_internal.h"

/* An encoder has caches of a few MiB: those of threads that are gone are used by others. */
struct idle {
    struct tok_encoder *encoder;
    struct idle *next;
};

struct ftok {
    struct tok *tok;
    struct arena arena;    /* holds specials */
    struct added specials; /* the special tokens, to be found in texts as they stand */
    pthread_mutex_t lock;
    struct idle *idle; /* guarded by lock */
};

struct ftok_stream {
    const struct tok *tok;
    bool skip_specials;
    struct tok_decoding decoding;
    struct buf bytes; /* decoded, not handed out yet */
    struct buf text;  /* handed out by the last call, with a NUL behind it */
};

/* --- errors ---------------------------------------------------------------------------------- */

static ftok_status public_status(ft_status st)
{
    switch (st) {
    case FT_OK:
        return FTOK_OK;
    case FT_EIO:
        return FTOK_EIO;
    case FT_ELIMIT:
        return FTOK_ELIMIT;
    case FT_EMEM:
        return FTOK_EMEM;
    case FT_EUSAGE:
        return FTOK_EARG;
    default:
        return FTOK_EFORMAT;
    }
}

FT_PRINTF(3, 4)
static ftok_status fail(ftok_error *out, ftok_status status, const char *fmt, ...)
{
    va_list args;
    if (out != NULL) {
        out->status = status;
        va_start(args, fmt);
        vsnprintf(out->text, sizeof out->text, fmt, args);
        va_end(args);
    }
    return status;
}

static ftok_status report(ftok_error *out, ft_status st, const ft_error *err)
{
    return st == FT_OK ? FTOK_OK : fail(out, public_status(st), "%s", err->text);
}

static ftok_status fail_memory(ftok_error *out)
{
    return fail(out, FTOK_EMEM, "out of memory");
}

/* --- the tokenizer --------------------------------------------------------------------------- */

const char *ftok_version(void)
{
    return FT_VERSION;
}

/* In ftok_encode a special token is a piece of the text, whatever else its file says of it. */
static ft_status collect_specials(ftok *t, ft_error *err)
{
    const struct added *all = &t->tok->added;
    struct added_token *tokens = arena_alloc(&t->arena, all->n, sizeof *tokens);
    size_t n = 0;
    if (tokens == NULL)
        return ft_fail_memory(err, all->n * sizeof *tokens, "special tokens");
    for (size_t i = 0; i < all->n; i++)
        if (all->tokens[i].flags & ADDED_SPECIAL)
            tokens[n++] = (struct added_token){.content = all->tokens[i].content,
                                               .match = all->tokens[i].content,
                                               .id = all->tokens[i].id,
                                               .flags = ADDED_SPECIAL};
    return added_init(&t->specials, &t->arena, tokens, n, err);
}

ftok_status ftok_open(ftok **out, const char *path, ftok_error *err)
{
    ft_error inner = {0};
    ftok *t = mem_alloc(1, sizeof *t);
    if (t == NULL)
        return fail_memory(err);
    pthread_mutex_init(&t->lock, NULL);
    ft_status st = tok_open(&t->tok, path, &inner);
    if (st == FT_OK)
        st = collect_specials(t, &inner);
    if (st != FT_OK) {
        ftok_close(t);
        return report(err, st, &inner);
    }
    *out = t;
    return FTOK_OK;
}

void ftok_close(ftok *t)
{
    if (t == NULL)
        return;
    while (t->idle != NULL) {
        struct idle *i = t->idle;
        t->idle = i->next;
        tok_encoder_destroy(i->encoder);
        mem_free(i);
    }
    pthread_mutex_destroy(&t->lock);
    arena_destroy(&t->arena);
    tok_close(t->tok);
    mem_free(t);
}

int32_t ftok_n_vocab(const ftok *t)
{
    return tok_n_vocab(t->tok);
}

int32_t ftok_bos(const ftok *t)
{
    return tok_bos(t->tok);
}

int32_t ftok_eos(const ftok *t)
{
    return tok_eos(t->tok);
}

int32_t ftok_special_id(const ftok *t, const char *text)
{
    return tok_special(t->tok, str_from(text));
}

static bool is_id(const ftok *t, int32_t id)
{
    return id >= 0 && id < tok_n_vocab(t->tok);
}

int ftok_is_special(const ftok *t, int32_t id)
{
    return is_id(t, id) && tok_is_special(t->tok, id);
}

const char *ftok_token_bytes(const ftok *t, int32_t id, size_t *bytes)
{
    str s = is_id(t, id) ? tok_bytes(t->tok, id) : (str){NULL, 0};
    *bytes = s.len;
    return s.ptr;
}

/* --- encoding -------------------------------------------------------------------------------- */

static ft_status take_encoder(struct idle **out, const ftok *shared, ft_error *err)
{
    ftok *t = (ftok *)(uintptr_t)shared; /* the pool is not part of what callers see as constant */
    pthread_mutex_lock(&t->lock);
    struct idle *i = t->idle;
    if (i != NULL)
        t->idle = i->next;
    pthread_mutex_unlock(&t->lock);
    if (i == NULL) {
        FT_TRY(mem_new(&i, 1, sizeof *i, "an encoder", err));
        ft_status st = tok_encoder_create(&i->encoder, t->tok, err);
        if (st != FT_OK) {
            mem_free(i);
            return st;
        }
    }
    *out = i;
    return FT_OK;
}

static void give_back(const ftok *shared, struct idle *i)
{
    ftok *t = (ftok *)(uintptr_t)shared;
    pthread_mutex_lock(&t->lock);
    i->next = t->idle;
    t->idle = i;
    pthread_mutex_unlock(&t->lock);
}

static ftok_status check_text(str text, ftok_error *err)
{
    size_t bad = str_utf8_invalid_at(text);
    if (bad == text.len)
        return FTOK_OK;
    return fail(err, FTOK_EUTF8, "the text is not valid UTF-8 at byte %zu", bad);
}

/* The fields of ftok_tokens and tok_ids mean the same. */
static struct tok_ids begin_tokens(const ftok_tokens *tokens)
{
    return (struct tok_ids){.ids = tokens->ids,
                            .offsets = tokens->offsets,
                            .cap = tokens->capacity,
                            .want_offsets = tokens->want_offsets != 0};
}

static void end_tokens(ftok_tokens *tokens, const struct tok_ids *ids, bool ok)
{
    tokens->ids = ids->ids; /* may have moved even on failure */
    tokens->offsets = ids->offsets;
    tokens->capacity = ids->cap;
    if (ok)
        tokens->n = ids->n;
}

void ftok_tokens_free(ftok_tokens *tokens)
{
    mem_free(tokens->ids);
    mem_free(tokens->offsets);
    memset(tokens, 0, sizeof *tokens);
}

static ftok_status encode(const ftok *t, ftok_tokens *out, str text, const struct tok_range *parse,
                          size_t n_parse, ftok_error *err)
{
    ft_error inner = {0};
    struct idle *i;
    ft_status st = take_encoder(&i, t, &inner);
    if (st != FT_OK)
        return report(err, st, &inner);
    struct tok_ids ids = begin_tokens(out);
    st = tok_encode_ranges(i->encoder, &ids, text, parse, n_parse, &inner);
    end_tokens(out, &ids, st == FT_OK);
    give_back(t, i);
    return report(err, st, &inner);
}

ftok_status ftok_encode_ordinary(const ftok *t, ftok_tokens *out, const char *text, size_t bytes,
                                 ftok_error *err)
{
    str s = {text, bytes};
    ftok_status st = check_text(s, err);
    return st == FTOK_OK ? encode(t, out, s, NULL, 0, err) : st;
}

ftok_status ftok_count(const ftok *t, size_t *n, const char *text, size_t bytes, ftok_error *err)
{
    ftok_tokens tokens = {0};
    ftok_status st = ftok_encode_ordinary(t, &tokens, text, bytes, err);
    if (st == FTOK_OK)
        *n = tokens.n;
    ftok_tokens_free(&tokens);
    return st;
}

/* --- special tokens in a text ---------------------------------------------------------------- */

struct specials {
    const ftok *t;
    str text;
    const int32_t *allowed; /* [n_allowed] */
    size_t n_allowed;
    struct buf ranges; /* struct tok_range: where the allowed ones stand */
};

static bool is_allowed(const struct specials *s, int32_t id)
{
    for (size_t i = 0; i < s->n_allowed; i++)
        if (s->allowed[i] == id)
            return true;
    return false;
}

static ftok_status refuse(const struct added_match *m, ftok_error *err)
{
    str content = m->token->content;
    return fail(err, FTOK_ESPECIAL,
                "the text holds the special token \"%.*s\" at byte %zu, which is not among the "
                "allowed ones; allow it, or encode as ordinary text",
                (int)FT_MIN(content.len, (size_t)200), content.ptr, m->from);
}

/* Every special token in the text must be allowed. Their places become ranges to parse. */
static ftok_status find_specials(struct specials *s, ftok_error *err)
{
    struct tok_range all = {0, s->text.len};
    struct added_match m;
    size_t at = 0;
    while (added_next(&m, &s->t->specials.passes[0], s->text, 0, s->text.len, at, 0,
                      (struct added_rule){.parse = &all, .n_parse = 1})) {
        struct tok_range r = {m.from, m.to};
        if (!is_allowed(s, m.token->id))
            return refuse(&m, err);
        buf_append(&s->ranges, &r, sizeof r);
        at = m.resume;
    }
    return s->ranges.failed ? fail_memory(err) : FTOK_OK;
}

static ftok_status name_specials(int32_t *ids, const ftok *t, const char *const *names, size_t n,
                                 ftok_error *err)
{
    for (size_t i = 0; i < n; i++) {
        ids[i] = ftok_special_id(t, names[i]);
        if (ids[i] < 0)
            return fail(err, FTOK_EARG, "\"%.128s\" is not a special token of this tokenizer",
                        names[i]);
    }
    return FTOK_OK;
}

ftok_status ftok_encode(const ftok *t, ftok_tokens *out, const char *text, size_t bytes,
                        const char *const *allowed, size_t n_allowed, ftok_error *err)
{
    struct specials s = {.t = t, .text = {text, bytes}};
    struct tok_range all = {0, bytes};
    ftok_status st = check_text(s.text, err);
    if (st != FTOK_OK)
        return st;
    if (n_allowed == FTOK_ALL)
        return encode(t, out, s.text, &all, 1, err);
    int32_t *ids = mem_alloc(n_allowed, sizeof *ids);
    if (ids == NULL)
        return fail_memory(err);
    s.allowed = ids;
    s.n_allowed = n_allowed;
    st = name_specials(ids, t, allowed, n_allowed, err);
    if (st == FTOK_OK)
        st = find_specials(&s, err);
    if (st == FTOK_OK)
        st = encode(t, out, s.text, (const struct tok_range *)(const void *)s.ranges.data,
                    s.ranges.len / sizeof(struct tok_range), err);
    buf_free(&s.ranges);
    mem_free(ids);
    return st;
}

/* --- decoding -------------------------------------------------------------------------------- */

ftok_status ftok_decode(const ftok *t, char **out, size_t *bytes, const int32_t *ids, size_t n,
                        unsigned flags, ftok_error *err)
{
    struct buf text = {0};
    tok_decode(t->tok, &text, ids, n, (flags & FTOK_SKIP_SPECIALS) != 0);
    buf_byte(&text, 0);
    if (text.failed) {
        buf_free(&text);
        return fail_memory(err);
    }
    *out = (char *)text.data;
    *bytes = text.len - 1;
    return FTOK_OK;
}

void ftok_free(void *block)
{
    mem_free(block);
}

/* --- decoding id by id ------------------------------------------------------------------------ */

ftok_status ftok_stream_create(ftok_stream **out, const ftok *t, unsigned flags, ftok_error *err)
{
    ftok_stream *s = mem_alloc(1, sizeof *s);
    if (s == NULL)
        return fail_memory(err);
    s->tok = t->tok;
    s->skip_specials = (flags & FTOK_SKIP_SPECIALS) != 0;
    *out = s;
    return FTOK_OK;
}

void ftok_stream_destroy(ftok_stream *s)
{
    if (s == NULL)
        return;
    buf_free(&s->bytes);
    buf_free(&s->text);
    mem_free(s);
}

/* Bytes that a character starting with `lead` has; 0 = none starts so. */
static size_t character_bytes(uint8_t lead)
{
    return lead < 0x80   ? 1
           : lead < 0xC2 ? 0
           : lead < 0xE0 ? 2
           : lead < 0xF0 ? 3
           : lead < 0xF5 ? 4
                         : 0;
}

/* Whether bytes that are not valid UTF-8 could become so by what follows: a proper beginning of one
 * character and nothing behind it. */
static bool may_go_on(str rest)
{
    char whole[4];
    size_t n = character_bytes((uint8_t)rest.ptr[0]);
    if (rest.len >= n)
        return false;
    /* The second byte has a narrower range behind some leads; the others are 80 to BF. */
    for (int second = 0x80; second < 0xC0; second++) {
        memcpy(whole, rest.ptr, rest.len);
        for (size_t i = rest.len; i < n; i++)
            whole[i] = (char)(i == 1 ? second : 0x80);
        if (str_utf8_invalid_at((str){whole, n}) == n)
            return true;
    }
    return false;
}

/* Bytes at the start of rest that one U+FFFD stands for: as many as begin one character. */
static size_t broken_bytes(str rest)
{
    size_t n = 1;
    while (n < rest.len && may_go_on(str_sub(rest, 0, n + 1)))
        n++;
    return n;
}

/* Moves what is complete from bytes to text. */
static void move_complete(ftok_stream *s, bool last)
{
    str rest = buf_view(&s->bytes);
    while (rest.len > 0) {
        size_t valid = str_utf8_invalid_at(rest);
        buf_str(&s->text, str_sub(rest, 0, valid));
        rest = str_sub(rest, valid, rest.len);
        if (rest.len == 0 || (!last && may_go_on(rest)))
            break;
        buf_cstr(&s->text, "\xEF\xBF\xBD");
        rest = str_sub(rest, broken_bytes(rest), rest.len);
    }
    memmove(s->bytes.data, rest.ptr, rest.len);
    s->bytes.len = rest.len;
}

static ftok_status hand_out(ftok_stream *s, const char **text, size_t *bytes, bool last,
                            ftok_error *err)
{
    buf_clear(&s->text);
    if (s->bytes.len > 0)
        move_complete(s, last);
    buf_byte(&s->text, 0);
    if (s->bytes.failed || s->text.failed)
        return fail_memory(err);
    *text = (const char *)s->text.data;
    *bytes = s->text.len - 1;
    return FTOK_OK;
}

ftok_status ftok_stream_push(ftok_stream *s, int32_t id, const char **text, size_t *bytes,
                             ftok_error *err)
{
    tok_decode_next(&s->decoding, s->tok, &s->bytes, id, s->skip_specials);
    return hand_out(s, text, bytes, false, err);
}

ftok_status ftok_stream_finish(ftok_stream *s, const char **text, size_t *bytes, ftok_error *err)
{
    tok_decode_end(&s->decoding, &s->bytes);
    s->decoding = (struct tok_decoding){0};
    return hand_out(s, text, bytes, true, err);
}
