/* SPDX-License-Identifier: Apache-2.0
 * Which instruction sets the machine has, decided once at run time. One binary serves every x86-64;
 * other machines use the portable code. */
#ifndef COMMON_CPU_H
#define COMMON_CPU_H

/* Each includes those before it, so code asks for `tier >= CPU_AVX2`. */
enum cpu_tier { CPU_PORTABLE, CPU_AVX2, CPU_AVX512, CPU_AMX, CPU_TIERS };

/* The best tier of this machine, or the lower one set by cpu_tier_limit or by the environment's
 * FT_CPU=portable|avx2|avx512|amx. AVX2 includes FMA and F16C; AVX512 means F, BW, DQ and VL; AMX
 * means tiles with bf16 products, and that the system lets this process use them. */
enum cpu_tier cpu_tier(void);
/* Caps the tier for the whole process (tests run every tier). Call before any other thread. */
void cpu_tier_limit(enum cpu_tier max);
const char *cpu_tier_name(enum cpu_tier tier);
/* Processors this process may run on. */
int cpu_count(void);

#endif
