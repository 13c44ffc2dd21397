/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/cache.h"

#include "common/hash.h"
#include "common/mem.h"

ft_status cache_init(struct cache *c, ft_error *err)
{
    size_t sets = (size_t)1 << CACHE_SETS_LOG2;
    *c = (struct cache){0};
    FT_TRY(mem_new(&c->memory, sets + 1, sizeof(struct cache_set), "the pretoken cache", err));
    c->sets = (struct cache_set *)size_align((uintptr_t)c->memory, sizeof(struct cache_set));
    return mem_new(&c->longs, (size_t)1 << CACHE_LONG_LOG2, sizeof *c->longs, "the pretoken cache",
                   err);
}

void cache_destroy(struct cache *c)
{
    mem_free(c->memory);
    mem_free(c->longs);
    *c = (struct cache){0};
}

static struct cache_long *long_slot(const struct cache *c, uint64_t hash)
{
    return &c->longs[hash >> (64 - CACHE_LONG_LOG2)];
}

static void insert_short(struct cache *c, const uint8_t *p, size_t bytes, const int32_t *ids,
                         size_t n, uint16_t note)
{
    struct cache_key k = cache_key_of(p, bytes, bytes);
    struct cache_set *set = cache_set_of(c, k);
    struct cache_entry e = {{k.half[0], k.half[1]}, {0}, (uint16_t)n, note};
    memcpy(e.ids, ids, n * sizeof *ids);
    set->ways[1] = set->ways[0];
    set->ways[0] = e;
}

void cache_insert(struct cache *c, const uint8_t *p, size_t bytes, const int32_t *ids, size_t n)
{
    cache_insert_noted(c, p, bytes, ids, n, 0);
}

void cache_insert_noted(struct cache *c, const uint8_t *p, size_t bytes, const int32_t *ids,
                        size_t n, uint16_t note)
{
    if (n == 0 || n > CACHE_LONG_IDS || bytes > CACHE_LONG_BYTES)
        return;
    if (bytes <= CACHE_SHORT_BYTES && n <= CACHE_SHORT_IDS) {
        insert_short(c, p, bytes, ids, n, note);
        return;
    }
    uint64_t hash = hash64(p, bytes);
    struct cache_long *e = long_slot(c, hash);
    e->hash = hash;
    e->bytes = (uint32_t)bytes;
    e->n = (uint16_t)n;
    e->note = note;
    memcpy(e->key, p, bytes);
    memcpy(e->ids, ids, n * sizeof *ids);
}

const struct cache_long *cache_find_long(const struct cache *c, const uint8_t *p, size_t bytes)
{
    if (bytes > CACHE_LONG_BYTES)
        return NULL;
    uint64_t hash = hash64(p, bytes);
    const struct cache_long *e = long_slot(c, hash);
    bool hit = e->n > 0 && e->hash == hash && e->bytes == bytes && memcmp(e->key, p, bytes) == 0;
    return hit ? e : NULL;
}
