/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/part.h"

#include <string.h>

#include "common/file.h"
#include "formats/manifest_json.h"

enum { MAX_BYTES = 16 << 20 };

#define FORMAT_NAME "ftprep-part"

void part_free(struct part *p)
{
    arena_destroy(&p->arena);
    *p = (struct part){0};
}

void part_name(char dst[PART_NAME_BYTES], hash128 key, const char *suffix)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, key);
    snprintf(dst, PART_NAME_BYTES, "%s.%s", hex, suffix);
}

void part_put_row(struct buf *b, const struct part_row *row)
{
    buf_u64le(b, row->ids.lo);
    buf_u64le(b, row->ids.hi);
    buf_u64le(b, row->line);
}

struct part_row part_row_at(const uint8_t *rows, uint64_t i)
{
    const uint8_t *r = rows + i * PART_ROW_BYTES;
    return (struct part_row){{load_u64le(r), load_u64le(r + 8)}, load_u64le(r + 16)};
}

/* --- writing --------------------------------------------------------------------------------- */

static void put_optional_file(struct buf *b, const char *key, const struct manifest_file *f,
                              const struct shard_counts *counts)
{
    buf_printf(b, "  \"%s\": ", key);
    if (f->name == NULL) {
        buf_cstr(b, "null,\n");
        return;
    }
    buf_byte(b, '{');
    manifest_put_file(b, f);
    if (counts != NULL) {
        buf_cstr(b, ", ");
        manifest_put_counts(b, counts);
    }
    buf_cstr(b, "},\n");
}

ft_status part_write(const struct part *p, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct buf b = {0};
    char name[PART_NAME_BYTES];
    hash128 checksum;
    part_name(name, p->key, "json");
    buf_printf(&b, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  ", FORMAT_NAME, PART_VERSION);
    manifest_put_hash(&b, "key", p->key);
    buf_cstr(&b, ",\n");
    for (int s = 0; s < SPLITS; s++)
        put_optional_file(&b, split_names[s], &p->splits[s].file, &p->splits[s].counts);
    put_optional_file(&b, "rows", &p->rows, NULL);
    manifest_put_report(&b, &p->report);
    buf_cstr(&b, "  ");
    ft_status st = manifest_put_checksum(&checksum, &b, err);
    const char *path = path_join(&a, dir, name);
    if (st == FT_OK && path == NULL)
        st = ft_fail_memory(err, strlen(dir), "a path");
    if (st == FT_OK)
        st = file_publish(path, b.data, b.len, err);
    buf_free(&b);
    arena_destroy(&a);
    return st;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Leaves *out empty when the member is null. */
static ft_status get_optional_file(struct manifest_file *out, struct shard_counts *counts,
                                   struct arena *a, const json *root, const char *key,
                                   ft_error *err)
{
    const json *o = json_get(root, key);
    if (o != NULL && json_kind(o) == JSON_NULL)
        return FT_OK;
    FT_TRY(json_need(&o, root, key, JSON_OBJECT, err));
    if (manifest_get_file(out, a, o, err) != FT_OK ||
        (counts != NULL && manifest_get_counts(counts, o, err) != FT_OK))
        return ft_wrap(err, "%s", key);
    return FT_OK;
}

/* The rows file has one entry per sample, and the samples are what the report says. */
static ft_status check_sums(const struct part *p, ft_error *err)
{
    uint64_t samples = 0, tokens = 0;
    for (int s = 0; s < SPLITS; s++) {
        const struct shard_counts *c = &p->splits[s].counts;
        if ((p->splits[s].file.name == NULL) != (c->n_samples == 0) || c->n_trained > c->n_tokens)
            return ft_fail(err, FT_EFORMAT, "%s: the counts contradict each other", split_names[s]);
        samples += c->n_samples;
        tokens += c->n_tokens;
    }
    if (p->rows.bytes != samples * PART_ROW_BYTES || samples != report_samples(&p->report) ||
        tokens != report_stored_tokens(&p->report))
        return ft_fail(err, FT_EFORMAT, "the samples do not add up to the report");
    return FT_OK;
}

static ft_status get_all(struct part *p, const json *root, size_t n_sources, ft_error *err)
{
    const json *report;
    FT_TRY(manifest_get_format(root, FORMAT_NAME, PART_VERSION, err));
    FT_TRY(manifest_get_hash(&p->key, root, "key", err));
    for (int s = 0; s < SPLITS; s++)
        FT_TRY(get_optional_file(&p->splits[s].file, &p->splits[s].counts, &p->arena, root,
                                 split_names[s], err));
    FT_TRY(get_optional_file(&p->rows, NULL, &p->arena, root, "rows", err));
    FT_TRY(json_need(&report, root, "report", JSON_OBJECT, err));
    FT_TRY(manifest_get_report(&p->report, &p->arena, report, n_sources, err));
    return check_sums(p, err);
}

ft_status part_parse(struct part *out, const char *name, str text, size_t n_sources, ft_error *err)
{
    struct json_doc *doc;
    hash128 checksum;
    *out = (struct part){0};
    FT_TRY(json_parse(&doc, name, text, JSON_STRICT, err));
    const json *root = json_root(doc);
    ft_status st = get_all(out, root, n_sources, err);
    if (st == FT_OK)
        st = manifest_get_checksum(&checksum, text, root, err);
    json_close(doc);
    if (st == FT_OK)
        return FT_OK;
    part_free(out);
    return ft_wrap(err, "%s", name);
}

ft_status part_load(struct part *out, const char *dir, hash128 key, size_t n_sources, ft_error *err)
{
    struct arena a = {0};
    char name[PART_NAME_BYTES];
    str text;
    *out = (struct part){0};
    part_name(name, key, "json");
    const char *path = path_join(&a, dir, name);
    ft_status st = path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
    if (st == FT_OK)
        st = file_read_all(&text, &a, path, MAX_BYTES, err);
    if (st == FT_OK)
        st = part_parse(out, path, text, n_sources, err);
    if (st == FT_OK && !hash128_eq(out->key, key)) {
        st = ft_fail(err, FT_EFORMAT, "%s: describes another part", path);
        part_free(out);
    }
    arena_destroy(&a);
    return st;
}

ft_status part_check(const struct part *p, const char *dir, ft_error *err)
{
    for (int s = 0; s < SPLITS; s++)
        FT_TRY(manifest_check_file(&p->splits[s].file, dir, err));
    return manifest_check_file(&p->rows, dir, err);
}
