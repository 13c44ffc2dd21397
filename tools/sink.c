/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sink.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/rng.h"

/* Stands for the key of a part until that is known. */
static const hash128 unknown_key = {0, 0};

enum dataset_split sink_choose_split(enum source_use use, double eval_fraction,
                                     const int32_t *tokens, uint32_t n_tokens)
{
    if (use != SOURCE_BOTH)
        return use == SOURCE_EVAL ? SPLIT_EVAL : SPLIT_TRAIN;
    /* 53 bits of the hash as a number in [0, 1). Ids are hashed as little-endian 32-bit words. */
    uint64_t hash = hash64(tokens, n_tokens * sizeof *tokens);
    return (double)(hash >> 11) * 0x1p-53 < eval_fraction ? SPLIT_EVAL : SPLIT_TRAIN;
}

uint64_t sink_choose_copies(const struct manifest_group *g, int64_t seed, hash128 ids)
{
    double whole = floor(g->weight);
    bool one_more = rng_unit((uint64_t)seed, ids.hi, ids.lo) < g->weight - whole;
    return ((uint64_t)whole + one_more) * (uint64_t)g->repeat;
}

void sink_init(struct sink *s, const char *dir, const struct manifest *manifest)
{
    *s = (struct sink){.dir = dir, .manifest = manifest};
}

void sink_abort(struct sink *s)
{
    for (int split = 0; split < SPLITS; split++) {
        shard_writer_abort(s->open[split]);
        s->open[split] = NULL;
        buf_free(&s->rows[split]);
    }
    part_free(&s->part);
}

void sink_begin_part(struct sink *s, const hash128 *key)
{
    part_free(&s->part);
    s->part.key = key == NULL ? unknown_key : *key;
}

static void split_suffix(char dst[16], enum dataset_split split)
{
    snprintf(dst, 16, "%s.shard", split_names[split]);
}

static ft_status path_of(const char **out, struct sink *s, hash128 key, const char *suffix,
                         ft_error *err)
{
    char name[PART_NAME_BYTES];
    part_name(name, key, suffix);
    *out = path_join(&s->part.arena, s->dir, name);
    return *out == NULL ? ft_fail_memory(err, strlen(s->dir), "a path") : FT_OK;
}

static ft_status open_shard(struct sink *s, enum dataset_split split, ft_error *err)
{
    char suffix[16];
    const char *path;
    split_suffix(suffix, split);
    FT_TRY(path_of(&path, s, s->part.key, suffix, err));
    return shard_writer_create(&s->open[split], path, s->manifest->token_bytes,
                               (int)s->manifest->options.compression_level, &s->executor, err);
}

ft_status sink_add(struct sink *s, enum dataset_split split, const struct shard_sample *sample,
                   const struct part_row *row, ft_error *err)
{
    if (s->open[split] == NULL)
        FT_TRY(open_shard(s, split, err));
    part_put_row(&s->rows[split], row);
    FT_TRY(buf_status(&s->rows[split], "the rows of a part", err));
    FT_TRY(shard_writer_add(s->open[split], sample, err));
    /* Shards are made of whole blocks. */
    if (shard_writer_block_bytes(s->open[split]) < (uint64_t)s->manifest->options.shard_bytes)
        return FT_OK;
    return shard_writer_end_block(s->open[split], err);
}

/* Name, size and hash of a finished file, which moves from the name it was written under. */
static ft_status finish_file(struct manifest_file *out, struct sink *s, hash128 key,
                             const char *suffix, ft_error *err)
{
    char name[PART_NAME_BYTES];
    const char *from, *to;
    FT_TRY(path_of(&from, s, s->part.key, suffix, err));
    FT_TRY(path_of(&to, s, key, suffix, err));
    part_name(name, key, suffix);
    if (!hash128_eq(key, s->part.key) && rename(from, to) != 0)
        return ft_fail_errno(err, "%s: cannot be renamed", from);
    /* Read back once, from the page cache: the header was written last. */
    return manifest_file_of(out, &s->part.arena, s->dir, name, err);
}

static ft_status finish_split(struct sink *s, enum dataset_split split, hash128 key, ft_error *err)
{
    struct shard_writer *w = s->open[split];
    char suffix[16];
    if (w == NULL)
        return FT_OK;
    s->part.splits[split].counts = *shard_writer_counts(w);
    s->open[split] = NULL; /* commit frees it */
    FT_TRY(shard_writer_commit(w, err));
    split_suffix(suffix, split);
    return finish_file(&s->part.splits[split].file, s, key, suffix, err);
}

static ft_status finish_rows(struct sink *s, hash128 key, ft_error *err)
{
    struct file_writer w;
    const char *path;
    if (s->rows[SPLIT_TRAIN].len + s->rows[SPLIT_EVAL].len == 0)
        return FT_OK;
    FT_TRY(path_of(&path, s, s->part.key, "rows", err));
    FT_TRY(file_writer_open(&w, path, err));
    for (int split = 0; split < SPLITS; split++) {
        file_write(&w, s->rows[split].data, s->rows[split].len);
        buf_clear(&s->rows[split]);
    }
    FT_TRY(file_writer_commit(&w, err));
    return finish_file(&s->part.rows, s, key, "rows", err);
}

ft_status sink_end_part(struct sink *s, hash128 key, ft_error *err)
{
    for (int split = 0; split < SPLITS; split++)
        FT_TRY(finish_split(s, (enum dataset_split)split, key, err));
    FT_TRY(finish_rows(s, key, err));
    s->part.key = key;
    return part_write(&s->part, s->dir, err);
}
