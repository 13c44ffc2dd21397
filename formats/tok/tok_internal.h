/* SPDX-License-Identifier: Apache-2.0
 * What a loaded tokenizer is, and how loaders make one: tok_json.c and tok_gguf.c give strings to a
 * builder, tok_blob.c fills the struct itself; both end in tok_finish. */
#ifndef FORMATS_TOK_TOK_INTERNAL_H
#define FORMATS_TOK_TOK_INTERNAL_H

#include "common/arena.h"
#include "formats/json.h"
#include "formats/tok/added.h"
#include "formats/tok/decode.h"
#include "formats/tok/normalize.h"
#include "formats/tok/pretok.h"
#include "formats/tok/pretok_stages.h"
#include "formats/tok/spm.h"
#include "formats/tok/tok.h"
#include "formats/tok/tok_model.h"

enum {
    TOK_MAX_VOCAB = 1 << 21,         /* ids, merges, added tokens */
    TOK_MAX_STEPS = 64,              /* of a normalizer, pre-tokenizer or decoder */
    TOK_MAX_PIECE = 1 << 12,         /* bytes of one piece of vocabulary */
    TOK_MAX_FILE_BYTES = 256 << 20,  /* of a tokenizer.json */
    TOK_MAX_TEMPLATE_BYTES = 1 << 20 /* of a chat template */
};

/* The pattern of PRETOK_BYTE_LEVEL. */
#define TOK_GPT2_PATTERN                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* What is put in front of a piece of text before the model sees it, besides normalizers. */
enum tok_lead {
    TOK_LEAD_NONE,
    TOK_LEAD_FIRST,  /* Metaspace: only at the very start of the text */
    TOK_LEAD_ALWAYS, /* Metaspace: wherever there is no mark yet */
    TOK_LEAD_SPACE,  /* ByteLevel: a space wherever there is none yet */
    TOK_LEADS,
};

/* The steps between text and model, as files describe them. */
struct tok_steps {
    struct normalize_step *normalize;
    struct pretok_stage *stages;
    struct decode_step *decode;
    size_t n_normalize, n_stages, n_decode;
    bool metaspace; /* behind the stages: U+0020 becomes the mark U+2581 ... */
    bool split;     /* ... and each mark starts a piece */
    enum tok_lead lead;
};

/* Whether the last step of the normalizer leaves no space behind. */
bool tok_steps_leave_no_space(const struct tok_steps *s);

struct tok {
    struct arena arena; /* holds everything below but what has a destructor */
    int32_t n_vocab;
    str *pieces;       /* [n_vocab] as the model knows them, byte-level ones as bytes; .ptr NULL =
                          unused id */
    str *bytes;        /* [n_vocab] what each id decodes to */
    uint8_t *in_model; /* [n_vocab] 1 = the model may give this id */
    double *scores;    /* [n_vocab] of Unigram, NULL otherwise */
    struct tok_steps steps;
    struct tok_model model;
    struct spm *spm; /* a SentencePiece model: all between the added tokens and the ids, instead of
                        scores, steps and model; NULL otherwise */
    struct added added;
    int32_t bos, eos; /* -1 = none */
    str chat_template;

    /* What follows from the parts. */
    struct normalizer normalizer; /* what is really run */
    const struct pretok *pretok;  /* the scanner of the stages; NULL = no stages, or: */
    struct pretok_stages *slow;   /* stages without a scanner */
    struct decoder decoder;
    enum tok_lead lead;
    bool lead_always;         /* even where there is one */
    bool cut_runs, cut_marks; /* pieces end before each run of marks, before each mark */
    uint16_t *lengths;        /* [n_vocab] of text, packed for the encoder */
    uint8_t *special;         /* [n_vocab] 1 = special token */
    hash128 fingerprint;
};

/* The parts of a model that tok_finish consumes. */
struct tok_parts {
    struct bpe_merge *merges;
    size_t n_merges;
    struct added_token *added; /* sorted by content */
    size_t n_added;
};

/* Builds the derived parts from n_vocab, pieces, in_model, scores, steps, the fields of model that
 * files give, merges and added tokens. */
FT_NODISCARD ft_status tok_finish(struct tok *t, const struct tok_parts *parts, ft_error *err);

/* Room for `more` ids at the end. */
FT_NODISCARD ft_status tok_ids_grow(struct tok_ids *ids, size_t more, ft_error *err);
static inline ft_status tok_ids_reserve(struct tok_ids *ids, size_t more, ft_error *err)
{
    bool fits = ids->cap - ids->n >= more && (!ids->want_offsets || ids->offsets != NULL);
    return __builtin_expect(fits, 1) ? FT_OK : tok_ids_grow(ids, more, err);
}

/* Part of a hash lies beside the id, so that other pieces are passed by without a look at them. */
struct tok_builder_slot {
    int32_t id; /* -1 = empty */
    uint32_t tag;
};

/* Collects what a file says, by strings. Errors do not name the file: callers wrap them. The caller
 * sets steps, bos, eos, chat_template and the model's kind, flags and unk in b->tok. */
struct tok_builder {
    struct tok *tok;
    struct arena scratch;
    str *pieces;    /* [n_ids] as the file spells them */
    double *scores; /* [n_ids] of Unigram */
    uint8_t *model; /* [n_ids] belongs to the model: merges and bytes may refer to it */
    int32_t n_ids, cap_ids;
    struct tok_builder_slot *map; /* piece -> id of the model, open addressing */
    size_t map_mask;
    struct bpe_merge *merges;
    size_t n_merges, cap_merges;
    size_t n_pieces;           /* entries of the model */
    struct added_token *added; /* [n_added] contents in scratch */
    size_t n_added, cap_added;
    int32_t *added_map; /* content -> place in added, open addressing; -1 = empty */
    size_t added_mask;  /* 0 = not allocated */
    int32_t max_added;  /* the highest id of an added token, -1 = none */
};

FT_NODISCARD ft_status tok_builder_init(struct tok_builder *b, ft_error *err);
/* The most ids and merges that will come. Once, before any of them. */
FT_NODISCARD ft_status tok_builder_reserve(struct tok_builder *b, size_t max_ids, size_t max_merges,
                                           ft_error *err);
void tok_builder_destroy(struct tok_builder *b);
/* One entry of the model's vocabulary; ids and pieces must be unique. Strings need not outlive the
 * call anywhere here. */
FT_NODISCARD ft_status tok_builder_piece(struct tok_builder *b, int64_t id, str piece,
                                         ft_error *err);
/* The same for Unigram, in the order of ids: of equal pieces the last counts. */
FT_NODISCARD ft_status tok_builder_scored(struct tok_builder *b, int64_t id, str piece,
                                          double score, ft_error *err);
/* Id of a piece of the model, or -1. */
int32_t tok_builder_find(const struct tok_builder *b, str piece);
/* The next merge in rank order; both parts and the result must be in the vocabulary. */
FT_NODISCARD ft_status tok_builder_merge(struct tok_builder *b, str left, str right, ft_error *err);
/* "left right" with one space between. */
FT_NODISCARD ft_status tok_builder_merge_pair(struct tok_builder *b, str pair, ft_error *err);
/* An added token. Its id is that of the model when the model has the content, else `id`. A content
 * that comes again keeps its id and changes its flags. */
FT_NODISCARD ft_status tok_builder_added(struct tok_builder *b, int64_t id, str content,
                                         unsigned flags, ft_error *err);
/* The added token of this content, NULL when there is none. Valid until the next one is added. */
const struct added_token *tok_builder_find_added(const struct tok_builder *b, str content);
/* The id Hugging Face gives the next added token that the model does not know. */
int32_t tok_builder_next_added(const struct tok_builder *b);
/* Steps and stages go into the tokenizer's arena, strings are copied. */
FT_NODISCARD ft_status tok_builder_normalize(struct tok_builder *b, struct normalize_step step,
                                             ft_error *err);
FT_NODISCARD ft_status tok_builder_stage(struct tok_builder *b, struct pretok_stage stage,
                                         ft_error *err);
FT_NODISCARD ft_status tok_builder_decode(struct tok_builder *b, struct decode_step step,
                                          ft_error *err);
/* Moves the result out; the builder is left for tok_builder_destroy. */
FT_NODISCARD ft_status tok_builder_finish(struct tok **out, struct tok_builder *b, ft_error *err);

/* The normalizer, pre_tokenizer and decoder of a tokenizer.json, into b->tok->steps. *byte_level
 * tells whether the model sees bytes. */
FT_NODISCARD ft_status tok_json_steps(bool *byte_level, struct tok_builder *b, const json *root,
                                      ft_error *err);

/* A tokenizer around a SentencePiece model. Its control pieces are the special tokens; bos and eos
 * are those of the file. chat_template may be set afterwards. */
FT_NODISCARD ft_status tok_spm_make(struct tok **out, const struct spm_file *file, ft_error *err);

/* The flags of an added token. */
FT_NODISCARD ft_status tok_json_flags(unsigned *flags, const json *v, ft_error *err);
/* tokenizer_config.json and chat_template.jinja beside the file `path`, as transformers applies
 * them; both may be missing. */
FT_NODISCARD ft_status tok_json_neighbours(struct tok_builder *b, const char *path, ft_error *err);

/* Loaders behind tok_open; messages start with the path. */
FT_NODISCARD ft_status tok_json_load(struct tok **out, const char *path, ft_error *err);
/* The text of a tokenizer.json alone; name is for messages. */
FT_NODISCARD ft_status tok_json_parse(struct tok **out, const char *name, str text, ft_error *err);
FT_NODISCARD ft_status tok_spm_load(struct tok **out, const char *path, ft_error *err);
/* The bytes of a .model file; name is for messages. */
FT_NODISCARD ft_status tok_spm_parse(struct tok **out, const char *name, str bytes, ft_error *err);
FT_NODISCARD ft_status tok_tiktoken_load(struct tok **out, const char *path, ft_error *err);
/* Whether the first line is one of a rank file. */
bool tok_tiktoken_looks_like(str bytes);
/* A tekken.json already parsed; name is for messages. */
bool tok_tekken_looks_like(const json *root);
FT_NODISCARD ft_status tok_tekken_build(struct tok **out, const char *name, const json *root,
                                        ft_error *err);
FT_NODISCARD ft_status tok_gguf_load(struct tok **out, const char *path, ft_error *err);
FT_NODISCARD ft_status tok_blob_load(struct tok **out, const char *path, ft_error *err);

#endif
