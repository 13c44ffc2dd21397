/* SPDX-License-Identifier: Apache-2.0
 * Sizes are known in advance, so the header is written first with the fingerprints and means still
 * zero; they have a fixed width, and commit writes the same header again with their values. */
#include "formats/nf4_write.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/half.h"
#include "common/mem.h"
#include "formats/nf4_layout.h"

struct nf4_writer {
    const struct nf4_write_options *options;
    struct file_writer file;
    struct hasher *hasher;
    struct buf header; /* preamble and JSON, zero-padded to the data section */
    uint32_t *means;   /* [n] bit patterns, linear weights only */
    hash128 fingerprint, source_fingerprint;
    uint64_t data_start, end; /* file offsets */
    int64_t n, next;          /* tensors in all; the one being written */
    size_t left;              /* bytes of the tensor that are still to come */
};

/* --- header ----------------------------------------------------------------------------------- */

static void write_hash(struct buf *b, hash128 h)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, h);
    buf_printf(b, "\"%s\"", hex);
}

static ft_status too_large(const struct model_tensor *t, enum dtype dtype, ft_error *err)
{
    return ft_fail(err, FT_ELIMIT, "tensor '%s' [%" PRId64 ", %" PRId64 "] does not fit %s",
                   t->name, t->shape[0], t->shape[1], dtype_name(dtype));
}

/* Vectors are stored as one row. */
static ft_status part_sizes(size_t sizes[NF4_MAX_PARTS], int *n, const struct model_tensor *t,
                            enum dtype dtype, ft_error *err)
{
    bool vector = t->n_dims == 1;
    bool fits = nf4_part_sizes(sizes, n, dtype, vector ? 1 : t->shape[0],
                               vector ? t->shape[0] : t->shape[1]);
    return fits ? FT_OK : too_large(t, dtype, err);
}

static ft_status write_tensor(struct buf *b, uint64_t *at, const struct model_tensor *t,
                              enum dtype dtype, uint32_t mean, ft_error *err)
{
    static const char *const part_names[] = {"codes", "absmax", "absmax2"};
    size_t sizes[NF4_MAX_PARTS];
    int n;
    FT_TRY(part_sizes(sizes, &n, t, dtype, err));
    buf_printf(b, "{\"name\":\"%s\",\"dtype\":\"%s\",\"shape\":[%" PRId64, t->name,
               dtype_name(dtype), t->shape[0]);
    if (t->n_dims == 2)
        buf_printf(b, ",%" PRId64, t->shape[1]);
    buf_cstr(b, "]");
    for (int i = 0; i < n; i++)
        buf_printf(b, ",\"%s\":%" PRIu64, dtype == DT_NF4 ? part_names[i] : "data",
                   nf4_place_part(at, sizes[i]));
    if (dtype == DT_NF4)
        buf_printf(b, ",\"mean_bits\":\"%08" PRIx32 "\"", mean);
    buf_cstr(b, "}");
    return FT_OK;
}

static void write_tokenizer(struct buf *b, uint64_t *at, const struct nf4_write_options *o)
{
    buf_cstr(b, ",\n\"tokenizer\":");
    if (o->tokenizer.len == 0) {
        buf_cstr(b, "null");
        return;
    }
    buf_printf(b, "{\"data\":%" PRIu64 ",\"bytes\":%zu,\"xxh3\":",
               nf4_place_part(at, o->tokenizer.len), o->tokenizer.len);
    write_hash(b, hash128_of(o->tokenizer.ptr, o->tokenizer.len));
    buf_cstr(b, ",\"fingerprint\":");
    write_hash(b, o->tokenizer_fingerprint);
    buf_byte(b, '}');
}

static ft_status write_json(struct buf *b, uint64_t *data_bytes, const struct nf4_writer *w,
                            ft_error *err)
{
    const struct nf4_write_options *o = w->options;
    uint64_t at = NF4_MAP_BYTES;
    buf_cstr(b, "{\"config\":");
    model_config_to_hf(b, o->config);
    buf_printf(b, ",\"quant_from\":\"%s\",\n\"source\":", nf4_from_names[o->quant_from]);
    json_write_str(b, str_from(o->source));
    buf_cstr(b, ",\n\"source_fingerprint\":");
    write_hash(b, w->source_fingerprint);
    buf_cstr(b, ",\n\"fingerprint\":");
    write_hash(b, w->fingerprint);
    buf_cstr(b, ",\n\"map\":0,\n\"tensors\":[");
    for (int64_t i = 0; i < w->n; i++) {
        struct model_tensor t;
        model_tensor_at(&t, o->config, i);
        buf_cstr(b, i == 0 ? "\n" : ",\n");
        FT_TRY(write_tensor(b, &at, &t, o->dtypes[i], w->means[i], err));
    }
    buf_cstr(b, "]");
    write_tokenizer(b, &at, o);
    buf_cstr(b, "}\n");
    *data_bytes = at;
    return buf_status(b, "an .nf4 header", err);
}

static void fill_preamble(struct buf *b, size_t json_bytes, uint64_t file_bytes)
{
    uint8_t *p = b->data;
    memcpy(p, NF4_MAGIC, 8);
    store_u32le(p + 8, NF4_FILE_VERSION);
    store_u64le(p + 16, json_bytes);
    store_u64le(p + 24, file_bytes);
    store_u64le(p + 32, hash64(p + NF4_PREAMBLE, json_bytes));
}

static ft_status build_header(struct nf4_writer *w, ft_error *err)
{
    static const uint8_t zeros[NF4_PAGE];
    uint64_t data_bytes;
    buf_clear(&w->header);
    buf_append(&w->header, zeros, NF4_PREAMBLE);
    FT_TRY(write_json(&w->header, &data_bytes, w, err));
    size_t json_bytes = w->header.len - NF4_PREAMBLE;
    if (json_bytes > NF4_MAX_HEADER)
        return ft_fail(err, FT_ELIMIT, "the header of the .nf4 file would take %zu bytes",
                       json_bytes);
    buf_append(&w->header, zeros, (NF4_PAGE - w->header.len % NF4_PAGE) % NF4_PAGE);
    FT_TRY(buf_status(&w->header, "an .nf4 header", err));
    w->data_start = w->header.len;
    w->end = w->data_start + data_bytes;
    fill_preamble(&w->header, json_bytes, w->end);
    return FT_OK;
}

/* --- data ------------------------------------------------------------------------------------- */

static void write_part(struct nf4_writer *w, const void *data, size_t bytes)
{
    hasher_update(w->hasher, data, bytes);
    file_write(&w->file, data, bytes);
}

/* Zero bytes up to where a part of this size starts. */
static void start_part(struct nf4_writer *w, size_t bytes)
{
    static const uint8_t zeros[NF4_PAGE];
    uint64_t at = w->file.written - w->data_start, before = at;
    file_write(&w->file, zeros, (size_t)(nf4_place_part(&at, bytes) - before));
}

/* Opens the next tensor and returns its part sizes. */
static void start_tensor(struct nf4_writer *w, size_t sizes[NF4_MAX_PARTS])
{
    struct model_tensor t;
    ft_error unused;
    int n;
    FT_ASSERT(w->next < w->n && w->left == 0);
    model_tensor_at(&t, w->options->config, w->next);
    ft_status st = part_sizes(sizes, &n, &t, w->options->dtypes[w->next], &unused);
    FT_ASSERT(st == FT_OK); /* nf4_writer_open went through all of them */
    nf4_hash_tensor(w->hasher, t.name, w->options->dtypes[w->next]);
}

void nf4_writer_matrix(struct nf4_writer *w, const struct nf4_matrix *m)
{
    size_t sizes[NF4_MAX_PARTS];
    uint8_t mean[4];
    const void *parts[NF4_MAX_PARTS] = {m->codes, m->absmax, m->absmax2};
    FT_ASSERT(w->next < w->n && w->options->dtypes[w->next] == DT_NF4);
    start_tensor(w, sizes);
    for (int i = 0; i < NF4_MAX_PARTS; i++) {
        start_part(w, sizes[i]);
        write_part(w, parts[i], sizes[i]);
    }
    w->means[w->next] = f32_to_bits(m->offset);
    store_u32le(mean, w->means[w->next]);
    hasher_update(w->hasher, mean, sizeof mean);
    w->next++;
}

void nf4_writer_data(struct nf4_writer *w, const void *data, size_t bytes)
{
    size_t sizes[NF4_MAX_PARTS];
    FT_ASSERT(w->next < w->n && w->options->dtypes[w->next] != DT_NF4);
    if (w->left == 0) {
        start_tensor(w, sizes);
        start_part(w, sizes[0]);
        w->left = sizes[0];
    }
    FT_ASSERT(bytes <= w->left);
    write_part(w, data, bytes);
    w->left -= bytes;
    w->next += w->left == 0;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void check_dtypes(const struct nf4_write_options *o)
{
    for (int64_t i = 0; i < model_tensors(o->config); i++) {
        struct model_tensor t;
        model_tensor_at(&t, o->config, i);
        FT_ASSERT(t.is_linear == (o->dtypes[i] == DT_NF4));
    }
}

ft_status nf4_writer_open(struct nf4_writer **out, const char *path,
                          const struct nf4_write_options *options, ft_error *err)
{
    struct nf4_writer *w;
    ft_status st;
    *out = NULL;
    check_dtypes(options);
    FT_TRY(mem_new(&w, 1, sizeof *w, "an .nf4 writer", err));
    w->options = options;
    w->file.fd = -1;
    w->n = model_tensors(options->config);
    const float *map = (const float *)nf4_map_bits;
    FT_GOTO(mem_new(&w->means, (size_t)w->n, sizeof *w->means, "an .nf4 writer", err));
    FT_GOTO(build_header(w, err));
    FT_GOTO(hasher_create(&w->hasher, err));
    FT_GOTO(nf4_hash_start(w->hasher, options->config, map, err));
    FT_GOTO(file_writer_open(&w->file, path, err));
    file_write(&w->file, w->header.data, w->header.len);
    file_write(&w->file, map, NF4_MAP_BYTES);
    *out = w;
    return FT_OK;
out:
    nf4_writer_close(w);
    return st;
}

ft_status nf4_writer_commit(struct nf4_writer *w, hash128 source_fingerprint, ft_error *err)
{
    str blob = w->options->tokenizer;
    size_t header_bytes = w->header.len;
    FT_ASSERT(w->next == w->n && w->left == 0);
    if (blob.len > 0) {
        start_part(w, blob.len);
        file_write(&w->file, blob.ptr, blob.len);
    }
    FT_ASSERT(w->file.written == w->end);
    w->fingerprint = hasher_digest(w->hasher);
    w->source_fingerprint = source_fingerprint;
    FT_TRY(build_header(w, err));
    FT_ASSERT(w->header.len == header_bytes);
    file_write_at(&w->file, 0, w->header.data, w->header.len);
    return file_writer_commit(&w->file, err);
}

uint64_t nf4_writer_bytes(const struct nf4_writer *w)
{
    return w->end;
}

void nf4_writer_close(struct nf4_writer *w)
{
    if (w == NULL)
        return;
    file_writer_abort(&w->file);
    hasher_destroy(w->hasher);
    buf_free(&w->header);
    mem_free(w->means);
    mem_free(w);
}
