/* SPDX-License-Identifier: Apache-2.0
 * What a loaded tokenizer is, and how loaders make one: tok_json.c and tok_gguf.c give strings to a
 * builder, tok_blob.c fills the struct itself; both end in tok_finish. */
#ifndef FORMATS_TOK_TOK_INTERNAL_H
#define FORMATS_TOK_TOK_INTERNAL_H

#include "common/arena.h"
#include "formats/tok/added.h"
#include "formats/tok/bpe.h"
#include "formats/tok/pretok.h"
#include "formats/tok/tok.h"

enum {
    TOK_MAX_VOCAB = 1 << 21,         /* ids, merges, added tokens */
    TOK_MAX_PIECE = 1 << 12,         /* bytes of one piece of vocabulary */
    TOK_MAX_FILE_BYTES = 256 << 20,  /* of a tokenizer.json */
    TOK_MAX_TEMPLATE_BYTES = 1 << 20 /* of a chat template */
};

struct tok {
    struct arena arena; /* holds everything below but the merge table */
    int32_t n_vocab;
    str *bytes;           /* [n_vocab] what each id decodes to; .ptr NULL = unused id */
    int32_t byte_id[256]; /* the symbol of each byte; -1 = not in the vocabulary: it vanishes */
    struct bpe bpe;       /* .merges [bpe.n_merges] in the arena */
    struct added added;
    const struct pretok *pretok;
    int32_t bos, eos; /* -1 = none */
    str chat_template;
    uint16_t *lengths; /* [n_vocab] of bytes, packed for the encoder */
    uint8_t *special;  /* [n_vocab] 1 = special token */
    hash128 fingerprint;
};

/* Builds the derived parts (merge table, added-token passes, lengths, flags, fingerprint) from
 * n_vocab, bytes, byte_id, merges, added tokens (sorted by content) and pretok. */
FT_NODISCARD ft_status tok_finish(struct tok *t, struct bpe_merge *merges, size_t n_merges,
                                  struct added_token *added, size_t n_added, ft_error *err);

/* Collects what a file says, by strings. Errors do not name the file: callers wrap them. */
struct tok_builder {
    struct tok *tok;
    struct arena scratch;
    str *pieces; /* [n_ids] */
    bool *model; /* [n_ids] belongs to the model: merges and bytes may refer to it */
    int32_t n_ids, cap_ids;
    int32_t *map; /* piece -> id of the model, open addressing; -1 = empty */
    size_t map_mask;
    struct bpe_merge *merges;
    size_t n_merges, cap_merges;
    struct added_token *added;
    size_t n_added, cap_added;
};

/* The most ids, merges and added tokens that will come. */
FT_NODISCARD ft_status tok_builder_init(struct tok_builder *b, size_t max_ids, size_t max_merges,
                                        size_t max_added, ft_error *err);
void tok_builder_destroy(struct tok_builder *b);
/* One entry of the model's vocabulary; ids and pieces must be unique. Strings need not outlive the
 * call anywhere here. */
FT_NODISCARD ft_status tok_builder_piece(struct tok_builder *b, int64_t id, str piece,
                                         ft_error *err);
/* Id of a piece of the model, or -1. */
int32_t tok_builder_find(const struct tok_builder *b, str piece);
/* The next merge in rank order; both parts and the result must be in the vocabulary. */
FT_NODISCARD ft_status tok_builder_merge(struct tok_builder *b, str left, str right, ft_error *err);
/* "left right" with one space between. */
FT_NODISCARD ft_status tok_builder_merge_pair(struct tok_builder *b, str pair, ft_error *err);
/* An added token. Its id is that of the model when the model has the content, else `id`. */
FT_NODISCARD ft_status tok_builder_added(struct tok_builder *b, int64_t id, str content,
                                         unsigned flags, ft_error *err);
/* True when each of the 256 bytes has a piece. */
bool tok_builder_has_all_bytes(const struct tok_builder *b);
/* Moves the result out; the builder is left for tok_builder_destroy. bos, eos and chat_template of
 * b->tok are set by the caller before. */
FT_NODISCARD ft_status tok_builder_finish(struct tok **out, struct tok_builder *b,
                                          const struct pretok *pretok, ft_error *err);

/* Loaders behind tok_open; messages start with the path. */
FT_NODISCARD ft_status tok_json_load(struct tok **out, const char *path, ft_error *err);
/* The text of a tokenizer.json alone; name is for messages. */
FT_NODISCARD ft_status tok_json_parse(struct tok **out, const char *name, str text, ft_error *err);
FT_NODISCARD ft_status tok_gguf_load(struct tok **out, const char *path, ft_error *err);
FT_NODISCARD ft_status tok_blob_load(struct tok **out, const char *path, ft_error *err);

#endif
