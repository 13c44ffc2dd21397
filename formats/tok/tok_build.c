/* SPDX-License-Identifier: Apache-2.0
 * From the strings of a vocabulary file to ids: the load rules of Hugging Face tokenizers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_internal.h"

static ft_status no_memory(size_t bytes, ft_error *err)
{
    return ft_fail_memory(err, bytes, "the vocabulary");
}

ft_status tok_builder_init(struct tok_builder *b, ft_error *err)
{
    *b = (struct tok_builder){0};
    FT_TRY(mem_new(&b->tok, 1, sizeof *b->tok, "a tokenizer", err));
    b->tok->bos = b->tok->eos = b->tok->model.unk = b->max_added = -1;
    return FT_OK;
}

ft_status tok_builder_reserve(struct tok_builder *b, size_t max_ids, size_t max_merges,
                              ft_error *err)
{
    if (max_ids > TOK_MAX_VOCAB || max_merges > TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "more than %d tokens or merges", TOK_MAX_VOCAB);
    size_t slots = 16;
    while (slots < 2 * max_ids)
        slots *= 2;
    FT_TRY(mem_new(&b->map, slots, sizeof *b->map, "the vocabulary", err));
    memset(b->map, 0xFF, slots * sizeof *b->map);
    b->map_mask = slots - 1;
    b->merges = arena_alloc(&b->tok->arena, max_merges, sizeof *b->merges);
    if (b->merges == NULL)
        return no_memory(max_merges * sizeof *b->merges, err);
    b->cap_merges = max_merges;
    return FT_OK;
}

void tok_builder_destroy(struct tok_builder *b)
{
    tok_close(b->tok);
    mem_free(b->pieces);
    mem_free(b->model);
    mem_free(b->scores);
    mem_free(b->map);
    mem_free(b->added);
    mem_free(b->added_map);
    arena_destroy(&b->scratch);
    *b = (struct tok_builder){0};
}

static ft_status grow_array(void *array, size_t old, size_t new, size_t size, ft_error *err)
{
    char *p;
    memcpy(&p, array, sizeof p);
    p = mem_realloc(p, new, size);
    if (p == NULL)
        return no_memory(new *size, err);
    memset(p + old * size, 0, (new - old) * size);
    memcpy(array, &p, sizeof p);
    return FT_OK;
}

/* Makes ids up to `id` valid. */
static ft_status grow_ids(struct tok_builder *b, int64_t id, ft_error *err)
{
    if (id < 0 || id >= TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "token id %lld, supported are 0 to %d", (long long)id,
                       TOK_MAX_VOCAB - 1);
    if (id >= b->cap_ids) {
        size_t old = (size_t)b->cap_ids, cap = FT_MAX((size_t)id + 1, old * 2);
        FT_TRY(grow_array(&b->pieces, old, cap, sizeof *b->pieces, err));
        FT_TRY(grow_array(&b->model, old, cap, 1, err));
        FT_TRY(grow_array(&b->scores, old, cap, sizeof *b->scores, err));
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

/* The slot of the piece in the map, or the empty one where it belongs, with its tag set. */
static struct tok_builder_slot *map_place(const struct tok_builder *b, str piece)
{
    uint64_t hash = hash64(piece.ptr, piece.len);
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t i = (size_t)hash & b->map_mask;
    while (b->map[i].id >= 0 && (b->map[i].tag != tag || !str_eq(b->pieces[b->map[i].id], piece)))
        i = (i + 1) & b->map_mask;
    if (b->map[i].id < 0)
        b->map[i].tag = tag;
    return &b->map[i];
}

ft_status tok_builder_piece(struct tok_builder *b, int64_t id, str piece, ft_error *err)
{
    struct tok_builder_slot *place = map_place(b, piece);
    if (place->id >= 0)
        return ft_fail(err, FT_EFORMAT, "the token \"%.*s\" has two ids, %d and %lld",
                       STR_ARG(piece), place->id, (long long)id);
    FT_TRY(set_piece(b, id, piece, err));
    b->model[id] = 1;
    b->n_pieces++;
    place->id = (int32_t)id;
    return FT_OK;
}

ft_status tok_builder_scored(struct tok_builder *b, int64_t id, str piece, double score,
                             ft_error *err)
{
    FT_TRY(set_piece(b, id, piece, err));
    b->scores[id] = score;
    b->model[id] = 1;
    b->n_pieces++;
    map_place(b, piece)->id = (int32_t)id;
    return FT_OK;
}

int32_t tok_builder_find(const struct tok_builder *b, str piece)
{
    return map_place(b, piece)->id;
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
    struct bpe_merge m = {.rank = (uint32_t)b->n_merges};
    char joined[2 * TOK_MAX_PIECE];
    FT_ASSERT(b->n_merges < b->cap_merges);
    FT_TRY(find_part(&m.left, b, left, err));
    FT_TRY(find_part(&m.right, b, right, err));
    memcpy(joined, left.ptr, left.len);
    memcpy(joined + left.len, right.ptr, right.len);
    /* Mostly the results follow each other. */
    str result = {joined, left.len + right.len};
    m.result = b->n_merges == 0 ? -1 : b->merges[b->n_merges - 1].result + 1;
    if (m.result < 0 || m.result >= b->n_ids || !b->model[m.result] ||
        !str_eq(b->pieces[m.result], result))
        FT_TRY(find_part(&m.result, b, result, err));
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

/* --- added tokens -----------------------------------------------------------------------------
 */

static int32_t *added_place(const struct tok_builder *b, str content)
{
    size_t i = (size_t)hash64(content.ptr, content.len) & b->added_mask;
    while (b->added_map[i] >= 0 && !str_eq(b->added[b->added_map[i]].content, content))
        i = (i + 1) & b->added_mask;
    return &b->added_map[i];
}

/* Room for one more, with the map at most half full. */
static ft_status grow_added(struct tok_builder *b, ft_error *err)
{
    size_t cap = FT_MAX(2 * b->cap_added, (size_t)32);
    if (b->n_added < b->cap_added)
        return FT_OK;
    if (b->n_added >= TOK_MAX_VOCAB)
        return ft_fail(err, FT_ELIMIT, "more than %d added tokens", TOK_MAX_VOCAB);
    FT_TRY(grow_array(&b->added, b->cap_added, cap, sizeof *b->added, err));
    b->cap_added = cap;
    mem_free(b->added_map);
    b->added_map = NULL;
    FT_TRY(mem_new(&b->added_map, 2 * cap, sizeof *b->added_map, "added tokens", err));
    memset(b->added_map, 0xFF, 2 * cap * sizeof *b->added_map);
    b->added_mask = 2 * cap - 1;
    for (size_t i = 0; i < b->n_added; i++)
        *added_place(b, b->added[i].content) = (int32_t)i;
    return FT_OK;
}

const struct added_token *tok_builder_find_added(const struct tok_builder *b, str content)
{
    int32_t place = b->n_added == 0 ? -1 : *added_place(b, content);
    return place < 0 ? NULL : &b->added[place];
}

int32_t tok_builder_next_added(const struct tok_builder *b)
{
    return FT_MAX(b->max_added + 1, (int32_t)b->n_pieces);
}

ft_status tok_builder_added(struct tok_builder *b, int64_t id, str content, unsigned flags,
                            ft_error *err)
{
    if (content.len == 0)
        return ft_fail(err, FT_EFORMAT, "an added token needs some text");
    FT_TRY(grow_added(b, err));
    int32_t *place = added_place(b, content), known = tok_builder_find(b, content);
    if (*place >= 0) {
        b->added[*place].flags = flags;
        return FT_OK;
    }
    if (known < 0)
        FT_TRY(set_piece(b, id, content, err));
    str copy = arena_str(&b->tok->arena, content);
    if (copy.ptr == NULL)
        return no_memory(content.len, err);
    *place = (int32_t)b->n_added;
    int32_t own = known < 0 ? (int32_t)id : known;
    b->added[b->n_added++] = (struct added_token){.content = copy, .id = own, .flags = flags};
    b->max_added = FT_MAX(b->max_added, own);
    return FT_OK;
}

/* --- steps ------------------------------------------------------------------------------------
 */

static ft_status copy_str(struct tok_builder *b, str *s, ft_error *err)
{
    *s = arena_str(&b->tok->arena, *s);
    return s->ptr == NULL ? ft_fail_memory(err, s->len, "a tokenizer") : FT_OK;
}

/* Makes room for one more entry of a list that starts empty. */
static ft_status add_step(void *list, size_t n, size_t size, struct tok_builder *b, ft_error *err)
{
    if (n == TOK_MAX_STEPS)
        return ft_fail(err, FT_ELIMIT, "more than %d steps", TOK_MAX_STEPS);
    if (n > 0)
        return FT_OK;
    void *memory = arena_alloc(&b->tok->arena, TOK_MAX_STEPS, size);
    memcpy(list, &memory, sizeof memory);
    return memory == NULL ? ft_fail_memory(err, TOK_MAX_STEPS * size, "a tokenizer") : FT_OK;
}

ft_status tok_builder_normalize(struct tok_builder *b, struct normalize_step step, ft_error *err)
{
    struct tok_steps *s = &b->tok->steps;
    FT_TRY(add_step(&s->normalize, s->n_normalize, sizeof step, b, err));
    FT_TRY(copy_str(b, &step.pattern, err));
    FT_TRY(copy_str(b, &step.content, err));
    s->normalize[s->n_normalize++] = step;
    return FT_OK;
}

ft_status tok_builder_stage(struct tok_builder *b, struct pretok_stage stage, ft_error *err)
{
    struct tok_steps *s = &b->tok->steps;
    FT_TRY(add_step(&s->stages, s->n_stages, sizeof stage, b, err));
    FT_TRY(copy_str(b, &stage.pattern, err));
    s->stages[s->n_stages++] = stage;
    return FT_OK;
}

ft_status tok_builder_decode(struct tok_builder *b, struct decode_step step, ft_error *err)
{
    struct tok_steps *s = &b->tok->steps;
    FT_TRY(add_step(&s->decode, s->n_decode, sizeof step, b, err));
    FT_TRY(copy_str(b, &step.pattern, err));
    FT_TRY(copy_str(b, &step.content, err));
    s->decode[s->n_decode++] = step;
    return FT_OK;
}

/* --- the end ----------------------------------------------------------------------------------
 */

/* The symbol of each byte. */
static void find_byte_symbols(const struct tok_builder *b, int32_t byte_id[256])
{
    for (uint32_t c = 0; c < 0x144; c++) {
        char piece[4];
        int byte = byte_level_byte(c);
        if (byte >= 0)
            byte_id[byte] = tok_builder_find(b, (str){piece, str_utf8_put(piece, c)});
    }
}

static void find_byte_tokens(const struct tok_builder *b, int32_t byte_id[256])
{
    for (unsigned c = 0; c < 256; c++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", c);
        byte_id[c] = tok_builder_find(b, str_from(piece));
    }
}

/* Byte-level pieces become bytes; those with characters outside the alphabet are never met in
 * text. */
static ft_status copy_pieces(struct tok_builder *b, ft_error *err)
{
    struct tok *t = b->tok;
    bool byte_level = t->model.kind == MODEL_BPE_BYTES;
    size_t total = 0, n = (size_t)b->n_ids;
    for (size_t id = 0; id < n; id++)
        total += b->pieces[id].len;
    char *text = arena_alloc(&t->arena, total, 1);
    t->pieces = arena_alloc(&t->arena, n, sizeof *t->pieces);
    t->in_model = arena_alloc(&t->arena, n, 1);
    if (text == NULL || t->pieces == NULL || t->in_model == NULL)
        return no_memory(total, err);
    memcpy(t->in_model, b->model, n);
    for (size_t id = 0; id < n; id++) {
        str piece = b->pieces[id];
        if (piece.ptr == NULL)
            continue;
        if (byte_level && b->model[id])
            t->in_model[id] = byte_level_spells(piece);
        if (byte_level)
            piece.len = byte_level_decode(text, piece);
        else
            memcpy(text, piece.ptr, piece.len);
        t->pieces[id] = (str){text, piece.len};
        text += piece.len;
    }
    return FT_OK;
}

static ft_status copy_scores(struct tok_builder *b, ft_error *err)
{
    size_t n = (size_t)b->n_ids;
    if (b->tok->model.kind != MODEL_UNIGRAM)
        return FT_OK;
    b->tok->scores = arena_alloc(&b->tok->arena, n, sizeof *b->scores);
    if (b->tok->scores == NULL)
        return no_memory(n * sizeof *b->scores, err);
    memcpy(b->tok->scores, b->scores, n * sizeof *b->scores);
    return FT_OK;
}

static ft_status copy_added(struct added_token **out, struct tok_builder *b, ft_error *err)
{
    *out = arena_alloc(&b->tok->arena, b->n_added, sizeof **out);
    if (*out == NULL)
        return no_memory(b->n_added * sizeof **out, err);
    if (b->n_added > 0)
        memcpy(*out, b->added, b->n_added * sizeof **out);
    qsort(*out, b->n_added, sizeof **out, added_compare);
    return FT_OK;
}

ft_status tok_builder_finish(struct tok **out, struct tok_builder *b, ft_error *err)
{
    struct tok *t = b->tok;
    if (b->n_ids == 0)
        return ft_fail(err, FT_EFORMAT, "the vocabulary is empty");
    t->n_vocab = b->n_ids;
    if (t->model.kind == MODEL_BPE_BYTES)
        find_byte_symbols(b, t->model.byte_id);
    else
        find_byte_tokens(b, t->model.byte_id);
    FT_TRY(copy_pieces(b, err));
    FT_TRY(copy_scores(b, err));
    struct tok_parts parts = {b->merges, b->n_merges, NULL, b->n_added};
    FT_TRY(copy_added(&parts.added, b, err));
    FT_TRY(tok_finish(t, &parts, err));
    b->tok = NULL;
    *out = t;
    return FT_OK;
}
