/* SPDX-License-Identifier: Apache-2.0
 * The byte-level alphabet: every byte has one printable character, so that vocabularies can be
 * written as text. Printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on.
 */
#ifndef FORMATS_TOK_BYTE_LEVEL_H
#define FORMATS_TOK_BYTE_LEVEL_H

#include "common/str.h"

/* The byte of a character, or -1. */
int byte_level_byte(uint32_t code_point);
/* Whether all characters of a piece belong to the alphabet. */
bool byte_level_spells(str piece);
/* Bytes that a piece of vocabulary stands for: those of its characters when all belong to the
 * alphabet, else the piece itself. dst holds piece.len bytes; returns how many are used. */
size_t byte_level_decode(char *dst, str piece);

#endif
