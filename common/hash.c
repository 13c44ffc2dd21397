/* SPDX-License-Identifier: Apache-2.0
 * The only file that includes xxHash. */
#include "common/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h> /* the same functions, in the best instruction set of the machine */
#endif

uint64_t hash64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

hash128 hash128_of(const void *data, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(data, n);
    return (hash128){h.low64, h.high64};
}

/* XXH3's state is over-aligned, so it stays in the block that xxHash allocates for it, and the
 * opaque handle is that block. */
ft_status hasher_create(struct hasher **out, ft_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    *out = (struct hasher *)(void *)state;
    if (state == NULL)
        return ft_fail_memory(err, 512, "a hash state");
    XXH3_128bits_reset(state);
    return FT_OK;
}

void hasher_update(struct hasher *h, const void *data, size_t n)
{
    XXH3_128bits_update((XXH3_state_t *)(void *)h, data, n);
}

void hasher_field(struct hasher *h, str s)
{
    uint8_t length[8];
    store_u64le(length, s.len);
    hasher_update(h, length, sizeof length);
    hasher_update(h, s.ptr, s.len);
}

hash128 hasher_digest(const struct hasher *h)
{
    XXH128_hash_t d = XXH3_128bits_digest((const XXH3_state_t *)(const void *)h);
    return (hash128){d.low64, d.high64};
}

void hasher_destroy(struct hasher *h)
{
    XXH3_freeState((XXH3_state_t *)(void *)h);
}

bool hash128_eq(hash128 a, hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

void hash128_hex(char dst[HASH_HEX_LEN + 1], hash128 h)
{
    snprintf(dst, HASH_HEX_LEN + 1, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
}

bool hash128_parse(hash128 *out, str hex)
{
    uint64_t half[2] = {0, 0};
    if (hex.len != HASH_HEX_LEN)
        return false;
    for (size_t i = 0; i < HASH_HEX_LEN; i++) {
        char c = hex.ptr[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 16;
        if (digit == 16)
            return false;
        half[i / 16] = half[i / 16] << 4 | digit;
    }
    *out = (hash128){half[1], half[0]};
    return true;
}
