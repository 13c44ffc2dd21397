/* SPDX-License-Identifier: Apache-2.0
 * The bytes of an input file in one pass: plain, gzip or zstd, told apart by the first bytes, never
 * by the name. Reads regular files and pipes. Memory: two windows of 256 KiB, and what a zstd frame
 * asks for (at most 128 MiB). */
#ifndef FORMATS_INPUT_H
#define FORMATS_INPUT_H

#include "common/hash.h"

enum input_kind { INPUT_PLAIN, INPUT_GZIP, INPUT_ZSTD };

struct input;

/* Opens and looks at the first bytes. */
FT_NODISCARD ft_status input_open(struct input **out, const char *path, ft_error *err);
void input_close(struct input *in); /* NULL is fine */
enum input_kind input_kind(const struct input *in);
const char *input_path(const struct input *in);

/* 1 to cap bytes into dst; 0 only at the proper end. Messages name the file and the byte. */
FT_NODISCARD ft_status input_read(size_t *n, struct input *in, void *dst, size_t cap,
                                  ft_error *err);
/* Goes to a byte of a plain regular file, before the first read. input_hash then means nothing. */
FT_NODISCARD ft_status input_seek(struct input *in, uint64_t offset, ft_error *err);
/* Reads what is left without giving it out, so that size and hash are those of the file. */
FT_NODISCARD ft_status input_drain(struct input *in, ft_error *err);

uint64_t input_bytes(const struct input *in); /* of the file as stored, read so far */
hash128 input_hash(const struct input *in);   /* XXH3-128 of these bytes */

#endif
