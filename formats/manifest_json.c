/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/manifest_json.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NAME = 64 };

/* The checksum is the last member and covers every byte before this text. */
#define CHECKSUM_MARK "\"checksum\""

/* --- writing --------------------------------------------------------------------------------- */

void manifest_put_hash(struct buf *b, const char *key, hash128 h)
{
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, h);
    buf_printf(b, "\"%s\": \"%s\"", key, hex);
}

void manifest_put_text(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, "\"%s\": ", key);
    json_write_str(b, str_from(value));
}

void manifest_put_file(struct buf *b, const struct manifest_file *f)
{
    manifest_put_text(b, "file", f->name);
    buf_printf(b, ", \"bytes\": %" PRIu64 ", ", f->bytes);
    manifest_put_hash(b, "hash", f->hash);
}

void manifest_put_counts(struct buf *b, const struct shard_counts *c)
{
    buf_printf(b, "\"samples\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"trained\": %" PRIu64,
               c->n_samples, c->n_tokens, c->n_trained);
}

/* The shortest form that reads back to the same value. */
static void put_number(struct buf *b, const char *key, double v)
{
    char text[32];
    double back;
    snprintf(text, sizeof text, "%.15g", v);
    if (!str_to_f64(str_from(text), &back) || back != v)
        snprintf(text, sizeof text, "%.17g", v);
    buf_printf(b, "\"%s\": %s", key, text);
}

/* What a manifest without the key means. */
static const char *or_else(const char *text, const char *fallback)
{
    return text == NULL ? fallback : text;
}

void manifest_put_options(struct buf *b, const struct manifest_options *o)
{
    buf_printf(b,
               "{\"max_length\": %" PRId64 ", \"too_long\": \"%s\", \"on_error\": \"%s\", "
               "\"strict\": %s, \"content_specials\": \"%s\", \"merge_consecutive\": %s, "
               "\"dedup\": %s, ",
               o->max_length, too_long_names[o->too_long], o->skip_errors ? "skip" : "stop",
               o->strict ? "true" : "false", o->parse_specials ? "parse" : "literal",
               o->merge ? "true" : "false", o->dedup ? "true" : "false");
    manifest_put_text(b, "rows", or_else(o->rows, "auto"));
    buf_cstr(b, ", ");
    manifest_put_text(b, "train_on", or_else(o->train_on, "assistant"));
    buf_cstr(b, ", ");
    put_number(b, "eval_fraction", o->eval_fraction);
    buf_printf(b,
               ", \"seed\": %" PRId64 ", \"part_bytes\": %" PRId64 ", \"shard_bytes\": %" PRId64
               ", \"compression_level\": %" PRId64 "}",
               o->seed, o->part_bytes, o->shard_bytes, o->compression_level);
}

void manifest_put_times(struct buf *b, const struct manifest_group *g)
{
    put_number(b, "weight", g->weight);
    buf_printf(b, ", \"repeat\": %" PRId64 ", \"limit\": %" PRId64, g->repeat, g->limit);
}

static void put_group(struct buf *b, const struct manifest_group *g)
{
    manifest_put_text(b, "name", g->name);
    buf_cstr(b, ", ");
    manifest_put_times(b, g);
    buf_cstr(b, ", ");
    manifest_put_counts(b, &g->stored);
}

static void put_source(struct buf *b, const struct manifest_source *s)
{
    manifest_put_text(b, "path", s->path);
    buf_printf(b,
               ", \"group\": %" PRIu32 ", \"bytes\": %" PRIu64 ", \"rows\": %" PRIu64
               ", \"use\": \"%s\", ",
               s->group, s->bytes, s->rows, source_use_names[s->use]);
    manifest_put_hash(b, "hash", s->hash);
}

void manifest_put_sources(struct buf *b, const struct manifest *m)
{
    buf_cstr(b, "  \"groups\": [");
    for (size_t i = 0; i < m->n_groups; i++) {
        buf_cstr(b, i == 0 ? "\n    {" : ",\n    {");
        put_group(b, &m->groups[i]);
        buf_byte(b, '}');
    }
    buf_cstr(b, "\n  ],\n  \"sources\": [");
    for (size_t i = 0; i < m->n_sources; i++) {
        buf_cstr(b, i == 0 ? "\n    {" : ",\n    {");
        put_source(b, &m->sources[i]);
        buf_byte(b, '}');
    }
    buf_cstr(b, "\n  ],\n");
}

void manifest_put_recipe(struct buf *b, const struct manifest *m)
{
    buf_cstr(b, "  ");
    manifest_put_text(b, "tool", m->tool);
    buf_cstr(b, ",\n  ");
    manifest_put_text(b, "template", m->chat_template);
    buf_cstr(b, ",\n  ");
    manifest_put_text(b, "template_source", or_else(m->template_source, ""));
    buf_cstr(b, ",\n  ");
    manifest_put_hash(b, "template_hash", m->template_hash);
    buf_printf(b, ",\n  \"vocab\": %" PRId64 ",\n  \"token_bytes\": %" PRIu32 ",\n", m->n_vocab,
               m->token_bytes);
    buf_cstr(b, "  \"tokenizer\": {");
    manifest_put_file(b, &m->tokenizer);
    buf_cstr(b, ", ");
    manifest_put_hash(b, "fingerprint", m->tokenizer_fingerprint);
    buf_cstr(b, "},\n  \"options\": ");
    manifest_put_options(b, &m->options);
    buf_cstr(b, ",\n");
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
        manifest_put_text(b, "text", e->text);
        buf_byte(b, '}');
    }
    buf_cstr(b, l->n_examples > 0 ? "\n      ]}" : "]}");
}

void manifest_put_report(struct buf *b, const struct report *r)
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

ft_status manifest_put_checksum(hash128 *out, struct buf *b, ft_error *err)
{
    char hex[HASH_HEX_LEN + 1];
    FT_TRY(buf_status(b, "a manifest", err));
    *out = hash128_of(b->data, b->len);
    hash128_hex(hex, *out);
    buf_printf(b, CHECKSUM_MARK ": \"%s\"\n}\n", hex);
    return buf_status(b, "a manifest", err);
}

/* --- reading --------------------------------------------------------------------------------- */

ft_status manifest_get_count(uint64_t *out, const json *o, const char *key, int64_t max,
                             ft_error *err)
{
    int64_t v;
    FT_TRY(json_need_i64(&v, o, key, 0, max, err));
    *out = (uint64_t)v;
    return FT_OK;
}

ft_status manifest_get_u32(uint32_t *out, const json *o, const char *key, ft_error *err)
{
    uint64_t v;
    FT_TRY(manifest_get_count(&v, o, key, UINT32_MAX, err));
    *out = (uint32_t)v;
    return FT_OK;
}

ft_status manifest_get_text(const char **out, struct arena *a, const json *o, const char *key,
                            ft_error *err)
{
    str s;
    FT_TRY(json_need_str(&s, o, key, err));
    if (s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL)
        return ft_fail(err, FT_EFORMAT, "\"%s\" contains a NUL character", key);
    *out = arena_cstr(a, s);
    return *out == NULL ? ft_fail_memory(err, s.len, "the manifest") : FT_OK;
}

ft_status manifest_get_hash(hash128 *out, const json *o, const char *key, ft_error *err)
{
    str s;
    FT_TRY(json_need_str(&s, o, key, err));
    if (!hash128_parse(out, s))
        return ft_fail(err, FT_EFORMAT, "\"%s\" is not 32 hexadecimal digits", key);
    return FT_OK;
}

ft_status manifest_get_choice(int *out, const json *o, const char *key, const char *const *names,
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
    FT_TRY(manifest_get_choice(&v, o, key, names, 2, err));
    *out = v == 1;
    return FT_OK;
}

/* Names never lead out of the directory. */
ft_status manifest_get_file(struct manifest_file *out, struct arena *a, const json *o,
                            ft_error *err)
{
    FT_TRY(manifest_get_text(&out->name, a, o, "file", err));
    if (out->name[0] == '\0' || out->name[0] == '.' || strchr(out->name, '/') != NULL ||
        strlen(out->name) > MAX_NAME)
        return ft_fail(err, FT_EFORMAT, "\"file\": \"%.80s\" is not a plain file name", out->name);
    FT_TRY(manifest_get_count(&out->bytes, o, "bytes", MANIFEST_MAX_COUNT, err));
    return manifest_get_hash(&out->hash, o, "hash", err);
}

ft_status manifest_get_counts(struct shard_counts *out, const json *o, ft_error *err)
{
    FT_TRY(manifest_get_count(&out->n_samples, o, "samples", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&out->n_tokens, o, "tokens", MANIFEST_MAX_COUNT, err));
    return manifest_get_count(&out->n_trained, o, "trained", MANIFEST_MAX_COUNT, err);
}

/* Manifests of earlier versions lack some keys. */
static ft_status get_opt_text(const char **out, struct arena *a, const json *o, const char *key,
                              const char *fallback, ft_error *err)
{
    *out = fallback;
    return json_get(o, key) == NULL ? FT_OK : manifest_get_text(out, a, o, key, err);
}

ft_status manifest_get_options(struct manifest_options *out, struct arena *a, const json *o,
                               ft_error *err)
{
    const json *v;
    FT_TRY(get_opt_text(&out->rows, a, o, "rows", "auto", err));
    FT_TRY(get_opt_text(&out->train_on, a, o, "train_on", "assistant", err));
    FT_TRY(json_opt_bool(&out->merge, o, "merge_consecutive", false, err));
    int choice = 0;
    FT_TRY(json_need_i64(&out->max_length, o, "max_length", 1, UINT32_MAX, err));
    FT_TRY(manifest_get_choice(&choice, o, "too_long", too_long_names, TOO_LONG_ERROR + 1, err));
    out->too_long = (enum too_long)choice;
    FT_TRY(get_flag(&out->skip_errors, o, "on_error", "stop", "skip", err));
    FT_TRY(get_flag(&out->parse_specials, o, "content_specials", "literal", "parse", err));
    FT_TRY(json_need(&v, o, "strict", JSON_BOOL, err));
    FT_TRY(json_opt_bool(&out->strict, o, "strict", false, err));
    FT_TRY(json_opt_bool(&out->dedup, o, "dedup", false, err));
    FT_TRY(json_need(&v, o, "eval_fraction", JSON_NUMBER, err));
    FT_TRY(json_opt_f64(&out->eval_fraction, o, "eval_fraction", 0, err));
    FT_TRY(json_opt_i64(&out->seed, o, "seed", 0, 0, MANIFEST_MAX_COUNT, err));
    FT_TRY(json_opt_i64(&out->part_bytes, o, "part_bytes", 0, 0, MANIFEST_MAX_COUNT, err));
    FT_TRY(json_need_i64(&out->shard_bytes, o, "shard_bytes", 1, MANIFEST_MAX_COUNT, err));
    return json_need_i64(&out->compression_level, o, "compression_level", 1, 100, err);
}

static ft_status get_tokenizer(struct manifest *m, const json *root, ft_error *err)
{
    const json *o;
    FT_TRY(json_need(&o, root, "tokenizer", JSON_OBJECT, err));
    if (manifest_get_file(&m->tokenizer, &m->arena, o, err) != FT_OK ||
        manifest_get_hash(&m->tokenizer_fingerprint, o, "fingerprint", err) != FT_OK)
        return ft_wrap(err, "tokenizer");
    return FT_OK;
}

ft_status manifest_get_recipe(struct manifest *m, const json *root, ft_error *err)
{
    const json *options;
    int64_t token_bytes;
    FT_TRY(manifest_get_text(&m->tool, &m->arena, root, "tool", err));
    FT_TRY(manifest_get_text(&m->chat_template, &m->arena, root, "template", err));
    FT_TRY(get_opt_text(&m->template_source, &m->arena, root, "template_source", "", err));
    if (json_get(root, "template_hash") != NULL)
        FT_TRY(manifest_get_hash(&m->template_hash, root, "template_hash", err));
    FT_TRY(json_need_i64(&m->n_vocab, root, "vocab", 1, INT32_MAX, err));
    FT_TRY(json_need_i64(&token_bytes, root, "token_bytes", 2, 4, err));
    m->token_bytes = (uint32_t)token_bytes;
    FT_TRY(get_tokenizer(m, root, err));
    FT_TRY(json_need(&options, root, "options", JSON_OBJECT, err));
    if (manifest_get_options(&m->options, &m->arena, options, err) != FT_OK)
        return ft_wrap(err, "options");
    return FT_OK;
}

static ft_status get_group(struct manifest_group *out, struct arena *a, const json *o,
                           ft_error *err)
{
    const json *v;
    FT_TRY(manifest_get_text(&out->name, a, o, "name", err));
    FT_TRY(json_need(&v, o, "weight", JSON_NUMBER, err));
    FT_TRY(json_opt_f64(&out->weight, o, "weight", 1, err));
    if (!(out->weight > 0 && out->weight <= MANIFEST_MAX_TIMES))
        return ft_fail(err, FT_EFORMAT, "\"weight\" is out of range");
    FT_TRY(json_need_i64(&out->repeat, o, "repeat", 1, MANIFEST_MAX_TIMES, err));
    FT_TRY(json_need_i64(&out->limit, o, "limit", 0, MANIFEST_MAX_COUNT, err));
    return manifest_get_counts(&out->stored, o, err);
}

static ft_status get_groups(struct manifest *m, const json *list, ft_error *err)
{
    size_t i = 0;
    m->n_groups = json_count(list);
    m->groups = arena_alloc(&m->arena, m->n_groups, sizeof *m->groups);
    if (m->groups == NULL)
        return ft_fail_memory(err, m->n_groups * sizeof *m->groups, "the list of sources");
    for (const json *o = json_first(list); o != NULL; o = json_next(o), i++)
        if (get_group(&m->groups[i], &m->arena, o, err) != FT_OK)
            return ft_wrap(err, "groups[%zu]", i);
    return FT_OK;
}

static ft_status get_source(struct manifest_source *out, struct manifest *m, const json *o,
                            ft_error *err)
{
    int use = 0;
    FT_TRY(manifest_get_text(&out->path, &m->arena, o, "path", err));
    FT_TRY(manifest_get_count(&out->bytes, o, "bytes", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&out->rows, o, "rows", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_choice(&use, o, "use", source_use_names, SOURCE_BOTH + 1, err));
    out->use = (enum source_use)use;
    if (m->n_groups > 0) {
        FT_TRY(manifest_get_u32(&out->group, o, "group", err));
        if (out->group >= m->n_groups)
            return ft_fail(err, FT_EFORMAT, "\"group\": there is no group %u", out->group);
    }
    return manifest_get_hash(&out->hash, o, "hash", err);
}

ft_status manifest_get_sources(struct manifest *m, const json *root, ft_error *err)
{
    const json *list, *groups = json_get(root, "groups");
    size_t i = 0;
    if (groups != NULL) { /* data sets from before there were groups have none */
        FT_TRY(json_need(&groups, root, "groups", JSON_ARRAY, err));
        FT_TRY(get_groups(m, groups, err));
    }
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

static ft_status get_example(struct report_example *out, struct arena *a, const json *o,
                             size_t n_sources, ft_error *err)
{
    FT_TRY(manifest_get_u32(&out->source, o, "source", err));
    FT_TRY(manifest_get_count(&out->row, o, "row", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&out->line, o, "line", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_text(&out->text, a, o, "text", err));
    if (out->source >= n_sources)
        return ft_fail(err, FT_EFORMAT, "\"source\": there is no source %u", out->source);
    return FT_OK;
}

static ft_status get_report_line(struct report_line *out, struct arena *a, const json *line,
                                 const char *amount, size_t n_sources, ft_error *err)
{
    const json *examples;
    FT_TRY(manifest_get_count(&out->rows, line, "rows", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&out->amount, line, amount, MANIFEST_MAX_COUNT, err));
    FT_TRY(json_need(&examples, line, "examples", JSON_ARRAY, err));
    for (const json *e = json_first(examples); e != NULL && out->n_examples < REPORT_EXAMPLES;
         e = json_next(e))
        FT_TRY(get_example(&out->examples[out->n_examples++], a, e, n_sources, err));
    return FT_OK;
}

/* Lines that a data set of an earlier version does not have are empty; `needed` ones it has. */
static ft_status get_report_lines(struct report_line *out, struct arena *a, const json *report,
                                  const char *group, const char *const *names, int n, int needed,
                                  const char *amount, size_t n_sources, ft_error *err)
{
    const json *lines, *line;
    FT_TRY(json_need(&lines, report, group, JSON_OBJECT, err));
    for (int i = 0; i < n; i++) {
        if (i >= needed && json_get(lines, names[i]) == NULL)
            continue;
        if (json_need(&line, lines, names[i], JSON_OBJECT, err) != FT_OK ||
            get_report_line(&out[i], a, line, amount, n_sources, err) != FT_OK)
            return ft_wrap(err, "report.%s.%s", group, names[i]);
    }
    return FT_OK;
}

ft_status manifest_get_report(struct report *out, struct arena *a, const json *o, size_t n_sources,
                              ft_error *err)
{
    uint64_t rows, tokens;
    FT_TRY(get_report_lines(out->fates, a, o, "fates", row_fate_names, ROW_FATES, ROW_UNSELECTED,
                            "tokens", n_sources, err));
    FT_TRY(get_report_lines(out->notes, a, o, "notes", row_note_names, ROW_NOTES, NOTE_LEADING,
                            "amount", n_sources, err));
    FT_TRY(manifest_get_count(&rows, o, "rows", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&tokens, o, "tokens", MANIFEST_MAX_COUNT, err));
    if (rows != report_rows(out) || tokens != report_tokens(out))
        return ft_fail(err, FT_EFORMAT, "report: the fates do not add up to the totals");
    return FT_OK;
}

ft_status manifest_get_format(const json *root, const char *format, int version, ft_error *err)
{
    int64_t found;
    str name;
    FT_TRY(json_need_str(&name, root, "format", err));
    if (!str_is(name, format))
        return ft_fail(err, FT_EFORMAT, "\"format\" is \"%.*s\", expected \"%s\"", STR_ARG(name),
                       format);
    FT_TRY(json_need_i64(&found, root, "version", 0, INT32_MAX, err));
    if (found != version)
        return ft_fail(err, FT_EFORMAT,
                       "\"version\" is %lld, this program reads version %d; make it again",
                       (long long)found, version);
    return FT_OK;
}

ft_status manifest_get_checksum(hash128 *out, str text, const json *root, ft_error *err)
{
    const size_t mark = sizeof CHECKSUM_MARK - 1;
    size_t at = text.len < mark ? 0 : text.len - mark;
    while (at > 0 && memcmp(text.ptr + at, CHECKSUM_MARK, mark) != 0)
        at--;
    FT_TRY(manifest_get_hash(out, root, "checksum", err));
    if (!hash128_eq(*out, hash128_of(text.ptr, at)))
        return ft_fail(err, FT_EFORMAT,
                       "the checksum differs: the file was changed or damaged after the build");
    return FT_OK;
}
