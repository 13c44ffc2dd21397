/* SPDX-License-Identifier: Apache-2.0
 * The compact form: docs/formats/tokenizer.md. */
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/tok/tok_internal.h"

static const char MAGIC[8] = "FTTOK\r\n\x1a";

enum { VERSION = 2, HEADER_BYTES = 64, TRAILER_BYTES = 8 };

/* A kind beside enum tok_model_kind: behind the template comes a SentencePiece model. */
static const uint32_t KIND_SPM = 16;

static const uint32_t UNUSED = UINT32_MAX, OUTSIDE = (uint32_t)1 << 31; /* of the model */

struct header {
    uint32_t n_vocab, n_merges, n_added, template_bytes;
    int32_t bos, eos;
    uint32_t kind, flags;
    int32_t unk;
    uint32_t n_normalize, n_stages, n_decode, marks;
};

/* --- writing -----------------------------------------------------------------------------------
 */

static void put_header(struct buf *out, const struct tok *t)
{
    const struct tok_steps *s = &t->steps;
    buf_append(out, MAGIC, sizeof MAGIC);
    buf_u32le(out, VERSION);
    buf_u32le(out, (uint32_t)t->n_vocab);
    buf_u32le(out, (uint32_t)t->model.bpe.n_merges);
    buf_u32le(out, (uint32_t)t->added.n);
    buf_u32le(out, (uint32_t)t->chat_template.len);
    buf_u32le(out, (uint32_t)t->bos);
    buf_u32le(out, (uint32_t)t->eos);
    buf_u32le(out, t->spm != NULL ? KIND_SPM : t->model.kind);
    buf_u32le(out, t->model.flags);
    buf_u32le(out, (uint32_t)t->model.unk);
    buf_u32le(out, (uint32_t)s->n_normalize);
    buf_u32le(out, (uint32_t)s->n_stages);
    buf_u32le(out, (uint32_t)s->n_decode);
    buf_u32le(out, (uint32_t)(s->metaspace | s->split << 1) | (uint32_t)s->lead << 8);
}

static void put_step(struct buf *out, uint32_t kind, uint32_t flags, str pattern, str content)
{
    buf_u32le(out, kind);
    buf_u32le(out, flags);
    buf_u32le(out, (uint32_t)pattern.len);
    buf_u32le(out, (uint32_t)content.len);
    buf_str(out, pattern);
    buf_str(out, content);
}

static void put_steps(struct buf *out, const struct tok_steps *s)
{
    for (size_t i = 0; i < s->n_normalize; i++)
        put_step(out, s->normalize[i].kind, s->normalize[i].flags, s->normalize[i].pattern,
                 s->normalize[i].content);
    for (size_t i = 0; i < s->n_stages; i++) {
        const struct pretok_stage *p = &s->stages[i];
        uint32_t flags = p->behavior | (uint32_t)p->dialect << 8 | (uint32_t)p->invert << 16;
        put_step(out, p->kind, flags, p->pattern, STR(""));
    }
    for (size_t i = 0; i < s->n_decode; i++)
        put_step(out, s->decode[i].kind, s->decode[i].n, s->decode[i].pattern,
                 s->decode[i].content);
}

static void put_tokens(struct buf *out, const struct tok *t)
{
    for (int32_t id = 0; id < t->n_vocab; id++) {
        uint32_t length = (uint32_t)t->pieces[id].len | (t->in_model[id] ? 0 : OUTSIDE);
        buf_u32le(out, t->pieces[id].ptr == NULL ? UNUSED : length);
    }
    for (int c = 0; c < 256; c++)
        buf_u32le(out, (uint32_t)t->model.byte_id[c]);
    for (int32_t id = 0; id < t->n_vocab; id++)
        buf_str(out, t->pieces[id]);
    for (int32_t id = 0; id < t->n_vocab && t->scores != NULL; id++) {
        uint64_t bits;
        memcpy(&bits, &t->scores[id], sizeof bits);
        buf_u64le(out, bits);
    }
}

static void put_merges(struct buf *out, const struct tok_model *m)
{
    for (size_t i = 0; i < m->bpe.n_merges; i++) {
        buf_u32le(out, (uint32_t)m->bpe.merges[i].left);
        buf_u32le(out, (uint32_t)m->bpe.merges[i].right);
        buf_u32le(out, (uint32_t)m->bpe.merges[i].result);
        if (m->flags & MODEL_EXPLICIT_RANKS)
            buf_u32le(out, m->bpe.merges[i].rank);
    }
}

static void put_added(struct buf *out, const struct tok *t)
{
    for (size_t i = 0; i < t->added.n; i++) {
        const struct added_token *a = &t->added.tokens[i];
        buf_u32le(out, (uint32_t)a->id);
        buf_u32le(out, a->flags);
        buf_u32le(out, (uint32_t)a->content.len);
        buf_str(out, a->content);
    }
}

ft_status tok_to_blob(struct buf *out, const struct tok *t, ft_error *err)
{
    size_t start = out->len;
    put_header(out, t);
    put_steps(out, &t->steps);
    buf_str(out, t->chat_template);
    if (t->spm != NULL) {
        spm_file_write(out, spm_contents(t->spm));
    } else {
        put_tokens(out, t);
        put_merges(out, &t->model);
        put_added(out, t);
    }
    FT_TRY(buf_status(out, "a serialised tokenizer", err));
    buf_u64le(out, hash64(out->data + start, out->len - start));
    return buf_status(out, "a serialised tokenizer", err);
}

/* --- reading -----------------------------------------------------------------------------------
 */

struct reader {
    str rest;
    ft_error *err;
};

/* The next n bytes. */
static ft_status take(str *out, struct reader *r, size_t n, const char *what)
{
    if (n > r->rest.len)
        return ft_fail(r->err, FT_EFORMAT, "the %s need %zu bytes, %zu are left", what, n,
                       r->rest.len);
    *out = str_sub(r->rest, 0, n);
    r->rest = str_sub(r->rest, n, r->rest.len);
    return FT_OK;
}

static uint32_t u32_at(str s, size_t index)
{
    return load_u32le(s.ptr + 4 * index);
}

static ft_status check_frame(str blob, ft_error *err)
{
    if (blob.len < HEADER_BYTES + TRAILER_BYTES || memcmp(blob.ptr, MAGIC, sizeof MAGIC) != 0)
        return ft_fail(err, FT_EFORMAT, "not a serialised tokenizer");
    if (u32_at(blob, 2) != VERSION)
        return ft_fail(err, FT_EFORMAT, "tokenizer format version %u, this program reads %d",
                       u32_at(blob, 2), VERSION);
    size_t hashed = blob.len - TRAILER_BYTES;
    if (load_u64le(blob.ptr + hashed) != hash64(blob.ptr, hashed))
        return ft_fail(err, FT_EFORMAT, "the checksum does not match: the file is damaged");
    return FT_OK;
}

static bool is_id(int32_t id, uint32_t n_vocab)
{
    return id >= -1 && id < (int32_t)n_vocab;
}

static ft_status read_header(struct header *h, str blob, ft_error *err)
{
    *h = (struct header){
        .n_vocab = u32_at(blob, 3),
        .n_merges = u32_at(blob, 4),
        .n_added = u32_at(blob, 5),
        .template_bytes = u32_at(blob, 6),
        .bos = (int32_t)u32_at(blob, 7),
        .eos = (int32_t)u32_at(blob, 8),
        .kind = u32_at(blob, 9),
        .flags = u32_at(blob, 10),
        .unk = (int32_t)u32_at(blob, 11),
        .n_normalize = u32_at(blob, 12),
        .n_stages = u32_at(blob, 13),
        .n_decode = u32_at(blob, 14),
        .marks = u32_at(blob, 15),
    };
    if (h->n_vocab == 0 || h->n_vocab > TOK_MAX_VOCAB)
        return ft_fail(err, FT_EFORMAT, "%u tokens, supported are 1 to %d", h->n_vocab,
                       TOK_MAX_VOCAB);
    if (!is_id(h->bos, h->n_vocab) || !is_id(h->eos, h->n_vocab) || !is_id(h->unk, h->n_vocab))
        return ft_fail(err, FT_EFORMAT,
                       "the ids of the begin, end and unknown tokens, %d, %d and %d, are not "
                       "below %u",
                       h->bos, h->eos, h->unk, h->n_vocab);
    bool known = h->kind == KIND_SPM || (h->kind >= MODEL_BPE_BYTES && h->kind <= MODEL_UNIGRAM);
    if (!known || (h->flags & ~(uint32_t)MODEL_ALL_FLAGS) || (h->marks & 0xFC) ||
        h->marks >> 8 >= TOK_LEADS)
        return ft_fail(err, FT_EFORMAT, "this program does not know this kind of model");
    if (h->n_normalize > TOK_MAX_STEPS || h->n_stages > TOK_MAX_STEPS ||
        h->n_decode > TOK_MAX_STEPS)
        return ft_fail(err, FT_EFORMAT, "more than %d steps", TOK_MAX_STEPS);
    return FT_OK;
}

struct step {
    uint32_t kind, flags;
    str pattern, content;
};

static ft_status read_step(struct step *out, struct tok *t, struct reader *r, uint32_t n_kinds)
{
    str head;
    FT_TRY(take(&head, r, 16, "steps"));
    out->kind = u32_at(head, 0);
    out->flags = u32_at(head, 1);
    FT_TRY(take(&out->pattern, r, u32_at(head, 2), "steps"));
    FT_TRY(take(&out->content, r, u32_at(head, 3), "steps"));
    if (out->kind >= n_kinds || str_utf8_invalid_at(out->pattern) != out->pattern.len)
        return ft_fail(r->err, FT_EFORMAT, "this program does not know a step");
    out->pattern = arena_str(&t->arena, out->pattern);
    out->content = arena_str(&t->arena, out->content);
    return out->pattern.ptr == NULL || out->content.ptr == NULL
               ? ft_fail_memory(r->err, out->content.len, "a tokenizer")
               : FT_OK;
}

static ft_status alloc_steps(struct tok *t, const struct header *h, ft_error *err)
{
    struct tok_steps *s = &t->steps;
    s->normalize = arena_alloc(&t->arena, h->n_normalize, sizeof *s->normalize);
    s->stages = arena_alloc(&t->arena, h->n_stages, sizeof *s->stages);
    s->decode = arena_alloc(&t->arena, h->n_decode, sizeof *s->decode);
    return s->normalize == NULL || s->stages == NULL || s->decode == NULL
               ? ft_fail_memory(err, TOK_MAX_STEPS, "a tokenizer")
               : FT_OK;
}

static ft_status read_steps(struct tok *t, struct reader *r, const struct header *h)
{
    struct tok_steps *s = &t->steps;
    struct step step;
    FT_TRY(alloc_steps(t, h, r->err));
    while (s->n_normalize < h->n_normalize) {
        FT_TRY(read_step(&step, t, r, NORMALIZE_KINDS));
        s->normalize[s->n_normalize++] = (struct normalize_step){
            (enum normalize_kind)step.kind, step.flags, step.pattern, step.content};
    }
    while (s->n_stages < h->n_stages) {
        FT_TRY(read_step(&step, t, r, PRETOK_KINDS));
        if ((step.flags & 255) >= PRETOK_BEHAVIORS || (step.flags >> 8 & 255) >= PRETOK_DIALECTS ||
            step.flags >> 17 != 0)
            return ft_fail(r->err, FT_EFORMAT, "this program does not know a step");
        s->stages[s->n_stages++] = (struct pretok_stage){
            (enum pretok_kind)step.kind, (enum pretok_behavior)(step.flags & 255),
            (enum pretok_dialect)(step.flags >> 8 & 255), step.flags >> 16 != 0, step.pattern};
    }
    while (s->n_decode < h->n_decode) {
        FT_TRY(read_step(&step, t, r, DECODE_KINDS));
        s->decode[s->n_decode++] = (struct decode_step){(enum decode_kind)step.kind, step.flags,
                                                        step.pattern, step.content};
    }
    return FT_OK;
}

static ft_status read_template(struct tok *t, struct reader *r, const struct header *h)
{
    str source;
    FT_TRY(take(&source, r, h->template_bytes, "bytes of the chat template"));
    t->chat_template = arena_str(&t->arena, source);
    return t->chat_template.ptr == NULL ? ft_fail_memory(r->err, source.len, "a chat template")
                                        : FT_OK;
}

static ft_status total_length(size_t *total, str lengths, size_t n, ft_error *err)
{
    *total = 0;
    for (size_t id = 0; id < n; id++) {
        uint32_t length = u32_at(lengths, id) & ~OUTSIDE;
        if (u32_at(lengths, id) == UNUSED)
            continue;
        if (length > TOK_MAX_PIECE)
            return ft_fail(err, FT_EFORMAT, "token %zu has %u bytes, supported are up to %d", id,
                           length, TOK_MAX_PIECE);
        *total += length;
    }
    return FT_OK;
}

/* Pieces of text are valid UTF-8, those of bytes are anything. */
static ft_status read_pieces(struct tok *t, str lengths, str bytes, ft_error *err)
{
    size_t at = 0, n = (size_t)t->n_vocab;
    for (size_t id = 0; id < n; id++) {
        uint32_t length = u32_at(lengths, id);
        if (length == UNUSED)
            continue;
        t->in_model[id] = (length & OUTSIDE) == 0;
        t->pieces[id] = str_sub(bytes, at, at + (length & ~OUTSIDE));
        at += length & ~OUTSIDE;
        if (t->model.kind != MODEL_BPE_BYTES &&
            str_utf8_invalid_at(t->pieces[id]) != t->pieces[id].len)
            return ft_fail(err, FT_EFORMAT, "token %zu is not valid UTF-8", id);
    }
    return FT_OK;
}

static ft_status read_scores(struct tok *t, struct reader *r)
{
    str bytes;
    size_t n = (size_t)t->n_vocab;
    FT_TRY(take(&bytes, r, 8 * n, "scores"));
    t->scores = arena_alloc(&t->arena, n, sizeof *t->scores);
    if (t->scores == NULL)
        return ft_fail_memory(r->err, 8 * n, "the scores");
    for (size_t id = 0; id < n; id++) {
        uint64_t bits = load_u64le(bytes.ptr + 8 * id);
        memcpy(&t->scores[id], &bits, sizeof bits);
        if (!(t->scores[id] > -1e300 && t->scores[id] < 1e300))
            return ft_fail(r->err, FT_EFORMAT, "the score of token %zu is not a number", id);
    }
    return FT_OK;
}

static ft_status read_tokens(struct tok *t, struct reader *r)
{
    str lengths, byte_ids, bytes;
    size_t total, n = (size_t)t->n_vocab;
    FT_TRY(take(&lengths, r, 4 * n, "token lengths"));
    FT_TRY(take(&byte_ids, r, 4 * 256, "ids of the bytes"));
    FT_TRY(total_length(&total, lengths, n, r->err));
    FT_TRY(take(&bytes, r, total, "token bytes"));
    t->pieces = arena_alloc(&t->arena, n, sizeof *t->pieces);
    t->in_model = arena_alloc(&t->arena, n, 1);
    bytes = arena_str(&t->arena, bytes);
    if (t->pieces == NULL || t->in_model == NULL || bytes.ptr == NULL)
        return ft_fail_memory(r->err, total, "the vocabulary");
    FT_TRY(read_pieces(t, lengths, bytes, r->err));
    for (size_t c = 0; c < 256; c++)
        t->model.byte_id[c] = (int32_t)u32_at(byte_ids, c);
    return t->model.kind == MODEL_UNIGRAM ? read_scores(t, r) : FT_OK;
}

static bool in_use(const struct tok *t, int32_t id)
{
    return id >= 0 && id < t->n_vocab && t->pieces[id].ptr != NULL;
}

static ft_status check_ids(const struct tok *t, ft_error *err)
{
    for (int c = 0; c < 256; c++)
        if (t->model.byte_id[c] != -1 && !in_use(t, t->model.byte_id[c]))
            return ft_fail(err, FT_EFORMAT, "byte %d has token id %d, which is not in use", c,
                           t->model.byte_id[c]);
    if (t->model.unk != -1 && !in_use(t, t->model.unk))
        return ft_fail(err, FT_EFORMAT, "the unknown token has id %d, which is not in use",
                       t->model.unk);
    return FT_OK;
}

static ft_status read_merges(struct bpe_merge **out, struct tok *t, struct reader *r, size_t n)
{
    bool ranks = (t->model.flags & MODEL_EXPLICIT_RANKS) != 0;
    size_t words = ranks ? 4 : 3;
    str bytes;
    FT_TRY(take(&bytes, r, 4 * words * n, "merges"));
    struct bpe_merge *merges = arena_alloc(&t->arena, n, sizeof *merges);
    if (merges == NULL)
        return ft_fail_memory(r->err, n * sizeof *merges, "merges");
    for (size_t i = 0; i < n; i++) {
        struct bpe_merge m = {(int32_t)u32_at(bytes, words * i),
                              (int32_t)u32_at(bytes, words * i + 1),
                              (int32_t)u32_at(bytes, words * i + 2),
                              ranks ? u32_at(bytes, words * i + 3) : (uint32_t)i};
        if (!in_use(t, m.left) || !in_use(t, m.right) || !in_use(t, m.result))
            return ft_fail(r->err, FT_EFORMAT, "merge %zu names a token id that is not in use", i);
        if (m.rank == UINT32_MAX || (i > 0 && m.rank < merges[i - 1].rank))
            return ft_fail(r->err, FT_EFORMAT, "merge %zu has a rank out of order", i);
        merges[i] = m;
    }
    *out = merges;
    return FT_OK;
}

static ft_status read_added_token(struct added_token *out, struct tok *t, struct reader *r)
{
    str head, content;
    FT_TRY(take(&head, r, 12, "added tokens"));
    FT_TRY(take(&content, r, u32_at(head, 2), "added tokens"));
    *out = (struct added_token){.content = arena_str(&t->arena, content),
                                .id = (int32_t)u32_at(head, 0),
                                .flags = u32_at(head, 1)};
    if (out->content.ptr == NULL)
        return ft_fail_memory(r->err, content.len, "added tokens");
    if (!in_use(t, out->id) || content.len == 0 || (out->flags & ~(unsigned)ADDED_ALL_FLAGS) ||
        str_utf8_invalid_at(content) != content.len)
        return ft_fail(r->err, FT_EFORMAT, "the added token of id %d is not valid", out->id);
    return FT_OK;
}

static ft_status read_added(struct added_token **out, struct tok *t, struct reader *r, size_t n)
{
    if (n > r->rest.len / 12)
        return ft_fail(r->err, FT_EFORMAT, "%zu added tokens do not fit into %zu bytes", n,
                       r->rest.len);
    struct added_token *added = arena_alloc(&t->arena, n, sizeof *added);
    if (added == NULL)
        return ft_fail_memory(r->err, n * sizeof *added, "added tokens");
    for (size_t i = 0; i < n; i++) {
        FT_TRY(read_added_token(&added[i], t, r));
        if (i > 0 && added_compare(&added[i - 1], &added[i]) >= 0)
            return ft_fail(r->err, FT_EFORMAT, "the added tokens are not in ascending order");
    }
    *out = added;
    return FT_OK;
}

static ft_status read_model(struct tok *t, struct reader *r, const struct header *h)
{
    struct tok_parts parts = {0};
    t->n_vocab = (int32_t)h->n_vocab;
    t->bos = h->bos;
    t->eos = h->eos;
    t->model.kind = (enum tok_model_kind)h->kind;
    t->model.flags = h->flags;
    t->model.unk = h->unk;
    t->steps.metaspace = (h->marks & 1) != 0;
    t->steps.split = (h->marks & 2) != 0;
    t->steps.lead = (enum tok_lead)(h->marks >> 8);
    FT_TRY(read_steps(t, r, h));
    FT_TRY(read_template(t, r, h));
    FT_TRY(read_tokens(t, r));
    FT_TRY(check_ids(t, r->err));
    FT_TRY(read_merges(&parts.merges, t, r, h->n_merges));
    FT_TRY(read_added(&parts.added, t, r, h->n_added));
    parts.n_merges = h->n_merges;
    parts.n_added = h->n_added;
    if (r->rest.len != 0)
        return ft_fail(r->err, FT_EFORMAT, "%zu bytes too many", r->rest.len);
    return tok_finish(t, &parts, r->err);
}

/* The contents of a SentencePiece file say everything else. */
static ft_status read_spm(struct tok **out, struct reader *r, const struct header *h)
{
    str source;
    FT_TRY(take(&source, r, h->template_bytes, "bytes of the chat template"));
    FT_TRY(tok_spm_parse(out, "the SentencePiece model", r->rest, r->err));
    (*out)->bos = h->bos;
    (*out)->eos = h->eos;
    (*out)->chat_template = arena_str(&(*out)->arena, source);
    if ((*out)->chat_template.ptr == NULL)
        return ft_fail_memory(r->err, source.len, "a chat template");
    if ((*out)->n_vocab != (int32_t)h->n_vocab)
        return ft_fail(r->err, FT_EFORMAT, "%d tokens, expected %u", (*out)->n_vocab, h->n_vocab);
    return FT_OK;
}

static ft_status read_blob(struct tok **out, str blob, ft_error *err)
{
    struct header h;
    FT_TRY(check_frame(blob, err));
    FT_TRY(read_header(&h, blob, err));
    struct reader r = {str_sub(blob, HEADER_BYTES, blob.len - TRAILER_BYTES), err};
    if (h.kind == KIND_SPM)
        return read_spm(out, &r, &h);
    FT_TRY(mem_new(out, 1, sizeof **out, "a tokenizer", err));
    return read_model(*out, &r, &h);
}

ft_status tok_from_blob(struct tok **out, const char *name, str blob, ft_error *err)
{
    struct tok *t = NULL;
    *out = NULL;
    if (read_blob(&t, blob, err) != FT_OK) {
        tok_close(t);
        return ft_wrap(err, "%s", name);
    }
    *out = t;
    return FT_OK;
}

ft_status tok_blob_load(struct tok **out, const char *path, ft_error *err)
{
    struct file_map m;
    FT_TRY(file_map_open(&m, path, err));
    ft_status st = tok_from_blob(out, path, (str){(const char *)m.data, m.bytes}, err);
    file_map_close(&m);
    return st;
}
