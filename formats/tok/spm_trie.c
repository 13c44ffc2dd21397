/* SPDX-License-Identifier: Apache-2.0
 * Nodes are placed in order of depth: the wide ones near the root come first and find empty blocks,
 * the many nodes with one child fill what they leave over. */
#include "formats/tok/spm_trie.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum {
    BLOCK = 256,
    MAX_TRIES = 64,   /* free places looked at before a new block is opened */
    MAX_MATCHES = 64, /* SentencePiece looks at no more prefixes in one place */
};

#define FREE   UINT32_MAX
#define NOBODY (UINT32_MAX - 1) /* parent of the root */

/* Keys [from, to) share the bytes above `depth`; their node is known. */
struct span {
    uint32_t node, from, to, depth;
};

struct builder {
    struct spm_trie_node *nodes;
    size_t n_nodes, cap;
    uint32_t *prev, *next; /* the free places form a ring */
    uint32_t first_free;   /* FREE = none */
    struct span *queue;    /* [n_spans] */
    const struct spm_trie_key *keys;
    ft_error *err;
};

static int compare_keys(const void *a, const void *b)
{
    const struct spm_trie_key *x = a, *y = b;
    int order = memcmp(x->text.ptr, y->text.ptr, FT_MIN(x->text.len, y->text.len));
    if (order != 0)
        return order;
    return (x->text.len > y->text.len) - (x->text.len < y->text.len);
}

static void take_place(struct builder *b, uint32_t place)
{
    uint32_t prev = b->prev[place], next = b->next[place];
    b->next[prev] = next;
    b->prev[next] = prev;
    if (b->first_free == place)
        b->first_free = next == place ? FREE : next;
}

static ft_status grow(void *array, size_t count, size_t size, ft_error *err)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *p = mem_realloc(old, count, size);
    if (p == NULL)
        return ft_fail_memory(err, count * size, "the vocabulary");
    memcpy(array, &p, sizeof p);
    return FT_OK;
}

/* Appends the places of a new block to the ring; *first is the first of them. */
static ft_status open_block(uint32_t *first, struct builder *b)
{
    if (b->n_nodes == b->cap) {
        size_t cap = FT_MAX(2 * b->cap, (size_t)16 * BLOCK);
        FT_TRY(grow(&b->nodes, cap, sizeof *b->nodes, b->err));
        FT_TRY(grow(&b->prev, cap, sizeof *b->prev, b->err));
        FT_TRY(grow(&b->next, cap, sizeof *b->next, b->err));
        b->cap = cap;
    }
    uint32_t from = (uint32_t)b->n_nodes, last = from + BLOCK - 1;
    for (uint32_t i = from; i <= last; i++) {
        b->nodes[i] = (struct spm_trie_node){0, FREE, -1, 0};
        b->prev[i] = i - 1;
        b->next[i] = i + 1;
    }
    uint32_t head = b->first_free == FREE ? from : b->first_free;
    uint32_t tail = b->first_free == FREE ? last : b->prev[head];
    b->prev[from] = tail;
    b->next[last] = head;
    b->next[tail] = tail == last ? head : from;
    b->prev[head] = last;
    b->first_free = head;
    b->n_nodes += BLOCK;
    *first = from;
    return FT_OK;
}

static bool fits(const struct builder *b, uint32_t base, const uint8_t *labels, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->nodes[base ^ labels[i]].parent != FREE)
            return false;
    return true;
}

/* A base at which all children find a free place. */
static ft_status find_base(uint32_t *base, struct builder *b, const uint8_t *labels, size_t n)
{
    uint32_t place = b->first_free;
    for (int i = 0; place != FREE && i < MAX_TRIES; i++) {
        *base = place ^ labels[0];
        if (fits(b, *base, labels, n))
            return FT_OK;
        place = b->next[place];
        if (place == b->first_free)
            break;
    }
    FT_TRY(open_block(&place, b));
    *base = place;
    return FT_OK;
}

/* The different bytes at `depth` of the keys of a span, and where the keys of each begin. */
static size_t split_span(uint8_t *labels, uint32_t *starts, const struct builder *b, struct span s)
{
    size_t n = 0;
    for (uint32_t i = s.from; i < s.to; i++) {
        uint8_t c = (uint8_t)b->keys[i].text.ptr[s.depth];
        if (n > 0 && labels[n - 1] == c)
            continue;
        labels[n] = c;
        starts[n++] = i;
    }
    starts[n] = s.to;
    return n;
}

/* Places the children of a span's node and queues them. */
static ft_status place_children(struct builder *b, struct span s, size_t *n_spans)
{
    uint8_t labels[256];
    uint32_t starts[257], base;
    if (b->keys[s.from].text.len == s.depth) { /* sorted: a key that ends here comes first */
        b->nodes[s.node].value = b->keys[s.from].value;
        b->nodes[s.node].score = b->keys[s.from].score;
        s.from++;
    }
    size_t n = split_span(labels, starts, b, s);
    if (n == 0)
        return FT_OK;
    FT_TRY(find_base(&base, b, labels, n));
    b->nodes[s.node].base = base;
    for (size_t i = 0; i < n; i++) {
        uint32_t child = base ^ labels[i];
        take_place(b, child);
        b->nodes[child].parent = s.node;
        b->queue[(*n_spans)++] = (struct span){child, starts[i], starts[i + 1], s.depth + 1};
    }
    return FT_OK;
}

static size_t common_prefix(str a, str b)
{
    size_t i = 0, n = FT_MIN(a.len, b.len);
    while (i < n && a.ptr[i] == b.ptr[i])
        i++;
    return i;
}

/* Nodes of the trie of sorted keys, the root among them; false when two keys are equal. */
static bool count_nodes(size_t *n_nodes, const struct spm_trie_key *keys, size_t n)
{
    *n_nodes = 1;
    for (size_t i = 0; i < n; i++) {
        size_t shared = i == 0 ? 0 : common_prefix(keys[i - 1].text, keys[i].text);
        if (shared == keys[i].text.len)
            return false;
        *n_nodes += keys[i].text.len - shared;
    }
    return true;
}

static ft_status place_all(struct builder *b, size_t n_keys)
{
    size_t n_spans = 0;
    uint32_t root;
    b->first_free = FREE;
    FT_TRY(open_block(&root, b));
    take_place(b, root);
    b->nodes[root].parent = NOBODY;
    if (n_keys > 0)
        b->queue[n_spans++] = (struct span){root, 0, (uint32_t)n_keys, 0};
    for (size_t i = 0; i < n_spans; i++)
        FT_TRY(place_children(b, b->queue[i], &n_spans));
    return FT_OK;
}

ft_status spm_trie_init(struct spm_trie *t, struct arena *a, struct spm_trie_key *keys, size_t n,
                        ft_error *err)
{
    struct builder b = {.keys = keys, .err = err};
    size_t n_nodes;
    if (n > 0)
        qsort(keys, n, sizeof *keys, compare_keys);
    if (!count_nodes(&n_nodes, keys, n))
        return ft_fail(err, FT_EFORMAT, "two pieces are equal");
    if (n_nodes >= UINT32_MAX / 4)
        return ft_fail(err, FT_ELIMIT, "the pieces together are too long");
    FT_TRY(mem_new(&b.queue, n_nodes, sizeof *b.queue, "the vocabulary", err));
    ft_status st = place_all(&b, n);
    if (st == FT_OK) {
        t->n_nodes = b.n_nodes;
        t->nodes = arena_alloc(a, b.n_nodes, sizeof *t->nodes);
        if (t->nodes == NULL)
            st = ft_fail_memory(err, b.n_nodes * sizeof *t->nodes, "the vocabulary");
        else
            memcpy(t->nodes, b.nodes, b.n_nodes * sizeof *t->nodes);
    }
    mem_free(b.queue);
    mem_free(b.nodes);
    mem_free(b.prev);
    mem_free(b.next);
    return st;
}

size_t spm_trie_longest(int32_t *value, const struct spm_trie *t, str text)
{
    uint32_t node = 0;
    size_t found = 0, n_matches = 0;
    for (size_t i = 0; i < text.len && n_matches < MAX_MATCHES; i++) {
        node = spm_trie_step(t, node, (uint8_t)text.ptr[i]);
        if (node == SPM_TRIE_NONE)
            break;
        if (t->nodes[node].value < 0)
            continue;
        *value = t->nodes[node].value;
        found = i + 1;
        n_matches++;
    }
    return found;
}

int32_t spm_trie_find(const struct spm_trie *t, str text)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        node = spm_trie_step(t, node, (uint8_t)text.ptr[i]);
        if (node == SPM_TRIE_NONE)
            return -1;
    }
    return t->nodes[node].value;
}
