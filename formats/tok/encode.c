/* SPDX-License-Identifier: Apache-2.0
 * Text to ids: added tokens are cut out in two passes, what is left is cut into pretokens, and each
 * pretoken comes from the cache or from the merge core. */
#include <string.h>

#include "common/mem.h"
#include "formats/tok/cache.h"
#include "formats/tok/tok_internal.h"

struct tok_encoder {
    const struct tok *tok;
    classify_fn *classify;
    struct cache cache;
    struct bpe_work work;
};

/* One call of tok_encode. */
struct job {
    struct tok_encoder *encoder;
    struct tok_ids *out;
    str text;
    struct added_rule rule;
    ft_error *err;
};

ft_status tok_encoder_create(struct tok_encoder **out, const struct tok *t, ft_error *err)
{
    struct tok_encoder *e;
    *out = NULL;
    FT_TRY(mem_new(&e, 1, sizeof *e, "a tokenizer's encoder", err));
    e->tok = t;
    e->classify = classify_select(cpu_tier());
    ft_status st = cache_init(&e->cache, err);
    if (st != FT_OK) {
        tok_encoder_destroy(e);
        return st;
    }
    *out = e;
    return FT_OK;
}

void tok_encoder_destroy(struct tok_encoder *e)
{
    if (e == NULL)
        return;
    cache_destroy(&e->cache);
    bpe_work_free(&e->work);
    mem_free(e);
}

const struct tok *tok_encoder_tok(const struct tok_encoder *e)
{
    return e->tok;
}

void tok_ids_free(struct tok_ids *ids)
{
    mem_free(ids->ids);
    mem_free(ids->offsets);
    *ids = (struct tok_ids){0};
}

static ft_status grow_ids(struct tok_ids *out, size_t more, ft_error *err)
{
    size_t cap = FT_MAX(out->n + more, FT_MAX(out->cap + out->cap / 2, (size_t)1024));
    int32_t *ids = mem_realloc(out->ids, cap, sizeof *ids);
    if (ids == NULL)
        return ft_fail_memory(err, cap * sizeof *ids, "token ids");
    out->ids = ids;
    /* Kept as long as the ids even while they are not wanted: cap is the size of both. */
    if (out->want_offsets || out->offsets != NULL) {
        uint32_t *offsets = mem_realloc(out->offsets, cap, sizeof *offsets);
        if (offsets == NULL)
            return ft_fail_memory(err, cap * sizeof *offsets, "token offsets");
        out->offsets = offsets;
    }
    out->cap = cap;
    return FT_OK;
}

static inline ft_status reserve_ids(struct tok_ids *out, size_t more, ft_error *err)
{
    bool fits = out->cap - out->n >= more && (!out->want_offsets || out->offsets != NULL);
    return __builtin_expect(fits, 1) ? FT_OK : grow_ids(out, more, err);
}

ft_status tok_ids_put(struct tok_ids *ids, int32_t id, uint32_t offset, ft_error *err)
{
    FT_TRY(reserve_ids(ids, 1, err));
    ids->ids[ids->n] = id;
    if (ids->want_offsets)
        ids->offsets[ids->n] = offset;
    ids->n++;
    return FT_OK;
}

/* Appends the ids of a pretoken none of whose bytes vanished: each token starts where the one
 * before it ends. */
static inline void append_whole(struct job *j, const int32_t *ids, size_t n, size_t from)
{
    struct tok_ids *out = j->out;
    memcpy(out->ids + out->n, ids, n * sizeof *ids);
    if (out->want_offsets) {
        for (size_t i = 0; i < n; i++) {
            out->offsets[out->n + i] = (uint32_t)from;
            from += j->encoder->tok->lengths[ids[i]];
        }
    }
    out->n += n;
}

static ft_status append_merged(struct job *j, const struct bpe_work *w)
{
    struct tok_ids *out = j->out;
    FT_TRY(reserve_ids(out, w->n, j->err));
    memcpy(out->ids + out->n, w->ids, w->n * sizeof *w->ids);
    if (out->want_offsets)
        memcpy(out->offsets + out->n, w->starts, w->n * sizeof *w->starts);
    out->n += w->n;
    return FT_OK;
}

/* A byte without a symbol vanishes and its neighbours become adjacent. Returns whether none did. */
static bool load_symbols(struct bpe_work *w, const struct tok *t, str text, size_t from, size_t to)
{
    w->n = 0;
    for (size_t i = from; i < to; i++) {
        int32_t id = t->byte_id[(uint8_t)text.ptr[i]];
        if (id < 0)
            continue;
        w->ids[w->n] = id;
        w->starts[w->n++] = (uint32_t)i;
    }
    return w->n == to - from;
}

static ft_status encode_pretoken(struct job *j, size_t from, size_t to)
{
    struct tok_encoder *e = j->encoder;
    const uint8_t *p = (const uint8_t *)j->text.ptr + from;
    const struct cache_long *hit = cache_find_long(&e->cache, p, to - from);
    if (hit != NULL) {
        FT_TRY(reserve_ids(j->out, hit->n, j->err));
        append_whole(j, hit->ids, hit->n, from);
        return FT_OK;
    }
    FT_TRY(bpe_work_reserve(&e->work, to - from, j->err));
    bool whole = load_symbols(&e->work, e->tok, j->text, from, to);
    FT_TRY(bpe_merge(&e->tok->bpe, &e->work, j->err));
    if (whole)
        cache_insert(&e->cache, p, to - from, e->work.ids, e->work.n);
    return append_merged(j, &e->work);
}

/* As append_whole, for a short entry: room for CACHE_SHORT_IDS is reserved, so that the copy has a
 * constant size. */
static inline void append_short(struct job *j, const struct cache_entry *entry, size_t from)
{
    struct tok_ids *out = j->out;
    memcpy(out->ids + out->n, entry->ids, sizeof entry->ids);
    if (out->want_offsets) {
        for (size_t i = 0; i < entry->n; i++) {
            out->offsets[out->n + i] = (uint32_t)from;
            from += j->encoder->tok->lengths[entry->ids[i]];
        }
    }
    out->n += entry->n;
}

/* The pretokens that end at ends[0..n); the first starts at `from`. Two rounds, so that the cache
 * lines arrive while other keys are computed. */
static ft_status encode_batch(struct job *j, size_t from, const uint32_t *ends, size_t n)
{
    const uint8_t *text = (const uint8_t *)j->text.ptr;
    const struct cache *cache = &j->encoder->cache;
    struct cache_key keys[PRETOK_BATCH];
    size_t at = from;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = ends[i] - at;
        if (bytes <= CACHE_SHORT_BYTES) {
            keys[i] = cache_key_of(text + at, bytes, j->text.len - at);
            __builtin_prefetch(cache_set_of(cache, keys[i]));
        }
        at = ends[i];
    }
    FT_TRY(reserve_ids(j->out, PRETOK_BATCH * CACHE_SHORT_IDS, j->err));
    for (size_t i = 0; i < n; i++) {
        const struct cache_entry *hit = NULL;
        if (ends[i] - from <= CACHE_SHORT_BYTES)
            hit = cache_find(cache, keys[i]);
        if (__builtin_expect(hit != NULL, 1)) {
            append_short(j, hit, from);
        } else {
            FT_TRY(encode_pretoken(j, from, ends[i]));
            FT_TRY(reserve_ids(j->out, PRETOK_BATCH * CACHE_SHORT_IDS, j->err));
        }
        from = ends[i];
    }
    return FT_OK;
}

static ft_status encode_ordinary(struct job *j, size_t from, size_t to)
{
    struct tok_encoder *e = j->encoder;
    uint32_t ends[PRETOK_BATCH];
    struct pretok_scan scan = {
        .text = (const uint8_t *)j->text.ptr, .at = from, .to = to, .classify = e->classify};
    while (scan.at < to) {
        size_t n = e->tok->pretok->next(&scan, ends);
        FT_TRY(encode_batch(j, from, ends, n));
        from = n > 0 ? ends[n - 1] : from;
    }
    return FT_OK;
}

static ft_status append_added(struct job *j, const struct added_match *m)
{
    return tok_ids_put(j->out, m->token->id, (uint32_t)m->from, j->err);
}

/* Cuts out the added tokens of one pass; the passes behind it get what lies between. */
static ft_status encode_pass(struct job *j, size_t from, size_t to, size_t pass)
{
    const struct added *added = &j->encoder->tok->added;
    size_t at = from, done = from;
    struct added_match m;
    if (pass == ARRAY_LEN(added->passes))
        return encode_ordinary(j, from, to);
    while (added_next(&m, &added->passes[pass], j->text, from, to, at, done, j->rule)) {
        if (done < m.from)
            FT_TRY(encode_pass(j, done, m.from, pass + 1));
        FT_TRY(append_added(j, &m));
        done = m.to;
        at = m.resume;
    }
    return done < to ? encode_pass(j, done, to, pass + 1) : FT_OK;
}

ft_status tok_encode_ranges(struct tok_encoder *e, struct tok_ids *out, str text,
                            const struct tok_range *parse, size_t n_parse, ft_error *err)
{
    struct job j = {e, out, text, {parse, n_parse}, err};
    size_t before = out->n;
    if (text.len > UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a text of %zu bytes, at most 4 GiB can be encoded at once",
                       text.len);
    if (text.len == 0)
        return FT_OK;
    ft_status st = encode_pass(&j, 0, text.len, 0);
    if (st != FT_OK)
        out->n = before;
    return st;
}

ft_status tok_encode(struct tok_encoder *e, struct tok_ids *out, str text,
                     enum tok_specials specials, ft_error *err)
{
    struct tok_range all = {0, text.len};
    return tok_encode_ranges(e, out, text, &all, specials == TOK_SPECIALS_PARSE, err);
}
