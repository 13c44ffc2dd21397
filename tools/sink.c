/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/sink.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tools/pack.h"

enum dataset_split sink_choose_split(enum source_use use, double eval_fraction,
                                     const int32_t *tokens, uint32_t n_tokens)
{
    if (use != SOURCE_BOTH)
        return use == SOURCE_EVAL ? SPLIT_EVAL : SPLIT_TRAIN;
    /* 53 bits of the hash as a number in [0, 1). Ids are hashed as little-endian 32-bit words. */
    uint64_t hash = hash64(tokens, n_tokens * sizeof *tokens);
    return (double)(hash >> 11) * 0x1p-53 < eval_fraction ? SPLIT_EVAL : SPLIT_TRAIN;
}

void sink_init(struct sink *s, const char *dir, struct manifest *manifest)
{
    *s = (struct sink){.dir = dir, .manifest = manifest};
}

void sink_abort(struct sink *s)
{
    for (int split = 0; split < SPLITS; split++) {
        shard_writer_abort(s->open[split]);
        s->open[split] = NULL;
    }
    buf_free(&s->held_out);
}

/* "train-00003.shard" */
static void shard_name(char dst[32], enum dataset_split split, size_t number)
{
    snprintf(dst, 32, "%s-%05zu.shard", split_names[split], number);
}

static ft_status open_shard(struct sink *s, enum dataset_split split, ft_error *err)
{
    struct manifest *m = s->manifest;
    char name[32];
    shard_name(name, split, m->splits[split].n_shards);
    const char *path = path_join(&m->arena, s->dir, name);
    if (path == NULL)
        return ft_fail_memory(err, strlen(s->dir), "a path");
    return shard_writer_create(&s->open[split], path, m->token_bytes,
                               (int)m->options.compression_level, &s->executor, err);
}

static ft_status close_shard(struct sink *s, enum dataset_split split, ft_error *err)
{
    struct shard_writer *w = s->open[split];
    struct manifest_shard shard = {0};
    char name[32];
    if (w == NULL)
        return FT_OK;
    struct shard_counts counts = *shard_writer_counts(w);
    s->open[split] = NULL; /* commit frees it */
    shard_name(name, split, s->manifest->splits[split].n_shards);
    FT_TRY(shard_writer_commit(w, err));
    /* Read back once, from the page cache: the header was written last. */
    FT_TRY(manifest_file_of(&shard.file, s->manifest, s->dir, name, err));
    shard.n_samples = counts.n_samples;
    shard.n_tokens = counts.n_tokens;
    shard.n_trained = counts.n_trained;
    return manifest_add_shard(s->manifest, split, &shard, err);
}

static ft_status count_sample(struct split_info *i, const struct shard_sample *sample,
                              ft_error *err)
{
    if (i->n_samples == UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a split holds at most %u samples", UINT32_MAX);
    if (sample->n_tokens > i->longest) {
        i->longest = sample->n_tokens;
        i->longest_sample = i->n_samples;
    }
    i->n_samples++;
    i->n_tokens += sample->n_tokens;
    i->n_trained += sample->n_trained;
    return FT_OK;
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static ft_status find_repeats(struct sink *s, enum dataset_split split,
                              const struct shard_sample *sample, ft_error *err)
{
    uint64_t hash;
    if (s->manifest->options.eval_fraction > 0 || (split == SPLIT_TRAIN && s->held_out.len == 0))
        return FT_OK;
    hash = hash64(sample->tokens, sample->n_tokens * sizeof *sample->tokens);
    if (split == SPLIT_EVAL) {
        FT_ASSERT(!s->sorted);
        buf_append(&s->held_out, &hash, sizeof hash);
        return buf_status(&s->held_out, "the hashes of held-out samples", err);
    }
    size_t n = s->held_out.len / sizeof hash;
    if (!s->sorted)
        qsort(s->held_out.data, n, sizeof hash, compare_hashes);
    s->sorted = true;
    s->n_repeated += bsearch(&hash, s->held_out.data, n, sizeof hash, compare_hashes) != NULL;
    return FT_OK;
}

ft_status sink_add(struct sink *s, enum dataset_split split, const struct shard_sample *sample,
                   ft_error *err)
{
    if (s->open[split] == NULL)
        FT_TRY(open_shard(s, split, err));
    FT_TRY(count_sample(&s->manifest->splits[split].info, sample, err));
    FT_TRY(find_repeats(s, split, sample, err));
    FT_TRY(shard_writer_add(s->open[split], sample, err));
    if (shard_writer_bytes(s->open[split]) < (uint64_t)s->manifest->options.shard_bytes)
        return FT_OK;
    return close_shard(s, split, err);
}

/* Lengths come back from the finished shards: the build itself keeps nothing per sample. */
static ft_status read_lengths(uint32_t *lengths, struct sink *s, enum dataset_split split,
                              ft_error *err)
{
    struct manifest *m = s->manifest;
    for (size_t k = 0; k < m->splits[split].n_shards; k++) {
        struct shard shard;
        const char *path = path_join(&m->arena, s->dir, m->splits[split].shards[k].file.name);
        if (path == NULL)
            return ft_fail_memory(err, strlen(s->dir), "a path");
        FT_TRY(shard_open(&shard, path, err));
        for (uint64_t i = 0; i < shard.counts.n_samples; i++)
            *lengths++ = shard_entry_at(&shard, i).n_tokens;
        shard_close(&shard);
    }
    return FT_OK;
}

static ft_status write_packs(struct sink *s, enum dataset_split split, ft_error *err)
{
    struct manifest_split *m = &s->manifest->splits[split];
    struct packs plan = {0};
    uint32_t *lengths = NULL;
    char name[32];
    ft_status st;
    snprintf(name, sizeof name, "%s.packs", split_names[split]);
    const char *path = path_join(&s->manifest->arena, s->dir, name);
    if (path == NULL)
        return ft_fail_memory(err, strlen(s->dir), "a path");
    FT_GOTO(mem_new(&lengths, m->info.n_samples, sizeof *lengths, "the lengths of samples", err));
    FT_GOTO(read_lengths(lengths, s, split, err));
    FT_GOTO(pack_plan(&plan, lengths, m->info.n_samples, (uint32_t)s->manifest->options.max_length,
                      err));
    FT_GOTO(packs_write(path, &plan, err));
    FT_GOTO(manifest_file_of(&m->packs, s->manifest, s->dir, name, err));
    m->info.n_packs = plan.n_bins;
    m->info.pack_length = plan.length;
out:
    pack_free(&plan);
    mem_free(lengths);
    return st;
}

static ft_status write_tokenizer(struct sink *s, const struct tok *tok, ft_error *err)
{
    struct buf blob = {0};
    const char *path = path_join(&s->manifest->arena, s->dir, TOKENIZER_FILE);
    ft_status st = path == NULL ? ft_fail_memory(err, strlen(s->dir), "a path") : FT_OK;
    if (st == FT_OK)
        st = tok_to_blob(&blob, tok, err);
    if (st == FT_OK)
        st = file_publish(path, blob.data, blob.len, err);
    buf_free(&blob);
    if (st != FT_OK)
        return st;
    return manifest_file_of(&s->manifest->tokenizer, s->manifest, s->dir, TOKENIZER_FILE, err);
}

ft_status sink_finish(struct sink *s, const struct tok *tok, ft_error *err)
{
    for (int split = 0; split < SPLITS; split++) {
        FT_TRY(close_shard(s, (enum dataset_split)split, err));
        if (s->manifest->splits[split].info.n_samples > 0)
            FT_TRY(write_packs(s, (enum dataset_split)split, err));
    }
    return write_tokenizer(s, tok, err);
}
