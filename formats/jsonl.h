/* SPDX-License-Identifier: Apache-2.0
 * Rows of a JSON Lines file or of one JSON array, streamed: memory is bounded by the largest row.
 * The form is recognised from the content. Only row borders are found here; json_parse reads a row.
 */
#ifndef FORMATS_JSONL_H
#define FORMATS_JSONL_H

#include "common/hash.h"

enum { JSONL_MAX_ROW = 256 << 20 };

struct jsonl;

struct jsonl_row {
    str text;        /* without surrounding white space; valid until the next call */
    uint64_t row;    /* counted from 0 */
    uint64_t line;   /* of its first byte, counted from 1 */
    uint64_t offset; /* of its first byte in the file */
};

/* Reads regular files and pipes. max_row bounds the bytes of one row. */
FT_NODISCARD ft_status jsonl_open(struct jsonl **out, const char *path, size_t max_row,
                                  ft_error *err);
void jsonl_close(struct jsonl *r); /* NULL is fine */

/* The next row; *more is false, with FT_OK, at the proper end of the file. Messages name the file,
 * the byte and the row:
 *   FT_EFORMAT  the borders of rows cannot be found (array not closed, missing comma, UTF-16, ...)
 *   FT_ELIMIT   a row is larger than max_row */
FT_NODISCARD ft_status jsonl_next(struct jsonl_row *out, bool *more, struct jsonl *r,
                                  ft_error *err);

uint64_t jsonl_bytes(const struct jsonl *r); /* read so far */
hash128 jsonl_hash(const struct jsonl *r);   /* XXH3-128 of what was read so far */

#endif
