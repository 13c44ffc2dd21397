/* SPDX-License-Identifier: Apache-2.0
 * Decoders: what becomes of the pieces of vocabulary when ids turn into text again. All that is
 * done to each piece alone is done once, at load time. */
#ifndef FORMATS_TOK_DECODE_H
#define FORMATS_TOK_DECODE_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/error.h"

enum decode_kind {
    DECODE_BYTE_LEVEL,    /* characters of the byte-level alphabet are bytes */
    DECODE_REPLACE,       /* the text `pattern` becomes `content` */
    DECODE_BYTE_FALLBACK, /* <0x41> is a byte */
    DECODE_FUSE,          /* what follows sees the whole text */
    DECODE_STRIP,         /* up to `n` times content at the start */
    DECODE_METASPACE,     /* marks become spaces; flag: those of the first piece vanish */
    DECODE_KINDS,
};

/* The kinds are numbers in blobs: new ones go to the end. */
struct decode_step {
    enum decode_kind kind;
    unsigned n; /* of STRIP, flag of METASPACE */
    str pattern, content;
};

struct decoder {
    const struct decode_step *steps; /* [n] borrowed */
    size_t n;
    bool drop_first_marks; /* marks of the first piece vanish */
    str strip;             /* taken off the start of the whole text up to n_strip times */
    unsigned n_strip;
};

FT_NODISCARD ft_status decoder_init(struct decoder *out, const struct decode_step *steps, size_t n,
                                    ft_error *err);
/* Appends what a piece of vocabulary becomes. */
void decoder_piece(struct buf *out, const struct decoder *d, str piece);

/* The byte of a piece such as <0x41>, or -1. */
int decode_byte_piece(str piece);

#endif
