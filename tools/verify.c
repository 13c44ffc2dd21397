/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/verify.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "formats/manifest.h"
#include "formats/shard.h"
#include "formats/tok/tok.h"
#include "tools/sink.h"
#include "tools/verify_packs.h"

/* --- files ----------------------------------------------------------------------------------- */

static ft_status check_shard_tables(struct arena *a, const char *dir,
                                    const struct manifest_shard *m, ft_error *err)
{
    struct shard s;
    const char *path = path_join(a, dir, m->file.name);
    if (path == NULL)
        return ft_fail_memory(err, strlen(dir), "a path");
    FT_TRY(shard_open(&s, path, err));
    ft_status st = FT_OK;
    if (hash64(s.index, s.counts.n_samples * SHARD_ENTRY_BYTES) != s.index_hash)
        st = ft_fail(err, FT_EFORMAT, "%s: the sample index is damaged (checksum differs)", path);
    else if (hash64(s.blocks, (size_t)s.n_blocks * SHARD_BLOCK_BYTES) != s.table_hash)
        st = ft_fail(err, FT_EFORMAT, "%s: the block table is damaged (checksum differs)", path);
    shard_close(&s);
    return st;
}

static ft_status check_files(const char *dir, const struct manifest *m, ft_error *err)
{
    struct arena a = {0};
    ft_status st = manifest_check_file(&m->tokenizer, dir, err);
    for (int s = 0; s < SPLITS; s++) {
        const struct manifest_split *split = &m->splits[s];
        for (size_t i = 0; i < split->n_shards && st == FT_OK; i++) {
            st = manifest_check_file(&split->shards[i].file, dir, err);
            if (st == FT_OK)
                st = check_shard_tables(&a, dir, &split->shards[i], err);
        }
        if (st == FT_OK && split->packs.name != NULL)
            st = manifest_check_file(&split->packs, dir, err);
    }
    arena_destroy(&a);
    return st;
}

static ft_status check_tokenizer(const char *dir, const struct manifest *m, ft_error *err)
{
    struct tok *tok;
    FT_TRY(tok_open(&tok, dir, err));
    bool same = tok_n_vocab(tok) == m->n_vocab &&
                hash128_eq(tok_fingerprint(tok), m->tokenizer_fingerprint);
    tok_close(tok);
    if (!same)
        return ft_fail(err, FT_EFORMAT, "%s/%s: not the tokenizer that the manifest names", dir,
                       m->tokenizer.name);
    return FT_OK;
}

/* --- samples --------------------------------------------------------------------------------- */

struct sample_check {
    const struct dataset *dataset;
    const struct manifest *manifest;
    struct dataset_reader *reader;
    int32_t *tokens;
    uint8_t *mask; /* both [longest] */
    struct progress progress;
    uint64_t n_done;
};

static ft_status check_sample(struct sample_check *c, enum dataset_split s, uint64_t i,
                              const struct sample_info *e, ft_error *err)
{
    const struct manifest *m = c->manifest;
    if (e->source >= m->n_sources || e->row >= m->sources[e->source].rows)
        return ft_fail(err, FT_EFORMAT, "row %" PRIu64 " of source %" PRIu32 " does not exist",
                       e->row, e->source);
    if (e->n_tokens > m->options.max_length)
        return ft_fail(err, FT_EFORMAT, "%" PRIu32 " tokens, the maximum is %" PRId64, e->n_tokens,
                       m->options.max_length);
    FT_TRY(dataset_read(c->reader, s, i, c->tokens, c->mask, err));
    if (e->n_trained == 0 || c->mask[0] != 0)
        return ft_fail(err, FT_EFORMAT,
                       e->n_trained == 0 ? "no token is trained" : "the first token is trained");
    enum source_use use = m->sources[e->source].use;
    enum dataset_split expected =
        sink_choose_split(use, m->options.eval_fraction, c->tokens, e->n_tokens);
    if (expected != s)
        return ft_fail(err, FT_EFORMAT, "belongs to the %s part by its content",
                       split_names[expected]);
    return FT_OK;
}

/* Samples stand in the order of the input; those of a row that was split follow each other. */
static bool follows(const struct sample_info *before, const struct sample_info *e)
{
    return e->source > before->source || (e->source == before->source && e->row >= before->row);
}

static ft_status check_split(struct sample_check *c, enum dataset_split s, ft_error *err)
{
    const struct split_info *info = dataset_split(c->dataset, s);
    struct split_info sum = {0};
    struct sample_info before = {0};
    /* Further copies stand at the end of their shard. */
    bool repeats = c->manifest->report.notes[NOTE_REPEATED].rows > 0;
    for (uint64_t i = 0; i < info->n_samples; i++, c->n_done++) {
        struct sample_info e = dataset_sample_info(c->dataset, s, i);
        if (check_sample(c, s, i, &e, err) != FT_OK)
            return ft_wrap(err, "%s sample %" PRIu64, split_names[s], i);
        if (i > 0 && !repeats && !follows(&before, &e))
            return ft_fail(err, FT_EFORMAT, "%s sample %" PRIu64 ": not in the order of the input",
                           split_names[s], i);
        if (e.n_tokens > sum.longest) {
            sum.longest = e.n_tokens;
            sum.longest_sample = i;
        }
        sum.n_tokens += e.n_tokens;
        sum.n_trained += e.n_trained;
        before = e;
        progress_update(&c->progress, (double)c->n_done, "");
    }
    if (sum.n_tokens != info->n_tokens || sum.n_trained != info->n_trained ||
        sum.longest != info->longest || sum.longest_sample != info->longest_sample)
        return ft_fail(err, FT_EFORMAT, "%s: the samples do not add up to the manifest's totals",
                       split_names[s]);
    return FT_OK;
}

static ft_status check_samples(const struct dataset *d, ft_error *err)
{
    struct sample_check c = {.dataset = d, .manifest = dataset_manifest(d)};
    const struct split_info *train = dataset_split(d, SPLIT_TRAIN);
    const struct split_info *eval = dataset_split(d, SPLIT_EVAL);
    uint32_t longest = FT_MAX(train->longest, eval->longest);
    ft_status st;
    FT_GOTO(mem_new(&c.tokens, longest, sizeof *c.tokens, "a sample", err));
    FT_GOTO(mem_new(&c.mask, longest, sizeof *c.mask, "a sample", err));
    FT_GOTO(dataset_reader_create(&c.reader, d, err));
    progress_start(&c.progress, "verify", "samples", (double)(train->n_samples + eval->n_samples));
    for (int s = 0; s < SPLITS; s++)
        FT_GOTO(check_split(&c, (enum dataset_split)s, err));
    progress_finish(&c.progress, (double)c.n_done, "");
out:
    dataset_reader_destroy(c.reader);
    mem_free(c.tokens);
    mem_free(c.mask);
    return st;
}

/* --- the report ------------------------------------------------------------------------------ */

static ft_status check_report(const struct manifest *m, ft_error *err)
{
    uint64_t rows = 0, samples = 0, tokens = 0;
    for (size_t i = 0; i < m->n_sources; i++)
        rows += m->sources[i].rows;
    for (int s = 0; s < SPLITS; s++) {
        samples += m->splits[s].info.n_samples;
        tokens += m->splits[s].info.n_tokens;
    }
    if (rows != report_rows(&m->report) || samples != report_samples(&m->report) ||
        tokens != report_stored_tokens(&m->report))
        return ft_fail(err, FT_EFORMAT,
                       "the report does not add up: %" PRIu64 " rows in the sources, %" PRIu64
                       " reported; %" PRIu64 " samples stored, %" PRIu64 " reported",
                       rows, report_rows(&m->report), samples, report_samples(&m->report));
    return FT_OK;
}

ft_status verify_dataset(const char *dir, ft_error *err)
{
    struct dataset *d;
    FT_TRY(dataset_open(&d, dir, err));
    const struct manifest *m = dataset_manifest(d);
    ft_status st;
    FT_GOTO(check_files(dir, m, err));
    FT_GOTO(check_tokenizer(dir, m, err));
    st = check_report(m, err);
    if (st == FT_OK)
        st = check_samples(d, err);
    if (st == FT_OK)
        st = verify_packs(d, err);
    if (st == FT_OK)
        st = verify_plans(dir, err);
    if (st != FT_OK)
        st = ft_wrap(err, "%s", dir);
out:
    dataset_close(d);
    return st;
}
