/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/plan.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/manifest_json.h"
#include "formats/part.h"

enum { MAX_BYTES = 1 << 30 };

#define FORMAT_NAME "ftprep-plan"

void plan_free(struct plan *p)
{
    manifest_free(&p->manifest);
    mem_free(p->pieces);
    mem_free(p->parts);
    *p = (struct plan){0};
}

/* --- making ---------------------------------------------------------------------------------- */

/* Room for one more item. */
static ft_status grow(void *items, size_t *cap, size_t n, size_t size, ft_error *err)
{
    void *old, *grown;
    if (n < *cap)
        return FT_OK;
    size_t more = *cap == 0 ? 64 : *cap * 2;
    memcpy(&old, items, sizeof old);
    grown = mem_realloc(old, more, size);
    if (grown == NULL)
        return ft_fail_memory(err, more * size, "the plan");
    memcpy(items, &grown, sizeof grown);
    *cap = more;
    return FT_OK;
}

ft_status plan_add_piece(struct plan *p, uint32_t source, const struct jsonl_piece *piece,
                         uint64_t bytes, ft_error *err)
{
    FT_TRY(grow(&p->pieces, &p->cap_pieces, p->n_pieces, sizeof *p->pieces, err));
    p->pieces[p->n_pieces++] = (struct plan_piece){source, *piece};
    p->open_bytes += bytes;
    return FT_OK;
}

static void put_piece(struct buf *b, const struct plan_piece *p)
{
    buf_printf(b,
               "{\"source\": %" PRIu32 ", \"from\": %" PRIu64 ", \"to\": %" PRIu64
               ", \"row\": %" PRIu64 ", \"line\": %" PRIu64 ", \"rows\": %" PRIu64
               ", \"form\": \"%s\", ",
               p->source, p->piece.from, p->piece.to, p->piece.row, p->piece.line, p->piece.n_rows,
               jsonl_form_names[p->piece.form]);
    manifest_put_hash(b, "hash", p->piece.hash);
    buf_byte(b, '}');
}

/* The use and the weight of a source decide which of its samples are stored, and where. */
static void put_piece_key(struct buf *b, const struct manifest *m, const struct plan_piece *p)
{
    const struct manifest_source *s = &m->sources[p->source];
    put_piece(b, p);
    buf_cstr(b, source_use_names[s->use]);
    manifest_put_times(b, &m->groups[s->group]);
}

static ft_status make_key(hash128 *out, const struct plan *p, const struct plan_part *part,
                          ft_error *err)
{
    struct hasher *h;
    struct buf text = {0};
    char hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, p->tool_hash);
    FT_TRY(hasher_create(&h, err));
    buf_printf(&text, "part %d %s", PART_VERSION, hex);
    for (size_t i = 0; i < part->n_pieces; i++)
        put_piece_key(&text, &p->manifest, &p->pieces[part->first_piece + i]);
    ft_status st = buf_status(&text, "the plan", err);
    if (st == FT_OK)
        st = manifest_hash_recipe(h, &p->manifest, err);
    hasher_field(h, buf_view(&text));
    *out = hasher_digest(h);
    hasher_destroy(h);
    buf_free(&text);
    return st;
}

ft_status plan_close_part(struct plan *p, ft_error *err)
{
    size_t first = p->n_parts == 0
                       ? 0
                       : p->parts[p->n_parts - 1].first_piece + p->parts[p->n_parts - 1].n_pieces;
    struct plan_part part = {.first_piece = first, .n_pieces = p->n_pieces - first};
    if (part.n_pieces == 0)
        return FT_OK;
    FT_TRY(make_key(&part.key, p, &part, err));
    FT_TRY(grow(&p->parts, &p->cap_parts, p->n_parts, sizeof *p->parts, err));
    p->parts[p->n_parts++] = part;
    p->open_bytes = 0;
    return FT_OK;
}

/* --- writing --------------------------------------------------------------------------------- */

static void put_part(struct buf *b, const struct plan *p, const struct plan_part *part)
{
    manifest_put_hash(b, "key", part->key);
    buf_cstr(b, ", \"pieces\": [");
    for (size_t i = 0; i < part->n_pieces; i++) {
        buf_cstr(b, i == 0 ? "\n      " : ",\n      ");
        put_piece(b, &p->pieces[part->first_piece + i]);
    }
    buf_byte(b, ']');
}

static void render(struct buf *b, const struct plan *p)
{
    const struct manifest *m = &p->manifest;
    buf_printf(b, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n", FORMAT_NAME, PLAN_VERSION);
    manifest_put_recipe(b, m);
    manifest_put_sources(b, m);
    buf_cstr(b, "  \"parts\": [");
    for (size_t i = 0; i < p->n_parts; i++) {
        buf_cstr(b, i == 0 ? "\n    {" : ",\n    {");
        put_part(b, p, &p->parts[i]);
        buf_byte(b, '}');
    }
    buf_cstr(b, "\n  ],\n  ");
}

ft_status plan_write(struct plan *p, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct buf b = {0};
    render(&b, p);
    ft_status st = manifest_put_checksum(&p->manifest.fingerprint, &b, err);
    const char *path = path_join(&a, dir, PLAN_FILE);
    if (st == FT_OK && path == NULL)
        st = ft_fail_memory(err, strlen(dir), "a path");
    if (st == FT_OK)
        st = file_publish(path, b.data, b.len, err);
    buf_free(&b);
    arena_destroy(&a);
    return st;
}

/* --- reading --------------------------------------------------------------------------------- */

static ft_status get_piece(struct plan_piece *out, const struct manifest *m, const json *o,
                           ft_error *err)
{
    struct jsonl_piece *p = &out->piece;
    int form = 0;
    FT_TRY(manifest_get_u32(&out->source, o, "source", err));
    FT_TRY(manifest_get_count(&p->from, o, "from", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&p->to, o, "to", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&p->row, o, "row", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&p->line, o, "line", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_count(&p->n_rows, o, "rows", MANIFEST_MAX_COUNT, err));
    FT_TRY(manifest_get_choice(&form, o, "form", jsonl_form_names, JSONL_ARRAY + 1, err));
    p->form = (enum jsonl_form)form;
    if (out->source >= m->n_sources || p->to < p->from || p->line == 0 ||
        (p->from == 0) != (p->form == JSONL_UNKNOWN))
        return ft_fail(err, FT_EFORMAT, "the piece contradicts itself");
    return manifest_get_hash(&p->hash, o, "hash", err);
}

/* A piece goes on where the one before it ended, or starts a later source. */
static ft_status check_order(const struct plan *p, size_t i, ft_error *err)
{
    const struct plan_piece *now = &p->pieces[i], *last = i == 0 ? NULL : now - 1;
    bool goes_on = last != NULL && last->source == now->source &&
                   last->piece.to == now->piece.from &&
                   last->piece.row + last->piece.n_rows == now->piece.row;
    bool starts =
        now->piece.from == 0 && now->piece.row == 0 && (last == NULL || last->source < now->source);
    return goes_on || starts ? FT_OK
                             : ft_fail(err, FT_EFORMAT, "the piece does not follow the one before");
}

static ft_status get_part(struct plan *p, const json *o, ft_error *err)
{
    struct plan_part part = {.first_piece = p->n_pieces};
    const json *list;
    FT_TRY(manifest_get_hash(&part.key, o, "key", err));
    FT_TRY(json_need(&list, o, "pieces", JSON_ARRAY, err));
    for (const json *v = json_first(list); v != NULL; v = json_next(v)) {
        struct plan_piece piece = {0};
        if (get_piece(&piece, &p->manifest, v, err) != FT_OK ||
            plan_add_piece(p, piece.source, &piece.piece, 0, err) != FT_OK ||
            check_order(p, p->n_pieces - 1, err) != FT_OK)
            return ft_wrap(err, "pieces[%zu]", p->n_pieces - part.first_piece);
    }
    part.n_pieces = p->n_pieces - part.first_piece;
    if (part.n_pieces == 0)
        return ft_fail(err, FT_EFORMAT, "there are no pieces");
    FT_TRY(grow(&p->parts, &p->cap_parts, p->n_parts, sizeof *p->parts, err));
    p->parts[p->n_parts++] = part;
    return FT_OK;
}

/* Every row of every source is in one piece. */
static ft_status check_rows(const struct plan *p, ft_error *err)
{
    size_t i = 0;
    for (size_t s = 0; s < p->manifest.n_sources; s++) {
        uint64_t rows = 0;
        for (; i < p->n_pieces && p->pieces[i].source == s; i++)
            rows += p->pieces[i].piece.n_rows;
        if (rows != p->manifest.sources[s].rows)
            return ft_fail(err, FT_EFORMAT, "the pieces of sources[%zu] do not add up to it", s);
    }
    return FT_OK;
}

static ft_status get_all(struct plan *p, const json *root, ft_error *err)
{
    const json *parts;
    FT_TRY(manifest_get_format(root, FORMAT_NAME, PLAN_VERSION, err));
    FT_TRY(manifest_get_recipe(&p->manifest, root, err));
    FT_TRY(manifest_get_sources(&p->manifest, root, err));
    if (p->manifest.n_groups == 0)
        return ft_fail(err, FT_EFORMAT, "\"groups\" is missing or empty");
    FT_TRY(json_need(&parts, root, "parts", JSON_ARRAY, err));
    for (const json *o = json_first(parts); o != NULL; o = json_next(o))
        if (get_part(p, o, err) != FT_OK)
            return ft_wrap(err, "parts[%zu]", p->n_parts);
    return check_rows(p, err);
}

ft_status plan_parse(struct plan *out, const char *name, str text, ft_error *err)
{
    struct json_doc *doc;
    *out = (struct plan){0};
    FT_TRY(json_parse(&doc, name, text, JSON_STRICT, err));
    const json *root = json_root(doc);
    ft_status st = get_all(out, root, err);
    if (st == FT_OK)
        st = manifest_get_checksum(&out->manifest.fingerprint, text, root, err);
    json_close(doc);
    if (st == FT_OK)
        return FT_OK;
    plan_free(out);
    return ft_wrap(err, "%s", name);
}

ft_status plan_load(struct plan *out, const char *dir, ft_error *err)
{
    struct arena a = {0};
    str text;
    *out = (struct plan){0};
    const char *path = path_join(&a, dir, PLAN_FILE);
    ft_status st = path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
    if (st == FT_OK && path_is_dir(dir) && !path_exists(path))
        st = ft_fail(err, FT_EFORMAT, "%s: there is no " PLAN_FILE "; run 'ftprep plan'", dir);
    if (st == FT_OK)
        st = file_read_all(&text, &a, path, MAX_BYTES, err);
    if (st == FT_OK)
        st = plan_parse(out, path, text, err);
    arena_destroy(&a);
    return st;
}
