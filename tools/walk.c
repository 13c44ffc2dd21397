/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/walk.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "common/log.h"
#include "tools/stop.h"

struct walk {
    struct plan *plan;
    const struct walk_calls *calls;
    uint64_t bytes_before; /* of the sources already read */
    uint32_t group;        /* of the source before */
    uint64_t group_rows;   /* read of that group */
};

static ft_status stopped(ft_error *err)
{
    return ft_fail(err, FT_ESTOP, "stopped on request");
}

static ft_status close_part(struct walk *w, ft_error *err)
{
    size_t n = w->plan->n_parts;
    FT_TRY(plan_close_part(w->plan, err));
    if (w->plan->n_parts == n || w->calls->part_end == NULL)
        return FT_OK;
    return w->calls->part_end(w->calls->ctx, &w->plan->parts[n], err);
}

/* Adds what was read since the last cut to the open part, and closes it when it is full. */
static ft_status end_piece(struct walk *w, uint32_t source, struct jsonl *file, ft_error *err)
{
    struct jsonl_piece piece;
    uint64_t bytes = input_kind(jsonl_input(file)) == INPUT_PLAIN ? jsonl_piece_bytes(file)
                                                                  : input_bytes(jsonl_input(file));
    FT_TRY(jsonl_cut(&piece, file, err));
    if (piece.n_rows == 0)
        return FT_OK;
    FT_TRY(plan_add_piece(w->plan, source, &piece, bytes, err));
    bool full = w->plan->open_bytes >= (uint64_t)w->plan->manifest.options.part_bytes;
    return full ? close_part(w, err) : FT_OK;
}

static ft_status one_row(struct walk *w, uint32_t source, struct jsonl *file,
                         const struct jsonl_row *row, ft_error *err)
{
    const struct walk_calls *c = w->calls;
    const struct input *in = jsonl_input(file);
    if (c->row != NULL)
        FT_TRY(c->row(c->ctx, source, row, err));
    if (c->bytes != NULL && c->bytes(c->ctx, w->bytes_before + input_bytes(in)))
        return stopped(err);
    uint64_t part = w->plan->open_bytes + jsonl_piece_bytes(file);
    if (input_kind(in) == INPUT_PLAIN && part >= (uint64_t)w->plan->manifest.options.part_bytes)
        return end_piece(w, source, file, err);
    return FT_OK;
}

static uint64_t rows_allowed(const struct walk *w, const struct manifest_source *s)
{
    int64_t limit = w->plan->manifest.groups[s->group].limit;
    return limit == 0 ? UINT64_MAX : (uint64_t)limit - w->group_rows;
}

static ft_status read_rows(struct walk *w, uint32_t source, struct jsonl *file, ft_error *err)
{
    struct manifest_source *s = &w->plan->manifest.sources[source];
    struct jsonl_row row;
    bool more = true;
    uint64_t allowed = rows_allowed(w, s);
    for (s->rows = 0; s->rows < allowed; s->rows++) {
        FT_TRY(jsonl_next(&row, &more, file, err));
        if (!more)
            break;
        FT_TRY(one_row(w, source, file, &row, err));
    }
    FT_TRY(end_piece(w, source, file, err));
    /* Behind a limit, too, so that the hash is that of the file. */
    return input_drain(jsonl_input(file), err);
}

static ft_status read_source(struct walk *w, uint32_t source, ft_error *err)
{
    struct manifest_source *s = &w->plan->manifest.sources[source];
    struct jsonl *file;
    if (s->group != w->group) {
        w->group = s->group;
        w->group_rows = 0;
    }
    FT_TRY(jsonl_open(&file, s->path, JSONL_MAX_ROW, err));
    ft_status st = read_rows(w, source, file, err);
    s->bytes = input_bytes(jsonl_input(file));
    s->hash = input_hash(jsonl_input(file));
    w->bytes_before += s->bytes;
    w->group_rows += s->rows;
    jsonl_close(file);
    return st;
}

ft_status walk_input(struct plan *plan, const struct walk_calls *calls, ft_error *err)
{
    struct walk w = {.plan = plan, .calls = calls};
    for (uint32_t i = 0; i < plan->manifest.n_sources; i++)
        FT_TRY(read_source(&w, i, err));
    return close_part(&w, err);
}

/* --- looking ahead --------------------------------------------------------------------------- */

static bool show_bytes(void *ctx, uint64_t n)
{
    progress_update(ctx, (double)n * 1e-6, "");
    return atomic_load(stop_flag());
}

static double total_mb(const struct manifest *m)
{
    double bytes = 0;
    struct stat sb;
    for (size_t i = 0; i < m->n_sources; i++)
        bytes += stat(m->sources[i].path, &sb) == 0 ? (double)sb.st_size : 0;
    return bytes * 1e-6;
}

ft_status walk_ahead(struct plan *plan, ft_error *err)
{
    struct progress progress;
    const struct walk_calls calls = {.bytes = show_bytes, .ctx = &progress};
    double total = total_mb(&plan->manifest);
    progress_start(&progress, "read", "MB", total);
    FT_TRY(walk_input(plan, &calls, err));
    progress_finish(&progress, total, "");
    return FT_OK;
}

/* --- one part -------------------------------------------------------------------------------- */

static ft_status changed(const struct manifest_source *s, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: changed since it was planned; run 'ftprep plan' again",
                   s->path);
}

/* Behind the last row of a piece at the end of a file there may be white space and a bracket. */
static bool piece_done(const struct plan_piece *p, const struct jsonl *file, uint64_t n_rows)
{
    return n_rows == p->piece.n_rows && p->piece.from + jsonl_piece_bytes(file) == p->piece.to;
}

static ft_status read_piece_rows(const struct plan_piece *p, uint64_t before, struct jsonl *file,
                                 const struct walk_calls *c, ft_error *err)
{
    struct jsonl_row row;
    bool more;
    for (uint64_t n = 0; !piece_done(p, file, n); n++) {
        FT_TRY(jsonl_next(&row, &more, file, err));
        if (!more || n == p->piece.n_rows)
            return FT_OK; /* what was read tells whether that is right */
        FT_TRY(c->row(c->ctx, p->source, &row, err));
        if (c->bytes != NULL && c->bytes(c->ctx, before + jsonl_piece_bytes(file)))
            return stopped(err);
    }
    return FT_OK;
}

/* before: bytes of the part's pieces already read. */
static ft_status read_piece(const struct plan *plan, const struct plan_piece *p, uint64_t before,
                            const struct walk_calls *calls, ft_error *err)
{
    const struct manifest_source *s = &plan->manifest.sources[p->source];
    struct jsonl_piece found;
    struct jsonl *file;
    struct stat sb;
    if (stat(s->path, &sb) == 0 && (uint64_t)sb.st_size != s->bytes)
        return changed(s, err);
    FT_TRY(jsonl_open_piece(&file, s->path, &p->piece, JSONL_MAX_ROW, err));
    ft_status st = read_piece_rows(p, before, file, calls, err);
    if (st == FT_OK)
        st = jsonl_cut(&found, file, err);
    if (st == FT_OK && (found.n_rows != p->piece.n_rows || found.to != p->piece.to ||
                        !hash128_eq(found.hash, p->piece.hash)))
        st = changed(s, err);
    jsonl_close(file);
    return st;
}

ft_status walk_part(const struct plan *plan, size_t part, const struct walk_calls *calls,
                    ft_error *err)
{
    const struct plan_part *p = &plan->parts[part];
    uint64_t before = 0;
    for (size_t i = 0; i < p->n_pieces; i++) {
        const struct plan_piece *piece = &plan->pieces[p->first_piece + i];
        FT_TRY(read_piece(plan, piece, before, calls, err));
        before += piece->piece.to - piece->piece.from;
    }
    return calls->part_end(calls->ctx, p, err);
}
