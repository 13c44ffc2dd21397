/* SPDX-License-Identifier: Apache-2.0
 * Text to ids. Added tokens are cut out in two passes, the normalizer runs between them; what is
 * left is cut into pretokens, and each pretoken comes from the cache or from the model. */
#include <string.h>

#include "common/mem.h"
#include "formats/tok/cache.h"
#include "formats/tok/tok_internal.h"
#include "formats/tok/units.h"

struct tok_encoder {
    const struct tok *tok;
    classify_fn *classify;
    struct cache cache;
    struct tok_model_work work;
    struct normalize_work normalize;
    struct spm_encoder *spm; /* NULL = the tokenizer is none of SentencePiece */
    struct pretok_pieces pieces;
    struct buf lead; /* the first pretoken of a piece with what is put in front of it */
};

/* A text as one stage sees it. */
struct view {
    const uint8_t *text;
    size_t len;
    const uint32_t *origin; /* of each byte, counted from base; NULL = its own offset */
    size_t base;            /* where the text starts in the input */
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
    ft_status st =
        t->spm != NULL ? spm_encoder_create(&e->spm, t->spm, err) : cache_init(&e->cache, err);
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
    tok_model_work_free(&e->work);
    normalize_work_free(&e->normalize);
    spm_encoder_destroy(e->spm);
    pretok_pieces_free(&e->pieces);
    buf_free(&e->lead);
    mem_free(e);
}

const struct tok *tok_encoder_tok(const struct tok_encoder *e)
{
    return e->tok;
}

/* --- ids --------------------------------------------------------------------------------------
 */

void tok_ids_free(struct tok_ids *ids)
{
    mem_free(ids->ids);
    mem_free(ids->offsets);
    *ids = (struct tok_ids){0};
}

ft_status tok_ids_grow(struct tok_ids *out, size_t more, ft_error *err)
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

ft_status tok_ids_put(struct tok_ids *ids, int32_t id, uint32_t offset, ft_error *err)
{
    FT_TRY(tok_ids_reserve(ids, 1, err));
    ids->ids[ids->n] = id;
    if (ids->want_offsets)
        ids->offsets[ids->n] = offset;
    ids->n++;
    return FT_OK;
}

/* Appends the ids of a pretoken in which each token starts where the one before it ends. */
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

static ft_status append_encoded(struct job *j, const struct bpe_work *w, size_t from)
{
    struct tok_ids *out = j->out;
    FT_TRY(tok_ids_reserve(out, w->n, j->err));
    memcpy(out->ids + out->n, w->ids, w->n * sizeof *w->ids);
    if (out->want_offsets)
        for (size_t i = 0; i < w->n; i++)
            out->offsets[out->n + i] = w->starts[i] + (uint32_t)from;
    out->n += w->n;
    return FT_OK;
}

/* --- pretokens --------------------------------------------------------------------------------
 */

/* The cache gives no offsets, they come from the lengths of the tokens. */
static bool follow_each_other(const struct tok *t, const struct bpe_work *w, size_t bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->starts[i] != at)
            return false;
        at += t->lengths[w->ids[i]];
    }
    return at == bytes;
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

static ft_status encode_whole(struct job *j, const struct view *v, size_t from, size_t to)
{
    struct tok_encoder *e = j->encoder;
    const uint8_t *p = v->text + from;
    struct bpe_work *w = &e->work.symbols;
    const struct cache_long *hit = cache_find_long(&e->cache, p, to - from);
    if (hit != NULL) {
        FT_TRY(tok_ids_reserve(j->out, hit->n, j->err));
        append_whole(j, hit->ids, hit->n, from);
        return FT_OK;
    }
    FT_TRY(tok_model_encode(&e->tok->model, &e->work, (str){(const char *)p, to - from}, j->err));
    if (w->n <= CACHE_LONG_IDS && follow_each_other(e->tok, w, to - from))
        cache_insert(&e->cache, p, to - from, w->ids, w->n);
    return append_encoded(j, w, from);
}

/* End of the part of a pretoken that starts at `from`: where two ASCII characters stand side by
 * side that no merge joins. */
static size_t part_end(const struct tok_model *m, const uint8_t *text, size_t from, size_t to)
{
    for (from++; from < to; from++) {
        unsigned a = text[from - 1], b = text[from];
        if (a < 128 && b < 128 && !(m->ascii_joints[a][b / 64] >> b % 64 & 1))
            break;
    }
    return from;
}

/* A pretoken that is not in the short cache. */
static ft_status encode_pretoken(struct job *j, const struct view *v, size_t from, size_t to)
{
    const struct tok_model *m = &j->encoder->tok->model;
    if (!m->cuts_apart)
        return encode_whole(j, v, from, to);
    for (size_t end; from < to; from = end) {
        const struct cache_entry *hit = NULL;
        end = part_end(m, v->text, from, to);
        if (end - from <= CACHE_SHORT_BYTES)
            hit = cache_find(&j->encoder->cache,
                             cache_key_of(v->text + from, end - from, v->len - from));
        if (hit != NULL) {
            FT_TRY(tok_ids_reserve(j->out, CACHE_SHORT_IDS, j->err));
            append_short(j, hit, from);
        } else {
            FT_TRY(encode_whole(j, v, from, end));
        }
    }
    return FT_OK;
}

/* The pretokens that end at ends[0..n); the first starts at `from`. Two rounds, so that the cache
 * lines arrive while other keys are computed. */
static ft_status encode_batch(struct job *j, const struct view *v, size_t from,
                              const uint32_t *ends, size_t n)
{
    const uint8_t *text = v->text;
    size_t len = v->len;
    const struct cache *cache = &j->encoder->cache;
    struct cache_key keys[PRETOK_BATCH];
    size_t at = from;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = ends[i] - at;
        if (bytes <= CACHE_SHORT_BYTES) {
            keys[i] = cache_key_of(text + at, bytes, len - at);
            __builtin_prefetch(cache_set_of(cache, keys[i]));
        }
        at = ends[i];
    }
    FT_TRY(tok_ids_reserve(j->out, PRETOK_BATCH * CACHE_SHORT_IDS, j->err));
    for (size_t i = 0; i < n; i++) {
        const struct cache_entry *hit = NULL;
        if (ends[i] - from <= CACHE_SHORT_BYTES)
            hit = cache_find(cache, keys[i]);
        if (__builtin_expect(hit != NULL, 1)) {
            append_short(j, hit, from);
        } else {
            FT_TRY(encode_pretoken(j, v, from, ends[i]));
            FT_TRY(tok_ids_reserve(j->out, PRETOK_BATCH * CACHE_SHORT_IDS, j->err));
        }
        from = ends[i];
    }
    return FT_OK;
}

typedef size_t scan_fn(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH]);

static struct pretok_scan scan_of(const struct job *j, const struct view *v, size_t from, size_t to)
{
    return (struct pretok_scan){
        .text = v->text, .at = from, .to = to, .classify = j->encoder->classify};
}

static ft_status cut_slowly(struct job *j, const struct view *v, size_t from, size_t to)
{
    struct tok_encoder *e = j->encoder;
    return pretok_stages_cut(&e->pieces, e->tok->slow, v->text, from, to, e->classify, j->err);
}

static ft_status encode_slowly(struct job *j, const struct view *v, size_t from, size_t to)
{
    const struct pretok_pieces *p = &j->encoder->pieces;
    FT_TRY(cut_slowly(j, v, from, to));
    for (size_t i = 0; i < p->n; i++)
        FT_TRY(encode_batch(j, v, p->items[i].from, &p->items[i].to, 1));
    return FT_OK;
}

/* next: NULL for stages without a scanner. */
static ft_status encode_scanned(struct job *j, const struct view *v, size_t from, size_t to,
                                scan_fn *next)
{
    uint32_t ends[PRETOK_BATCH];
    struct pretok_scan scan = scan_of(j, v, from, to);
    if (next == NULL)
        return encode_slowly(j, v, from, to);
    while (scan.at < to) {
        size_t n = next(&scan, ends);
        FT_TRY(encode_batch(j, v, from, ends, n));
        from = n > 0 ? ends[n - 1] : from;
    }
    return FT_OK;
}

/* --- what is put in front ---------------------------------------------------------------------
 */

/* The scanner behind the stages: at marks, or not at all. */
static scan_fn *unit_scanner(const struct tok *t)
{
    if (t->cut_marks)
        return units_before_marks;
    if (!t->cut_runs)
        return pretok_whole;
    return t->model.cuts_at_lines ? units_before_runs_and_lines : units_before_runs;
}

static bool needs_lead(const struct tok *t, const struct view *v, size_t from, size_t to)
{
    switch (t->lead) {
    case TOK_LEAD_FIRST:
        if (v->base + (v->origin == NULL ? from : v->origin[from]) != 0)
            return false;
        break;
    case TOK_LEAD_ALWAYS:
        break;
    case TOK_LEAD_SPACE:
        return v->text[from] != ' ';
    default:
        return false;
    }
    return t->lead_always || !unit_is_mark(v->text, from, to);
}

/* End of the first pretoken of a piece. */
static size_t first_end(const struct job *j, const struct view *v, size_t from, size_t to,
                        scan_fn *next)
{
    uint32_t ends[PRETOK_BATCH];
    struct pretok_scan scan = scan_of(j, v, from, to);
    size_t n = 0;
    while (n == 0)
        n = next(&scan, ends);
    return ends[0];
}

/* Encodes [from, to) with a space in front of it. */
static ft_status encode_with_lead(struct job *j, const struct view *v, size_t from, size_t to,
                                  scan_fn *next)
{
    struct buf *lead = &j->encoder->lead;
    size_t n = j->out->n;
    buf_clear(lead);
    buf_byte(lead, ' ');
    buf_append(lead, v->text + from, to - from);
    FT_TRY(buf_status(lead, "a piece of text", j->err));
    struct view front = {lead->data, lead->len, NULL, 0};
    FT_TRY(encode_scanned(j, &front, 0, front.len, next));
    if (j->out->want_offsets)
        for (; n < j->out->n; n++)
            j->out->offsets[n] = (uint32_t)from + j->out->offsets[n] - (j->out->offsets[n] > 0);
    return FT_OK;
}

/* One piece of the stages, with what follows them. A piece of marks and words is led by a copy of
 * its first word alone; where words are not known, by a copy of all of it. */
static ft_status encode_units(struct job *j, const struct view *v, size_t from, size_t to)
{
    const struct tok *t = j->encoder->tok;
    scan_fn *next = unit_scanner(t);
    if (needs_lead(t, v, from, to)) {
        size_t end = first_end(j, v, from, to, next);
        FT_TRY(encode_with_lead(j, v, from, end, pretok_whole));
        from = end;
    }
    return from < to ? encode_scanned(j, v, from, to, next) : FT_OK;
}

static ft_status encode_slow_stages_and_units(struct job *j, const struct view *v, size_t from,
                                              size_t to)
{
    const struct pretok_pieces *p = &j->encoder->pieces;
    FT_TRY(cut_slowly(j, v, from, to));
    for (size_t i = 0; i < p->n; i++)
        FT_TRY(encode_units(j, v, p->items[i].from, p->items[i].to));
    return FT_OK;
}

static ft_status encode_stages_and_units(struct job *j, const struct view *v, size_t from,
                                         size_t to)
{
    uint32_t ends[PRETOK_BATCH];
    struct pretok_scan scan = scan_of(j, v, from, to);
    if (j->encoder->tok->slow != NULL)
        return encode_slow_stages_and_units(j, v, from, to);
    while (scan.at < to) {
        size_t n = j->encoder->tok->pretok->next(&scan, ends);
        for (size_t i = 0; i < n; i++) {
            FT_TRY(encode_units(j, v, from, ends[i]));
            from = ends[i];
        }
    }
    return FT_OK;
}

static ft_status encode_ordinary(struct job *j, const struct view *v, size_t from, size_t to)
{
    const struct tok *t = j->encoder->tok;
    scan_fn *next = t->pretok == NULL ? NULL : t->pretok->next;
    if (t->pretok == NULL && t->slow == NULL)
        return encode_units(j, v, from, to);
    if (t->lead == TOK_LEAD_SPACE && needs_lead(t, v, from, to))
        return encode_with_lead(j, v, from, to, next);
    if (t->lead == TOK_LEAD_SPACE || (t->lead == TOK_LEAD_NONE && !t->cut_marks && !t->cut_runs))
        return encode_scanned(j, v, from, to, next);
    return encode_stages_and_units(j, v, from, to);
}

/* --- added tokens and normalizer --------------------------------------------------------------
 */

static ft_status append_added(struct job *j, const struct added_match *m)
{
    FT_TRY(tok_ids_reserve(j->out, 1, j->err));
    j->out->ids[j->out->n] = m->token->id;
    if (j->out->want_offsets)
        j->out->offsets[j->out->n] = (uint32_t)m->from;
    j->out->n++;
    return FT_OK;
}

typedef ft_status piece_fn(struct job *j, const struct view *v, size_t from, size_t to);

/* Cuts out the added tokens of one pass; fn gets what lies between. */
static ft_status encode_pass(struct job *j, const struct view *v, size_t from, size_t to,
                             const struct added_pass *pass, struct added_rule rule, piece_fn *fn)
{
    size_t at = from, done = from;
    struct added_match m;
    str text = {(const char *)v->text, v->len};
    while (added_next(&m, pass, text, from, to, at, done, rule)) {
        if (done < m.from)
            FT_TRY(fn(j, v, done, m.from));
        FT_TRY(append_added(j, &m));
        done = m.to;
        at = m.resume;
    }
    return done < to ? fn(j, v, done, to) : FT_OK;
}

/* Offsets in a normalized text become offsets in the input. */
static void trace_offsets(struct tok_ids *out, size_t n, const struct view *v)
{
    for (; n < out->n; n++)
        out->offsets[n] = (uint32_t)v->base + v->origin[out->offsets[n]];
}

static ft_status encode_normalized(struct job *j, const struct view *v, size_t from, size_t to)
{
    struct tok_encoder *e = j->encoder;
    const struct added_pass *late = &e->tok->added.passes[1];
    const struct normalize_text *text = NULL;
    size_t n = j->out->n;
    bool want_origin = j->out->want_offsets || (late->n > 0 && j->rule.n_parse > 0) ||
                       e->tok->lead == TOK_LEAD_FIRST;
    if (e->tok->normalizer.n > 0)
        FT_TRY(normalize(&text, &e->normalize, &e->tok->normalizer, str_sub(j->text, from, to),
                         want_origin, j->err));
    if (text == NULL)
        return encode_pass(j, v, from, to, late, j->rule, encode_ordinary);
    struct view made = {text->bytes, text->n, want_origin ? text->origin : NULL, from};
    struct added_rule rule = j->rule;
    rule.origin = made.origin;
    rule.base = from;
    rule.end = to;
    if (text->n == 0)
        return FT_OK;
    FT_TRY(encode_pass(j, &made, 0, made.len, late, rule, encode_ordinary));
    if (j->out->want_offsets)
        trace_offsets(j->out, n, &made);
    return FT_OK;
}

static ft_status encode_spm(struct job *j, const struct view *v, size_t from, size_t to)
{
    str text = {(const char *)v->text + from, to - from};
    return spm_encode(j->encoder->spm, j->out, text, from, j->err);
}

ft_status tok_encode_ranges(struct tok_encoder *e, struct tok_ids *out, str text,
                            const struct tok_range *parse, size_t n_parse, ft_error *err)
{
    struct job j = {
        e, out, text, {.parse = parse, .n_parse = n_parse, .n_text = &out->n_special_text}, err};
    struct view v = {(const uint8_t *)text.ptr, text.len, NULL, 0};
    size_t before = out->n;
    if (text.len > UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a text of %zu bytes, at most 4 GiB can be encoded at once",
                       text.len);
    if (text.len == 0)
        return FT_OK;
    ft_status st = encode_pass(&j, &v, 0, text.len, &e->tok->added.passes[0], j.rule,
                               e->spm != NULL ? encode_spm : encode_normalized);
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
