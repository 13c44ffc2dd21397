/* SPDX-License-Identifier: Apache-2.0
 * A header is parsed as JSON, its tensors are copied into the arena, and the JSON is dropped before
 * the open function returns. */
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/json.h"

enum { INDEX_MAX_BYTES = 256 << 20 };

struct shard {
    struct file_map map; /* zeroed after safetensors_parse */
    const char *name;
    const uint8_t *data;
    size_t bytes;
};

struct metadata {
    const char *key;
    str value;
};

struct safetensors {
    struct arena arena;
    struct shard *shards;
    size_t n_shards;
    struct safetensors_tensor *tensors; /* sorted by name */
    size_t n_tensors, cap_tensors;
    struct metadata *metadata;
    size_t n_metadata;
};

static const struct type {
    const char *name;
    uint8_t bytes;
    enum dtype dtype;
} types[] = {
    {"F32", 4, DT_F32},  {"F16", 2, DT_F16},     {"BF16", 2, DT_BF16},   {"F64", 8, DTYPES},
    {"I64", 8, DTYPES},  {"I32", 4, DTYPES},     {"I16", 2, DTYPES},     {"I8", 1, DTYPES},
    {"U64", 8, DTYPES},  {"U32", 4, DTYPES},     {"U16", 2, DTYPES},     {"U8", 1, DTYPES},
    {"BOOL", 1, DTYPES}, {"F8_E4M3", 1, DTYPES}, {"F8_E5M2", 1, DTYPES},
};

/* --- one header ------------------------------------------------------------------------------- */

static ft_status bad(ft_error *err, const struct shard *s, const char *name, const char *what)
{
    return ft_fail(err, FT_EFORMAT, "%s: tensor '%s': %s", s->name, name, what);
}

static ft_status read_type(struct safetensors_tensor *t, size_t *bytes, const struct shard *s,
                           const json *v, ft_error *err)
{
    str name;
    if (json_need_str(&name, v, "dtype", err) != FT_OK)
        return ft_wrap(err, "%s: tensor '%s'", s->name, t->name);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (!str_is(name, types[i].name))
            continue;
        t->type_name = types[i].name;
        t->dtype = types[i].dtype;
        *bytes = types[i].bytes;
        return FT_OK;
    }
    return ft_fail(err, FT_EFORMAT, "%s: tensor '%s': unknown dtype \"%.*s\"", s->name, t->name,
                   STR_ARG(name));
}

static ft_status read_shape(struct safetensors_tensor *t, const struct shard *s, const json *v,
                            ft_error *err)
{
    const json *shape = json_get(v, "shape");
    if (json_kind(shape) != JSON_ARRAY || json_count(shape) > SAFETENSORS_MAX_DIMS)
        return bad(err, s, t->name, "\"shape\" must be a list of at most 8 numbers");
    t->numel = 1;
    for (const json *d = json_first(shape); d != NULL; d = json_next(d)) {
        int64_t extent;
        if (!json_i64(d, &extent) || extent < 0 ||
            __builtin_mul_overflow(t->numel, extent, &t->numel))
            return bad(err, s, t->name, "\"shape\" has an invalid or too large extent");
        t->shape[t->n_dims++] = extent;
    }
    return FT_OK;
}

static ft_status read_offsets(uint64_t *begin, uint64_t *end, const struct shard *s,
                              const char *name, const json *v, ft_error *err)
{
    const json *offsets = json_get(v, "data_offsets");
    int64_t from, to;
    if (json_kind(offsets) != JSON_ARRAY || json_count(offsets) != 2 ||
        !json_i64(json_first(offsets), &from) || !json_i64(json_next(json_first(offsets)), &to) ||
        from < 0 || to < from)
        return bad(err, s, name, "\"data_offsets\" must be [begin, end] with begin <= end");
    *begin = (uint64_t)from;
    *end = (uint64_t)to;
    return FT_OK;
}

static ft_status read_tensor(struct safetensors *st, size_t shard, size_t data_start, const json *v,
                             ft_error *err)
{
    const struct shard *s = &st->shards[shard];
    struct safetensors_tensor *t = &st->tensors[st->n_tensors];
    uint64_t begin = 0, end = 0;
    size_t element = 0, bytes = 0;
    *t = (struct safetensors_tensor){.name = arena_cstr(&st->arena, json_key(v)), .shard = shard};
    if (t->name == NULL)
        return ft_fail_memory(err, json_key(v).len, "a tensor name");
    if (json_kind(v) != JSON_OBJECT)
        return bad(err, s, t->name, "expected an object");
    FT_TRY(read_type(t, &element, s, v, err));
    FT_TRY(read_shape(t, s, v, err));
    FT_TRY(read_offsets(&begin, &end, s, t->name, v, err));
    if (!size_mul((size_t)t->numel, element, &bytes) || bytes != end - begin)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tensor '%s': its shape needs %zu bytes, data_offsets give %" PRIu64,
                       s->name, t->name, bytes, end - begin);
    if (end > s->bytes - data_start)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tensor '%s' ends at byte %" PRIu64 " of the data, but there are only "
                       "%zu; the file is truncated, copy it again",
                       s->name, t->name, end, s->bytes - data_start);
    t->data = s->data + data_start + begin;
    t->bytes = bytes;
    st->n_tensors++;
    return FT_OK;
}

static ft_status read_metadata(struct safetensors *st, const struct shard *s, const json *v,
                               ft_error *err)
{
    if (json_kind(v) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "%s: \"__metadata__\" must be an object", s->name);
    if (st->metadata != NULL)
        return FT_OK; /* of a further shard */
    st->metadata = arena_alloc(&st->arena, json_count(v), sizeof *st->metadata);
    if (st->metadata == NULL)
        return ft_fail_memory(err, json_count(v), "safetensors metadata");
    for (const json *m = json_first(v); m != NULL; m = json_next(m)) {
        struct metadata *dst = &st->metadata[st->n_metadata++];
        str value;
        if (!json_str(m, &value))
            return ft_fail(err, FT_EFORMAT, "%s: \"__metadata__\" may hold only strings", s->name);
        dst->key = arena_cstr(&st->arena, json_key(m));
        dst->value = arena_str(&st->arena, value);
        if (dst->key == NULL || dst->value.ptr == NULL)
            return ft_fail_memory(err, value.len, "safetensors metadata");
    }
    return FT_OK;
}

static int compare_begin(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty ones first */
}

/* The tensors of one file must tile its data section. */
static ft_status check_tiling(const struct safetensors *st, size_t first, const struct shard *s,
                              size_t data_start, ft_error *err)
{
    const uint8_t *at = s->data + data_start;
    if (st->n_tensors > first)
        qsort(st->tensors + first, st->n_tensors - first, sizeof *st->tensors, compare_begin);
    for (size_t i = first; i < st->n_tensors; i++) {
        const struct safetensors_tensor *t = &st->tensors[i];
        if (t->data != at)
            return bad(err, s, t->name,
                       t->data < at ? "overlaps the tensor before it"
                                    : "there is a hole in the data in front of it");
        at += t->bytes;
    }
    if (at != s->data + s->bytes)
        return ft_fail(err, FT_EFORMAT, "%s: %zu bytes after the last tensor", s->name,
                       (size_t)(s->data + s->bytes - at));
    return FT_OK;
}

static ft_status make_room(struct safetensors *st, size_t more, ft_error *err)
{
    size_t cap = FT_MAX(st->n_tensors + more, 2 * st->cap_tensors);
    if (st->n_tensors + more <= st->cap_tensors)
        return FT_OK;
    struct safetensors_tensor *grown = arena_alloc(&st->arena, cap, sizeof *grown);
    if (grown == NULL)
        return ft_fail_memory(err, cap * sizeof *grown, "a safetensors table");
    if (st->n_tensors > 0)
        memcpy(grown, st->tensors, st->n_tensors * sizeof *grown);
    st->tensors = grown;
    st->cap_tensors = cap;
    return FT_OK;
}

static ft_status read_members(struct safetensors *st, size_t shard, size_t data_start,
                              const json *root, ft_error *err)
{
    const struct shard *s = &st->shards[shard];
    size_t first = st->n_tensors;
    if (json_kind(root) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "%s: the header must be a JSON object", s->name);
    FT_TRY(make_room(st, json_count(root), err));
    for (const json *v = json_first(root); v != NULL; v = json_next(v)) {
        if (str_is(json_key(v), "__metadata__"))
            FT_TRY(read_metadata(st, s, v, err));
        else
            FT_TRY(read_tensor(st, shard, data_start, v, err));
    }
    return check_tiling(st, first, s, data_start, err);
}

static ft_status read_header(struct safetensors *st, size_t shard, ft_error *err)
{
    const struct shard *s = &st->shards[shard];
    uint64_t header = s->bytes < 8 ? 0 : load_u64le(s->data);
    struct json_doc *doc;
    if (s->bytes < 8 || header > s->bytes - 8)
        return ft_fail(err, FT_EFORMAT,
                       "%s: not a safetensors file, or truncated: a header of %" PRIu64
                       " bytes in a file of %zu",
                       s->name, header, s->bytes);
    if (header > SAFETENSORS_MAX_HEADER)
        return ft_fail(err, FT_ELIMIT, "%s: a header of %" PRIu64 " bytes, at most %d are accepted",
                       s->name, header, SAFETENSORS_MAX_HEADER);
    str text = {(const char *)s->data + 8, (size_t)header};
    FT_TRY(json_parse(&doc, s->name, text, JSON_STRICT, err));
    ft_status status = read_members(st, shard, 8 + (size_t)header, json_root(doc), err);
    json_close(doc);
    return status;
}

/* --- opening ---------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name,
                  ((const struct safetensors_tensor *)b)->name);
}

static ft_status sort_by_name(struct safetensors *st, ft_error *err)
{
    if (st->n_tensors > 0)
        qsort(st->tensors, st->n_tensors, sizeof *st->tensors, compare_names);
    for (size_t i = 1; i < st->n_tensors; i++) {
        const struct safetensors_tensor *t = &st->tensors[i];
        if (strcmp(t->name, t[-1].name) == 0)
            return ft_fail(err, FT_EFORMAT, "tensor '%s' appears in both %s and %s", t->name,
                           st->shards[t[-1].shard].name, st->shards[t->shard].name);
    }
    return FT_OK;
}

static ft_status new_shards(struct safetensors *st, size_t n, ft_error *err)
{
    st->shards = arena_alloc(&st->arena, n, sizeof *st->shards);
    return st->shards == NULL ? ft_fail_memory(err, n * sizeof *st->shards, "safetensors shards")
                              : FT_OK;
}

static ft_status add_shard(struct safetensors *st, const char *name, struct file_map map,
                           const void *data, size_t bytes, ft_error *err)
{
    struct shard *s = &st->shards[st->n_shards++];
    *s = (struct shard){map, arena_cstr(&st->arena, str_from(name)), data, bytes};
    if (s->name == NULL)
        return ft_fail_memory(err, strlen(name), "a path");
    return read_header(st, st->n_shards - 1, err);
}

static ft_status add_file(struct safetensors *st, const char *path, ft_error *err)
{
    struct file_map map;
    FT_TRY(file_map_open(&map, path, err));
    return add_shard(st, path, map, map.data, map.bytes, err);
}

static int compare_cstr(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted distinct file names of the weight map. A name is one path component: an index must not
 * reach outside its directory. */
static ft_status list_shards(const char **names, size_t *n, struct safetensors *st,
                             const char *index, const json *map, ft_error *err)
{
    *n = 0;
    for (const json *v = json_first(map); v != NULL; v = json_next(v)) {
        str file;
        if (!json_str(v, &file) || file.len == 0 || memchr(file.ptr, '/', file.len) != NULL ||
            memchr(file.ptr, '\0', file.len) != NULL || !str_ends(file, STR(".safetensors")))
            return ft_fail(err, FT_EFORMAT,
                           "%s: weight_map: '%.*s' does not name a .safetensors file beside it",
                           index, STR_ARG(json_key(v)));
        names[*n] = arena_cstr(&st->arena, file);
        if (names[(*n)++] == NULL)
            return ft_fail_memory(err, file.len, "a path");
    }
    if (*n == 0)
        return ft_fail(err, FT_EFORMAT, "%s: weight_map is empty", index);
    qsort(names, *n, sizeof *names, compare_cstr);
    size_t unique = 1;
    for (size_t i = 1; i < *n; i++)
        if (strcmp(names[i], names[unique - 1]) != 0)
            names[unique++] = names[i];
    *n = unique;
    if (unique > SAFETENSORS_MAX_SHARDS)
        return ft_fail(err, FT_ELIMIT, "%s: %zu shards, at most %d are accepted", index, unique,
                       SAFETENSORS_MAX_SHARDS);
    return FT_OK;
}

static ft_status check_weight_map(const struct safetensors *st, const char *index, const json *map,
                                  ft_error *err)
{
    if (json_count(map) != st->n_tensors)
        return ft_fail(err, FT_EFORMAT, "%s: weight_map lists %zu tensors, the shards hold %zu",
                       index, json_count(map), st->n_tensors);
    for (const json *v = json_first(map); v != NULL; v = json_next(v)) {
        const struct safetensors_tensor *t = safetensors_find(st, json_key(v).ptr);
        str file = {0};
        if (!json_str(v, &file) || t == NULL || !str_is(file, path_base(st->shards[t->shard].name)))
            return ft_fail(err, FT_EFORMAT, "%s: tensor '%.*s' is not in %.*s as weight_map says",
                           index, STR_ARG(json_key(v)), STR_ARG(file));
    }
    return FT_OK;
}

static ft_status open_shards(struct safetensors *st, const char *index, const json *map,
                             ft_error *err)
{
    size_t n, dir_len = strlen(index) - strlen(path_base(index));
    const char **names = arena_alloc(&st->arena, json_count(map) + 1, sizeof *names);
    const char *dir = arena_cstr(&st->arena, dir_len == 0 ? STR(".") : (str){index, dir_len});
    if (names == NULL || dir == NULL)
        return ft_fail_memory(err, json_count(map), "safetensors shards");
    FT_TRY(list_shards(names, &n, st, index, map, err));
    FT_TRY(new_shards(st, n, err));
    for (size_t i = 0; i < n; i++) {
        const char *path = path_join(&st->arena, dir, names[i]);
        if (path == NULL)
            return ft_fail_memory(err, strlen(names[i]), "a path");
        FT_TRY(add_file(st, path, err));
    }
    FT_TRY(sort_by_name(st, err));
    return check_weight_map(st, index, map, err);
}

static ft_status open_index(struct safetensors *st, const char *path, ft_error *err)
{
    struct json_doc *doc;
    const json *map;
    FT_TRY(json_load(&doc, path, JSON_STRICT, INDEX_MAX_BYTES, err));
    ft_status status = json_need(&map, json_root(doc), "weight_map", JSON_OBJECT, err);
    status = status == FT_OK ? open_shards(st, path, map, err) : ft_wrap(err, "%s", path);
    json_close(doc);
    return status;
}

static ft_status open_single(struct safetensors *st, const char *path, ft_error *err)
{
    FT_TRY(new_shards(st, 1, err));
    FT_TRY(add_file(st, path, err));
    return sort_by_name(st, err);
}

ft_status safetensors_open(struct safetensors **out, const char *path, ft_error *err)
{
    struct safetensors *st;
    *out = NULL;
    FT_TRY(mem_new(&st, 1, sizeof *st, "safetensors", err));
    bool index = str_ends(str_from(path), STR(".json"));
    ft_status status = index ? open_index(st, path, err) : open_single(st, path, err);
    if (status == FT_OK)
        *out = st;
    else
        safetensors_close(st);
    return status;
}

ft_status safetensors_parse(struct safetensors **out, const char *name, const void *data,
                            size_t bytes, ft_error *err)
{
    struct safetensors *st;
    ft_status status;
    *out = NULL;
    FT_TRY(mem_new(&st, 1, sizeof *st, "safetensors", err));
    status = new_shards(st, 1, err);
    if (status == FT_OK)
        status = add_shard(st, name, (struct file_map){0}, data, bytes, err);
    if (status == FT_OK)
        status = sort_by_name(st, err);
    if (status == FT_OK)
        *out = st;
    else
        safetensors_close(st);
    return status;
}

void safetensors_close(struct safetensors *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_shards; i++)
        file_map_close(&s->shards[i].map);
    arena_destroy(&s->arena);
    mem_free(s);
}

size_t safetensors_count(const struct safetensors *s)
{
    return s->n_tensors;
}

const struct safetensors_tensor *safetensors_at(const struct safetensors *s, size_t i)
{
    FT_ASSERT(i < s->n_tensors);
    return &s->tensors[i];
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensors_tensor probe = {.name = name};
    return s->n_tensors == 0
               ? NULL
               : bsearch(&probe, s->tensors, s->n_tensors, sizeof probe, compare_names);
}

str safetensors_metadata(const struct safetensors *s, const char *key)
{
    for (size_t i = 0; i < s->n_metadata; i++)
        if (strcmp(s->metadata[i].key, key) == 0)
            return s->metadata[i].value;
    return (str){0};
}

void safetensors_release(const struct safetensors *s, const struct safetensors_tensor *t)
{
    const struct shard *shard = &s->shards[t->shard];
    size_t from = (size_t)(t->data - shard->data);
    file_map_release(&shard->map, from, from + t->bytes);
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char *type_name(enum dtype t)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].dtype == t && t != DTYPES)
            return types[i].name;
    return NULL;
}

static ft_status write_entry(struct buf *b, uint64_t *offset, const struct safetensors_entry *e,
                             ft_error *err)
{
    int64_t numel = 1;
    size_t bytes;
    FT_ASSERT(type_name(e->dtype) != NULL && e->n_dims <= SAFETENSORS_MAX_DIMS);
    json_write_str(b, str_from(e->name));
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", type_name(e->dtype));
    for (int d = 0; d < e->n_dims; d++) {
        buf_printf(b, "%s%" PRId64, d == 0 ? "" : ",", e->shape[d]);
        if (__builtin_mul_overflow(numel, e->shape[d], &numel))
            numel = -1;
    }
    if (!dtype_bytes(e->dtype, numel, &bytes))
        return ft_fail(err, FT_ELIMIT, "tensor '%s' is too large", e->name);
    buf_printf(b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *offset, *offset + bytes);
    *offset += bytes;
    return FT_OK;
}

static ft_status write_header(struct buf *b, uint64_t *data_bytes,
                              const struct safetensors_entry *entries, size_t n,
                              const char *const (*metadata)[2], size_t n_metadata, ft_error *err)
{
    buf_u64le(b, 0); /* the length, known at the end */
    buf_byte(b, '{');
    if (n_metadata > 0) {
        buf_cstr(b, "\"__metadata__\":{");
        for (size_t i = 0; i < n_metadata; i++) {
            buf_cstr(b, i == 0 ? "" : ",");
            json_write_str(b, str_from(metadata[i][0]));
            buf_byte(b, ':');
            json_write_str(b, str_from(metadata[i][1]));
        }
        buf_byte(b, '}');
    }
    for (size_t i = 0; i < n; i++) {
        buf_cstr(b, i == 0 && n_metadata == 0 ? "" : ",");
        FT_TRY(write_entry(b, data_bytes, &entries[i], err));
    }
    buf_byte(b, '}');
    while (!b->failed && b->len % 8 != 0)
        buf_byte(b, ' '); /* keeps the data aligned, as the format asks */
    FT_TRY(buf_status(b, "a safetensors header", err));
    store_u64le(b->data, b->len - 8);
    return FT_OK;
}

ft_status safetensors_writer_open(struct safetensors_writer *w, const char *path,
                                  const struct safetensors_entry *entries, size_t n,
                                  const char *const (*metadata)[2], size_t n_metadata,
                                  ft_error *err)
{
    struct buf b = {0};
    uint64_t data_bytes = 0;
    *w = (struct safetensors_writer){.file = {.fd = -1}};
    ft_status st = write_header(&b, &data_bytes, entries, n, metadata, n_metadata, err);
    if (st == FT_OK)
        st = file_writer_open(&w->file, path, err);
    if (st == FT_OK) {
        file_write(&w->file, b.data, b.len);
        w->end = b.len + data_bytes;
    }
    buf_free(&b);
    return st;
}

void safetensors_write(struct safetensors_writer *w, const void *data, size_t bytes)
{
    FT_ASSERT(w->file.written + bytes <= w->end);
    file_write(&w->file, data, bytes);
}

ft_status safetensors_writer_commit(struct safetensors_writer *w, ft_error *err)
{
    FT_ASSERT(w->file.written == w->end);
    return file_writer_commit(&w->file, err);
}

void safetensors_writer_abort(struct safetensors_writer *w)
{
    file_writer_abort(&w->file);
}
