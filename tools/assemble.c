/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/assemble.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "formats/part.h"
#include "tools/ids_set.h"
#include "tools/pack.h"
#include "tools/sink.h"
#include "tools/stop.h"

/* A sample that is stored more than once. */
struct repeat {
    uint64_t sample; /* in the open shard */
    uint64_t copies; /* all together */
};

struct assembly {
    struct assemble *a;
    struct manifest *m;
    enum dataset_split split; /* being written */
    struct shard_writer *open;
    uint64_t taken;               /* bytes of the open shard's further copies */
    struct buf repeats;           /* struct repeat, of the open shard */
    struct ids_set seen;          /* empty unless it is needed */
    bool compare;                 /* `seen` is in use */
    struct shard_executor nobody; /* blocks are compressed already */
};

static ft_status path_in(const char **out, struct arena *a, const char *dir, const char *name,
                         ft_error *err)
{
    *out = path_join(a, dir, name);
    return *out == NULL ? ft_fail_memory(err, strlen(dir), "a path") : FT_OK;
}

/* --- the report ------------------------------------------------------------------------------ */

/* Later examples of a part come behind those of the parts before it. */
static ft_status add_line(struct report_line *sum, struct arena *a, const struct report_line *l,
                          ft_error *err)
{
    sum->rows += l->rows;
    sum->amount += l->amount;
    for (size_t i = 0; i < l->n_examples && sum->n_examples < REPORT_EXAMPLES; i++) {
        struct report_example e = l->examples[i];
        e.text = arena_cstr(a, str_from(e.text));
        if (e.text == NULL)
            return ft_fail_memory(err, 0, "the report");
        sum->examples[sum->n_examples++] = e;
    }
    return FT_OK;
}

static ft_status add_report(struct manifest *m, const struct report *r, ft_error *err)
{
    for (int f = 0; f < ROW_FATES; f++)
        FT_TRY(add_line(&m->report.fates[f], &m->arena, &r->fates[f], err));
    for (int n = 0; n < ROW_NOTES; n++)
        FT_TRY(add_line(&m->report.notes[n], &m->arena, &r->notes[n], err));
    return FT_OK;
}

static ft_status missing(size_t n, const struct assembly *s, const char *first, ft_error *err)
{
    return ft_fail(err, FT_ESTATE,
                   "%zu of %zu parts are missing in %s, the first is number %s; run 'ftprep map' "
                   "for them",
                   n, s->a->plan->n_parts, s->a->parts, first);
}

static ft_status check_present(const struct assembly *s, ft_error *err)
{
    const struct plan *plan = s->a->plan;
    struct arena a = {0};
    size_t n = 0;
    char first[24] = "";
    ft_status st = FT_OK;
    for (size_t i = 0; i < plan->n_parts && st == FT_OK; i++) {
        char name[PART_NAME_BYTES];
        const char *path;
        part_name(name, plan->parts[i].key, "json");
        st = path_in(&path, &a, s->a->parts, name, err);
        if (st == FT_OK && !path_exists(path) && n++ == 0)
            snprintf(first, sizeof first, "%zu", i);
        arena_destroy(&a);
    }
    return st == FT_OK && n > 0 ? missing(n, s, first, err) : st;
}

/* Sums up the reports, and counts what `seen` has to hold. */
static ft_status collect_reports(uint64_t samples[SPLITS], struct assembly *s, ft_error *err)
{
    const struct plan *plan = s->a->plan;
    FT_TRY(check_present(s, err));
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct part p;
        FT_TRY(part_load(&p, s->a->parts, plan->parts[i].key, s->m->n_sources, err));
        ft_status st = add_report(s->m, &p.report, err);
        for (int split = 0; split < SPLITS; split++)
            samples[split] += p.splits[split].counts.n_samples;
        part_free(&p);
        FT_TRY(st);
        FT_TRY(stop_check(err));
    }
    return FT_OK;
}

/* --- shards ---------------------------------------------------------------------------------- */

/* "train-00003.shard" */
static void shard_name(char dst[32], enum dataset_split split, size_t number)
{
    snprintf(dst, 32, "%s-%05zu.shard", split_names[split], number);
}

static ft_status open_shard(struct assembly *s, ft_error *err)
{
    char name[32];
    const char *path;
    shard_name(name, s->split, s->m->splits[s->split].n_shards);
    FT_TRY(path_in(&path, &s->m->arena, s->a->dir, name, err));
    s->taken = 0;
    buf_clear(&s->repeats);
    return shard_writer_create(&s->open, path, s->m->token_bytes,
                               (int)s->m->options.compression_level, &s->nobody, err);
}

static ft_status count_sample(struct assembly *s, const struct shard_entry *e, ft_error *err)
{
    struct split_info *i = &s->m->splits[s->split].info;
    struct shard_counts *g = &s->m->groups[s->m->sources[e->source].group].stored;
    if (i->n_samples == UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "a split holds at most %u samples", UINT32_MAX);
    if (e->n_tokens > i->longest) {
        i->longest = e->n_tokens;
        i->longest_sample = i->n_samples;
    }
    i->n_samples++;
    i->n_tokens += e->n_tokens;
    i->n_trained += e->n_trained;
    g->n_samples++;
    g->n_tokens += e->n_tokens;
    g->n_trained += e->n_trained;
    return FT_OK;
}

static ft_status repeat_sample(struct assembly *s, uint64_t sample, ft_error *err)
{
    struct report_line *l = &s->m->report.notes[NOTE_REPEATED];
    struct shard_entry e;
    FT_TRY(shard_writer_repeat(&e, s->open, sample, err));
    l->rows++;
    l->amount += e.n_tokens;
    return count_sample(s, &e, err);
}

/* The second copies of a shard's samples come behind all of its first ones, then the third ones. */
static ft_status add_repeats(struct assembly *s, ft_error *err)
{
    struct repeat *r = (struct repeat *)(void *)s->repeats.data;
    size_t n = s->repeats.len / sizeof *r;
    for (uint64_t copy = 2; n > 0; copy++) {
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            if (r[i].copies < copy)
                continue;
            FT_TRY(repeat_sample(s, r[i].sample, err));
            r[left++] = r[i];
        }
        n = left;
        FT_TRY(stop_check(err));
    }
    return FT_OK;
}

static ft_status close_shard(struct assembly *s, ft_error *err)
{
    struct manifest_shard shard = {0};
    char name[32];
    if (s->open == NULL)
        return FT_OK;
    FT_TRY(add_repeats(s, err));
    struct shard_writer *w = s->open;
    struct shard_counts counts = *shard_writer_counts(w);
    s->open = NULL; /* commit frees it */
    shard_name(name, s->split, s->m->splits[s->split].n_shards);
    FT_TRY(shard_writer_commit(w, err));
    /* Read back once, from the page cache: the header was written last. */
    FT_TRY(manifest_file_of(&shard.file, &s->m->arena, s->a->dir, name, err));
    shard.n_samples = counts.n_samples;
    shard.n_tokens = counts.n_tokens;
    shard.n_trained = counts.n_trained;
    return manifest_add_shard(s->m, s->split, &shard, err);
}

/* --- samples --------------------------------------------------------------------------------- */

/* A part of this split on its way into the open shard. */
struct source_part {
    struct shard shard;
    struct file_map rows;
    const uint8_t *first_row; /* of the split's samples */
};

static ft_status note_duplicate(struct assembly *s, const struct shard_entry *e, uint64_t line,
                                ft_error *err)
{
    struct report_line *l = &s->m->report.notes[NOTE_DUPLICATE];
    l->rows++;
    l->amount += e->n_tokens;
    if (l->n_examples == REPORT_EXAMPLES)
        return FT_OK;
    const char *text = arena_cstr(&s->m->arena, str_from(""));
    if (text == NULL)
        return ft_fail_memory(err, 1, "the report");
    l->examples[l->n_examples++] = (struct report_example){e->source, e->row, line, text};
    return FT_OK;
}

/* Held-out samples are looked at first, so a training sample with the same ids is the duplicate. */
static bool is_duplicate(struct assembly *s, hash128 ids)
{
    if (!s->compare)
        return false;
    if (s->m->options.dedup)
        return !ids_set_add(&s->seen, ids);
    if (s->split == SPLIT_EVAL)
        ids_set_add(&s->seen, ids);
    else
        s->a->n_leaked += ids_set_has(&s->seen, ids);
    return false;
}

/* What the rest of the program takes for granted: the part's checksum covers it, but a part that
 * was made with another plan would pass that. */
static ft_status check_entry(const struct assembly *s, const struct shard *from,
                             const struct shard_entry *e, ft_error *err)
{
    if (e->n_tokens > 0 && e->n_tokens <= s->m->options.max_length && e->source < s->m->n_sources &&
        e->block < from->n_blocks)
        return FT_OK;
    return ft_fail(err, FT_EFORMAT, "%s: the sample index does not fit the plan", from->path);
}

static ft_status add_entry(struct assembly *s, const struct shard_entry *e, hash128 ids,
                           ft_error *err)
{
    const struct manifest_group *g = &s->m->groups[s->m->sources[e->source].group];
    struct repeat r = {.sample = shard_writer_counts(s->open)->n_samples};
    FT_TRY(shard_writer_copy_entry(s->open, e, err));
    FT_TRY(count_sample(s, e, err));
    /* Below one, the weight chose rows when they were mapped. */
    r.copies = FT_MAX(sink_choose_copies(g, s->m->options.seed, ids), (uint64_t)g->repeat);
    if (s->split == SPLIT_EVAL || r.copies == 1)
        return FT_OK; /* an evaluation counts every sample once */
    s->taken += (r.copies - 1) * SHARD_ENTRY_BYTES;
    buf_append(&s->repeats, &r, sizeof r);
    return buf_status(&s->repeats, "repeated samples", err);
}

static ft_status begin_block(struct assembly *s, const struct shard *from, uint32_t block,
                             ft_error *err)
{
    if (s->open != NULL &&
        shard_writer_bytes(s->open) + s->taken >= (uint64_t)s->m->options.shard_bytes)
        FT_TRY(close_shard(s, err));
    if (s->open == NULL)
        FT_TRY(open_shard(s, err));
    return shard_writer_copy_block(s->open, from, block, err);
}

/* Blocks without a sample that is kept are left out. */
static ft_status copy_samples(struct assembly *s, const struct source_part *p, ft_error *err)
{
    uint32_t block = UINT32_MAX; /* copied last */
    for (uint64_t i = 0; i < p->shard.counts.n_samples; i++) {
        struct shard_entry e = shard_entry_at(&p->shard, i);
        struct part_row row = part_row_at(p->first_row, i);
        FT_TRY(check_entry(s, &p->shard, &e, err));
        if (is_duplicate(s, row.ids)) {
            FT_TRY(note_duplicate(s, &e, row.line, err));
            continue;
        }
        if (e.block != block)
            FT_TRY(begin_block(s, &p->shard, block = e.block, err));
        FT_TRY(add_entry(s, &e, row.ids, err));
    }
    return FT_OK;
}

static ft_status open_part(struct source_part *out, struct arena *a, const struct assembly *s,
                           const struct part *p, ft_error *err)
{
    const struct part_split *split = &p->splits[s->split];
    const char *shard, *rows;
    FT_TRY(path_in(&shard, a, s->a->parts, split->file.name, err));
    FT_TRY(path_in(&rows, a, s->a->parts, p->rows.name, err));
    FT_TRY(shard_open(&out->shard, shard, err));
    FT_TRY(file_map_open(&out->rows, rows, err));
    if (out->shard.counts.n_samples != split->counts.n_samples ||
        out->shard.token_bytes != s->m->token_bytes || out->rows.bytes != p->rows.bytes)
        return ft_fail(err, FT_EFORMAT, "%s: belongs to another part", shard);
    uint64_t before = s->split == SPLIT_TRAIN ? 0 : p->splits[SPLIT_TRAIN].counts.n_samples;
    out->first_row = out->rows.data + before * PART_ROW_BYTES;
    return FT_OK;
}

static ft_status copy_part(struct assembly *s, const struct part *p, ft_error *err)
{
    struct source_part from = {0};
    struct arena a = {0};
    if (p->splits[s->split].file.name == NULL)
        return FT_OK;
    FT_TRY(manifest_check_file(&p->splits[s->split].file, s->a->parts, err));
    FT_TRY(manifest_check_file(&p->rows, s->a->parts, err));
    ft_status st = open_part(&from, &a, s, p, err);
    if (st == FT_OK)
        st = copy_samples(s, &from, err);
    shard_close(&from.shard);
    file_map_close(&from.rows);
    arena_destroy(&a);
    return st;
}

static ft_status copy_split(struct assembly *s, enum dataset_split split, ft_error *err)
{
    const struct plan *plan = s->a->plan;
    s->split = split;
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct part p;
        FT_TRY(part_load(&p, s->a->parts, plan->parts[i].key, s->m->n_sources, err));
        ft_status st = copy_part(s, &p, err);
        part_free(&p);
        FT_TRY(st);
        FT_TRY(stop_check(err));
    }
    return close_shard(s, err);
}

static bool has_eval_files(const struct manifest *m)
{
    for (size_t i = 0; i < m->n_sources; i++)
        if (m->sources[i].use == SOURCE_EVAL)
            return true;
    return false;
}

static ft_status copy_all(struct assembly *s, ft_error *err)
{
    uint64_t samples[SPLITS] = {0};
    FT_TRY(collect_reports(samples, s, err));
    bool dedup = s->m->options.dedup;
    s->compare = dedup || has_eval_files(s->m);
    if (s->compare)
        FT_TRY(ids_set_create(&s->seen, samples[SPLIT_EVAL] + (dedup ? samples[SPLIT_TRAIN] : 0),
                              err));
    FT_TRY(copy_split(s, SPLIT_EVAL, err));
    return copy_split(s, SPLIT_TRAIN, err);
}

/* --- what stands beside the samples ---------------------------------------------------------- */

/* Lengths come back from the finished shards: nothing is kept per sample before. */
static ft_status read_lengths(uint32_t *lengths, struct assembly *s, const struct manifest_split *m,
                              ft_error *err)
{
    for (size_t k = 0; k < m->n_shards; k++) {
        struct shard shard;
        const char *path;
        FT_TRY(path_in(&path, &s->m->arena, s->a->dir, m->shards[k].file.name, err));
        FT_TRY(shard_open(&shard, path, err));
        for (uint64_t i = 0; i < shard.counts.n_samples; i++)
            *lengths++ = shard_entry_at(&shard, i).n_tokens;
        shard_close(&shard);
    }
    return FT_OK;
}

static ft_status write_packs(struct assembly *s, enum dataset_split split, ft_error *err)
{
    struct manifest_split *m = &s->m->splits[split];
    struct packs plan = {0};
    uint32_t *lengths = NULL;
    const char *path;
    char name[32];
    ft_status st;
    snprintf(name, sizeof name, "%s.packs", split_names[split]);
    FT_GOTO(path_in(&path, &s->m->arena, s->a->dir, name, err));
    FT_GOTO(mem_new(&lengths, m->info.n_samples, sizeof *lengths, "the lengths of samples", err));
    FT_GOTO(read_lengths(lengths, s, m, err));
    FT_GOTO(pack_plan(&plan, lengths, m->info.n_samples, (uint32_t)s->m->options.max_length, err));
    FT_GOTO(packs_write(path, &plan, err));
    FT_GOTO(manifest_file_of(&m->packs, &s->m->arena, s->a->dir, name, err));
    m->info.n_packs = plan.n_bins;
    m->info.pack_length = plan.length;
out:
    pack_free(&plan);
    mem_free(lengths);
    return st;
}

static ft_status write_tokenizer(struct assembly *s, ft_error *err)
{
    struct buf blob = {0};
    const char *path;
    ft_status st = path_in(&path, &s->m->arena, s->a->dir, TOKENIZER_FILE, err);
    if (st == FT_OK)
        st = tok_to_blob(&blob, s->a->tok, err);
    if (st == FT_OK)
        st = file_publish(path, blob.data, blob.len, err);
    buf_free(&blob);
    if (st != FT_OK)
        return st;
    return manifest_file_of(&s->m->tokenizer, &s->m->arena, s->a->dir, TOKENIZER_FILE, err);
}

static ft_status check_result(const struct manifest *m, ft_error *err)
{
    const struct report_line *f = m->report.fates;
    uint64_t rows = report_rows(&m->report), held_out = m->splits[SPLIT_EVAL].info.n_samples;
    if (m->splits[SPLIT_TRAIN].info.n_samples == 0)
        return ft_fail(err, FT_EFORMAT,
                       "no sample is left to train on: %" PRIu64 " row%s read, %" PRIu64
                       " invalid, %" PRIu64 " without an assistant message, %" PRIu64
                       " without a trained token, %" PRIu64 " longer than %" PRId64
                       " tokens, %" PRIu64 " left out by weight, %" PRIu64 " duplicates, %" PRIu64
                       " held out",
                       rows, rows == 1 ? "" : "s", f[ROW_INVALID].rows, f[ROW_NO_ASSISTANT].rows,
                       f[ROW_UNTRAINED].rows, f[ROW_TOO_LONG].rows, m->options.max_length,
                       f[ROW_UNSELECTED].rows, m->report.notes[NOTE_DUPLICATE].rows, held_out);
    if (held_out == 0 && (m->options.eval_fraction > 0 || has_eval_files(m)))
        log_warn("the held-out part is empty");
    return FT_OK;
}

static ft_status finish(struct assembly *s, ft_error *err)
{
    ids_set_free(&s->seen); /* packing needs the room */
    FT_TRY(check_result(s->m, err));
    for (int split = 0; split < SPLITS; split++)
        if (s->m->splits[split].info.n_samples > 0)
            FT_TRY(write_packs(s, (enum dataset_split)split, err));
    FT_TRY(write_tokenizer(s, err));
    if (s->a->discard_parts)
        FT_TRY(dir_remove(s->a->parts, err));
    return manifest_write(s->m, s->a->dir, err);
}

ft_status assemble_run(struct assemble *a, ft_error *err)
{
    struct assembly s = {.a = a, .m = &a->plan->manifest};
    ft_status st = copy_all(&s, err);
    if (st == FT_OK)
        st = finish(&s, err);
    shard_writer_abort(s.open);
    buf_free(&s.repeats);
    ids_set_free(&s.seen);
    return st;
}
