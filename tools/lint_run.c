/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lint_run.h"

#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "formats/jsonl.h"
#include "tools/lint_shape.h"
#include "tools/stop.h"

enum { ROWS_PER_THREAD = 128, BATCH_BYTES = 4 << 20 };

#define LARGE_FILE (UINT64_C(2) << 30)

struct row {
    size_t at, len; /* of its text in the batch */
    uint64_t row, line;
    struct json_doc *doc; /* NULL when it is no JSON */
    struct lint_list list;
    struct buf fixed;
};

/* A thread's share: every n_threads-th row of the batch. */
struct slot {
    struct lint_tokens tokens;
    uint64_t fixes[LINT_CODES];
    ft_error error;
};

struct batch {
    struct lint_run *run;
    struct pool *pool;
    struct slot *slots; /* [n_threads] */
    struct row *rows;   /* [cap] */
    size_t n, cap;
    struct buf text;
    struct lint_shape *shape;
    struct progress progress;
    uint64_t bytes_before; /* of the files already read */
};

/* --- on the threads -------------------------------------------------------------------------- */

static ft_status check_row(struct batch *b, struct slot *s, struct row *r, ft_error *err)
{
    str text = {(const char *)b->text.data + r->at, r->len};
    FT_TRY(lint_json(&r->doc, &r->list, text, err));
    if (r->doc != NULL)
        FT_TRY(lint_row(&s->tokens, &r->list, json_root(r->doc), err));
    if (b->run->fixed != NULL)
        FT_TRY(lint_fix_row(&r->fixed, s->fixes, text, r->doc, b->run->model->source, err));
    return r->list.failed ? ft_fail_memory(err, r->list.arena.used, "findings") : FT_OK;
}

static void check_share(void *ctx, int task)
{
    struct batch *b = ctx;
    struct slot *s = &b->slots[task];
    ft_error err; /* findings leave something in it, too */
    for (size_t i = (size_t)task; i < b->n; i += (size_t)b->run->n_threads)
        if (check_row(b, s, &b->rows[i], &err) != FT_OK) {
            s->error = err;
            return;
        }
}

/* --- in input order -------------------------------------------------------------------------- */

static ft_status report(struct lint_run *r, const struct lint_place *place,
                        const struct lint_list *l, ft_error *err)
{
    for (size_t i = 0; i < l->n; i++)
        FT_TRY(r->found(r->ctx, place, &l->items[i], err));
    for (int c = 0; c < LINT_CODES; c++)
        r->counts[c] += l->counts[c];
    return FT_OK;
}

ft_status lint_whole_file(struct lint_run *r, const char *path, const struct lint_list *l,
                          ft_error *err)
{
    return report(r, &(struct lint_place){.path = path, .whole_file = true}, l, err);
}

static ft_status finish_row(struct batch *b, const char *path, struct row *row, ft_error *err)
{
    struct lint_run *r = b->run;
    struct lint_place place = {.path = path, .row = row->row, .line = row->line};
    if (row->doc != NULL)
        lint_shape_row(b->shape, &row->list, json_root(row->doc));
    if (row->list.failed)
        return ft_fail_memory(err, row->list.arena.used, "findings");
    r->n_rows++;
    r->n_bad_rows += lint_has_errors(&row->list);
    if (r->fixed != NULL) {
        file_write(r->fixed, row->fixed.data, row->fixed.len);
        file_write(r->fixed, "\n", 1);
    }
    return report(r, &place, &row->list, err);
}

static void clear_batch(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        json_close(b->rows[i].doc);
        b->rows[i].doc = NULL;
        lint_list_clear(&b->rows[i].list);
        buf_clear(&b->rows[i].fixed);
        if (b->rows[i].fixed.cap > BATCH_BYTES)
            buf_free(&b->rows[i].fixed);
    }
    b->n = 0;
    if (b->text.cap > 2 * BATCH_BYTES)
        buf_free(&b->text);
    buf_clear(&b->text);
}

static ft_status flush(struct batch *b, const char *path, ft_error *err)
{
    ft_status st = stop_check_flag(b->run->stop, err);
    if (st == FT_OK)
        pool_run(b->pool, b->run->n_threads, check_share, b);
    for (int i = 0; i < b->run->n_threads && st == FT_OK; i++) {
        st = b->slots[i].error.status;
        if (st != FT_OK)
            *err = b->slots[i].error;
    }
    for (size_t i = 0; i < b->n && st == FT_OK; i++)
        st = finish_row(b, path, &b->rows[i], err);
    clear_batch(b);
    return st;
}

/* --- files ----------------------------------------------------------------------------------- */

static ft_status add_row(struct batch *b, const struct jsonl_row *in, ft_error *err)
{
    struct row *r = &b->rows[b->n++];
    r->at = b->text.len;
    r->len = in->text.len;
    r->row = in->row;
    r->line = in->line;
    buf_str(&b->text, in->text);
    return buf_status(&b->text, "a batch of rows", err);
}

/* Reading ends early, with a finding, where the file can no longer be cut into rows. */
static ft_status read_rows(struct batch *b, struct jsonl *file, const char *path,
                           struct lint_list *l, ft_error *err)
{
    struct jsonl_row in;
    bool more = true;
    while (more) {
        ft_status st = jsonl_next(&in, &more, file, err);
        if (st == FT_EFORMAT || st == FT_ELIMIT) {
            size_t prefix = strlen(path) + 2; /* "path: " */
            const char *text = err->text + FT_MIN(prefix, strlen(err->text));
            bool cut = strstr(text, "the file is cut off") != NULL;
            lint_add(l, cut ? LINT_J14 : LINT_J07, "", "%s", text);
            break;
        }
        FT_TRY(st);
        if (b->n == b->cap || b->text.len >= BATCH_BYTES || !more) {
            progress_update(&b->progress,
                            (double)(b->bytes_before + input_bytes(jsonl_input(file))) * 1e-6, "");
            /* The row of this call lives in the reader, not in the batch. */
            FT_TRY(flush(b, path, err));
        }
        if (more)
            FT_TRY(add_row(b, &in, err));
    }
    return flush(b, path, err);
}

static ft_status check_last_byte(struct lint_list *l, const char *path, uint64_t bytes,
                                 ft_error *err)
{
    struct input *in;
    char last = '\n';
    size_t n;
    FT_TRY(input_open(&in, path, err));
    ft_status st = input_seek(in, bytes - 1, err);
    if (st == FT_OK)
        st = input_read(&n, in, &last, 1, err);
    input_close(in);
    if (st == FT_OK && last != '\n')
        lint_add(l, LINT_J15, "", "the last line has no end");
    return st;
}

/* What readers skip without a word: a byte-order mark, CR LF, blank lines, a last line without its
 * end. Looks at the first window and at the last byte; pipes are read once only. */
static ft_status check_style(struct lint_list *l, const char *path, ft_error *err)
{
    char window[1 << 16];
    struct stat sb;
    struct input *in;
    size_t n = 0;
    if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode) || sb.st_size == 0)
        return FT_OK;
    FT_TRY(input_open(&in, path, err));
    ft_status st = input_read(&n, in, window, sizeof window, err);
    bool plain = input_kind(in) == INPUT_PLAIN;
    input_close(in);
    if (st != FT_OK)
        return st == FT_EFORMAT ? FT_OK : st; /* reading the rows will say the same */
    if (str_starts((str){window, n}, STR("\xEF\xBB\xBF")))
        lint_add(l, LINT_J09, "", "%s", "");
    for (size_t i = 1; i < n && l->counts[LINT_J15] == 0; i++)
        if (window[i] == '\n' && (window[i - 1] == '\r' || window[i - 1] == '\n'))
            lint_add(l, LINT_J15, "", "%s at byte %zu",
                     window[i - 1] == '\r' ? "CR LF" : "a blank line", i);
    if (plain && l->counts[LINT_J15] == 0)
        return check_last_byte(l, path, (uint64_t)sb.st_size, err);
    return FT_OK;
}

static ft_status check_file(struct batch *b, const char *path, ft_error *err)
{
    struct lint_list l = {0};
    struct jsonl *file = NULL;
    ft_status st;
    FT_GOTO(check_style(&l, path, err));
    FT_GOTO(jsonl_open(&file, path, JSONL_MAX_ROW, err));
    FT_GOTO(lint_shape_create(&b->shape, err));
    FT_GOTO(read_rows(b, file, path, &l, err));
    b->bytes_before += input_bytes(jsonl_input(file));
    if (input_bytes(jsonl_input(file)) > LARGE_FILE)
        lint_add(&l, LINT_J03, "", "%.1f GiB", (double)input_bytes(jsonl_input(file)) / (1 << 30));
    FT_GOTO(lint_whole_file(b->run, path, &l, err));
out:
    lint_list_clear(&l);
    lint_shape_destroy(b->shape);
    b->shape = NULL;
    jsonl_close(file);
    return st;
}

static uint64_t total_bytes(const struct manifest_source *sources, size_t n)
{
    uint64_t bytes = 0;
    struct stat sb;
    for (size_t i = 0; i < n; i++) {
        if (stat(sources[i].path, &sb) != 0 || !S_ISREG(sb.st_mode))
            return 0; /* a pipe: unknown */
        bytes += (uint64_t)sb.st_size;
    }
    return bytes;
}

static ft_status open_batch(struct batch *b, struct lint_run *r, ft_error *err)
{
    size_t n_threads = (size_t)r->n_threads;
    *b = (struct batch){.run = r, .cap = n_threads * ROWS_PER_THREAD};
    FT_TRY(mem_new(&b->rows, b->cap, sizeof *b->rows, "a batch of rows", err));
    FT_TRY(mem_new(&b->slots, n_threads, sizeof *b->slots, "threads", err));
    for (size_t i = 0; i < n_threads; i++)
        FT_TRY(lint_tokens_init(&b->slots[i].tokens, r->model, err));
    return pool_create(&b->pool, r->n_threads, err);
}

static void close_batch(struct batch *b)
{
    if (b->rows != NULL)
        clear_batch(b);
    for (size_t i = 0; b->rows != NULL && i < b->cap; i++)
        buf_free(&b->rows[i].fixed);
    for (int i = 0; b->slots != NULL && i < b->run->n_threads; i++) {
        for (int c = 0; c < LINT_CODES; c++)
            b->run->fixes[c] += b->slots[i].fixes[c];
        lint_tokens_free(&b->slots[i].tokens);
    }
    pool_destroy(b->pool);
    buf_free(&b->text);
    mem_free(b->rows);
    mem_free(b->slots);
}

ft_status lint_files(struct lint_run *r, const struct manifest_source *sources, size_t n,
                     ft_error *err)
{
    struct batch b;
    ft_status st;
    FT_GOTO(open_batch(&b, r, err));
    progress_start(&b.progress, "check", "MB", (double)total_bytes(sources, n) * 1e-6);
    for (size_t i = 0; i < n; i++)
        FT_GOTO(check_file(&b, sources[i].path, err));
    progress_finish(&b.progress, (double)b.bytes_before * 1e-6, "");
out:
    close_batch(&b);
    return st;
}
