/* SPDX-License-Identifier: Apache-2.0
 * tekken.json of Mistral: ranks with a configuration. The first ids are the special tokens; of the
 * ranks those count that fit the vocabulary's default size. */
#include <stdio.h>

#include "formats/json.h"
#include "formats/tok/tok_ranks.h"

/* The special tokens of files from before they were listed. */
static const char *const early_specials[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

struct config {
    str pattern;
    int64_t n_vocab, n_special;
};

static ft_status read_config(struct config *c, const json *root, ft_error *err)
{
    const json *config;
    FT_TRY(json_need(&config, root, "config", JSON_OBJECT, err));
    FT_TRY(json_need_str(&c->pattern, config, "pattern", err));
    FT_TRY(json_need_i64(&c->n_vocab, config, "default_vocab_size", 256, TOK_MAX_VOCAB, err));
    return json_need_i64(&c->n_special, config, "default_num_special_tokens", 0, c->n_vocab, err);
}

static ft_status read_token(struct tok_ranks *r, const json *v, int64_t n, ft_error *err)
{
    int64_t rank;
    str bytes;
    FT_TRY(json_need_i64(&rank, v, "rank", 0, INT32_MAX, err));
    FT_TRY(json_need_str(&bytes, v, "token_bytes", err));
    return rank < n ? tok_ranks_add(r, bytes, rank, err) : FT_OK;
}

static ft_status read_vocabulary(struct tok_ranks *r, const json *root, const struct config *c,
                                 ft_error *err)
{
    const json *vocabulary;
    size_t i = 0;
    FT_TRY(json_need(&vocabulary, root, "vocab", JSON_ARRAY, err));
    for (const json *v = json_first(vocabulary); v != NULL; v = json_next(v), i++)
        if (read_token(r, v, c->n_vocab - c->n_special, err) != FT_OK)
            return ft_wrap(err, "vocab[%zu]", i);
    if ((int64_t)r->n != c->n_vocab - c->n_special)
        return ft_fail(err, FT_EFORMAT, "vocab: %zu ranks below %lld, expected all of them", r->n,
                       (long long)(c->n_vocab - c->n_special));
    return FT_OK;
}

static ft_status add_listed(struct tok_builder *b, const json *list, const struct config *c,
                            ft_error *err)
{
    size_t i = 0;
    for (const json *v = json_first(list); v != NULL; v = json_next(v), i++) {
        int64_t rank;
        str text;
        ft_status st = json_need_i64(&rank, v, "rank", 0, c->n_special - 1, err);
        if (st == FT_OK)
            st = json_need_str(&text, v, "token_str", err);
        if (st == FT_OK)
            st = tok_builder_added(b, rank, text, ADDED_SPECIAL, err);
        if (st != FT_OK)
            return ft_wrap(err, "special_tokens[%zu]", i);
    }
    return FT_OK;
}

/* The ids between the listed ones and the ranks are <SPECIAL_n>. */
static ft_status add_specials(struct tok_builder *b, const json *root, const struct config *c,
                              ft_error *err)
{
    const json *list = json_get(root, "special_tokens");
    bool listed = json_kind(list) == JSON_ARRAY;
    int64_t n = listed ? (int64_t)json_count(list) : (int64_t)ARRAY_LEN(early_specials);
    if (n > c->n_special)
        return ft_fail(err, FT_EFORMAT, "special_tokens: %lld, at most %lld fit", (long long)n,
                       (long long)c->n_special);
    if (listed)
        FT_TRY(add_listed(b, list, c, err));
    for (int64_t i = 0; i < n && !listed; i++)
        FT_TRY(tok_builder_added(b, i, str_from(early_specials[i]), ADDED_SPECIAL, err));
    for (int64_t i = n; i < c->n_special; i++) {
        char text[32];
        snprintf(text, sizeof text, "<SPECIAL_%d>", (int)i);
        FT_TRY(tok_builder_added(b, i, str_from(text), ADDED_SPECIAL, err));
    }
    b->tok->bos = tok_ranks_special(b, STR("<s>"));
    b->tok->eos = tok_ranks_special(b, STR("</s>"));
    return FT_OK;
}

static ft_status fill(struct tok_builder *b, struct tok_ranks *r, const json *root, ft_error *err)
{
    struct config c;
    FT_TRY(read_config(&c, root, err));
    FT_TRY(read_vocabulary(r, root, &c, err));
    FT_TRY(tok_ranks_build(b, r, c.n_special, err));
    FT_TRY(add_specials(b, root, &c, err));
    return tok_builder_stage(b,
                             (struct pretok_stage){.kind = PRETOK_SPLIT,
                                                   .behavior = PRETOK_ISOLATED,
                                                   .dialect = PRETOK_FANCY,
                                                   .pattern = c.pattern},
                             err);
}

bool tok_tekken_looks_like(const json *root)
{
    return json_get(json_get(root, "config"), "default_num_special_tokens") != NULL;
}

ft_status tok_tekken_build(struct tok **out, const char *name, const json *root, ft_error *err)
{
    struct tok_builder b;
    struct tok_ranks r = {0};
    ft_status st = tok_builder_init(&b, err);
    if (st == FT_OK)
        st = fill(&b, &r, root, err);
    if (st == FT_OK)
        st = tok_builder_finish(out, &b, err);
    tok_ranks_free(&r);
    tok_builder_destroy(&b);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", name);
}
