/* SPDX-License-Identifier: Apache-2.0
 * From the contents of a SentencePiece file to a model: the checks that SentencePiece makes when it
 * loads one, and the tables for encoding and decoding. */
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/mem.h"
#include "formats/tok/spm_priv.h"

static ft_status no_memory(size_t bytes, ft_error *err)
{
    return ft_fail_memory(err, bytes, "the SentencePiece model");
}

/* --- a copy of the file -------------------------------------------------------------------------
 */

static bool copy_str(str *s, struct arena *a)
{
    *s = arena_str(a, *s);
    return s->ptr != NULL;
}

static ft_status copy_file(struct spm *s, const struct spm_file *file, ft_error *err)
{
    struct spm_file *f = &s->file;
    *f = *file;
    f->tests = NULL;
    f->n_tests = 0;
    f->pieces = arena_alloc(&s->arena, file->n_pieces, sizeof *f->pieces);
    bool ok = f->pieces != NULL;
    for (size_t i = 0; ok && i < f->n_pieces; i++) {
        f->pieces[i] = file->pieces[i];
        ok = copy_str(&f->pieces[i].text, &s->arena);
    }
    str *strings[] = {&f->unk_piece,           &f->bos_piece,         &f->eos_piece,
                      &f->pad_piece,           &f->unk_surface,       &f->normalizer.name,
                      &f->normalizer.charsmap, &f->denormalizer.name, &f->denormalizer.charsmap};
    for (size_t i = 0; ok && i < ARRAY_LEN(strings); i++)
        ok = copy_str(strings[i], &s->arena);
    return ok ? FT_OK : no_memory(f->n_pieces * sizeof *f->pieces, err);
}

/* --- checks -------------------------------------------------------------------------------------
 */

/* The byte that "<0x41>" means, -1 for anything else. */
static int byte_of_piece(str piece)
{
    static const char digits[] = "0123456789ABCDEF";
    if (piece.len != 6 || memcmp(piece.ptr, "<0x", 3) != 0 || piece.ptr[5] != '>')
        return -1;
    const char *high = memchr(digits, piece.ptr[3], 16), *low = memchr(digits, piece.ptr[4], 16);
    return high == NULL || low == NULL ? -1 : (int)((high - digits) << 4 | (low - digits));
}

static ft_status check_byte_piece(struct spm *s, int32_t id, ft_error *err)
{
    int byte = byte_of_piece(s->file.pieces[id].text);
    if (!s->file.byte_fallback)
        return ft_fail(err, FT_EFORMAT, "piece %d is a byte, but trainer_spec.byte_fallback is off",
                       id);
    if (byte < 0)
        return ft_fail(err, FT_EFORMAT, "piece %d is a byte, but is not written as <0x41>", id);
    s->byte_ids[byte] = id;
    return FT_OK;
}

/* Some converters add a piece of one NUL although the byte has its own: it stands for nothing. */
static bool is_nul_piece(const struct spm *s, const struct spm_piece *p)
{
    return p->text.len == 1 && p->text.ptr[0] == '\0' &&
           (p->type == SPM_UNUSED || s->file.byte_fallback);
}

static ft_status check_piece(struct spm *s, int32_t id, ft_error *err)
{
    struct spm_piece *p = &s->file.pieces[id];
    if (is_nul_piece(s, p)) {
        p->type = SPM_UNUSED;
        return FT_OK;
    }
    if (memchr(p->text.ptr, '\0', p->text.len) != NULL)
        return ft_fail(err, FT_EFORMAT, "piece %d contains a NUL", id);
    if (p->type == SPM_BYTE)
        return check_byte_piece(s, id, err);
    if (p->type != SPM_UNKNOWN)
        return FT_OK;
    if (s->unk >= 0)
        return ft_fail(err, FT_EFORMAT, "pieces %d and %d are both the unknown piece", s->unk, id);
    s->unk = id;
    return FT_OK;
}

static ft_status check_pieces(struct spm *s, ft_error *err)
{
    s->unk = -1;
    memset(s->byte_ids, 0xFF, sizeof s->byte_ids);
    for (int32_t id = 0; id < s->n_vocab; id++)
        FT_TRY(check_piece(s, id, err));
    if (s->unk < 0 && !s->file.byte_fallback)
        return ft_fail(err, FT_EFORMAT, "no piece is the unknown piece");
    for (int c = 0; c < 256 && s->file.byte_fallback; c++)
        if (s->byte_ids[c] < 0)
            return ft_fail(err, FT_EFORMAT, "there is no piece <0x%02X>", (unsigned)c);
    return FT_OK;
}

/* Whether SentencePiece looks up two pieces in the same table, so that they must differ. */
static bool share_table(const struct spm *s, int32_t a, int32_t b)
{
    return s->file.model_type == SPM_BPE ||
           spm_in_text(s->file.pieces[a].type) == spm_in_text(s->file.pieces[b].type);
}

static ft_status check_different(const struct spm *s, int32_t *slots, size_t mask, ft_error *err)
{
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const struct spm_piece *p = &s->file.pieces[id];
        if (is_nul_piece(s, p))
            continue;
        size_t i = hash64(p->text.ptr, p->text.len) & mask;
        for (; slots[i] >= 0; i = (i + 1) & mask)
            if (str_eq(s->file.pieces[slots[i]].text, p->text) && share_table(s, slots[i], id))
                return ft_fail(err, FT_EFORMAT, "pieces %d and %d are equal", slots[i], id);
        slots[i] = id;
    }
    return FT_OK;
}

static ft_status check_all_different(const struct spm *s, ft_error *err)
{
    int32_t *slots;
    size_t n = 256;
    while (n < 2 * s->file.n_pieces)
        n *= 2;
    FT_TRY(mem_new(&slots, n, sizeof *slots, "the SentencePiece model", err));
    memset(slots, 0xFF, n * sizeof *slots);
    ft_status st = check_different(s, slots, n - 1, err);
    mem_free(slots);
    return st;
}

static ft_status check_kind(const struct spm_file *f, ft_error *err)
{
    if (f->n_pieces == 0 || f->n_pieces > SPM_MAX_PIECES)
        return ft_fail(err, FT_ELIMIT, "%zu pieces; 1 to %d are supported", f->n_pieces,
                       SPM_MAX_PIECES);
    if (f->model_type == SPM_WORD)
        return ft_fail(err, FT_EFORMAT, "models of type WORD are not supported");
    if (f->denormalizer.charsmap.len > 0)
        return ft_fail(err, FT_EFORMAT, "denormalizer_spec is not supported");
    return FT_OK;
}

/* --- tables -------------------------------------------------------------------------------------
 */

/* A copy of the piece with spaces for space marks. */
static ft_status with_spaces(str *out, struct spm *s, str piece, ft_error *err)
{
    char *p = arena_alloc(&s->arena, piece.len, 1);
    size_t n = 0;
    if (p == NULL)
        return no_memory(piece.len, err);
    while (piece.len > 0) {
        bool mark = str_starts(piece, SPM_SPACE_MARK);
        p[n++] = mark ? ' ' : piece.ptr[0];
        piece = str_sub(piece, mark ? SPM_SPACE_MARK.len : 1, piece.len);
    }
    *out = (str){p, n};
    return FT_OK;
}

/* A piece as it occurs in normalised text: empty when it cannot, because it has a space that text
 * would have as a mark. */
static ft_status make_text(str *out, struct spm *s, str piece, ft_error *err)
{
    *out = piece;
    if (!s->file.normalizer.escape_whitespaces)
        return FT_OK;
    if (memchr(piece.ptr, ' ', piece.len) != NULL) {
        *out = (str){"", 0};
        return FT_OK;
    }
    if (memchr(piece.ptr, 0xE2, piece.len) == NULL)
        return FT_OK;
    return with_spaces(out, s, piece, err);
}

static ft_status make_texts(struct spm *s, ft_error *err)
{
    s->texts = arena_alloc(&s->arena, (size_t)s->n_vocab, sizeof *s->texts);
    s->lengths = arena_alloc(&s->arena, (size_t)s->n_vocab, sizeof *s->lengths);
    if (s->texts == NULL || s->lengths == NULL)
        return no_memory((size_t)s->n_vocab * sizeof *s->texts, err);
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const struct spm_piece *p = &s->file.pieces[id];
        s->texts[id] = (str){"", 0};
        if (spm_in_text(p->type) && !is_nul_piece(s, p))
            FT_TRY(make_text(&s->texts[id], s, p->text, err));
        s->lengths[id] = (uint16_t)s->texts[id].len;
        s->space_known |= p->type != SPM_UNUSED && str_is(s->texts[id], " ");
    }
    for (unsigned c = 0; c < 256 && s->file.byte_fallback; c++)
        s->lengths[s->byte_ids[c]] =
            (uint16_t)((c & 0xC0) == 0x80 ? 0 : spm_char_bytes((uint8_t)c));
    return FT_OK;
}

static ft_status make_decoded(struct spm *s, ft_error *err)
{
    s->decoded = arena_alloc(&s->arena, (size_t)s->n_vocab, sizeof *s->decoded);
    if (s->decoded == NULL)
        return no_memory((size_t)s->n_vocab * sizeof *s->decoded, err);
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const struct spm_piece *p = &s->file.pieces[id];
        s->decoded[id] = p->type == SPM_CONTROL ? (str){"", 0} : s->file.unk_surface;
        if (p->type == SPM_CONTROL || p->type == SPM_UNKNOWN)
            continue;
        FT_TRY(with_spaces(&s->decoded[id], s, p->text, err));
    }
    for (unsigned c = 0; c < 256 && s->file.byte_fallback; c++)
        ((char *)s->decoded[s->byte_ids[c]].ptr)[0] = (char)c;
    return FT_OK;
}

/* The control piece of this name. */
static int32_t find_control(const struct spm *s, str name)
{
    for (int32_t id = 0; id < s->n_vocab; id++)
        if (s->file.pieces[id].type == SPM_CONTROL && str_eq(s->file.pieces[id].text, name))
            return id;
    return -1;
}

/* A user-defined symbol gets more than any pieces it could be cut into. The sum is made as
 * SentencePiece makes it. */
static float user_score(str piece)
{
    return (float)(0.1 * ((double)piece.len - 1));
}

static ft_status fill_unigram(struct spm *s, struct spm_trie_key *keys, ft_error *err)
{
    struct unigram *u = &s->unigram;
    float lowest = 0x1.fffffep+127f; /* the highest float */
    size_t n = 0;
    for (int32_t id = 0; id < s->n_vocab; id++) {
        const struct spm_piece *p = &s->file.pieces[id];
        u->scores[id] = p->type == SPM_USER_DEFINED ? user_score(p->text) : p->score;
        if (p->type == SPM_NORMAL)
            lowest = FT_MIN(lowest, p->score);
        if (p->type != SPM_UNUSED && s->texts[id].len > 0)
            keys[n++] = (struct spm_trie_key){s->texts[id], id, u->scores[id]};
    }
    u->unk = s->unk;
    u->unk_score = lowest - 10.0f;
    if (s->unk >= 0)
        u->scores[s->unk] = u->unk_score;
    return spm_trie_init(&u->trie, &s->arena, keys, n, err);
}

static ft_status init_unigram(struct spm *s, ft_error *err)
{
    struct spm_trie_key *keys;
    s->unigram.scores = arena_alloc(&s->arena, (size_t)s->n_vocab, sizeof *s->unigram.scores);
    if (s->unigram.scores == NULL)
        return no_memory((size_t)s->n_vocab * sizeof *s->unigram.scores, err);
    FT_TRY(mem_new(&keys, (size_t)s->n_vocab, sizeof *keys, "the SentencePiece model", err));
    ft_status st = fill_unigram(s, keys, err);
    mem_free(keys);
    return st;
}

static ft_status build(struct spm *s, const struct spm_file *file, ft_error *err)
{
    FT_TRY(check_kind(file, err));
    FT_TRY(copy_file(s, file, err));
    s->n_vocab = (int32_t)s->file.n_pieces;
    FT_TRY(check_pieces(s, err));
    FT_TRY(check_all_different(s, err));
    s->bos = find_control(s, s->file.bos_piece);
    s->eos = find_control(s, s->file.eos_piece);
    FT_TRY(make_texts(s, err));
    FT_TRY(make_decoded(s, err));
    FT_TRY(spm_normalizer_init(&s->normalizer, &s->arena, &s->file, err));
    FT_TRY(spm_symbols_init(&s->user, &s->arena, s->texts, s->file.pieces, s->file.n_pieces, err));
    FT_TRY(spm_cut_init(&s->cut, &s->arena, s->texts, s->file.n_pieces, err));
    return s->file.model_type == SPM_UNIGRAM ? init_unigram(s, err) : spm_bpe_init(s, err);
}

ft_status spm_create(struct spm **out, const struct spm_file *file, ft_error *err)
{
    struct spm *s;
    *out = NULL;
    FT_TRY(mem_new(&s, 1, sizeof *s, "the SentencePiece model", err));
    ft_status st = build(s, file, err);
    if (st != FT_OK) {
        spm_destroy(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void spm_destroy(struct spm *s)
{
    if (s == NULL)
        return;
    bpe_destroy(&s->bpe.merges);
    arena_destroy(&s->arena);
    mem_free(s);
}

/* --- look-ups -----------------------------------------------------------------------------------
 */

const struct spm_file *spm_contents(const struct spm *s)
{
    return &s->file;
}

int32_t spm_bos(const struct spm *s)
{
    return s->bos;
}

int32_t spm_eos(const struct spm *s)
{
    return s->eos;
}

str spm_text(const struct spm *s, int32_t id)
{
    return s->decoded[id];
}

/* --- decoding -----------------------------------------------------------------------------------
 */

/* Whether more bytes can make the pending ones a character. */
static bool may_complete(const struct tok_decoding *d)
{
    static const uint8_t lowest_and_highest[] = {0x80, 0xBF};
    size_t need = spm_char_bytes(d->pending[0]);
    char trial[4];
    if (d->n_pending >= need)
        return false;
    for (int i = 0; i < 2; i++) {
        memset(trial, lowest_and_highest[i], sizeof trial);
        memcpy(trial, d->pending, d->n_pending);
        if (str_utf8_invalid_at((str){trial, need}) == need)
            return true;
    }
    return false;
}

static void write_bytes(struct tok_decoding *d, struct buf *out, const void *p, size_t n)
{
    buf_append(out, p, n);
    d->begun = true;
}

/* Writes what is certain of the pending bytes; at the end of a run of bytes everything is. */
static void flush_bytes(struct tok_decoding *d, struct buf *out, bool at_end)
{
    while (d->n_pending > 0 && (at_end || !may_complete(d))) {
        size_t n = spm_char_bytes(d->pending[0]);
        bool whole =
            n <= d->n_pending && str_utf8_invalid_at((str){(const char *)d->pending, n}) == n;
        write_bytes(d, out, whole ? (const char *)d->pending : "\xEF\xBF\xBD", whole ? n : 3);
        n = whole ? n : 1;
        d->n_pending = (uint8_t)(d->n_pending - n);
        memmove(d->pending, d->pending + n, d->n_pending);
    }
}

static void decode_piece(const struct spm *s, struct tok_decoding *d, struct buf *out, int32_t id)
{
    const struct spm_normalizer *n = &s->normalizer;
    str text = s->decoded[id];
    bool dropped = false;
    if (!d->stripped && s->file.pieces[id].type != SPM_UNKNOWN &&
        (n->add_dummy_prefix || n->remove_extra_whitespaces) &&
        str_starts(s->file.pieces[id].text, SPM_SPACE_MARK)) {
        text = str_sub(text, 1, text.len);
        dropped = !n->remove_extra_whitespaces; /* else the next one is dropped as well */
    }
    if (text.len > 0)
        write_bytes(d, out, text.ptr, text.len);
    d->stripped = d->stripped || dropped || d->begun;
}

void spm_decode(const struct spm *s, struct tok_decoding *d, struct buf *out, int32_t id)
{
    if (id < 0 || id >= s->n_vocab)
        return;
    if (s->file.pieces[id].type == SPM_BYTE) {
        d->pending[d->n_pending++] = (uint8_t)s->decoded[id].ptr[0];
        flush_bytes(d, out, false);
        return;
    }
    flush_bytes(d, out, true);
    d->stripped = d->stripped || d->begun;
    if (s->file.pieces[id].type != SPM_CONTROL)
        decode_piece(s, d, out, id);
}

void spm_decode_end(struct tok_decoding *d, struct buf *out)
{
    flush_bytes(d, out, true);
}
