/* SPDX-License-Identifier: Apache-2.0
 * Pretokens already encoded, of one thread, in constant memory. Most pretokens of a text are short
 * and frequent: those live in one 64-byte line per set, two entries each, the least recently used
 * of which is replaced. Longer ones and those of many tokens live in a second, direct-mapped table.
 */
#ifndef FORMATS_TOK_CACHE_H
#define FORMATS_TOK_CACHE_H

#include <string.h>

#include "common/error.h"

enum {
    CACHE_SETS_LOG2 = 17, /* 8 MiB */
    CACHE_SHORT_BYTES = 15,
    CACHE_SHORT_IDS = 3,
    CACHE_LONG_LOG2 = 14, /* 4 MiB */
    CACHE_LONG_BYTES = 112,
    CACHE_LONG_IDS = 32,
};

struct cache_entry {
    uint64_t key[2]; /* the bytes, zero-padded, and their number in the last byte; 0 = empty */
    int32_t ids[CACHE_SHORT_IDS];
    uint16_t n, note; /* note: the caller's */
};

struct cache_set {
    struct cache_entry ways[2];
};

struct cache_long {
    uint64_t hash;
    uint32_t bytes;
    uint16_t n, note; /* n == 0: empty */
    uint8_t key[CACHE_LONG_BYTES];
    int32_t ids[CACHE_LONG_IDS];
};

struct cache {
    void *memory;
    struct cache_set *sets; /* in memory, on cache lines */
    struct cache_long *longs;
};

struct cache_key {
    uint64_t half[2];
};

FT_NODISCARD ft_status cache_init(struct cache *c, ft_error *err);
void cache_destroy(struct cache *c);

/* Key of 1 to 15 bytes at p; readable tells how many bytes may be read from p. */
static inline struct cache_key cache_key_of(const uint8_t *p, size_t bytes, size_t readable)
{
    static const uint8_t keep[32] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    };
    static const uint8_t length[8 * (CACHE_SHORT_BYTES + 1)] = {
        [15] = 1, [23] = 2,  [31] = 3,  [39] = 4,   [47] = 5,   [55] = 6,   [63] = 7,   [71] = 8,
        [79] = 9, [87] = 10, [95] = 11, [103] = 12, [111] = 13, [119] = 14, [127] = 15,
    };
    uint64_t low = 0, high = 0, keep_low, keep_high, last;
    memcpy(&last, length + 8 * bytes, 8);
    if (__builtin_expect(readable >= 16, 1)) {
        memcpy(&low, p, 8);
        memcpy(&high, p + 8, 8);
        memcpy(&keep_low, keep + 16 - bytes, 8);
        memcpy(&keep_high, keep + 24 - bytes, 8);
        low &= keep_low;
        high &= keep_high;
    } else {
        memcpy(&low, p, FT_MIN(bytes, (size_t)8));
        memcpy(&high, p + 8, bytes > 8 ? bytes - 8 : 0);
    }
    return (struct cache_key){{low, high | last}};
}

static inline struct cache_set *cache_set_of(const struct cache *c, struct cache_key k)
{
    uint64_t h = k.half[0] * UINT64_C(0x9E3779B97F4A7C15);
    h ^= k.half[1] * UINT64_C(0xC2B2AE3D27D4EB4F);
    h ^= h >> 32;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return &c->sets[h >> (64 - CACHE_SETS_LOG2)];
}

static inline bool cache_matches(const struct cache_entry *e, struct cache_key k)
{
    return ((e->key[0] ^ k.half[0]) | (e->key[1] ^ k.half[1])) == 0;
}

/* The entry, NULL when there is none. Valid until the next call. */
static inline const struct cache_entry *cache_find(const struct cache *c, struct cache_key k)
{
    struct cache_set *set = cache_set_of(c, k);
    if (__builtin_expect(cache_matches(&set->ways[0], k), 1))
        return &set->ways[0];
    if (!cache_matches(&set->ways[1], k))
        return NULL;
    struct cache_entry hit = set->ways[1];
    set->ways[1] = set->ways[0];
    set->ways[0] = hit;
    return &set->ways[0];
}

/* Stores what will be found again; does nothing when it is too long. */
void cache_insert(struct cache *c, const uint8_t *p, size_t bytes, const int32_t *ids, size_t n);
void cache_insert_noted(struct cache *c, const uint8_t *p, size_t bytes, const int32_t *ids,
                        size_t n, uint16_t note);
/* Pretokens that cache_find cannot hold. */
const struct cache_long *cache_find_long(const struct cache *c, const uint8_t *p, size_t bytes);

#endif
