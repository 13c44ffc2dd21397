/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"

struct grouped_sample {
    uint64_t id, place;
    uint32_t n_tokens;
};

struct loader {
    const struct dataset *data;
    struct loader_options o;
    struct loader_shape shape;
    struct dataset_reader *reader;

    struct step_batch batch; /* points into the two arrays */
    uint64_t *samples;
    struct pack_part *parts; /* NULL unless the plan has parts */
    size_t cap_samples;
    int64_t *micro_starts;

    struct grouped_sample *group; /* the sorted group of (group_epoch, group_index) */
    int64_t group_epoch, group_index;

    int32_t *tokens; /* [max_tokens] */
    uint8_t *mask;
    int64_t *seq_starts; /* [max_tokens + 1] */

    bool has_parts;
    int32_t *whole_tokens; /* a sample that a part is taken from, [longest] */
    uint8_t *whole_mask;
};

/* --- shape ----------------------------------------------------------------------------------- */

ft_status loader_measure(struct loader_shape *out, const struct dataset *data,
                         const struct loader_options *o, ft_error *err)
{
    const struct split_info *train = dataset_split(data, SPLIT_TRAIN);
    const struct split_info *eval = dataset_split(data, SPLIT_EVAL);
    if (train->n_samples == 0)
        return ft_fail(err, FT_EFORMAT, "the data set has no training samples");
    if (o->mode == BATCH_PACKED && train->n_packs == 0)
        return ft_fail(err, FT_EUSAGE,
                       "batch.mode is packed, but the data set has no pack plan; set it to grouped "
                       "or sequential, or build the data set with a plan");
    bool packed = o->mode == BATCH_PACKED;
    int64_t per_step = o->micro * o->accumulate;
    uint64_t units = packed ? train->n_packs : train->n_samples;
    int64_t micro_units = (int64_t)FT_MIN((uint64_t)o->micro, units);
    int64_t train_tokens = micro_units * (packed ? train->longest_pack : train->longest);
    train_tokens = (int64_t)FT_MIN((uint64_t)train_tokens, train->n_tokens);
    *out = (struct loader_shape){
        .n_units = units,
        .steps_per_epoch = (int64_t)((units + (uint64_t)per_step - 1) / (uint64_t)per_step),
        .max_tokens = FT_MAX(train_tokens, (int64_t)eval->longest),
    };
    return FT_OK;
}

static uint64_t group_units(const struct loader *l)
{
    return dataset_group_samples(l->shape.n_units, (uint64_t)(l->o.micro * l->o.accumulate));
}

/* --- life ------------------------------------------------------------------------------------ */

static ft_status allocate(struct loader *l, ft_error *err)
{
    size_t max_tokens = (size_t)l->shape.max_tokens;
    size_t n_micro = (size_t)FT_MIN((uint64_t)l->o.accumulate, l->shape.n_units);
    FT_TRY(mem_new(&l->micro_starts, n_micro + 1, sizeof *l->micro_starts, "the batch", err));
    FT_TRY(mem_new(&l->tokens, max_tokens, sizeof *l->tokens, "the batch", err));
    FT_TRY(mem_new(&l->mask, max_tokens, sizeof *l->mask, "the batch", err));
    FT_TRY(mem_new(&l->seq_starts, max_tokens + 1, sizeof *l->seq_starts, "the batch", err));
    if (l->has_parts) {
        uint32_t longest = dataset_split(l->data, SPLIT_TRAIN)->longest;
        FT_TRY(mem_new(&l->whole_tokens, longest, sizeof *l->whole_tokens, "a sample", err));
        FT_TRY(mem_new(&l->whole_mask, longest, sizeof *l->whole_mask, "a sample", err));
    }
    if (l->o.mode == BATCH_GROUPED) {
        uint64_t n = FT_MIN(group_units(l), l->shape.n_units);
        FT_TRY(mem_new(&l->group, (size_t)n, sizeof *l->group, "length groups", err));
        l->group_epoch = -1;
    }
    return dataset_reader_create(&l->reader, l->data, err);
}

ft_status loader_create(struct loader **out, const struct dataset *data,
                        const struct loader_options *o, ft_error *err)
{
    struct loader *l = NULL;
    ft_status st;
    *out = NULL;
    FT_GOTO(mem_new(&l, 1, sizeof *l, "the loader", err));
    l->data = data;
    l->o = *o;
    l->has_parts = o->mode == BATCH_PACKED && dataset_has_parts(data, SPLIT_TRAIN);
    FT_GOTO(loader_measure(&l->shape, data, o, err));
    FT_GOTO(allocate(l, err));
    *out = l;
    return FT_OK;
out:
    loader_destroy(l);
    return st;
}

void loader_destroy(struct loader *l)
{
    if (l == NULL)
        return;
    dataset_reader_destroy(l->reader);
    mem_free(l->samples);
    mem_free(l->parts);
    mem_free(l->whole_tokens);
    mem_free(l->whole_mask);
    mem_free(l->micro_starts);
    mem_free(l->group);
    mem_free(l->tokens);
    mem_free(l->mask);
    mem_free(l->seq_starts);
    mem_free(l);
}

/* --- order ----------------------------------------------------------------------------------- */

/* The shuffled order of an epoch. */
static uint64_t shuffled(const struct loader *l, int64_t epoch, uint64_t place)
{
    return rng_permute(l->o.seed, (uint64_t)epoch, l->shape.n_units, place);
}

/* Longest first; the shuffled order decides between equal lengths. */
static int compare_grouped(const void *a, const void *b)
{
    const struct grouped_sample *x = a, *y = b;
    if (x->n_tokens != y->n_tokens)
        return x->n_tokens < y->n_tokens ? 1 : -1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static struct grouped_sample sample_at(const struct loader *l, int64_t epoch, uint64_t place)
{
    uint64_t id = shuffled(l, epoch, place);
    return (struct grouped_sample){id, place,
                                   dataset_sample_info(l->data, SPLIT_TRAIN, id).n_tokens};
}

/* What a group begins with once it is sorted. */
static struct grouped_sample first_of_group(const struct loader *l, int64_t epoch, uint64_t index)
{
    uint64_t from = index * group_units(l);
    uint64_t to = FT_MIN(from + group_units(l), l->shape.n_units);
    struct grouped_sample first = sample_at(l, epoch, from);
    for (uint64_t p = from + 1; p < to; p++) {
        struct grouped_sample other = sample_at(l, epoch, p);
        if (compare_grouped(&other, &first) < 0)
            first = other;
    }
    return first;
}

/* The group that holds the longest sample begins with a sample of that length; it changes places
 * with the first one of group 0, so that the step that needs the most memory is the first of the
 * epoch. */
static void put_longest_first(struct loader *l, int64_t epoch, uint64_t index)
{
    uint64_t longest = dataset_split(l->data, SPLIT_TRAIN)->longest_sample;
    uint64_t place = rng_permute_inverse(l->o.seed, (uint64_t)epoch, l->shape.n_units, longest);
    uint64_t home = place / group_units(l);
    if (index == 0 || index == home)
        l->group[0] = first_of_group(l, epoch, index == 0 ? home : 0);
}

static void sort_group(struct loader *l, int64_t epoch, uint64_t index)
{
    uint64_t size = group_units(l), from = index * size;
    uint64_t to = FT_MIN(from + size, l->shape.n_units);
    for (uint64_t p = from; p < to; p++)
        l->group[p - from] = sample_at(l, epoch, p);
    qsort(l->group, (size_t)(to - from), sizeof *l->group, compare_grouped);
    put_longest_first(l, epoch, index);
    l->group_epoch = epoch;
    l->group_index = (int64_t)index;
}

static uint64_t grouped(struct loader *l, int64_t epoch, uint64_t place)
{
    uint64_t size = group_units(l), index = place / size;
    if (epoch != l->group_epoch || (int64_t)index != l->group_index)
        sort_group(l, epoch, index);
    return l->group[place % size].id;
}

/* --- a step ---------------------------------------------------------------------------------- */

static ft_status grow(void *array, size_t cap, size_t size, ft_error *err)
{
    void **p = array;
    void *grown = mem_realloc(*p, cap, size);
    if (grown == NULL)
        return ft_fail_memory(err, cap * size, "the samples of a step");
    *p = grown;
    return FT_OK;
}

static ft_status reserve_sample(struct loader *l, ft_error *err)
{
    size_t cap = l->cap_samples * 2 + 64;
    if ((size_t)l->batch.n_samples < l->cap_samples)
        return FT_OK;
    FT_TRY(grow(&l->samples, cap, sizeof *l->samples, err));
    if (l->has_parts)
        FT_TRY(grow(&l->parts, cap, sizeof *l->parts, err));
    l->cap_samples = cap;
    return FT_OK;
}

static ft_status add_sample(struct loader *l, uint64_t id, int64_t *micro_tokens, ft_error *err)
{
    struct step_batch *b = &l->batch;
    FT_TRY(reserve_sample(l, err));
    struct sample_info info = dataset_sample_info(l->data, SPLIT_TRAIN, id);
    *micro_tokens += info.n_tokens;
    if (info.n_tokens == 0 || *micro_tokens > l->shape.max_tokens)
        return ft_fail(err, FT_EFORMAT,
                       "train sample %" PRIu64 " has %u tokens, which contradicts the data set's "
                       "manifest; check it with ftprep verify",
                       id, info.n_tokens);
    l->samples[b->n_samples++] = id;
    b->n_tokens += info.n_tokens;
    b->n_trained += info.n_trained;
    return FT_OK;
}

static ft_status damaged_bin(uint64_t bin, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "bin %" PRIu64 " of the pack plan is damaged; check the data set with "
                   "ftprep verify",
                   bin);
}

static ft_status add_bin_of_parts(struct loader *l, uint64_t bin, int64_t *micro_tokens,
                                  ft_error *err)
{
    struct step_batch *b = &l->batch;
    size_t n;
    const struct pack_part *parts = dataset_pack_parts(l->data, SPLIT_TRAIN, bin, &n);
    if (parts == NULL)
        return damaged_bin(bin, err);
    for (size_t i = 0; i < n; i++) {
        FT_TRY(reserve_sample(l, err));
        *micro_tokens += parts[i].n_tokens;
        if (*micro_tokens > l->shape.max_tokens)
            return damaged_bin(bin, err);
        l->samples[b->n_samples] = parts[i].sample;
        l->parts[b->n_samples++] = parts[i];
        b->n_tokens += parts[i].n_tokens;
        b->n_trained += parts[i].n_trained;
    }
    return FT_OK;
}

static ft_status add_bin(struct loader *l, uint64_t bin, int64_t *micro_tokens, ft_error *err)
{
    size_t n = 0;
    uint64_t n_samples = dataset_split(l->data, SPLIT_TRAIN)->n_samples;
    const uint32_t *ids = dataset_pack(l->data, SPLIT_TRAIN, bin, &n);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= n_samples)
            n = 0; /* ends the loop and is reported below */
        else
            FT_TRY(add_sample(l, ids[i], micro_tokens, err));
    }
    return ids == NULL || n == 0 ? damaged_bin(bin, err) : FT_OK;
}

static ft_status add_unit(struct loader *l, int64_t epoch, uint64_t place, int64_t *micro_tokens,
                          ft_error *err)
{
    switch (l->o.mode) {
    case BATCH_PACKED:
        return l->has_parts ? add_bin_of_parts(l, shuffled(l, epoch, place), micro_tokens, err)
                            : add_bin(l, shuffled(l, epoch, place), micro_tokens, err);
    case BATCH_GROUPED:
        return add_sample(l, grouped(l, epoch, place), micro_tokens, err);
    case BATCH_SEQUENTIAL:
        return add_sample(l, place, micro_tokens, err);
    }
    FT_ASSERT(false);
    return FT_OK;
}

ft_status loader_seek(struct step_batch *out, struct loader *l, int64_t step, ft_error *err)
{
    int64_t epoch = step / l->shape.steps_per_epoch, in_epoch = step % l->shape.steps_per_epoch;
    uint64_t micro = (uint64_t)l->o.micro, per_step = micro * (uint64_t)l->o.accumulate;
    uint64_t from = (uint64_t)in_epoch * per_step;
    uint64_t to = FT_MIN(from + per_step, l->shape.n_units);
    struct step_batch *b = &l->batch;
    *b = (struct step_batch){.epoch = epoch, .micro_starts = l->micro_starts};
    for (uint64_t place = from; place < to; place += micro) {
        int64_t micro_tokens = 0;
        l->micro_starts[b->n_micro++] = b->n_samples;
        for (uint64_t p = place; p < FT_MIN(place + micro, to); p++)
            FT_TRY(add_unit(l, epoch, p, &micro_tokens, err));
    }
    l->micro_starts[b->n_micro] = b->n_samples;
    b->samples = l->samples;
    b->parts = l->parts;
    *out = *b;
    return FT_OK;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Appends a sample to the micro-batch under construction. */
static ft_status read_sample(struct loader *l, struct micro_batch *b, enum dataset_split split,
                             uint64_t id, ft_error *err)
{
    uint8_t *mask = l->mask + b->n_tokens;
    int64_t n_tokens = dataset_sample_info(l->data, split, id).n_tokens;
    FT_TRY(dataset_read(l->reader, split, id, l->tokens + b->n_tokens, mask, err));
    if (mask[0] != 0) /* nothing predicts it, and the index counted it as a target */
        return ft_fail(err, FT_EFORMAT,
                       "%s sample %" PRIu64 ": its first token is marked as "
                       "trained; check the data set with ftprep verify",
                       split_names[split], id);
    b->n_tokens += n_tokens;
    l->seq_starts[++b->n_seqs] = b->n_tokens;
    return FT_OK;
}

/* Appends a part of a sample, as a sequence of its own. */
static ft_status read_part(struct loader *l, struct micro_batch *b, const struct pack_part *part,
                           ft_error *err)
{
    FT_TRY(dataset_read(l->reader, SPLIT_TRAIN, part->sample, l->whole_tokens, l->whole_mask, err));
    memcpy(l->tokens + b->n_tokens, l->whole_tokens + part->from,
           part->n_tokens * sizeof *l->tokens);
    memcpy(l->mask + b->n_tokens, l->whole_mask + part->from, part->n_tokens);
    l->mask[b->n_tokens] = 0; /* what predicted it is in another bin */
    b->n_tokens += part->n_tokens;
    l->seq_starts[++b->n_seqs] = b->n_tokens;
    return FT_OK;
}

static struct micro_batch empty_batch(struct loader *l)
{
    l->seq_starts[0] = 0;
    return (struct micro_batch){
        .tokens = l->tokens, .trained = l->mask, .seq_starts = l->seq_starts};
}

ft_status loader_read(struct micro_batch *out, struct loader *l, int64_t i, ft_error *err)
{
    FT_ASSERT(i >= 0 && i < l->batch.n_micro);
    *out = empty_batch(l);
    for (int64_t k = l->micro_starts[i]; k < l->micro_starts[i + 1]; k++)
        FT_TRY(l->has_parts ? read_part(l, out, &l->parts[k], err)
                            : read_sample(l, out, SPLIT_TRAIN, l->samples[k], err));
    return FT_OK;
}

ft_status loader_read_eval(struct micro_batch *out, int64_t *n_trained, struct loader *l,
                           uint64_t *next, uint64_t end, ft_error *err)
{
    FT_ASSERT(*next < end && end <= dataset_split(l->data, SPLIT_EVAL)->n_samples);
    *out = empty_batch(l);
    *n_trained = 0;
    for (; *next < end; (*next)++) {
        struct sample_info info = dataset_sample_info(l->data, SPLIT_EVAL, *next);
        if (info.n_tokens == 0 || info.n_tokens > l->shape.max_tokens)
            return ft_fail(err, FT_EFORMAT,
                           "eval sample %" PRIu64 " has %u tokens, which contradicts the data "
                           "set's manifest; check it with ftprep verify",
                           *next, info.n_tokens);
        if (out->n_tokens + info.n_tokens > l->shape.max_tokens)
            return FT_OK;
        FT_TRY(read_sample(l, out, SPLIT_EVAL, *next, err));
        *n_trained += info.n_trained;
    }
    return FT_OK;
}
