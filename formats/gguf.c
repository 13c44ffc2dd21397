/* SPDX-License-Identifier: Apache-2.0
 * Header parsing walks one cursor over the file; every step checks what is left before it moves. */
#include "formats/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/half.h"
#include "common/mem.h"

enum { DEFAULT_ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20, MAX_TYPE = 42 };

struct entry {
    str key;
    enum gguf_kind kind;
    const uint8_t *value; /* scalars: the bytes; strings: the length field */
    struct gguf_array array;
};

struct gguf {
    struct file_map map; /* zeroed after gguf_parse */
    struct arena arena;
    const char *name;
    const uint8_t *data;
    size_t bytes;
    size_t n_entries, n_tensors;
    struct entry *entries; /* sorted by key */
    struct gguf_tensor *tensors;
    const struct gguf_tensor **by_name; /* sorted */
};

struct cursor {
    const struct gguf *g;
    size_t at;
};

/* --- types ------------------------------------------------------------------------------------ */

static const size_t kind_bytes[GGUF_KINDS] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

static const char *const kind_names[GGUF_KINDS] = {
    "a uint8", "an int8",  "a uint16", "an int16", "a uint32", "an int32",  "a float32",
    "a bool",  "a string", "an array", "a uint64", "an int64", "a float64",
};

/* ggml's tensor types by number. Sizes are needed even for types that cannot be decoded, because
 * the layout of the whole file is checked. */
struct type_info {
    const char *name;
    uint16_t block, block_bytes;
    uint8_t decodable, dtype;
};

static const struct type_info types[MAX_TYPE] = {
    [0] = {"F32", 1, 4, 1, DT_F32},
    [1] = {"F16", 1, 2, 1, DT_F16},
    [2] = {"Q4_0", 32, 18, 1, DT_Q4_0},
    [3] = {"Q4_1", 32, 20, 1, DT_Q4_1},
    [6] = {"Q5_0", 32, 22, 1, DT_Q5_0},
    [7] = {"Q5_1", 32, 24, 1, DT_Q5_1},
    [8] = {"Q8_0", 32, 34, 1, DT_Q8_0},
    [9] = {"Q8_1", 32, 40, 0, 0},
    [10] = {"Q2_K", 256, 84, 0, 0},
    [11] = {"Q3_K", 256, 110, 0, 0},
    [12] = {"Q4_K", 256, 144, 1, DT_Q4_K},
    [13] = {"Q5_K", 256, 176, 0, 0},
    [14] = {"Q6_K", 256, 210, 1, DT_Q6_K},
    [15] = {"Q8_K", 256, 292, 0, 0},
    [16] = {"IQ2_XXS", 256, 66, 0, 0},
    [17] = {"IQ2_XS", 256, 74, 0, 0},
    [18] = {"IQ3_XXS", 256, 98, 0, 0},
    [19] = {"IQ1_S", 256, 50, 0, 0},
    [20] = {"IQ4_NL", 32, 18, 0, 0},
    [21] = {"IQ3_S", 256, 110, 0, 0},
    [22] = {"IQ2_S", 256, 82, 0, 0},
    [23] = {"IQ4_XS", 256, 136, 0, 0},
    [24] = {"I8", 1, 1, 0, 0},
    [25] = {"I16", 1, 2, 0, 0},
    [26] = {"I32", 1, 4, 0, 0},
    [27] = {"I64", 1, 8, 0, 0},
    [28] = {"F64", 1, 8, 0, 0},
    [29] = {"IQ1_M", 256, 56, 0, 0},
    [30] = {"BF16", 1, 2, 1, DT_BF16},
    [34] = {"TQ1_0", 256, 54, 0, 0},
    [35] = {"TQ2_0", 256, 66, 0, 0},
    [39] = {"MXFP4", 32, 17, 0, 0},
    [40] = {"NVFP4", 64, 36, 0, 0},
    [41] = {"Q1_0", 128, 18, 0, 0},
};

/* --- cursor ----------------------------------------------------------------------------------- */

static size_t left(const struct cursor *c)
{
    return c->g->bytes - c->at;
}

static ft_status take(const uint8_t **out, struct cursor *c, size_t n, const char *what,
                      ft_error *err)
{
    *out = NULL;
    if (n > left(c))
        return ft_fail(err, FT_EFORMAT,
                       "%s: byte %zu: the file ends inside %s (%zu bytes needed, %zu left); it is "
                       "truncated or damaged, copy it again",
                       c->g->name, c->at, what, n, left(c));
    *out = c->g->data + c->at;
    c->at += n;
    return FT_OK;
}

static ft_status take_u32(uint32_t *out, struct cursor *c, const char *what, ft_error *err)
{
    const uint8_t *p;
    FT_TRY(take(&p, c, 4, what, err));
    *out = load_u32le(p);
    return FT_OK;
}

static ft_status take_u64(uint64_t *out, struct cursor *c, const char *what, ft_error *err)
{
    const uint8_t *p;
    FT_TRY(take(&p, c, 8, what, err));
    *out = load_u64le(p);
    return FT_OK;
}

static ft_status take_str(str *out, struct cursor *c, uint64_t max, const char *what, ft_error *err)
{
    size_t start = c->at;
    uint64_t n;
    const uint8_t *p;
    FT_TRY(take_u64(&n, c, what, err));
    if (n > max)
        return ft_fail(err, FT_ELIMIT,
                       "%s: byte %zu: %s of %" PRIu64 " bytes, at most %" PRIu64 " are accepted",
                       c->g->name, start, what, n, max);
    FT_TRY(take(&p, c, (size_t)n, what, err));
    *out = (str){(const char *)p, (size_t)n};
    return FT_OK;
}

/* --- metadata --------------------------------------------------------------------------------- */

static ft_status read_kind(enum gguf_kind *out, struct cursor *c, str key, ft_error *err)
{
    size_t start = c->at;
    uint32_t kind;
    FT_TRY(take_u32(&kind, c, "a value type", err));
    if (kind >= GGUF_KINDS)
        return ft_fail(err, FT_EFORMAT, "%s: byte %zu: key '%.*s' has the unknown value type %u",
                       c->g->name, start, STR_ARG(key), kind);
    *out = (enum gguf_kind)kind;
    return FT_OK;
}

static ft_status skip_strings(struct cursor *c, uint64_t n, ft_error *err)
{
    str s;
    for (uint64_t i = 0; i < n; i++)
        FT_TRY(take_str(&s, c, SIZE_MAX, "a string of an array", err));
    return FT_OK;
}

static ft_status read_array(struct gguf_array *out, struct cursor *c, str key, ft_error *err)
{
    const uint8_t *p;
    size_t bytes;
    FT_TRY(read_kind(&out->kind, c, key, err));
    FT_TRY(take_u64(&out->n, c, "an array length", err));
    if (out->kind == GGUF_ARRAY)
        return ft_fail(err, FT_EFORMAT,
                       "%s: key '%.*s' is an array of arrays, which no supported "
                       "model uses",
                       c->g->name, STR_ARG(key));
    out->data = c->g->data + c->at;
    if (out->kind == GGUF_STRING)
        return skip_strings(c, out->n, err);
    if (!size_mul(out->n, kind_bytes[out->kind], &bytes))
        bytes = SIZE_MAX;
    return take(&p, c, bytes, "an array", err);
}

static ft_status read_entry(struct entry *out, struct cursor *c, ft_error *err)
{
    str text;
    FT_TRY(take_str(&out->key, c, GGUF_MAX_NAME, "a metadata key", err));
    FT_TRY(read_kind(&out->kind, c, out->key, err));
    out->value = c->g->data + c->at;
    if (out->kind == GGUF_ARRAY)
        return read_array(&out->array, c, out->key, err);
    if (out->kind == GGUF_STRING)
        return take_str(&text, c, SIZE_MAX, "a metadata string", err);
    return take(&out->value, c, kind_bytes[out->kind], "a metadata value", err);
}

static int compare_str(str a, str b)
{
    int d = memcmp(a.ptr, b.ptr, FT_MIN(a.len, b.len));
    return d != 0 ? d : (a.len > b.len) - (a.len < b.len);
}

static int compare_entries(const void *a, const void *b)
{
    return compare_str(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

/* The smallest entry is 8 + 4 + 1 bytes, so a lying count is caught before memory is taken. */
static ft_status check_count(const struct cursor *c, uint64_t n, uint64_t max, size_t min_bytes,
                             const char *what, ft_error *err)
{
    if (n > max)
        return ft_fail(err, FT_ELIMIT, "%s: %" PRIu64 " %s, at most %" PRIu64 " are accepted",
                       c->g->name, n, what, max);
    if (n > left(c) / min_bytes)
        return ft_fail(err, FT_EFORMAT,
                       "%s: the header promises %" PRIu64 " %s, but only %zu bytes follow; the "
                       "file is truncated or damaged",
                       c->g->name, n, what, left(c));
    return FT_OK;
}

static ft_status read_entries(struct gguf *g, struct cursor *c, uint64_t n, ft_error *err)
{
    FT_TRY(check_count(c, n, GGUF_MAX_KEYS, 13, "metadata keys", err));
    g->n_entries = (size_t)n;
    g->entries = arena_alloc(&g->arena, g->n_entries, sizeof *g->entries);
    if (g->entries == NULL)
        return ft_fail_memory(err, g->n_entries * sizeof *g->entries, "GGUF metadata");
    for (size_t i = 0; i < g->n_entries; i++)
        FT_TRY(read_entry(&g->entries[i], c, err));
    qsort(g->entries, g->n_entries, sizeof *g->entries, compare_entries);
    for (size_t i = 1; i < g->n_entries; i++)
        if (str_eq(g->entries[i - 1].key, g->entries[i].key))
            return ft_fail(err, FT_EFORMAT, "%s: the metadata key '%.*s' appears twice", g->name,
                           STR_ARG(g->entries[i].key));
    return FT_OK;
}

/* --- tensor table ----------------------------------------------------------------------------- */

static ft_status bad_tensor(const struct gguf *g, const struct gguf_tensor *t, ft_error *err,
                            const char *what, uint64_t value)
{
    return ft_fail(err, FT_EFORMAT, "%s: tensor '%.*s': %s (%" PRIu64 ")", g->name,
                   STR_ARG(t->name), what, value);
}

static ft_status read_shape(struct gguf_tensor *t, int64_t *numel, struct cursor *c, ft_error *err)
{
    uint32_t n_dims;
    *numel = 1;
    FT_TRY(take_u32(&n_dims, c, "a number of dimensions", err));
    if (n_dims > GGUF_MAX_DIMS)
        return bad_tensor(c->g, t, err, "more than 4 dimensions", n_dims);
    t->n_dims = (int)n_dims;
    for (int d = 0; d < GGUF_MAX_DIMS; d++) {
        uint64_t extent = 1;
        if (d < t->n_dims)
            FT_TRY(take_u64(&extent, c, "a tensor shape", err));
        if (extent == 0 || extent > INT64_MAX ||
            __builtin_mul_overflow(*numel, (int64_t)extent, numel))
            return bad_tensor(c->g, t, err, "a dimension is zero or too large", extent);
        t->shape[d] = (int64_t)extent;
    }
    return FT_OK;
}

/* data holds the offset until place_tensors knows where the data section starts. */
static ft_status read_tensor(struct gguf_tensor *t, uint64_t *offset, struct cursor *c,
                             ft_error *err)
{
    uint32_t type;
    int64_t numel;
    FT_TRY(take_str(&t->name, c, GGUF_MAX_NAME, "a tensor name", err));
    FT_TRY(read_shape(t, &numel, c, err));
    FT_TRY(take_u32(&type, c, "a tensor type", err));
    FT_TRY(take_u64(offset, c, "a tensor offset", err));
    if (type >= MAX_TYPE || types[type].name == NULL)
        return bad_tensor(c->g, t, err,
                          "unknown tensor type; convert the model to F16, Q8_0, Q4_K or Q6_K",
                          type);
    const struct type_info *info = &types[type];
    t->type_name = info->name;
    t->dtype = info->decodable ? (enum dtype)info->dtype : DTYPES;
    if (t->shape[0] % info->block != 0)
        return bad_tensor(c->g, t, err, "the row length is not a multiple of the type's block",
                          (uint64_t)t->shape[0]);
    if (!size_mul((size_t)(numel / info->block), info->block_bytes, &t->bytes))
        return bad_tensor(c->g, t, err, "the size overflows", (uint64_t)numel);
    return FT_OK;
}

static ft_status place_tensors(struct gguf *g, const uint64_t *offsets, size_t start,
                               uint64_t alignment, ft_error *err)
{
    size_t room = start > g->bytes ? 0 : g->bytes - start;
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        if (offsets[i] % alignment != 0)
            return bad_tensor(g, t, err, "its offset is not a multiple of the alignment",
                              offsets[i]);
        if (offsets[i] > room || t->bytes > room - offsets[i])
            return ft_fail(err, FT_EFORMAT,
                           "%s: tensor '%.*s': its %zu bytes at offset %" PRIu64
                           " go beyond the end of the file (%zu bytes of data); it is truncated, "
                           "copy it again",
                           g->name, STR_ARG(t->name), t->bytes, offsets[i], room);
        t->data = g->data + start + offsets[i];
    }
    return FT_OK;
}

static int compare_names(const void *a, const void *b)
{
    return compare_str((*(const struct gguf_tensor *const *)a)->name,
                       (*(const struct gguf_tensor *const *)b)->name);
}

static int compare_data(const void *a, const void *b)
{
    const uint8_t *x = (*(const struct gguf_tensor *const *)a)->data;
    const uint8_t *y = (*(const struct gguf_tensor *const *)b)->data;
    return (x > y) - (x < y);
}

static ft_status index_tensors(struct gguf *g, ft_error *err)
{
    const struct gguf_tensor **v = arena_alloc(&g->arena, g->n_tensors, sizeof(void *));
    if (v == NULL)
        return ft_fail_memory(err, g->n_tensors * sizeof(void *), "a GGUF tensor index");
    for (size_t i = 0; i < g->n_tensors; i++)
        v[i] = &g->tensors[i];
    qsort(v, g->n_tensors, sizeof(void *), compare_data);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (v[i]->data < v[i - 1]->data + v[i - 1]->bytes)
            return ft_fail(err, FT_EFORMAT, "%s: the tensors '%.*s' and '%.*s' overlap", g->name,
                           STR_ARG(v[i - 1]->name), STR_ARG(v[i]->name));
    qsort(v, g->n_tensors, sizeof(void *), compare_names);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (str_eq(v[i]->name, v[i - 1]->name))
            return ft_fail(err, FT_EFORMAT, "%s: the tensor '%.*s' appears twice", g->name,
                           STR_ARG(v[i]->name));
    g->by_name = v;
    return FT_OK;
}

static ft_status read_tensors(struct gguf *g, struct cursor *c, uint64_t n, ft_error *err)
{
    int64_t alignment;
    FT_TRY(
        gguf_opt_i64(&alignment, g, "general.alignment", DEFAULT_ALIGNMENT, 1, MAX_ALIGNMENT, err));
    if ((alignment & (alignment - 1)) != 0)
        return ft_fail(err, FT_EFORMAT,
                       "%s: general.alignment is %" PRId64 ", expected a power of two", g->name,
                       alignment);
    FT_TRY(check_count(c, n, GGUF_MAX_TENSORS, 24, "tensors", err));
    g->n_tensors = (size_t)n;
    g->tensors = arena_alloc(&g->arena, g->n_tensors, sizeof *g->tensors);
    uint64_t *offsets = arena_alloc(&g->arena, g->n_tensors, sizeof *offsets);
    if (g->tensors == NULL || offsets == NULL)
        return ft_fail_memory(err, g->n_tensors * sizeof *g->tensors, "a GGUF tensor table");
    for (size_t i = 0; i < g->n_tensors; i++)
        FT_TRY(read_tensor(&g->tensors[i], &offsets[i], c, err));
    FT_TRY(
        place_tensors(g, offsets, size_align(c->at, (size_t)alignment), (uint64_t)alignment, err));
    return index_tensors(g, err);
}

/* --- opening ---------------------------------------------------------------------------------- */

static ft_status check_version(const struct gguf *g, uint32_t version, ft_error *err)
{
    if (version == 2 || version == 3)
        return FT_OK;
    if (version != 0 && (version & 0xFFFF) == 0)
        return ft_fail(err, FT_EFORMAT,
                       "%s: a big-endian GGUF file; convert it with gguf_convert_endian.py",
                       g->name);
    return ft_fail(err, FT_EFORMAT,
                   "%s: GGUF version %u, expected 2 or 3; convert the model again with a current "
                   "llama.cpp",
                   g->name, version);
}

static ft_status parse(struct gguf *g, ft_error *err)
{
    struct cursor c = {.g = g};
    const uint8_t *magic;
    uint32_t version;
    uint64_t n_tensors, n_entries;
    if (g->bytes < 4 || memcmp(g->data, "GGUF", 4) != 0)
        return ft_fail(err, FT_EFORMAT, "%s: not a GGUF file (it does not start with GGUF)",
                       g->name);
    FT_TRY(take(&magic, &c, 4, "the magic", err));
    FT_TRY(take_u32(&version, &c, "the version", err));
    FT_TRY(check_version(g, version, err));
    FT_TRY(take_u64(&n_tensors, &c, "the tensor count", err));
    FT_TRY(take_u64(&n_entries, &c, "the metadata count", err));
    FT_TRY(read_entries(g, &c, n_entries, err));
    return read_tensors(g, &c, n_tensors, err);
}

/* Takes over the map, also on failure. */
static ft_status open_with(struct gguf **out, const char *name, struct file_map map,
                           const void *data, size_t bytes, ft_error *err)
{
    struct gguf *g = mem_alloc(1, sizeof *g);
    *out = NULL;
    if (g == NULL) {
        file_map_close(&map);
        return ft_fail_memory(err, sizeof *g, "a GGUF file");
    }
    *g = (struct gguf){.map = map, .data = data, .bytes = bytes};
    g->name = arena_cstr(&g->arena, str_from(name));
    ft_status st = g->name == NULL ? ft_fail_memory(err, strlen(name), "a path") : parse(g, err);
    if (st == FT_OK)
        *out = g;
    else
        gguf_close(g);
    return st;
}

ft_status gguf_open(struct gguf **out, const char *path, ft_error *err)
{
    struct file_map map;
    *out = NULL;
    FT_TRY(file_map_open(&map, path, err));
    return open_with(out, path, map, map.data, map.bytes, err);
}

ft_status gguf_parse(struct gguf **out, const char *name, const void *data, size_t bytes,
                     ft_error *err)
{
    return open_with(out, name, (struct file_map){0}, data, bytes, err);
}

void gguf_close(struct gguf *g)
{
    if (g == NULL)
        return;
    file_map_close(&g->map);
    arena_destroy(&g->arena);
    mem_free(g);
}

const char *gguf_name(const struct gguf *g)
{
    return g->name;
}

/* --- metadata access -------------------------------------------------------------------------- */

static const struct entry *find(const struct gguf *g, const char *key)
{
    struct entry probe = {.key = str_from(key)};
    return g->n_entries == 0
               ? NULL
               : bsearch(&probe, g->entries, g->n_entries, sizeof probe, compare_entries);
}

bool gguf_has(const struct gguf *g, const char *key)
{
    return find(g, key) != NULL;
}

static ft_status wrong_kind(const struct gguf *g, const struct entry *e, const char *expected,
                            ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: %.*s: expected %s, found %s", g->name, STR_ARG(e->key),
                   expected, kind_names[e->kind]);
}

static ft_status missing(const struct gguf *g, const char *key, const char *expected, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: the metadata key %s is missing, expected %s", g->name, key,
                   expected);
}

static bool is_integer(enum gguf_kind k)
{
    return k <= GGUF_I32 || k == GGUF_U64 || k == GGUF_I64;
}

static int64_t load_integer(enum gguf_kind k, const uint8_t *p)
{
    switch (k) {
    case GGUF_I8:
        return (int8_t)p[0];
    case GGUF_U16:
        return load_u16le(p);
    case GGUF_I16:
        return (int16_t)load_u16le(p);
    case GGUF_U32:
        return load_u32le(p);
    case GGUF_I32:
        return (int32_t)load_u32le(p);
    case GGUF_U64:
    case GGUF_I64:
        return (int64_t)load_u64le(p);
    default:
        return p[0]; /* GGUF_U8, GGUF_BOOL */
    }
}

static double load_float(enum gguf_kind k, const uint8_t *p)
{
    double d;
    if (k == GGUF_F32)
        return bits_to_f32(load_u32le(p));
    uint64_t bits = load_u64le(p);
    memcpy(&d, &bits, sizeof d);
    return d;
}

static str load_str(const uint8_t *p)
{
    return (str){(const char *)p + 8, (size_t)load_u64le(p)};
}

ft_status gguf_opt_str(str *out, const struct gguf *g, const char *key, str fallback, ft_error *err)
{
    const struct entry *e = find(g, key);
    if (e != NULL && e->kind != GGUF_STRING)
        return wrong_kind(g, e, "a string", err);
    *out = e == NULL ? fallback : load_str(e->value);
    return FT_OK;
}

ft_status gguf_need_str(str *out, const struct gguf *g, const char *key, ft_error *err)
{
    return gguf_has(g, key) ? gguf_opt_str(out, g, key, STR(""), err)
                            : missing(g, key, "a string", err);
}

ft_status gguf_opt_i64(int64_t *out, const struct gguf *g, const char *key, int64_t fallback,
                       int64_t min, int64_t max, ft_error *err)
{
    const struct entry *e = find(g, key);
    *out = fallback;
    if (e == NULL)
        return FT_OK;
    if (!is_integer(e->kind))
        return wrong_kind(g, e, "an integer", err);
    *out = load_integer(e->kind, e->value);
    if (*out < min || *out > max || (e->kind == GGUF_U64 && *out < 0))
        return ft_fail(err, FT_EFORMAT,
                       "%s: %s is %" PRId64 ", expected a whole number from %" PRId64
                       " to %" PRId64,
                       g->name, key, *out, min, max);
    return FT_OK;
}

ft_status gguf_need_i64(int64_t *out, const struct gguf *g, const char *key, int64_t min,
                        int64_t max, ft_error *err)
{
    return gguf_has(g, key) ? gguf_opt_i64(out, g, key, 0, min, max, err)
                            : missing(g, key, "an integer", err);
}

ft_status gguf_opt_f64(double *out, const struct gguf *g, const char *key, double fallback,
                       ft_error *err)
{
    const struct entry *e = find(g, key);
    *out = fallback;
    if (e == NULL)
        return FT_OK;
    if (e->kind != GGUF_F32 && e->kind != GGUF_F64)
        return wrong_kind(g, e, "a float", err);
    *out = load_float(e->kind, e->value);
    return FT_OK;
}

ft_status gguf_opt_bool(bool *out, const struct gguf *g, const char *key, bool fallback,
                        ft_error *err)
{
    const struct entry *e = find(g, key);
    if (e != NULL && e->kind != GGUF_BOOL)
        return wrong_kind(g, e, "a bool", err);
    *out = e == NULL ? fallback : e->value[0] != 0;
    return FT_OK;
}

ft_status gguf_need_array(struct gguf_array *out, const struct gguf *g, const char *key,
                          enum gguf_kind kind, ft_error *err)
{
    const struct entry *e = find(g, key);
    if (e == NULL)
        return missing(g, key, "an array", err);
    if (e->kind != GGUF_ARRAY)
        return wrong_kind(g, e, "an array", err);
    if (e->array.kind != kind)
        return ft_fail(err, FT_EFORMAT, "%s: %s: the elements are each %s, expected %s", g->name,
                       key, kind_names[e->array.kind], kind_names[kind]);
    *out = e->array;
    return FT_OK;
}

str gguf_array_next_str(struct gguf_array *a)
{
    FT_ASSERT(a->kind == GGUF_STRING && a->n > 0);
    str s = load_str(a->data);
    a->data += 8 + s.len;
    a->n--;
    return s;
}

int64_t gguf_array_i64(const struct gguf_array *a, uint64_t i)
{
    FT_ASSERT(i < a->n && (is_integer(a->kind) || a->kind == GGUF_BOOL));
    return load_integer(a->kind, a->data + i * kind_bytes[a->kind]);
}

double gguf_array_f64(const struct gguf_array *a, uint64_t i)
{
    FT_ASSERT(i < a->n && (a->kind == GGUF_F32 || a->kind == GGUF_F64));
    return load_float(a->kind, a->data + i * kind_bytes[a->kind]);
}

/* --- tensors ---------------------------------------------------------------------------------- */

size_t gguf_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, size_t i)
{
    FT_ASSERT(i < g->n_tensors);
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf *g, str name)
{
    struct gguf_tensor probe = {.name = name}, *p = &probe;
    const struct gguf_tensor **hit =
        g->n_tensors == 0 ? NULL
                          : bsearch(&p, g->by_name, g->n_tensors, sizeof(void *), compare_names);
    return hit == NULL ? NULL : *hit;
}

void gguf_release_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    size_t from = (size_t)(t->data - g->data);
    file_map_release(&g->map, from, from + t->bytes);
}
