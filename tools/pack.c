/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pack.h"

#include <string.h>

#include "common/mem.h"
#include "common/rng.h"

enum { NONE = UINT32_MAX };

/* Open bins by free room: head[room] starts a stack of bins linked by next[bin]; `used` has a bit
 * for every room with a bin, and `summary` a bit for every word of `used` that is not zero. */
struct room_index {
    uint32_t *head;    /* [capacity + 1] */
    uint32_t *next;    /* [n bins] */
    uint64_t *used;    /* [n_words] */
    uint64_t *summary; /* [n_words / 64 + 1] */
    size_t n_words;
};

static ft_status room_index_create(struct room_index *x, uint32_t capacity, size_t max_bins,
                                   ft_error *err)
{
    x->n_words = (size_t)capacity / 64 + 1;
    FT_TRY(mem_new(&x->head, (size_t)capacity + 1, sizeof *x->head, "the pack plan", err));
    FT_TRY(mem_new(&x->next, max_bins, sizeof *x->next, "the pack plan", err));
    FT_TRY(mem_new(&x->used, x->n_words, sizeof *x->used, "the pack plan", err));
    FT_TRY(mem_new(&x->summary, x->n_words / 64 + 1, sizeof *x->summary, "the pack plan", err));
    memset(x->head, 0xFF, ((size_t)capacity + 1) * sizeof *x->head); /* NONE */
    return FT_OK;
}

static void room_index_free(struct room_index *x)
{
    mem_free(x->head);
    mem_free(x->next);
    mem_free(x->used);
    mem_free(x->summary);
}

static void push_bin(struct room_index *x, uint32_t room, uint32_t bin)
{
    x->next[bin] = x->head[room];
    x->head[room] = bin;
    x->used[room / 64] |= UINT64_C(1) << room % 64;
    x->summary[room / 4096] |= UINT64_C(1) << room / 64 % 64;
}

static uint32_t pop_bin(struct room_index *x, uint32_t room)
{
    uint32_t bin = x->head[room];
    x->head[room] = x->next[bin];
    if (x->head[room] == NONE) {
        x->used[room / 64] &= ~(UINT64_C(1) << room % 64);
        if (x->used[room / 64] == 0)
            x->summary[room / 4096] &= ~(UINT64_C(1) << room / 64 % 64);
    }
    return bin;
}

/* Smallest room >= need that has a bin; NONE when there is none. */
static uint32_t find_room(const struct room_index *x, uint32_t need)
{
    size_t word = need / 64;
    uint64_t bits = x->used[word] & (~UINT64_C(0) << need % 64);
    if (bits != 0)
        return (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(bits);
    word++;
    if (word >= x->n_words)
        return NONE;
    size_t group = word / 64;
    bits = x->summary[group] & (~UINT64_C(0) << word % 64);
    while (bits == 0) {
        if (++group > (x->n_words - 1) / 64)
            return NONE;
        bits = x->summary[group];
    }
    word = group * 64 + (size_t)__builtin_ctzll(bits);
    return (uint32_t)(word * 64) + (uint32_t)__builtin_ctzll(x->used[word]);
}

/* The i-th sample of the order to start from: shuffled, or as stored when seed is NULL. */
static uint32_t sample_at(const uint64_t *seed, size_t n, size_t i)
{
    return (uint32_t)(seed == NULL ? i : rng_permute(*seed, 0, n, i));
}

/* Sample indices from the longest to the shortest, ties in the starting order: one counting sort.
 */
static ft_status sort_by_length(uint32_t *order, const uint32_t *lengths, size_t n,
                                uint32_t capacity, const uint64_t *seed, ft_error *err)
{
    uint32_t *from; /* [length]: where the samples of that length go next */
    FT_TRY(mem_new(&from, (size_t)capacity + 1, sizeof *from, "the pack plan", err));
    for (size_t i = 0; i < n; i++) {
        FT_ASSERT(lengths[i] >= 1 && lengths[i] <= capacity);
        from[lengths[i]]++;
    }
    uint32_t start = 0;
    for (uint32_t length = capacity; length > 0; length--) {
        uint32_t count = from[length];
        from[length] = start;
        start += count;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t sample = sample_at(seed, n, i);
        order[from[lengths[sample]]++] = sample;
    }
    mem_free(from);
    return FT_OK;
}

/* Fills bin_of[sample] and returns the number of bins. */
static uint32_t place(uint32_t *bin_of, struct room_index *x, const uint32_t *order,
                      const uint32_t *lengths, size_t n, uint32_t capacity)
{
    uint32_t n_bins = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t length = lengths[order[i]], room = find_room(x, length);
        uint32_t bin = room == NONE ? n_bins++ : pop_bin(x, room);
        push_bin(x, (room == NONE ? capacity : room) - length, bin);
        bin_of[order[i]] = bin;
    }
    return n_bins;
}

/* starts and samples of the plan out of bin_of: the second counting sort. */
static ft_status collect(struct packs *out, uint32_t *samples, const uint32_t *bin_of,
                         ft_error *err)
{
    uint32_t *starts;
    FT_TRY(mem_new(&starts, (size_t)out->n_bins + 2, sizeof *starts, "the pack plan", err));
    /* Counted two places up, so that filling leaves starts[b] where bin b begins. */
    for (uint32_t i = 0; i < out->n_samples; i++)
        starts[(size_t)bin_of[i] + 2]++;
    for (size_t b = 2; b <= out->n_bins; b++)
        starts[b] += starts[b - 1];
    for (uint32_t i = 0; i < out->n_samples; i++)
        samples[starts[(size_t)bin_of[i] + 1]++] = i;
    out->starts = starts;
    return FT_OK;
}

static ft_status plan(struct packs *out, const uint32_t *lengths, size_t n, uint32_t capacity,
                      const uint64_t *seed, ft_error *err)
{
    struct room_index x = {0};
    uint32_t *order = NULL, *bin_of = NULL;
    ft_status st;
    FT_ASSERT(n <= UINT32_MAX);
    *out = (struct packs){.version = PACKS_VERSION,
                          .n_samples = (uint32_t)n,
                          .n_entries = (uint32_t)n,
                          .length = capacity};
    FT_GOTO(mem_new(&order, n, sizeof *order, "the pack plan", err));
    FT_GOTO(mem_new(&bin_of, n, sizeof *bin_of, "the pack plan", err));
    FT_GOTO(room_index_create(&x, capacity, n, err));
    FT_GOTO(sort_by_length(order, lengths, n, capacity, seed, err));
    out->n_bins = place(bin_of, &x, order, lengths, n, capacity);
    out->fullest = n == 0 ? 0 : capacity - find_room(&x, 0);
    FT_GOTO(collect(out, order, bin_of, err)); /* order is no longer needed: its memory is reused */
    out->samples = order;
    order = NULL;
out:
    room_index_free(&x);
    mem_free(order);
    mem_free(bin_of);
    return st;
}

ft_status pack_plan(struct packs *out, const uint32_t *lengths, size_t n, uint32_t capacity,
                    ft_error *err)
{
    return plan(out, lengths, n, capacity, NULL, err);
}

ft_status pack_plan_shuffled(struct packs *out, const uint32_t *lengths, size_t n,
                             uint32_t capacity, uint64_t seed, ft_error *err)
{
    FT_TRY(plan(out, lengths, n, capacity, &seed, err));
    out->version = PACKS_PLAN_VERSION;
    out->shuffled = true;
    out->seed = seed;
    return FT_OK;
}

/* --- concatenate and chop -------------------------------------------------------------------- */

struct chopper {
    struct pack_part *parts;
    uint32_t *starts;
    uint32_t n_parts, n_bins, room; /* room of the open bin, the last of n_bins */
    uint32_t capacity;
};

static void chop_sample(struct chopper *c, uint32_t sample, uint32_t length)
{
    for (uint32_t from = 0; from < length;) {
        if (c->room == 0) {
            c->starts[c->n_bins++] = c->n_parts;
            c->room = c->capacity;
        }
        uint32_t n = FT_MIN(length - from, c->room);
        c->parts[c->n_parts++] = (struct pack_part){.sample = sample, .from = from, .n_tokens = n};
        c->room -= n;
        from += n;
    }
}

ft_status pack_chop(struct packs *out, const uint32_t *lengths, size_t n, uint32_t capacity,
                    const uint64_t *seed, ft_error *err)
{
    struct chopper c = {.capacity = capacity};
    uint64_t n_tokens = 0, n_bins, n_parts;
    ft_status st;
    *out = (struct packs){0};
    for (size_t i = 0; i < n; i++)
        n_tokens += lengths[i];
    n_bins = (n_tokens + capacity - 1) / capacity;
    n_parts = n + n_bins; /* each border cuts one sample at most */
    if (n_parts > UINT32_MAX)
        return ft_fail(err, FT_ELIMIT, "%llu parts of samples, a plan holds at most %u",
                       (unsigned long long)n_parts, UINT32_MAX);
    FT_GOTO(mem_new(&c.parts, n_parts, sizeof *c.parts, "the pack plan", err));
    FT_GOTO(mem_new(&c.starts, n_bins + 1, sizeof *c.starts, "the pack plan", err));
    for (size_t i = 0; i < n; i++) {
        uint32_t sample = sample_at(seed, n, i);
        FT_ASSERT(lengths[sample] >= 1);
        chop_sample(&c, sample, lengths[sample]);
    }
    c.starts[c.n_bins] = c.n_parts;
    *out = (struct packs){.version = PACKS_PLAN_VERSION,
                          .n_bins = c.n_bins,
                          .n_samples = (uint32_t)n,
                          .n_entries = c.n_parts,
                          .length = capacity,
                          .fullest = c.n_bins == 1 ? capacity - c.room
                                     : n == 0      ? 0
                                                   : capacity,
                          .starts = c.starts,
                          .parts = c.parts,
                          .shuffled = seed != NULL,
                          .seed = seed != NULL ? *seed : 0};
    return FT_OK;
out:
    mem_free(c.parts);
    mem_free(c.starts);
    return st;
}

void pack_drop_untrained(struct packs *p)
{
    uint32_t *starts = (uint32_t *)(uintptr_t)p->starts;
    struct pack_part *parts = (struct pack_part *)(uintptr_t)p->parts;
    uint32_t n_bins = 0, n_parts = 0;
    p->fullest = 0;
    for (uint32_t b = 0, from = 0; b < p->n_bins; b++) {
        uint32_t to = starts[b + 1], n_tokens = 0, n_trained = 0;
        starts[n_bins] = n_parts;
        for (uint32_t i = from; i < to; i++) {
            n_tokens += parts[i].n_tokens;
            n_trained += parts[i].n_trained;
            parts[n_parts + i - from] = parts[i];
        }
        if (n_trained > 0) {
            n_bins++;
            n_parts += to - from;
            p->fullest = FT_MAX(p->fullest, n_tokens);
        } else {
            p->untrained += n_tokens;
        }
        from = to;
    }
    starts[n_bins] = n_parts;
    p->n_bins = n_bins;
    p->n_entries = n_parts;
}

void pack_free(struct packs *p)
{
    mem_free((void *)(uintptr_t)p->starts);
    mem_free((void *)(uintptr_t)p->samples);
    mem_free((void *)(uintptr_t)p->parts);
    *p = (struct packs){0};
}
