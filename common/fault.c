/* SPDX-License-Identifier: Apache-2.0
 * Countdown faults (test builds only). */
#include "common/fault.h"

#ifdef FT_FAULT_HOOKS
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[FAULT_KINDS] = {"alloc", "read", "write"};
/* 0 = disarmed, n = the n-th call from now fails, negative = past the point: all fail. */
static atomic_long countdown[FAULT_KINDS];
static atomic_bool armed[FAULT_KINDS];

void fault_init_from_env(void)
{
    const char *spec = getenv("FT_FAULT");
    if (spec == NULL)
        return;
    for (int k = 0; k < FAULT_KINDS; k++) {
        size_t n = strlen(kind_names[k]);
        if (strncmp(spec, kind_names[k], n) == 0 && spec[n] == ':') {
            atomic_store(&countdown[k], strtol(spec + n + 1, NULL, 10));
            atomic_store(&armed[k], true);
            return;
        }
    }
    fprintf(stderr, "FT_FAULT=%s: expected alloc:N, read:N or write:N\n", spec);
    exit(2);
}

bool fault_hit(enum fault_kind kind)
{
    if (!atomic_load_explicit(&armed[kind], memory_order_relaxed))
        return false;
    return atomic_fetch_sub(&countdown[kind], 1) <= 1;
}
#else
typedef int fault_translation_unit_is_not_empty;
#endif
