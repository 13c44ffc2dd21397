/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/export_base.h"

#include <string.h>

#include "common/arena.h"
#include "common/file.h"
#include "common/mem.h"
#include "formats/model_source.h"
#include "formats/nf4_file.h"

/* Exactly one of nf4 and source is open. */
struct export_base {
    struct arena arena;
    struct nf4_file *nf4;
    struct model_source *source;
    const char *nf4_source, *dir;
};

static ft_status open_nf4(struct export_base *b, const char *path, ft_error *err)
{
    FT_TRY(nf4_file_open(&b->nf4, path, err));
    b->nf4_source = arena_cstr(&b->arena, nf4_file_source(b->nf4));
    return b->nf4_source == NULL ? ft_fail_memory(err, 0, "a name") : FT_OK;
}

/* The directory itself, or the one that holds the given safetensors file or index. */
static const char *find_dir(struct arena *a, const char *path)
{
    str parent = {path, (size_t)(path_base(path) - path)};
    if (path_is_dir(path))
        return arena_cstr(a, str_from(path));
    return parent.len == 0 ? "." : arena_cstr(a, parent);
}

static ft_status open_source(struct export_base *b, const char *path, ft_error *err)
{
    FT_TRY(model_source_open(&b->source, path, err));
    if (!path_is_dir(path) && str_ends(str_from(path), STR(".gguf")))
        return FT_OK;
    b->dir = find_dir(&b->arena, path);
    return b->dir == NULL ? ft_fail_memory(err, strlen(path), "a path") : FT_OK;
}

ft_status export_base_open(struct export_base **out, const char *path, ft_error *err)
{
    struct export_base *b;
    *out = NULL;
    FT_TRY(mem_new(&b, 1, sizeof *b, "the base model", err));
    bool nf4 = str_ends(str_from(path), STR(".nf4"));
    ft_status st = nf4 ? open_nf4(b, path, err) : open_source(b, path, err);
    if (st != FT_OK) {
        export_base_close(b);
        return st;
    }
    *out = b;
    return FT_OK;
}

void export_base_close(struct export_base *b)
{
    if (b == NULL)
        return;
    nf4_file_close(b->nf4);
    model_source_close(b->source);
    arena_destroy(&b->arena);
    mem_free(b);
}

const struct model_config *export_base_config(const struct export_base *b)
{
    return b->nf4 != NULL ? nf4_file_config(b->nf4) : model_source_config(b->source);
}

bool export_base_is_nf4(const struct export_base *b)
{
    return b->nf4 != NULL;
}

const char *export_base_source(const struct export_base *b)
{
    return b->nf4_source;
}

const char *export_base_dir(const struct export_base *b)
{
    return b->dir;
}

ft_status export_base_tok(struct tok **out, const struct export_base *b, ft_error *err)
{
    const char *path = b->nf4 != NULL ? NULL : model_source_tokenizer(b->source);
    str blob = b->nf4 != NULL ? nf4_file_tokenizer(b->nf4) : (str){NULL, 0};
    *out = NULL;
    if (path != NULL)
        return tok_open(out, path, err);
    return blob.len == 0 ? FT_OK : tok_from_blob(out, "the tokenizer of the base", blob, err);
}

static void read_nf4(const struct nf4_tensor *t, int64_t from, int64_t to, float *dst)
{
    int64_t cols = t->n_dims == 1 ? t->shape[0] : t->shape[1];
    size_t row_bytes;
    if (t->dtype == DT_NF4) {
        nf4_decode(&t->nf4, from * cols, to * cols, dst);
        return;
    }
    FT_ASSERT(dtype_bytes(t->dtype, cols, &row_bytes));
    dtype_decode(t->dtype, (const uint8_t *)t->data + row_bytes * (size_t)from, (to - from) * cols,
                 dst);
}

static void read_source(const struct source_tensor *t, int64_t from, int64_t to, float *dst)
{
    bool vector = t->spec.n_dims == 1; /* stored as one row, or as one row per element */
    source_read_rows(t, from, vector ? t->rows : to, dst);
}

void export_base_read(const struct export_base *b, int64_t i, int64_t from, int64_t to, float *dst)
{
    if (b->nf4 != NULL)
        read_nf4(nf4_file_tensor(b->nf4, (size_t)i), from, to, dst);
    else
        read_source(model_source_tensor(b->source, i), from, to, dst);
}

void export_base_release(const struct export_base *b, int64_t i)
{
    if (b->source != NULL)
        model_source_release(b->source, i);
}
