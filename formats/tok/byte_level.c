/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/byte_level.h"

#include <string.h>

static bool stands_for_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

int byte_level_byte(uint32_t c)
{
    if (stands_for_itself(c))
        return (int)c;
    /* U+0100 + k is the k-th byte that does not stand for itself: 00-20, 7F-A0, AD. */
    uint32_t k = c - 0x100;
    if (c < 0x100 || k > 67)
        return -1;
    if (k <= 0x20)
        return (int)k;
    return k < 67 ? (int)(k - 0x21 + 0x7F) : 0xAD;
}

bool byte_level_spells(str piece)
{
    size_t length;
    for (size_t i = 0; i < piece.len; i += length)
        if (byte_level_byte(str_utf8_next(str_sub(piece, i, piece.len), &length)) < 0)
            return false;
    return true;
}

size_t byte_level_decode(char *dst, str piece)
{
    size_t n = 0, length;
    for (size_t i = 0; i < piece.len; i += length) {
        int byte = byte_level_byte(str_utf8_next(str_sub(piece, i, piece.len), &length));
        if (byte < 0) {
            memcpy(dst, piece.ptr, piece.len);
            return piece.len;
        }
        dst[n++] = (char)byte;
    }
    return n;
}
