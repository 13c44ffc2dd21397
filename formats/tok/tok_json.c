/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json, with tokenizer_config.json and chat_template.jinja beside it. Whatever decides
 * ids and is not reproduced exactly is refused by its name and place in the file. */
#include <string.h>

#include "common/file.h"
#include "formats/json.h"
#include "formats/tok/tok_internal.h"

/* "path: model.dropout: ..." is completed by the callers of these from inside out. */
static ft_status refuse(ft_error *err, const char *path, const char *what)
{
    return ft_fail(err, FT_EFORMAT, "%s: %s is not supported", path, what);
}

static bool absent(const json *v)
{
    return v == NULL || json_kind(v) == JSON_NULL;
}

/* The "type" of a component, empty when it has none. */
static str type_of(const json *component)
{
    str type;
    return json_str(json_get(component, "type"), &type) ? type : (str){"", 0};
}

static ft_status refuse_type(ft_error *err, const char *path, const json *component)
{
    return ft_fail(err, FT_EFORMAT, "%s: the component \"%.*s\" is not supported", path,
                   STR_ARG(type_of(component)));
}

static ft_status refuse_unless_absent(const json *root, const char *key, ft_error *err)
{
    return absent(json_get(root, key)) ? FT_OK : refuse(err, key, "a value other than null");
}

/* --- components --------------------------------------------------------------------------------
 */

static ft_status check_normalizer(const json *n, ft_error *err)
{
    if (absent(n) ||
        (str_is(type_of(n), "Sequence") && json_count(json_get(n, "normalizers")) == 0))
        return FT_OK;
    return refuse_type(err, "normalizer", n);
}

static ft_status check_decoder(const json *d, ft_error *err)
{
    return str_is(type_of(d), "ByteLevel") ? FT_OK : refuse_type(err, "decoder", d);
}

static const char GPT2_PATTERN[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool is_gpt2_split(const json *c)
{
    str pattern, behavior;
    bool invert = false;
    return str_is(type_of(c), "Split") &&
           json_str(json_get(json_get(c, "pattern"), "Regex"), &pattern) &&
           str_is(pattern, GPT2_PATTERN) && json_str(json_get(c, "behavior"), &behavior) &&
           str_is(behavior, "Isolated") &&
           (json_get(c, "invert") == NULL || json_bool(json_get(c, "invert"), &invert)) && !invert;
}

/* The stages met so far; ByteLevel must be the last. */
enum { DIGITS = 1, GPT2 = 2, BYTES = 4 };

static ft_status read_digits(unsigned *stages, const json *c, const char *path, ft_error *err)
{
    bool individual;
    FT_TRY(json_opt_bool(&individual, c, "individual_digits", false, err));
    if (!individual)
        return refuse(err, path, "Digits with individual_digits: false");
    *stages |= DIGITS;
    return FT_OK;
}

static ft_status read_byte_level(unsigned *stages, const json *c, const char *path, ft_error *err)
{
    bool prefix, pattern;
    FT_TRY(json_opt_bool(&prefix, c, "add_prefix_space", true, err));
    FT_TRY(json_opt_bool(&pattern, c, "use_regex", true, err));
    if (prefix)
        return refuse(err, path, "ByteLevel with add_prefix_space: true");
    /* The pattern leaves its own pieces whole, so a second time changes nothing. */
    *stages |= BYTES | (pattern ? GPT2 : 0);
    return FT_OK;
}

static ft_status read_stage(unsigned *stages, const json *c, const char *path, ft_error *err)
{
    if (*stages & BYTES)
        return refuse(err, path, "a pre-tokenizer behind ByteLevel");
    if (str_is(type_of(c), "Digits") && *stages == 0)
        return read_digits(stages, c, path, err);
    if (str_is(type_of(c), "ByteLevel"))
        return read_byte_level(stages, c, path, err);
    if (!is_gpt2_split(c) || (*stages & GPT2))
        return refuse_type(err, path, c);
    *stages |= GPT2;
    return FT_OK;
}

static ft_status read_pre_tokenizer(const struct pretok **out, const json *p, ft_error *err)
{
    unsigned stages = 0;
    if (str_is(type_of(p), "Sequence")) {
        char path[64];
        size_t i = 0;
        const json *c = json_first(json_get(p, "pretokenizers"));
        for (; c != NULL; c = json_next(c)) {
            snprintf(path, sizeof path, "pre_tokenizer.pretokenizers[%zu]", i++);
            FT_TRY(read_stage(&stages, c, path, err));
        }
    } else {
        FT_TRY(read_stage(&stages, p, "pre_tokenizer", err));
    }
    if (stages == (GPT2 | BYTES))
        *out = pretok_find(STR("gpt2"));
    else if (stages == (DIGITS | GPT2 | BYTES))
        *out = pretok_find(STR("digits+gpt2"));
    else
        return refuse(err, "pre_tokenizer",
                      "this sequence (expected ByteLevel with use_regex: true, with or without "
                      "Digits before it)");
    return FT_OK;
}

/* --- model -------------------------------------------------------------------------------------
 */

static ft_status check_affix(const json *model, const char *key, const char *path, ft_error *err)
{
    str affix;
    const json *v = json_get(model, key);
    if (absent(v) || (json_str(v, &affix) && affix.len == 0))
        return FT_OK;
    return refuse(err, path, "a value other than null");
}

static ft_status check_model(const json *model, ft_error *err)
{
    str type = type_of(model);
    double dropout;
    bool ignore_merges;
    if (!str_is(type, "BPE") && type.len != 0) /* files from before the key existed are BPE */
        return refuse_type(err, "model", model);
    if (!absent(json_get(model, "dropout")) &&
        !(json_f64(json_get(model, "dropout"), &dropout) && dropout == 0))
        return refuse(err, "model.dropout", "a value other than null");
    FT_TRY(check_affix(model, "continuing_subword_prefix", "model.continuing_subword_prefix", err));
    FT_TRY(check_affix(model, "end_of_word_suffix", "model.end_of_word_suffix", err));
    FT_TRY(json_opt_bool(&ignore_merges, model, "ignore_merges", false, err));
    return ignore_merges ? refuse(err, "model.ignore_merges", "true") : FT_OK;
}

static ft_status read_vocabulary(struct tok_builder *b, const json *vocabulary, ft_error *err)
{
    for (const json *v = json_first(vocabulary); v != NULL; v = json_next(v)) {
        int64_t id;
        if (!json_i64(v, &id))
            return ft_fail(err, FT_EFORMAT, "model.vocab: the id of \"%.*s\" is not a whole number",
                           STR_ARG(json_key(v)));
        if (tok_builder_piece(b, id, json_key(v), err) != FT_OK)
            return ft_wrap(err, "model.vocab");
    }
    return FT_OK;
}

static ft_status read_merge(struct tok_builder *b, const json *v, ft_error *err)
{
    str left, right;
    if (json_str(v, &left))
        return tok_builder_merge_pair(b, left, err);
    const json *first = json_first(v);
    if (json_kind(v) != JSON_ARRAY || json_count(v) != 2 || !json_str(first, &left) ||
        !json_str(json_next(first), &right))
        return ft_fail(err, FT_EFORMAT, "expected \"a b\" or [\"a\", \"b\"]");
    return tok_builder_merge(b, left, right, err);
}

static ft_status read_merges(struct tok_builder *b, const json *merges, ft_error *err)
{
    size_t i = 0;
    for (const json *v = json_first(merges); v != NULL; v = json_next(v), i++)
        if (read_merge(b, v, err) != FT_OK)
            return ft_wrap(err, "model.merges[%zu]", i);
    return FT_OK;
}

/* Without a token for unknown text a byte that has no token vanishes, which is reproduced; the
 * other ways to treat it are not. */
static ft_status check_unknown(const struct tok_builder *b, const json *model, ft_error *err)
{
    bool fallback;
    FT_TRY(json_opt_bool(&fallback, model, "byte_fallback", false, err));
    if (tok_builder_has_all_bytes(b))
        return FT_OK;
    if (!absent(json_get(model, "unk_token")))
        return refuse(err, "model.unk_token",
                      "a value other than null in a vocabulary without all 256 bytes");
    return fallback
               ? refuse(err, "model.byte_fallback", "true in a vocabulary without all 256 bytes")
               : FT_OK;
}

/* --- added tokens ------------------------------------------------------------------------------
 */

static ft_status read_flags(unsigned *flags, const json *v, ft_error *err)
{
    static const struct {
        const char *key;
        unsigned flag;
    } keys[] = {
        {"special", ADDED_SPECIAL}, {"single_word", ADDED_SINGLE_WORD}, {"lstrip", ADDED_LSTRIP},
        {"rstrip", ADDED_RSTRIP},   {"normalized", ADDED_NORMALIZED},
    };
    *flags = 0;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        bool set;
        FT_TRY(json_opt_bool(&set, v, keys[i].key, false, err));
        *flags |= set ? keys[i].flag : 0;
    }
    return FT_OK;
}

/* Hugging Face takes the ids of added tokens from the vocabulary or else counts on behind it,
 * whatever the file says; a file that says something else means a different tokenizer than it
 * gives. */
static ft_status read_added_token(struct tok_builder *b, const json *v, int64_t next, ft_error *err)
{
    int64_t id;
    str content;
    unsigned flags;
    FT_TRY(json_need_i64(&id, v, "id", 0, TOK_MAX_VOCAB - 1, err));
    FT_TRY(json_need_str(&content, v, "content", err));
    FT_TRY(read_flags(&flags, v, err));
    if (tok_builder_find(b, content) < 0 && id != next)
        return ft_fail(err, FT_EFORMAT, "id %lld, where Hugging Face tokenizers assigns %lld",
                       (long long)id, (long long)next);
    return tok_builder_added(b, id, content, flags, err);
}

static ft_status read_added(struct tok_builder *b, const json *added, size_t n_vocab, ft_error *err)
{
    int64_t next = (int64_t)n_vocab;
    size_t i = 0;
    for (const json *v = json_first(added); v != NULL; v = json_next(v), i++) {
        if (read_added_token(b, v, next, err) != FT_OK)
            return ft_wrap(err, "added_tokens[%zu]", i);
        next = FT_MAX(next, (int64_t)b->added[i].id + 1);
    }
    return FT_OK;
}

/* --- the file ----------------------------------------------------------------------------------
 */

static ft_status check_version(const json *root, ft_error *err)
{
    str version;
    FT_TRY(json_need_str(&version, root, "version", err));
    return str_is(version, "1.0") ? FT_OK : refuse(err, "version", "a value other than \"1.0\"");
}

static ft_status read_root(struct tok_builder *b, const struct pretok **pretok, const json *root,
                           ft_error *err)
{
    const json *model, *vocabulary, *merges, *added = json_get(root, "added_tokens");
    FT_TRY(check_version(root, err));
    FT_TRY(refuse_unless_absent(root, "truncation", err));
    FT_TRY(refuse_unless_absent(root, "padding", err));
    FT_TRY(check_normalizer(json_get(root, "normalizer"), err));
    FT_TRY(read_pre_tokenizer(pretok, json_get(root, "pre_tokenizer"), err));
    FT_TRY(check_decoder(json_get(root, "decoder"), err));
    FT_TRY(json_need(&model, root, "model", JSON_OBJECT, err));
    FT_TRY(check_model(model, err));
    FT_TRY(json_need(&vocabulary, model, "vocab", JSON_OBJECT, err));
    FT_TRY(json_need(&merges, model, "merges", JSON_ARRAY, err));
    FT_TRY(tok_builder_init(b, json_count(vocabulary), json_count(merges), json_count(added), err));
    FT_TRY(read_vocabulary(b, vocabulary, err));
    FT_TRY(read_merges(b, merges, err));
    FT_TRY(check_unknown(b, model, err));
    return read_added(b, added, json_count(vocabulary), err);
}

/* "<s>" or {"content": "<s>", ...}; an empty string when absent. */
static str token_content(const json *v)
{
    str content;
    if (json_str(v, &content) || json_str(json_get(v, "content"), &content))
        return content;
    return (str){"", 0};
}

static int32_t added_id(const struct tok_builder *b, str content)
{
    for (size_t i = 0; i < b->n_added; i++)
        if (str_eq(b->added[i].content, content))
            return b->added[i].id;
    return -1;
}

static ft_status set_template(struct tok *t, str source, ft_error *err)
{
    t->chat_template = arena_str(&t->arena, source);
    return t->chat_template.ptr == NULL ? ft_fail_memory(err, source.len, "a chat template")
                                        : FT_OK;
}

static ft_status read_config(struct tok_builder *b, const char *path, ft_error *err)
{
    struct json_doc *doc;
    str source;
    ft_status st = FT_OK;
    FT_TRY(json_load(&doc, path, JSON_STRICT, TOK_MAX_FILE_BYTES, err));
    const json *root = json_root(doc);
    b->tok->bos = added_id(b, token_content(json_get(root, "bos_token")));
    b->tok->eos = added_id(b, token_content(json_get(root, "eos_token")));
    if (json_str(json_get(root, "chat_template"), &source))
        st = set_template(b->tok, source, err);
    json_close(doc);
    return st;
}

/* The files that transformers keeps beside tokenizer.json; both may be missing. */
static ft_status read_neighbours(struct tok_builder *b, const char *path, ft_error *err)
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

/* neighbours: whether the name is a path whose folder may hold more. */
static ft_status build(struct tok **out, const json *root, const char *name, bool neighbours,
                       ft_error *err)
{
    struct tok_builder b = {0};
    const struct pretok *pretok = NULL;
    ft_status st = read_root(&b, &pretok, root, err);
    if (st != FT_OK)
        FT_GOTO(ft_wrap(err, "%s", name));
    if (neighbours)
        FT_GOTO(read_neighbours(&b, name, err));
    st = tok_builder_finish(out, &b, pretok, err);
    if (st != FT_OK)
        st = ft_wrap(err, "%s", name);
out:
    tok_builder_destroy(&b);
    return st;
}

ft_status tok_json_parse(struct tok **out, const char *name, str text, ft_error *err)
{
    struct json_doc *doc;
    *out = NULL;
    FT_TRY(json_parse(&doc, name, text, JSON_STRICT, err));
    ft_status st = build(out, json_root(doc), name, false, err);
    json_close(doc);
    return st;
}

ft_status tok_json_load(struct tok **out, const char *path, ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_load(&doc, path, JSON_STRICT, TOK_MAX_FILE_BYTES, err));
    ft_status st = build(out, json_root(doc), path, true, err);
    json_close(doc);
    return st;
}
