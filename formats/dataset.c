/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/dataset.h"

#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "formats/manifest.h"
#include "formats/packs.h"
#include "formats/shard.h"

struct split {
    struct shard *shards; /* [n_shards] */
    uint64_t *first;      /* [n_shards + 1] index of each shard's first sample */
    size_t n_shards;
    struct packs packs;
};

struct dataset {
    struct manifest manifest;
    const char *dir;     /* in the manifest's arena */
    hash128 fingerprint; /* of the manifest and of a plan in use */
    struct split splits[SPLITS];
};

/* --- opening --------------------------------------------------------------------------------- */

static ft_status open_shard(struct shard *out, const struct manifest *m,
                            const struct manifest_shard *expected, const char *path, ft_error *err)
{
    FT_TRY(shard_open(out, path, err));
    if (out->map.bytes != expected->file.bytes || out->counts.n_samples != expected->n_samples ||
        out->counts.n_tokens != expected->n_tokens ||
        out->counts.n_trained != expected->n_trained || out->token_bytes != m->token_bytes)
        return ft_fail(err, FT_EFORMAT,
                       "%s: %zu bytes with %llu samples, but the manifest says %llu bytes with "
                       "%llu: the file belongs to another data set",
                       path, out->map.bytes, (unsigned long long)out->counts.n_samples,
                       (unsigned long long)expected->file.bytes,
                       (unsigned long long)expected->n_samples);
    return FT_OK;
}

static ft_status open_packs(struct packs *out, struct manifest_split *m, const char *path,
                            ft_error *err)
{
    FT_TRY(packs_open(out, path, err));
    if (out->map.bytes != m->packs.bytes || out->n_bins != m->info.n_packs ||
        out->length != m->info.pack_length || out->n_samples != m->info.n_samples)
        return ft_fail(err, FT_EFORMAT,
                       "%s: %u bins of %u samples, but the manifest says %llu of %llu: the file "
                       "belongs to another data set",
                       path, out->n_bins, out->n_samples, (unsigned long long)m->info.n_packs,
                       (unsigned long long)m->info.n_samples);
    m->info.longest_pack = out->fullest;
    return FT_OK;
}

static ft_status open_split(struct split *out, struct manifest *m, enum dataset_split s,
                            const char *dir, ft_error *err)
{
    struct manifest_split *ms = &m->splits[s];
    FT_TRY(mem_new(&out->shards, ms->n_shards, sizeof *out->shards, "the shard list", err));
    FT_TRY(mem_new(&out->first, ms->n_shards + 1, sizeof *out->first, "the shard list", err));
    for (size_t i = 0; i < ms->n_shards; i++) {
        const char *path = path_join(&m->arena, dir, ms->shards[i].file.name);
        if (path == NULL)
            return ft_fail_memory(err, strlen(dir), "a path");
        out->n_shards = i + 1;
        out->first[i + 1] = out->first[i] + ms->shards[i].n_samples;
        FT_TRY(open_shard(&out->shards[i], m, &ms->shards[i], path, err));
    }
    if (ms->packs.name == NULL)
        return FT_OK;
    const char *path = path_join(&m->arena, dir, ms->packs.name);
    if (path == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    return open_packs(&out->packs, ms, path, err);
}

ft_status dataset_open(struct dataset **out, const char *dir, ft_error *err)
{
    struct dataset *d;
    *out = NULL;
    FT_TRY(mem_new(&d, 1, sizeof *d, "a data set", err));
    ft_status st = manifest_load(&d->manifest, dir, err);
    d->fingerprint = d->manifest.fingerprint;
    d->dir = st == FT_OK ? arena_cstr(&d->manifest.arena, str_from(dir)) : NULL;
    if (st == FT_OK && d->dir == NULL)
        st = ft_fail_memory(err, strlen(dir), "a path");
    for (int s = 0; s < SPLITS && st == FT_OK; s++)
        st = open_split(&d->splits[s], &d->manifest, (enum dataset_split)s, dir, err);
    if (st == FT_OK)
        *out = d;
    else
        dataset_close(d);
    return st;
}

void dataset_close(struct dataset *d)
{
    if (d == NULL)
        return;
    for (int s = 0; s < SPLITS; s++) {
        for (size_t i = 0; i < d->splits[s].n_shards; i++)
            shard_close(&d->splits[s].shards[i]);
        packs_close(&d->splits[s].packs);
        mem_free(d->splits[s].shards);
        mem_free(d->splits[s].first);
    }
    manifest_free(&d->manifest);
    mem_free(d);
}

/* --- questions ------------------------------------------------------------------------------- */

const struct manifest *dataset_manifest(const struct dataset *d)
{
    return &d->manifest;
}

hash128 dataset_fingerprint(const struct dataset *d)
{
    return d->fingerprint;
}

hash128 dataset_tokenizer_fingerprint(const struct dataset *d)
{
    return d->manifest.tokenizer_fingerprint;
}

const char *dataset_template(const struct dataset *d)
{
    return d->manifest.chat_template;
}

int64_t dataset_vocab(const struct dataset *d)
{
    return d->manifest.n_vocab;
}

int64_t dataset_max_length(const struct dataset *d)
{
    return d->manifest.options.max_length;
}

const struct split_info *dataset_split(const struct dataset *d, enum dataset_split s)
{
    return &d->manifest.splits[s].info;
}

uint64_t dataset_group_samples(uint64_t n_samples, uint64_t per_step)
{
    enum { MAX_STEPS = 50, MIN_GROUPS = 4 };
    uint64_t steps = FT_MIN(n_samples / (MIN_GROUPS * per_step), (uint64_t)MAX_STEPS);
    return per_step * FT_MAX(steps, (uint64_t)1);
}

const char *dataset_source_path(const struct dataset *d, uint32_t source)
{
    return source < d->manifest.n_sources ? d->manifest.sources[source].path : "(unknown source)";
}

/* Shard that holds sample i. The number of shards is small; the number of samples is not. */
static size_t find_shard(const struct split *s, uint64_t i)
{
    size_t low = 0, high = s->n_shards;
    FT_ASSERT(i < s->first[s->n_shards]);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->first[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct sample_info dataset_sample_info(const struct dataset *d, enum dataset_split s, uint64_t i)
{
    const struct split *split = &d->splits[s];
    size_t shard = find_shard(split, i);
    struct shard_entry e = shard_entry_at(&split->shards[shard], i - split->first[shard]);
    /* A damaged index must not make callers overrun buffers sized by the longest sample;
     * dataset_read reports it. */
    uint32_t longest = d->manifest.splits[s].info.longest;
    return (struct sample_info){FT_MIN(e.n_tokens, longest), e.n_trained, e.source, e.row};
}

const uint32_t *dataset_pack(const struct dataset *d, enum dataset_split s, uint64_t b, size_t *n)
{
    const struct packs *p = &d->splits[s].packs;
    FT_ASSERT(b < p->n_bins);
    const uint32_t *samples = packs_bin(p, (uint32_t)b, n);
    uint64_t tokens = 0;
    for (size_t i = 0; samples != NULL && i < *n; i++)
        tokens += dataset_sample_info(d, s, samples[i]).n_tokens;
    if (tokens <= p->fullest)
        return samples;
    *n = 0;
    return NULL;
}

/* --- plans of parts, and plans made later ---------------------------------------------------- */

const struct packs *dataset_plan(const struct dataset *d, enum dataset_split s)
{
    return &d->splits[s].packs;
}

bool dataset_has_parts(const struct dataset *d, enum dataset_split s)
{
    return d->splits[s].packs.parts != NULL;
}

const struct pack_part *dataset_pack_parts(const struct dataset *d, enum dataset_split s,
                                           uint64_t b, size_t *n)
{
    const struct packs *p = &d->splits[s].packs;
    FT_ASSERT(b < p->n_bins);
    const struct pack_part *parts = packs_bin_parts(p, (uint32_t)b, n);
    uint64_t tokens = 0;
    for (size_t i = 0; i < *n; i++) {
        uint32_t in_sample = dataset_sample_info(d, s, parts[i].sample).n_tokens;
        tokens += parts[i].n_tokens;
        if (parts[i].from + parts[i].n_tokens > in_sample || tokens > p->fullest)
            *n = 0;
    }
    return *n == 0 ? NULL : parts;
}

ft_status dataset_plan_path(const char **out, struct arena *a, const char *dir, const char *name,
                            ft_error *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char file[128];
    if (name[0] == '\0' || name[strspn(name, allowed)] != '\0' || strlen(name) > 100)
        return ft_fail(err, FT_EUSAGE,
                       "the name of a plan: '%s' is not made of letters, digits, '.', '_' and '-'",
                       name);
    snprintf(file, sizeof file, "train-%s.packs", name);
    *out = path_join(a, dir, file);
    return *out == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
}

const char *dataset_plan_name(struct arena *a, const char *file)
{
    static const str prefix = {"train-", 6}, suffix = {".packs", 6};
    str s = str_from(file);
    if (!str_starts(s, prefix) || !str_ends(s, suffix) || s.len <= prefix.len + suffix.len)
        return NULL;
    return arena_cstr(a, str_sub(s, prefix.len, s.len - suffix.len));
}

static ft_status check_plan(const struct packs *p, const struct dataset *d, const char *path,
                            ft_error *err)
{
    if (p->version == PACKS_PLAN_VERSION && hash128_eq(p->data, d->manifest.fingerprint) &&
        p->n_samples == d->manifest.splits[SPLIT_TRAIN].info.n_samples)
        return FT_OK;
    return ft_fail(err, FT_EFORMAT,
                   "%s: belongs to another data set, or to this one before it was built again; "
                   "make it anew with ftprep pack",
                   path);
}

ft_status dataset_use_plan(struct dataset *d, const char *name, ft_error *err)
{
    struct split_info *info = &d->manifest.splits[SPLIT_TRAIN].info;
    struct packs plan;
    const char *path;
    FT_TRY(dataset_plan_path(&path, &d->manifest.arena, d->dir, name, err));
    FT_TRY(packs_open(&plan, path, err));
    ft_status st = check_plan(&plan, d, path, err);
    if (st != FT_OK) {
        packs_close(&plan);
        return st;
    }
    const hash128 both[] = {d->manifest.fingerprint, hash128_of(plan.map.data, PACKS_PLAN_BYTES)};
    d->fingerprint = hash128_of(both, sizeof both);
    packs_close(&d->splits[SPLIT_TRAIN].packs);
    d->splits[SPLIT_TRAIN].packs = plan;
    info->n_packs = plan.n_bins;
    info->pack_length = plan.length;
    info->longest_pack = plan.fullest;
    return FT_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

enum { CACHED_BLOCKS = 8 };

struct cached_block {
    const struct shard *shard; /* NULL = empty */
    uint32_t block;
    uint64_t used; /* turn of the last use */
    struct buf raw;
};

struct dataset_reader {
    const struct dataset *dataset;
    struct decompressor *zstd;
    struct cached_block cache[CACHED_BLOCKS];
    uint64_t turn;
};

ft_status dataset_reader_create(struct dataset_reader **out, const struct dataset *d, ft_error *err)
{
    struct dataset_reader *r;
    *out = NULL;
    FT_TRY(mem_new(&r, 1, sizeof *r, "a data set reader", err));
    r->dataset = d;
    ft_status st = decompressor_create(&r->zstd, err);
    if (st == FT_OK)
        *out = r;
    else
        dataset_reader_destroy(r);
    return st;
}

void dataset_reader_destroy(struct dataset_reader *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < CACHED_BLOCKS; i++)
        buf_free(&r->cache[i].raw);
    decompressor_destroy(r->zstd);
    mem_free(r);
}

/* The block, from the cache or in place of the one that was used longest ago. */
static ft_status get_block(const struct buf **out, struct dataset_reader *r, const struct shard *s,
                           uint32_t block, ft_error *err)
{
    struct cached_block *slot = &r->cache[0];
    for (size_t i = 0; i < CACHED_BLOCKS; i++) {
        struct cached_block *c = &r->cache[i];
        if (c->shard == s && c->block == block) {
            c->used = ++r->turn;
            *out = &c->raw;
            return FT_OK;
        }
        slot = c->used < slot->used ? c : slot;
    }
    slot->shard = NULL;
    FT_TRY(shard_read_block(&slot->raw, s, block, r->zstd, err));
    slot->shard = s;
    slot->block = block;
    slot->used = ++r->turn;
    *out = &slot->raw;
    return FT_OK;
}

ft_status dataset_read(struct dataset_reader *r, enum dataset_split s, uint64_t i, int32_t *tokens,
                       uint8_t *mask, ft_error *err)
{
    const struct split *split = &r->dataset->splits[s];
    size_t k = find_shard(split, i);
    const struct shard *shard = &split->shards[k];
    uint64_t local = i - split->first[k];
    struct shard_entry e = shard_entry_at(shard, local);
    const struct buf *raw;
    if (e.block >= shard->n_blocks || e.n_tokens == 0 ||
        e.n_tokens > r->dataset->manifest.splits[s].info.longest)
        return ft_fail(err, FT_EFORMAT,
                       "%s: sample %llu: the index names block %u of %u and %u tokens: the index "
                       "is damaged",
                       shard->path, (unsigned long long)local, e.block, shard->n_blocks,
                       e.n_tokens);
    FT_TRY(get_block(&raw, r, shard, e.block, err));
    return shard_unpack(tokens, mask, shard, local, raw, r->dataset->manifest.n_vocab, err);
}
