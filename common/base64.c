/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base64.h"

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters, the last `padding` of which are '='. */
static bool decode_group(struct buf *out, const char *p, unsigned padding)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < 4; i++) {
        int v = i < 4 - padding ? value_of(p[i]) : 0;
        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
    }
    if (bits & ((1u << 8 * padding) - 1))
        return false;
    for (unsigned i = 0; i < 3 - padding; i++)
        buf_byte(out, (uint8_t)(bits >> (16 - 8 * i)));
    return true;
}

bool base64_decode(struct buf *out, str text)
{
    if (text.len % 4 != 0)
        return false;
    for (size_t i = 0; i < text.len; i += 4) {
        const char *p = text.ptr + i;
        bool last = i + 4 == text.len;
        unsigned padding = !last || p[3] != '=' ? 0 : p[2] == '=' ? 2 : 1;
        if (!decode_group(out, p, padding))
            return false;
    }
    return true;
}

void base64_write(struct buf *out, str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = FT_MIN(bytes.len - i, (size_t)3);
        uint32_t v = (uint32_t)(uint8_t)bytes.ptr[i] << 16;
        v |= n > 1 ? (uint32_t)(uint8_t)bytes.ptr[i + 1] << 8 : 0;
        v |= n > 2 ? (uint8_t)bytes.ptr[i + 2] : 0;
        buf_byte(out, (uint8_t)digits[v >> 18]);
        buf_byte(out, (uint8_t)digits[v >> 12 & 63]);
        buf_byte(out, n > 1 ? (uint8_t)digits[v >> 6 & 63] : '=');
        buf_byte(out, n > 2 ? (uint8_t)digits[v & 63] : '=');
    }
}
