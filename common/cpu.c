/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "common/cpu.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const names[CPU_TIERS] = {"portable", "avx2", "avx512", "amx"};
static atomic_int tier_limit = CPU_TIERS;
static atomic_int found = -1; /* -1: not looked yet */

#if defined(__x86_64__)
/* The state of the tiles is 8 KiB in every thread, so Linux gives it only to processes that ask. */
static bool amx_usable(void)
{
    enum { BF16 = 1 << 22, TILE = 1 << 24, REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (BF16 | TILE)) != (BF16 | TILE))
        return false;
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}

static enum cpu_tier best_tier(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return CPU_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return CPU_AVX2;
    return amx_usable() ? CPU_AMX : CPU_AVX512;
}
#else
static enum cpu_tier best_tier(void)
{
    return CPU_PORTABLE;
}
#endif

/* What FT_CPU allows. */
static enum cpu_tier allowed_tier(void)
{
    const char *name = getenv("FT_CPU");
    for (int t = 0; name != NULL && t < CPU_TIERS; t++)
        if (strcmp(name, names[t]) == 0)
            return (enum cpu_tier)t;
    if (name != NULL && *name != '\0')
        log_warn("FT_CPU=%s is ignored, expected portable, avx2, avx512 or amx", name);
    return CPU_TIERS;
}

/* Threads that come here at once find the same. */
static int find_tier(void)
{
    enum cpu_tier best = best_tier(), allowed = allowed_tier();
    int tier = best < allowed ? (int)best : (int)allowed;
    atomic_store_explicit(&found, tier, memory_order_relaxed);
    return tier;
}

enum cpu_tier cpu_tier(void)
{
    int tier = atomic_load_explicit(&found, memory_order_relaxed);
    int limit = atomic_load_explicit(&tier_limit, memory_order_relaxed);
    if (tier < 0)
        tier = find_tier();
    return tier < limit ? (enum cpu_tier)tier : (enum cpu_tier)limit;
}

void cpu_tier_limit(enum cpu_tier max)
{
    atomic_store(&tier_limit, max);
}

const char *cpu_tier_name(enum cpu_tier tier)
{
    return names[tier];
}

int cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}
