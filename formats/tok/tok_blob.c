/* SPDX-License-Identifier: Apache-2.0
 * The compact form: docs/formats/tokenizer.md. */
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/tok/tok_internal.h"

static const char MAGIC[8] = "FTTOK\r\n\x1a";

enum { VERSION = 1, HEADER_BYTES = 48, TRAILER_BYTES = 8 };

static const uint32_t UNUSED = UINT32_MAX;

struct header {
    uint32_t n_vocab, n_merges, n_added, name_bytes, template_bytes;
    int32_t bos, eos;
};

/* --- writing -----------------------------------------------------------------------------------
 */

static void put_header(struct buf *out, const struct tok *t)
{
    buf_append(out, MAGIC, sizeof MAGIC);
    buf_u32le(out, VERSION);
    buf_u32le(out, (uint32_t)t->n_vocab);
    buf_u32le(out, (uint32_t)t->bpe.n_merges);
    buf_u32le(out, (uint32_t)t->added.n);
    buf_u32le(out, (uint32_t)strlen(t->pretok->name));
    buf_u32le(out, (uint32_t)t->chat_template.len);
    buf_u32le(out, (uint32_t)t->bos);
    buf_u32le(out, (uint32_t)t->eos);
    buf_u64le(out, 0);
}

static void put_tokens(struct buf *out, const struct tok *t)
{
    for (int32_t id = 0; id < t->n_vocab; id++)
        buf_u32le(out, t->bytes[id].ptr == NULL ? UNUSED : (uint32_t)t->bytes[id].len);
    for (int c = 0; c < 256; c++)
        buf_u32le(out, (uint32_t)t->byte_id[c]);
    for (int32_t id = 0; id < t->n_vocab; id++)
        buf_str(out, t->bytes[id]);
}

static void put_merges(struct buf *out, const struct tok *t)
{
    for (size_t i = 0; i < t->bpe.n_merges; i++) {
        buf_u32le(out, (uint32_t)t->bpe.merges[i].left);
        buf_u32le(out, (uint32_t)t->bpe.merges[i].right);
        buf_u32le(out, (uint32_t)t->bpe.merges[i].result);
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
    buf_cstr(out, t->pretok->name);
    buf_str(out, t->chat_template);
    put_tokens(out, t);
    put_merges(out, t);
    put_added(out, t);
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

static ft_status read_header(struct header *h, str blob, ft_error *err)
{
    *h = (struct header){.n_vocab = u32_at(blob, 3),
                         .n_merges = u32_at(blob, 4),
                         .n_added = u32_at(blob, 5),
                         .name_bytes = u32_at(blob, 6),
                         .template_bytes = u32_at(blob, 7),
                         .bos = (int32_t)u32_at(blob, 8),
                         .eos = (int32_t)u32_at(blob, 9)};
    if (load_u64le(blob.ptr + 40) != 0)
        return ft_fail(err, FT_EFORMAT, "the reserved bytes of the header are not zero");
    if (h->n_vocab == 0 || h->n_vocab > TOK_MAX_VOCAB)
        return ft_fail(err, FT_EFORMAT, "%u tokens, supported are 1 to %d", h->n_vocab,
                       TOK_MAX_VOCAB);
    if (h->bos < -1 || h->bos >= (int32_t)h->n_vocab || h->eos < -1 ||
        h->eos >= (int32_t)h->n_vocab)
        return ft_fail(err, FT_EFORMAT,
                       "the ids of the begin and end tokens, %d and %d, are not "
                       "below %u",
                       h->bos, h->eos, h->n_vocab);
    return FT_OK;
}

static ft_status read_names(struct tok *t, struct reader *r, const struct header *h)
{
    str name, source;
    FT_TRY(take(&name, r, h->name_bytes, "name of the pre-tokenizer"));
    FT_TRY(take(&source, r, h->template_bytes, "bytes of the chat template"));
    t->pretok = pretok_find(name);
    if (t->pretok == NULL)
        return ft_fail(r->err, FT_EFORMAT, "this program has no pre-tokenizer \"%.*s\"",
                       STR_ARG(name));
    t->chat_template = arena_str(&t->arena, source);
    return t->chat_template.ptr == NULL ? ft_fail_memory(r->err, source.len, "a chat template")
                                        : FT_OK;
}

static ft_status total_length(size_t *total, str lengths, size_t n, ft_error *err)
{
    *total = 0;
    for (size_t id = 0; id < n; id++) {
        uint32_t length = u32_at(lengths, id);
        if (length == UNUSED)
            continue;
        if (length > TOK_MAX_PIECE)
            return ft_fail(err, FT_EFORMAT, "token %zu has %u bytes, supported are up to %d", id,
                           length, TOK_MAX_PIECE);
        *total += length;
    }
    return FT_OK;
}

static ft_status read_tokens(struct tok *t, struct reader *r)
{
    str lengths, byte_ids, bytes;
    size_t total, at = 0, n = (size_t)t->n_vocab;
    FT_TRY(take(&lengths, r, 4 * n, "token lengths"));
    FT_TRY(take(&byte_ids, r, 4 * 256, "ids of the bytes"));
    FT_TRY(total_length(&total, lengths, n, r->err));
    FT_TRY(take(&bytes, r, total, "token bytes"));
    t->bytes = arena_alloc(&t->arena, n, sizeof *t->bytes);
    bytes = arena_str(&t->arena, bytes);
    if (t->bytes == NULL || bytes.ptr == NULL)
        return ft_fail_memory(r->err, total, "the vocabulary");
    for (size_t id = 0; id < n; id++) {
        uint32_t length = u32_at(lengths, id);
        if (length == UNUSED)
            continue;
        t->bytes[id] = str_sub(bytes, at, at + length);
        at += length;
    }
    for (size_t c = 0; c < 256; c++)
        t->byte_id[c] = (int32_t)u32_at(byte_ids, c);
    return FT_OK;
}

static bool in_use(const struct tok *t, int32_t id)
{
    return id >= 0 && id < t->n_vocab && t->bytes[id].ptr != NULL;
}

static ft_status check_byte_ids(const struct tok *t, ft_error *err)
{
    for (int c = 0; c < 256; c++)
        if (t->byte_id[c] != -1 && !in_use(t, t->byte_id[c]))
            return ft_fail(err, FT_EFORMAT, "byte %d has token id %d, which is not in use", c,
                           t->byte_id[c]);
    return FT_OK;
}

static ft_status read_merges(struct bpe_merge **out, struct tok *t, struct reader *r, size_t n)
{
    str bytes;
    FT_TRY(take(&bytes, r, 12 * n, "merges"));
    struct bpe_merge *merges = arena_alloc(&t->arena, n, sizeof *merges);
    if (merges == NULL)
        return ft_fail_memory(r->err, n * sizeof *merges, "merges");
    for (size_t i = 0; i < n; i++) {
        merges[i] =
            (struct bpe_merge){(int32_t)u32_at(bytes, 3 * i), (int32_t)u32_at(bytes, 3 * i + 1),
                               (int32_t)u32_at(bytes, 3 * i + 2)};
        if (!in_use(t, merges[i].left) || !in_use(t, merges[i].right) ||
            !in_use(t, merges[i].result))
            return ft_fail(r->err, FT_EFORMAT, "merge %zu names a token id that is not in use", i);
    }
    *out = merges;
    return FT_OK;
}

static ft_status read_added_token(struct added_token *out, struct tok *t, struct reader *r)
{
    str head, content;
    FT_TRY(take(&head, r, 12, "added tokens"));
    FT_TRY(take(&content, r, u32_at(head, 2), "added tokens"));
    *out = (struct added_token){arena_str(&t->arena, content), (int32_t)u32_at(head, 0),
                                u32_at(head, 1)};
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

static ft_status read_blob(struct tok *t, str blob, ft_error *err)
{
    struct header h;
    struct bpe_merge *merges = NULL;
    struct added_token *added = NULL;
    FT_TRY(check_frame(blob, err));
    FT_TRY(read_header(&h, blob, err));
    struct reader r = {str_sub(blob, HEADER_BYTES, blob.len - TRAILER_BYTES), err};
    t->n_vocab = (int32_t)h.n_vocab;
    t->bos = h.bos;
    t->eos = h.eos;
    FT_TRY(read_names(t, &r, &h));
    FT_TRY(read_tokens(t, &r));
    FT_TRY(check_byte_ids(t, err));
    FT_TRY(read_merges(&merges, t, &r, h.n_merges));
    FT_TRY(read_added(&added, t, &r, h.n_added));
    if (r.rest.len != 0)
        return ft_fail(err, FT_EFORMAT, "%zu bytes too many", r.rest.len);
    return tok_finish(t, merges, h.n_merges, added, h.n_added, err);
}

ft_status tok_from_blob(struct tok **out, const char *name, str blob, ft_error *err)
{
    struct tok *t;
    *out = NULL;
    FT_TRY(mem_new(&t, 1, sizeof *t, "a tokenizer", err));
    if (read_blob(t, blob, err) != FT_OK) {
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
