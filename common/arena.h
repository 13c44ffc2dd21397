/* SPDX-License-Identifier: Apache-2.0
 * Chained bump allocator: everything parsed from one file lives and dies together. */
#ifndef COMMON_ARENA_H
#define COMMON_ARENA_H

#include "common/str.h"

struct arena {
    struct arena_chunk *head; /* newest chunk; NULL when empty: a zeroed arena is valid */
    size_t used;              /* bytes handed out, for reports */
};

/* Zeroed, 16-byte aligned; NULL on overflow or exhaustion. Valid until arena_destroy. */
void *arena_alloc(struct arena *a, size_t count, size_t size);
/* Copies of bytes with a terminating NUL (not counted in .len); .ptr NULL on exhaustion. */
str arena_str(struct arena *a, str s);
const char *arena_cstr(struct arena *a, str s);
void arena_destroy(struct arena *a); /* leaves a valid empty arena */

#endif
