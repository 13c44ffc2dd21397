/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"

void *buf_reserve(struct buf *b, size_t n)
{
    size_t need;
    if (b->failed || !size_add(b->len, n, &need)) {
        b->failed = true;
        return NULL;
    }
    if (need > b->cap || b->data == NULL) {
        size_t cap = FT_MAX(FT_MAX(need, b->cap + b->cap / 2), (size_t)256);
        uint8_t *p = mem_realloc(b->data, cap, 1);
        if (p == NULL) {
            b->failed = true;
            return NULL;
        }
        b->data = p;
        b->cap = cap;
    }
    return b->data + b->len;
}

void buf_append(struct buf *b, const void *data, size_t n)
{
    void *dst = buf_reserve(b, n);
    if (dst == NULL || n == 0)
        return;
    memcpy(dst, data, n);
    b->len += n;
}

void buf_str(struct buf *b, str s)
{
    buf_append(b, s.ptr, s.len);
}

void buf_cstr(struct buf *b, const char *s)
{
    buf_append(b, s, strlen(s));
}

void buf_byte(struct buf *b, uint8_t v)
{
    buf_append(b, &v, 1);
}

void buf_u32le(struct buf *b, uint32_t v)
{
    uint8_t bytes[4];
    store_u32le(bytes, v);
    buf_append(b, bytes, sizeof bytes);
}

void buf_u64le(struct buf *b, uint64_t v)
{
    uint8_t bytes[8];
    store_u64le(bytes, v);
    buf_append(b, bytes, sizeof bytes);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    FT_ASSERT(n >= 0);
    char *dst = buf_reserve(b, (size_t)n + 1);
    if (dst != NULL) {
        vsnprintf(dst, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_pad(struct buf *b, size_t align)
{
    static const uint8_t zeros[256];
    FT_ASSERT(align <= sizeof zeros);
    buf_append(b, zeros, size_align(b->len, align) - b->len);
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
}

void buf_free(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){0};
}

str buf_view(const struct buf *b)
{
    return (str){(const char *)b->data, b->len};
}

ft_status buf_status(const struct buf *b, const char *what, ft_error *err)
{
    return b->failed ? ft_fail_memory(err, b->len, what) : FT_OK;
}
