/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/visible.h"

/* Marks that reorder what stands around them (Unicode bidirectional algorithm). */
static bool turns_direction(uint32_t c)
{
    return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E ||
           c == 0x200F || c == 0x061C;
}

static bool is_control(uint32_t c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
}

/* Bytes of the character at the start of s; 0 when it is none. */
static size_t next_char(uint32_t *c, str s)
{
    size_t n;
    str window = str_sub(s, 0, FT_MIN(s.len, (size_t)4));
    if (str_utf8_invalid_at(window) == 0)
        return 0;
    *c = str_utf8_next(window, &n);
    return n;
}

static const char *entity(uint32_t c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void put_bytes(struct buf *out, str s)
{
    for (size_t i = 0; i < s.len; i++)
        buf_printf(out, "\\x%02x", (unsigned char)s.ptr[i]);
}

static void put(struct buf *out, str s, bool html)
{
    while (s.len > 0) {
        uint32_t c = 0;
        size_t n = next_char(&c, s);
        if (n == 0 || is_control(c))
            put_bytes(out, str_sub(s, 0, FT_MAX(n, (size_t)1)));
        else if (turns_direction(c))
            buf_printf(out, "\\u%04x", c);
        else if (html && entity(c) != NULL)
            buf_cstr(out, entity(c));
        else
            buf_append(out, s.ptr, n);
        s = str_sub(s, FT_MAX(n, (size_t)1), s.len);
    }
}

void visible_text(struct buf *out, str s)
{
    put(out, s, false);
}

void visible_html(struct buf *out, str s)
{
    put(out, s, true);
}
