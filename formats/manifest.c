/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/manifest.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/manifest_json.h"

enum { MAX_BYTES = 256 << 20 };

#define FORMAT_NAME "fttrain-dataset"

const char *const split_names[SPLITS] = {"train", "eval"};
const char *const row_fate_names[ROW_FATES] = {"kept",      "invalid",  "no_assistant",
                                               "untrained", "too_long", "unselected"};
const char *const row_note_names[ROW_NOTES] = {
    "trailing_messages", "empty_assistant", "cut_tokens",    "leading_messages", "special_tokens",
    "merged_messages",   "split_rows",      "dropped_turns", "duplicates",       "repeated"};
const char *const source_use_names[] = {"train", "eval", "both"};
const char *const too_long_names[] = {"drop", "truncate", "split", "error"};

void manifest_free(struct manifest *m)
{
    arena_destroy(&m->arena);
    *m = (struct manifest){0};
}

uint64_t report_rows(const struct report *r)
{
    uint64_t n = 0;
    for (int f = 0; f < ROW_FATES; f++)
        n += r->fates[f].rows;
    return n;
}

uint64_t report_tokens(const struct report *r)
{
    uint64_t n = r->notes[NOTE_CUT].amount + r->notes[NOTE_DROPPED_TURNS].amount;
    for (int f = 0; f < ROW_FATES; f++)
        n += r->fates[f].amount;
    return n;
}

uint64_t report_samples(const struct report *r)
{
    return r->fates[ROW_KEPT].rows + r->notes[NOTE_SPLIT].amount - r->notes[NOTE_DUPLICATE].rows +
           r->notes[NOTE_REPEATED].rows;
}

uint64_t report_stored_tokens(const struct report *r)
{
    return r->fates[ROW_KEPT].amount - r->notes[NOTE_DUPLICATE].amount +
           r->notes[NOTE_REPEATED].amount;
}

ft_status manifest_add_shard(struct manifest *m, enum dataset_split split,
                             const struct manifest_shard *shard, ft_error *err)
{
    struct manifest_split *s = &m->splits[split];
    if ((s->n_shards & (s->n_shards - 1)) == 0) { /* full at every power of two */
        struct manifest_shard *grown =
            arena_alloc(&m->arena, FT_MAX(s->n_shards * 2, (size_t)1), sizeof *grown);
        if (grown == NULL)
            return ft_fail_memory(err, s->n_shards * sizeof *grown, "the shard list");
        if (s->n_shards > 0)
            memcpy(grown, s->shards, s->n_shards * sizeof *grown);
        s->shards = grown;
    }
    s->shards[s->n_shards++] = *shard;
    return FT_OK;
}

ft_status manifest_file_of(struct manifest_file *out, struct arena *a, const char *dir,
                           const char *name, ft_error *err)
{
    struct file_map map;
    const char *path = path_join(a, dir, name);
    *out = (struct manifest_file){.name = arena_cstr(a, str_from(name))};
    if (path == NULL || out->name == NULL)
        return ft_fail_memory(err, strlen(name), "a path");
    FT_TRY(file_map_open(&map, path, err));
    file_map_advise_sequential(&map);
    out->bytes = map.bytes;
    out->hash = hash128_of(map.data, map.bytes);
    file_map_close(&map);
    return FT_OK;
}

ft_status manifest_check_file(const struct manifest_file *f, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct file_map map;
    if (f->name == NULL)
        return FT_OK;
    const char *path = path_join(&a, dir, f->name);
    ft_status st =
        path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : file_map_open(&map, path, err);
    if (st == FT_OK) {
        file_map_advise_sequential(&map);
        if (map.bytes != f->bytes || !hash128_eq(hash128_of(map.data, map.bytes), f->hash))
            st = ft_fail(err, FT_EFORMAT,
                         "%s: the content differs from what was built (size or XXH3-128)", path);
        file_map_close(&map);
    }
    arena_destroy(&a);
    return st;
}

/* --- writing --------------------------------------------------------------------------------- */

static void put_split(struct buf *b, const char *name, const struct manifest_split *s)
{
    buf_printf(b,
               "    \"%s\": {\"samples\": %" PRIu64 ", \"tokens\": %" PRIu64
               ", \"trained\": %" PRIu64 ", \"longest\": %" PRIu32 ", \"longest_sample\": %" PRIu64
               ",\n      \"shards\": [",
               name, s->info.n_samples, s->info.n_tokens, s->info.n_trained, s->info.longest,
               s->info.longest_sample);
    for (size_t i = 0; i < s->n_shards; i++) {
        const struct manifest_shard *d = &s->shards[i];
        buf_cstr(b, i == 0 ? "\n        {" : ",\n        {");
        manifest_put_file(b, &d->file);
        buf_printf(b,
                   ", \"samples\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"trained\": %" PRIu64 "}",
                   d->n_samples, d->n_tokens, d->n_trained);
    }
    buf_cstr(b, "\n      ],\n      \"packs\": ");
    if (s->packs.name == NULL) {
        buf_cstr(b, "null}");
        return;
    }
    buf_byte(b, '{');
    manifest_put_file(b, &s->packs);
    buf_printf(b, ", \"bins\": %" PRIu64 ", \"length\": %" PRIu32 "}}", s->info.n_packs,
               s->info.pack_length);
}

static void render(struct buf *b, const struct manifest *m)
{
    buf_printf(b, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n", FORMAT_NAME, MANIFEST_VERSION);
    manifest_put_recipe(b, m);
    manifest_put_sources(b, m);
    buf_cstr(b, "  \"splits\": {\n");
    for (int s = 0; s < SPLITS; s++) {
        put_split(b, split_names[s], &m->splits[s]);
        buf_cstr(b, s + 1 < SPLITS ? ",\n" : "\n  },\n");
    }
    manifest_put_report(b, &m->report);
    buf_cstr(b, "  ");
}

ft_status manifest_write(struct manifest *m, const char *dir, ft_error *err)
{
    struct buf b = {0};
    const char *path = path_join(&m->arena, dir, MANIFEST_FILE);
    if (path == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    render(&b, m);
    ft_status st = manifest_put_checksum(&m->fingerprint, &b, err);
    if (st == FT_OK)
        st = file_publish(path, b.data, b.len, err);
    buf_free(&b);
    return st;
}

static void hash_field_hash(struct hasher *h, hash128 v)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, v);
    hasher_field(h, str_from(hex));
}

ft_status manifest_hash_recipe(struct hasher *h, const struct manifest *m, ft_error *err)
{
    struct buf options = {0};
    manifest_put_options(&options, &m->options);
    ft_status st = buf_status(&options, "the options", err);
    hasher_field(h, str_from(m->tool));
    hasher_field(h, str_from(m->chat_template));
    hasher_field(h, str_from(m->template_source == NULL ? "" : m->template_source));
    hash_field_hash(h, m->template_hash);
    hash_field_hash(h, m->tokenizer_fingerprint);
    hasher_field(h, buf_view(&options));
    buf_free(&options);
    return st;
}

static void put_group_key(struct buf *b, const struct manifest_group *g)
{
    manifest_put_text(b, "name", g->name);
    manifest_put_times(b, g);
}

static void put_source_key(struct buf *b, const struct manifest_source *s)
{
    manifest_put_text(b, "path", s->path);
    buf_printf(b, "%" PRIu32 " %s ", s->group, source_use_names[s->use]);
    manifest_put_hash(b, "hash", s->hash);
}

ft_status manifest_build_key(hash128 *out, const struct manifest *m, ft_error *err)
{
    struct hasher *h;
    struct buf text = {0};
    FT_TRY(hasher_create(&h, err));
    for (size_t i = 0; i < m->n_groups; i++)
        put_group_key(&text, &m->groups[i]);
    for (size_t i = 0; i < m->n_sources; i++)
        put_source_key(&text, &m->sources[i]);
    ft_status st = buf_status(&text, "the list of sources", err);
    if (st == FT_OK)
        st = manifest_hash_recipe(h, m, err);
    hasher_field(h, buf_view(&text));
    *out = hasher_digest(h);
    hasher_destroy(h);
    buf_free(&text);
    return st;
}

/* --- reading --------------------------------------------------------------------------------- */

static ft_status get_shard(struct manifest *m, enum dataset_split split, const json *o,
                           ft_error *err)
{
    struct manifest_shard s;
    struct shard_counts c;
    FT_TRY(manifest_get_file(&s.file, &m->arena, o, err));
    FT_TRY(manifest_get_counts(&c, o, err));
    s.n_samples = c.n_samples;
    s.n_tokens = c.n_tokens;
    s.n_trained = c.n_trained;
    return manifest_add_shard(m, split, &s, err);
}

/* The totals of a split are the sums over its shards. */
static ft_status check_sums(const struct manifest_split *s, ft_error *err)
{
    const struct split_info *i = &s->info;
    uint64_t samples = 0, tokens = 0, trained = 0; /* each term is at most 2^53: no overflow */
    for (size_t k = 0; k < s->n_shards; k++) {
        samples += s->shards[k].n_samples;
        tokens += s->shards[k].n_tokens;
        trained += s->shards[k].n_trained;
        if (tokens > MANIFEST_MAX_COUNT || samples > MANIFEST_MAX_COUNT ||
            trained > MANIFEST_MAX_COUNT)
            break;
    }
    if (samples != i->n_samples || tokens != i->n_tokens || trained != i->n_trained)
        return ft_fail(err, FT_EFORMAT, "the shards do not add up to the totals");
    if (trained > tokens || i->longest > tokens || (samples > 0 && i->longest == 0) ||
        (i->longest_sample > 0 && i->longest_sample >= samples))
        return ft_fail(err, FT_EFORMAT, "the totals contradict each other");
    return FT_OK;
}

static ft_status get_packs(struct manifest *m, struct manifest_split *s, const json *o,
                           ft_error *err)
{
    const json *packs = json_get(o, "packs");
    if (packs == NULL || json_kind(packs) == JSON_NULL)
        return FT_OK;
    FT_TRY(manifest_get_file(&s->packs, &m->arena, packs, err));
    FT_TRY(manifest_get_count(&s->info.n_packs, packs, "bins", UINT32_MAX, err));
    return manifest_get_u32(&s->info.pack_length, packs, "length", err);
}

static ft_status get_split(struct manifest *m, enum dataset_split split, const json *o,
                           ft_error *err)
{
    struct manifest_split *s = &m->splits[split];
    const json *shards;
    FT_TRY(manifest_get_count(&s->info.n_samples, o, "samples", UINT32_MAX, err));
    FT_TRY(manifest_get_count(&s->info.n_tokens, o, "tokens", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&s->info.n_trained, o, "trained", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_u32(&s->info.longest, o, "longest", err));
    FT_TRY(manifest_get_count(&s->info.longest_sample, o, "longest_sample", UINT32_MAX, err));
    FT_TRY(json_need(&shards, o, "shards", JSON_ARRAY, err));
    for (const json *d = json_first(shards); d != NULL; d = json_next(d))
        if (get_shard(m, split, d, err) != FT_OK)
            return ft_wrap(err, "shards[%zu]", s->n_shards);
    if (get_packs(m, s, o, err) != FT_OK)
        return ft_wrap(err, "packs");
    return check_sums(s, err);
}

static ft_status get_all(struct manifest *m, const json *root, ft_error *err)
{
    const json *splits, *report, *o;
    FT_TRY(manifest_get_format(root, FORMAT_NAME, MANIFEST_VERSION, err));
    FT_TRY(manifest_get_recipe(m, root, err));
    FT_TRY(manifest_get_sources(m, root, err));
    FT_TRY(json_need(&splits, root, "splits", JSON_OBJECT, err));
    for (int s = 0; s < SPLITS; s++) {
        FT_TRY(json_need(&o, splits, split_names[s], JSON_OBJECT, err));
        if (get_split(m, (enum dataset_split)s, o, err) != FT_OK)
            return ft_wrap(err, "splits.%s", split_names[s]);
    }
    FT_TRY(json_need(&report, root, "report", JSON_OBJECT, err));
    return manifest_get_report(&m->report, &m->arena, report, m->n_sources, err);
}

ft_status manifest_parse(struct manifest *out, const char *name, str text, ft_error *err)
{
    struct json_doc *doc;
    *out = (struct manifest){0};
    FT_TRY(json_parse(&doc, name, text, JSON_STRICT, err));
    const json *root = json_root(doc);
    ft_status st = FT_OK;
    if (json_kind(root) != JSON_OBJECT)
        st = ft_fail(err, FT_EFORMAT, "expected an object, found %s",
                     json_kind_name(json_kind(root)));
    if (st == FT_OK)
        st = get_all(out, root, err);
    if (st == FT_OK)
        st = manifest_get_checksum(&out->fingerprint, text, root, err);
    json_close(doc);
    if (st == FT_OK)
        return FT_OK;
    manifest_free(out);
    return ft_wrap(err, "%s", name);
}

ft_status manifest_load(struct manifest *out, const char *dir, ft_error *err)
{
    struct arena a = {0};
    str text;
    *out = (struct manifest){0};
    const char *path = path_join(&a, dir, MANIFEST_FILE);
    ft_status st = path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
    if (st == FT_OK && path_is_dir(dir) && !path_exists(path))
        st = ft_fail(err, FT_EFORMAT,
                     "%s: not a data set: there is no " MANIFEST_FILE
                     " (a build that did not finish leaves none); run 'ftprep build'",
                     dir);
    if (st == FT_OK)
        st = file_read_all(&text, &a, path, MAX_BYTES, err);
    if (st == FT_OK)
        st = manifest_parse(out, path, text, err);
    arena_destroy(&a);
    return st;
}
