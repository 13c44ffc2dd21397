/* SPDX-License-Identifier: Apache-2.0
 * From the strings of a vocabulary file to ids: the load rules of Hugging Face tokenizers. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_internal.h"

static ft_status no_memory(size_t bytes, ft_error *err)
{
    return ft_fail_memory(err, bytes, "the vocabulary");
}

ft_status tok_builder_init(struct tok_builder *b, size_t max_ids, size_t max_merges,
                           size_t max_added, ft_error *err)
{
    *b = (struct tok_builder){0};
    if (max_ids > TOK_MAX_VOCAB || max_merges > TOK_MAX_VOCAB || max_added > TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "more than %d tokens, merges or added tokens",
                       TOK_MAX_VOCAB);
    size_t slots = 16;
    while (slots < 2 * max_ids)
        slots *= 2;
    FT_TRY(mem_new(&b->tok, 1, sizeof *b->tok, "a tokenizer", err));
    b->tok->bos = b->tok->eos = -1;
    FT_TRY(mem_new(&b->map, slots, sizeof *b->map, "the vocabulary", err));
    memset(b->map, 0xFF, slots * sizeof *b->map);
    b->map_mask = slots - 1;
    b->merges = arena_alloc(&b->tok->arena, max_merges, sizeof *b->merges);
    b->added = arena_alloc(&b->tok->arena, max_added, sizeof *b->added);
    if (b->merges == NULL || b->added == NULL)
        return no_memory(max_merges * sizeof *b->merges, err);
    b->cap_merges = max_merges;
    b->cap_added = max_added;
    return FT_OK;
}

void tok_builder_destroy(struct tok_builder *b)
{
    tok_close(b->tok);
    mem_free(b->pieces);
    mem_free(b->map);
    arena_destroy(&b->scratch);
    *b = (struct tok_builder){0};
}

/* Makes ids up to `id` valid. */
static ft_status grow_ids(struct tok_builder *b, int64_t id, ft_error *err)
{
    if (id < 0 || id >= TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "token id %lld, supported are 0 to %d", (long long)id,
                       TOK_MAX_VOCAB - 1);
    if (id >= b->cap_ids) {
        size_t cap = FT_MAX((size_t)id + 1, (size_t)b->cap_ids * 2);
        str *pieces = mem_realloc(b->pieces, cap, sizeof *pieces);
        if (pieces == NULL)
            return no_memory(cap * sizeof *pieces, err);
        memset(pieces + b->cap_ids, 0, (cap - (size_t)b->cap_ids) * sizeof *pieces);
        b->pieces = pieces;
        b->cap_ids = (int32_t)cap;
    }
    b->n_ids = FT_MAX(b->n_ids, (int32_t)id + 1);
    return FT_OK;
}

static ft_status set_piece(struct tok_builder *b, int64_t id, str piece, ft_error *err)
{
    if (piece.len > TOK_MAX_PIECE)
        return ft_fail(err, FT_ELIMIT, "token %lld has %zu bytes, at most %d are supported",
                       (long long)id, piece.len, TOK_MAX_PIECE);
    if (str_utf8_invalid_at(piece) != piece.len)
        return ft_fail(err, FT_EFORMAT, "token %lld is not valid UTF-8", (long long)id);
    FT_TRY(grow_ids(b, id, err));
    if (b->pieces[id].ptr != NULL)
        return ft_fail(err, FT_EFORMAT, "token id %lld is given to \"%.*s\" and to \"%.*s\"",
                       (long long)id, STR_ARG(b->pieces[id]), STR_ARG(piece));
    b->pieces[id] = arena_str(&b->scratch, piece);
    return b->pieces[id].ptr == NULL ? no_memory(piece.len, err) : FT_OK;
}

/* The place of the piece in the map, or the empty one where it belongs. */
static int32_t *map_place(const struct tok_builder *b, str piece)
{
    size_t i = (size_t)hash64(piece.ptr, piece.len) & b->map_mask;
    while (b->map[i] >= 0 && !str_eq(b->pieces[b->map[i]], piece))
        i = (i + 1) & b->map_mask;
    return &b->map[i];
}

ft_status tok_builder_piece(struct tok_builder *b, int64_t id, str piece, ft_error *err)
{
    int32_t *place = map_place(b, piece);
    if (*place >= 0)
        return ft_fail(err, FT_EFORMAT, "the token \"%.*s\" has two ids, %d and %lld",
                       STR_ARG(piece), *place, (long long)id);
    FT_TRY(set_piece(b, id, piece, err));
    *place = (int32_t)id;
    return FT_OK;
}

int32_t tok_builder_find(const struct tok_builder *b, str piece)
{
    return *map_place(b, piece);
}

static ft_status find_part(int32_t *id, const struct tok_builder *b, str part, ft_error *err)
{
    *id = tok_builder_find(b, part);
    if (*id < 0)
        return ft_fail(err, FT_EFORMAT, "\"%.*s\" is not in the vocabulary", STR_ARG(part));
    return FT_OK;
}

ft_status tok_builder_merge(struct tok_builder *b, str left, str right, ft_error *err)
{
    struct bpe_merge m;
    char joined[2 * TOK_MAX_PIECE];
    FT_ASSERT(b->n_merges < b->cap_merges);
    FT_TRY(find_part(&m.left, b, left, err));
    FT_TRY(find_part(&m.right, b, right, err));
    memcpy(joined, left.ptr, left.len);
    memcpy(joined + left.len, right.ptr, right.len);
    FT_TRY(find_part(&m.result, b, (str){joined, left.len + right.len}, err));
    b->merges[b->n_merges++] = m;
    return FT_OK;
}

ft_status tok_builder_merge_pair(struct tok_builder *b, str pair, ft_error *err)
{
    str right = pair, left = str_cut(&right, ' ');
    if (left.len == 0 || right.len == 0 || memchr(right.ptr, ' ', right.len) != NULL)
        return ft_fail(err, FT_EFORMAT, "\"%.*s\" is not two tokens with one space between",
                       STR_ARG(pair));
    return tok_builder_merge(b, left, right, err);
}

ft_status tok_builder_added(struct tok_builder *b, int64_t id, str content, unsigned flags,
                            ft_error *err)
{
    FT_ASSERT(b->n_added < b->cap_added);
    if (content.len == 0)
        return ft_fail(err, FT_EFORMAT, "an added token needs some text");
    int32_t known = tok_builder_find(b, content);
    if (known < 0)
        FT_TRY(set_piece(b, id, content, err));
    str copy = arena_str(&b->tok->arena, content);
    if (copy.ptr == NULL)
        return no_memory(content.len, err);
    b->added[b->n_added++] = (struct added_token){copy, known < 0 ? (int32_t)id : known, flags};
    return FT_OK;
}

static void find_bytes(const struct tok_builder *b, int32_t byte_id[256])
{
    for (int c = 0; c < 256; c++)
        byte_id[c] = -1;
    for (uint32_t c = 0; c < 0x144; c++) {
        char piece[4];
        int byte = byte_level_byte(c);
        if (byte >= 0)
            byte_id[byte] = tok_builder_find(b, (str){piece, str_utf8_put(piece, c)});
    }
}

bool tok_builder_has_all_bytes(const struct tok_builder *b)
{
    int32_t byte_id[256];
    find_bytes(b, byte_id);
    for (int c = 0; c < 256; c++)
        if (byte_id[c] < 0)
            return false;
    return true;
}

static ft_status decode_pieces(struct tok_builder *b, ft_error *err)
{
    struct tok *t = b->tok;
    size_t total = 0;
    for (int32_t id = 0; id < b->n_ids; id++)
        total += b->pieces[id].len;
    char *bytes = arena_alloc(&t->arena, total, 1);
    t->bytes = arena_alloc(&t->arena, (size_t)b->n_ids, sizeof *t->bytes);
    if (bytes == NULL || t->bytes == NULL)
        return no_memory(total, err);
    for (int32_t id = 0; id < b->n_ids; id++) {
        if (b->pieces[id].ptr == NULL)
            continue;
        t->bytes[id] = (str){bytes, byte_level_decode(bytes, b->pieces[id])};
        bytes += t->bytes[id].len;
    }
    return FT_OK;
}

static ft_status sort_added(struct tok_builder *b, ft_error *err)
{
    qsort(b->added, b->n_added, sizeof *b->added, added_compare);
    for (size_t i = 1; i < b->n_added; i++)
        if (str_eq(b->added[i - 1].content, b->added[i].content))
            return ft_fail(err, FT_EFORMAT, "the added token \"%.*s\" appears twice",
                           STR_ARG(b->added[i].content));
    return FT_OK;
}

ft_status tok_builder_finish(struct tok **out, struct tok_builder *b, const struct pretok *pretok,
                             ft_error *err)
{
    struct tok *t = b->tok;
    if (b->n_ids == 0)
        return ft_fail(err, FT_EFORMAT, "the vocabulary is empty");
    t->n_vocab = b->n_ids;
    t->pretok = pretok;
    find_bytes(b, t->byte_id);
    FT_TRY(decode_pieces(b, err));
    FT_TRY(sort_added(b, err));
    FT_TRY(tok_finish(t, b->merges, b->n_merges, b->added, b->n_added, err));
    b->tok = NULL;
    *out = t;
    return FT_OK;
}
