/* SPDX-License-Identifier: Apache-2.0
 * What turns one piece of text into ids: BPE over bytes, BPE over characters, or Unigram. */
#ifndef FORMATS_TOK_TOK_MODEL_H
#define FORMATS_TOK_TOK_MODEL_H

#include "common/arena.h"
#include "formats/tok/bpe.h"
#include "formats/tok/unigram.h"

/* U+2581, which stands for a space in vocabularies of SentencePiece. */
#define MODEL_MARK "\xE2\x96\x81"

/* Numbers in blobs. */
enum tok_model_kind { MODEL_BPE_BYTES = 1, MODEL_BPE_CHARS, MODEL_UNIGRAM };

enum tok_model_flags {
    MODEL_BYTE_FALLBACK = 1,  /* unknown characters become <0xHH> tokens when all of them exist */
    MODEL_FUSE_UNK = 2,       /* unknown characters side by side become one token */
    MODEL_IGNORE_MERGES = 4,  /* a piece that is in the vocabulary is its token */
    MODEL_EXPLICIT_RANKS = 8, /* ranks come from scores and may be equal */
    MODEL_ALL_FLAGS = 15,
};

struct char_slot {
    uint32_t code_point;
    int32_t id; /* -1 = empty */
};

struct tok_model {
    enum tok_model_kind kind;
    unsigned flags;
    int32_t unk; /* -1 = unknown text vanishes (Unigram: is an error) */
    bool spaces; /* U+0020 is looked up as the mark: text keeps its spaces */
    struct bpe bpe;
    /* BPE_BYTES: the symbol of each byte, -1 = none. Otherwise the ids of <0x00> to <0xFF>. */
    int32_t byte_id[256];

    /* What follows from the vocabulary. */
    int32_t ascii[128];      /* BPE_CHARS: symbols of the characters below U+0080, -1 = none */
    struct char_slot *chars; /* of the others, open addressing */
    size_t chars_mask;
    int32_t *whole; /* IGNORE_MERGES and UNIGRAM: ids by piece, open addressing, -1 = empty */
    size_t whole_mask;
    const str *pieces; /* [n_vocab] borrowed */
    uint64_t *joints; /* BPE_CHARS: pairs of symbols at which some merge joins two tokens (a filter:
                         it may hold more) */
    /* BPE_CHARS: bit b of row a: some merge joins ASCII a to b. Elsewhere a piece can be cut
     * without a change, if cuts_apart. */
    uint64_t ascii_joints[128][2];
    bool cuts_apart;
    bool cuts_at_lines; /* a line feed is always a token of its own */
    bool cuts_at_marks; /* no merge joins anything to a mark on its right but another mark */
    struct unigram unigram;
};

/* Fills the derived parts. kind, flags, unk, spaces and byte_id are set, scores [n_vocab] are those
 * of UNIGRAM; in_model[id] tells which ids belong to the model. All arrays stay borrowed. */
struct tok_model_source {
    const str *pieces;
    const uint8_t *in_model;
    int32_t n_vocab;
    struct bpe_merge *merges;
    size_t n_merges;
    double *scores;
};
FT_NODISCARD ft_status tok_model_finish(struct tok_model *m, struct arena *arena,
                                        const struct tok_model_source *source, ft_error *err);
void tok_model_destroy(struct tok_model *m);

/* Memory of one thread. Zeroed = empty; reusable. symbols holds the result of tok_model_encode. */
struct tok_model_work {
    struct bpe_work symbols;
    struct unigram_work unigram;
    uint8_t *marked; /* the piece with marks for spaces */
    size_t marked_cap;
};
void tok_model_work_free(struct tok_model_work *w);

/* Encodes one piece of text (valid UTF-8): w->symbols gets ids and where each starts, in bytes from
 * the start of text. */
FT_NODISCARD ft_status tok_model_encode(const struct tok_model *m, struct tok_model_work *w,
                                        str text, ft_error *err);

#endif
