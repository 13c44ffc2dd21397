/* SPDX-License-Identifier: Apache-2.0
 * Normalised text to ids: it is cut where no piece crosses, and each stretch comes from the cache
 * or from the model. */
#include <math.h>
#include <string.h>

#include "common/half.h"
#include "common/mem.h"
#include "formats/tok/cache.h"
#include "formats/tok/spm_priv.h"
#include "formats/tok/tok_internal.h"

struct spm_encoder {
    const struct spm *spm;
    struct cache cache;
    struct spm_text text;
    struct bpe_work work;
    struct unigram_work ways;
};

/* One call of spm_encode. */
struct job {
    struct spm_encoder *e;
    const struct spm *spm;
    struct tok_ids *out;
    size_t offset;  /* of the input in the caller's text */
    bool after_unk; /* the last token is the unknown one: another one joins it */
    float sum;      /* of the scores so far, unigram */
    ft_error *err;
};

ft_status spm_encoder_create(struct spm_encoder **out, const struct spm *s, ft_error *err)
{
    struct spm_encoder *e;
    *out = NULL;
    FT_TRY(mem_new(&e, 1, sizeof *e, "a tokenizer's encoder", err));
    e->spm = s;
    ft_status st = cache_init(&e->cache, err);
    if (st != FT_OK) {
        spm_encoder_destroy(e);
        return st;
    }
    *out = e;
    return FT_OK;
}

void spm_encoder_destroy(struct spm_encoder *e)
{
    if (e == NULL)
        return;
    cache_destroy(&e->cache);
    spm_text_free(&e->text);
    bpe_work_free(&e->work);
    unigram_work_free(&e->ways);
    mem_free(e);
}

str spm_normalized(const struct spm_encoder *e)
{
    return (str){(const char *)e->text.bytes, e->text.n};
}

/* --- output -------------------------------------------------------------------------------------
 */

static uint32_t offset_of(const struct job *j, size_t at)
{
    return (uint32_t)(j->offset + spm_origin(&j->e->text, at));
}

/* Room is reserved. */
static void put_id(struct job *j, int32_t id, size_t at)
{
    struct tok_ids *out = j->out;
    out->ids[out->n] = id;
    if (out->want_offsets)
        out->offsets[out->n] = offset_of(j, at);
    out->n++;
}

/* The tokens of stretches without an unknown one tell their lengths: a byte that begins a character
 * has the length of all of it, the others have none. */
static void put_offsets(struct job *j, const int32_t *ids, size_t n, size_t at)
{
    uint32_t *offsets = j->out->offsets + j->out->n;
    size_t last = at;
    for (size_t i = 0; i < n; i++) {
        uint16_t length = j->spm->lengths[ids[i]];
        if (length > 0)
            last = at;
        offsets[i] = offset_of(j, last);
        at += length;
    }
}

/* Room is reserved. */
static inline void put_ids(struct job *j, const int32_t *ids, size_t n, size_t at)
{
    struct tok_ids *out = j->out;
    memcpy(out->ids + out->n, ids, n * sizeof *ids);
    if (out->want_offsets)
        put_offsets(j, ids, n, at);
    out->n += n;
    j->after_unk = false;
}

/* A character or piece that the model does not know. Room for its bytes is reserved. */
static void put_unknown(struct job *j, size_t from, size_t to)
{
    const struct spm *s = j->spm;
    if (s->file.byte_fallback) {
        /* U+2581 may stand here as a space. */
        static const uint8_t mark[] = {0xE2, 0x96, 0x81};
        const uint8_t *p = j->e->text.bytes + from;
        for (size_t i = from; i < to; i++, p++) {
            if (*p != ' ' || !s->normalizer.escape_whitespaces) {
                put_id(j, s->byte_ids[*p], from);
                continue;
            }
            for (int k = 0; k < 3; k++)
                put_id(j, s->byte_ids[mark[k]], from);
        }
        return;
    }
    if (!j->after_unk)
        put_id(j, s->unk, from);
    j->after_unk = true;
}

/* --- BPE ----------------------------------------------------------------------------------------
 */

static ft_status load_symbols(struct bpe_work *w, const struct job *j, size_t from, size_t to)
{
    str rest = {(const char *)j->e->text.bytes + from, to - from};
    FT_TRY(bpe_work_reserve(w, rest.len, j->err));
    w->n = 0;
    while (rest.len > 0) {
        size_t n;
        uint32_t c = str_utf8_next(rest, &n);
        w->ids[w->n] = spm_bpe_symbol(&j->spm->bpe, c);
        w->starts[w->n++] = (uint32_t)(to - rest.len);
        rest = str_sub(rest, n, rest.len);
    }
    return FT_OK;
}

/* SentencePiece goes down no further when it takes a piece apart. */
enum { MAX_SPLIT_DEPTH = 100 };

static void put_symbol(struct job *j, int32_t symbol, size_t from, size_t to, int depth)
{
    const struct spm *s = j->spm;
    bool known = symbol < s->n_vocab;
    if (known && (s->file.pieces[symbol].type != SPM_UNUSED || depth > MAX_SPLIT_DEPTH)) {
        put_id(j, symbol, from);
        j->after_unk = false;
        return;
    }
    if (!known || s->bpe.splits[symbol].left < 0) {
        put_unknown(j, from, to);
        return;
    }
    struct spm_split split = s->bpe.splits[symbol];
    size_t middle = split.left < s->n_vocab ? from + s->texts[split.left].len
                                            : from + spm_char_bytes(j->e->text.bytes[from]);
    put_symbol(j, split.left, from, middle, depth + 1);
    put_symbol(j, split.right, middle, to, depth + 1);
}

static ft_status encode_bpe(struct job *j, size_t from, size_t to)
{
    struct bpe_work *w = &j->e->work;
    FT_TRY(load_symbols(w, j, from, to));
    FT_TRY(bpe_merge(&j->spm->bpe.merges, w, j->err));
    FT_TRY(tok_ids_reserve(j->out, 3 * (to - from), j->err));
    for (size_t i = 0; i < w->n; i++)
        put_symbol(j, w->ids[i], w->starts[i], i + 1 < w->n ? w->starts[i + 1] : to, 0);
    return FT_OK;
}

/* --- unigram ------------------------------------------------------------------------------------
 */

static ft_status put_ways(struct job *j, size_t from, size_t to)
{
    const struct unigram_work *w = &j->e->ways;
    FT_TRY(tok_ids_reserve(j->out, 3 * (to - from), j->err));
    for (size_t i = 0; i < w->n; i++) {
        size_t start = from + w->starts[i], end = i + 1 < w->n ? from + w->starts[i + 1] : to;
        if (w->ids[i] == j->spm->unigram.unk) {
            put_unknown(j, start, end);
        } else {
            put_id(j, w->ids[i], start);
            j->after_unk = false;
        }
    }
    return FT_OK;
}

static ft_status run_unigram(struct job *j, size_t from, size_t to)
{
    str text = {(const char *)j->e->text.bytes + from, to - from};
    FT_TRY(unigram_run(&j->spm->unigram, &j->e->ways, text, &j->sum, j->err));
    return put_ways(j, from, to);
}

/* --- stretches ----------------------------------------------------------------------------------
 * With the ids of a stretch, unigram keeps the limit of the sum up to which they hold: as the note
 * of the cache, which is the upper half of a float. */

/* Never above the limit; 0 when there is none. */
static uint16_t note_of(float limit)
{
    return limit > 0 ? (uint16_t)(f32_to_bits(limit) >> 16) : 0;
}

static bool has_id(const int32_t *ids, size_t n, int32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Whether the ids of a stretch tell its tokens' offsets, and its tokens do not depend on what is
 * before. An unknown space mark is one byte of normalised text but three tokens. */
static bool may_keep(const struct job *j, size_t from, size_t to, const int32_t *ids, size_t n)
{
    const struct spm *s = j->spm;
    if (s->file.byte_fallback)
        return s->space_known || memchr(j->e->text.bytes + from, ' ', to - from) == NULL;
    return !has_id(ids, n, s->unk);
}

static ft_status miss_bpe(struct job *j, size_t from, size_t to)
{
    struct spm_encoder *e = j->e;
    size_t before = j->out->n;
    bool joined = j->after_unk;
    FT_TRY(encode_bpe(j, from, to));
    const int32_t *ids = j->out->ids + before;
    size_t n = j->out->n - before;
    if (!joined && may_keep(j, from, to, ids, n))
        cache_insert(&e->cache, e->text.bytes + from, to - from, ids, n);
    return FT_OK;
}

/* Longer stretches are not worth the second look. */
enum { MEASURE_MAX = CACHE_LONG_BYTES };

static ft_status miss_unigram(struct job *j, size_t from, size_t to)
{
    str text = {(const char *)j->e->text.bytes + from, to - from};
    float limit;
    if (text.len > MEASURE_MAX)
        return run_unigram(j, from, to);
    FT_TRY(unigram_measure(&j->spm->unigram, &j->e->ways, text, &limit, j->err));
    if (!has_id(j->e->ways.ids, j->e->ways.n, j->spm->unigram.unk))
        cache_insert_noted(&j->e->cache, j->e->text.bytes + from, text.len, j->e->ways.ids,
                           j->e->ways.n, note_of(limit));
    j->sum = unigram_begin(j->sum);
    if (!(fabsf(j->sum) < limit))
        return run_unigram(j, from, to);
    for (size_t i = 0; i < j->e->ways.n; i++)
        j->sum += unigram_score(&j->spm->unigram, j->e->ways.ids[i]);
    return put_ways(j, from, to);
}

/* Whether what the cache has for a stretch holds here; then, in unigram, its scores are added as
 * unigram_run adds them. */
static inline bool accept_hit(struct job *j, const int32_t *ids, size_t n, uint16_t note,
                              bool unigram)
{
    if (!unigram)
        return true;
    j->sum = unigram_begin(j->sum);
    if (!(fabsf(j->sum) < bf16_to_f32(note)))
        return false;
    for (size_t i = 0; i < n; i++)
        j->sum += j->spm->unigram.scores[ids[i]];
    return true;
}

/* A character that no piece is, alone between two cuts: text of an alphabet that the model does not
 * have is made of these. */
static bool is_unknown_char(const struct job *j, size_t from, size_t to)
{
    str c = {(const char *)j->e->text.bytes + from, to - from};
    return spm_char_bytes((uint8_t)c.ptr[0]) == c.len &&
           spm_trie_find(&j->spm->unigram.trie, c) < 0;
}

static ft_status encode_unknown_char(struct job *j, size_t from, size_t to)
{
    j->sum = unigram_begin(j->sum) + j->spm->unigram.unk_score;
    FT_TRY(tok_ids_reserve(j->out, 3 * (to - from), j->err));
    put_unknown(j, from, to);
    return FT_OK;
}

static ft_status encode_miss(struct job *j, size_t from, size_t to, bool unigram)
{
    if (unigram && is_unknown_char(j, from, to))
        return encode_unknown_char(j, from, to);
    const struct cache_long *hit =
        cache_find_long(&j->e->cache, j->e->text.bytes + from, to - from);
    if (hit == NULL)
        return unigram ? miss_unigram(j, from, to) : miss_bpe(j, from, to);
    if (!accept_hit(j, hit->ids, hit->n, hit->note, unigram))
        return run_unigram(j, from, to);
    FT_TRY(tok_ids_reserve(j->out, hit->n, j->err));
    put_ids(j, hit->ids, hit->n, from);
    return FT_OK;
}

/* As put_ids, for a short entry: room for CACHE_SHORT_IDS is reserved, so that the copy has a
 * constant size. */
static inline void put_short(struct job *j, const struct cache_entry *entry, size_t at)
{
    struct tok_ids *out = j->out;
    memcpy(out->ids + out->n, entry->ids, sizeof entry->ids);
    if (out->want_offsets)
        put_offsets(j, entry->ids, entry->n, at);
    out->n += entry->n;
    j->after_unk = false;
}

/* The stretches that end at ends[0..n). Two rounds, so that the cache lines arrive while other keys
 * are computed. */
static inline ft_status encode_batch(struct job *j, size_t from, const uint32_t *ends, size_t n,
                                     bool unigram)
{
    const uint8_t *text = j->e->text.bytes;
    const struct cache *cache = &j->e->cache;
    struct cache_key keys[SPM_CUT_BATCH];
    size_t at = from;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = ends[i] - at;
        if (bytes <= CACHE_SHORT_BYTES) {
            keys[i] = cache_key_of(text + at, bytes, j->e->text.n - at);
            __builtin_prefetch(cache_set_of(cache, keys[i]));
        }
        at = ends[i];
    }
    FT_TRY(tok_ids_reserve(j->out, SPM_CUT_BATCH * CACHE_SHORT_IDS, j->err));
    for (size_t i = 0; i < n; i++) {
        const struct cache_entry *hit = NULL;
        if (ends[i] - from <= CACHE_SHORT_BYTES)
            hit = cache_find(cache, keys[i]);
        bool holds = hit != NULL && accept_hit(j, hit->ids, hit->n, hit->note, unigram);
        if (__builtin_expect(holds, 1)) {
            put_short(j, hit, from);
        } else {
            FT_TRY(hit == NULL ? encode_miss(j, from, ends[i], unigram)
                               : run_unigram(j, from, ends[i]));
            FT_TRY(tok_ids_reserve(j->out, SPM_CUT_BATCH * CACHE_SHORT_IDS, j->err));
        }
        from = ends[i];
    }
    return FT_OK;
}

static ft_status encode_stretches(struct job *j, size_t from, size_t to)
{
    bool unigram = j->spm->file.model_type == SPM_UNIGRAM;
    uint32_t ends[SPM_CUT_BATCH];
    size_t at = from + 1;
    while (from < to) {
        size_t n = spm_cut_next(ends, &j->spm->cut, j->e->text.bytes, &at, to);
        FT_TRY(unigram ? encode_batch(j, from, ends, n, true)
                       : encode_batch(j, from, ends, n, false));
        from = ends[n - 1];
    }
    return FT_OK;
}

/* --- user-defined symbols in BPE ----------------------------------------------------------------
 */

static ft_status put_user_symbol(struct job *j, int32_t id, size_t at)
{
    FT_TRY(tok_ids_reserve(j->out, 1, j->err));
    put_id(j, id, at);
    j->after_unk = false;
    return FT_OK;
}

/* They never merge with what is around them; what lies between is encoded by itself. */
static ft_status encode_around_symbols(struct job *j)
{
    const struct spm_symbols *user = &j->spm->user;
    str text = spm_normalized(j->e);
    size_t from = 0, at = 0;
    while (at < text.len) {
        int32_t id;
        size_t n = 0;
        if (user->starts[(uint8_t)text.ptr[at]])
            n = spm_trie_longest(&id, &user->trie, str_sub(text, at, text.len));
        if (n == 0) {
            at++; /* none begins inside a character */
            continue;
        }
        FT_TRY(encode_stretches(j, from, at));
        FT_TRY(put_user_symbol(j, id, at));
        at += n;
        from = at;
    }
    return encode_stretches(j, from, text.len);
}

ft_status spm_encode(struct spm_encoder *e, struct tok_ids *out, str text, size_t offset,
                     ft_error *err)
{
    const struct spm *s = e->spm;
    struct job j = {.e = e, .spm = s, .out = out, .offset = offset, .err = err};
    e->text.want_origins = out->want_offsets;
    FT_TRY(spm_normalize(&e->text, &s->normalizer, text, err));
    if (s->file.model_type != SPM_UNIGRAM && s->user.any)
        return encode_around_symbols(&j);
    return encode_stretches(&j, 0, e->text.n);
}
