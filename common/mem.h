/* SPDX-License-Identifier: Apache-2.0
 * Heap allocation with overflow-checked (count, size) and the fault hook. All memory of the
 * programs comes from here (or from mmap in common/file.h). */
#ifndef COMMON_MEM_H
#define COMMON_MEM_H

#include "common/error.h"

/* Zeroed memory for count * size bytes; NULL on overflow or exhaustion. count * size == 0 gives a
 * unique pointer. Release with mem_free. */
void *mem_alloc(size_t count, size_t size);

/* As mem_alloc, but reports failure in err: `FT_TRY(mem_new(&p, n, sizeof *p, "index", err))`.
 * out is a pointer to the pointer. */
FT_NODISCARD ft_status mem_new(void *out, size_t count, size_t size, const char *what,
                               ft_error *err);

/* Not zeroed, 64-byte aligned, for numeric buffers. NULL on exhaustion. Release with mem_free. */
void *mem_alloc_aligned(size_t bytes);

/* Grows or shrinks; new bytes are not zeroed. On NULL the old block is still valid. */
void *mem_realloc(void *p, size_t count, size_t size);

char *mem_strdup(const char *s); /* NULL on exhaustion */
void mem_free(void *p);

/* Bytes that the process may still take without being killed: the smaller of the machine's
 * available memory and the room under the cgroup limit. 0 when unknown. */
uint64_t mem_available(void);
/* Peak resident set of this process, bytes. 0 when unknown. */
uint64_t mem_peak_rss(void);

#endif
