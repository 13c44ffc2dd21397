/* SPDX-License-Identifier: Apache-2.0
 * Two ways to the same result: short pieces scan a small array of ranks for the minimum, long ones
 * keep (rank, position) in a heap. Hugging Face accepts a heap entry when the pair now at its
 * position still gives the same token; tokens are longer than their parts, so that is the case
 * exactly when the pair is unchanged. Here an entry counts when the pair at its position has its
 * rank: another pair of the same rank has an entry of its own, equal to this one. */
#include "formats/tok/bpe.h"

#include <string.h>

#include "common/mem.h"

#define BPE_NO_PAIR UINT64_MAX

enum { SHORT_MAX = 32 };

static const uint32_t NO_RANK = UINT32_MAX, NONE = UINT32_MAX;

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t hash_of(uint64_t pair)
{
    return pair * UINT64_C(0x9E3779B97F4A7C15);
}

/* The slot that holds the pair, or the empty one where it belongs. */
static struct bpe_slot *find_slot(const struct bpe *b, uint64_t pair)
{
    size_t mask = ((size_t)1 << (64 - b->shift)) - 1;
    size_t i = (size_t)(hash_of(pair) >> b->shift);
    while (b->slots[i].pair != pair && b->slots[i].pair != BPE_NO_PAIR)
        i = (i + 1) & mask;
    return &b->slots[i];
}

/* Rank of merging the two symbols, NO_RANK when they do not merge. */
static uint32_t pair_rank(const struct bpe *b, int32_t left, int32_t right, int32_t *result)
{
    if ((uint32_t)(left | right) < BPE_LOW) {
        const struct bpe_low *low = &b->low[left << BPE_LOW_LOG2 | right];
        *result = low->result;
        return ~low->not_rank;
    }
    uint64_t pair = pair_of(left, right), bit = hash_of(pair) >> b->filter_shift;
    *result = -1;
    if (!(b->filter[bit / 64] >> bit % 64 & 1))
        return NO_RANK;
    const struct bpe_slot *s = find_slot(b, pair);
    *result = s->result;
    return s->rank;
}

static void clear_slots(struct bpe *b)
{
    for (size_t i = 0; i < (size_t)1 << (64 - b->shift); i++)
        b->slots[i] = (struct bpe_slot){BPE_NO_PAIR, NO_RANK, -1};
}

/* Returns the number of merges replaced by a later one of the same pair, which are marked. */
static size_t fill_slots(struct bpe *b)
{
    size_t replaced = 0;
    for (size_t i = 0; i < b->n_merges; i++) {
        struct bpe_merge *m = &b->merges[i];
        struct bpe_slot *s = find_slot(b, pair_of(m->left, m->right));
        if (s->pair != BPE_NO_PAIR) {
            b->merges[s->rank].result = -1;
            replaced++;
        }
        *s = (struct bpe_slot){pair_of(m->left, m->right), (uint32_t)i, m->result};
    }
    return replaced;
}

/* The table was filled with places in the list, by which replaced merges are found. */
static void places_to_ranks(struct bpe *b)
{
    for (size_t i = 0; i < (size_t)1 << (64 - b->shift); i++)
        if (b->slots[i].pair != BPE_NO_PAIR)
            b->slots[i].rank = b->merges[b->slots[i].rank].rank;
}

/* What pair_rank looks at before the slots. */
static void fill_front(struct bpe *b)
{
    for (size_t i = 0; i < b->n_merges; i++) {
        const struct bpe_merge *m = &b->merges[i];
        uint64_t bit = hash_of(pair_of(m->left, m->right)) >> b->filter_shift;
        b->filter[bit / 64] |= (uint64_t)1 << bit % 64;
        if ((uint32_t)(m->left | m->right) < BPE_LOW)
            b->low[m->left << BPE_LOW_LOG2 | m->right] = (struct bpe_low){~m->rank, m->result};
    }
}

static void drop_replaced(struct bpe *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_merges; i++)
        if (b->merges[i].result >= 0)
            b->merges[n++] = b->merges[i];
    b->n_merges = n;
}

ft_status bpe_init(struct bpe *b, struct bpe_merge *merges, size_t n_merges, ft_error *err)
{
    *b = (struct bpe){.merges = merges, .n_merges = n_merges, .shift = 60};
    if (n_merges > INT32_MAX)
        return ft_fail(err, FT_ELIMIT, "%zu merges, at most %d are supported", n_merges, INT32_MAX);
    while ((size_t)1 << (64 - b->shift) < 2 * n_merges)
        b->shift--;
    FT_TRY(
        mem_new(&b->slots, (size_t)1 << (64 - b->shift), sizeof *b->slots, "the merge table", err));
    /* At least eight bits a merge. */
    b->filter_shift = b->shift - 2;
    FT_TRY(mem_new(&b->filter, (size_t)1 << (64 - b->filter_shift - 6), sizeof *b->filter,
                   "the merge table", err));
    FT_TRY(mem_new(&b->low, (size_t)BPE_LOW * BPE_LOW, sizeof *b->low, "the merge table", err));
    clear_slots(b);
    if (fill_slots(b) > 0) {
        drop_replaced(b);
        clear_slots(b);
        fill_slots(b);
    }
    places_to_ranks(b);
    fill_front(b);
    return FT_OK;
}

void bpe_destroy(struct bpe *b)
{
    mem_free(b->slots);
    mem_free(b->low);
    mem_free(b->filter);
    *b = (struct bpe){0};
}

static ft_status grow(void *array, size_t count, size_t size, ft_error *err)
{
    void *old, *p;
    memcpy(&old, array, sizeof old);
    p = mem_realloc(old, count, size);
    if (p == NULL)
        return ft_fail_memory(err, count * size, "the symbols of one piece of text");
    memcpy(array, &p, sizeof p);
    return FT_OK;
}

ft_status bpe_work_reserve(struct bpe_work *w, size_t n, ft_error *err)
{
    if (n <= w->cap)
        return FT_OK;
    n = FT_MAX(n, (size_t)256);
    FT_TRY(grow(&w->ids, n, sizeof *w->ids, err));
    FT_TRY(grow(&w->starts, n, sizeof *w->starts, err));
    w->cap = n;
    return FT_OK;
}

void bpe_work_free(struct bpe_work *w)
{
    mem_free(w->ids);
    mem_free(w->starts);
    mem_free(w->links);
    mem_free(w->heap);
    *w = (struct bpe_work){0};
}

/* --- short pieces ---------------------------------------------------------------------------- */

static void remove_at(void *array, size_t size, size_t i, size_t n)
{
    char *a = array;
    memmove(a + i * size, a + (i + 1) * size, (n - i - 1) * size);
}

/* Merges n symbols and returns how many are left. */
static size_t merge_short(const struct bpe *b, int32_t *ids, uint32_t *starts, size_t n)
{
    uint32_t ranks[SHORT_MAX];  /* of the pair (i, i + 1) */
    int32_t results[SHORT_MAX]; /* what that pair becomes */
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = pair_rank(b, ids[i], ids[i + 1], &results[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best])
                best = i;
        if (ranks[best] == NO_RANK)
            break;
        ids[best] = results[best];
        remove_at(ids, sizeof *ids, best + 1, n);
        remove_at(starts, sizeof *starts, best + 1, n);
        remove_at(ranks, sizeof *ranks, best, n - 1);
        remove_at(results, sizeof *results, best, n - 1);
        n--;
        if (best > 0)
            ranks[best - 1] = pair_rank(b, ids[best - 1], ids[best], &results[best - 1]);
        if (best + 1 < n)
            ranks[best] = pair_rank(b, ids[best], ids[best + 1], &results[best]);
    }
    return n;
}

/* --- long pieces ----------------------------------------------------------------------------- */

/* A binary min-heap of rank << 32 | position. */
struct heap {
    uint64_t *items;
    size_t n;
};

static void heap_push(struct heap *h, uint64_t v)
{
    size_t i = h->n++;
    for (; i > 0 && h->items[(i - 1) / 2] > v; i = (i - 1) / 2)
        h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = v;
}

static uint64_t heap_pop(struct heap *h)
{
    uint64_t top = h->items[0], v = h->items[--h->n];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < h->n) {
        if (child + 1 < h->n && h->items[child + 1] < h->items[child])
            child++;
        if (h->items[child] >= v)
            break;
        h->items[i] = h->items[child];
        i = child;
    }
    h->items[i] = v;
    return top;
}

/* Symbols as a linked list inside the arrays; a merged-away symbol has id -1. */
struct chain {
    const struct bpe *bpe;
    int32_t *ids;
    uint32_t *next, *prev;
    struct heap heap;
};

static void offer_pair(struct chain *c, uint32_t left)
{
    int32_t result;
    if (left == NONE || c->next[left] == NONE)
        return;
    uint32_t rank = pair_rank(c->bpe, c->ids[left], c->ids[c->next[left]], &result);
    if (rank != NO_RANK)
        heap_push(&c->heap, (uint64_t)rank << 32 | left);
}

static void take_pair(struct chain *c, uint64_t entry)
{
    uint32_t left = (uint32_t)entry, rank = (uint32_t)(entry >> 32), right = c->next[left];
    int32_t result;
    if (c->ids[left] < 0 || right == NONE ||
        pair_rank(c->bpe, c->ids[left], c->ids[right], &result) != rank)
        return; /* the pair has changed since it was offered */
    c->ids[left] = result;
    c->ids[right] = -1;
    c->next[left] = c->next[right];
    if (c->next[left] != NONE)
        c->prev[c->next[left]] = left;
    offer_pair(c, c->prev[left]);
    offer_pair(c, left);
}

static ft_status merge_long(const struct bpe *b, struct bpe_work *w, size_t from, size_t *left,
                            ft_error *err)
{
    size_t n = *left, kept = 0;
    int32_t *ids = w->ids + from;
    uint32_t *starts = w->starts + from;
    if (w->long_cap < n) {
        FT_TRY(grow(&w->links, 2 * n, sizeof *w->links, err));
        /* n - 1 pairs at first; each of at most n - 1 merges takes one entry and offers two. */
        FT_TRY(grow(&w->heap, 2 * n, sizeof *w->heap, err));
        w->long_cap = n;
    }
    struct chain c = {b, ids, w->links, w->links + n, {w->heap, 0}};
    for (size_t i = 0; i < n; i++) {
        c.next[i] = i + 1 < n ? (uint32_t)i + 1 : NONE;
        c.prev[i] = i > 0 ? (uint32_t)i - 1 : NONE;
    }
    for (size_t i = 0; i < n; i++)
        offer_pair(&c, (uint32_t)i);
    while (c.heap.n > 0)
        take_pair(&c, heap_pop(&c.heap));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0)
            continue;
        ids[kept] = ids[i];
        starts[kept++] = starts[i];
    }
    *left = kept;
    return FT_OK;
}

ft_status bpe_merge_range(const struct bpe *b, struct bpe_work *w, size_t from, size_t *n,
                          ft_error *err)
{
    if (*n > SHORT_MAX)
        return merge_long(b, w, from, n, err);
    if (*n > 1)
        *n = merge_short(b, w->ids + from, w->starts + from, *n);
    return FT_OK;
}

ft_status bpe_merge(const struct bpe *b, struct bpe_work *w, ft_error *err)
{
    return bpe_merge_range(b, w, 0, &w->n, err);
}
