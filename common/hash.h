/* SPDX-License-Identifier: Apache-2.0
 * Checksums and fingerprints: XXH3-64 and XXH3-128 (seed 0). They detect accidents, not tampering.
 * The formats of docs/formats/ name them, so their output is frozen (xxHash >= 0.8.0). */
#ifndef COMMON_HASH_H
#define COMMON_HASH_H

#include "common/error.h"
#include "common/str.h"

typedef struct {
    uint64_t lo, hi;
} hash128;

enum { HASH_HEX_LEN = 32 };

uint64_t hash64(const void *data, size_t n);
hash128 hash128_of(const void *data, size_t n);

/* Streaming 128-bit hash; equals hash128_of over the concatenation. */
struct hasher;
FT_NODISCARD ft_status hasher_create(struct hasher **out, ft_error *err);
void hasher_update(struct hasher *h, const void *data, size_t n);
/* Feeds the length first, so that ("ab","c") and ("a","bc") differ. */
void hasher_field(struct hasher *h, str s);
hash128 hasher_digest(const struct hasher *h);
void hasher_destroy(struct hasher *h);

bool hash128_eq(hash128 a, hash128 b);
/* 32 lower-case hex digits, high half first (the order the xxh128sum tool prints), and a NUL. */
void hash128_hex(char dst[HASH_HEX_LEN + 1], hash128 h);
FT_NODISCARD bool hash128_parse(hash128 *out, str hex);

#endif
