/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's BPE has no list of merges: two neighbours merge when together they are a piece,
 * the piece of the highest score first. Here the list is made, with equal ranks for equal scores:
 * every way to put a piece together from two that can come up themselves. */
#include <stdlib.h>
#include <string.h>

#include "common/half.h"
#include "common/hash.h"
#include "common/mem.h"
#include "formats/tok/spm_priv.h"

struct slot {
    uint32_t tag;   /* of the hash: most other texts are told apart without a look at them */
    int32_t symbol; /* -1 = empty */
};

/* Symbols by text. */
struct map {
    struct slot *slots;
    size_t mask;
    const str *texts; /* by symbol */
};

struct builder {
    struct spm *s;
    struct map map;
    str *texts; /* [n_symbols] */
    int32_t n_symbols;
    struct bpe_merge *merges;
    size_t n_merges, cap_merges;
    ft_error *err;
};

/* The symbol with this text; where it belongs when there is none. */
static int32_t *map_slot(const struct map *m, str text)
{
    uint64_t hash = hash64(text.ptr, text.len);
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t i = hash & m->mask;
    while (m->slots[i].symbol >= 0 &&
           (m->slots[i].tag != tag || !str_eq(m->texts[m->slots[i].symbol], text)))
        i = (i + 1) & m->mask;
    m->slots[i].tag = tag;
    return &m->slots[i].symbol;
}

static ft_status init_map(struct map *m, const str *texts, size_t n, ft_error *err)
{
    size_t slots = 256;
    while (slots < 2 * n)
        slots *= 2;
    *m = (struct map){.mask = slots - 1, .texts = texts};
    FT_TRY(mem_new(&m->slots, slots, sizeof *m->slots, "the vocabulary", err));
    memset(m->slots, 0xFF, slots * sizeof *m->slots);
    return FT_OK;
}

/* --- symbols ------------------------------------------------------------------------------------
 */

static bool is_mergeable(const struct spm *s, int32_t id)
{
    return spm_in_text(s->file.pieces[id].type) && s->texts[id].len > 0;
}

/* Pieces are symbols, and so is every character of a piece: in SentencePiece, "ab" can be put
 * together even when "b" is no piece. */
static void add_symbols(struct builder *b)
{
    struct spm *s = b->s;
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (is_mergeable(s, id))
            *map_slot(&b->map, s->texts[id]) = id;
    b->n_symbols = s->n_vocab;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        str rest = is_mergeable(s, id) ? s->texts[id] : (str){"", 0};
        while (rest.len > 0) {
            str c = str_sub(rest, 0, spm_char_bytes((uint8_t)rest.ptr[0]));
            int32_t *slot = map_slot(&b->map, c);
            if (*slot < 0) {
                b->texts[b->n_symbols] = c;
                *slot = b->n_symbols++;
            }
            rest = str_sub(rest, c.len, rest.len);
        }
    }
}

static ft_status init_characters(struct builder *b)
{
    struct spm_bpe *bpe = &b->s->bpe;
    uint16_t n_pages = 1;
    bpe->other = b->n_symbols;
    bpe->page = arena_alloc(&b->s->arena, 0x1100, sizeof *bpe->page);
    if (bpe->page == NULL)
        return ft_fail_memory(b->err, 0x1100 * sizeof *bpe->page, "the characters");
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i <= b->map.mask; i++) {
            size_t n;
            int32_t symbol = b->map.slots[i].symbol;
            if (symbol < 0 ||
                spm_char_bytes((uint8_t)b->texts[symbol].ptr[0]) != b->texts[symbol].len)
                continue;
            uint32_t c = str_utf8_next(b->texts[symbol], &n);
            if (round == 1)
                bpe->symbols[(size_t)bpe->page[c >> 8] << 8 | (c & 0xFF)] = symbol;
            else if (bpe->page[c >> 8] == 0)
                bpe->page[c >> 8] = n_pages++;
        }
        if (round == 1)
            break;
        bpe->symbols = arena_alloc(&b->s->arena, (size_t)n_pages << 8, sizeof *bpe->symbols);
        if (bpe->symbols == NULL)
            return ft_fail_memory(b->err, (size_t)n_pages << 10, "the characters");
        for (size_t i = 0; i < (size_t)n_pages << 8; i++)
            bpe->symbols[i] = bpe->other;
    }
    return FT_OK;
}

/* --- merges -------------------------------------------------------------------------------------
 */

/* Ascending as unsigned numbers from the highest score to the lowest, -0 below +0. */
static uint32_t score_key(float score)
{
    uint32_t bits = f32_to_bits(score);
    return bits >> 31 ? bits : ~bits & 0x7FFFFFFF;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static ft_status add_merge(struct builder *b, struct bpe_merge m)
{
    if (b->n_merges == b->cap_merges) {
        size_t cap = FT_MAX(2 * b->cap_merges, (size_t)4096);
        struct bpe_merge *p = mem_realloc(b->merges, cap, sizeof *p);
        if (p == NULL)
            return ft_fail_memory(b->err, cap * sizeof *p, "the merges");
        b->merges = p;
        b->cap_merges = cap;
    }
    b->merges[b->n_merges++] = m;
    return FT_OK;
}

/* The ways to make a piece of two symbols. */
static ft_status add_merges_of(struct builder *b, int32_t id, uint32_t rank)
{
    str text = b->texts[id];
    size_t n_before = b->n_merges;
    for (size_t at = spm_char_bytes((uint8_t)text.ptr[0]); at < text.len;
         at += spm_char_bytes((uint8_t)text.ptr[at])) {
        int32_t left = *map_slot(&b->map, str_sub(text, 0, at));
        if (left < 0)
            continue;
        int32_t right = *map_slot(&b->map, str_sub(text, at, text.len));
        if (right >= 0)
            FT_TRY(add_merge(b, (struct bpe_merge){left, right, id, rank}));
    }
    if (b->s->file.pieces[id].type != SPM_UNUSED || b->n_merges == n_before)
        return FT_OK;
    /* SentencePiece takes an unused piece apart as it was last seen put together, anywhere in the
     * text; that is certain only when there is one way. */
    if (b->n_merges > n_before + 1)
        return ft_fail(b->err, FT_EFORMAT,
                       "piece %d is unused but can be put together in %zu ways: how it is taken "
                       "apart is not supported",
                       id, b->n_merges - n_before);
    b->s->bpe.splits[id] = (struct spm_split){b->merges[n_before].left, b->merges[n_before].right};
    return FT_OK;
}

static ft_status add_merges(struct builder *b, uint64_t *order)
{
    struct spm *s = b->s;
    size_t n = 0;
    uint32_t rank = 0;
    bool sorted = true;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        if (!is_mergeable(s, id))
            continue;
        order[n] = (uint64_t)score_key(s->file.pieces[id].score) << 32 | (uint32_t)id;
        sorted = sorted && (n == 0 || order[n - 1] < order[n]);
        n++;
    }
    if (!sorted)
        qsort(order, n, sizeof *order, compare_u64);
    for (size_t i = 0; i < n; i++) {
        rank += i > 0 && order[i] >> 32 != order[i - 1] >> 32;
        FT_TRY(add_merges_of(b, (int32_t)(uint32_t)order[i], rank));
    }
    return FT_OK;
}

static bool has_unused(const struct spm *s)
{
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (s->file.pieces[id].type == SPM_UNUSED)
            return true;
    return false;
}

static ft_status init_splits(struct spm *s, ft_error *err)
{
    if (!has_unused(s))
        return FT_OK;
    s->bpe.splits = arena_alloc(&s->arena, (size_t)s->n_vocab, sizeof *s->bpe.splits);
    if (s->bpe.splits == NULL)
        return ft_fail_memory(err, (size_t)s->n_vocab * sizeof *s->bpe.splits, "the vocabulary");
    for (int32_t id = 0; id < s->n_vocab; id++)
        s->bpe.splits[id] = (struct spm_split){-1, -1};
    return FT_OK;
}

static ft_status keep_merges(struct builder *b)
{
    struct bpe_merge *merges = arena_alloc(&b->s->arena, b->n_merges, sizeof *merges);
    if (merges == NULL)
        return ft_fail_memory(b->err, b->n_merges * sizeof *merges, "the merges");
    if (b->n_merges > 0)
        memcpy(merges, b->merges, b->n_merges * sizeof *merges);
    return bpe_init(&b->s->bpe.merges, merges, b->n_merges, b->err);
}

static ft_status build(struct builder *b, uint64_t *order)
{
    memcpy(b->texts, b->s->texts, (size_t)b->s->n_vocab * sizeof *b->texts);
    add_symbols(b);
    FT_TRY(init_characters(b));
    FT_TRY(init_splits(b->s, b->err));
    if (b->s->file.model_type == SPM_BPE)
        FT_TRY(add_merges(b, order));
    return keep_merges(b);
}

/* Different characters in all pieces. */
static ft_status count_chars(size_t *n_chars, const struct spm *s, ft_error *err)
{
    uint8_t *seen;
    FT_TRY(mem_new(&seen, 0x110000 / 8, 1, "the characters", err));
    *n_chars = 0;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        size_t n;
        for (str rest = s->texts[id]; rest.len > 0; rest = str_sub(rest, n, rest.len)) {
            uint32_t c = str_utf8_next(rest, &n);
            *n_chars += (seen[c >> 3] >> (c & 7) & 1) == 0;
            seen[c >> 3] |= (uint8_t)(1u << (c & 7));
        }
    }
    mem_free(seen);
    return FT_OK;
}

ft_status spm_bpe_init(struct spm *s, ft_error *err)
{
    struct builder b = {.s = s, .err = err};
    uint64_t *order = NULL;
    size_t most;
    ft_status st = FT_OK;
    FT_TRY(count_chars(&most, s, err));
    most += (size_t)s->n_vocab;
    FT_GOTO(mem_new(&b.texts, most, sizeof *b.texts, "the vocabulary", err));
    FT_GOTO(mem_new(&order, (size_t)s->n_vocab, sizeof *order, "the vocabulary", err));
    FT_GOTO(init_map(&b.map, b.texts, most, err));
    FT_GOTO(build(&b, order));
out:
    mem_free(b.map.slots);
    mem_free(b.merges);
    mem_free(b.texts);
    mem_free(order);
    return st;
}
