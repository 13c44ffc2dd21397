/* SPDX-License-Identifier: Apache-2.0
 * The tensors of an adapter. The table is checked once at open, without touching data; values are
 * decoded when asked for. */
#include "formats/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/adapter_priv.h"
#include "formats/safetensors.h"

struct shapes {
    int64_t n_layers;
    int64_t in[LINEAR_KINDS], out[LINEAR_KINDS]; /* 0 while unknown */
};

struct adapter {
    struct arena arena;
    struct adapter_config config;
    struct safetensors *file;
    struct shapes shapes;
};

enum { NAME_MAX_BYTES = 128 };

struct tensor_id {
    int64_t layer;
    enum linear_kind kind;
    bool is_b;
};

static void tensor_name(char dst[NAME_MAX_BYTES], int64_t layer, enum linear_kind k, bool is_b)
{
    char module[96];
    linear_module(module, layer, k);
    snprintf(dst, NAME_MAX_BYTES, "base_model.model.%s.lora_%c.weight", module, is_b ? 'B' : 'A');
}

/* The tensor a name stands for. It must be spelled exactly as tensor_name does: "layers.03" is
 * another name than "layers.3". */
static bool parse_name(struct tensor_id *out, str name)
{
    static const str prefix = {"base_model.model.model.layers.", 30};
    char expected[NAME_MAX_BYTES];
    if (!str_starts(name, prefix))
        return false;
    str rest = str_sub(name, prefix.len, name.len);
    if (!str_to_i64(str_cut(&rest, '.'), &out->layer) || out->layer < 0 || out->layer >= INT32_MAX)
        return false;
    for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
        out->kind = (enum linear_kind)(i / 2);
        out->is_b = i % 2 == 1;
        tensor_name(expected, out->layer, out->kind, out->is_b);
        if (str_is(name, expected))
            return true;
    }
    return false;
}

/* --- opening --------------------------------------------------------------------------------- */

static ft_status check_shape(struct adapter *ad, const struct safetensors_tensor *t,
                             const struct tensor_id *id, ft_error *err)
{
    int64_t rank = ad->config.rank;
    int64_t *features = id->is_b ? &ad->shapes.out[id->kind] : &ad->shapes.in[id->kind];
    if (t->n_dims != 2)
        return ft_fail(err, FT_EFORMAT, "tensor %s: expected 2 dimensions, found %d", t->name,
                       t->n_dims);
    if (*features == 0)
        *features = t->shape[id->is_b ? 0 : 1];
    int64_t rows = id->is_b ? *features : rank, cols = id->is_b ? rank : *features;
    if (rows <= 0 || cols <= 0 || t->shape[0] != rows || t->shape[1] != cols)
        return ft_fail(err, FT_EFORMAT,
                       "tensor %s: expected the shape [%lld, %lld], found [%lld, %lld]", t->name,
                       (long long)rows, (long long)cols, (long long)t->shape[0],
                       (long long)t->shape[1]);
    return FT_OK;
}

static ft_status check_tensor(struct adapter *ad, const struct safetensors_tensor *t, ft_error *err)
{
    struct tensor_id id;
    if (!parse_name(&id, str_from(t->name)) || !ad->config.target[id.kind])
        return ft_fail(err, FT_EFORMAT,
                       "tensor %s: unexpected, it is not a LoRA matrix of the "
                       "target_modules",
                       t->name);
    if (t->dtype != DT_F32 && t->dtype != DT_F16 && t->dtype != DT_BF16)
        return ft_fail(err, FT_EFORMAT, "tensor %s: expected F32, F16 or BF16, found %s", t->name,
                       t->type_name);
    ad->shapes.n_layers = FT_MAX(ad->shapes.n_layers, id.layer + 1);
    return check_shape(ad, t, &id, err);
}

/* Every name in the file is distinct and expected, so the count decides whether all are there; the
 * search for the first missing one ends after at most n + 1 names. */
static ft_status check_complete(const struct adapter *ad, ft_error *err)
{
    size_t n = safetensors_count(ad->file), n_targets = 0;
    char name[NAME_MAX_BYTES];
    for (int k = 0; k < LINEAR_KINDS; k++)
        n_targets += ad->config.target[k];
    if (n % (2 * n_targets) == 0 && n / (2 * n_targets) == (size_t)ad->shapes.n_layers && n > 0)
        return FT_OK;
    for (int64_t layer = 0;; layer++)
        for (int i = 0; i < 2 * LINEAR_KINDS; i++) {
            if (!ad->config.target[i / 2])
                continue;
            tensor_name(name, layer, (enum linear_kind)(i / 2), i % 2 == 1);
            if (safetensors_find(ad->file, name) == NULL)
                return ft_fail(err, FT_EFORMAT, "tensor %s is missing", name);
        }
}

static ft_status open_tensors(struct adapter *ad, const char *dir, ft_error *err)
{
    const char *path = path_join(&ad->arena, dir, ADAPTER_TENSORS_NAME);
    const char *pickle = path_join(&ad->arena, dir, "adapter_model.bin");
    if (path == NULL || pickle == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    if (!path_exists(path) && path_exists(pickle))
        return ft_fail(err, FT_EFORMAT,
                       "%s: PyTorch pickle files are not read; save the adapter with "
                       "safe_serialization=True",
                       pickle);
    FT_TRY(safetensors_open(&ad->file, path, err));
    ft_status st = FT_OK;
    for (size_t i = 0; i < safetensors_count(ad->file) && st == FT_OK; i++)
        st = check_tensor(ad, safetensors_at(ad->file, i), err);
    if (st == FT_OK)
        st = check_complete(ad, err);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

ft_status adapter_locate(const char **out, struct arena *a, const char *dir, ft_error *err)
{
    const char *inner = path_join(a, dir, "adapter");
    const char *config = path_join(a, dir, "adapter_config.json");
    if (inner == NULL || config == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    *out = !path_exists(config) && path_is_dir(inner) ? inner : dir;
    return FT_OK;
}

ft_status adapter_open(struct adapter **out, const char *dir, ft_error *err)
{
    struct adapter *ad = NULL;
    ft_status st;
    *out = NULL;
    FT_TRY(mem_new(&ad, 1, sizeof *ad, "an adapter", err));
    FT_GOTO(adapter_load_config(&ad->config, &ad->arena, dir, err));
    FT_GOTO(open_tensors(ad, dir, err));
    *out = ad;
    return FT_OK;
out:
    adapter_close(ad);
    return st;
}

void adapter_close(struct adapter *ad)
{
    if (ad == NULL)
        return;
    safetensors_close(ad->file);
    arena_destroy(&ad->arena);
    mem_free(ad);
}

const struct adapter_config *adapter_config_of(const struct adapter *ad)
{
    return &ad->config;
}

int64_t adapter_layers(const struct adapter *ad)
{
    return ad->shapes.n_layers;
}

int64_t adapter_in(const struct adapter *ad, enum linear_kind k)
{
    FT_ASSERT(ad->config.target[k]);
    return ad->shapes.in[k];
}

int64_t adapter_out(const struct adapter *ad, enum linear_kind k)
{
    FT_ASSERT(ad->config.target[k]);
    return ad->shapes.out[k];
}

size_t adapter_largest(const struct adapter *ad)
{
    int64_t features = 0;
    for (int k = 0; k < LINEAR_KINDS; k++)
        features = FT_MAX(features, FT_MAX(ad->shapes.in[k], ad->shapes.out[k]));
    return (size_t)(features * ad->config.rank);
}

ft_status adapter_check_model(const struct adapter *ad, const struct model_config *model,
                              ft_error *err)
{
    if (ad->shapes.n_layers != model->n_layers)
        return ft_fail(
            err, FT_EFORMAT,
            "the adapter does not fit the base model: it has %lld layers, the model %lld",
            (long long)ad->shapes.n_layers, (long long)model->n_layers);
    for (int k = 0; k < LINEAR_KINDS; k++) {
        int64_t in = linear_in(model, (enum linear_kind)k);
        int64_t out = linear_out(model, (enum linear_kind)k);
        if (ad->config.target[k] && (ad->shapes.in[k] != in || ad->shapes.out[k] != out))
            return ft_fail(err, FT_EFORMAT,
                           "the adapter does not fit the base model: its %s maps %lld features to "
                           "%lld, the model's %lld to %lld",
                           linear_names[k], (long long)ad->shapes.in[k],
                           (long long)ad->shapes.out[k], (long long)in, (long long)out);
    }
    return FT_OK;
}

/* --- values ---------------------------------------------------------------------------------- */

ft_status adapter_read(const struct adapter *ad, float *dst, int64_t layer, enum linear_kind k,
                       bool is_b, ft_error *err)
{
    char name[NAME_MAX_BYTES];
    FT_ASSERT(layer >= 0 && layer < ad->shapes.n_layers && ad->config.target[k]);
    tensor_name(name, layer, k, is_b);
    const struct safetensors_tensor *t = safetensors_find(ad->file, name);
    int64_t n = ad->config.rank * (is_b ? ad->shapes.out[k] : ad->shapes.in[k]);
    dtype_decode(t->dtype, t->data, n, dst);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dst[i]))
            return ft_fail(err, FT_EFORMAT, "tensor %s: element %lld is not a finite number", name,
                           (long long)i);
    return FT_OK;
}

ft_status adapter_load(const struct adapter_pair *pairs, const char *dir,
                       const struct adapter_config *c, const struct model_config *model,
                       ft_error *err)
{
    struct adapter *ad;
    ft_status st;
    FT_TRY(adapter_open(&ad, dir, err));
    FT_GOTO(adapter_check_model(ad, model, err));
    if (ad->config.rank != c->rank) {
        st = ft_fail(err, FT_EFORMAT, "the adapter has rank %lld, expected %lld",
                     (long long)ad->config.rank, (long long)c->rank);
        goto out;
    }
    for (int k = 0; k < LINEAR_KINDS; k++) {
        if (ad->config.target[k] != c->target[k]) {
            st = ft_fail(err, FT_EFORMAT, "the adapter has %s LoRA on %s, which was%s expected",
                         ad->config.target[k] ? "a" : "no", linear_names[k],
                         c->target[k] ? "" : " not");
            goto out;
        }
    }
    for (int64_t i = 0; i < ad->shapes.n_layers * LINEAR_KINDS; i++) {
        enum linear_kind k = (enum linear_kind)(i % LINEAR_KINDS);
        if (!c->target[k])
            continue;
        FT_GOTO(adapter_read(ad, pairs[i].a, i / LINEAR_KINDS, k, false, err));
        FT_GOTO(adapter_read(ad, pairs[i].b, i / LINEAR_KINDS, k, true, err));
    }
out:
    adapter_close(ad);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", dir);
}

/* --- writing --------------------------------------------------------------------------------- */

/* Where the values of a tensor come from while an adapter is written: *out stays valid until the
 * next call. */
typedef ft_status value_source(const float **out, void *ctx, const struct tensor_id *id,
                               ft_error *err);

/* The tensors in file order. */
struct tensor_list {
    struct arena arena;
    struct tensor_id *ids;
    struct safetensors_entry *entries;
    size_t n;
};

static ft_status list_tensor(struct tensor_list *list, const struct tensor_id *id, int64_t rank,
                             const struct shapes *shapes, enum dtype dtype, ft_error *err)
{
    char name[NAME_MAX_BYTES];
    struct safetensors_entry *e = &list->entries[list->n];
    tensor_name(name, id->layer, id->kind, id->is_b);
    *e = (struct safetensors_entry){
        .name = arena_cstr(&list->arena, str_from(name)), .dtype = dtype, .n_dims = 2};
    e->shape[0] = id->is_b ? shapes->out[id->kind] : rank;
    e->shape[1] = id->is_b ? rank : shapes->in[id->kind];
    list->ids[list->n++] = *id;
    return e->name == NULL ? ft_fail_memory(err, sizeof name, "a tensor name") : FT_OK;
}

static ft_status list_tensors(struct tensor_list *list, const struct adapter_config *c,
                              const struct shapes *shapes, enum dtype dtype, ft_error *err)
{
    size_t most = 2 * LINEAR_KINDS * (size_t)shapes->n_layers;
    list->ids = arena_alloc(&list->arena, most, sizeof *list->ids);
    list->entries = arena_alloc(&list->arena, most, sizeof *list->entries);
    if (list->ids == NULL || list->entries == NULL)
        return ft_fail_memory(err, most * sizeof *list->entries, "the tensor table");
    for (int64_t layer = 0; layer < shapes->n_layers; layer++)
        for (int k = 0; k < LINEAR_KINDS; k++)
            for (int is_b = 0; is_b < 2 && c->target[k]; is_b++) {
                struct tensor_id id = {layer, (enum linear_kind)k, is_b == 1};
                FT_TRY(list_tensor(list, &id, c->rank, shapes, dtype, err));
            }
    return FT_OK;
}

static ft_status write_values(struct safetensors_writer *w, const struct tensor_list *list,
                              value_source *source, void *ctx, ft_error *err)
{
    struct buf encoded = {0};
    ft_status st = FT_OK;
    for (size_t i = 0; i < list->n; i++) {
        const struct safetensors_entry *e = &list->entries[i];
        const float *values;
        size_t bytes;
        int64_t n = e->shape[0] * e->shape[1];
        FT_ASSERT(dtype_bytes(e->dtype, n, &bytes));
        FT_GOTO(source(&values, ctx, &list->ids[i], err));
        buf_clear(&encoded);
        void *room = buf_reserve(&encoded, bytes);
        if (room == NULL) {
            st = ft_fail_memory(err, bytes, "a tensor");
            goto out;
        }
        int64_t finite = dtype_encode(e->dtype, values, n, room);
        if (finite < n) {
            st = ft_fail(err, FT_EFORMAT, "tensor %s: element %lld (%g) does not fit the type %s",
                         e->name, (long long)finite, (double)values[finite], dtype_name(e->dtype));
            goto out;
        }
        safetensors_write(w, room, bytes);
    }
out:
    buf_free(&encoded);
    return st;
}

static ft_status write_tensors(const char *path, const struct tensor_list *list,
                               value_source *source, void *ctx, ft_error *err)
{
    static const char *const metadata[][2] = {{"format", "pt"}};
    struct safetensors_writer w = {0};
    ft_status st;
    FT_GOTO(safetensors_writer_open(&w, path, list->entries, list->n, metadata, 1, err));
    FT_GOTO(write_values(&w, list, source, ctx, err));
    FT_GOTO(safetensors_writer_commit(&w, err));
out:
    safetensors_writer_abort(&w);
    return st;
}

static ft_status write_config(const char *path, const struct adapter_config *c, ft_error *err)
{
    struct buf text = {0};
    adapter_config_text(&text, c);
    ft_status st = buf_status(&text, path, err);
    if (st == FT_OK)
        st = file_publish(path, text.data, text.len, err);
    buf_free(&text);
    return st;
}

/* The config goes last: a directory that has it has its tensors. */
static ft_status write_adapter(const char *dir, const struct adapter_config *c,
                               const struct shapes *shapes, enum dtype dtype, value_source *source,
                               void *ctx, ft_error *err)
{
    struct tensor_list list = {0};
    ft_status st;
    const char *tensors = path_join(&list.arena, dir, ADAPTER_TENSORS_NAME);
    const char *config = path_join(&list.arena, dir, ADAPTER_CONFIG_NAME);
    if (tensors == NULL || config == NULL) {
        st = ft_fail_memory(err, strlen(dir), "a path");
        goto out;
    }
    FT_GOTO(dir_create(dir, err));
    FT_GOTO(list_tensors(&list, c, shapes, dtype, err));
    FT_GOTO(write_tensors(tensors, &list, source, ctx, err));
    FT_GOTO(write_config(config, c, err));
out:
    arena_destroy(&list.arena);
    return st;
}

static ft_status value_from_pairs(const float **out, void *ctx, const struct tensor_id *id,
                                  ft_error *err)
{
    const struct adapter_pair *pairs = ctx, *p = &pairs[id->layer * LINEAR_KINDS + id->kind];
    (void)err;
    *out = id->is_b ? p->b : p->a;
    FT_ASSERT(*out != NULL);
    return FT_OK;
}

ft_status adapter_save(const char *dir, const struct adapter_config *c,
                       const struct model_config *model, const struct adapter_pair *pairs,
                       ft_error *err)
{
    struct shapes shapes = {.n_layers = model->n_layers};
    for (int k = 0; k < LINEAR_KINDS; k++) {
        shapes.in[k] = linear_in(model, (enum linear_kind)k);
        shapes.out[k] = linear_out(model, (enum linear_kind)k);
    }
    return write_adapter(dir, c, &shapes, DT_F32, value_from_pairs, (void *)pairs, err);
}

struct convert_source {
    const struct adapter *ad;
    float *values; /* room for the largest tensor */
};

static ft_status value_from_adapter(const float **out, void *ctx, const struct tensor_id *id,
                                    ft_error *err)
{
    const struct convert_source *source = ctx;
    *out = source->values;
    return adapter_read(source->ad, source->values, id->layer, id->kind, id->is_b, err);
}

ft_status adapter_convert(const struct adapter *ad, const char *dir, enum dtype dtype,
                          ft_error *err)
{
    struct convert_source source = {.ad = ad};
    FT_TRY(mem_new(&source.values, adapter_largest(ad), sizeof *source.values, "a tensor", err));
    ft_status st =
        write_adapter(dir, &ad->config, &ad->shapes, dtype, value_from_adapter, &source, err);
    mem_free(source.values);
    return st;
}
