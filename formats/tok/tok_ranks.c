/* SPDX-License-Identifier: Apache-2.0
 * Ranks become merges: one for every way to cut a token into two others, all of the token's rank,
 * so that the leftmost of several goes first. */
#include "formats/tok/tok_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base64.h"
#include "common/mem.h"
#include "formats/tok/byte_level.h"

/* A token as the builder wants it: in the byte-level alphabet, with the place of each byte. */
struct spelled {
    char text[2 * TOK_MAX_PIECE];
    uint32_t starts[TOK_MAX_PIECE + 1];
    uint32_t n; /* bytes */
};

struct alphabet {
    char characters[256][4];
    uint8_t lengths[256];
};

static void alphabet_init(struct alphabet *a)
{
    for (uint32_t c = 0; c < 0x144; c++) {
        int byte = byte_level_byte(c);
        if (byte >= 0)
            a->lengths[byte] = (uint8_t)str_utf8_put(a->characters[byte], c);
    }
}

void tok_ranks_free(struct tok_ranks *r)
{
    buf_free(&r->bytes);
    mem_free(r->items);
    *r = (struct tok_ranks){0};
}

ft_status tok_ranks_add(struct tok_ranks *r, str base64, int64_t rank, ft_error *err)
{
    size_t at = r->bytes.len;
    if (r->n == TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "more than %d tokens", TOK_MAX_VOCAB);
    if (!base64_decode(&r->bytes, base64))
        return ft_fail(err, FT_EFORMAT, "\"%.*s\" is not base64",
                       (int)FT_MIN(base64.len, (size_t)40), base64.ptr);
    FT_TRY(buf_status(&r->bytes, "a vocabulary", err));
    size_t len = r->bytes.len - at;
    if (len == 0 || len > TOK_MAX_PIECE)
        return ft_fail(err, FT_ELIMIT, "a token of %zu bytes, supported are 1 to %d", len,
                       TOK_MAX_PIECE);
    if (r->n == r->cap) {
        size_t cap = FT_MAX(r->cap * 2, (size_t)4096);
        struct tok_rank *items = mem_realloc(r->items, cap, sizeof *items);
        if (items == NULL)
            return ft_fail_memory(err, cap * sizeof *items, "a vocabulary");
        r->items = items;
        r->cap = cap;
    }
    r->items[r->n++] = (struct tok_rank){(uint32_t)at, (uint32_t)len, rank};
    return FT_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    int64_t x = ((const struct tok_rank *)a)->rank, y = ((const struct tok_rank *)b)->rank;
    return (x > y) - (x < y);
}

static void spell(struct spelled *s, const struct alphabet *a, const struct tok_ranks *r, size_t i)
{
    const uint8_t *bytes = r->bytes.data + r->items[i].at;
    uint32_t at = 0;
    s->n = r->items[i].len;
    for (uint32_t k = 0; k < s->n; k++) {
        s->starts[k] = at;
        memcpy(s->text + at, a->characters[bytes[k]], a->lengths[bytes[k]]);
        at += a->lengths[bytes[k]];
    }
    s->starts[s->n] = at;
}

static str part(const struct spelled *s, uint32_t from, uint32_t to)
{
    return (str){s->text + s->starts[from], s->starts[to] - s->starts[from]};
}

static ft_status add_pieces(struct tok_builder *b, const struct tok_ranks *r,
                            const struct alphabet *a, struct spelled *s, int64_t first_id,
                            ft_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        if (i > 0 && r->items[i].rank == r->items[i - 1].rank)
            return ft_fail(err, FT_EFORMAT, "two tokens have the rank %lld",
                           (long long)r->items[i].rank);
        spell(s, a, r, i);
        FT_TRY(tok_builder_piece(b, first_id + r->items[i].rank, part(s, 0, s->n), err));
    }
    for (int byte = 0; byte < 256; byte++)
        if (tok_builder_find(b, (str){a->characters[byte], a->lengths[byte]}) < 0)
            return ft_fail(err, FT_EFORMAT, "the byte 0x%02X has no token", (unsigned)byte);
    return FT_OK;
}

struct merges {
    struct bpe_merge *items; /* [n] */
    size_t n, cap;
};

static ft_status add_merge(struct merges *m, struct bpe_merge merge, ft_error *err)
{
    if (m->n == m->cap) {
        size_t cap = FT_MAX(m->cap * 2, (size_t)65536);
        struct bpe_merge *items = mem_realloc(m->items, cap, sizeof *items);
        if (items == NULL)
            return ft_fail_memory(err, cap * sizeof *items, "merges");
        m->items = items;
        m->cap = cap;
    }
    if (m->n == TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "the tokens can be merged in more than %d ways",
                       TOK_MAX_VOCAB);
    m->items[m->n++] = merge;
    return FT_OK;
}

static ft_status find_merges(struct merges *m, const struct tok_builder *b,
                             const struct tok_ranks *r, const struct alphabet *a, struct spelled *s,
                             int64_t first_id, ft_error *err)
{
    for (size_t i = 0; i < r->n; i++) {
        spell(s, a, r, i);
        for (uint32_t cut = 1; cut < s->n; cut++) {
            int32_t left = tok_builder_find(b, part(s, 0, cut));
            int32_t right = left < 0 ? -1 : tok_builder_find(b, part(s, cut, s->n));
            uint32_t rank = (uint32_t)r->items[i].rank;
            if (right >= 0)
                FT_TRY(add_merge(
                    m, (struct bpe_merge){left, right, (int32_t)(first_id + rank), rank}, err));
        }
    }
    return FT_OK;
}

static ft_status add_merges(struct tok_builder *b, const struct tok_ranks *r,
                            const struct alphabet *a, struct spelled *s, int64_t first_id,
                            ft_error *err)
{
    struct merges m = {0};
    ft_status st = find_merges(&m, b, r, a, s, first_id, err);
    if (st == FT_OK) {
        b->merges = arena_alloc(&b->tok->arena, m.n, sizeof *b->merges);
        st = b->merges == NULL ? ft_fail_memory(err, m.n * sizeof *b->merges, "merges") : FT_OK;
    }
    if (st == FT_OK && m.n > 0)
        memcpy(b->merges, m.items, m.n * sizeof *m.items);
    b->n_merges = b->cap_merges = m.n;
    mem_free(m.items);
    return st;
}

ft_status tok_ranks_build(struct tok_builder *b, struct tok_ranks *r, int64_t first_id,
                          ft_error *err)
{
    struct alphabet a;
    struct spelled *s;
    if (r->n > 0)
        qsort(r->items, r->n, sizeof *r->items, compare_ranks);
    alphabet_init(&a);
    FT_TRY(mem_new(&s, 1, sizeof *s, "a vocabulary", err));
    b->tok->model.kind = MODEL_BPE_BYTES;
    b->tok->model.flags = MODEL_IGNORE_MERGES | MODEL_EXPLICIT_RANKS;
    b->tok->model.unk = -1;
    ft_status st = tok_builder_reserve(b, r->n, 0, err);
    if (st == FT_OK)
        st = add_pieces(b, r, &a, s, first_id, err);
    if (st == FT_OK)
        st = add_merges(b, r, &a, s, first_id, err);
    mem_free(s);
    return st == FT_OK ? tok_builder_decode(b, (struct decode_step){.kind = DECODE_BYTE_LEVEL}, err)
                       : st;
}

int32_t tok_ranks_special(const struct tok_builder *b, str content)
{
    const struct added_token *a = tok_builder_find_added(b, content);
    return a == NULL ? -1 : a->id;
}
