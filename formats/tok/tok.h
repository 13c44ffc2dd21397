/* SPDX-License-Identifier: Apache-2.0
 * Tokenizers: text <-> ids, exactly as Hugging Face tokenizers does for the same file. The shape of
 * the API follows tiktoken: load once, share between threads, one encoder per thread. */
#ifndef FORMATS_TOK_TOK_H
#define FORMATS_TOK_TOK_H

#include "common/buf.h"
#include "common/hash.h"

struct tok; /* immutable after load, shared by any number of threads */

/* A tokenizer.json or SentencePiece model, a directory that holds one, a GGUF file, an .nf4 file,
 * or a data set directory (its tokenizer.tok). Components that cannot be reproduced exactly are
 * refused by name. */
FT_NODISCARD ft_status tok_open(struct tok **out, const char *path, ft_error *err);
/* The compact form stored in data sets and .nf4 files. name is for messages. */
FT_NODISCARD ft_status tok_from_blob(struct tok **out, const char *name, str blob, ft_error *err);
FT_NODISCARD ft_status tok_to_blob(struct buf *out, const struct tok *t, ft_error *err);
void tok_close(struct tok *t); /* NULL is fine */

int32_t tok_n_vocab(const struct tok *t); /* ids are below it */
/* Over everything that decides ids (vocabulary, merges, added tokens, pre-tokenizer), independent
 * of the file format it came from. Decides whether a data set fits a base model. */
hash128 tok_fingerprint(const struct tok *t);
str tok_chat_template(const struct tok *t); /* Jinja text, empty when there is none */
int32_t tok_bos(const struct tok *t);       /* -1 = none */
int32_t tok_eos(const struct tok *t);
/* Bytes the id stands for when decoded (special tokens: their content). Asserts id in range; empty
 * for unused ids. */
str tok_bytes(const struct tok *t, int32_t id);
bool tok_is_special(const struct tok *t, int32_t id);
int32_t tok_special(const struct tok *t, str content); /* id of a special token or -1 */

enum tok_specials {
    TOK_SPECIALS_LITERAL, /* the text of a special token is ordinary text */
    TOK_SPECIALS_PARSE,   /* it becomes the special id, as Hugging Face does */
};

/* Ids with, when want_offsets, the byte offset in the input at which each token starts. Zeroed =
 * empty; reuse it to keep its memory. */
struct tok_ids {
    int32_t *ids;
    uint32_t *offsets; /* NULL unless want_offsets */
    size_t n, cap;
    bool want_offsets;
    size_t n_special_text; /* special tokens that were met as ordinary text, added up */
};
void tok_ids_free(struct tok_ids *ids);
/* Appends an id that is not encoded from text. */
FT_NODISCARD ft_status tok_ids_put(struct tok_ids *ids, int32_t id, uint32_t offset, ft_error *err);

struct tok_encoder; /* scratch and caches of one thread */
FT_NODISCARD ft_status tok_encoder_create(struct tok_encoder **out, const struct tok *t,
                                          ft_error *err);
void tok_encoder_destroy(struct tok_encoder *e);
const struct tok *tok_encoder_tok(const struct tok_encoder *e);

/* Appends the ids of text (valid UTF-8, NUL allowed, under 4 GiB); nothing is added around it. */
FT_NODISCARD ft_status tok_encode(struct tok_encoder *e, struct tok_ids *out, str text,
                                  enum tok_specials specials, ft_error *err);
/* As tok_encode, but special tokens are matched only inside [from, to) ranges of text that the
 * caller marks as its own (template literals): parse[i] = {from, to}, ascending. Ordinary text on
 * both sides of a border is still encoded together. */
struct tok_range {
    size_t from, to;
};
FT_NODISCARD ft_status tok_encode_ranges(struct tok_encoder *e, struct tok_ids *out, str text,
                                         const struct tok_range *parse, size_t n_parse,
                                         ft_error *err);

/* Appends the bytes of the ids (not necessarily valid UTF-8 at a cut). Ids out of range give
 * nothing. */
void tok_decode(const struct tok *t, struct buf *out, const int32_t *ids, size_t n,
                bool skip_specials);

/* The same one id after the other: what a text starts with may depend on its place. Zeroed = at the
 * start of a text. */
struct tok_decoding {
    bool begun, stripped;
    unsigned n_stripped;
    uint8_t pending[4], n_pending; /* bytes of a character that is not complete: SentencePiece */
};
void tok_decode_next(struct tok_decoding *d, const struct tok *t, struct buf *out, int32_t id,
                     bool skip_specials);
/* Appends what is still held back at the end. */
void tok_decode_end(struct tok_decoding *d, struct buf *out);

#endif
