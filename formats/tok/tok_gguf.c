/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer inside a GGUF file. Byte-level vocabularies name a pre-tokenizer instead of
 * describing it; names whose meaning is not certain are refused. Those of SentencePiece hold what
 * its own files hold. */
#include "formats/gguf.h"
#include "formats/tok/pretok_patterns.h"
#include "formats/tok/tok_internal.h"

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED };

enum { MAX_STAGES = 6 };

#define SPLIT(text)                                                                                \
    {                                                                                              \
        .kind = PRETOK_SPLIT, .dialect = PRETOK_ONIGURUMA, .pattern = { text, sizeof(text) - 1 }   \
    }

/* What the models whose files bear these names have in their tokenizer.json. */
static const struct {
    const char *pre;
    bool nfc, ignore_merges;
    size_t n;
    struct pretok_stage stages[MAX_STAGES];
} pre_names[] = {
    {"smollm", false, false, 2, {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {"starcoder", false, false, 2, {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {"gpt-2", false, false, 1, {{.kind = PRETOK_BYTE_LEVEL}}},
    {"llama-bpe", false, true, 1, {SPLIT(PATTERN_LLAMA3)}},
    {"qwen2", true, false, 1, {SPLIT(PATTERN_QWEN2)}},
    {"tekken", false, true, 1, {SPLIT(PATTERN_TEKKEN)}},
    {"deepseek-llm",
     false,
     false,
     6,
     {SPLIT(PATTERN_DEEPSEEK_LINES),
      SPLIT(PATTERN_DEEPSEEK_LETTERS),
      SPLIT(PATTERN_DEEPSEEK_PUNCTUATION),
      SPLIT(PATTERN_DEEPSEEK_END),
      SPLIT(PATTERN_DEEPSEEK_CJK),
      {.kind = PRETOK_DIGITS}}},
    {"deepseek-v3",
     false,
     false,
     3,
     {SPLIT(PATTERN_DEEPSEEK3_NUMBERS), SPLIT(PATTERN_DEEPSEEK3_KANA),
      SPLIT(PATTERN_DEEPSEEK3_WORDS)}},
};

struct vocabulary {
    struct gguf_array tokens, types, merges;
};

static ft_status read_steps(struct tok_builder *b, const struct gguf *g, ft_error *err)
{
    str pre;
    bool space;
    size_t i = 0;
    FT_TRY(gguf_opt_bool(&space, g, "tokenizer.ggml.add_space_prefix", false, err));
    if (space)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.add_space_prefix: true is not supported", gguf_name(g));
    FT_TRY(gguf_need_str(&pre, g, "tokenizer.ggml.pre", err));
    while (i < ARRAY_LEN(pre_names) && !str_is(pre, pre_names[i].pre))
        i++;
    if (i == ARRAY_LEN(pre_names))
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.pre: the pre-tokenizer \"%.*s\" is not supported",
                       gguf_name(g), STR_ARG(pre));
    if (pre_names[i].nfc)
        FT_TRY(tok_builder_normalize(b, (struct normalize_step){.kind = NORMALIZE_NFC}, err));
    for (size_t k = 0; k < pre_names[i].n; k++)
        FT_TRY(tok_builder_stage(b, pre_names[i].stages[k], err));
    b->tok->model.kind = MODEL_BPE_BYTES;
    b->tok->model.flags = pre_names[i].ignore_merges ? MODEL_IGNORE_MERGES : 0;
    return tok_builder_decode(b, (struct decode_step){.kind = DECODE_BYTE_LEVEL}, err);
}

static ft_status find_arrays(struct vocabulary *v, const struct gguf *g, ft_error *err)
{
    FT_TRY(gguf_need_array(&v->tokens, g, "tokenizer.ggml.tokens", GGUF_STRING, err));
    FT_TRY(gguf_need_array(&v->types, g, "tokenizer.ggml.token_type", GGUF_I32, err));
    if (v->types.n != v->tokens.n)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.token_type has %llu entries for %llu "
                       "tokens",
                       gguf_name(g), (unsigned long long)v->types.n,
                       (unsigned long long)v->tokens.n);
    return FT_OK;
}

/* One kind of entry after the other: an added token may repeat a piece of the model, and then the
 * model's id counts. */
static ft_status add_tokens(struct tok_builder *b, const struct vocabulary *v, bool added,
                            ft_error *err)
{
    struct gguf_array tokens = v->tokens;
    for (uint64_t id = 0; id < v->tokens.n; id++) {
        str piece = gguf_array_next_str(&tokens);
        int64_t type = gguf_array_i64(&v->types, id);
        ft_status st = FT_OK;
        if (type == TYPE_NORMAL && !added)
            st = tok_builder_piece(b, (int64_t)id, piece, err);
        else if (type == TYPE_CONTROL && added)
            st = tok_builder_added(b, (int64_t)id, piece, ADDED_SPECIAL, err);
        else if (type == TYPE_USER_DEFINED && added)
            st = tok_builder_added(b, (int64_t)id, piece, ADDED_NORMALIZED, err);
        else if (type < TYPE_NORMAL || type == TYPE_UNKNOWN || type > TYPE_UNUSED)
            st = ft_fail(err, FT_EFORMAT, "token type %lld is not supported", (long long)type);
        if (st != FT_OK)
            return ft_wrap(err, "tokenizer.ggml.tokens[%llu]", (unsigned long long)id);
    }
    return FT_OK;
}

static ft_status add_merges(struct tok_builder *b, struct gguf_array merges, ft_error *err)
{
    uint64_t n = merges.n;
    for (uint64_t i = 0; i < n; i++)
        if (tok_builder_merge_pair(b, gguf_array_next_str(&merges), err) != FT_OK)
            return ft_wrap(err, "tokenizer.ggml.merges[%llu]", (unsigned long long)i);
    return FT_OK;
}

static ft_status build(struct tok **out, struct tok_builder *b, const struct vocabulary *v,
                       ft_error *err)
{
    FT_TRY(tok_builder_reserve(b, v->tokens.n, v->merges.n, err));
    FT_TRY(add_tokens(b, v, false, err));
    FT_TRY(add_merges(b, v->merges, err));
    FT_TRY(add_tokens(b, v, true, err));
    return tok_builder_finish(out, b, err);
}

/* What does not decide ids. */
static ft_status read_extras(struct tok *t, const struct gguf *g, ft_error *err)
{
    int64_t bos, eos, max = t->n_vocab - 1;
    str source;
    FT_TRY(gguf_opt_i64(&bos, g, "tokenizer.ggml.bos_token_id", -1, 0, max, err));
    FT_TRY(gguf_opt_i64(&eos, g, "tokenizer.ggml.eos_token_id", -1, 0, max, err));
    FT_TRY(gguf_opt_str(&source, g, "tokenizer.chat_template", STR(""), err));
    t->bos = (int32_t)bos;
    t->eos = (int32_t)eos;
    if (source.len > TOK_MAX_TEMPLATE_BYTES || str_utf8_invalid_at(source) != source.len)
        return ft_fail(err, FT_EFORMAT, "%s: tokenizer.chat_template is too long or not UTF-8",
                       gguf_name(g));
    t->chat_template = arena_str(&t->arena, source);
    return t->chat_template.ptr == NULL ? ft_fail_memory(err, source.len, "a chat template")
                                        : FT_OK;
}

static ft_status read_byte_level(struct tok **out, const struct gguf *g, ft_error *err)
{
    struct vocabulary v;
    struct tok_builder b = {0};
    ft_status st;
    FT_GOTO(tok_builder_init(&b, err));
    FT_GOTO(read_steps(&b, g, err));
    FT_GOTO(find_arrays(&v, g, err));
    FT_GOTO(gguf_need_array(&v.merges, g, "tokenizer.ggml.merges", GGUF_STRING, err));
    st = build(out, &b, &v, err);
    if (st != FT_OK)
        FT_GOTO(ft_wrap(err, "%s", gguf_name(g)));
out:
    tok_builder_destroy(&b);
    return st;
}

/* --- vocabularies of SentencePiece ------------------------------------------------------------
 */

/* Types of tokens have the numbers of SentencePiece. */
static ft_status read_pieces(struct spm_file *f, struct arena *a, const struct gguf *g,
                             ft_error *err)
{
    struct vocabulary v;
    struct gguf_array scores;
    FT_TRY(find_arrays(&v, g, err));
    FT_TRY(gguf_need_array(&scores, g, "tokenizer.ggml.scores", GGUF_F32, err));
    if (scores.n != v.tokens.n || v.tokens.n > SPM_MAX_PIECES)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.scores has %llu entries for %llu tokens", gguf_name(g),
                       (unsigned long long)scores.n, (unsigned long long)v.tokens.n);
    f->n_pieces = (size_t)v.tokens.n;
    f->pieces = arena_alloc(a, f->n_pieces, sizeof *f->pieces);
    if (f->pieces == NULL)
        return ft_fail_memory(err, f->n_pieces * sizeof *f->pieces, "a vocabulary");
    struct gguf_array tokens = v.tokens;
    for (size_t id = 0; id < f->n_pieces; id++) {
        str text = gguf_array_next_str(&tokens);
        int64_t type = gguf_array_i64(&v.types, id);
        double score = gguf_array_f64(&scores, id);
        if (type < SPM_NORMAL || type > SPM_BYTE || text.len == 0 ||
            text.len > SPM_MAX_PIECE_BYTES || str_utf8_invalid_at(text) != text.len ||
            !(score > -1e30 && score < 1e30))
            return ft_fail(err, FT_EFORMAT, "%s: token %zu has no valid text, type or score",
                           gguf_name(g), id);
        f->pieces[id] = (struct spm_piece){text, (float)score, (enum spm_piece_type)type};
        f->byte_fallback |= type == SPM_BYTE;
        if (type == SPM_UNKNOWN)
            f->unk_piece = text;
    }
    return FT_OK;
}

static ft_status read_charsmap(struct spm_file *f, struct arena *a, const struct gguf *g,
                               ft_error *err)
{
    const char *key = "tokenizer.ggml.precompiled_charsmap";
    struct gguf_array bytes;
    if (!gguf_has(g, key))
        return FT_OK;
    FT_TRY(gguf_need_array(&bytes, g, key, GGUF_U8, err));
    f->normalizer.charsmap = arena_str(a, (str){(const char *)bytes.data, (size_t)bytes.n});
    return f->normalizer.charsmap.ptr == NULL
               ? ft_fail_memory(err, (size_t)bytes.n, "normalisation rules")
               : FT_OK;
}

static ft_status read_spm(struct tok **out, const struct gguf *g, enum spm_model_type type,
                          ft_error *err)
{
    struct arena a = {0};
    struct spm_file f = {.model_type = type,
                         .unk_piece = STR("<unk>"),
                         .bos_piece = STR("<s>"),
                         .eos_piece = STR("</s>"),
                         .pad_piece = STR("<pad>"),
                         .unk_surface = STR(" \xE2\x81\x87 "),
                         .normalizer = {.name = STR("identity"), .escape_whitespaces = true}};
    struct spm_normalizer_spec *n = &f.normalizer;
    ft_status st;
    FT_GOTO(read_pieces(&f, &a, g, err));
    FT_GOTO(read_charsmap(&f, &a, g, err));
    FT_GOTO(gguf_opt_bool(&n->add_dummy_prefix, g, "tokenizer.ggml.add_space_prefix", true, err));
    FT_GOTO(gguf_opt_bool(&n->remove_extra_whitespaces, g,
                          "tokenizer.ggml.remove_extra_whitespaces", false, err));
    st = tok_spm_make(out, &f, err);
    if (st != FT_OK)
        FT_GOTO(ft_wrap(err, "%s", gguf_name(g)));
out:
    arena_destroy(&a);
    return st;
}

/* --- the file ---------------------------------------------------------------------------------
 */

static ft_status read_tokenizer(struct tok **out, const struct gguf *g, ft_error *err)
{
    struct tok *t = NULL;
    str model;
    FT_TRY(gguf_need_str(&model, g, "tokenizer.ggml.model", err));
    if (str_is(model, "gpt2"))
        FT_TRY(read_byte_level(&t, g, err));
    else if (str_is(model, "llama"))
        FT_TRY(read_spm(&t, g, SPM_BPE, err));
    else if (str_is(model, "t5"))
        FT_TRY(read_spm(&t, g, SPM_UNIGRAM, err));
    else
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.model: \"%.*s\" is not supported, only \"gpt2\", "
                       "\"llama\" and \"t5\" are",
                       gguf_name(g), STR_ARG(model));
    ft_status st = read_extras(t, g, err);
    if (st != FT_OK) {
        tok_close(t);
        return st;
    }
    *out = t;
    return FT_OK;
}

ft_status tok_gguf_load(struct tok **out, const char *path, ft_error *err)
{
    struct gguf *g;
    FT_TRY(gguf_open(&g, path, err));
    ft_status st = read_tokenizer(out, g, err);
    gguf_close(g);
    return st;
}
