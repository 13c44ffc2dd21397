/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/make_dataset.h"

#include <stdlib.h>

#include "common/file.h"
#include "formats/shard.h"
#include "tests/support/check.h"
#include "tools/pack.h"

static uint32_t length_of(const struct made *m, enum dataset_split s, uint64_t i)
{
    return m->lengths[s == SPLIT_TRAIN ? i : m->n_train + i];
}

int32_t made_token(const struct made *m, enum dataset_split s, uint64_t i, uint32_t j)
{
    return (int32_t)((i * 7919 + j * 31 + (s == SPLIT_EVAL ? 5 : 0)) % (uint64_t)m->vocab);
}

/* Two spans: the second token alone, and the last third where that is apart from it. */
uint8_t made_mask(const struct made *m, enum dataset_split s, uint64_t i, uint32_t j)
{
    uint32_t n = length_of(m, s, i);
    return j == 1 || (j >= 3 && j >= n - n / 3);
}

static uint32_t made_spans(struct loss_span *spans, const struct made *m, enum dataset_split s,
                           uint64_t i)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < length_of(m, s, i); j++) {
        if (made_mask(m, s, i, j) == 0)
            continue;
        if (n > 0 && spans[n - 1].start + spans[n - 1].len == j)
            spans[n - 1].len++;
        else
            spans[n++] = (struct loss_span){j, 1};
    }
    return n;
}

static void add_sample(struct shard_writer *w, struct split_info *info, const struct made *m,
                       enum dataset_split s, uint64_t i)
{
    struct loss_span spans[4];
    struct shard_sample sample = {.n_tokens = length_of(m, s, i), .spans = spans, .row = i};
    int32_t *tokens = calloc(sample.n_tokens, sizeof *tokens);
    ft_error err;
    assert_non_null(tokens);
    sample.tokens = tokens;
    sample.n_spans = made_spans(spans, m, s, i);
    for (uint32_t j = 0; j < sample.n_tokens; j++) {
        tokens[j] = made_token(m, s, i, j);
        sample.n_trained += made_mask(m, s, i, j);
    }
    if (sample.n_tokens > info->longest) {
        info->longest = sample.n_tokens;
        info->longest_sample = i;
    }
    info->n_samples++;
    info->n_tokens += sample.n_tokens;
    info->n_trained += sample.n_trained;
    ASSERT_OK(shard_writer_add(w, &sample, &err));
    free(tokens);
}

static const struct shard_executor own_thread;

static void make_shards(struct manifest *out, const struct made *m, enum dataset_split s, size_t n)
{
    struct split_info *info = &out->splits[s].info;
    uint64_t per_shard = m->samples_per_shard == 0 ? n : m->samples_per_shard;
    ft_error err;
    for (uint64_t first = 0; first < n; first += per_shard) {
        struct shard_writer *w;
        struct manifest_shard shard = {0};
        char name[32];
        snprintf(name, sizeof name, "%s-%05zu.shard", split_names[s], out->splits[s].n_shards);
        ASSERT_OK(shard_writer_create(&w, path_join(&out->arena, m->dir, name), out->token_bytes, 1,
                                      &own_thread, &err));
        for (uint64_t i = first; i < FT_MIN(first + per_shard, (uint64_t)n); i++)
            add_sample(w, info, m, s, i);
        struct shard_counts counts = *shard_writer_counts(w);
        ASSERT_OK(shard_writer_commit(w, &err));
        ASSERT_OK(manifest_file_of(&shard.file, &out->arena, m->dir, name, &err));
        shard.n_samples = counts.n_samples;
        shard.n_tokens = counts.n_tokens;
        shard.n_trained = counts.n_trained;
        ASSERT_OK(manifest_add_shard(out, s, &shard, &err));
    }
}

static void make_packs(struct manifest *out, const struct made *m, enum dataset_split s, size_t n)
{
    struct packs plan;
    ft_error err;
    const char *name = s == SPLIT_TRAIN ? "train.packs" : "eval.packs";
    ASSERT_OK(
        pack_plan(&plan, m->lengths + (s == SPLIT_TRAIN ? 0 : m->n_train), n, m->max_length, &err));
    ASSERT_OK(packs_write(path_join(&out->arena, m->dir, name), &plan, &err));
    out->splits[s].info.n_packs = plan.n_bins;
    out->splits[s].info.pack_length = plan.length;
    ASSERT_OK(manifest_file_of(&out->splits[s].packs, &out->arena, m->dir, name, &err));
    pack_free(&plan);
}

void make_dataset(const struct made *m)
{
    struct manifest_source source = {
        .path = "made.jsonl", .bytes = 1, .rows = m->n_train + m->n_eval, .use = SOURCE_BOTH};
    struct manifest out = {
        .tool = "test",
        .chat_template = "chatml",
        .options = {.max_length = m->max_length, .shard_bytes = 1, .compression_level = 1},
        .n_vocab = m->vocab,
        .token_bytes = shard_token_bytes(m->vocab),
        .tokenizer_fingerprint = {1, 2},
        .sources = &source,
        .n_sources = 1,
    };
    ft_error err;
    ASSERT_OK(dir_remove(m->dir, &err));
    ASSERT_OK(dir_create(m->dir, &err));
    ASSERT_OK(file_publish(path_join(&out.arena, m->dir, TOKENIZER_FILE), "none", 4, &err));
    ASSERT_OK(manifest_file_of(&out.tokenizer, &out.arena, m->dir, TOKENIZER_FILE, &err));
    for (int s = 0; s < SPLITS; s++) {
        size_t n = s == SPLIT_TRAIN ? m->n_train : m->n_eval;
        make_shards(&out, m, (enum dataset_split)s, n);
        if (n > 0)
            make_packs(&out, m, (enum dataset_split)s, n);
        out.report.fates[ROW_KEPT].rows += n;
        out.report.fates[ROW_KEPT].amount += out.splits[s].info.n_tokens;
    }
    ASSERT_OK(manifest_write(&out, m->dir, &err));
    manifest_free(&out);
}
