/* SPDX-License-Identifier: Apache-2.0
 * Nothing about the layout is left to the file: the configuration says which tensors follow, and
 * every position is recomputed and compared. */
#include "formats/nf4_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/half.h"
#include "common/mem.h"
#include "formats/nf4_layout.h"

struct nf4_file {
    struct arena arena;
    struct file_map map; /* zeroed after nf4_file_parse */
    const char *path;
    const uint8_t *data; /* whole file */
    size_t bytes, data_start;
    struct model_config config;
    struct nf4_tensor *tensors;        /* [n] in file order */
    const struct nf4_tensor **by_name; /* [n] sorted */
    size_t n;
    str source, tokenizer;
    hash128 fingerprint, source_fingerprint, tokenizer_fingerprint, tokenizer_hash;
    enum nf4_quant_from quant_from;
};

/* --- values of the header --------------------------------------------------------------------- */

static ft_status read_hash(hash128 *out, const json *object, const char *key, ft_error *err)
{
    str hex;
    FT_TRY(json_need_str(&hex, object, key, err));
    return hash128_parse(out, hex)
               ? FT_OK
               : ft_fail(err, FT_EFORMAT, "\"%s\": expected 32 hex digits", key);
}

static ft_status read_mean(float *out, const json *tensor, ft_error *err)
{
    char padded[HASH_HEX_LEN + 1];
    str hex;
    hash128 h;
    FT_TRY(json_need_str(&hex, tensor, "mean_bits", err));
    snprintf(padded, sizeof padded, "%024d%.8s", 0, hex.len == 8 ? hex.ptr : "?");
    if (!hash128_parse(&h, str_from(padded)))
        return ft_fail(err, FT_EFORMAT, "\"mean_bits\": expected 8 hex digits");
    *out = bits_to_f32((uint32_t)h.lo);
    return FT_OK;
}

/* The part must lie where the layout rule puts it, and inside the file. */
static ft_status read_part(const void **out, const struct nf4_file *f, uint64_t *at,
                           const json *object, const char *key, size_t bytes, ft_error *err)
{
    int64_t start;
    uint64_t room = f->bytes - f->data_start;
    FT_TRY(json_need_i64(&start, object, key, 0, INT64_MAX, err));
    uint64_t expected = nf4_place_part(at, bytes);
    if ((uint64_t)start != expected)
        return ft_fail(err, FT_EFORMAT, "\"%s\": at %" PRId64 ", the layout puts it at %" PRIu64,
                       key, start, expected);
    if (expected > room || bytes > room - expected)
        return ft_fail(err, FT_EFORMAT,
                       "\"%s\": %zu bytes at %" PRIu64
                       " go beyond the end of the file; it is truncated, make it again",
                       key, bytes, expected);
    *out = f->data + f->data_start + expected;
    return FT_OK;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static ft_status check_shape(const json *tensor, const struct model_tensor *spec, ft_error *err)
{
    const json *shape = json_get(tensor, "shape"), *d = json_first(shape);
    bool same = json_kind(shape) == JSON_ARRAY && json_count(shape) == (size_t)spec->n_dims;
    for (int i = 0; same && i < spec->n_dims; i++, d = json_next(d)) {
        int64_t extent;
        same = json_i64(d, &extent) && extent == spec->shape[i];
    }
    return same ? FT_OK
                : ft_fail(err, FT_EFORMAT,
                          "\"shape\": the configuration needs [%" PRId64 ", %" PRId64 "]",
                          spec->shape[0], spec->shape[1]);
}

static ft_status read_dtype(enum dtype *out, const json *tensor, const struct model_tensor *spec,
                            ft_error *err)
{
    str name;
    FT_TRY(json_need_str(&name, tensor, "dtype", err));
    if (!dtype_from_name(out, name))
        return ft_fail(err, FT_EFORMAT,
                       "\"dtype\": \"%.*s\" is unknown; a newer version of this "
                       "program may know it",
                       STR_ARG(name));
    if (spec->is_linear != (*out == DT_NF4))
        return ft_fail(err, FT_EFORMAT,
                       "\"dtype\" is %s; the weights of linear layers, and only they, are nf4",
                       dtype_name(*out));
    return FT_OK;
}

static ft_status read_matrix(struct nf4_tensor *t, const struct nf4_file *f, uint64_t *at,
                             const json *v, const size_t *sizes, ft_error *err)
{
    const void *codes = NULL, *absmax = NULL, *absmax2 = NULL;
    FT_TRY(read_part(&codes, f, at, v, "codes", sizes[0], err));
    FT_TRY(read_part(&absmax, f, at, v, "absmax", sizes[1], err));
    FT_TRY(read_part(&absmax2, f, at, v, "absmax2", sizes[2], err));
    t->nf4 = (struct nf4_matrix){
        .rows = t->shape[0],
        .cols = t->shape[1],
        .codes = codes,
        .absmax = absmax,
        .absmax2 = absmax2,
        .map = (const float *)(const void *)(f->data + f->data_start),
    };
    return read_mean(&t->nf4.offset, v, err);
}

static ft_status read_tensor(struct nf4_file *f, struct nf4_tensor *t, uint64_t *at,
                             const struct model_tensor *spec, const json *v, ft_error *err)
{
    str name;
    size_t sizes[NF4_MAX_PARTS];
    int n_parts;
    bool vector = spec->n_dims == 1;
    FT_TRY(json_need_str(&name, v, "name", err));
    if (!str_is(name, spec->name))
        return ft_fail(err, FT_EFORMAT, "found '%.*s' in its place", STR_ARG(name));
    FT_TRY(read_dtype(&t->dtype, v, spec, err));
    FT_TRY(check_shape(v, spec, err));
    t->name = arena_cstr(&f->arena, name);
    t->n_dims = spec->n_dims;
    t->shape[0] = spec->shape[0];
    t->shape[1] = spec->shape[1];
    if (t->name == NULL)
        return ft_fail_memory(err, name.len, "a tensor name");
    if (!nf4_part_sizes(sizes, &n_parts, t->dtype, vector ? 1 : t->shape[0],
                        vector ? t->shape[0] : t->shape[1]))
        return ft_fail(err, FT_EFORMAT, "its shape does not fit %s", dtype_name(t->dtype));
    if (t->dtype == DT_NF4)
        return read_matrix(t, f, at, v, sizes, err);
    t->bytes = sizes[0];
    return read_part(&t->data, f, at, v, "data", sizes[0], err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const struct nf4_tensor *const *)a)->name,
                  (*(const struct nf4_tensor *const *)b)->name);
}

static ft_status read_tensors(struct nf4_file *f, uint64_t *at, const json *root, ft_error *err)
{
    const json *list;
    FT_TRY(json_need(&list, root, "tensors", JSON_ARRAY, err));
    f->n = json_count(list);
    if (f->n != (size_t)model_tensors(&f->config))
        return ft_fail(err, FT_EFORMAT,
                       "\"tensors\" has %zu entries, the configuration needs %" PRId64, f->n,
                       model_tensors(&f->config));
    f->tensors = arena_alloc(&f->arena, f->n, sizeof *f->tensors);
    f->by_name = arena_alloc(&f->arena, f->n, sizeof *f->by_name);
    if (f->tensors == NULL || f->by_name == NULL)
        return ft_fail_memory(err, f->n * sizeof *f->tensors, "a tensor table");
    const json *v = json_first(list);
    for (size_t i = 0; i < f->n; i++, v = json_next(v)) {
        struct model_tensor spec;
        model_tensor_at(&spec, &f->config, (int64_t)i);
        if (read_tensor(f, &f->tensors[i], at, &spec, v, err) != FT_OK)
            return ft_wrap(err, "tensor '%s'", spec.name);
        f->by_name[i] = &f->tensors[i];
    }
    qsort(f->by_name, f->n, sizeof *f->by_name, compare_names);
    return FT_OK;
}

/* --- header ----------------------------------------------------------------------------------- */

static ft_status read_quant_from(struct nf4_file *f, const json *root, ft_error *err)
{
    str name;
    FT_TRY(json_need_str(&name, root, "quant_from", err));
    for (int i = 0; i < NF4_FROMS; i++) {
        if (str_is(name, nf4_from_names[i])) {
            f->quant_from = (enum nf4_quant_from)i;
            return FT_OK;
        }
    }
    return ft_fail(err, FT_EFORMAT, "\"quant_from\": expected checkpoint, f16 or bf16");
}

static ft_status read_tokenizer(struct nf4_file *f, uint64_t *at, const json *root, ft_error *err)
{
    const json *v = json_get(root, "tokenizer");
    const void *blob = NULL;
    int64_t bytes;
    if (v != NULL && json_kind(v) == JSON_NULL)
        return FT_OK;
    FT_TRY(json_need(&v, root, "tokenizer", JSON_OBJECT, err));
    FT_TRY(json_need_i64(&bytes, v, "bytes", 1, INT64_MAX, err));
    FT_TRY(read_part(&blob, f, at, v, "data", (size_t)bytes, err));
    FT_TRY(read_hash(&f->tokenizer_hash, v, "xxh3", err));
    FT_TRY(read_hash(&f->tokenizer_fingerprint, v, "fingerprint", err));
    f->tokenizer = (str){blob, (size_t)bytes};
    return FT_OK;
}

static ft_status read_root(struct nf4_file *f, const json *root, ft_error *err)
{
    const json *config;
    const void *map;
    uint64_t at = 0;
    str source;
    FT_TRY(json_need(&config, root, "config", JSON_OBJECT, err));
    FT_TRY(model_config_from_hf(&f->config, config, err));
    FT_TRY(read_quant_from(f, root, err));
    FT_TRY(json_need_str(&source, root, "source", err));
    f->source = arena_str(&f->arena, source);
    if (f->source.ptr == NULL)
        return ft_fail_memory(err, source.len, "a source name");
    FT_TRY(read_hash(&f->source_fingerprint, root, "source_fingerprint", err));
    FT_TRY(read_hash(&f->fingerprint, root, "fingerprint", err));
    FT_TRY(read_part(&map, f, &at, root, "map", NF4_MAP_BYTES, err));
    FT_TRY(read_tensors(f, &at, root, err));
    FT_TRY(read_tokenizer(f, &at, root, err));
    if (f->data_start + at != f->bytes)
        return ft_fail(err, FT_EFORMAT, "the last part ends at byte %" PRIu64 " of %zu",
                       f->data_start + at, f->bytes);
    return FT_OK;
}

static ft_status read_preamble(struct nf4_file *f, str *json_text, ft_error *err)
{
    static const uint8_t zeros[NF4_PREAMBLE];
    const uint8_t *p = f->data;
    if (f->bytes < NF4_PREAMBLE || memcmp(p, NF4_MAGIC, 8) != 0)
        return ft_fail(err, FT_EFORMAT,
                       "not an .nf4 file; make one from a published model with ftprep quantize");
    if (load_u32le(p + 8) != NF4_FILE_VERSION)
        return ft_fail(err, FT_EFORMAT,
                       ".nf4 version %u, this program reads version %d; quantise the model again",
                       load_u32le(p + 8), NF4_FILE_VERSION);
    uint64_t json_bytes = load_u64le(p + 16), file_bytes = load_u64le(p + 24);
    if (file_bytes != f->bytes)
        return ft_fail(err, FT_EFORMAT,
                       "%zu bytes long, its header says %" PRIu64
                       "; the copy is incomplete, copy it again",
                       f->bytes, file_bytes);
    if (json_bytes > NF4_MAX_HEADER || json_bytes > f->bytes - NF4_PREAMBLE)
        return ft_fail(err, FT_EFORMAT, "a header of %" PRIu64 " bytes in a file of %zu",
                       json_bytes, f->bytes);
    f->data_start = size_align(NF4_PREAMBLE + (size_t)json_bytes, NF4_PAGE);
    if (f->data_start > f->bytes || load_u64le(p + 32) != hash64(p + NF4_PREAMBLE, json_bytes) ||
        load_u32le(p + 12) != 0 || memcmp(p + 40, zeros, NF4_PREAMBLE - 40) != 0)
        return ft_fail(err, FT_EFORMAT, "the header is damaged; copy the file again");
    *json_text = (str){(const char *)p + NF4_PREAMBLE, (size_t)json_bytes};
    return FT_OK;
}

static ft_status read_header(struct nf4_file *f, ft_error *err)
{
    struct json_doc *doc;
    str text = {0};
    if (read_preamble(f, &text, err) != FT_OK)
        return ft_wrap(err, "%s", f->path);
    FT_TRY(json_parse(&doc, f->path, text, JSON_STRICT, err));
    ft_status st = read_root(f, json_root(doc), err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", f->path);
}

/* Takes over the map, also on failure. */
static ft_status open_with(struct nf4_file **out, const char *name, struct file_map map,
                           const void *data, size_t bytes, ft_error *err)
{
    struct nf4_file *f = mem_alloc(1, sizeof *f);
    *out = NULL;
    if (f == NULL) {
        file_map_close(&map);
        return ft_fail_memory(err, sizeof *f, "an .nf4 file");
    }
    *f = (struct nf4_file){.map = map, .data = data, .bytes = bytes};
    f->path = arena_cstr(&f->arena, str_from(name));
    ft_status st =
        f->path == NULL ? ft_fail_memory(err, strlen(name), "a path") : read_header(f, err);
    if (st == FT_OK)
        *out = f;
    else
        nf4_file_close(f);
    return st;
}

ft_status nf4_file_open(struct nf4_file **out, const char *path, ft_error *err)
{
    struct file_map map;
    *out = NULL;
    FT_TRY(file_map_open(&map, path, err));
    return open_with(out, path, map, map.data, map.bytes, err);
}

ft_status nf4_file_parse(struct nf4_file **out, const char *name, const void *data, size_t bytes,
                         ft_error *err)
{
    FT_ASSERT((uintptr_t)data % NF4_ALIGN == 0);
    return open_with(out, name, (struct file_map){0}, data, bytes, err);
}

void nf4_file_close(struct nf4_file *f)
{
    if (f == NULL)
        return;
    file_map_close(&f->map);
    arena_destroy(&f->arena);
    mem_free(f);
}

/* --- access ----------------------------------------------------------------------------------- */

const struct model_config *nf4_file_config(const struct nf4_file *f)
{
    return &f->config;
}

const struct nf4_tensor *nf4_file_find(const struct nf4_file *f, const char *name)
{
    struct nf4_tensor probe = {.name = name};
    const struct nf4_tensor *p = &probe;
    const struct nf4_tensor **hit =
        bsearch(&p, f->by_name, f->n, sizeof *f->by_name, compare_names);
    return hit == NULL ? NULL : *hit;
}

size_t nf4_file_tensors(const struct nf4_file *f)
{
    return f->n;
}

const struct nf4_tensor *nf4_file_tensor(const struct nf4_file *f, size_t i)
{
    FT_ASSERT(i < f->n);
    return &f->tensors[i];
}

hash128 nf4_file_fingerprint(const struct nf4_file *f)
{
    return f->fingerprint;
}

str nf4_file_source(const struct nf4_file *f)
{
    return f->source;
}

hash128 nf4_file_source_fingerprint(const struct nf4_file *f)
{
    return f->source_fingerprint;
}

enum nf4_quant_from nf4_file_quant_from(const struct nf4_file *f)
{
    return f->quant_from;
}

str nf4_file_tokenizer(const struct nf4_file *f)
{
    return f->tokenizer;
}

hash128 nf4_file_tokenizer_fingerprint(const struct nf4_file *f)
{
    return f->tokenizer_fingerprint;
}

uint64_t nf4_file_bytes(const struct nf4_file *f)
{
    return f->bytes;
}

/* --- verification ----------------------------------------------------------------------------- */

static ft_status hash_contents(hash128 *out, const struct nf4_file *f, ft_error *err)
{
    struct hasher *h;
    uint8_t mean[4];
    const float *map = (const float *)(const void *)(f->data + f->data_start);
    FT_TRY(hasher_create(&h, err));
    ft_status st = nf4_hash_start(h, &f->config, map, err);
    for (size_t i = 0; i < f->n && st == FT_OK; i++) {
        const struct nf4_tensor *t = &f->tensors[i];
        int64_t numel = t->shape[0] * t->shape[1];
        nf4_hash_tensor(h, t->name, t->dtype);
        if (t->dtype != DT_NF4) {
            hasher_update(h, t->data, t->bytes);
            continue;
        }
        hasher_update(h, t->nf4.codes, (size_t)(numel + 1) / 2);
        hasher_update(h, t->nf4.absmax, (size_t)nf4_blocks(numel));
        hasher_update(h, t->nf4.absmax2, (size_t)nf4_blocks2(numel) * sizeof(float));
        store_u32le(mean, f32_to_bits(t->nf4.offset));
        hasher_update(h, mean, sizeof mean);
    }
    *out = hasher_digest(h);
    hasher_destroy(h);
    return st;
}

static ft_status check_scales(const struct nf4_file *f, const struct nf4_tensor *t, ft_error *err)
{
    int64_t n_blocks = nf4_blocks(t->shape[0] * t->shape[1]);
    for (int64_t b = 0; b < n_blocks; b++)
        if (!isfinite(nf4_scale(&t->nf4, b)))
            return ft_fail(err, FT_EFORMAT,
                           "%s: tensor '%s': the scale of block %" PRId64 " is not finite", f->path,
                           t->name, b);
    return FT_OK;
}

ft_status nf4_file_verify(const struct nf4_file *f, ft_error *err)
{
    hash128 found;
    FT_TRY(hash_contents(&found, f, err));
    if (!hash128_eq(found, f->fingerprint))
        return ft_fail(err, FT_EFORMAT,
                       "%s: the tensors do not match the fingerprint in the header; the file is "
                       "damaged, copy or make it again",
                       f->path);
    if (f->tokenizer.len > 0 &&
        !hash128_eq(hash128_of(f->tokenizer.ptr, f->tokenizer.len), f->tokenizer_hash))
        return ft_fail(err, FT_EFORMAT,
                       "%s: the tokenizer does not match its hash; the file is damaged, copy or "
                       "make it again",
                       f->path);
    for (size_t i = 0; i < f->n; i++)
        if (f->tensors[i].dtype == DT_NF4)
            FT_TRY(check_scales(f, &f->tensors[i], err));
    return FT_OK;
}
