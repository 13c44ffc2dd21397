/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "common/cpu.h"

#include <sched.h>
#include <stdatomic.h>

static atomic_int tier_limit = CPU_TIERS;

enum cpu_tier cpu_tier(void)
{
    int best = CPU_PORTABLE;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        best = CPU_AVX2;
    if (best == CPU_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        best = CPU_AVX512;
#endif
    int limit = atomic_load_explicit(&tier_limit, memory_order_relaxed);
    return best < limit ? (enum cpu_tier)best : (enum cpu_tier)limit;
}

void cpu_tier_limit(enum cpu_tier max)
{
    atomic_store(&tier_limit, max);
}

const char *cpu_tier_name(enum cpu_tier tier)
{
    static const char *const names[] = {"portable", "avx2", "avx512"};
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
