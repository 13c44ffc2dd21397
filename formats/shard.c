/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/shard.h"

#include <string.h>

#include "common/hash.h"
#include "common/mem.h"

static const uint8_t magic[8] = {'F', 'T', 'S', 'H', 'A', 'R', 'D', 0};

/* Header fields; docs/formats/shard.md has the same table. */
enum {
    H_VERSION = 8,
    H_TOKEN_BYTES = 12,
    H_SAMPLES = 16,
    H_TOKENS = 24,
    H_TRAINED = 32,
    H_INDEX_AT = 40,
    H_TABLE_AT = 48,
    H_FILE_BYTES = 56,
    H_INDEX_HASH = 64,
    H_TABLE_HASH = 72,
    H_BLOCKS = 80,
    H_HASH = 120, /* of the bytes before it */
};

uint32_t shard_token_bytes(int64_t n_vocab)
{
    return n_vocab <= UINT16_MAX + 1 ? 2 : 4;
}

/* Fields of a record's head. They repeat the index, so that a damaged index cannot pass off one
 * sample as another: the block's checksum covers them. */
enum { R_ROW = 0, R_SOURCE = 8, R_TOKENS = 12, R_TRAINED = 16, R_SPANS = 20 };

/* Head, spans, tokens; records start at multiples of eight. */
static size_t record_bytes(uint32_t n_tokens, uint32_t n_spans, uint32_t token_bytes)
{
    return size_align(SHARD_RECORD_BYTES + (size_t)n_spans * 8 + (size_t)n_tokens * token_bytes, 8);
}

/* --- writing --------------------------------------------------------------------------------- */

struct shard_writer {
    struct file_writer file;
    struct compressor *zstd;
    const struct shard_executor *executor;
    struct shard_job *jobs; /* [depth]; a ring of blocks that are closed and not written */
    size_t depth, first_job, n_jobs;
    uint32_t token_bytes, n_blocks;
    struct shard_counts counts;
    uint64_t taken; /* bytes of closed blocks */
    struct buf raw; /* the open block */
    struct buf index, table;
};

ft_status shard_writer_create(struct shard_writer **out, const char *path, uint32_t token_bytes,
                              int level, const struct shard_executor *executor, ft_error *err)
{
    static const uint8_t zeros[SHARD_HEADER_BYTES];
    struct shard_writer *w = NULL;
    ft_status st;
    *out = NULL;
    FT_ASSERT(token_bytes == 2 || token_bytes == 4);
    FT_TRY(mem_new(&w, 1, sizeof *w, "a shard writer", err));
    w->token_bytes = token_bytes;
    w->executor = executor;
    w->depth = FT_MAX(executor->depth, (size_t)1);
    FT_GOTO(mem_new(&w->jobs, w->depth, sizeof *w->jobs, "a shard writer", err));
    FT_GOTO(compressor_create(&w->zstd, level, err));
    FT_GOTO(file_writer_open(&w->file, path, err));
    file_write(&w->file, zeros, sizeof zeros); /* known at the end */
    *out = w;
    return FT_OK;
out:
    shard_writer_abort(w);
    return st;
}

void shard_job_run(struct shard_job *job, struct compressor *c)
{
    buf_clear(&job->packed);
    job->hash = hash64(job->raw.data, job->raw.len);
    /* The error reaches the writer with the job. */
    job->error.status =
        compressor_append(&job->packed, c, job->raw.data, job->raw.len, &job->error);
}

static struct shard_job *take_job(struct shard_writer *w)
{
    struct shard_job *job = &w->jobs[w->first_job];
    if (w->executor->submit != NULL)
        w->executor->wait(w->executor->ctx, job);
    w->first_job = (w->first_job + 1) % w->depth;
    w->n_jobs--;
    return job;
}

static ft_status write_oldest_block(struct shard_writer *w, ft_error *err)
{
    struct shard_job *job = take_job(w);
    if (job->error.status != FT_OK) {
        *err = job->error;
        return err->status;
    }
    buf_u64le(&w->table, w->file.written);
    buf_u64le(&w->table, job->hash);
    buf_u32le(&w->table, (uint32_t)job->packed.len);
    buf_u32le(&w->table, (uint32_t)job->raw.len);
    file_write(&w->file, job->packed.data, job->packed.len);
    return buf_status(&w->table, "the block table", err);
}

static ft_status close_block(struct shard_writer *w, ft_error *err)
{
    FT_TRY(buf_status(&w->raw, "a shard block", err));
    if (w->raw.len == 0)
        return FT_OK;
    if (w->n_jobs == w->depth)
        FT_TRY(write_oldest_block(w, err));
    struct shard_job *job = &w->jobs[(w->first_job + w->n_jobs++) % w->depth];
    struct buf emptied = job->raw;
    job->raw = w->raw;
    w->raw = emptied;
    buf_clear(&w->raw);
    w->taken += job->raw.len;
    w->n_blocks++;
    if (w->executor->submit != NULL)
        w->executor->submit(w->executor->ctx, job);
    else
        shard_job_run(job, w->zstd);
    return FT_OK;
}

static void write_spans(struct buf *raw, const struct shard_sample *s)
{
    uint32_t end = 0, trained = 0;
    for (uint32_t i = 0; i < s->n_spans; i++) {
        FT_ASSERT(s->spans[i].len > 0 && (i == 0 || s->spans[i].start > end));
        end = s->spans[i].start + s->spans[i].len;
        trained += s->spans[i].len;
        buf_u32le(raw, s->spans[i].start);
        buf_u32le(raw, s->spans[i].len);
    }
    FT_ASSERT(end <= s->n_tokens && trained == s->n_trained);
}

static void write_tokens(struct buf *raw, const struct shard_sample *s, uint32_t token_bytes)
{
    uint8_t *dst = buf_reserve(raw, (size_t)s->n_tokens * token_bytes);
    if (dst == NULL)
        return;
    for (uint32_t i = 0; i < s->n_tokens; i++, dst += token_bytes) {
        uint32_t id = (uint32_t)s->tokens[i];
        FT_ASSERT(token_bytes == 4 ? id <= INT32_MAX : id <= UINT16_MAX);
        if (token_bytes == 4)
            store_u32le(dst, id);
        else
            store_u16le(dst, (uint16_t)id);
    }
    raw->len += (size_t)s->n_tokens * token_bytes;
}

static void write_record(struct buf *raw, const struct shard_sample *s, uint32_t token_bytes)
{
    buf_u64le(raw, s->row);
    buf_u32le(raw, s->source);
    buf_u32le(raw, s->n_tokens);
    buf_u32le(raw, s->n_trained);
    buf_u32le(raw, s->n_spans);
    write_spans(raw, s);
    write_tokens(raw, s, token_bytes);
    buf_pad(raw, 8);
}

static struct shard_entry load_entry(const uint8_t *e)
{
    return (struct shard_entry){
        .row = load_u64le(e),
        .block = load_u32le(e + 8),
        .offset = load_u32le(e + 12),
        .n_tokens = load_u32le(e + 16),
        .n_trained = load_u32le(e + 20),
        .source = load_u32le(e + 24),
        .n_images = load_u32le(e + 28),
        .first_image = load_u32le(e + 32),
    };
}

static ft_status add_entry(struct shard_writer *w, const struct shard_entry *e, ft_error *err)
{
    buf_u64le(&w->index, e->row);
    buf_u32le(&w->index, e->block);
    buf_u32le(&w->index, e->offset);
    buf_u32le(&w->index, e->n_tokens);
    buf_u32le(&w->index, e->n_trained);
    buf_u32le(&w->index, e->source);
    buf_u32le(&w->index, e->n_images);
    buf_u32le(&w->index, e->first_image);
    buf_u32le(&w->index, 0); /* reserved */
    w->counts.n_samples++;
    w->counts.n_tokens += e->n_tokens;
    w->counts.n_trained += e->n_trained;
    return buf_status(&w->index, "the sample index", err);
}

ft_status shard_writer_add(struct shard_writer *w, const struct shard_sample *s, ft_error *err)
{
    FT_ASSERT(s->n_tokens > 0 && s->n_tokens <= SHARD_MAX_TOKENS);
    struct shard_entry e = {
        .row = s->row,
        .block = w->n_blocks,
        .offset = (uint32_t)w->raw.len,
        .n_tokens = s->n_tokens,
        .n_trained = s->n_trained,
        .source = s->source,
    };
    FT_TRY(add_entry(w, &e, err));
    write_record(&w->raw, s, w->token_bytes);
    return w->raw.failed || w->raw.len >= SHARD_BLOCK_RAW ? close_block(w, err) : FT_OK;
}

uint64_t shard_writer_bytes(const struct shard_writer *w)
{
    return w->taken + w->raw.len + w->index.len;
}

uint64_t shard_writer_block_bytes(const struct shard_writer *w)
{
    return w->raw.len;
}

ft_status shard_writer_end_block(struct shard_writer *w, ft_error *err)
{
    return close_block(w, err);
}

const struct shard_counts *shard_writer_counts(const struct shard_writer *w)
{
    return &w->counts;
}

static void write_header(struct shard_writer *w, uint64_t index_at, uint64_t table_at)
{
    uint8_t h[SHARD_HEADER_BYTES] = {0};
    memcpy(h, magic, sizeof magic);
    store_u32le(h + H_VERSION, SHARD_VERSION);
    store_u32le(h + H_TOKEN_BYTES, w->token_bytes);
    store_u64le(h + H_SAMPLES, w->counts.n_samples);
    store_u64le(h + H_TOKENS, w->counts.n_tokens);
    store_u64le(h + H_TRAINED, w->counts.n_trained);
    store_u64le(h + H_INDEX_AT, index_at);
    store_u64le(h + H_TABLE_AT, table_at);
    store_u64le(h + H_FILE_BYTES, w->file.written);
    store_u64le(h + H_INDEX_HASH, hash64(w->index.data, w->index.len));
    store_u64le(h + H_TABLE_HASH, hash64(w->table.data, w->table.len));
    store_u32le(h + H_BLOCKS, w->n_blocks);
    store_u64le(h + H_HASH, hash64(h, H_HASH));
    file_write_at(&w->file, 0, h, sizeof h);
}

ft_status shard_writer_commit(struct shard_writer *w, ft_error *err)
{
    static const uint8_t zeros[8];
    ft_status st = close_block(w, err);
    while (st == FT_OK && w->n_jobs > 0)
        st = write_oldest_block(w, err);
    if (st == FT_OK) {
        file_write(&w->file, zeros, (size_t)(-w->file.written & 7));
        uint64_t index_at = w->file.written, table_at = index_at + w->index.len;
        file_write(&w->file, w->index.data, w->index.len);
        file_write(&w->file, w->table.data, w->table.len);
        write_header(w, index_at, table_at);
        st = file_writer_commit(&w->file, err);
    }
    shard_writer_abort(w);
    return st;
}

void shard_writer_abort(struct shard_writer *w)
{
    if (w == NULL)
        return;
    while (w->n_jobs > 0)
        take_job(w); /* somebody may still be at it */
    for (size_t i = 0; w->jobs != NULL && i < w->depth; i++) {
        buf_free(&w->jobs[i].raw);
        buf_free(&w->jobs[i].packed);
    }
    mem_free(w->jobs);
    file_writer_abort(&w->file);
    compressor_destroy(w->zstd);
    buf_free(&w->raw);
    buf_free(&w->index);
    buf_free(&w->table);
    mem_free(w);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Exactly header, block data, index, table, nothing between or behind. */
static ft_status check_extents(struct shard *s, uint64_t index_at, uint64_t table_at, ft_error *err)
{
    size_t index_bytes, table_bytes, end;
    if (index_at % 8 != 0 || index_at < SHARD_HEADER_BYTES || index_at > s->map.bytes ||
        !size_mul(s->counts.n_samples, SHARD_ENTRY_BYTES, &index_bytes) ||
        !size_mul(s->n_blocks, SHARD_BLOCK_BYTES, &table_bytes) ||
        !size_add(index_at, index_bytes, &end) || end != table_at ||
        !size_add(end, table_bytes, &end) || end != s->map.bytes)
        return ft_fail(err, FT_EFORMAT,
                       "header: index at %llu and block table at %llu do not fit %llu samples, %u "
                       "blocks and %zu bytes",
                       (unsigned long long)index_at, (unsigned long long)table_at,
                       (unsigned long long)s->counts.n_samples, s->n_blocks, s->map.bytes);
    s->index = s->map.data + index_at;
    s->blocks = s->map.data + table_at;
    s->blocks_end = index_at;
    return FT_OK;
}

static ft_status parse_header(struct shard *s, ft_error *err)
{
    const uint8_t *h = s->map.data;
    if (s->map.bytes < SHARD_HEADER_BYTES || memcmp(h, magic, sizeof magic) != 0)
        return ft_fail(err, FT_EFORMAT, "byte 0: not a shard (%zu bytes)", s->map.bytes);
    if (load_u32le(h + H_VERSION) != SHARD_VERSION)
        return ft_fail(err, FT_EFORMAT,
                       "byte %d: shard version %u, this program reads version %d; build the data "
                       "set again",
                       H_VERSION, load_u32le(h + H_VERSION), SHARD_VERSION);
    if (load_u64le(h + H_HASH) != hash64(h, H_HASH))
        return ft_fail(err, FT_EFORMAT, "byte %d: the header is damaged (checksum differs)",
                       H_HASH);
    if (load_u64le(h + H_FILE_BYTES) != s->map.bytes)
        return ft_fail(err, FT_EFORMAT, "%zu bytes, but %llu were written: the file is cut off",
                       s->map.bytes, (unsigned long long)load_u64le(h + H_FILE_BYTES));
    s->token_bytes = load_u32le(h + H_TOKEN_BYTES);
    if (s->token_bytes != 2 && s->token_bytes != 4)
        return ft_fail(err, FT_EFORMAT, "byte %d: token width %u, expected 2 or 4", H_TOKEN_BYTES,
                       s->token_bytes);
    s->counts = (struct shard_counts){load_u64le(h + H_SAMPLES), load_u64le(h + H_TOKENS),
                                      load_u64le(h + H_TRAINED)};
    s->n_blocks = load_u32le(h + H_BLOCKS);
    s->index_hash = load_u64le(h + H_INDEX_HASH);
    s->table_hash = load_u64le(h + H_TABLE_HASH);
    return check_extents(s, load_u64le(h + H_INDEX_AT), load_u64le(h + H_TABLE_AT), err);
}

ft_status shard_open(struct shard *out, const char *path, ft_error *err)
{
    *out = (struct shard){0};
    FT_TRY(file_map_open(&out->map, path, err));
    out->path = mem_strdup(path);
    ft_status st = out->path == NULL ? ft_fail_memory(err, strlen(path), "a path") : FT_OK;
    if (st == FT_OK && parse_header(out, err) != FT_OK)
        st = ft_wrap(err, "%s", path);
    if (st != FT_OK)
        shard_close(out);
    return st;
}

void shard_close(struct shard *s)
{
    file_map_close(&s->map);
    mem_free(s->path);
    *s = (struct shard){0};
}

struct shard_entry shard_entry_at(const struct shard *s, uint64_t i)
{
    FT_ASSERT(i < s->counts.n_samples);
    return load_entry(s->index + i * SHARD_ENTRY_BYTES);
}

struct shard_block shard_block_at(const struct shard *s, uint32_t b)
{
    FT_ASSERT(b < s->n_blocks);
    const uint8_t *e = s->blocks + (size_t)b * SHARD_BLOCK_BYTES;
    return (struct shard_block){load_u64le(e), load_u64le(e + 8), load_u32le(e + 16),
                                load_u32le(e + 20)};
}

static ft_status check_block(const struct shard *s, const struct shard_block *b, ft_error *err)
{
    if (b->offset < SHARD_HEADER_BYTES || b->offset > s->blocks_end ||
        b->stored_bytes > s->blocks_end - b->offset || b->raw_bytes > SHARD_MAX_BLOCK_RAW)
        return ft_fail(err, FT_EFORMAT, "%u bytes at %llu that hold %u lie outside the block data",
                       b->stored_bytes, (unsigned long long)b->offset, b->raw_bytes);
    return FT_OK;
}

static ft_status read_block(struct buf *raw, const struct shard *s, const struct shard_block *b,
                            struct decompressor *d, ft_error *err)
{
    FT_TRY(check_block(s, b, err));
    buf_clear(raw);
    if (buf_reserve(raw, b->raw_bytes) == NULL)
        return ft_fail_memory(err, b->raw_bytes, "a shard block");
    FT_TRY(decompressor_run(raw->data, b->raw_bytes, d, s->map.data + b->offset, b->stored_bytes,
                            err));
    raw->len = b->raw_bytes;
    if (hash64(raw->data, raw->len) != b->hash)
        return ft_fail(err, FT_EFORMAT, "checksum differs: the stored bytes are damaged");
    return FT_OK;
}

ft_status shard_read_block(struct buf *raw, const struct shard *s, uint32_t b,
                           struct decompressor *d, ft_error *err)
{
    struct shard_block block = shard_block_at(s, b);
    if (read_block(raw, s, &block, d, err) != FT_OK)
        return ft_wrap(err, "%s: block %u", s->path, b);
    return FT_OK;
}

/* The record that the index entry points at, when it is one: right place, same sample. */
static ft_status find_record(const uint8_t **out, uint32_t *n_spans, const struct shard *s,
                             const struct shard_entry *e, const struct buf *raw, ft_error *err)
{
    const uint8_t *r = raw->data + e->offset;
    if (e->offset % 8 != 0 || e->offset > raw->len || raw->len - e->offset < SHARD_RECORD_BYTES)
        return ft_fail(err, FT_EFORMAT, "byte %u of a block of %zu is no record", e->offset,
                       raw->len);
    if (load_u64le(r + R_ROW) != e->row || load_u32le(r + R_SOURCE) != e->source ||
        load_u32le(r + R_TOKENS) != e->n_tokens || load_u32le(r + R_TRAINED) != e->n_trained ||
        e->n_images != 0 || e->first_image != 0)
        return ft_fail(err, FT_EFORMAT, "the index entry does not agree with the record");
    *out = r + SHARD_RECORD_BYTES;
    *n_spans = load_u32le(r + R_SPANS);
    if (e->n_tokens > SHARD_MAX_TOKENS || *n_spans > e->n_tokens ||
        record_bytes(e->n_tokens, *n_spans, s->token_bytes) > raw->len - e->offset)
        return ft_fail(err, FT_EFORMAT, "%u tokens and %u loss spans do not fit the block",
                       e->n_tokens, *n_spans);
    return FT_OK;
}

static ft_status unpack_spans(uint8_t *mask, const struct shard_entry *e, const uint8_t *p,
                              uint32_t n_spans, ft_error *err)
{
    uint64_t end = 0, trained = 0;
    memset(mask, 0, e->n_tokens);
    for (uint32_t i = 0; i < n_spans; i++, p += 8) {
        uint64_t start = load_u32le(p), len = load_u32le(p + 4);
        if (len == 0 || (i > 0 && start <= end) || start + len > e->n_tokens)
            return ft_fail(err, FT_EFORMAT, "loss span %u: %llu tokens from %llu in a sample of %u",
                           i, (unsigned long long)len, (unsigned long long)start, e->n_tokens);
        memset(mask + start, 1, len);
        end = start + len;
        trained += len;
    }
    if (trained != e->n_trained)
        return ft_fail(err, FT_EFORMAT, "loss spans cover %llu tokens instead of %u",
                       (unsigned long long)trained, e->n_trained);
    return FT_OK;
}

static ft_status unpack_tokens(int32_t *tokens, uint32_t n, const uint8_t *p, uint32_t token_bytes,
                               int64_t n_vocab, ft_error *err)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < n; i++, p += token_bytes) {
        uint32_t id = token_bytes == 2 ? load_u16le(p) : load_u32le(p);
        highest = FT_MAX(highest, id);
        tokens[i] = (int32_t)id;
    }
    if (highest >= n_vocab)
        return ft_fail(err, FT_EFORMAT, "token id %u is outside the vocabulary of %lld", highest,
                       (long long)n_vocab);
    return FT_OK;
}

ft_status shard_unpack(int32_t *tokens, uint8_t *mask, const struct shard *s, uint64_t i,
                       const struct buf *raw, int64_t n_vocab, ft_error *err)
{
    struct shard_entry e = shard_entry_at(s, i);
    const uint8_t *record = NULL;
    uint32_t n_spans = 0;
    ft_status st = find_record(&record, &n_spans, s, &e, raw, err);
    if (st == FT_OK)
        st = unpack_spans(mask, &e, record, n_spans, err);
    if (st == FT_OK)
        st = unpack_tokens(tokens, e.n_tokens, record + (size_t)n_spans * 8, s->token_bytes,
                           n_vocab, err);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s: sample %llu", s->path, (unsigned long long)i);
}

/* --- copying --------------------------------------------------------------------------------- */

ft_status shard_writer_copy_block(struct shard_writer *w, const struct shard *from, uint32_t b,
                                  ft_error *err)
{
    struct shard_block block = shard_block_at(from, b);
    FT_ASSERT(w->raw.len == 0 && w->n_jobs == 0);
    if (check_block(from, &block, err) != FT_OK)
        return ft_wrap(err, "%s: block %u", from->path, b);
    buf_u64le(&w->table, w->file.written);
    buf_u64le(&w->table, block.hash);
    buf_u32le(&w->table, block.stored_bytes);
    buf_u32le(&w->table, block.raw_bytes);
    file_write(&w->file, from->map.data + block.offset, block.stored_bytes);
    w->taken += block.raw_bytes;
    w->n_blocks++;
    return buf_status(&w->table, "the block table", err);
}

ft_status shard_writer_copy_entry(struct shard_writer *w, const struct shard_entry *e,
                                  ft_error *err)
{
    struct shard_entry copy = *e;
    FT_ASSERT(w->n_blocks > 0);
    copy.block = w->n_blocks - 1;
    return add_entry(w, &copy, err);
}

ft_status shard_writer_repeat(struct shard_entry *e, struct shard_writer *w, uint64_t i,
                              ft_error *err)
{
    FT_ASSERT(i < w->counts.n_samples);
    *e = load_entry(w->index.data + i * SHARD_ENTRY_BYTES);
    return add_entry(w, e, err);
}
