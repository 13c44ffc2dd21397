/* SPDX-License-Identifier: Apache-2.0
 * One shard: tokenised samples in zstd blocks with a fixed-width index. Byte level:
 * docs/formats/shard.md. dataset.h joins the shards of a split. */
#ifndef FORMATS_SHARD_H
#define FORMATS_SHARD_H

#include "common/file.h"
#include "formats/compress.h"

enum {
    SHARD_VERSION = 1,
    SHARD_HEADER_BYTES = 128,
    SHARD_ENTRY_BYTES = 40,        /* of the sample index */
    SHARD_RECORD_BYTES = 24,       /* head of a record inside a block */
    SHARD_BLOCK_BYTES = 24,        /* of the block table */
    SHARD_BLOCK_RAW = 16 << 10,    /* a block is closed when it holds this much */
    SHARD_MAX_TOKENS = 1 << 24,    /* of one sample */
    SHARD_MAX_BLOCK_RAW = 1 << 28, /* above the largest sample and a full block */
};

/* Tokens [start, start + len) of a sample are trained. Spans ascend and do not touch. */
struct loss_span {
    uint32_t start, len;
};

struct shard_sample {
    const int32_t *tokens;
    const struct loss_span *spans;
    uint32_t n_tokens, n_spans, n_trained;
    uint32_t source; /* index into the manifest's sources */
    uint64_t row;    /* zero-based in the source */
};

struct shard_counts {
    uint64_t n_samples, n_tokens, n_trained;
};

/* Smallest token width, 2 or 4 bytes, for ids below n_vocab. */
uint32_t shard_token_bytes(int64_t n_vocab);

/* --- writing --------------------------------------------------------------------------------- */

/* A closed block on its way into the file. Compressing it is most of the work of writing and needs
 * nothing else, so it may happen on any thread. */
struct shard_job {
    struct buf raw, packed;
    uint64_t hash;
    ft_error error;
    void *user; /* for the executor */
};
void shard_job_run(struct shard_job *job, struct compressor *c);

/* Who compresses: submit takes a job and gets shard_job_run called for it, on any thread, with a
 * compressor of the writer's level; wait returns when that has happened. Blocks are written in
 * order whatever the executor does. submit == NULL: the writer compresses by itself. */
struct shard_executor {
    void (*submit)(void *ctx, struct shard_job *job);
    void (*wait)(void *ctx, struct shard_job *job);
    void *ctx;
    size_t depth; /* jobs that may be under way at once, for one writer */
};

struct shard_writer;

/* executor is borrowed; its submit may become NULL between calls, when every job has been run. */
FT_NODISCARD ft_status shard_writer_create(struct shard_writer **out, const char *path,
                                           uint32_t token_bytes, int level,
                                           const struct shard_executor *executor, ft_error *err);
/* 1 to SHARD_MAX_TOKENS tokens, ids that fit the width, valid spans: asserted. */
FT_NODISCARD ft_status shard_writer_add(struct shard_writer *w, const struct shard_sample *s,
                                        ft_error *err);
/* Bytes taken so far, before compression, and those of the block that is open. */
uint64_t shard_writer_bytes(const struct shard_writer *w);
uint64_t shard_writer_block_bytes(const struct shard_writer *w);
/* Closes the open block before it is full. */
FT_NODISCARD ft_status shard_writer_end_block(struct shard_writer *w, ft_error *err);
const struct shard_counts *shard_writer_counts(const struct shard_writer *w);
/* Writes the open block, index and header and publishes the file; frees the writer either way. */
FT_NODISCARD ft_status shard_writer_commit(struct shard_writer *w, ft_error *err);
void shard_writer_abort(struct shard_writer *w); /* leaves no file; NULL is fine */

/* --- copying --------------------------------------------------------------------------------- */

struct shard;
struct shard_entry;

/* Appends block b of another shard as it is stored, without decompressing it, then entries of its
 * samples one by one. Not to be mixed with shard_writer_add. */
FT_NODISCARD ft_status shard_writer_copy_block(struct shard_writer *w, const struct shard *from,
                                               uint32_t b, ft_error *err);
/* A sample of the block copied last; e->block is ignored. */
FT_NODISCARD ft_status shard_writer_copy_entry(struct shard_writer *w, const struct shard_entry *e,
                                               ft_error *err);
/* Appends another entry, *e, for sample i of this shard. */
FT_NODISCARD ft_status shard_writer_repeat(struct shard_entry *e, struct shard_writer *w,
                                           uint64_t i, ft_error *err);

/* --- reading --------------------------------------------------------------------------------- */

struct shard {
    struct file_map map;
    char *path;
    uint32_t token_bytes, n_blocks;
    struct shard_counts counts;
    const uint8_t *index, *blocks; /* inside the map */
    uint64_t blocks_end;           /* where the block data ends */
    uint64_t index_hash, table_hash;
};

struct shard_entry {
    uint64_t row;
    uint32_t block, offset; /* of the sample's record in the decompressed block */
    uint32_t n_tokens, n_trained;
    uint32_t source;
    uint32_t n_images, first_image; /* reserved for images, zero in this version */
};

struct shard_block {
    uint64_t offset, hash; /* XXH3-64 of the decompressed bytes */
    uint32_t stored_bytes, raw_bytes;
};

/* Maps and checks the header and the extent of every section; reads no sample. */
FT_NODISCARD ft_status shard_open(struct shard *out, const char *path, ft_error *err);
void shard_close(struct shard *s); /* zeroed is fine */
/* As stored; assert i < n_samples, b < n_blocks. */
struct shard_entry shard_entry_at(const struct shard *s, uint64_t i);
struct shard_block shard_block_at(const struct shard *s, uint32_t b);
/* Decompresses block b into raw (its content is replaced) and checks its hash. */
FT_NODISCARD ft_status shard_read_block(struct buf *raw, const struct shard *s, uint32_t b,
                                        struct decompressor *d, ft_error *err);
/* Unpacks sample i out of its decompressed block: tokens[n_tokens], mask[n_tokens]. Checks that the
 * record lies inside the block and agrees with its index entry, ids are below n_vocab, and spans
 * are valid and add up to n_trained. */
FT_NODISCARD ft_status shard_unpack(int32_t *tokens, uint8_t *mask, const struct shard *s,
                                    uint64_t i, const struct buf *raw, int64_t n_vocab,
                                    ft_error *err);

#endif
