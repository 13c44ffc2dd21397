/* SPDX-License-Identifier: Apache-2.0
 * What transformers keeps beside tokenizer.json: tokenizer_config.json, which may add tokens or
 * give those of tokenizer.json other flags, and chat templates. */
#include <string.h>

#include "common/file.h"
#include "formats/tok/tok_internal.h"

/* --- added tokens ------------------------------------------------------------------------------
 */

/* A token that tokenizer.json may not have. expected: its id by the file, -1 = it says none. */
static ft_status add_token(struct tok_builder *b, str content, unsigned flags, int64_t expected,
                           ft_error *err)
{
    const struct added_token *there = tok_builder_find_added(b, content);
    int64_t id = there != NULL ? there->id : tok_builder_find(b, content);
    if (id < 0)
        id = tok_builder_next_added(b);
    if (expected >= 0 && id != expected)
        return ft_fail(err, FT_EFORMAT,
                       "\"%.*s\" has id %lld, by tokenizer.json it has %lld: one of the files "
                       "belongs to another model",
                       STR_ARG(content), (long long)expected, (long long)id);
    return tok_builder_added(b, id, content, flags, err);
}

/* {"0": {"content": "<s>", "special": true, ...}, ...}: the files have ascending ids. */
static ft_status read_decoder(struct tok_builder *b, const json *decoder, ft_error *err)
{
    for (const json *v = json_first(decoder); v != NULL; v = json_next(v)) {
        int64_t id;
        str content;
        unsigned flags;
        if (!str_to_i64(json_key(v), &id) || id < 0)
            return ft_fail(err, FT_EFORMAT, "\"%.*s\" is not a token id", STR_ARG(json_key(v)));
        FT_TRY(json_need_str(&content, v, "content", err));
        FT_TRY(tok_json_flags(&flags, v, err));
        FT_TRY(add_token(b, content, flags, id, err));
    }
    return FT_OK;
}

/* "<s>" or {"content": "<s>", ...}; an empty string when absent. */
static str token_content(const json *v)
{
    str content;
    if (json_str(v, &content) || json_str(json_get(v, "content"), &content))
        return content;
    return (str){"", 0};
}

/* A named special token becomes an added one when it is none yet. */
static ft_status read_named(int32_t *id, struct tok_builder *b, const json *root, const char *key,
                            ft_error *err)
{
    const json *v = json_get(root, key);
    str content = token_content(v);
    unsigned flags = 0;
    *id = -1;
    if (content.len == 0)
        return FT_OK;
    if (tok_builder_find_added(b, content) == NULL) {
        if (json_kind(v) == JSON_OBJECT)
            FT_TRY(tok_json_flags(&flags, v, err));
        FT_TRY(add_token(b, content, flags | ADDED_SPECIAL, -1, err));
    }
    *id = tok_builder_find_added(b, content)->id;
    return FT_OK;
}

static ft_status read_tokens(struct tok_builder *b, const json *root, ft_error *err)
{
    static const char *const others[] = {"unk_token", "sep_token", "pad_token", "cls_token",
                                         "mask_token"};
    int32_t id;
    if (read_decoder(b, json_get(root, "added_tokens_decoder"), err) != FT_OK)
        return ft_wrap(err, "added_tokens_decoder");
    FT_TRY(read_named(&b->tok->bos, b, root, "bos_token", err));
    FT_TRY(read_named(&b->tok->eos, b, root, "eos_token", err));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        FT_TRY(read_named(&id, b, root, others[i], err));
    return FT_OK;
}

/* --- templates ---------------------------------------------------------------------------------
 */

static ft_status set_template(struct tok *t, str source, ft_error *err)
{
    t->chat_template = arena_str(&t->arena, source);
    return t->chat_template.ptr == NULL ? ft_fail_memory(err, source.len, "a chat template")
                                        : FT_OK;
}

/* A text, or a list of {"name": ..., "template": ...}, of which the one named "default" counts. */
static ft_status read_template(struct tok *t, const json *v, ft_error *err)
{
    str source, name;
    if (json_str(v, &source))
        return set_template(t, source, err);
    for (v = json_kind(v) == JSON_ARRAY ? json_first(v) : NULL; v != NULL; v = json_next(v))
        if (json_str(json_get(v, "name"), &name) && str_is(name, "default") &&
            json_str(json_get(v, "template"), &source))
            return set_template(t, source, err);
    return FT_OK;
}

/* --- the files ---------------------------------------------------------------------------------
 */

static ft_status read_config(struct tok_builder *b, const char *path, ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_load(&doc, path, JSON_STRICT, TOK_MAX_FILE_BYTES, err));
    ft_status st = read_tokens(b, json_root(doc), err);
    const json *source = json_get(json_root(doc), "chat_template");
    if (st == FT_OK && source != NULL)
        st = read_template(b->tok, source, err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

ft_status tok_json_neighbours(struct tok_builder *b, const char *path, ft_error *err)
{
    struct arena a = {0};
    str source, dir = {path, (size_t)(path_base(path) - path)};
    const char *folder = dir.len == 0 ? "." : arena_cstr(&a, dir);
    const char *config = folder == NULL ? NULL : path_join(&a, folder, "tokenizer_config.json");
    const char *jinja = folder == NULL ? NULL : path_join(&a, folder, "chat_template.jinja");
    ft_status st = FT_OK;
    if (config == NULL || jinja == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(path), "a path"));
    if (path_exists(config))
        FT_GOTO(read_config(b, config, err));
    if (path_exists(jinja)) {
        FT_GOTO(file_read_all(&source, &a, jinja, TOK_MAX_TEMPLATE_BYTES, err));
        FT_GOTO(set_template(b->tok, source, err));
    }
out:
    arena_destroy(&a);
    return st;
}
