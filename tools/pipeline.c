/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pipeline.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "formats/jsonl.h"
#include "tools/stop.h"

enum {
    BATCH_BYTES = 256 << 10,
    BATCH_ROWS = 256,
    BUDGET_BYTES = 64 << 20, /* row text on its way between reader and writer */
    KEEP_BYTES = 4 << 20,    /* a batch that grew beyond it gives its memory back */
};

/* A row as read, and what became of it. */
struct row {
    size_t text_at, text_len; /* in the batch's text */
    uint64_t row, line;
    enum row_fate fate;
    uint64_t n_encoded;                    /* tokens before a cut */
    uint32_t n_tokens, n_trained, n_spans; /* of the sample */
    size_t tokens_at, spans_at;            /* indices into the batch's arrays */
    uint32_t notes[ROW_NOTES];             /* amounts; NOTE_CUT is told by n_encoded */
    const char *message;                   /* of an invalid row, in the batch's arena */
};

/* What workers do: encode a batch, or compress a block of the sink. */
struct task {
    struct batch *batch;
    struct shard_job *job; /* NULL for a batch */
    bool busy;             /* under way; guarded by pipeline.lock */
};

struct batch {
    struct task task;
    struct row rows[BATCH_ROWS];
    size_t n_rows;
    uint32_t source;
    uint64_t bytes_read; /* of all sources, for the progress line */
    struct buf text;
    struct buf tokens; /* int32_t */
    struct buf spans;  /* struct loss_span */
    struct arena messages;
    ft_error fatal; /* status != FT_OK: what ends the run behind the rows of this batch */
};

struct pipeline {
    const struct pipeline_options *options;
    struct sink *sink;
    struct manifest *manifest;
    struct queue empty, order; /* of batches */
    struct queue work;         /* of tasks */
    struct task *compressions; /* [n_compressions] for the sink's blocks */
    size_t n_compressions;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t in_flight; /* bytes of text between reader and writer */
    bool failed;      /* the writer gave up */
    ft_error error;
};

static bool given_up(struct pipeline *p)
{
    pthread_mutex_lock(&p->lock);
    bool failed = p->failed;
    pthread_mutex_unlock(&p->lock);
    return failed || atomic_load(p->options->stop);
}

/* --- reading --------------------------------------------------------------------------------- */

struct reader {
    struct pipeline *p;
    struct batch *batch;   /* being filled; NULL = none */
    uint64_t bytes_before; /* of the sources already read */
};

static void reset_batch(struct batch *b)
{
    struct buf *const buffers[] = {&b->text, &b->tokens, &b->spans};
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++) {
        if (buffers[i]->cap > KEEP_BYTES)
            buf_free(buffers[i]);
        buf_clear(buffers[i]);
    }
    arena_destroy(&b->messages);
    b->n_rows = 0;
    b->fatal.status = FT_OK;
    b->task = (struct task){.batch = b, .busy = true};
}

/* Waits until the text fits the budget or nothing else is under way. */
static void enter_budget(struct pipeline *p, size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    while (p->in_flight > 0 && p->in_flight + bytes > BUDGET_BYTES && !p->failed)
        pthread_cond_wait(&p->changed, &p->lock);
    p->in_flight += bytes;
    pthread_mutex_unlock(&p->lock);
}

static void leave_budget(struct pipeline *p, size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->in_flight -= bytes;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* False when the run is over. */
static bool need_batch(struct reader *r, uint32_t source)
{
    if (r->batch == NULL) {
        r->batch = queue_pop(&r->p->empty);
        if (r->batch == NULL)
            return false;
        reset_batch(r->batch);
        r->batch->source = source;
    }
    return true;
}

static void send_batch(struct reader *r)
{
    struct batch *b = r->batch;
    r->batch = NULL;
    if (b == NULL)
        return;
    enter_budget(r->p, b->text.len);
    /* Order first: the writer must know a batch before it can be done. */
    queue_push(&r->p->order, b);
    queue_push(&r->p->work, &b->task);
}

static ft_status add_row(struct reader *r, const struct jsonl_row *in, ft_error *err)
{
    struct batch *b = r->batch;
    b->rows[b->n_rows++] = (struct row){
        .text_at = b->text.len, .text_len = in->text.len, .row = in->row, .line = in->line};
    buf_str(&b->text, in->text);
    return buf_status(&b->text, "a batch of rows", err);
}

static ft_status read_rows(struct reader *r, uint32_t source, struct jsonl *file, ft_error *err)
{
    struct jsonl_row in;
    bool more = true;
    while (!given_up(r->p)) {
        FT_TRY(jsonl_next(&in, &more, file, err));
        if (!more)
            break;
        /* A row that does not fit goes into a batch of its own. */
        if (r->batch != NULL && r->batch->text.len + in.text.len > BATCH_BYTES)
            send_batch(r);
        if (!need_batch(r, source))
            break;
        FT_TRY(add_row(r, &in, err));
        r->batch->bytes_read = r->bytes_before + input_bytes(jsonl_input(file));
        r->p->manifest->sources[source].rows = in.row + 1;
        if (r->batch->n_rows == BATCH_ROWS || r->batch->text.len >= BATCH_BYTES)
            send_batch(r);
    }
    return FT_OK;
}

static ft_status read_source(struct reader *r, uint32_t source, ft_error *err)
{
    struct manifest_source *s = &r->p->manifest->sources[source];
    struct jsonl *file;
    FT_TRY(jsonl_open(&file, s->path, JSONL_MAX_ROW, err));
    ft_status st = read_rows(r, source, file, err);
    s->bytes = input_bytes(jsonl_input(file));
    s->hash = input_hash(jsonl_input(file));
    r->bytes_before += s->bytes;
    jsonl_close(file);
    return st;
}

/* A failure travels behind the rows read before it, so that an earlier bad row is reported first.
 */
static void reader_main(struct pipeline *p)
{
    struct reader r = {.p = p};
    ft_error err = {0};
    ft_status st = FT_OK;
    for (int held_out = 1; held_out >= 0; held_out--) /* first: sink_add */
        for (uint32_t i = 0; i < p->manifest->n_sources && st == FT_OK && !given_up(p); i++) {
            if ((p->manifest->sources[i].use == SOURCE_EVAL) != held_out)
                continue;
            st = read_source(&r, i, &err);
            if (st != FT_OK && need_batch(&r, i))
                r.batch->fatal = err;
            send_batch(&r);
        }
    queue_close(&p->order);
}

/* --- encoding -------------------------------------------------------------------------------- */

struct worker {
    struct pipeline *p;
    struct tok_encoder *encoder;
    struct compressor *zstd;
    struct conversation conversation;
    struct chat_text text;
    struct tok_ids ids;
    struct buf mask;
};

/* Runs of trained tokens among the first n_tokens. The first token is never one: nothing comes
 * before it that could predict it. */
static ft_status add_spans(struct batch *b, struct row *row, uint8_t *mask, ft_error *err)
{
    mask[0] = 0;
    row->spans_at = b->spans.len / sizeof(struct loss_span);
    for (uint32_t i = 0; i < row->n_tokens;) {
        uint32_t start = i;
        while (i < row->n_tokens && mask[i] != 0)
            i++;
        if (i > start) {
            struct loss_span span = {start, i - start};
            buf_append(&b->spans, &span, sizeof span);
            row->n_spans++;
            row->n_trained += span.len;
        }
        i += i == start;
    }
    return buf_status(&b->spans, "loss spans", err);
}

static ft_status add_sample(struct worker *w, struct batch *b, struct row *row, ft_error *err)
{
    const struct manifest_options *o = &w->p->manifest->options;
    size_t max_length = (size_t)o->max_length;
    row->n_encoded = w->ids.n;
    if (w->ids.n > max_length && !o->truncate) {
        row->fate = ROW_TOO_LONG;
        return FT_OK;
    }
    row->n_tokens = (uint32_t)FT_MIN(w->ids.n, max_length);
    row->tokens_at = b->tokens.len / sizeof(int32_t);
    if (row->n_tokens > 0)
        FT_TRY(add_spans(b, row, w->mask.data, err));
    row->fate = row->n_trained > 0 ? ROW_KEPT : ROW_UNTRAINED;
    if (row->fate == ROW_KEPT)
        buf_append(&b->tokens, w->ids.ids, row->n_tokens * sizeof(int32_t));
    return buf_status(&b->tokens, "tokens", err);
}

static ft_status encode_conversation(struct worker *w, struct batch *b, struct row *row,
                                     ft_error *err)
{
    const struct conversation *c = &w->conversation;
    const struct chat_conversation view = conversation_view(c);
    enum tok_specials content =
        w->p->manifest->options.parse_specials ? TOK_SPECIALS_PARSE : TOK_SPECIALS_LITERAL;
    if (c->n == 0) {
        row->fate = ROW_NO_ASSISTANT;
        return FT_OK;
    }
    row->notes[NOTE_TRAILING] = (uint32_t)c->n_trailing;
    row->notes[NOTE_EMPTY_ASSISTANT] = (uint32_t)c->n_empty;
    row->notes[NOTE_MERGED] = (uint32_t)c->n_merged;
    FT_TRY(chat_render(&w->text, w->p->options->chat_template, &view, false, err));
    row->notes[NOTE_LEADING] = (uint32_t)w->text.n_skipped;
    FT_TRY(chat_encode(&w->ids, &w->mask, w->encoder, &w->text, content, err));
    row->notes[NOTE_SPECIALS] = (uint32_t)w->ids.n_special_text;
    return add_sample(w, b, row, err);
}

/* json_parse counts lines inside the row: moves the row's line on to where the error is. */
static const char *shift_line(struct row *row, const char *message)
{
    uint64_t line;
    int used = 0;
    if (sscanf(message, "JSON: line %" SCNu64 ", %n", &line, &used) == 1 && used > 0) {
        row->line += line - 1;
        return message + used;
    }
    return message;
}

/* Keeps the message of a bad row: one line, whatever the row holds. */
static ft_status set_invalid(struct batch *b, struct row *row, ft_error *err)
{
    const char *message = shift_line(row, err->text);
    char *copy = (char *)(uintptr_t)arena_cstr(&b->messages, str_from(message));
    if (copy == NULL)
        return ft_fail_memory(err, strlen(message), "a message");
    for (char *p = copy; *p != '\0'; p++)
        *p = (unsigned char)*p < 0x20 || *p == 0x7F ? '?' : *p;
    row->fate = ROW_INVALID;
    row->n_encoded = 0;
    row->message = copy;
    return FT_OK;
}

/* A line that ends behind a bracket or comma is the start of a value spread over several lines. */
static ft_status parse_row(struct json_doc **out, str text, ft_error *err)
{
    ft_status st = json_parse(out, "JSON", text, JSON_STRICT, err);
    if (st != FT_EFORMAT || text.len == 0 || strchr("{[,", text.ptr[text.len - 1]) == NULL)
        return st;
    ft_error inner = *err;
    return ft_fail(err, st, "%s; expected one row per line, or one JSON array", inner.text);
}

static ft_status convert_row(struct worker *w, struct batch *b, struct row *row, ft_error *err)
{
    struct json_doc *doc;
    str text = {(const char *)b->text.data + row->text_at, row->text_len};
    ft_status st = parse_row(&doc, text, err);
    if (st == FT_OK)
        st = source_read_row(&w->conversation, json_root(doc), w->p->options->source, err);
    if (st == FT_OK)
        st = encode_conversation(w, b, row, err);
    json_close(doc);
    return st == FT_EFORMAT || st == FT_ELIMIT ? set_invalid(b, row, err) : st;
}

static void convert_batch(struct worker *w, struct batch *b)
{
    ft_error err = {0};
    for (size_t i = 0; i < b->n_rows && !atomic_load(w->p->options->stop); i++)
        if (convert_row(w, b, &b->rows[i], &err) != FT_OK) {
            b->n_rows = i;
            b->fatal = err;
            return;
        }
}

static ft_status worker_create(struct worker *w, struct pipeline *p, ft_error *err)
{
    *w = (struct worker){.p = p};
    FT_TRY(compressor_create(&w->zstd, (int)p->manifest->options.compression_level, err));
    return tok_encoder_create(&w->encoder, p->options->tok, err);
}

static void worker_destroy(struct worker *w)
{
    conversation_free(&w->conversation);
    chat_text_free(&w->text);
    tok_ids_free(&w->ids);
    buf_free(&w->mask);
    tok_encoder_destroy(w->encoder);
    compressor_destroy(w->zstd);
}

static void fail_batch(struct batch *b, const ft_error *failure)
{
    b->n_rows = 0;
    b->fatal = *failure;
}

/* A worker that could not be set up gives its error to every task it takes. */
static void run_task(struct worker *w, struct task *t, const ft_error *failure)
{
    bool ready = failure->status == FT_OK;
    if (t->job != NULL && ready)
        shard_job_run(t->job, w->zstd);
    else if (t->job != NULL)
        t->job->error = *failure;
    else if (ready)
        convert_batch(w, t->batch);
    else
        fail_batch(t->batch, failure);
}

static void worker_main(struct pipeline *p)
{
    struct worker w;
    struct task *t;
    ft_error failure = {0};
    failure.status = worker_create(&w, p, &failure);
    while ((t = queue_pop(&p->work)) != NULL) {
        run_task(&w, t, &failure);
        pthread_mutex_lock(&p->lock);
        t->busy = false;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    worker_destroy(&w);
}

/* --- writing --------------------------------------------------------------------------------- */

static void wait_for(struct pipeline *p, const struct task *t)
{
    pthread_mutex_lock(&p->lock);
    while (t->busy)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* Only the writer submits and waits, so a task whose job is NULL is free. */
static void submit_compression(void *ctx, struct shard_job *job)
{
    struct pipeline *p = ctx;
    struct task *t = p->compressions;
    while (t->job != NULL)
        t++;
    FT_ASSERT(t < p->compressions + p->n_compressions);
    *t = (struct task){.job = job, .busy = true};
    job->user = t;
    queue_push(&p->work, t);
}

static void wait_for_compression(void *ctx, struct shard_job *job)
{
    struct task *t = job->user;
    wait_for(ctx, t);
    t->job = NULL;
}

static ft_status add_example(struct report_line *line, struct manifest *m, const struct batch *b,
                             const struct row *row, const char *text, ft_error *err)
{
    if (line->n_examples == REPORT_EXAMPLES)
        return FT_OK;
    const char *copy = arena_cstr(&m->arena, str_from(text));
    if (copy == NULL)
        return ft_fail_memory(err, strlen(text), "the report");
    line->examples[line->n_examples++] =
        (struct report_example){b->source, row->row, row->line, copy};
    return FT_OK;
}

static ft_status add_note(struct pipeline *p, enum row_note note, uint64_t amount,
                          const struct batch *b, const struct row *row, ft_error *err)
{
    struct report_line *line = &p->manifest->report.notes[note];
    if (amount == 0)
        return FT_OK;
    line->rows++;
    line->amount += amount;
    return add_example(line, p->manifest, b, row, "", err);
}

static ft_status report_dropped(struct pipeline *p, const struct batch *b, const struct row *row,
                                ft_error *err)
{
    struct manifest *m = p->manifest;
    char text[48] = "";
    struct report_line *line = &m->report.fates[row->fate];
    line->rows++;
    line->amount += row->n_encoded;
    if (row->fate == ROW_INVALID && !m->options.skip_errors)
        return ft_fail(err, FT_EFORMAT,
                       "%s:%" PRIu64 " (row %" PRIu64
                       "): %s (--on-error skip drops and counts such rows)",
                       m->sources[b->source].path, row->line, row->row, row->message);
    if (row->fate == ROW_TOO_LONG)
        snprintf(text, sizeof text, "%" PRIu64 " tokens", row->n_encoded);
    return add_example(line, m, b, row, row->fate == ROW_INVALID ? row->message : text, err);
}

static ft_status write_row(struct pipeline *p, const struct batch *b, const struct row *row,
                           ft_error *err)
{
    if (row->fate != ROW_KEPT)
        return report_dropped(p, b, row, err);
    struct shard_sample s = {
        .tokens = (const int32_t *)(const void *)b->tokens.data + row->tokens_at,
        .spans = (const struct loss_span *)(const void *)b->spans.data + row->spans_at,
        .n_tokens = row->n_tokens,
        .n_spans = row->n_spans,
        .n_trained = row->n_trained,
        .source = b->source,
        .row = row->row,
    };
    p->manifest->report.fates[ROW_KEPT].rows++;
    p->manifest->report.fates[ROW_KEPT].amount += row->n_tokens;
    for (int n = 0; n < ROW_NOTES; n++)
        FT_TRY(add_note(p, (enum row_note)n,
                        n == NOTE_CUT ? row->n_encoded - row->n_tokens : row->notes[n], b, row,
                        err));
    enum dataset_split split =
        sink_choose_split(p->manifest->sources[b->source].use, p->manifest->options.eval_fraction,
                          s.tokens, s.n_tokens);
    return sink_add(p->sink, split, &s, err);
}

static ft_status write_batch(struct pipeline *p, struct batch *b, ft_error *err)
{
    wait_for(p, &b->task);
    FT_TRY(stop_check_flag(p->options->stop, err)); /* its rows may be half done */
    for (size_t i = 0; i < b->n_rows; i++)
        FT_TRY(write_row(p, b, &b->rows[i], err));
    if (b->fatal.status != FT_OK)
        *err = b->fatal;
    return b->fatal.status;
}

static uint64_t total_bytes(const struct manifest *m)
{
    uint64_t bytes = 0;
    struct stat sb;
    for (size_t i = 0; i < m->n_sources; i++) {
        if (stat(m->sources[i].path, &sb) != 0 || !S_ISREG(sb.st_mode))
            return 0; /* a pipe: unknown */
        bytes += (uint64_t)sb.st_size;
    }
    return bytes;
}

static void writer_main(struct pipeline *p)
{
    struct progress progress;
    struct batch *b;
    ft_status st = FT_OK;
    double done = 0;
    progress_start(&progress, "build", "MB", (double)total_bytes(p->manifest) * 1e-6);
    while (st == FT_OK && (b = queue_pop(&p->order)) != NULL) {
        st = write_batch(p, b, &p->error);
        done = (double)b->bytes_read * 1e-6;
        progress_update(&progress, done, "");
        leave_budget(p, b->text.len);
        queue_push(&p->empty, b);
    }
    if (st == FT_OK)
        st = stop_check_flag(p->options->stop, &p->error);
    pthread_mutex_lock(&p->lock);
    p->failed = st != FT_OK;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    queue_close(&p->empty);
    queue_close(&p->order);
    queue_close(&p->work); /* workers still finish what is in it */
    if (st == FT_OK)
        progress_finish(&progress, done, "");
}

/* --- all together ---------------------------------------------------------------------------- */

/* Every stage runs until the rows are through, so each thread of the pool takes exactly one. */
static void stage_main(void *ctx, int task)
{
    if (task == 0)
        reader_main(ctx);
    else if (task == 1)
        writer_main(ctx);
    else
        worker_main(ctx);
}

static void free_batches(struct batch *batches, size_t n)
{
    for (size_t i = 0; batches != NULL && i < n; i++) {
        buf_free(&batches[i].text);
        buf_free(&batches[i].tokens);
        buf_free(&batches[i].spans);
        arena_destroy(&batches[i].messages);
    }
    mem_free(batches);
}

ft_status pipeline_run(struct sink *sink, const struct pipeline_options *o, ft_error *err)
{
    size_t n_batches = (size_t)o->n_workers * 4 + 4, depth = (size_t)o->n_workers * 2;
    struct batch *batches = NULL;
    struct pool *pool = NULL;
    ft_status st;
    struct pipeline p = {
        .options = o, .sink = sink, .manifest = sink->manifest, .n_compressions = depth * SPLITS};
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.changed, NULL);
    FT_GOTO(mem_new(&batches, n_batches, sizeof *batches, "batches of rows", err));
    FT_GOTO(queue_init(&p.empty, n_batches, err));
    FT_GOTO(queue_init(&p.work, n_batches + p.n_compressions, err)); /* never full */
    FT_GOTO(mem_new(&p.compressions, p.n_compressions, sizeof *p.compressions, "tasks", err));
    FT_GOTO(queue_init(&p.order, n_batches, err));
    FT_GOTO(pool_create(&pool, o->n_workers + 2, err));
    for (size_t i = 0; i < n_batches; i++)
        FT_ASSERT(queue_push(&p.empty, &batches[i]));
    sink->executor = (struct shard_executor){submit_compression, wait_for_compression, &p, depth};
    pool_run(pool, o->n_workers + 2, stage_main, &p);
    sink->executor = (struct shard_executor){0}; /* all submitted blocks are compressed */
    st = p.error.status;
    if (st != FT_OK)
        *err = p.error;
out:
    pool_destroy(pool);
    queue_destroy(&p.empty);
    queue_destroy(&p.work);
    queue_destroy(&p.order);
    free_batches(batches, n_batches);
    mem_free(p.compressions);
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.lock);
    return st;
}
