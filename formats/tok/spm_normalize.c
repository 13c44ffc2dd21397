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
        n->copied[c] = !n->user.starts[c] &&
                       (n->rules.units == NULL || charsmap_plain(&n->rules, (uint8_t)c)) &&
                       !(c == ' ' && n->remove_extra_whitespaces);
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

static void put_run(struct spm_text *t, const char *p, size_t n, size_t origin)
{
    memcpy(t->bytes + t->n, p, n);
    if (t->want_origins)
        for (size_t i = 0; i < n; i++)
            t->origins[t->n + i] = (uint32_t)(origin + i);
    t->n += n;
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

static uint32_t decode_char(str text, size_t *bytes)
{
    const uint8_t *p = (const uint8_t *)text.ptr;
    size_t n = spm_char_bytes(p[0]);
    if (n > text.len || p[0] < 0x80 || (p[0] & 0xC0) == 0x80)
        n = 1;
    *bytes = n;
    return n == 3   ? (p[0] & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu)
           : n == 2 ? (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu)
           : n == 1 ? p[0]
                    : 0x10000; /* charsmap_may_start knows those of three bytes */
}

/* What the text from j->at on begins with: bytes of it, and what they become. */
static size_t next_part(str *becomes, const struct job *j)
{
    static const str replacement_char = {"\xEF\xBF\xBD", 3};
    const struct spm_normalizer *n = j->n;
    str rest = str_sub(j->text, j->at, j->text.len);
    int32_t id;
    size_t bytes = 0;
    if (n->user.starts[(uint8_t)rest.ptr[0]])
        bytes = spm_trie_longest(&id, &n->user.trie, rest);
    if (bytes > 0) {
        *becomes = str_sub(rest, 0, bytes);
        return bytes;
    }
    uint32_t c = decode_char(rest, &bytes);
    if (n->rules.units != NULL && charsmap_may_start(&n->rules, c)) {
        size_t replaced = charsmap_longest(becomes, &n->rules, rest);
        if (replaced > 0)
            return replaced;
    }
    *becomes = str_sub(rest, 0, bytes);
    /* Only behind a rule that ends inside a character. */
    if (str_utf8_invalid_at(*becomes) != bytes) {
        *becomes = replacement_char;
        return 1;
    }
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

/* Bytes from j->at on that are copied without a look at anything but themselves. */
static size_t copied_bytes(const struct job *j)
{
    const uint8_t *p = (const uint8_t *)j->text.ptr;
    size_t i = j->at;
    while (i < j->text.len && j->n->copied[p[i]])
        i++;
    /* The last one may begin a rule together with what follows. */
    if (i > j->at && i < j->text.len && p[i] >= 0x80)
        i--;
    return i - j->at;
}

static ft_status take_run(struct job *j, size_t n)
{
    FT_TRY(reserve(j->out, n, j->err));
    put_run(j->out, j->text.ptr + j->at, n, j->at);
    j->at += n;
    j->after_space = false;
    return FT_OK;
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
    while (j->at < j->text.len) {
        size_t run = copied_bytes(j);
        FT_TRY(run > 0 ? take_run(j, run) : take_part(j));
    }
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
    FT_TRY(reserve(out, text.len, err));
    return normalize_parts(&j);
}
