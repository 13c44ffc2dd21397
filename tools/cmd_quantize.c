/* SPDX-License-Identifier: Apache-2.0
 * ftprep quantize: a published model -> one .nf4 file.
 *
 * Two buffers alternate: while the workers quantise one linear layer, one of them first finishes
 * the layer before it (second quantisation level, hashes, writing) together with the tensors that
 * lie between the two in the file. Everything that decides bytes is a pure function of the tensor,
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

enum { CHUNK = 16384 /* elements a worker decodes at a time: 64 KiB, stays in the L2 cache */ };

struct values {
    const char *out;
    int quant_from; /* enum nf4_quant_from */
    int64_t threads;
    bool tokenizer, force, json;
};

/* One quantised linear layer. */
struct layer {
    uint8_t *codes, *absmax_q;
    float *absmax, *absmax2;
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
    struct hasher *source_hasher;
    struct pool *pool;
    struct layer layers[2];
    struct scratch *scratch; /* [threads] */
    int64_t chunk_elements;  /* size of one of them */
    int64_t n;               /* tensors */

    /* The present round. */
    int64_t current;                   /* linear tensor being quantised, or n */
    int64_t chunk_rows, n_chunks;      /* of it */
    atomic_int_fast64_t next_chunk;    /* handed out one by one */
    atomic_int_fast64_t n_zero_blocks; /* in all tensors so far */
    int64_t finished;                  /* tensors [0, finished) are written */
    int turn;                          /* layers[turn] is filled, the other one is finished */
    ft_status status;                  /* of finishing */
    ft_error error;

    int64_t n_linear, n_elements; /* of linear layers */
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

static void quantize_chunk(struct quantizer *q, int64_t chunk, struct scratch *scratch)
{
    const struct source_tensor *t = model_source_tensor(q->source, q->current);
    struct layer *dst = &q->layers[q->turn];
    int64_t from = chunk * q->chunk_rows, to = FT_MIN(from + q->chunk_rows, t->rows);
    int64_t first = from * t->cols, n = (to - from) * t->cols;
    float *x = scratch->x;
    source_read_rows(t, from, to, x);
    round_to(x, scratch->rounded, n, q->from);
    int64_t zeros = nf4_quantize(dst->codes + first / 2, dst->absmax + first / NF4_BLOCK, x, n);
    atomic_fetch_add(&q->n_zero_blocks, zeros);
}

/* --- finishing -------------------------------------------------------------------------------- */

static void hash_source(struct quantizer *q, const struct source_tensor *t)
{
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

static ft_status finish_linear(struct quantizer *q, const struct source_tensor *t, ft_error *err)
{
    struct layer *l = &q->layers[1 - q->turn];
    int64_t numel = t->rows * t->cols, n_blocks = nf4_blocks(numel);
    struct nf4_matrix m = {.rows = t->rows,
                           .cols = t->cols,
                           .codes = l->codes,
                           .absmax = l->absmax_q,
                           .absmax2 = l->absmax2};
    for (int64_t b = 0; b < n_blocks; b++)
        if (!isfinite(l->absmax[b]))
            return not_finite(q, t, b * NF4_BLOCK, NF4_BLOCK, err);
    nf4_quantize_absmax(l->absmax_q, l->absmax2, &m.offset, l->absmax, n_blocks);
    nf4_writer_matrix(q->writer, &m);
    q->n_linear++;
    q->n_elements += numel;
    return FT_OK;
}

/* Other tensors keep their stored bytes; they are decoded only to refuse values that would surface
 * as a NaN loss much later. */
static ft_status finish_plain(struct quantizer *q, const struct source_tensor *t, float *x,
                              ft_error *err)
{
    int64_t step = FT_MAX(q->chunk_elements / t->cols, (int64_t)1);
    for (int64_t row = 0; row < t->rows; row += step) {
        int64_t to = FT_MIN(row + step, t->rows), n = (to - row) * t->cols;
        source_read_rows(t, row, to, x);
        uint32_t worst = 0; /* magnitudes order like their bits */
        for (int64_t i = 0; i < n; i++)
            worst = FT_MAX(worst, f32_to_bits(x[i]) & 0x7FFFFFFF);
        if (worst >= 0x7F800000)
            return not_finite(q, t, row * t->cols, n, err);
    }
    if (t->permuted_heads == 0) {
        nf4_writer_data(q->writer, t->data, t->row_bytes * (size_t)t->rows);
        return FT_OK;
    }
    for (int64_t row = 0; row < t->rows; row++)
        nf4_writer_data(q->writer, source_row(t, row), t->row_bytes);
    return FT_OK;
}

/* Writes every tensor before the current one; the first linear among them is the layer quantised
 * in the round before. */
static void finish_previous(struct quantizer *q, float *x)
{
    for (int64_t i = q->finished; i < q->current && q->status == FT_OK; i++) {
        const struct source_tensor *t = model_source_tensor(q->source, i);
        hash_source(q, t);
        q->status =
            t->spec.is_linear ? finish_linear(q, t, &q->error) : finish_plain(q, t, x, &q->error);
        model_source_release(q->source, i);
    }
    q->finished = q->current;
}

static void work(void *ctx, int worker)
{
    struct quantizer *q = ctx;
    struct scratch *scratch = &q->scratch[worker];
    if (worker == 0)
        finish_previous(q, scratch->x);
    for (;;) {
        int64_t chunk = atomic_fetch_add(&q->next_chunk, 1);
        if (chunk >= q->n_chunks)
            return;
        quantize_chunk(q, chunk, scratch);
    }
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int64_t next_linear(const struct quantizer *q, int64_t from)
{
    while (from < q->n && !model_source_tensor(q->source, from)->spec.is_linear)
        from++;
    return from;
}

static void start_round(struct quantizer *q, int64_t current)
{
    q->current = current;
    q->turn = 1 - q->turn;
    q->n_chunks = 0;
    atomic_store(&q->next_chunk, 0);
    if (current == q->n)
        return;
    const struct source_tensor *t = model_source_tensor(q->source, current);
    q->chunk_rows = rows_per_chunk(t->cols);
    q->n_chunks = (t->rows + q->chunk_rows - 1) / q->chunk_rows;
}

static ft_status quantize_all(struct quantizer *q, ft_error *err)
{
    struct progress bar;
    progress_start(&bar, "quantising", "tensors", (double)q->n);
    for (int64_t current = -1; current < q->n;) {
        FT_TRY(stop_check(err));
        current = next_linear(q, current + 1);
        start_round(q, current);
        pool_run(q->pool, pool_threads(q->pool), work, q);
        if (q->status != FT_OK) {
            *err = q->error;
            return q->status;
        }
        progress_update(&bar, (double)q->finished, "");
    }
    progress_finish(&bar, (double)q->n, "");
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

static ft_status alloc_buffers(struct quantizer *q, ft_error *err)
{
    int64_t largest = 0;
    int n_threads = pool_threads(q->pool);
    q->chunk_elements = CHUNK;
    for (int64_t i = 0; i < q->n; i++) {
        const struct source_tensor *t = model_source_tensor(q->source, i);
        int64_t chunk = t->spec.is_linear ? rows_per_chunk(t->cols) * t->cols : t->cols;
        q->chunk_elements = FT_MAX(q->chunk_elements, chunk);
        if (t->spec.is_linear)
            largest = FT_MAX(largest, t->rows * t->cols);
    }
    FT_TRY(alloc_layer(&q->layers[0], largest, err));
    FT_TRY(alloc_layer(&q->layers[1], largest, err));
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
    free_layer(&q->layers[0]);
    free_layer(&q->layers[1]);
    for (int i = 0; q->scratch != NULL && i < pool_threads(q->pool); i++) {
        mem_free(q->scratch[i].x);
        mem_free(q->scratch[i].rounded);
    }
    mem_free(q->scratch);
    pool_destroy(q->pool);
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
    int64_t zero = (int64_t)atomic_load(&q->n_zero_blocks);
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
                   q->n, q->n_linear, q->n_elements, zero, file_bytes, bits, seconds, rate,
                   mem_peak_rss());
        printf("%.*s\n", STR_ARG(buf_view(&b)));
        buf_free(&b);
        return;
    }
    printf("%s: %" PRId64 " tensors, %" PRId64 " in NF4 (%.1f million weights, %.3f bits each), "
           "%s, %.0f million weights/s\n",
           v->out, q->n, q->n_linear, (double)q->n_elements / 1e6, bits,
           format_bytes(size, (double)file_bytes), rate / 1e6);
    if (zero > 0)
        printf("%" PRId64
               " blocks of 64 weights are all zero; NF4 with double quantisation decodes "
               "them to small non-zero values\n",
               zero);
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
    struct quantizer q = {.from = (enum nf4_quant_from)v->quant_from};
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
    FT_GOTO(load_tokenizer(&tokenizer, &write.tokenizer_fingerprint, source, v->tokenizer, err));
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
