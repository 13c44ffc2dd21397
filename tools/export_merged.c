/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/export_merged.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "formats/safetensors.h"
#include "tools/merge.h"
#include "tools/stop.h"

enum { CHUNK = 1 << 22 /* elements that are in memory at once, or one row */ };

struct writer {
    const struct export_merged *m;
    struct arena arena;
    int64_t n;                    /* tensors */
    struct model_tensor *tensors; /* [n] */
    int64_t *shard;               /* [n]: number of the file, ascending */
    int64_t n_shards;
    uint64_t total_bytes, done_bytes;
    struct progress bar;

    float *a, *b;    /* LoRA matrices of the present tensor */
    float *values;   /* a chunk of rows, fp32 */
    uint8_t *out;    /* the same rows, encoded */
    int64_t *finite; /* [rows of a chunk]: what dtype_encode returned */
    int64_t chunk_elements;

    /* The present chunk. */
    int64_t tensor, first_row, cols;
    const struct merge_pair *pair; /* NULL = nothing to merge */
};

static int64_t rows_of(const struct model_tensor *t)
{
    return t->n_dims == 1 ? 1 : t->shape[0];
}

static int64_t cols_of(const struct model_tensor *t)
{
    return t->n_dims == 1 ? t->shape[0] : t->shape[1];
}

/* Of the whole tensor. The base holds it, so its size does not overflow. */
static uint64_t bytes_of(const struct writer *w, const struct model_tensor *t)
{
    return (uint64_t)(rows_of(t) * cols_of(t)) * dtype_block_bytes(w->m->dtype);
}

/* --- planning -------------------------------------------------------------------------------- */

/* Fills one file after the other in the order of the tensors. */
static void plan_shards(struct writer *w)
{
    uint64_t used = 0;
    for (int64_t i = 0; i < w->n; i++) {
        uint64_t bytes = bytes_of(w, &w->tensors[i]);
        if (used > 0 && bytes > w->m->shard_bytes - FT_MIN(used, w->m->shard_bytes)) {
            w->n_shards++;
            used = 0;
        }
        used += bytes;
        w->total_bytes += bytes;
        w->shard[i] = w->n_shards;
    }
    w->n_shards++;
}

static ft_status plan(struct writer *w, ft_error *err)
{
    const struct model_config *c = export_base_config(w->m->base);
    w->n = model_tensors(c);
    w->tensors = arena_alloc(&w->arena, (size_t)w->n, sizeof *w->tensors);
    w->shard = arena_alloc(&w->arena, (size_t)w->n, sizeof *w->shard);
    if (w->tensors == NULL || w->shard == NULL)
        return ft_fail_memory(err, (size_t)w->n * sizeof *w->tensors, "the tensor table");
    w->chunk_elements = CHUNK;
    for (int64_t i = 0; i < w->n; i++) {
        model_tensor_at(&w->tensors[i], c, i);
        w->chunk_elements = FT_MAX(w->chunk_elements, cols_of(&w->tensors[i]));
    }
    plan_shards(w);
    return FT_OK;
}

static ft_status alloc_buffers(struct writer *w, ft_error *err)
{
    size_t n = (size_t)w->chunk_elements;
    size_t largest = w->m->adapter == NULL ? 0 : adapter_largest(w->m->adapter);
    FT_TRY(mem_new(&w->a, largest, sizeof *w->a, "a LoRA matrix", err));
    FT_TRY(mem_new(&w->b, largest, sizeof *w->b, "a LoRA matrix", err));
    FT_TRY(mem_new(&w->values, n, sizeof *w->values, "weights", err));
    FT_TRY(mem_new(&w->out, n, dtype_block_bytes(w->m->dtype), "weights", err));
    return mem_new(&w->finite, n, sizeof *w->finite, "weights", err);
}

/* --- one tensor ------------------------------------------------------------------------------ */

static void process_rows(void *ctx, int64_t from, int64_t to)
{
    struct writer *w = ctx;
    float *values = w->values + from * w->cols;
    size_t row_bytes = (size_t)w->cols * dtype_block_bytes(w->m->dtype);
    int64_t first = w->first_row + from, last = w->first_row + to;
    export_base_read(w->m->base, w->tensor, first, last, values);
    if (w->pair != NULL)
        merge_rows(values, first, last, w->cols, w->pair);
    for (int64_t row = from; row < to; row++)
        w->finite[row] = dtype_encode(w->m->dtype, w->values + row * w->cols, w->cols,
                                      w->out + (size_t)row * row_bytes);
}

static ft_status check_finite(const struct writer *w, int64_t n_rows, ft_error *err)
{
    for (int64_t row = 0; row < n_rows; row++)
        if (w->finite[row] < w->cols)
            return ft_fail(err, FT_EFORMAT,
                           "tensor %s: row %" PRId64 ", column %" PRId64 ": %g does not fit the "
                           "type %s%s",
                           w->tensors[w->tensor].name, w->first_row + row, w->finite[row],
                           (double)w->values[row * w->cols + w->finite[row]],
                           dtype_name(w->m->dtype),
                           w->m->dtype == DT_F16 ? "; use --dtype bf16" : "");
    return FT_OK;
}

/* Reads the LoRA matrices of the tensor into pair; NULL when it has none. */
static ft_status load_pair(const struct merge_pair **out, struct merge_pair *pair,
                           const struct writer *w, const struct model_tensor *t, ft_error *err)
{
    const struct adapter *ad = w->m->adapter;
    enum linear_kind kind = (enum linear_kind)t->kind;
    *out = NULL;
    if (ad == NULL || !t->is_linear || !adapter_config_of(ad)->target[kind])
        return FT_OK;
    FT_TRY(adapter_read(ad, w->a, t->layer, kind, false, err));
    FT_TRY(adapter_read(ad, w->b, t->layer, kind, true, err));
    *pair = (struct merge_pair){w->a, w->b, adapter_config_of(ad)->rank,
                                adapter_scaling(adapter_config_of(ad))};
    *out = pair;
    return FT_OK;
}

static ft_status write_tensor(struct writer *w, struct safetensors_writer *file, int64_t i,
                              ft_error *err)
{
    const struct model_tensor *t = &w->tensors[i];
    struct merge_pair pair;
    int64_t rows = rows_of(t);
    w->tensor = i;
    w->cols = cols_of(t);
    FT_TRY(load_pair(&w->pair, &pair, w, t, err));
    int64_t step = FT_MAX(w->chunk_elements / w->cols, (int64_t)1);
    for (w->first_row = 0; w->first_row < rows; w->first_row += step) {
        int64_t n = FT_MIN(step, rows - w->first_row);
        size_t bytes = (size_t)(n * w->cols) * dtype_block_bytes(w->m->dtype);
        FT_TRY(stop_check(err));
        pool_range(w->m->pool, n, 1, process_rows, w);
        FT_TRY(check_finite(w, n, err));
        safetensors_write(file, w->out, bytes);
        w->done_bytes += bytes;
        progress_update(&w->bar, (double)w->done_bytes / 1e6, "");
    }
    export_base_release(w->m->base, i);
    return FT_OK;
}

/* --- files ----------------------------------------------------------------------------------- */

static void file_name(char dst[64], const struct writer *w, int64_t shard)
{
    if (w->n_shards == 1)
        snprintf(dst, 64, "model.safetensors");
    else
        snprintf(dst, 64, "model-%05" PRId64 "-of-%05" PRId64 ".safetensors", shard + 1,
                 w->n_shards);
}

static ft_status write_shard(struct writer *w, int64_t from, int64_t to, ft_error *err)
{
    static const char *const metadata[][2] = {{"format", "pt"}};
    struct safetensors_writer file = {0};
    struct safetensors_entry *entries;
    char name[64];
    ft_status st;
    file_name(name, w, w->shard[from]);
    const char *path = path_join(&w->arena, w->m->dir, name);
    if (path == NULL)
        return ft_fail_memory(err, strlen(w->m->dir), "a path");
    FT_TRY(mem_new(&entries, (size_t)(to - from), sizeof *entries, "a tensor table", err));
    for (int64_t i = from; i < to; i++) {
        const struct model_tensor *t = &w->tensors[i];
        entries[i - from] = (struct safetensors_entry){.name = t->name,
                                                       .dtype = w->m->dtype,
                                                       .n_dims = t->n_dims,
                                                       .shape = {t->shape[0], t->shape[1]}};
    }
    FT_GOTO(safetensors_writer_open(&file, path, entries, (size_t)(to - from), metadata, 1, err));
    for (int64_t i = from; i < to; i++)
        FT_GOTO(write_tensor(w, &file, i, err));
    FT_GOTO(safetensors_writer_commit(&file, err));
out:
    safetensors_writer_abort(&file);
    mem_free(entries);
    return st;
}

static ft_status write_index(struct writer *w, ft_error *err)
{
    struct buf text = {0};
    const char *path = path_join(&w->arena, w->m->dir, "model.safetensors.index.json");
    char name[64];
    if (path == NULL)
        return ft_fail_memory(err, strlen(w->m->dir), "a path");
    buf_printf(&text, "{\n  \"metadata\": {\"total_size\": %" PRIu64 "},\n  \"weight_map\": {",
               w->total_bytes);
    for (int64_t i = 0; i < w->n; i++) {
        file_name(name, w, w->shard[i]);
        buf_printf(&text, "%s\n    \"%s\": \"%s\"", i == 0 ? "" : ",", w->tensors[i].name, name);
    }
    buf_cstr(&text, "\n  }\n}\n");
    ft_status st = buf_status(&text, path, err);
    if (st == FT_OK)
        st = file_publish(path, text.data, text.len, err);
    buf_free(&text);
    return st;
}

static ft_status write_files(struct writer *w, ft_error *err)
{
    progress_start(&w->bar, "exporting", "MB", (double)w->total_bytes / 1e6);
    for (int64_t from = 0, to = 0; from < w->n; from = to) {
        while (to < w->n && w->shard[to] == w->shard[from])
            to++;
        FT_TRY(write_shard(w, from, to, err));
    }
    progress_finish(&w->bar, (double)w->total_bytes / 1e6, "");
    return w->n_shards == 1 ? FT_OK : write_index(w, err);
}

ft_status export_merged_write(struct export_merged_result *out, const struct export_merged *m,
                              ft_error *err)
{
    struct writer w = {.m = m};
    ft_status st;
    FT_GOTO(plan(&w, err));
    FT_GOTO(alloc_buffers(&w, err));
    FT_GOTO(write_files(&w, err));
    *out = (struct export_merged_result){w.n, w.n_shards, w.total_bytes};
out:
    mem_free(w.a);
    mem_free(w.b);
    mem_free(w.values);
    mem_free(w.out);
    mem_free(w.finite);
    arena_destroy(&w.arena);
    return st;
}
