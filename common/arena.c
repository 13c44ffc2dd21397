/* SPDX-License-Identifier: Apache-2.0
 * Bump allocator in chunks of at least 64 KiB. */
#include "common/arena.h"

#include <string.h>

#include "common/mem.h"

enum { CHUNK_BYTES = 64 * 1024, ALIGN = 16 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t len, cap;
    _Alignas(ALIGN) uint8_t data[];
};

void *arena_alloc(struct arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!size_mul(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = size_align(bytes == 0 ? 1 : bytes, ALIGN);
    if (a->head == NULL || a->head->cap - a->head->len < bytes) {
        size_t cap = FT_MAX(bytes, (size_t)CHUNK_BYTES);
        struct arena_chunk *c = mem_alloc(1, sizeof *c + cap);
        if (c == NULL)
            return NULL;
        c->cap = cap;
        c->next = a->head;
        a->head = c;
    }
    void *p = a->head->data + a->head->len;
    a->head->len += bytes;
    a->used += bytes;
    return p;
}

str arena_str(struct arena *a, str s)
{
    char *p = s.len < SIZE_MAX ? arena_alloc(a, s.len + 1, 1) : NULL;
    if (p != NULL && s.len > 0)
        memcpy(p, s.ptr, s.len);
    return (str){p, p == NULL ? 0 : s.len};
}

const char *arena_cstr(struct arena *a, str s)
{
    return arena_str(a, s).ptr;
}

void arena_destroy(struct arena *a)
{
    while (a->head != NULL) {
        struct arena_chunk *next = a->head->next;
        mem_free(a->head);
        a->head = next;
    }
    a->used = 0;
}
