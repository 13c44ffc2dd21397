/* SPDX-License-Identifier: Apache-2.0
 * Attributes, small macros, the always-on assertion and overflow-checked size arithmetic. */
#ifndef COMMON_BASE_H
#define COMMON_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARRAY_LEN(a)         (sizeof(a) / sizeof((a)[0]))
#define FT_MIN(a, b)         ((a) < (b) ? (a) : (b))
#define FT_MAX(a, b)         ((a) > (b) ? (a) : (b))
#define FT_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define FT_NODISCARD         __attribute__((warn_unused_result))

/* For our own bugs only: a broken precondition or invariant. Never for file contents, options or
 * anything else that comes from outside (those return ft_status). Always compiled in. */
#define FT_ASSERT(cond) ((cond) ? (void)0 : ft_assert_fail(#cond, __FILE__, __LINE__))

_Noreturn void ft_assert_fail(const char *expr, const char *file, int line);

/* False on overflow; *out is then meaningless. */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* align must be a power of two. The caller has checked that n + align does not overflow. */
static inline size_t size_align(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

static inline uint16_t load_u16le(const void *p)
{
    const uint8_t *b = p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t load_u32le(const void *p)
{
    const uint8_t *b = p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t load_u64le(const void *p)
{
    return (uint64_t)load_u32le(p) | (uint64_t)load_u32le((const uint8_t *)p + 4) << 32;
}

static inline void store_u16le(void *p, uint16_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
}

static inline void store_u32le(void *p, uint32_t v)
{
    uint8_t *b = p;
    b[0] = (uint8_t)v;
    b[1] = (uint8_t)(v >> 8);
    b[2] = (uint8_t)(v >> 16);
    b[3] = (uint8_t)(v >> 24);
}

static inline void store_u64le(void *p, uint64_t v)
{
    store_u32le(p, (uint32_t)v);
    store_u32le((uint8_t *)p + 4, (uint32_t)(v >> 32));
}

#endif
