/* SPDX-License-Identifier: Apache-2.0
 * A loaded tokenizer: opening by kind of file, what follows from its parts, lookups, decoding. */
#include "formats/tok/tok.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/nf4_file.h"
#include "formats/tok/tok_internal.h"

/* --- what follows from the parts -------------------------------------------------------------- */

static void hash_u32(struct hasher *h, uint32_t v)
{
    uint8_t bytes[4];
    store_u32le(bytes, v);
    hasher_update(h, bytes, sizeof bytes);
}

static void hash_vocabulary(struct hasher *h, const struct tok *t)
{
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (t->bytes[id].ptr == NULL)
            continue;
        hash_u32(h, (uint32_t)id);
        hasher_field(h, t->bytes[id]);
    }
    for (int c = 0; c < 256; c++)
        hash_u32(h, (uint32_t)t->byte_id[c]);
}

static void hash_merges(struct hasher *h, const struct tok *t)
{
    hash_u32(h, (uint32_t)t->bpe.n_merges);
    for (size_t i = 0; i < t->bpe.n_merges; i++) {
        hash_u32(h, (uint32_t)t->bpe.merges[i].left);
        hash_u32(h, (uint32_t)t->bpe.merges[i].right);
        hash_u32(h, (uint32_t)t->bpe.merges[i].result);
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

/* The order of the fields and their widths are frozen: data sets store the result. */
static ft_status compute_fingerprint(struct tok *t, ft_error *err)
{
    struct hasher *h;
    FT_TRY(hasher_create(&h, err));
    hasher_field(h, STR("byte-level bpe 1"));
    hasher_field(h, str_from(t->pretok->name));
    hash_vocabulary(h, t);
    hash_merges(h, t);
    hash_added(h, t);
    t->fingerprint = hasher_digest(h);
    hasher_destroy(h);
    return FT_OK;
}

ft_status tok_finish(struct tok *t, struct bpe_merge *merges, size_t n_merges,
                     struct added_token *added, size_t n_added, ft_error *err)
{
    FT_TRY(bpe_init(&t->bpe, merges, n_merges, err));
    FT_TRY(added_init(&t->added, &t->arena, added, n_added, err));
    t->special = arena_alloc(&t->arena, (size_t)t->n_vocab, 1);
    t->lengths = arena_alloc(&t->arena, (size_t)t->n_vocab, sizeof *t->lengths);
    if (t->special == NULL || t->lengths == NULL)
        return ft_fail_memory(err, 3 * (size_t)t->n_vocab, "the vocabulary");
    for (int32_t id = 0; id < t->n_vocab; id++)
        t->lengths[id] = (uint16_t)t->bytes[id].len;
    for (size_t i = 0; i < n_added; i++)
        t->special[added[i].id] = (added[i].flags & ADDED_SPECIAL) != 0;
    return compute_fingerprint(t, err);
}

void tok_close(struct tok *t)
{
    if (t == NULL)
        return;
    bpe_destroy(&t->bpe);
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
    file_map_close(&m);
    if (empty)
        return ft_fail(err, FT_EFORMAT, "%s: is empty, expected a tokenizer", path);
    return load(out, path, err);
}

static ft_status open_directory(struct tok **out, const char *dir, ft_error *err)
{
    static const char *const names[] = {"tokenizer.tok", "tokenizer.json"};
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
        st = ft_fail(err, FT_EIO, "%s: no tokenizer.json or tokenizer.tok in this directory", dir);
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

void tok_decode(const struct tok *t, struct buf *out, const int32_t *ids, size_t n,
                bool skip_specials)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0 && ids[i] < t->n_vocab && !(skip_specials && t->special[ids[i]]))
            buf_str(out, t->bytes[ids[i]]);
}
