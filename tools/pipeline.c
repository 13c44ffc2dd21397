/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pipeline.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "tools/stop.h"
#include "tools/walk.h"

enum {
    BATCH_BYTES = 256 << 10,
    BATCH_ROWS = 256,
    BUDGET_BYTES = 64 << 20, /* row text on its way between reader and writer */
    BLOCKS_AHEAD = 32,       /* of a shard, closed and not written, for each worker */
    KEEP_BYTES = 4 << 20,    /* a batch that grew beyond it gives its memory back */
};

/* A row as read, and what became of it. */
struct row {
    size_t text_at, text_len; /* in the batch's text */
    uint64_t row, line;
    enum row_fate fate;
    uint64_t n_dropped;           /* tokens that are not in its samples, and are not noted */
    size_t samples_at, n_samples; /* in the batch's samples */
    uint64_t notes[ROW_NOTES];    /* amounts */
    const char *message;          /* of an invalid row, in the batch's arena */
};

struct sample {
    uint32_t n_tokens, n_trained, n_spans;
    size_t tokens_at, spans_at; /* indices into the batch's arrays */
    hash128 ids;                /* of the tokens */
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
    struct buf tokens;  /* int32_t */
    struct buf spans;   /* struct loss_span */
    struct buf samples; /* struct sample */
    struct arena messages;
    const hash128 *known_key; /* of its part, when that was planned */
    bool ends_part;
    hash128 key;    /* of the part that it ends */
    ft_error fatal; /* status != FT_OK: what ends the run behind the rows of this batch */
};

struct pipeline {
    const struct pipeline_options *options;
    struct sink *sink;
    const struct manifest *manifest;
    struct plan *plan;        /* to be made; NULL when it was given */
    const struct plan *given; /* parts[n_parts] of it are chosen */
    const size_t *parts;
    size_t n_parts;
    struct queue empty, order; /* of batches */
    struct queue work;         /* of tasks */
    struct task *compressions; /* [n_compressions] for the sink's blocks */
    size_t n_compressions;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t in_flight; /* bytes of text between reader and writer */
    bool failed;      /* the writer gave up */
    bool part_ended;  /* the writer's next batch begins a part */
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
    uint64_t bytes;        /* read so far, for the progress line */
    uint64_t bytes_before; /* of the parts that are finished, when they were given */
    const hash128 *known_key;
};

static void reset_batch(struct batch *b)
{
    struct buf *const buffers[] = {&b->text, &b->tokens, &b->spans, &b->samples};
    for (size_t i = 0; i < ARRAY_LEN(buffers); i++) {
        if (buffers[i]->cap > KEEP_BYTES)
            buf_free(buffers[i]);
        buf_clear(buffers[i]);
    }
    arena_destroy(&b->messages);
    b->n_rows = 0;
    b->ends_part = false;
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
        r->batch->known_key = r->known_key;
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

static ft_status read_row(void *ctx, uint32_t source, const struct jsonl_row *in, ft_error *err)
{
    struct reader *r = ctx;
    /* A row that does not fit goes into a batch of its own. */
    if (r->batch != NULL &&
        (r->batch->source != source || r->batch->text.len + in->text.len > BATCH_BYTES))
        send_batch(r);
    if (!need_batch(r, source))
        return ft_fail(err, FT_ESTOP, "the run is over");
    struct batch *b = r->batch;
    b->rows[b->n_rows++] = (struct row){
        .text_at = b->text.len, .text_len = in->text.len, .row = in->row, .line = in->line};
    buf_str(&b->text, in->text);
    b->bytes_read = r->bytes;
    FT_TRY(buf_status(&b->text, "a batch of rows", err));
    if (b->n_rows == BATCH_ROWS || b->text.len >= BATCH_BYTES)
        send_batch(r);
    return FT_OK;
}

/* The last batch of a part says so, and may be empty. */
static ft_status end_part(void *ctx, const struct plan_part *part, ft_error *err)
{
    struct reader *r = ctx;
    if (!need_batch(r, 0))
        return ft_fail(err, FT_ESTOP, "the run is over");
    r->batch->ends_part = true;
    r->batch->key = part->key;
    r->batch->bytes_read = r->bytes;
    send_batch(r);
    return FT_OK;
}

static bool count_bytes(void *ctx, uint64_t n)
{
    struct reader *r = ctx;
    r->bytes = r->bytes_before + n;
    return given_up(r->p);
}

static ft_status read_input(struct reader *r, ft_error *err)
{
    struct pipeline *p = r->p;
    const struct walk_calls calls = {read_row, end_part, count_bytes, r};
    if (p->plan != NULL)
        return walk_input(p->plan, &calls, err);
    for (size_t i = 0; i < p->n_parts; i++) {
        r->known_key = &p->given->parts[p->parts[i]].key;
        FT_TRY(walk_part(p->given, p->parts[i], &calls, err));
        r->bytes_before = r->bytes;
    }
    return FT_OK;
}

/* A failure travels behind the rows read before it, so that an earlier bad row is reported first.
 */
static void reader_main(struct pipeline *p)
{
    struct reader r = {.p = p};
    ft_error err = {0};
    if (read_input(&r, &err) != FT_OK && need_batch(&r, 0))
        r.batch->fatal = err;
    send_batch(&r);
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
    struct buf window; /* struct chat_message: of a row that is split */
    struct buf turns;  /* size_t: where its turns start */
};

/* Runs of trained tokens among the first n_tokens. The first token is never one: nothing comes
 * before it that could predict it. */
static ft_status add_spans(struct batch *b, struct sample *s, uint8_t *mask, ft_error *err)
{
    mask[0] = 0;
    s->spans_at = b->spans.len / sizeof(struct loss_span);
    for (uint32_t i = 0; i < s->n_tokens;) {
        uint32_t start = i;
        while (i < s->n_tokens && mask[i] != 0)
            i++;
        if (i > start) {
            struct loss_span span = {start, i - start};
            buf_append(&b->spans, &span, sizeof span);
            s->n_spans++;
            s->n_trained += span.len;
        }
        i += i == start;
    }
    return buf_status(&b->spans, "loss spans", err);
}

/* The first n tokens of what was encoded last become a sample of the row, unless none of them is
 * trained; *added tells. */
static ft_status add_sample(bool *added, struct worker *w, struct batch *b, struct row *row,
                            size_t n, ft_error *err)
{
    struct sample s = {.n_tokens = (uint32_t)n, .tokens_at = b->tokens.len / sizeof(int32_t)};
    if (n > 0)
        FT_TRY(add_spans(b, &s, w->mask.data, err));
    *added = s.n_trained > 0;
    if (!*added)
        return FT_OK;
    s.ids = hash128_of(w->ids.ids, n * sizeof(int32_t));
    buf_append(&b->tokens, w->ids.ids, n * sizeof(int32_t));
    buf_append(&b->samples, &s, sizeof s);
    row->n_samples++;
    FT_TRY(buf_status(&b->samples, "samples", err));
    return buf_status(&b->tokens, "tokens", err);
}

static ft_status encode(struct worker *w, const struct chat_conversation *c, ft_error *err)
{
    enum tok_specials content =
        w->p->manifest->options.parse_specials ? TOK_SPECIALS_PARSE : TOK_SPECIALS_LITERAL;
    FT_TRY(chat_render(&w->text, w->p->options->chat_template, c, false, err));
    return chat_encode(&w->ids, &w->mask, w->encoder, &w->text, content, err);
}

static size_t max_length(const struct worker *w)
{
    return (size_t)w->p->manifest->options.max_length;
}

/* --- splitting at turns ---------------------------------------------------------------------- */

/* System messages in front belong to every sample of the row. */
static size_t n_leading(const struct chat_conversation *c)
{
    size_t n = 0;
    while (n < c->n &&
           (c->messages[n].role == CHAT_SYSTEM || c->messages[n].role == CHAT_DEVELOPER))
        n++;
    return n;
}

/* A turn starts with the first of some messages of the user, so that answers and tool calls stay
 * with their question. The end of the conversation comes last in w->turns. */
static ft_status find_turns(struct worker *w, const struct chat_conversation *c, ft_error *err)
{
    buf_clear(&w->turns);
    size_t first = n_leading(c);
    for (size_t i = first; i < c->n; i++)
        if (i == first ||
            (c->messages[i].role == CHAT_USER && c->messages[i - 1].role != CHAT_USER))
            buf_append(&w->turns, &i, sizeof i);
    buf_append(&w->turns, &c->n, sizeof c->n);
    return buf_status(&w->turns, "turns", err);
}

/* Encodes the leading messages and turns [from, to). */
static ft_status encode_turns(struct worker *w, const struct chat_conversation *c, size_t from,
                              size_t to, ft_error *err)
{
    const size_t *turns = (const size_t *)(const void *)w->turns.data;
    struct chat_conversation part = *c;
    size_t lead = n_leading(c), n = turns[to] - turns[from];
    buf_clear(&w->window);
    buf_append(&w->window, c->messages, lead * sizeof *c->messages);
    buf_append(&w->window, c->messages + turns[from], n * sizeof *c->messages);
    FT_TRY(buf_status(&w->window, "a row that is split", err));
    part.messages = (const struct chat_message *)(const void *)w->window.data;
    part.n = lead + n;
    part.row = NULL; /* it describes the whole */
    return encode(w, &part, err);
}

/* Most turns from `from` on that fit together, at least one, found by doubling and halving; they
 * are what is encoded last. */
static ft_status take_turns(size_t *to, struct worker *w, const struct chat_conversation *c,
                            size_t from, size_t n_turns, ft_error *err)
{
    size_t fits = from + 1, above = n_turns + 1, step = 1, encoded = from + 1;
    FT_TRY(encode_turns(w, c, from, fits, err));
    while (w->ids.n <= max_length(w) && fits + 1 < above) {
        size_t next = above > n_turns ? FT_MIN(fits + step, n_turns) : fits + (above - fits) / 2;
        step *= 2;
        FT_TRY(encode_turns(w, c, from, encoded = next, err));
        if (w->ids.n <= max_length(w)) {
            fits = next;
        } else {
            above = next;
            w->ids.n = 0; /* only the first turn alone may be too long */
        }
    }
    *to = fits;
    return encoded == fits ? FT_OK : encode_turns(w, c, from, fits, err);
}

static ft_status split_row(struct worker *w, struct batch *b, struct row *row,
                           const struct chat_conversation *c, ft_error *err)
{
    FT_TRY(find_turns(w, c, err));
    size_t n_turns = w->turns.len / sizeof(size_t) - 1;
    for (size_t from = 0; from < n_turns;) {
        bool added = false;
        FT_TRY(take_turns(&from, w, c, from, n_turns, err));
        if (w->ids.n <= max_length(w))
            FT_TRY(add_sample(&added, w, b, row, w->ids.n, err));
        row->n_dropped += added ? 0 : w->ids.n;
    }
    row->fate = row->n_samples > 0 ? ROW_KEPT : ROW_TOO_LONG;
    if (row->fate == ROW_KEPT) {
        row->notes[NOTE_SPLIT] = row->n_samples - 1;
        row->notes[NOTE_DROPPED_TURNS] = row->n_dropped;
        row->n_dropped = 0;
    }
    return FT_OK;
}

/* --- rows ------------------------------------------------------------------------------------ */

static ft_status add_long_row(struct worker *w, struct batch *b, struct row *row,
                              const struct chat_conversation *c, ft_error *err)
{
    bool added;
    switch (w->p->manifest->options.too_long) {
    case TOO_LONG_SPLIT:
        return split_row(w, b, row, c, err);
    case TOO_LONG_TRUNCATE:
        FT_TRY(add_sample(&added, w, b, row, max_length(w), err));
        row->fate = added ? ROW_KEPT : ROW_UNTRAINED;
        row->notes[NOTE_CUT] = added ? w->ids.n - max_length(w) : 0;
        row->n_dropped = added ? 0 : w->ids.n;
        return FT_OK;
    case TOO_LONG_DROP:
    case TOO_LONG_ERROR:
        break;
    }
    row->fate = ROW_TOO_LONG;
    row->n_dropped = w->ids.n;
    return FT_OK;
}

/* A weight below one leaves rows out, chosen by the ids of their first sample. */
static void select_row(struct worker *w, struct batch *b, struct row *row)
{
    const struct manifest *m = w->p->manifest;
    struct sample *samples = (struct sample *)(void *)b->samples.data + row->samples_at;
    const struct manifest_group *g = &m->groups[m->sources[b->source].group];
    if (row->n_samples == 0 || g->weight >= 1 ||
        sink_choose_copies(g, m->options.seed, samples[0].ids) > 0)
        return;
    for (size_t i = 0; i < row->n_samples; i++)
        row->n_dropped += samples[i].n_tokens;
    row->n_dropped += row->notes[NOTE_CUT] + row->notes[NOTE_DROPPED_TURNS];
    row->fate = ROW_UNSELECTED;
    row->n_samples = 0;
}

static ft_status encode_conversation(struct worker *w, struct batch *b, struct row *row,
                                     ft_error *err)
{
    const struct conversation *c = &w->conversation;
    const struct chat_conversation view = conversation_view(c);
    bool added;
    row->samples_at = b->samples.len / sizeof(struct sample);
    if (c->n == 0) {
        row->fate = ROW_NO_ASSISTANT;
        return FT_OK;
    }
    row->notes[NOTE_TRAILING] = c->n_trailing;
    row->notes[NOTE_EMPTY_ASSISTANT] = c->n_empty;
    row->notes[NOTE_MERGED] = c->n_merged;
    FT_TRY(encode(w, &view, err));
    row->notes[NOTE_LEADING] = w->text.n_skipped;
    row->notes[NOTE_SPECIALS] = w->ids.n_special_text;
    if (w->ids.n > max_length(w)) {
        FT_TRY(add_long_row(w, b, row, &view, err));
    } else {
        FT_TRY(add_sample(&added, w, b, row, w->ids.n, err));
        row->fate = added ? ROW_KEPT : ROW_UNTRAINED;
        row->n_dropped = added ? 0 : w->ids.n;
    }
    select_row(w, b, row);
    return FT_OK;
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
    row->n_samples = 0;
    row->n_dropped = 0;
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
    buf_free(&w->window);
    buf_free(&w->turns);
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

static ft_status add_example(struct pipeline *p, struct report_line *line, const struct batch *b,
                             const struct row *row, const char *text, ft_error *err)
{
    if (line->n_examples == REPORT_EXAMPLES)
        return FT_OK;
    const char *copy = arena_cstr(&p->sink->part.arena, str_from(text));
    if (copy == NULL)
        return ft_fail_memory(err, strlen(text), "the report");
    line->examples[line->n_examples++] =
        (struct report_example){b->source, row->row, row->line, copy};
    return FT_OK;
}

static ft_status add_note(struct pipeline *p, enum row_note note, uint64_t amount,
                          const struct batch *b, const struct row *row, ft_error *err)
{
    struct report_line *line = &p->sink->part.report.notes[note];
    if (amount == 0)
        return FT_OK;
    line->rows++;
    line->amount += amount;
    return add_example(p, line, b, row, "", err);
}

/* With --on-error stop or --too-long error the first such row ends the run. */
static ft_status check_policy(struct pipeline *p, const struct batch *b, const struct row *row,
                              const char *tokens, ft_error *err)
{
    const struct manifest *m = p->manifest;
    const char *path = m->sources[b->source].path;
    if (row->fate == ROW_INVALID && !m->options.skip_errors)
        return ft_fail(err, FT_EFORMAT,
                       "%s:%" PRIu64 " (row %" PRIu64
                       "): %s (--on-error skip drops and counts such rows)",
                       path, row->line, row->row, row->message);
    if (row->fate == ROW_TOO_LONG && m->options.too_long == TOO_LONG_ERROR)
        return ft_fail(err, FT_EFORMAT,
                       "%s:%" PRIu64 " (row %" PRIu64 "): %s, the maximum is %" PRId64
                       " (--too-long drop, truncate or split goes on)",
                       path, row->line, row->row, tokens, m->options.max_length);
    return FT_OK;
}

static ft_status report_dropped(struct pipeline *p, const struct batch *b, const struct row *row,
                                ft_error *err)
{
    char text[48] = "";
    struct report_line *line = &p->sink->part.report.fates[row->fate];
    if (row->fate == ROW_TOO_LONG)
        snprintf(text, sizeof text, "%" PRIu64 " tokens", row->n_dropped);
    FT_TRY(check_policy(p, b, row, text, err));
    line->rows++;
    line->amount += row->n_dropped;
    return add_example(p, line, b, row, row->fate == ROW_INVALID ? row->message : text, err);
}

static ft_status write_sample(struct pipeline *p, const struct batch *b, const struct row *row,
                              const struct sample *from, ft_error *err)
{
    const struct manifest *m = p->manifest;
    struct shard_sample s = {
        .tokens = (const int32_t *)(const void *)b->tokens.data + from->tokens_at,
        .spans = (const struct loss_span *)(const void *)b->spans.data + from->spans_at,
        .n_tokens = from->n_tokens,
        .n_spans = from->n_spans,
        .n_trained = from->n_trained,
        .source = b->source,
        .row = row->row,
    };
    struct part_row place = {from->ids, row->line};
    enum dataset_split split = sink_choose_split(m->sources[b->source].use,
                                                 m->options.eval_fraction, s.tokens, s.n_tokens);
    p->sink->part.report.fates[ROW_KEPT].amount += from->n_tokens;
    return sink_add(p->sink, split, &s, &place, err);
}

static ft_status write_row(struct pipeline *p, const struct batch *b, const struct row *row,
                           ft_error *err)
{
    const struct sample *samples = (const struct sample *)(const void *)b->samples.data;
    if (row->fate != ROW_KEPT)
        return report_dropped(p, b, row, err);
    p->sink->part.report.fates[ROW_KEPT].rows++;
    for (int n = 0; n < ROW_NOTES; n++)
        FT_TRY(add_note(p, (enum row_note)n, row->notes[n], b, row, err));
    for (size_t i = 0; i < row->n_samples; i++)
        FT_TRY(write_sample(p, b, row, &samples[row->samples_at + i], err));
    return FT_OK;
}

static ft_status write_batch(struct pipeline *p, struct batch *b, ft_error *err)
{
    wait_for(p, &b->task);
    FT_TRY(stop_check_flag(p->options->stop, err)); /* its rows may be half done */
    if (p->part_ended)
        sink_begin_part(p->sink, b->known_key);
    p->part_ended = b->ends_part;
    for (size_t i = 0; i < b->n_rows; i++)
        FT_TRY(write_row(p, b, &b->rows[i], err));
    if (b->fatal.status != FT_OK)
        *err = b->fatal;
    if (b->fatal.status != FT_OK || !b->ends_part)
        return b->fatal.status;
    return sink_end_part(p->sink, b->key, err);
}

static uint64_t part_bytes(const struct plan *plan, const struct plan_part *part)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < part->n_pieces; i++) {
        const struct jsonl_piece *p = &plan->pieces[part->first_piece + i].piece;
        bytes += p->to - p->from;
    }
    return bytes;
}

static uint64_t file_bytes(const struct manifest *m)
{
    uint64_t bytes = 0;
    struct stat sb;
    for (size_t i = 0; i < m->n_sources; i++) {
        if (stat(m->sources[i].path, &sb) != 0 || !S_ISREG(sb.st_mode))
            return 0; /* a pipe */
        bytes += (uint64_t)sb.st_size;
    }
    return bytes;
}

/* What will be read; 0 = unknown. */
static uint64_t total_bytes(const struct pipeline *p)
{
    uint64_t bytes = 0;
    if (p->plan != NULL)
        return file_bytes(p->manifest);
    for (size_t i = 0; i < p->n_parts; i++)
        bytes += part_bytes(p->given, &p->given->parts[p->parts[i]]);
    return bytes;
}

static void writer_main(struct pipeline *p)
{
    struct progress progress;
    struct batch *b;
    ft_status st = FT_OK;
    double done = 0;
    progress_start(&progress, "map", "MB", (double)total_bytes(p) * 1e-6);
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
        buf_free(&batches[i].samples);
        arena_destroy(&batches[i].messages);
    }
    mem_free(batches);
}

static ft_status run(struct pipeline *p, ft_error *err)
{
    const struct pipeline_options *o = p->options;
    size_t n_batches = (size_t)o->n_workers * 4 + 4, depth = (size_t)o->n_workers * BLOCKS_AHEAD;
    struct batch *batches = NULL;
    struct pool *pool = NULL;
    ft_status st;
    p->n_compressions = depth * SPLITS;
    p->part_ended = true;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    FT_GOTO(mem_new(&batches, n_batches, sizeof *batches, "batches of rows", err));
    FT_GOTO(queue_init(&p->empty, n_batches, err));
    FT_GOTO(queue_init(&p->work, n_batches + p->n_compressions, err)); /* never full */
    FT_GOTO(mem_new(&p->compressions, p->n_compressions, sizeof *p->compressions, "tasks", err));
    FT_GOTO(queue_init(&p->order, n_batches, err));
    FT_GOTO(pool_create(&pool, o->n_workers + 2, err));
    for (size_t i = 0; i < n_batches; i++)
        FT_ASSERT(queue_push(&p->empty, &batches[i]));
    p->sink->executor = (struct shard_executor){submit_compression, wait_for_compression, p, depth};
    pool_run(pool, o->n_workers + 2, stage_main, p);
    p->sink->executor = (struct shard_executor){0}; /* all submitted blocks are compressed */
    st = p->error.status;
    if (st != FT_OK)
        *err = p->error;
out:
    pool_destroy(pool);
    queue_destroy(&p->empty);
    queue_destroy(&p->work);
    queue_destroy(&p->order);
    free_batches(batches, n_batches);
    mem_free(p->compressions);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    return st;
}

ft_status pipeline_run(struct sink *sink, struct plan *plan, const struct pipeline_options *o,
                       ft_error *err)
{
    struct pipeline p = {.options = o, .sink = sink, .manifest = &plan->manifest, .plan = plan};
    return run(&p, err);
}

ft_status pipeline_run_parts(struct sink *sink, const struct plan *plan, const size_t *parts,
                             size_t n, const struct pipeline_options *o, ft_error *err)
{
    struct pipeline p = {.options = o,
                         .sink = sink,
                         .manifest = &plan->manifest,
                         .given = plan,
                         .parts = parts,
                         .n_parts = n};
    return run(&p, err);
}
