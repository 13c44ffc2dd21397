/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/manifest.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/json.h"

enum { MAX_BYTES = 256 << 20, MAX_NAME = 64 };

#define FORMAT_NAME "fttrain-dataset"
/* The checksum is the last member and covers every byte before this text. */
#define CHECKSUM_MARK "\"checksum\""
#define MAX_COUNT     INT64_C(9007199254740992) /* 2^53: exact in any JSON reader */

const char *const split_names[SPLITS] = {"train", "eval"};
const char *const row_fate_names[ROW_FATES] = {"kept", "invalid", "no_assistant", "untrained",
                                               "too_long"};
const char *const row_note_names[ROW_NOTES] = {"trailing_messages", "empty_assistant",
                                               "cut_tokens",        "leading_messages",
                                               "special_tokens",    "merged_messages"};
const char *const source_use_names[] = {"train", "eval", "both"};

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
    uint64_t n = r->notes[NOTE_CUT].amount;
    for (int f = 0; f < ROW_FATES; f++)
        n += r->fates[f].amount;
    return n;
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

ft_status manifest_file_of(struct manifest_file *out, struct manifest *m, const char *dir,
                           const char *name, ft_error *err)
{
    struct file_map map;
    const char *path = path_join(&m->arena, dir, name);
    *out = (struct manifest_file){.name = arena_cstr(&m->arena, str_from(name))};
    if (path == NULL || out->name == NULL)
        return ft_fail_memory(err, strlen(name), "a path");
    FT_TRY(file_map_open(&map, path, err));
    file_map_advise_sequential(&map);
    out->bytes = map.bytes;
    out->hash = hash128_of(map.data, map.bytes);
    file_map_close(&map);
    return FT_OK;
}

/* --- writing --------------------------------------------------------------------------------- */

static void put_hash(struct buf *b, const char *key, hash128 h)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, h);
    buf_printf(b, "\"%s\": \"%s\"", key, hex);
}

static void put_text(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, "\"%s\": ", key);
    json_write_str(b, str_from(value));
}

/* What a manifest without the key means. */
static const char *or_else(const char *text, const char *fallback)
{
    return text == NULL ? fallback : text;
}

static void put_options(struct buf *b, const struct manifest_options *o)
{
    char fraction[32];
    double back;
    snprintf(fraction, sizeof fraction, "%.15g", o->eval_fraction);
    if (!str_to_f64(str_from(fraction), &back) || back != o->eval_fraction)
        snprintf(fraction, sizeof fraction, "%.17g", o->eval_fraction);
    buf_printf(b,
               "{\"max_length\": %" PRId64 ", \"too_long\": \"%s\", \"on_error\": \"%s\", "
               "\"strict\": %s, \"content_specials\": \"%s\", \"merge_consecutive\": %s, ",
               o->max_length, o->truncate ? "truncate" : "drop", o->skip_errors ? "skip" : "stop",
               o->strict ? "true" : "false", o->parse_specials ? "parse" : "literal",
               o->merge ? "true" : "false");
    put_text(b, "rows", or_else(o->rows, "auto"));
    buf_cstr(b, ", ");
    put_text(b, "train_on", or_else(o->train_on, "assistant"));
    buf_printf(b,
               ", \"eval_fraction\": %s, \"shard_bytes\": %" PRId64
               ", \"compression_level\": %" PRId64 "}",
               fraction, o->shard_bytes, o->compression_level);
}

static void put_file(struct buf *b, const struct manifest_file *f)
{
    put_text(b, "file", f->name);
    buf_printf(b, ", \"bytes\": %" PRIu64 ", ", f->bytes);
    put_hash(b, "hash", f->hash);
}

static void put_sources(struct buf *b, const struct manifest *m)
{
    buf_cstr(b, "  \"sources\": [");
    for (size_t i = 0; i < m->n_sources; i++) {
        const struct manifest_source *s = &m->sources[i];
        buf_cstr(b, i == 0 ? "\n    {" : ",\n    {");
        put_text(b, "path", s->path);
        buf_printf(b, ", \"bytes\": %" PRIu64 ", \"rows\": %" PRIu64 ", \"use\": \"%s\", ",
                   s->bytes, s->rows, source_use_names[s->use]);
        put_hash(b, "hash", s->hash);
        buf_byte(b, '}');
    }
    buf_cstr(b, "\n  ],\n");
}

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
        put_file(b, &d->file);
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
    put_file(b, &s->packs);
    buf_printf(b, ", \"bins\": %" PRIu64 ", \"length\": %" PRIu32 "}}", s->info.n_packs,
               s->info.pack_length);
}

static void put_report_line(struct buf *b, const char *name, const struct report_line *l,
                            const char *amount)
{
    buf_printf(b, "      \"%s\": {\"rows\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"examples\": [",
               name, l->rows, amount, l->amount);
    for (size_t i = 0; i < l->n_examples; i++) {
        const struct report_example *e = &l->examples[i];
        buf_printf(b,
                   "%s\n        {\"source\": %" PRIu32 ", \"row\": %" PRIu64 ", \"line\": %" PRIu64
                   ", ",
                   i == 0 ? "" : ",", e->source, e->row, e->line);
        put_text(b, "text", e->text);
        buf_byte(b, '}');
    }
    buf_cstr(b, l->n_examples > 0 ? "\n      ]}" : "]}");
}

static void put_report(struct buf *b, const struct report *r)
{
    buf_printf(b, "  \"report\": {\n    \"rows\": %" PRIu64 ", \"tokens\": %" PRIu64 ",\n",
               report_rows(r), report_tokens(r));
    buf_cstr(b, "    \"fates\": {\n");
    for (int f = 0; f < ROW_FATES; f++) {
        put_report_line(b, row_fate_names[f], &r->fates[f], "tokens");
        buf_cstr(b, f + 1 < ROW_FATES ? ",\n" : "\n    },\n");
    }
    buf_cstr(b, "    \"notes\": {\n");
    for (int n = 0; n < ROW_NOTES; n++) {
        put_report_line(b, row_note_names[n], &r->notes[n], "amount");
        buf_cstr(b, n + 1 < ROW_NOTES ? ",\n" : "\n    }\n  },\n");
    }
}

static void render(struct buf *b, const struct manifest *m)
{
    buf_printf(b, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  ", FORMAT_NAME,
               MANIFEST_VERSION);
    put_text(b, "tool", m->tool);
    buf_cstr(b, ",\n  ");
    put_text(b, "template", m->chat_template);
    buf_cstr(b, ",\n  ");
    put_text(b, "template_source", or_else(m->template_source, ""));
    buf_printf(b, ",\n  \"vocab\": %" PRId64 ",\n  \"token_bytes\": %" PRIu32 ",\n", m->n_vocab,
               m->token_bytes);
    buf_cstr(b, "  \"tokenizer\": {");
    put_file(b, &m->tokenizer);
    buf_cstr(b, ", ");
    put_hash(b, "fingerprint", m->tokenizer_fingerprint);
    buf_cstr(b, "},\n  \"options\": ");
    put_options(b, &m->options);
    buf_cstr(b, ",\n");
    put_sources(b, m);
    buf_cstr(b, "  \"splits\": {\n");
    for (int s = 0; s < SPLITS; s++) {
        put_split(b, split_names[s], &m->splits[s]);
        buf_cstr(b, s + 1 < SPLITS ? ",\n" : "\n  },\n");
    }
    put_report(b, &m->report);
    buf_cstr(b, "  ");
}

ft_status manifest_write(struct manifest *m, const char *dir, ft_error *err)
{
    struct buf b = {0};
    char hex[HASH_HEX_LEN + 1];
    const char *path = path_join(&m->arena, dir, MANIFEST_FILE);
    if (path == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    render(&b, m);
    ft_status st = buf_status(&b, "the manifest", err);
    if (st == FT_OK) {
        m->fingerprint = hash128_of(b.data, b.len);
        hash128_hex(hex, m->fingerprint);
        buf_printf(&b, CHECKSUM_MARK ": \"%s\"\n}\n", hex);
        st = buf_status(&b, "the manifest", err);
    }
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

ft_status manifest_build_key(hash128 *out, const struct manifest *m, ft_error *err)
{
    struct hasher *h;
    struct buf options = {0};
    put_options(&options, &m->options);
    ft_status st = buf_status(&options, "the options", err);
    if (st == FT_OK)
        st = hasher_create(&h, err);
    if (st == FT_OK) {
        hasher_field(h, str_from(m->tool));
        hasher_field(h, str_from(m->chat_template));
        hasher_field(h, str_from(or_else(m->template_source, "")));
        hasher_field(h, buf_view(&options));
        hash_field_hash(h, m->tokenizer_fingerprint);
        for (size_t i = 0; i < m->n_sources; i++) {
            hasher_field(h, str_from(m->sources[i].path));
            hasher_field(h, str_from(source_use_names[m->sources[i].use]));
            hash_field_hash(h, m->sources[i].hash);
        }
        *out = hasher_digest(h);
        hasher_destroy(h);
    }
    buf_free(&options);
    return st;
}

/* --- reading --------------------------------------------------------------------------------- */

static ft_status get_count(uint64_t *out, const json *o, const char *key, int64_t max,
                           ft_error *err)
{
    int64_t v;
    FT_TRY(json_need_i64(&v, o, key, 0, max, err));
    *out = (uint64_t)v;
    return FT_OK;
}

static ft_status get_u32(uint32_t *out, const json *o, const char *key, ft_error *err)
{
    uint64_t v;
    FT_TRY(get_count(&v, o, key, UINT32_MAX, err));
    *out = (uint32_t)v;
    return FT_OK;
}

static ft_status get_text(const char **out, struct manifest *m, const json *o, const char *key,
                          ft_error *err)
{
    str s;
    FT_TRY(json_need_str(&s, o, key, err));
    if (s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL)
        return ft_fail(err, FT_EFORMAT, "\"%s\" contains a NUL character", key);
    *out = arena_cstr(&m->arena, s);
    return *out == NULL ? ft_fail_memory(err, s.len, "the manifest") : FT_OK;
}

/* Manifests of earlier versions lack some keys. */
static ft_status get_opt_text(const char **out, struct manifest *m, const json *o, const char *key,
                              const char *fallback, ft_error *err)
{
    *out = fallback;
    return json_get(o, key) == NULL ? FT_OK : get_text(out, m, o, key, err);
}

static ft_status get_hash(hash128 *out, const json *o, const char *key, ft_error *err)
{
    str s;
    FT_TRY(json_need_str(&s, o, key, err));
    if (!hash128_parse(out, s))
        return ft_fail(err, FT_EFORMAT, "\"%s\" is not 32 hexadecimal digits", key);
    return FT_OK;
}

/* One of names; the index goes to *out. */
static ft_status get_choice(int *out, const json *o, const char *key, const char *const *names,
                            int n, ft_error *err)
{
    str s;
    FT_TRY(json_need_str(&s, o, key, err));
    for (int i = 0; i < n; i++)
        if (str_is(s, names[i])) {
            *out = i;
            return FT_OK;
        }
    return ft_fail(err, FT_EFORMAT, "\"%s\": \"%.*s\" is not known", key, STR_ARG(s));
}

static ft_status get_flag(bool *out, const json *o, const char *key, const char *no,
                          const char *yes, ft_error *err)
{
    const char *const names[] = {no, yes};
    int v = 0;
    FT_TRY(get_choice(&v, o, key, names, 2, err));
    *out = v == 1;
    return FT_OK;
}

/* Names never lead out of the directory. */
static ft_status get_file(struct manifest_file *out, struct manifest *m, const json *o,
                          ft_error *err)
{
    FT_TRY(get_text(&out->name, m, o, "file", err));
    if (out->name[0] == '\0' || out->name[0] == '.' || strchr(out->name, '/') != NULL ||
        strlen(out->name) > MAX_NAME)
        return ft_fail(err, FT_EFORMAT, "\"file\": \"%.80s\" is not a plain file name", out->name);
    FT_TRY(get_count(&out->bytes, o, "bytes", MAX_COUNT, err));
    return get_hash(&out->hash, o, "hash", err);
}

static ft_status get_options(struct manifest *m, const json *o, ft_error *err)
{
    struct manifest_options *out = &m->options;
    const json *v;
    FT_TRY(get_opt_text(&out->rows, m, o, "rows", "auto", err));
    FT_TRY(get_opt_text(&out->train_on, m, o, "train_on", "assistant", err));
    FT_TRY(json_opt_bool(&out->merge, o, "merge_consecutive", false, err));
    FT_TRY(json_need_i64(&out->max_length, o, "max_length", 1, UINT32_MAX, err));
    FT_TRY(get_flag(&out->truncate, o, "too_long", "drop", "truncate", err));
    FT_TRY(get_flag(&out->skip_errors, o, "on_error", "stop", "skip", err));
    FT_TRY(get_flag(&out->parse_specials, o, "content_specials", "literal", "parse", err));
    FT_TRY(json_need(&v, o, "strict", JSON_BOOL, err));
    FT_TRY(json_opt_bool(&out->strict, o, "strict", false, err));
    FT_TRY(json_need(&v, o, "eval_fraction", JSON_NUMBER, err));
    FT_TRY(json_opt_f64(&out->eval_fraction, o, "eval_fraction", 0, err));
    FT_TRY(json_need_i64(&out->shard_bytes, o, "shard_bytes", 1, MAX_COUNT, err));
    return json_need_i64(&out->compression_level, o, "compression_level", 1, 100, err);
}

static ft_status get_source(struct manifest_source *out, struct manifest *m, const json *o,
                            ft_error *err)
{
    int use = 0;
    FT_TRY(get_text(&out->path, m, o, "path", err));
    FT_TRY(get_count(&out->bytes, o, "bytes", MAX_COUNT, err));
    FT_TRY(get_count(&out->rows, o, "rows", MAX_COUNT, err));
    FT_TRY(get_choice(&use, o, "use", source_use_names, ARRAY_LEN(source_use_names), err));
    out->use = (enum source_use)use;
    return get_hash(&out->hash, o, "hash", err);
}

static ft_status get_sources(struct manifest *m, const json *root, ft_error *err)
{
    const json *list;
    size_t i = 0;
    FT_TRY(json_need(&list, root, "sources", JSON_ARRAY, err));
    m->n_sources = json_count(list);
    m->sources = arena_alloc(&m->arena, m->n_sources, sizeof *m->sources);
    if (m->sources == NULL)
        return ft_fail_memory(err, m->n_sources * sizeof *m->sources, "the list of sources");
    for (const json *o = json_first(list); o != NULL; o = json_next(o), i++)
        if (get_source(&m->sources[i], m, o, err) != FT_OK)
            return ft_wrap(err, "sources[%zu]", i);
    return FT_OK;
}

static ft_status get_shard(struct manifest *m, enum dataset_split split, const json *o,
                           ft_error *err)
{
    struct manifest_shard s;
    FT_TRY(get_file(&s.file, m, o, err));
    FT_TRY(get_count(&s.n_samples, o, "samples", MAX_COUNT, err));
    FT_TRY(get_count(&s.n_tokens, o, "tokens", MAX_COUNT, err));
    FT_TRY(get_count(&s.n_trained, o, "trained", MAX_COUNT, err));
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
        if (tokens > MAX_COUNT || samples > MAX_COUNT || trained > MAX_COUNT)
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
    FT_TRY(get_file(&s->packs, m, packs, err));
    FT_TRY(get_count(&s->info.n_packs, packs, "bins", UINT32_MAX, err));
    return get_u32(&s->info.pack_length, packs, "length", err);
}

static ft_status get_split(struct manifest *m, enum dataset_split split, const json *o,
                           ft_error *err)
{
    struct manifest_split *s = &m->splits[split];
    const json *shards;
    FT_TRY(get_count(&s->info.n_samples, o, "samples", UINT32_MAX, err));
    FT_TRY(get_count(&s->info.n_tokens, o, "tokens", MAX_COUNT, err));
    FT_TRY(get_count(&s->info.n_trained, o, "trained", MAX_COUNT, err));
    FT_TRY(get_u32(&s->info.longest, o, "longest", err));
    FT_TRY(get_count(&s->info.longest_sample, o, "longest_sample", UINT32_MAX, err));
    FT_TRY(json_need(&shards, o, "shards", JSON_ARRAY, err));
    for (const json *d = json_first(shards); d != NULL; d = json_next(d))
        if (get_shard(m, split, d, err) != FT_OK)
            return ft_wrap(err, "shards[%zu]", s->n_shards);
    if (get_packs(m, s, o, err) != FT_OK)
        return ft_wrap(err, "packs");
    return check_sums(s, err);
}

static ft_status get_example(struct report_example *out, struct manifest *m, const json *o,
                             ft_error *err)
{
    FT_TRY(get_u32(&out->source, o, "source", err));
    FT_TRY(get_count(&out->row, o, "row", MAX_COUNT, err));
    FT_TRY(get_count(&out->line, o, "line", MAX_COUNT, err));
    FT_TRY(get_text(&out->text, m, o, "text", err));
    if (out->source >= m->n_sources)
        return ft_fail(err, FT_EFORMAT, "\"source\": there is no source %u", out->source);
    return FT_OK;
}

static ft_status get_report_line(struct report_line *out, struct manifest *m, const json *group,
                                 const char *name, const char *amount, ft_error *err)
{
    const json *line, *examples;
    FT_TRY(json_need(&line, group, name, JSON_OBJECT, err));
    FT_TRY(get_count(&out->rows, line, "rows", MAX_COUNT, err));
    FT_TRY(get_count(&out->amount, line, amount, MAX_COUNT, err));
    FT_TRY(json_need(&examples, line, "examples", JSON_ARRAY, err));
    for (const json *e = json_first(examples); e != NULL && out->n_examples < REPORT_EXAMPLES;
         e = json_next(e))
        FT_TRY(get_example(&out->examples[out->n_examples++], m, e, err));
    return FT_OK;
}

static ft_status get_report(struct manifest *m, const json *root, ft_error *err)
{
    const json *report, *fates, *notes;
    uint64_t rows, tokens;
    FT_TRY(json_need(&report, root, "report", JSON_OBJECT, err));
    FT_TRY(json_need(&fates, report, "fates", JSON_OBJECT, err));
    FT_TRY(json_need(&notes, report, "notes", JSON_OBJECT, err));
    for (int f = 0; f < ROW_FATES; f++)
        if (get_report_line(&m->report.fates[f], m, fates, row_fate_names[f], "tokens", err) !=
            FT_OK)
            return ft_wrap(err, "report.fates.%s", row_fate_names[f]);
    for (int n = 0; n < ROW_NOTES; n++)
        if (json_get(notes, row_note_names[n]) != NULL &&
            get_report_line(&m->report.notes[n], m, notes, row_note_names[n], "amount", err) !=
                FT_OK)
            return ft_wrap(err, "report.notes.%s", row_note_names[n]);
    FT_TRY(get_count(&rows, report, "rows", MAX_COUNT, err));
    FT_TRY(get_count(&tokens, report, "tokens", MAX_COUNT, err));
    if (rows != report_rows(&m->report) || tokens != report_tokens(&m->report))
        return ft_fail(err, FT_EFORMAT, "report: the fates do not add up to the totals");
    return FT_OK;
}

static ft_status get_tokenizer(struct manifest *m, const json *root, ft_error *err)
{
    const json *o;
    FT_TRY(json_need(&o, root, "tokenizer", JSON_OBJECT, err));
    if (get_file(&m->tokenizer, m, o, err) != FT_OK ||
        get_hash(&m->tokenizer_fingerprint, o, "fingerprint", err) != FT_OK)
        return ft_wrap(err, "tokenizer");
    return FT_OK;
}

static ft_status get_all(struct manifest *m, const json *root, ft_error *err)
{
    const json *options, *splits, *o;
    int64_t version, token_bytes;
    str format;
    FT_TRY(json_need_str(&format, root, "format", err));
    if (!str_is(format, FORMAT_NAME))
        return ft_fail(err, FT_EFORMAT, "\"format\" is \"%.*s\", expected \"" FORMAT_NAME "\"",
                       STR_ARG(format));
    FT_TRY(json_need_i64(&version, root, "version", 0, INT32_MAX, err));
    if (version != MANIFEST_VERSION)
        return ft_fail(err, FT_EFORMAT,
                       "\"version\" is %lld, this program reads version %d; build the data set "
                       "again",
                       (long long)version, MANIFEST_VERSION);
    FT_TRY(get_text(&m->tool, m, root, "tool", err));
    FT_TRY(get_text(&m->chat_template, m, root, "template", err));
    FT_TRY(get_opt_text(&m->template_source, m, root, "template_source", "", err));
    FT_TRY(json_need_i64(&m->n_vocab, root, "vocab", 1, INT32_MAX, err));
    FT_TRY(json_need_i64(&token_bytes, root, "token_bytes", 2, 4, err));
    m->token_bytes = (uint32_t)token_bytes;
    FT_TRY(get_tokenizer(m, root, err));
    FT_TRY(json_need(&options, root, "options", JSON_OBJECT, err));
    if (get_options(m, options, err) != FT_OK)
        return ft_wrap(err, "options");
    FT_TRY(get_sources(m, root, err));
    FT_TRY(json_need(&splits, root, "splits", JSON_OBJECT, err));
    for (int s = 0; s < SPLITS; s++) {
        FT_TRY(json_need(&o, splits, split_names[s], JSON_OBJECT, err));
        if (get_split(m, (enum dataset_split)s, o, err) != FT_OK)
            return ft_wrap(err, "splits.%s", split_names[s]);
    }
    return get_report(m, root, err);
}

/* Compares the last member with the hash of everything before it. */
static ft_status check_checksum(hash128 *out, str text, const json *root, ft_error *err)
{
    const size_t mark = sizeof CHECKSUM_MARK - 1;
    size_t at = text.len < mark ? 0 : text.len - mark;
    while (at > 0 && memcmp(text.ptr + at, CHECKSUM_MARK, mark) != 0)
        at--;
    FT_TRY(get_hash(out, root, "checksum", err));
    if (!hash128_eq(*out, hash128_of(text.ptr, at)))
        return ft_fail(err, FT_EFORMAT,
                       "the checksum differs: the file was changed or damaged after the build");
    return FT_OK;
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
        st = check_checksum(&out->fingerprint, text, root, err);
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
