/* SPDX-License-Identifier: Apache-2.0 */
#include "common/rng.h"

#include "common/base.h"

static unsigned half_bits_of(uint64_t n)
{
    unsigned half_bits = 1;
    while (((uint64_t)1 << (2 * half_bits)) < n)
        half_bits++;
    return half_bits;
}

uint64_t rng_permute(uint64_t key, uint64_t stream, uint64_t n, uint64_t i)
{
    FT_ASSERT(i < n && n <= (uint64_t)1 << 62);
    unsigned half_bits = half_bits_of(n);
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    do {
        uint64_t left = i >> half_bits, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = left ^ (rng_u64(key, stream, round << 62 | right) & mask);
            left = right;
            right = mixed;
        }
        i = left << half_bits | right;
    } while (i >= n);
    return i;
}

uint64_t rng_permute_inverse(uint64_t key, uint64_t stream, uint64_t n, uint64_t j)
{
    FT_ASSERT(j < n && n <= (uint64_t)1 << 62);
    unsigned half_bits = half_bits_of(n);
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    do {
        uint64_t left = j >> half_bits, right = j & mask;
        for (uint64_t round = 4; round-- > 0;) {
            uint64_t unmixed = right ^ (rng_u64(key, stream, round << 62 | left) & mask);
            right = left;
            left = unmixed;
        }
        j = left << half_bits | right;
    } while (j >= n);
    return j;
}
