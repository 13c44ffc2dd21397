/* SPDX-License-Identifier: Apache-2.0
 * Test-only countdown faults. Built with -DFT_FAULT_HOOKS (config=debug|asan), a program started
 * with FT_FAULT=alloc:17 fails its 17th allocation and every later one; likewise read, write.
 * In a release build the checks are the constant false. */
#ifndef COMMON_FAULT_H
#define COMMON_FAULT_H

#include "common/base.h"

enum fault_kind { FAULT_ALLOC, FAULT_READ, FAULT_WRITE, FAULT_KINDS };

#ifdef FT_FAULT_HOOKS
/* Reads FT_FAULT once; called first in main(). */
void fault_init_from_env(void);
/* True when this call is to fail. Thread-safe. */
bool fault_hit(enum fault_kind kind);
#else
static inline void fault_init_from_env(void)
{
}
static inline bool fault_hit(enum fault_kind kind)
{
    (void)kind;
    return false;
}
#endif

#endif
