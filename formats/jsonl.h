/* SPDX-License-Identifier: Apache-2.0
 * Rows of a JSON Lines file or of one JSON array, streamed: memory is bounded by the largest row.
 * The form is recognised from the content. Only row borders are found here; json_parse reads a row.
 * A file can be cut into pieces at row borders while it is read, and a piece read by itself later.
 */
#ifndef FORMATS_JSONL_H
#define FORMATS_JSONL_H

#include "formats/input.h"

enum { JSONL_MAX_ROW = 256 << 20 };

enum jsonl_form {
    JSONL_UNKNOWN, /* not recognised yet: the start of a file */
    JSONL_LINES,
    JSONL_ARRAY,
};
extern const char *const jsonl_form_names[JSONL_ARRAY + 1];

struct jsonl;

struct jsonl_row {
    str text;        /* without surrounding white space; valid until the next call */
    uint64_t row;    /* counted from 0 */
    uint64_t line;   /* of its first byte, counted from 1 */
    uint64_t offset; /* of its first byte in the (decompressed) file */
};

/* Bytes [from, to) of the decompressed file: everything that is needed to read them alone. */
struct jsonl_piece {
    uint64_t from, to;
    uint64_t row, line; /* of the first byte */
    uint64_t n_rows;
    enum jsonl_form form; /* JSONL_UNKNOWN when from is 0 */
    hash128 hash;         /* XXH3-128 of the bytes */
};

/* max_row bounds the bytes of one row. */
FT_NODISCARD ft_status jsonl_open(struct jsonl **out, const char *path, size_t max_row,
                                  ft_error *err);
/* As above, for one piece of a file that may have others. A compressed file is one piece. */
FT_NODISCARD ft_status jsonl_open_piece(struct jsonl **out, const char *path,
                                        const struct jsonl_piece *piece, size_t max_row,
                                        ft_error *err);
void jsonl_close(struct jsonl *r); /* NULL is fine */

/* The next row; *more is false, with FT_OK, at the proper end of the file. Messages name the file,
 * the byte and the row:
 *   FT_EFORMAT  the borders of rows cannot be found (array not closed, missing comma, UTF-16, ...)
 *   FT_ELIMIT   a row is larger than max_row */
FT_NODISCARD ft_status jsonl_next(struct jsonl_row *out, bool *more, struct jsonl *r,
                                  ft_error *err);

/* Bytes behind the last cut up to the end of the last row. */
uint64_t jsonl_piece_bytes(const struct jsonl *r);
/* Describes what was read since the last cut, and cuts behind the last row. */
FT_NODISCARD ft_status jsonl_cut(struct jsonl_piece *out, struct jsonl *r, ft_error *err);

/* The file itself, for its kind, bytes and hash. */
struct input *jsonl_input(struct jsonl *r);

#endif
