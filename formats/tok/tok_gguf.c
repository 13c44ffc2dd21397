/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer inside a GGUF file. The format names a pre-tokenizer instead of describing it;
 * names whose meaning is not certain are refused. */
#include "formats/gguf.h"
#include "formats/tok/tok_internal.h"

enum token_type { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER_DEFINED, TYPE_UNUSED };

static const struct {
    const char *pre;
    size_t n;
    struct pretok_stage stages[2];
} pre_names[] = {
    {"smollm", 2, {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {"starcoder", 2, {{.kind = PRETOK_DIGITS}, {.kind = PRETOK_BYTE_LEVEL}}},
    {"gpt-2", 1, {{.kind = PRETOK_BYTE_LEVEL}}},
};

struct vocabulary {
    struct gguf_array tokens, types, merges;
};

static ft_status read_steps(struct tok_builder *b, const struct gguf *g, ft_error *err)
{
    str model, pre;
    bool space;
    FT_TRY(gguf_need_str(&model, g, "tokenizer.ggml.model", err));
    if (!str_is(model, "gpt2"))
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.model: \"%.*s\" is not supported, only \"gpt2\" "
                       "(byte-level BPE) is",
                       gguf_name(g), STR_ARG(model));
    FT_TRY(gguf_opt_bool(&space, g, "tokenizer.ggml.add_space_prefix", false, err));
    if (space)
        return ft_fail(err, FT_EFORMAT,
                       "%s: tokenizer.ggml.add_space_prefix: true is not supported", gguf_name(g));
    FT_TRY(gguf_need_str(&pre, g, "tokenizer.ggml.pre", err));
    for (size_t i = 0; i < ARRAY_LEN(pre_names); i++) {
        if (!str_is(pre, pre_names[i].pre))
            continue;
        for (size_t k = 0; k < pre_names[i].n; k++)
            FT_TRY(tok_builder_stage(b, pre_names[i].stages[k], err));
        b->tok->model.kind = MODEL_BPE_BYTES;
        return tok_builder_decode(b, (struct decode_step){.kind = DECODE_BYTE_LEVEL}, err);
    }
    return ft_fail(err, FT_EFORMAT,
                   "%s: tokenizer.ggml.pre: the pre-tokenizer \"%.*s\" is not supported",
                   gguf_name(g), STR_ARG(pre));
}

static ft_status find_arrays(struct vocabulary *v, const struct gguf *g, ft_error *err)
{
    FT_TRY(gguf_need_array(&v->tokens, g, "tokenizer.ggml.tokens", GGUF_STRING, err));
    FT_TRY(gguf_need_array(&v->types, g, "tokenizer.ggml.token_type", GGUF_I32, err));
    FT_TRY(gguf_need_array(&v->merges, g, "tokenizer.ggml.merges", GGUF_STRING, err));
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
    FT_TRY(tok_builder_reserve(b, v->tokens.n, v->merges.n, v->tokens.n, err));
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

static ft_status read_tokenizer(struct tok **out, const struct gguf *g, ft_error *err)
{
    struct vocabulary v;
    struct tok_builder b = {0};
    struct tok *t = NULL;
    ft_status st;
    FT_GOTO(tok_builder_init(&b, err));
    FT_GOTO(read_steps(&b, g, err));
    FT_GOTO(find_arrays(&v, g, err));
    st = build(&t, &b, &v, err);
    if (st != FT_OK)
        FT_GOTO(ft_wrap(err, "%s", gguf_name(g)));
    FT_GOTO(read_extras(t, g, err));
    *out = t;
    t = NULL;
out:
    tok_builder_destroy(&b);
    tok_close(t);
    return st;
}

ft_status tok_gguf_load(struct tok **out, const char *path, ft_error *err)
{
    struct gguf *g;
    FT_TRY(gguf_open(&g, path, err));
    ft_status st = read_tokenizer(out, g, err);
    gguf_close(g);
    return st;
}
