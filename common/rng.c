/* SPDX-License-Identifier: Apache-2.0 */
#include "common/rng.h"

#include "common/base.h"

uint64_t rng_permute(uint64_t key, uint64_t stream, uint64_t n, uint64_t i)
{
    FT_ASSERT(i < n && n <= (uint64_t)1 << 62);
    unsigned half_bits = 1;
    while (((uint64_t)1 << (2 * half_bits)) < n)
        half_bits++;
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
