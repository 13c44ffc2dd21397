/* SPDX-License-Identifier: Apache-2.0
 * ftprep quantize: a published model -> one .nf4 file.
 *
 * Every worker does what is needed next. Writing comes first: one worker at a time hashes and
 * writes the next tensor of the file. The others quantise pieces of the linear layers behind it
 * into a ring of buffers, so that neither the processor nor the disk waits for the other.
 * Everything that decides bytes is a pure function of the tensor and tensors are written in order,
 * so the file does not depend on the number of threads. */
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/cpu.h"
#include "common/file.h"
#include "common/half.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "formats/model_source.h"
#include "formats/nf4_file.h"
#include "formats/nf4_write.h"
#include "formats/tok/tok.h"
#include "tools/commands.h"
#include "tools/stop.h"

enum {
    CHUNK = 16384,           /* elements decoded at a time: 64 KiB, stays in the L2 cache */
    PIECE_CHUNKS = 4,        /* that a worker takes at once */
    RING_MIN = 3,            /* layers: one is written, one is done, one is being quantised */
    RING_MAX = 16,           /* more do not help, */
    RING_BYTES = 16 << 20,   /* nor does this much of them */
    AHEAD_BYTES = 128 << 20, /* of the source hashed while the tokenizer is read */
};

struct values {
    const char *out;
    int quant_from; /* enum nf4_quant_from */
    int64_t threads;
    bool tokenizer, force, json;
};

/* One quantised linear layer. */
struct layer {
    uint8_t *codes, *absmax_q;
    float *absmax, *absmax2, offset;
    int64_t tensor, rows_left; /* still to be quantised */
    int64_t bad_block;         /* first one with an infinity or NaN, or -1 */
    bool done;                 /* can be written */
};

/* Rows of a linear layer. */
struct piece {
    struct layer *layer;
    int64_t from, to;
};

/* Of one worker, a chunk each. */
struct scratch {
    float *x;
    uint16_t *rounded;
};

struct quantizer {
    const struct model_source *source;
    enum nf4_quant_from from;
    struct nf4_writer *writer;
    struct pool *pool;
    struct layer ring[RING_MAX];
    int64_t ring_size;
    struct scratch *scratch; /* [threads] */
    int64_t chunk_elements;  /* size of one of them */
    int64_t n;               /* tensors */

    /* Of the one worker that writes. */
    struct hasher *source_hasher;
    int64_t hashed;     /* source tensors [0, hashed) are in it */
    int64_t n_elements; /* of linear layers, written */
    struct progress bar;
    ft_error error;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    int64_t current, row;      /* next piece: linear tensor and row; current == n: none is left */
    int64_t n_begun, n_linear; /* linear layers that have entered and left the ring */
    int64_t n_written;         /* tensors */
    int64_t n_zero_blocks;     /* of all layers so far */
    bool writing;              /* a worker is at it */
    ft_status status;          /* of writing */
};

/* --- quantising ------------------------------------------------------------------------------- */

/* rounded is scratch of n elements. */
static void round_to(float *x, uint16_t *rounded, int64_t n, enum nf4_quant_from from)
{
    if (from == NF4_FROM_CHECKPOINT)
        return;
    enum dtype t = from == NF4_FROM_F16 ? DT_F16 : DT_BF16;
    dtype_encode(t, x, n, rounded); /* overflow shows as an infinite block maximum */
    dtype_decode(t, rounded, n, x);
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b == 0 ? a : gcd(b, a % b);
}

/* Rows that together end on a block border. */
static int64_t rows_per_group(int64_t cols)
{
    return NF4_BLOCK / gcd(cols, NF4_BLOCK);
}

static int64_t rows_per_chunk(int64_t cols)
{
    int64_t group = rows_per_group(cols);
    return group * FT_MAX(CHUNK / (group * cols), (int64_t)1);
}

/* Returns the number of all-zero blocks. */
static int64_t quantize_rows(const struct quantizer *q, const struct scratch *scratch,
                             struct layer *dst, int64_t from, int64_t to)
{
    const struct source_tensor *t = model_source_tensor(q->source, dst->tensor);
    int64_t first = from * t->cols, n = (to - from) * t->cols;
    source_read_rows(t, from, to, scratch->x);
    round_to(scratch->x, scratch->rounded, n, q->from);
    return nf4_quantize(dst->codes + first / 2, dst->absmax + first / NF4_BLOCK, scratch->x, n);
}

/* The second level, once all rows are there. */
static void finish_layer(const struct quantizer *q, struct layer *l)
{
    const struct source_tensor *t = model_source_tensor(q->source, l->tensor);
    int64_t n_blocks = nf4_blocks(t->rows * t->cols);
    for (int64_t b = 0; b < n_blocks; b++) {
        if (!isfinite(l->absmax[b])) {
            l->bad_block = b;
            return;
        }
    }
    nf4_quantize_absmax(l->absmax_q, l->absmax2, &l->offset, l->absmax, n_blocks);
}

/* Called with the lock held, which is open during the work. */
static void quantize_piece(struct quantizer *q, const struct scratch *scratch,
                           const struct piece *p)
{
    struct layer *l = p->layer;
    int64_t step = rows_per_chunk(model_source_tensor(q->source, l->tensor)->cols), zeros = 0;
    pthread_mutex_unlock(&q->lock);
    for (int64_t row = p->from; row < p->to; row += step)
        zeros += quantize_rows(q, scratch, l, row, FT_MIN(row + step, p->to));
    pthread_mutex_lock(&q->lock);
    q->n_zero_blocks += zeros;
    l->rows_left -= p->to - p->from;
    if (l->rows_left > 0)
        return;
    pthread_mutex_unlock(&q->lock);
    finish_layer(q, l);
    pthread_mutex_lock(&q->lock);
    l->done = true;
    pthread_cond_broadcast(&q->changed);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void hash_source(struct quantizer *q)
{
    const struct source_tensor *t = model_source_tensor(q->source, q->hashed++);
    hasher_field(q->source_hasher, str_from(t->spec.name));
    hasher_field(q->source_hasher, str_from(dtype_name(t->dtype)));
    hasher_update(q->source_hasher, t->data, t->row_bytes * (size_t)t->rows);
}

/* n values from element `first` on hold an infinity or NaN. */
static ft_status not_finite(const struct quantizer *q, const struct source_tensor *t, int64_t first,
                            int64_t n, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "%s: tensor '%s': among the %" PRId64 " values from row %" PRId64
                   ", column %" PRId64 " on, one is infinite or not a number%s",
                   model_source_name(q->source), t->spec.name, n, first / t->cols, first % t->cols,
                   q->from == NF4_FROM_F16 ? " as f16; try --quant-from bf16" : "");
}

static ft_status write_linear(struct quantizer *q, const struct source_tensor *t,
                              const struct layer *l, ft_error *err)
{
    struct nf4_matrix m = {.rows = t->rows,
                           .cols = t->cols,
                           .codes = l->codes,
                           .absmax = l->absmax_q,
                           .absmax2 = l->absmax2,
                           .offset = l->offset};
    if (l->bad_block >= 0)
        return not_finite(q, t, l->bad_block * NF4_BLOCK, NF4_BLOCK, err);
    nf4_writer_matrix(q->writer, &m);
    q->n_elements += t->rows * t->cols;
    return FT_OK;
}

/* Other tensors keep their stored bytes. Values that would surface as a NaN loss much later are
 * refused. */
static ft_status write_plain(struct quantizer *q, const struct source_tensor *t, ft_error *err)
{
    for (int64_t row = 0; row < t->rows; row++)
        if (!dtype_all_finite(t->dtype, source_row(t, row), t->cols))
            return not_finite(q, t, row * t->cols, t->cols, err);
    if (t->permuted_heads == 0) {
        nf4_writer_data(q->writer, t->data, t->row_bytes * (size_t)t->rows);
        return FT_OK;
    }
    for (int64_t row = 0; row < t->rows; row++)
        nf4_writer_data(q->writer, source_row(t, row), t->row_bytes);
    return FT_OK;
}

/* layer: that of a linear tensor, else NULL. */
static ft_status write_tensor(struct quantizer *q, int64_t i, const struct layer *layer,
                              ft_error *err)
{
    const struct source_tensor *t = model_source_tensor(q->source, i);
    FT_TRY(stop_check(err));
    if (q->hashed == i)
        hash_source(q);
    FT_TRY(layer != NULL ? write_linear(q, t, layer, err) : write_plain(q, t, err));
    model_source_release(q->source, i);
    progress_update(&q->bar, (double)i, "");
    return FT_OK;
}

/* The ring's buffer for the next tensor of the file; NULL when that is not a linear layer. */
static struct layer *next_layer(struct quantizer *q)
{
    bool linear = model_source_tensor(q->source, q->n_written)->spec.is_linear;
    return linear ? &q->ring[q->n_linear % q->ring_size] : NULL;
}

static bool can_write(struct quantizer *q)
{
    const struct layer *l = next_layer(q);
    return !q->writing && (l == NULL || (q->n_linear < q->n_begun && l->done));
}

/* Called with the lock held, which is open during the work. */
static void write_next(struct quantizer *q)
{
    struct layer *l = next_layer(q);
    q->writing = true;
    pthread_mutex_unlock(&q->lock);
    ft_status st = write_tensor(q, q->n_written, l, &q->error);
    pthread_mutex_lock(&q->lock);
    q->writing = false;
    q->status = st;
    q->n_written++;
    q->n_linear += l != NULL;
    pthread_cond_broadcast(&q->changed);
}

/* --- workers ---------------------------------------------------------------------------------- */

static int64_t next_linear(const struct quantizer *q, int64_t from)
{
    while (from < q->n && !model_source_tensor(q->source, from)->spec.is_linear)
        from++;
    return from;
}

/* False when there is nothing to quantise now: all is begun, or the ring is full. */
static bool take_piece(struct quantizer *q, struct piece *p)
{
    if (q->current == q->n || (q->row == 0 && q->n_begun - q->n_linear == q->ring_size))
        return false;
    const struct source_tensor *t = model_source_tensor(q->source, q->current);
    if (q->row == 0) {
        struct layer *l = &q->ring[q->n_begun++ % q->ring_size];
        l->tensor = q->current;
        l->rows_left = t->rows;
        l->bad_block = -1;
        l->done = false;
    }
    p->layer = &q->ring[(q->n_begun - 1) % q->ring_size];
    p->from = q->row;
    p->to = FT_MIN(p->from + PIECE_CHUNKS * rows_per_chunk(t->cols), t->rows);
    q->row = p->to;
    if (q->row == t->rows) {
        q->current = next_linear(q, q->current + 1);
        q->row = 0;
    }
    return true;
}

static void work(void *ctx, int worker)
{
    struct quantizer *q = ctx;
    struct piece piece;
    pthread_mutex_lock(&q->lock);
    while (q->status == FT_OK && q->n_written < q->n) {
        if (can_write(q))
            write_next(q);
        else if (take_piece(q, &piece))
            quantize_piece(q, &q->scratch[worker], &piece);
        else
            pthread_cond_wait(&q->changed, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
}

static ft_status quantize_all(struct quantizer *q, ft_error *err)
{
    q->current = next_linear(q, 0);
    progress_start(&q->bar, "quantising", "tensors", (double)q->n);
    pool_run(q->pool, pool_threads(q->pool), work, q);
    if (q->status != FT_OK) {
        *err = q->error;
        return q->status;
    }
    progress_finish(&q->bar, (double)q->n, "");
    return FT_OK;
}

/* --- set-up ----------------------------------------------------------------------------------- */

static ft_status alloc_layer(struct layer *l, int64_t numel, ft_error *err)
{
    size_t n_blocks = (size_t)nf4_blocks(numel);
    l->codes = mem_alloc_aligned((size_t)(numel + 1) / 2);
    l->absmax = mem_alloc_aligned(n_blocks * sizeof *l->absmax);
    l->absmax_q = mem_alloc_aligned(n_blocks);
    l->absmax2 = mem_alloc_aligned((size_t)nf4_blocks2(numel) * sizeof *l->absmax2);
    if (l->codes == NULL || l->absmax == NULL || l->absmax_q == NULL || l->absmax2 == NULL)
        return ft_fail_memory(err, (size_t)numel / 2 + n_blocks * 5, "a quantised layer");
    return FT_OK;
}

static void free_layer(struct layer *l)
{
    mem_free(l->codes);
    mem_free(l->absmax);
    mem_free(l->absmax_q);
    mem_free(l->absmax2);
}

static ft_status alloc_ring(struct quantizer *q, int64_t largest, ft_error *err)
{
    int64_t layer_bytes = largest / 2 + nf4_blocks(largest) * 5;
    q->ring_size = FT_MIN(FT_MAX(RING_BYTES / FT_MAX(layer_bytes, (int64_t)1), (int64_t)RING_MIN),
                          (int64_t)RING_MAX);
    for (int64_t i = 0; i < q->ring_size; i++)
        FT_TRY(alloc_layer(&q->ring[i], largest, err));
    return FT_OK;
}

static ft_status alloc_buffers(struct quantizer *q, ft_error *err)
{
    int64_t largest = 0;
    int n_threads = pool_threads(q->pool);
    for (int64_t i = next_linear(q, 0); i < q->n; i = next_linear(q, i + 1)) {
        const struct source_tensor *t = model_source_tensor(q->source, i);
        q->chunk_elements = FT_MAX(q->chunk_elements, rows_per_chunk(t->cols) * t->cols);
        largest = FT_MAX(largest, t->rows * t->cols);
    }
    FT_TRY(alloc_ring(q, largest, err));
    FT_TRY(mem_new(&q->scratch, (size_t)n_threads, sizeof *q->scratch, "workers", err));
    for (int i = 0; i < n_threads; i++) {
        struct scratch *w = &q->scratch[i];
        w->x = mem_alloc_aligned((size_t)q->chunk_elements * sizeof *w->x);
        w->rounded = mem_alloc_aligned((size_t)q->chunk_elements * sizeof *w->rounded);
        if (w->x == NULL || w->rounded == NULL)
            return ft_fail_memory(err, (size_t)q->chunk_elements * 6, "a worker");
    }
    return FT_OK;
}

static void close_quantizer(struct quantizer *q)
{
    nf4_writer_close(q->writer);
    hasher_destroy(q->source_hasher);
    for (int64_t i = 0; i < q->ring_size; i++)
        free_layer(&q->ring[i]);
    for (int i = 0; q->scratch != NULL && i < pool_threads(q->pool); i++) {
        mem_free(q->scratch[i].x);
        mem_free(q->scratch[i].rounded);
    }
    mem_free(q->scratch);
    pool_destroy(q->pool);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
}

/* Stays empty when the source has no tokenizer or none is wanted. */
static ft_status load_tokenizer(struct buf *blob, hash128 *fingerprint,
                                const struct model_source *s, bool wanted, ft_error *err)
{
    const char *path = model_source_tokenizer(s);
    int64_t vocab = model_source_config(s)->vocab;
    struct tok *tok;
    if (path == NULL || !wanted)
        return FT_OK;
    if (tok_open(&tok, path, err) != FT_OK)
        return ft_wrap(err, "tokenizer (--no-tokenizer leaves it out)");
    ft_status st = tok_to_blob(blob, tok, err);
    *fingerprint = tok_fingerprint(tok);
    if (st == FT_OK && tok_n_vocab(tok) > vocab)
        st = ft_fail(err, FT_EFORMAT,
                     "%s: the tokenizer has %d ids, the model's vocabulary only %" PRId64
                     "; they do not belong together",
                     path, tok_n_vocab(tok), vocab);
    tok_close(tok);
    return st;
}

/* The tokenizer's size decides where the tensors lie, so nothing can be written before it is read.
 * Meanwhile another worker begins to hash the source. */
struct start {
    struct quantizer *q;
    struct buf *blob;
    hash128 *fingerprint;
    bool wanted;
    atomic_bool ready;
    ft_status status;
    ft_error *err;
};

static void hash_ahead(struct start *s)
{
    struct quantizer *q = s->q;
    for (size_t bytes = 0; q->hashed < q->n && !atomic_load(&s->ready);) {
        int64_t i = q->hashed;
        const struct source_tensor *t = model_source_tensor(q->source, i);
        bytes += t->row_bytes * (size_t)t->rows;
        if (bytes > AHEAD_BYTES)
            return;
        hash_source(q);
        model_source_release(q->source, i);
    }
}

static void start_task(void *ctx, int task)
{
    struct start *s = ctx;
    if (task == 1) {
        hash_ahead(s);
        return;
    }
    s->status = load_tokenizer(s->blob, s->fingerprint, s->q->source, s->wanted, s->err);
    atomic_store(&s->ready, true);
}

static ft_status choose_dtypes(enum dtype **out, const struct model_source *s, int64_t n,
                               ft_error *err)
{
    FT_TRY(mem_new(out, (size_t)n, sizeof **out, "tensor types", err));
    for (int64_t i = 0; i < n; i++) {
        const struct source_tensor *t = model_source_tensor(s, i);
        (*out)[i] = t->spec.is_linear ? DT_NF4 : t->dtype;
    }
    return FT_OK;
}

/* --- report ----------------------------------------------------------------------------------- */

static void report(const struct quantizer *q, const struct values *v, uint64_t file_bytes,
                   double seconds)
{
    /* Codes, one byte per block, four per 256 blocks. */
    double bits = 4 + 8.0 / NF4_BLOCK + 32.0 / (NF4_BLOCK * NF4_BLOCK2);
    double rate = seconds > 0 ? (double)q->n_elements / seconds : 0;
    char size[32];
    if (v->json) {
        struct buf b = {0};
        buf_cstr(&b, "{\"out\": ");
        json_write_str(&b, str_from(v->out));
        buf_printf(&b,
                   ", \"tensors\": %" PRId64 ", \"nf4_tensors\": %" PRId64
                   ", \"nf4_elements\": %" PRId64 ", \"zero_blocks\": %" PRId64
                   ", \"bytes\": %" PRIu64 ", \"bits_per_weight\": %.4f, \"seconds\": %.3f"
                   ", \"elements_per_second\": %.4g, \"peak_rss_bytes\": %" PRIu64 "}",
                   q->n, q->n_linear, q->n_elements, q->n_zero_blocks, file_bytes, bits, seconds,
                   rate, mem_peak_rss());
        printf("%.*s\n", STR_ARG(buf_view(&b)));
        buf_free(&b);
        return;
    }
    printf("%s: %" PRId64 " tensors, %" PRId64 " in NF4 (%.1f million weights, %.3f bits each), "
           "%s, %.0f million weights/s\n",
           v->out, q->n, q->n_linear, (double)q->n_elements / 1e6, bits,
           format_bytes(size, (double)file_bytes), rate / 1e6);
    if (q->n_zero_blocks > 0)
        printf("%" PRId64
               " blocks of 64 weights are all zero; NF4 with double quantisation decodes "
               "them to small non-zero values\n",
               q->n_zero_blocks);
}

/* --- output ----------------------------------------------------------------------------------- */

/* Said before the work is done. --force replaces an .nf4 file and nothing else, so no file of the
 * model that is being read. */
static ft_status check_out(const struct values *v, const char *model, ft_error *err)
{
    struct nf4_file *old;
    FT_TRY(file_check_target(v->out, err));
    if (!path_exists(v->out))
        return FT_OK;
    if (path_same(v->out, model))
        return ft_fail(err, FT_EUSAGE, "--out: %s is the model that is to be read", v->out);
    if (!v->force)
        return ft_fail(err, FT_EIO, "%s exists; --force replaces it", v->out);
    if (nf4_file_open(&old, v->out, err) != FT_OK)
        return ft_wrap(err, "--force replaces .nf4 files only");
    nf4_file_close(old);
    return FT_OK;
}

/* A signal removes the unfinished file. */
static ft_status quantize_into(const char *path, struct quantizer *q,
                               const struct nf4_write_options *write, ft_error *err)
{
    struct stop stop;
    ft_status st;
    stop_catch(&stop);
    FT_GOTO(nf4_writer_open(&q->writer, path, write, err));
    FT_GOTO(quantize_all(q, err));
    FT_GOTO(nf4_writer_commit(q->writer, hasher_digest(q->source_hasher), err));
out:
    stop_restore(&stop);
    return st;
}

/* --- command ---------------------------------------------------------------------------------- */

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    const struct values *v = values;
    struct model_source *source = NULL;
    enum dtype *dtypes = NULL;
    struct buf tokenizer = {0};
    struct quantizer q = {.from = (enum nf4_quant_from)v->quant_from,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    double started = clock_seconds();
    ft_status st;
    (void)n_args;
    FT_GOTO(check_out(v, args[0], err));
    FT_GOTO(model_source_open(&source, args[0], err));
    q.source = source;
    q.n = model_tensors(model_source_config(source));
    FT_GOTO(pool_create(&q.pool, v->threads > 0 ? (int)v->threads : cpu_count(), err));
    FT_GOTO(alloc_buffers(&q, err));
    FT_GOTO(choose_dtypes(&dtypes, source, q.n, err));
    FT_GOTO(hasher_create(&q.source_hasher, err));
    struct nf4_write_options write = {
        .config = model_source_config(source),
        .dtypes = dtypes,
        .quant_from = q.from,
        .source = model_source_name(source),
    };
    struct start start = {.q = &q,
                          .blob = &tokenizer,
                          .fingerprint = &write.tokenizer_fingerprint,
                          .wanted = v->tokenizer,
                          .err = err};
    pool_run(q.pool, 2, start_task, &start);
    FT_GOTO(start.status);
    write.tokenizer = buf_view(&tokenizer);
    FT_GOTO(quantize_into(v->out, &q, &write, err));
    report(&q, v, nf4_writer_bytes(q.writer), clock_seconds() - started);
out:
    close_quantizer(&q);
    buf_free(&tokenizer);
    mem_free(dtypes);
    model_source_close(source);
    return st;
}

static const struct opt options[] = {
    {.name = "out",
     .type = OPT_STRING,
     .offset = offsetof(struct values, out),
     .metavar = "FILE",
     .help = "the .nf4 file to write",
     .required = true},
    {.name = "quant-from",
     .type = OPT_CHOICE,
     .offset = offsetof(struct values, quant_from),
     .def = "checkpoint",
     .choices = NF4_FROM_CHOICES,
     .help = "round the weights to this type before quantising; f16 is what XTuner does"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = offsetof(struct values, threads),
     .def = "0",
     .min = 0,
     .max = 1024,
     .metavar = "N",
     .help = "worker threads, 0 = all processors"},
    {.name = "tokenizer",
     .type = OPT_BOOL,
     .offset = offsetof(struct values, tokenizer),
     .def = "true",
     .help = "leave the tokenizer out of the file"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = offsetof(struct values, force),
     .def = "false",
     .help = "replace an earlier .nf4 file"},
    {.name = "json",
     .type = OPT_BOOL,
     .offset = offsetof(struct values, json),
     .def = "false",
     .help = "print the summary as JSON"},
};

const struct command cmd_quantize = {
    .name = "quantize",
    .summary = "Quantise a published model to one NF4 file for training",
    .usage = "MODEL",
    .details =
        "MODEL is a GGUF file (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K) or a\n"
        "Hugging Face directory with config.json and safetensors, of the Llama, Mistral or Qwen2\n"
        "family. The linear layers become NF4 with double quantisation, bit for bit as "
        "bitsandbytes'\n"
        "CUDA kernels define it; embeddings, norms, biases and the head keep their own type. The\n"
        "tokenizer travels along. The bytes of the result do not depend on --threads. Nothing "
        "appears\n"
        "under its name before it is complete.",
    .examples = "  ftprep quantize SmolLM2-135M-Instruct.Q4_1.gguf --out smollm2.nf4\n"
                "  ftprep quantize Meta-Llama-3-8B-Instruct/ --out llama3.nf4 --quant-from f16",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct values),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
