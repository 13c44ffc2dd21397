/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/decode.h"

#include <string.h>

#include "common/str.h"

static const char MARK[] = "\xE2\x96\x81";

ft_status decoder_init(struct decoder *out, const struct decode_step *steps, size_t n,
                       ft_error *err)
{
    bool bytes = false, fused = false;
    *out = (struct decoder){.steps = steps, .n = n};
    for (size_t i = 0; i < n; i++) {
        const struct decode_step *s = &steps[i];
        if (s->kind == DECODE_STRIP &&
            (s->content.len != 1 || (fused && out->n_strip > 0) || s->n == 0))
            return ft_fail(err, FT_EFORMAT,
                           "the decoder Strip is supported once, for one ASCII "
                           "character at the start");
        if ((s->kind == DECODE_REPLACE && s->pattern.len == 0) ||
            (bytes && s->kind != DECODE_FUSE && s->kind != DECODE_STRIP) ||
            (fused && s->kind != DECODE_STRIP && s->kind != DECODE_FUSE))
            return ft_fail(err, FT_EFORMAT, "this order of decoders is not supported");
        if (fused && s->kind == DECODE_STRIP) {
            out->strip = s->content;
            out->n_strip = s->n;
        }
        out->drop_first_marks |= s->kind == DECODE_METASPACE && s->n != 0;
        bytes |= s->kind == DECODE_BYTE_FALLBACK;
        fused |= s->kind == DECODE_FUSE;
    }
    return FT_OK;
}

static void put_replaced(struct buf *out, str s, str pattern, str content)
{
    size_t at;
    while ((at = str_find(s, pattern)) < s.len) {
        buf_append(out, s.ptr, at);
        buf_str(out, content);
        s = str_sub(s, at + pattern.len, s.len);
    }
    buf_str(out, s);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
        return (c | 0x20) - 'a' + 10;
    return -1;
}

int decode_byte_piece(str piece)
{
    if (piece.len != 6 || !str_starts(piece, STR("<0x")) || piece.ptr[5] != '>')
        return -1;
    /* The reference reads the number with a function that accepts a sign. */
    int high = piece.ptr[3] == '+' ? 0 : hex_digit(piece.ptr[3]), low = hex_digit(piece.ptr[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* One step on the piece in `from`, its result in `to`. */
static void apply(struct buf *to, const struct decode_step *s, str from)
{
    int byte = s->kind == DECODE_BYTE_FALLBACK ? decode_byte_piece(from) : -1;
    if (byte >= 0) {
        buf_byte(to, (uint8_t)byte);
        return;
    }
    if (s->kind == DECODE_REPLACE)
        put_replaced(to, from, s->pattern, s->content);
    else if (s->kind == DECODE_METASPACE)
        put_replaced(to, from, STR(MARK), STR(" "));
    else if (s->kind == DECODE_STRIP) {
        size_t n = 0;
        while (n < from.len && n < s->n && from.ptr[n] == s->content.ptr[0])
            n++;
        buf_str(to, str_sub(from, n, from.len));
    } else
        buf_str(to, from);
}

void decoder_piece(struct buf *out, const struct decoder *d, str piece)
{
    struct buf now = {0}, next = {0};
    buf_str(&now, piece);
    for (size_t i = 0; i < d->n && d->steps[i].kind != DECODE_FUSE; i++) {
        buf_clear(&next);
        apply(&next, &d->steps[i], buf_view(&now));
        struct buf swap = now;
        now = next;
        next = swap;
    }
    buf_str(out, buf_view(&now));
    out->failed |= now.failed | next.failed;
    buf_free(&now);
    buf_free(&next);
}
