/* SPDX-License-Identifier: Apache-2.0
 * A loaded tokenizer: opening by kind of file, what follows from its parts, lookups, decoding. */
#include "formats/tok/tok.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/nf4_file.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_internal.h"

/* --- what follows from the parts -------------------------------------------------------------- */

static void hash_u32(struct hasher *h, uint32_t v)
{
    uint8_t bytes[4];
    store_u32le(bytes, v);
    hasher_update(h, bytes, sizeof bytes);
}

/* Whether it decides ids that the model knows the piece. Byte-level pieces are reached by merges
 * alone, those of characters by these and by their characters. */
static bool is_looked_up(const struct tok *t, int32_t id)
{
    size_t length = 0;
    if (t->model.kind == MODEL_UNIGRAM || (t->model.flags & MODEL_IGNORE_MERGES))
        return true;
    if (t->model.kind == MODEL_BPE_CHARS && t->pieces[id].len > 0)
        str_utf8_next(t->pieces[id], &length);
    return length > 0 && length == t->pieces[id].len;
}

static void hash_vocabulary(struct hasher *h, const struct tok *t)
{
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (t->pieces[id].ptr == NULL)
            continue;
        hash_u32(h, (uint32_t)id);
        hash_u32(h, is_looked_up(t, id) ? t->in_model[id] : 2u);
        hasher_field(h, t->pieces[id]);
        if (t->scores != NULL)
            hasher_update(h, &t->scores[id], sizeof t->scores[id]);
    }
    for (int c = 0; c < 256; c++)
        hash_u32(h, (uint32_t)t->model.byte_id[c]);
}

static void hash_merges(struct hasher *h, const struct tok_model *m)
{
    hash_u32(h, (uint32_t)m->bpe.n_merges);
    for (size_t i = 0; i < m->bpe.n_merges; i++) {
        hash_u32(h, (uint32_t)m->bpe.merges[i].left);
        hash_u32(h, (uint32_t)m->bpe.merges[i].right);
        hash_u32(h, (uint32_t)m->bpe.merges[i].result);
        if (m->flags & MODEL_EXPLICIT_RANKS)
            hash_u32(h, m->bpe.merges[i].rank);
    }
}

static void hash_added(struct hasher *h, const struct tok *t)
{
    hash_u32(h, (uint32_t)t->added.n);
    for (size_t i = 0; i < t->added.n; i++) {
        hash_u32(h, (uint32_t)t->added.tokens[i].id);
        hash_u32(h, t->added.tokens[i].flags);
        hasher_field(h, t->added.tokens[i].content);
    }
}

static void hash_steps(struct hasher *h, const struct tok_steps *s)
{
    hash_u32(h, (uint32_t)s->n_normalize);
    for (size_t i = 0; i < s->n_normalize; i++) {
        hash_u32(h, s->normalize[i].kind);
        hash_u32(h, s->normalize[i].flags);
        hasher_field(h, s->normalize[i].pattern);
        hasher_field(h, s->normalize[i].content);
    }
    hash_u32(h, (uint32_t)s->n_stages);
    for (size_t i = 0; i < s->n_stages; i++) {
        hash_u32(h, s->stages[i].kind);
        hash_u32(h, s->stages[i].behavior);
        hash_u32(h, s->stages[i].dialect);
        hash_u32(h, s->stages[i].invert);
        hasher_field(h, s->stages[i].pattern);
    }
    hash_u32(h, (uint32_t)(s->metaspace | s->split << 1));
    hash_u32(h, s->lead);
}

/* The order of the fields and their widths are frozen: data sets store the result. */
static ft_status compute_fingerprint(struct tok *t, ft_error *err)
{
    struct hasher *h;
    FT_TRY(hasher_create(&h, err));
    hasher_field(h, STR("tokenizer 2"));
    hash_steps(h, &t->steps);
    hash_u32(h, t->model.kind);
    hash_u32(h, t->model.flags);
    hash_u32(h, (uint32_t)t->model.unk);
    hash_vocabulary(h, t);
    hash_merges(h, &t->model);
    hash_added(h, t);
    t->fingerprint = hasher_digest(h);
    hasher_destroy(h);
    return FT_OK;
}

/* "Prepend U+2581" and "Replace U+0020 by U+2581", each at most once. */
static bool only_marks_spaces(const struct tok_steps *s, bool *prepends)
{
    bool replaces = false;
    *prepends = false;
    for (size_t i = 0; i < s->n_normalize; i++) {
        const struct normalize_step *n = &s->normalize[i];
        if (n->kind == NORMALIZE_PREPEND && str_is(n->content, MODEL_MARK) && !*prepends)
            *prepends = true;
        else if (n->kind == NORMALIZE_REPLACE && str_is(n->pattern, " ") &&
                 str_is(n->content, MODEL_MARK) && !replaces)
            replaces = true;
        else
            return false;
    }
    return replaces;
}

bool tok_steps_leave_no_space(const struct tok_steps *s)
{
    const struct normalize_step *last =
        s->n_normalize == 0 ? NULL : &s->normalize[s->n_normalize - 1];
    return last != NULL && last->kind == NORMALIZE_REPLACE && str_is(last->pattern, " ") &&
           memchr(last->content.ptr, ' ', last->content.len) == NULL;
}

static bool knows_the_mark(const struct tok *t)
{
    for (int32_t id = 0; id < t->n_vocab; id++)
        if (t->in_model[id] && str_is(t->pieces[id], MODEL_MARK))
            return true;
    return false;
}

/* Whether the normalizer only writes marks for spaces: then text keeps its spaces, and the model
 * takes them for marks. Added tokens must not look at the normalized text. */
static bool keeps_spaces(const struct tok *t, const struct tok_parts *parts, bool *prepends)
{
    if (t->model.kind == MODEL_BPE_BYTES || t->steps.n_stages > 0 || t->steps.metaspace ||
        !only_marks_spaces(&t->steps, prepends) || !knows_the_mark(t))
        return false;
    for (size_t i = 0; i < parts->n_added; i++)
        if (parts->added[i].flags & ADDED_NORMALIZED)
            return false;
    return true;
}

static ft_status init_steps(struct tok *t, const struct tok_parts *parts, ft_error *err)
{
    bool prepends;
    t->lead = t->steps.lead;
    t->model.spaces = t->steps.metaspace;
    if (keeps_spaces(t, parts, &prepends)) {
        t->model.spaces = true;
        t->lead = prepends ? TOK_LEAD_ALWAYS : TOK_LEAD_NONE;
        t->lead_always = prepends;
    } else {
        FT_TRY(normalizer_init(&t->normalizer, t->steps.normalize, t->steps.n_normalize, err));
    }
    if (t->steps.metaspace && !knows_the_mark(t))
        return ft_fail(err, FT_EFORMAT,
                       "pre_tokenizer: Metaspace is not supported without U+2581 in the "
                       "vocabulary");
    if (t->steps.n_stages > 0)
        t->pretok = pretok_find(t->steps.stages, t->steps.n_stages);
    if (t->steps.n_stages > 0 && t->pretok == NULL)
        FT_TRY(pretok_stages_create(&t->slow, t->steps.stages, t->steps.n_stages, err));
    return decoder_init(&t->decoder, t->steps.decode, t->steps.n_decode, err);
}

static ft_status normalize_added(struct tok *t, const struct tok_parts *parts, ft_error *err)
{
    struct normalize_work work = {0};
    const struct normalize_text *text;
    ft_status st = FT_OK;
    for (size_t i = 0; i < parts->n_added; i++) {
        struct added_token *a = &parts->added[i];
        a->match = a->content;
        if (!(a->flags & ADDED_NORMALIZED) || t->normalizer.n == 0)
            continue;
        FT_GOTO(normalize(&text, &work, &t->normalizer, a->content, false, err));
        if (text == NULL)
            continue;
        a->match = arena_str(&t->arena, (str){(const char *)text->bytes, text->n});
        if (a->match.ptr == NULL)
            FT_GOTO(ft_fail_memory(err, text->n, "added tokens"));
        if (a->match.len == 0)
            FT_GOTO(ft_fail(err, FT_EFORMAT,
                            "the normalizer leaves nothing of the added token \"%.*s\"",
                            STR_ARG(a->content)));
    }
out:
    normalize_work_free(&work);
    return st;
}

static ft_status set_bytes(struct tok *t, int32_t id, str piece, struct buf *decoded, ft_error *err)
{
    buf_clear(decoded);
    if (t->model.kind != MODEL_BPE_BYTES) {
        decoder_piece(decoded, &t->decoder, piece);
    } else {
        void *dst = buf_reserve(decoded, piece.len);
        if (dst != NULL)
            decoded->len = byte_level_decode(dst, piece);
    }
    FT_TRY(buf_status(decoded, "a vocabulary", err));
    t->bytes[id] = piece;
    if (str_eq(piece, buf_view(decoded)))
        return FT_OK;
    t->bytes[id] = arena_str(&t->arena, buf_view(decoded));
    return t->bytes[id].ptr == NULL ? ft_fail_memory(err, piece.len, "a vocabulary") : FT_OK;
}

static ft_status decode_vocabulary(struct tok *t, const struct tok_parts *parts, ft_error *err)
{
    struct buf decoded = {0};
    ft_status st = FT_OK;
    t->bytes = arena_alloc(&t->arena, (size_t)t->n_vocab, sizeof *t->bytes);
    if (t->bytes == NULL)
        return ft_fail_memory(err, (size_t)t->n_vocab * sizeof *t->bytes, "a vocabulary");
    memcpy(t->bytes, t->pieces, (size_t)t->n_vocab * sizeof *t->bytes);
    for (int32_t id = 0; id < t->n_vocab && t->model.kind != MODEL_BPE_BYTES; id++)
        if (t->pieces[id].ptr != NULL)
            FT_GOTO(set_bytes(t, id, t->pieces[id], &decoded, err));
    for (size_t i = 0; i < parts->n_added; i++)
        FT_GOTO(set_bytes(t, parts->added[i].id, parts->added[i].match, &decoded, err));
out:
    buf_free(&decoded);
    return st;
}

/* Length of the text a token stands for. */
static size_t text_length(const struct tok *t, str piece)
{
    size_t n = piece.len;
    if ((t->model.flags & MODEL_BYTE_FALLBACK) && decode_byte_piece(piece) >= 0)
        return 1;
    for (size_t i = 0; t->model.spaces && i + 3 <= piece.len; i++)
        if (memcmp(piece.ptr + i, MODEL_MARK, 3) == 0)
            n -= 2;
    return n;
}

static ft_status pack_vocabulary(struct tok *t, const struct tok_parts *parts, ft_error *err)
{
    t->special = arena_alloc(&t->arena, (size_t)t->n_vocab, 1);
    t->lengths = arena_alloc(&t->arena, (size_t)t->n_vocab, sizeof *t->lengths);
    if (t->special == NULL || t->lengths == NULL)
        return ft_fail_memory(err, 3 * (size_t)t->n_vocab, "the vocabulary");
    for (int32_t id = 0; id < t->n_vocab; id++)
        t->lengths[id] = (uint16_t)text_length(t, t->pieces[id]);
    for (size_t i = 0; i < parts->n_added; i++)
        t->special[parts->added[i].id] = (parts->added[i].flags & ADDED_SPECIAL) != 0;
    return FT_OK;
}

ft_status tok_finish(struct tok *t, const struct tok_parts *parts, ft_error *err)
{
    struct tok_model_source source = {
        .pieces = t->pieces,
        .in_model = t->in_model,
        .n_vocab = t->n_vocab,
        .merges = parts->merges,
        .n_merges = parts->n_merges,
        .scores = t->scores,
    };
    FT_TRY(init_steps(t, parts, err));
    FT_TRY(normalize_added(t, parts, err));
    FT_TRY(tok_model_finish(&t->model, &t->arena, &source, err));
    FT_TRY(added_init(&t->added, &t->arena, parts->added, parts->n_added, err));
    FT_TRY(decode_vocabulary(t, parts, err));
    FT_TRY(pack_vocabulary(t, parts, err));
    t->cut_marks = t->steps.metaspace && t->steps.split;
    t->cut_runs = !t->cut_marks && t->model.kind == MODEL_BPE_CHARS && t->model.cuts_at_marks &&
                  (t->model.spaces || tok_steps_leave_no_space(&t->steps));
    return compute_fingerprint(t, err);
}

void tok_close(struct tok *t)
{
    if (t == NULL)
        return;
    spm_destroy(t->spm);
    tok_model_destroy(&t->model);
    normalizer_destroy(&t->normalizer);
    pretok_stages_destroy(t->slow);
    arena_destroy(&t->arena);
    mem_free(t);
}

/* --- opening -----------------------------------------------------------------------------------
 */

static ft_status load_nf4(struct tok **out, const char *path, ft_error *err)
{
    struct nf4_file *f;
    FT_TRY(nf4_file_open(&f, path, err));
    str blob = nf4_file_tokenizer(f);
    ft_status st =
        blob.len > 0
            ? tok_from_blob(out, path, blob, err)
            : ft_fail(err, FT_EFORMAT, "%s: holds no tokenizer, because its source had none", path);
    nf4_file_close(f);
    return st;
}

static ft_status open_file(struct tok **out, const char *path, ft_error *err)
{
    static const struct {
        const char *magic;
        ft_status (*load)(struct tok **out, const char *path, ft_error *err);
    } kinds[] = {{"GGUF", tok_gguf_load}, {"FTNF4", load_nf4}, {"FTTOK", tok_blob_load}};
    struct file_map m;
    ft_status (*load)(struct tok **, const char *, ft_error *) = tok_json_load;
    FT_TRY(file_map_open(&m, path, err));
    bool empty = m.bytes == 0;
    if (str_ends(str_from(path), STR(".tok")))
        load = tok_blob_load;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_starts((str){(const char *)m.data, m.bytes}, str_from(kinds[i].magic)))
            load = kinds[i].load;
    if (spm_file_looks_like((str){(const char *)m.data, m.bytes}))
        load = tok_spm_load;
    else if (tok_tiktoken_looks_like((str){(const char *)m.data, m.bytes}))
        load = tok_tiktoken_load;
    file_map_close(&m);
    if (empty)
        return ft_fail(err, FT_EFORMAT, "%s: is empty, expected a tokenizer", path);
    return load(out, path, err);
}

static ft_status open_directory(struct tok **out, const char *dir, ft_error *err)
{
    static const char *const names[] = {"tokenizer.tok", "tokenizer.json", "tokenizer.model",
                                        "tekken.json"};
    struct arena a = {0};
    ft_status st = FT_OK;
    size_t i = 0;
    for (; i < ARRAY_LEN(names); i++) {
        const char *path = path_join(&a, dir, names[i]);
        if (path == NULL) {
            st = ft_fail_memory(err, strlen(dir), "a path");
            break;
        }
        if (path_exists(path)) {
            st = open_file(out, path, err);
            break;
        }
    }
    if (i == ARRAY_LEN(names))
        st = ft_fail(err, FT_EIO,
                     "%s: no tokenizer.json, tokenizer.model, tekken.json or tokenizer.tok in this "
                     "directory",
                     dir);
    arena_destroy(&a);
    return st;
}

ft_status tok_open(struct tok **out, const char *path, ft_error *err)
{
    *out = NULL;
    return path_is_dir(path) ? open_directory(out, path, err) : open_file(out, path, err);
}

/* --- lookups -----------------------------------------------------------------------------------
 */

int32_t tok_n_vocab(const struct tok *t)
{
    return t->n_vocab;
}

hash128 tok_fingerprint(const struct tok *t)
{
    return t->fingerprint;
}

str tok_chat_template(const struct tok *t)
{
    return t->chat_template;
}

int32_t tok_bos(const struct tok *t)
{
    return t->bos;
}

int32_t tok_eos(const struct tok *t)
{
    return t->eos;
}

str tok_bytes(const struct tok *t, int32_t id)
{
    FT_ASSERT(id >= 0 && id < t->n_vocab);
    return t->bytes[id];
}

bool tok_is_special(const struct tok *t, int32_t id)
{
    FT_ASSERT(id >= 0 && id < t->n_vocab);
    return t->special[id] != 0;
}

int32_t tok_special(const struct tok *t, str content)
{
    for (size_t i = 0; i < t->added.n; i++)
        if ((t->added.tokens[i].flags & ADDED_SPECIAL) &&
            str_eq(t->added.tokens[i].content, content))
            return t->added.tokens[i].id;
    return -1;
}

/* Takes what is to be stripped off the start of the whole text. */
static str strip_start(struct tok_decoding *d, const struct decoder *decoder, str bytes)
{
    while (!d->stripped && bytes.len > 0) {
        if (d->n_stripped == decoder->n_strip || bytes.ptr[0] != decoder->strip.ptr[0]) {
            d->stripped = true;
        } else {
            bytes = str_sub(bytes, 1, bytes.len);
            d->n_stripped++;
        }
    }
    return bytes;
}

static void put_without_marks(struct buf *out, str piece)
{
    while (piece.len > 0) {
        size_t n = str_starts(piece, STR(MODEL_MARK)) ? 3 : 1;
        if (n == 1)
            buf_byte(out, (uint8_t)piece.ptr[0]);
        piece = str_sub(piece, n, piece.len);
    }
}

void tok_decode_next(struct tok_decoding *d, const struct tok *t, struct buf *out, int32_t id,
                     bool skip_specials)
{
    if (t->spm != NULL)
        spm_decode(t->spm, d, out, id);
    if (id < 0 || id >= t->n_vocab || (skip_specials && t->special[id]))
        return;
    if (t->spm != NULL) {
        if (t->special[id])
            buf_str(out, t->bytes[id]);
        return;
    }
    if (t->decoder.drop_first_marks && !d->begun)
        put_without_marks(out, t->pieces[id]);
    else
        buf_str(out, strip_start(d, &t->decoder, t->bytes[id]));
    d->begun |= t->bytes[id].ptr != NULL;
}

void tok_decode_end(struct tok_decoding *d, struct buf *out)
{
    spm_decode_end(d, out);
}

void tok_decode(const struct tok *t, struct buf *out, const int32_t *ids, size_t n,
                bool skip_specials)
{
    struct tok_decoding d = {0};
    for (size_t i = 0; i < n; i++)
        tok_decode_next(&d, t, out, ids[i], skip_specials);
    tok_decode_end(&d, out);
}
