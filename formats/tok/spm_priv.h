/* SPDX-License-Identifier: Apache-2.0
 * The parts of a SentencePiece model. Inside, the space mark U+2581 is the byte 0x20 when the model
 * escapes spaces, as all but a few do: then no other space is left in normalised text, and most
 * text is its own normal form. */
#ifndef FORMATS_TOK_SPM_PRIV_H
#define FORMATS_TOK_SPM_PRIV_H

#include "formats/tok/bpe.h"
#include "formats/tok/charsmap.h"
#include "formats/tok/spm.h"
#include "formats/tok/spm_cut.h"
#include "formats/tok/spm_trie.h"
#include "formats/tok/unigram.h"

#define SPM_SPACE_MARK STR("\xE2\x96\x81")

/* Strings that are matched before anything else. */
struct spm_symbols {
    struct spm_trie trie;
    bool starts[256]; /* some begins with this byte */
    bool any;
};

/* What to do with a byte when an ASCII byte or the end of the text follows. */
enum spm_byte_kind {
    SPM_LOOK, /* something may begin with it */
    SPM_COPY,
    SPM_JOIN, /* a space: copied unless it follows another */
};

struct spm_normalizer {
    struct charsmap rules; /* .units NULL = none */
    struct spm_symbols user;
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, space_is_suffix;
    uint8_t kind[256]; /* enum spm_byte_kind */
    bool identity;     /* all text without a space mark is copied */
};

/* How a piece of type UNUSED is taken apart again. */
struct spm_split {
    int32_t left, right; /* symbols; left -1 = it is one character */
};

struct spm_bpe {
    struct bpe merges;
    /* Code point to symbol: pages of 256, those of no use all page 0. Symbols are ids of pieces,
     * numbers from n_vocab on for characters that only occur in pieces, and `other`. */
    uint16_t *page;
    int32_t *symbols;
    int32_t other;            /* a character that occurs in no piece */
    struct spm_split *splits; /* [n_vocab], NULL when no piece is UNUSED */
};

struct spm {
    struct arena arena;
    struct spm_file file; /* strings in the arena */
    int32_t n_vocab, unk, bos, eos;
    str *texts; /* [n_vocab] as they occur in normalised text; .len 0 = cannot occur */
    struct spm_normalizer normalizer;
    struct spm_symbols user; /* in normalised text */
    struct spm_cut cut;
    struct spm_bpe bpe;     /* BPE and characters */
    struct unigram unigram; /* unigram */
    int32_t byte_ids[256];  /* with byte fallback */
    uint16_t *lengths;      /* [n_vocab] bytes of normalised text, see spm_encode.c */
    bool space_known;       /* the space mark is a piece */
    str *decoded;           /* [n_vocab] with spaces for space marks */
};

/* A piece that text can become, alone or on the way to it. */
static inline bool spm_in_text(enum spm_piece_type type)
{
    return type == SPM_NORMAL || type == SPM_USER_DEFINED || type == SPM_UNUSED;
}

/* Bytes of the character that starts with `lead`, in valid UTF-8. */
static inline size_t spm_char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* keys in the order of ids. */
FT_NODISCARD ft_status spm_symbols_init(struct spm_symbols *s, struct arena *a, const str *texts,
                                        const struct spm_piece *pieces, size_t n, ft_error *err);

FT_NODISCARD ft_status spm_normalizer_init(struct spm_normalizer *n, struct arena *a,
                                           const struct spm_file *file, ft_error *err);

/* Normalised text. */
struct spm_text {
    uint8_t *bytes;
    uint32_t *origins; /* [n] offsets of the bytes in the input; not kept when `linear` */
    size_t n, cap;
    bool want_origins;
    bool linear; /* byte i comes from i - shift, or from the beginning */
    size_t shift;
};
FT_NODISCARD ft_status spm_normalize(struct spm_text *out, const struct spm_normalizer *n, str text,
                                     ft_error *err);
void spm_text_free(struct spm_text *t);

static inline uint32_t spm_origin(const struct spm_text *t, size_t i)
{
    if (t->linear)
        return (uint32_t)(i < t->shift ? 0 : i - t->shift);
    return t->origins[i];
}

/* The merges that make each piece, by score. */
FT_NODISCARD ft_status spm_bpe_init(struct spm *s, ft_error *err);

static inline int32_t spm_bpe_symbol(const struct spm_bpe *b, uint32_t code_point)
{
    return b->symbols[(size_t)b->page[code_point >> 8] << 8 | (code_point & 0xFF)];
}

#endif
