/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/tok_model.h"

#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "common/mem.h"
#include "formats/tok/decode.h"
#include "formats/tok/unicode.h"

enum { JOINT_BITS_LOG2 = 18 };

/* --- lookups ----------------------------------------------------------------------------------
 */

static size_t char_place(const struct tok_model *m, uint32_t code_point)
{
    size_t i = (size_t)(code_point * UINT64_C(0x9E3779B97F4A7C15) >> 32) & m->chars_mask;
    while (m->chars[i].id >= 0 && m->chars[i].code_point != code_point)
        i = (i + 1) & m->chars_mask;
    return i;
}

/* Symbol of a character, -1 = none. */
static int32_t char_id(const struct tok_model *m, uint32_t code_point)
{
    return code_point < 128 ? m->ascii[code_point] : m->chars[char_place(m, code_point)].id;
}

static int32_t *whole_place(const struct tok_model *m, str piece)
{
    size_t i = (size_t)hash64(piece.ptr, piece.len) & m->whole_mask;
    while (m->whole[i] >= 0 && !str_eq(m->pieces[m->whole[i]], piece))
        i = (i + 1) & m->whole_mask;
    return &m->whole[i];
}

static size_t joint_bit(int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> (64 - JOINT_BITS_LOG2));
}

static bool may_join(const struct tok_model *m, int32_t left, int32_t right)
{
    size_t bit = joint_bit(left, right);
    return (m->joints[bit / 64] >> bit % 64 & 1) != 0;
}

/* --- what follows from the vocabulary ---------------------------------------------------------
 */

static bool is_one_char(str piece, uint32_t *code_point)
{
    size_t length;
    if (piece.len == 0 || piece.len > 4)
        return false;
    *code_point = str_utf8_next(piece, &length);
    return length == piece.len;
}

static ft_status init_chars(struct tok_model *m, struct arena *arena,
                            const struct tok_model_source *s, ft_error *err)
{
    size_t n = 0, slots = 16;
    uint32_t c;
    for (int32_t id = 0; id < s->n_vocab; id++)
        n += s->in_model[id] && is_one_char(s->pieces[id], &c);
    while (slots < 2 * n)
        slots *= 2;
    m->chars = arena_alloc(arena, slots, sizeof *m->chars);
    if (m->chars == NULL)
        return ft_fail_memory(err, slots * sizeof *m->chars, "the characters of a vocabulary");
    m->chars_mask = slots - 1;
    memset(m->chars, 0xFF, slots * sizeof *m->chars);
    memset(m->ascii, 0xFF, sizeof m->ascii);
    for (int32_t id = 0; id < s->n_vocab; id++) {
        if (!s->in_model[id] || !is_one_char(s->pieces[id], &c))
            continue;
        if (c < 128)
            m->ascii[c] = id;
        else
            m->chars[char_place(m, c)] = (struct char_slot){c, id};
    }
    if (m->spaces)
        m->ascii[' '] = char_id(m, 0x2581);
    return FT_OK;
}

static int32_t last_symbol(const struct tok_model *m, str piece)
{
    size_t at = piece.len, length;
    do
        at--;
    while (at > 0 && ((uint8_t)piece.ptr[at] & 0xC0) == 0x80);
    return char_id(m, str_utf8_next(str_sub(piece, at, piece.len), &length));
}

/* True when some merge takes a token for an unknown character or byte: such a symbol is not told by
 * the characters of its piece. */
static bool merges_fallbacks(const struct tok_model *m)
{
    for (size_t i = 0; i < m->bpe.n_merges; i++) {
        const struct bpe_merge *merge = &m->bpe.merges[i];
        if (merge->left == m->unk || merge->right == m->unk ||
            decode_byte_piece(m->pieces[merge->left]) >= 0 ||
            decode_byte_piece(m->pieces[merge->right]) >= 0)
            return true;
    }
    return false;
}

/* The mark stands for the space that text has. */
static void note_ascii_joint(struct tok_model *m, str left, str right)
{
    bool marked = left.len >= 3 && memcmp(left.ptr + left.len - 3, MODEL_MARK, 3) == 0;
    unsigned before = marked ? ' ' : (uint8_t)left.ptr[left.len - 1];
    unsigned behind = str_starts(right, STR(MODEL_MARK)) ? ' ' : (uint8_t)right.ptr[0];
    if (before < 128 && behind < 128)
        m->ascii_joints[before][behind / 64] |= (uint64_t)1 << behind % 64;
}

/* Tokens side by side stay apart unless a merge joins them, and a merge is known by the two
 * characters that it brings together. */
static ft_status init_joints(struct tok_model *m, struct arena *arena,
                             const struct tok_model_source *s, ft_error *err)
{
    int32_t mark = char_id(m, 0x2581);
    size_t words = ((size_t)1 << JOINT_BITS_LOG2) / 64, length;
    m->joints = arena_alloc(arena, words, sizeof *m->joints);
    if (m->joints == NULL)
        return ft_fail_memory(err, words * sizeof *m->joints, "the joints of a vocabulary");
    if (merges_fallbacks(m)) {
        memset(m->joints, 0xFF, words * sizeof *m->joints);
        return FT_OK;
    }
    m->cuts_at_marks = mark >= 0;
    /* Every byte has a token, so nothing is unknown. */
    m->cuts_apart = (m->flags & MODEL_BYTE_FALLBACK) && !(m->flags & MODEL_IGNORE_MERGES);
    for (size_t c = 0; c < 256; c++)
        m->cuts_apart &= m->byte_id[c] >= 0;
    m->cuts_at_lines = m->cuts_apart && m->ascii['\n'] < 0;
    for (size_t i = 0; i < m->bpe.n_merges; i++) {
        str left = s->pieces[m->bpe.merges[i].left], right = s->pieces[m->bpe.merges[i].right];
        if (left.len == 0 || right.len == 0)
            continue;
        int32_t before = last_symbol(m, left), behind = char_id(m, str_utf8_next(right, &length));
        size_t bit = joint_bit(before, behind);
        m->joints[bit / 64] |= (uint64_t)1 << bit % 64;
        note_ascii_joint(m, left, right);
        m->cuts_at_marks &= behind != mark || before == mark;
    }
    return FT_OK;
}

static ft_status init_whole(struct tok_model *m, struct arena *arena,
                            const struct tok_model_source *s, ft_error *err)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)s->n_vocab)
        slots *= 2;
    m->whole = arena_alloc(arena, slots, sizeof *m->whole);
    if (m->whole == NULL)
        return ft_fail_memory(err, slots * sizeof *m->whole, "the pieces of a vocabulary");
    m->whole_mask = slots - 1;
    memset(m->whole, 0xFF, slots * sizeof *m->whole);
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (s->in_model[id])
            *whole_place(m, s->pieces[id]) = id;
    return FT_OK;
}

/* Of equal pieces the last counts. */
static size_t unigram_keys(struct spm_trie_key *keys, const struct tok_model *m,
                           const struct tok_model_source *s)
{
    size_t n = 0;
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (s->in_model[id] && s->pieces[id].len > 0 && *whole_place(m, s->pieces[id]) == id)
            keys[n++] = (struct spm_trie_key){s->pieces[id], id, 0};
    return n;
}

static ft_status init_unigram(struct tok_model *m, struct arena *arena,
                              const struct tok_model_source *s, ft_error *err)
{
    struct spm_trie_key *keys;
    double lowest = INFINITY;
    FT_TRY(init_whole(m, arena, s, err));
    FT_TRY(mem_new(&keys, (size_t)s->n_vocab, sizeof *keys, "a vocabulary", err));
    ft_status st = spm_trie_init(&m->unigram.trie, arena, keys, unigram_keys(keys, m, s), err);
    mem_free(keys);
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (s->in_model[id])
            lowest = FT_MIN(lowest, s->scores[id]);
    m->unigram.unk = m->unk;
    m->unigram.exact_scores = s->scores;
    m->unigram.exact_unk_score = lowest - 10;
    return st;
}

ft_status tok_model_finish(struct tok_model *m, struct arena *arena,
                           const struct tok_model_source *s, ft_error *err)
{
    m->pieces = s->pieces;
    if (m->kind == MODEL_UNIGRAM)
        return init_unigram(m, arena, s, err);
    FT_TRY(bpe_init(&m->bpe, s->merges, s->n_merges, err));
    if (m->flags & MODEL_IGNORE_MERGES)
        FT_TRY(init_whole(m, arena, s, err));
    if (m->kind == MODEL_BPE_BYTES)
        return FT_OK;
    FT_TRY(init_chars(m, arena, s, err));
    return init_joints(m, arena, s, err);
}

void tok_model_destroy(struct tok_model *m)
{
    bpe_destroy(&m->bpe);
}

void tok_model_work_free(struct tok_model_work *w)
{
    bpe_work_free(&w->symbols);
    unigram_work_free(&w->unigram);
    mem_free(w->marked);
    *w = (struct tok_model_work){0};
}

/* --- symbols of a piece -----------------------------------------------------------------------
 */

/* Unknown characters wait for the next known one: then they become the token for unknown text, one
 * each or all in one. */
struct loader {
    const struct tok_model *m;
    struct bpe_work *w;
    bool waiting;
    uint32_t unknown; /* where the waiting one starts */
};

static void push(struct bpe_work *w, int32_t id, size_t start)
{
    w->ids[w->n] = id;
    w->starts[w->n++] = (uint32_t)start;
}

static void flush_unknown(struct loader *l)
{
    if (!l->waiting)
        return;
    /* Byte tokens do not end the waiting, so some may stand before it by now. */
    uint32_t last = l->w->n > 0 ? l->w->starts[l->w->n - 1] : 0;
    push(l->w, l->m->unk, FT_MAX(last, l->unknown));
    l->waiting = false;
}

static void load_unknown(struct loader *l, size_t at)
{
    if (l->m->unk < 0)
        return;
    if (l->waiting && (l->m->flags & MODEL_FUSE_UNK))
        return;
    flush_unknown(l);
    l->waiting = true;
    l->unknown = (uint32_t)at;
}

/* A byte without a symbol vanishes and its neighbours become adjacent, unless the vocabulary has a
 * token for unknown text. */
static void load_bytes(const struct tok_model *m, struct bpe_work *w, str text)
{
    struct loader l = {.m = m, .w = w};
    for (size_t i = 0; i < text.len; i++) {
        int32_t id = m->byte_id[(uint8_t)text.ptr[i]];
        if (__builtin_expect(id < 0, 0)) {
            load_unknown(&l, i);
            continue;
        }
        flush_unknown(&l);
        push(w, id, i);
    }
    flush_unknown(&l);
}

static bool load_fallback(struct loader *l, str text, size_t at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (l->m->byte_id[(uint8_t)text.ptr[at + i]] < 0)
            return false;
    for (size_t i = 0; i < length; i++)
        push(l->w, l->m->byte_id[(uint8_t)text.ptr[at + i]], at + i);
    return true;
}

static void load_chars(const struct tok_model *m, struct bpe_work *w, str text)
{
    struct loader l = {.m = m, .w = w};
    size_t length;
    for (size_t i = 0; i < text.len; i += length) {
        int32_t id = char_id(m, unicode_decode((const uint8_t *)text.ptr, i, text.len, &length));
        if (id >= 0) {
            flush_unknown(&l);
            push(w, id, i);
        } else if (!(m->flags & MODEL_BYTE_FALLBACK) || !load_fallback(&l, text, i, length)) {
            load_unknown(&l, i);
        }
    }
    flush_unknown(&l);
}

/* --- encoding ---------------------------------------------------------------------------------
 */

/* Merges between symbols that no merge joins are merges of two separate stretches. */
static ft_status merge_chars(const struct tok_model *m, struct bpe_work *w, ft_error *err)
{
    size_t from = 0, kept = 0;
    while (from < w->n) {
        size_t to = from + 1;
        while (to < w->n && may_join(m, w->ids[to - 1], w->ids[to]))
            to++;
        size_t n = to - from;
        FT_TRY(bpe_merge_range(&m->bpe, w, from, &n, err));
        memmove(w->ids + kept, w->ids + from, n * sizeof *w->ids);
        memmove(w->starts + kept, w->starts + from, n * sizeof *w->starts);
        kept += n;
        from = to;
    }
    w->n = kept;
    return FT_OK;
}

/* The piece with marks in place of its spaces. */
static ft_status put_marks(str *out, struct tok_model_work *w, str text, ft_error *err)
{
    if (memchr(text.ptr, ' ', text.len) == NULL) {
        *out = text;
        return FT_OK;
    }
    if (w->marked_cap < 3 * text.len) {
        uint8_t *p = mem_realloc(w->marked, text.len, 3);
        if (p == NULL)
            return ft_fail_memory(err, 3 * text.len, "a piece of text");
        w->marked = p;
        w->marked_cap = 3 * text.len;
    }
    uint8_t *p = w->marked;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == ' ')
            p = (uint8_t *)memcpy(p, MODEL_MARK, 3) + 3;
        else
            *p++ = (uint8_t)text.ptr[i];
    }
    *out = (str){(const char *)w->marked, (size_t)(p - w->marked)};
    return FT_OK;
}

/* Offsets in the marked piece become offsets in the text itself. */
static void unmark_starts(struct bpe_work *w, str text)
{
    size_t at = 0, marked = 0;
    for (size_t i = 0; i < w->n; i++) {
        while (marked < w->starts[i]) {
            marked += text.ptr[at] == ' ' ? 3 : 1;
            at++;
        }
        w->starts[i] = (uint32_t)at;
    }
}

/* A stretch of unknown characters is one token, or one for each byte. */
static void push_unknown(const struct tok_model *m, struct bpe_work *w, str text, size_t from,
                         size_t to)
{
    struct loader l = {.m = m, .w = w};
    size_t n = w->n;
    int32_t id = *whole_place(m, str_sub(text, from, to));
    if (id >= 0)
        push(w, id, from);
    else if (!(m->flags & MODEL_BYTE_FALLBACK) || !load_fallback(&l, text, from, to - from))
        push(w, m->unk, from);
    for (; n < w->n; n++) /* as the reference has them */
        w->starts[n] = (uint32_t)from;
}

static ft_status join_unknown(const struct tok_model *m, struct bpe_work *w,
                              const struct unigram_work *cut, str text, ft_error *err)
{
    for (size_t i = 0; i < cut->n; i++) {
        size_t from = cut->starts[i];
        if (cut->ids[i] != m->unk) {
            push(w, cut->ids[i], from);
            continue;
        }
        if (m->unk < 0)
            return ft_fail(err, FT_EFORMAT, "the vocabulary has no token for byte %zu of the text",
                           from);
        while (i + 1 < cut->n && cut->ids[i + 1] == m->unk)
            i++;
        push_unknown(m, w, text, from, i + 1 < cut->n ? cut->starts[i + 1] : text.len);
    }
    return FT_OK;
}

static ft_status encode_unigram(const struct tok_model *m, struct tok_model_work *w, str text,
                                ft_error *err)
{
    str marked = text;
    if (m->spaces)
        FT_TRY(put_marks(&marked, w, text, err));
    FT_TRY(bpe_work_reserve(&w->symbols, marked.len, err));
    FT_TRY(unigram_run_exact(&m->unigram, &w->unigram, marked, err));
    FT_TRY(join_unknown(m, &w->symbols, &w->unigram, marked, err));
    if (marked.ptr != text.ptr)
        unmark_starts(&w->symbols, text);
    return FT_OK;
}

static ft_status find_whole(int32_t *id, const struct tok_model *m, struct tok_model_work *w,
                            str text, ft_error *err)
{
    str marked = text;
    if (m->spaces)
        FT_TRY(put_marks(&marked, w, text, err));
    *id = *whole_place(m, marked);
    return FT_OK;
}

ft_status tok_model_encode(const struct tok_model *m, struct tok_model_work *w, str text,
                           ft_error *err)
{
    struct bpe_work *s = &w->symbols;
    FT_TRY(bpe_work_reserve(s, text.len, err));
    s->n = 0;
    if (m->kind == MODEL_UNIGRAM)
        return encode_unigram(m, w, text, err);
    if (m->flags & MODEL_IGNORE_MERGES) {
        int32_t id;
        FT_TRY(find_whole(&id, m, w, text, err));
        if (id >= 0) {
            push(s, id, 0);
            return FT_OK;
        }
    }
    if (m->kind == MODEL_BPE_BYTES) {
        load_bytes(m, s, text);
        return bpe_merge(&m->bpe, s, err);
    }
    load_chars(m, s, text);
    return merge_chars(m, s, err);
}
