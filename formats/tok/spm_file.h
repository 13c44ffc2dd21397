/* SPDX-License-Identifier: Apache-2.0
 * The SentencePiece .model file: a protocol buffer that holds the pieces, how they were trained and
 * how text is normalised. Only what decides ids and decoded text is kept. */
#ifndef FORMATS_TOK_SPM_FILE_H
#define FORMATS_TOK_SPM_FILE_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/error.h"

enum spm_model_type { SPM_UNIGRAM = 1, SPM_BPE = 2, SPM_WORD = 3, SPM_CHAR = 4 };

enum spm_piece_type {
    SPM_NORMAL = 1,
    SPM_UNKNOWN = 2,
    SPM_CONTROL = 3,      /* never matched in text */
    SPM_USER_DEFINED = 4, /* always one token where it stands in text */
    SPM_UNUSED = 5,       /* may appear while merging, never in the result */
    SPM_BYTE = 6,         /* "<0xHH>" */
};

struct spm_piece {
    str text; /* valid UTF-8, not empty, borrowed from the file */
    float score;
    enum spm_piece_type type;
};

struct spm_normalizer_spec {
    str name;
    str charsmap; /* see charsmap.h; empty = none */
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
};

/* An example that the trainer left in the file: the pieces of `output` joined by spaces. */
struct spm_self_test {
    str input, output;
};

struct spm_file {
    struct spm_piece *pieces; /* [n_pieces], by id */
    size_t n_pieces;
    enum spm_model_type model_type;
    bool byte_fallback, treat_whitespace_as_suffix;
    str unk_piece, bos_piece, eos_piece, pad_piece;
    str unk_surface; /* what the unknown piece decodes to */
    struct spm_normalizer_spec normalizer, denormalizer;
    struct spm_self_test *tests; /* [n_tests] */
    size_t n_tests;
};

enum { SPM_MAX_FILE_BYTES = 128 << 20, SPM_MAX_PIECES = 1 << 21, SPM_MAX_PIECE_BYTES = 4000 };

/* Reads the message. Strings point into bytes, arrays are in the arena. Messages name the field and
 * the byte; the caller adds the file. What is read is well-formed by itself: whether it makes a
 * tokenizer is for spm_create to say. */
FT_NODISCARD ft_status spm_file_parse(struct spm_file *out, struct arena *a, str bytes,
                                      ft_error *err);
/* The same contents as such a file, in one fixed order: equal contents give equal bytes. Without
 * the self tests. */
void spm_file_write(struct buf *out, const struct spm_file *file);
/* Whether bytes begin as such a file does: with a piece of plausible length. */
bool spm_file_looks_like(str bytes);

#endif
