/* SPDX-License-Identifier: Apache-2.0
 * Growable byte buffer. A failed growth is latched: later appends do nothing and buf_status()
 * reports FT_EMEM once at the end, so builders stay readable. */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include "common/error.h"
#include "common/str.h"

struct buf {
    uint8_t *data; /* owned; NULL when empty: a zeroed buf is valid */
    size_t len, cap;
    bool failed;
};

void buf_append(struct buf *b, const void *data, size_t n);
void buf_str(struct buf *b, str s);
void buf_cstr(struct buf *b, const char *s);
void buf_byte(struct buf *b, uint8_t v);
void buf_u32le(struct buf *b, uint32_t v);
void buf_u64le(struct buf *b, uint64_t v);
void buf_printf(struct buf *b, const char *fmt, ...) FT_PRINTF(2, 3);
/* Room for n more bytes at the end (b->len unchanged); NULL on exhaustion. */
void *buf_reserve(struct buf *b, size_t n);
void buf_pad(struct buf *b, size_t align); /* zero bytes up to a multiple of align */
void buf_clear(struct buf *b);             /* keeps the memory */
void buf_free(struct buf *b);              /* leaves a valid empty buffer */
str buf_view(const struct buf *b);         /* valid until the next append */
FT_NODISCARD ft_status buf_status(const struct buf *b, const char *what, ft_error *err);

#endif
