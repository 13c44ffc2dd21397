/* SPDX-License-Identifier: Apache-2.0
 * Counter-based random numbers: every value is a pure function of (key, stream, counter), so any
 * rank, thread or device draws the same ones in any order. Philox4x32-10 (Salmon, Moraes, Dror,
 * Shaw: Parallel random numbers: as easy as 1, 2, 3; SC'11). Inline and dependency-free so that
 * device code can share it. */
#ifndef COMMON_RNG_H
#define COMMON_RNG_H

#include <stdint.h>

struct rng_block {
    uint32_t v[4];
};

static inline struct rng_block rng_block_at(uint64_t key, uint64_t stream, uint64_t counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct rng_block b = {{c0, c1, c2, c3}};
    return b;
}

static inline uint64_t rng_u64(uint64_t key, uint64_t stream, uint64_t counter)
{
    struct rng_block b = rng_block_at(key, stream, counter);
    return (uint64_t)b.v[1] << 32 | b.v[0];
}

/* [0, 1) with 53 random bits. */
static inline double rng_unit(uint64_t key, uint64_t stream, uint64_t counter)
{
    return (double)(rng_u64(key, stream, counter) >> 11) * 0x1p-53;
}

/* Image of i under a keyed permutation of [0, n), 0 <= i < n, computed in O(1) memory and expected
 * O(1) time: a four-round Feistel network on the smallest even number of bits that covers n,
 * walked until it lands inside (Black, Rogaway: Ciphers with arbitrary finite domains, 2002). */
uint64_t rng_permute(uint64_t key, uint64_t stream, uint64_t n, uint64_t i);
/* The i whose image is j. */
uint64_t rng_permute_inverse(uint64_t key, uint64_t stream, uint64_t n, uint64_t j);

#endif
