/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's normaliser: at each place a user-defined symbol is copied, else the longest rule
 * is applied, else one character is copied. Then spaces are marked, joined and dropped. */
#include <string.h>

#include "common/mem.h"
#include "formats/tok/spm_priv.h"

/* --- loading ------------------------------------------------------------------------------------
 */

ft_status spm_symbols_init(struct spm_symbols *s, struct arena *a, const str *texts,
                           const struct spm_piece *pieces, size_t n, ft_error *err)
{
    struct spm_trie_key *keys;
    size_t n_keys = 0;
    *s = (struct spm_symbols){0};
    for (size_t i = 0; i < n; i++)
        n_keys += pieces[i].type == SPM_USER_DEFINED && texts[i].len > 0;
    FT_TRY(mem_new(&keys, n_keys, sizeof *keys, "the user-defined symbols", err));
    n_keys = 0;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].type != SPM_USER_DEFINED || texts[i].len == 0)
            continue;
        keys[n_keys++] = (struct spm_trie_key){texts[i], (int32_t)i, 0};
        s->starts[(uint8_t)texts[i].ptr[0]] = true;
    }
    s->any = n_keys > 0;
    ft_status st = spm_trie_init(&s->trie, a, keys, n_keys, err);
    mem_free(keys);
    return st;
}

static ft_status init_user(struct spm_normalizer *n, struct arena *a, const struct spm_file *file,
                           ft_error *err)
{
    str *texts;
    FT_TRY(mem_new(&texts, file->n_pieces, sizeof *texts, "the user-defined symbols", err));
    for (size_t i = 0; i < file->n_pieces; i++)
        texts[i] = file->pieces[i].text;
    ft_status st = spm_symbols_init(&n->user, a, texts, file->pieces, file->n_pieces, err);
    mem_free(texts);
    return st;
}

ft_status spm_normalizer_init(struct spm_normalizer *n, struct arena *a,
                              const struct spm_file *file, ft_error *err)
{
    const struct spm_normalizer_spec *spec = &file->normalizer;
    *n = (struct spm_normalizer){
        .add_dummy_prefix = spec->add_dummy_prefix,
        .remove_extra_whitespaces = spec->remove_extra_whitespaces,
        .escape_whitespaces = spec->escape_whitespaces,
        .space_is_suffix = file->treat_whitespace_as_suffix,
    };
    if (spec->charsmap.len > 0 && charsmap_init(&n->rules, a, spec->charsmap, err) != FT_OK)
        return ft_wrap(err, "normalizer_spec.precompiled_charsmap");
    FT_TRY(init_user(n, a, file, err));
    for (unsigned c = 0; c < 0x80; c++)
        if (!n->user.starts[c] && (n->rules.units == NULL || charsmap_plain(&n->rules, (uint8_t)c)))
            n->kind[c] = c == ' ' && n->remove_extra_whitespaces ? SPM_JOIN : SPM_COPY;
    n->identity = n->rules.units == NULL && !n->user.any && !n->remove_extra_whitespaces;
    return FT_OK;
}

/* --- output -------------------------------------------------------------------------------------
 */

void spm_text_free(struct spm_text *t)
{
    mem_free(t->bytes);
    mem_free(t->origins);
    *t = (struct spm_text){0};
}

/* Readers of short pieces look at up to 16 bytes from their beginning. */
enum { SLACK = 16 };

static ft_status reserve(struct spm_text *t, size_t more, ft_error *err)
{
    size_t need = t->n + more;
    bool origins = t->want_origins && !t->linear;
    if (need <= t->cap && (!origins || t->origins != NULL))
        return FT_OK;
    if (need > UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a normalised text of more than 4 GiB");
    size_t cap = FT_MAX(need, FT_MAX(t->cap + t->cap / 2, (size_t)1024));
    uint8_t *bytes = mem_realloc(t->bytes, cap + SLACK, 1);
    if (bytes == NULL)
        return ft_fail_memory(err, cap + SLACK, "normalised text");
    t->bytes = bytes;
    if (origins || t->origins != NULL) {
        uint32_t *p = mem_realloc(t->origins, cap, sizeof *p);
        if (p == NULL)
            return ft_fail_memory(err, cap * sizeof *p, "the origins of normalised text");
        t->origins = p;
    }
    t->cap = cap;
    return FT_OK;
}

/* Room is reserved. */
static void put(struct spm_text *t, uint8_t byte, size_t origin)
{
    if (t->want_origins)
        t->origins[t->n] = (uint32_t)origin;
    t->bytes[t->n++] = byte;
}

/* --- one call -----------------------------------------------------------------------------------
 */

struct job {
    const struct spm_normalizer *n;
    struct spm_text *out;
    str text;
    size_t at;
    bool after_space; /* spaces that follow are dropped */
    ft_error *err;
};

/* Whether a rule may begin with the character of n bytes at p. */
static inline bool rule_may_start(const struct charsmap *rules, const uint8_t *p, size_t n)
{
    uint32_t c = n == 1   ? p[0]
                 : n == 2 ? (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)
                 : n == 3 ? (p[0] & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)
                          : 0x10000; /* all of four bytes may */
    return rules->units != NULL && charsmap_may_start(rules, c);
}

/* What the text from j->at on begins with: bytes of it, and what they become. */
static size_t next_part(str *becomes, const struct job *j)
{
    const struct spm_normalizer *n = j->n;
    str rest = {j->text.ptr + j->at, j->text.len - j->at};
    const uint8_t *p = (const uint8_t *)rest.ptr;
    int32_t id;
    if (n->user.starts[p[0]]) {
        size_t bytes = spm_trie_longest(&id, &n->user.trie, rest);
        *becomes = (str){rest.ptr, bytes};
        if (bytes > 0)
            return bytes;
    }
    if ((p[0] & 0xC0) == 0x80) { /* behind a rule that ends inside a character */
        size_t bytes = charsmap_longest(becomes, &n->rules, rest);
        if (bytes == 0)
            *becomes = STR("\xEF\xBF\xBD");
        return FT_MAX(bytes, (size_t)1);
    }
    size_t bytes = spm_char_bytes(p[0]);
    if (rule_may_start(&n->rules, p, bytes)) {
        size_t replaced = charsmap_longest(becomes, &n->rules, rest);
        if (replaced > 0)
            return replaced;
    }
    *becomes = (str){rest.ptr, bytes};
    return bytes;
}

static bool is_space_mark(str s)
{
    return str_eq(s, SPM_SPACE_MARK);
}

/* Appends what came out of the text at j->at. Room is reserved. */
static void put_part(struct job *j, str part)
{
    while (part.len > 0) {
        size_t n = spm_char_bytes((uint8_t)part.ptr[0]);
        str c = str_sub(part, 0, FT_MIN(n, part.len));
        if (j->n->escape_whitespaces && is_space_mark(c))
            put(j->out, ' ', j->at);
        else
            for (size_t i = 0; i < c.len; i++)
                put(j->out, (uint8_t)c.ptr[i], j->at);
        part = str_sub(part, c.len, part.len);
    }
}

static ft_status take_part(struct job *j)
{
    str part;
    size_t bytes = next_part(&part, j);
    while (j->after_space && part.len > 0 && part.ptr[0] == ' ')
        part = str_sub(part, 1, part.len);
    if (part.len > 0) {
        FT_TRY(reserve(j->out, part.len, j->err));
        put_part(j, part);
        j->after_space = j->n->remove_extra_whitespaces && part.ptr[part.len - 1] == ' ';
    }
    j->at += bytes;
    return FT_OK;
}

/* Takes the bytes that need no look at anything but themselves, in one loop without a branch for
 * spaces. The last one before another alphabet may begin a rule together with it. */
static inline void copy_plain(struct job *j, bool want_origins)
{
    const uint8_t *p = (const uint8_t *)j->text.ptr, *kind = j->n->kind;
    uint8_t *bytes = j->out->bytes;
    uint32_t *origins = j->out->origins;
    size_t at = j->at, n = j->out->n, end = j->text.len;
    bool after = j->after_space;
    for (; at < end; at++) {
        uint8_t k = kind[p[at]];
        if (k == SPM_LOOK || (at + 1 < end && p[at + 1] >= 0x80))
            break;
        bytes[n] = p[at];
        if (want_origins)
            origins[n] = (uint32_t)at;
        n += !((k == SPM_JOIN) & after);
        after = k == SPM_JOIN;
    }
    j->at = at;
    j->after_space = after;
    j->out->n = n;
}

/* Takes characters above 0x7F that nothing is done to. */
static inline void copy_chars(struct job *j, bool want_origins)
{
    const uint8_t *p = (const uint8_t *)j->text.ptr;
    const struct spm_normalizer *rules = j->n;
    uint8_t *bytes = j->out->bytes;
    uint32_t *origins = j->out->origins;
    size_t begin = j->at, at = begin, n = j->out->n, end = j->text.len;
    while (at < end && p[at] >= 0xC0 && !rules->user.starts[p[at]]) {
        size_t length = spm_char_bytes(p[at]);
        if (rule_may_start(&rules->rules, p + at, length) ||
            (p[at] == 0xE2 && p[at + 1] == 0x96 && p[at + 2] == 0x81))
            break;
        for (size_t i = 0; i < length; i++) {
            bytes[n] = p[at + i];
            if (want_origins)
                origins[n] = (uint32_t)at;
            n++;
        }
        at += length;
    }
    j->at = at;
    j->after_space = j->after_space && at == begin;
    j->out->n = n;
}

static ft_status take_next(struct job *j)
{
    size_t before = j->at;
    FT_TRY(reserve(j->out, j->text.len - j->at, j->err));
    if (j->out->want_origins) {
        copy_plain(j, true);
        copy_chars(j, true);
    } else {
        copy_plain(j, false);
        copy_chars(j, false);
    }
    return j->at == before ? take_part(j) : FT_OK;
}

static void skip_leading_spaces(struct job *j)
{
    str part;
    while (j->at < j->text.len) {
        size_t bytes = next_part(&part, j);
        if (!str_is(part, " "))
            break;
        j->at += bytes;
    }
}

/* Returns where the dropped spaces came from. */
static size_t drop_trailing_spaces(struct job *j)
{
    struct spm_text *t = j->out;
    size_t origin = j->at;
    while (t->n > 0 && t->bytes[t->n - 1] == ' ') {
        t->n--;
        if (t->want_origins)
            origin = t->origins[t->n];
    }
    return origin;
}

static ft_status put_space(struct job *j, size_t origin)
{
    FT_TRY(reserve(j->out, 1, j->err));
    put(j->out, ' ', origin);
    return FT_OK;
}

static ft_status normalize_parts(struct job *j)
{
    const struct spm_normalizer *n = j->n;
    size_t end = j->text.len;
    if (n->remove_extra_whitespaces)
        skip_leading_spaces(j);
    if (j->at == j->text.len)
        return FT_OK;
    if (n->add_dummy_prefix && !n->space_is_suffix)
        FT_TRY(put_space(j, j->at));
    j->after_space = n->remove_extra_whitespaces;
    while (j->at < j->text.len)
        FT_TRY(take_next(j));
    if (n->remove_extra_whitespaces)
        end = drop_trailing_spaces(j);
    if (n->add_dummy_prefix && n->space_is_suffix)
        FT_TRY(put_space(j, end));
    return FT_OK;
}

/* --- text that is its own normal form -----------------------------------------------------------
 */

static bool has_space_mark(str text)
{
    while (text.len >= 3) {
        const char *p = memchr(text.ptr, 0xE2, text.len - 2);
        if (p == NULL)
            return false;
        text = str_sub(text, (size_t)(p - text.ptr), text.len);
        if (is_space_mark(str_sub(text, 0, 3)))
            return true;
        text = str_sub(text, 1, text.len);
    }
    return false;
}

static ft_status copy_text(struct spm_text *t, const struct spm_normalizer *n, str text,
                           ft_error *err)
{
    t->linear = true;
    FT_TRY(reserve(t, text.len + 1, err));
    t->shift = n->add_dummy_prefix && !n->space_is_suffix;
    if (t->shift > 0)
        t->bytes[t->n++] = ' ';
    memcpy(t->bytes + t->n, text.ptr, text.len);
    t->n += text.len;
    if (n->add_dummy_prefix && n->space_is_suffix)
        t->bytes[t->n++] = ' ';
    return FT_OK;
}

ft_status spm_normalize(struct spm_text *out, const struct spm_normalizer *n, str text,
                        ft_error *err)
{
    struct job j = {.n = n, .out = out, .text = text, .err = err};
    out->n = 0;
    out->linear = false;
    if (text.len == 0)
        return FT_OK;
    if (n->identity && !(n->escape_whitespaces && has_space_mark(text)))
        return copy_text(out, n, text, err);
    return normalize_parts(&j);
}
