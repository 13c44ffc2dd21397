/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json. Whatever decides ids and is not reproduced exactly is refused by its name and
 * place in the file. */
#include <string.h>

#include "common/file.h"
#include "formats/json.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_internal.h"
#include "formats/tok/tok_json_lists.h"

/* One file. */
struct source {
    const char *name;
    str text;
    bool neighbours; /* the name is a path whose folder may hold more */
    struct tok_json_lists lists;
    bool malformed; /* the lists are no JSON, or not such lists */
};

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

static ft_status read_flag(struct tok_model *m, const json *model, const char *key, unsigned flag,
                           ft_error *err)
{
    bool set;
    FT_TRY(json_opt_bool(&set, model, key, false, err));
    m->flags |= set ? flag : 0;
    return FT_OK;
}

static ft_status read_bpe_options(struct tok_model *m, const json *model, ft_error *err)
{
    double dropout;
    if (!absent(json_get(model, "dropout")) &&
        !(json_f64(json_get(model, "dropout"), &dropout) && dropout == 0))
        return refuse(err, "model.dropout", "a value other than null");
    FT_TRY(check_affix(model, "continuing_subword_prefix", "model.continuing_subword_prefix", err));
    FT_TRY(check_affix(model, "end_of_word_suffix", "model.end_of_word_suffix", err));
    FT_TRY(read_flag(m, model, "byte_fallback", MODEL_BYTE_FALLBACK, err));
    FT_TRY(read_flag(m, model, "fuse_unk", MODEL_FUSE_UNK, err));
    return read_flag(m, model, "ignore_merges", MODEL_IGNORE_MERGES, err);
}

/* Files from before the key existed are BPE. */
static ft_status read_kind(struct tok_model *m, const json *model, bool byte_level, ft_error *err)
{
    str type = type_of(model);
    if (str_is(type, "Unigram") && !byte_level) {
        m->kind = MODEL_UNIGRAM;
        return read_flag(m, model, "byte_fallback", MODEL_BYTE_FALLBACK, err);
    }
    if (str_is(type, "Unigram"))
        return refuse(err, "model", "Unigram behind the pre-tokenizer ByteLevel");
    if (!str_is(type, "BPE") && type.len != 0)
        return refuse_type(err, "model", model);
    m->kind = byte_level ? MODEL_BPE_BYTES : MODEL_BPE_CHARS;
    return read_bpe_options(m, model, err);
}

static bool has_all_bytes(const struct tok_builder *b)
{
    for (uint32_t c = 0; c < 0x144; c++) {
        char piece[4];
        if (byte_level_byte(c) >= 0 &&
            tok_builder_find(b, (str){piece, str_utf8_put(piece, c)}) < 0)
            return false;
    }
    return true;
}

/* What becomes of text without a token. With all bytes there is none; then the options mean nothing
 * and are not kept, so that they do not count in the fingerprint. */
static ft_status read_unknown(struct tok_builder *b, const json *model, ft_error *err)
{
    struct tok_model *m = &b->tok->model;
    str unk;
    if (m->kind == MODEL_BPE_BYTES && has_all_bytes(b)) {
        m->flags &= ~(unsigned)(MODEL_BYTE_FALLBACK | MODEL_FUSE_UNK);
        return FT_OK;
    }
    if (m->kind == MODEL_BPE_BYTES && (m->flags & MODEL_BYTE_FALLBACK))
        return refuse(err, "model.byte_fallback", "true in a vocabulary without all 256 bytes");
    if (absent(json_get(model, "unk_token"))) {
        m->flags &= ~(unsigned)MODEL_FUSE_UNK;
        return FT_OK;
    }
    FT_TRY(json_need_str(&unk, model, "unk_token", err));
    m->unk = tok_builder_find(b, unk);
    if (m->unk < 0)
        return ft_fail(err, FT_EFORMAT, "model.unk_token: \"%.*s\" is not in the vocabulary",
                       STR_ARG(unk));
    return FT_OK;
}

static ft_status read_bpe(struct source *s, struct tok_builder *b, const json *model, ft_error *err)
{
    const json *ignored;
    FT_TRY(json_need(&ignored, model, "vocab", JSON_OBJECT, err));
    FT_TRY(json_need(&ignored, model, "merges", JSON_ARRAY, err));
    if (s->lists.vocab.ptr == NULL || s->lists.merges.ptr == NULL)
        return ft_fail(err, FT_EFORMAT,
                       "model: \"vocab\" and \"merges\" are not found in the text");
    FT_TRY(tok_builder_reserve(b, tok_json_count_pieces(&s->lists),
                               tok_json_count_merges(&s->lists), err));
    FT_TRY(tok_json_read_pieces(b, &s->lists, &s->malformed, err));
    FT_TRY(tok_json_read_merges(b, &s->lists, &s->malformed, err));
    return read_unknown(b, model, err);
}

static ft_status read_unigram(struct tok_builder *b, const json *model, ft_error *err)
{
    const json *vocabulary;
    int64_t id = 0, unk;
    FT_TRY(json_need(&vocabulary, model, "vocab", JSON_ARRAY, err));
    FT_TRY(tok_builder_reserve(b, json_count(vocabulary), 0, err));
    for (const json *v = json_first(vocabulary); v != NULL; v = json_next(v), id++) {
        str piece;
        double score;
        const json *first = json_first(v);
        if (json_kind(v) != JSON_ARRAY || json_count(v) != 2 || !json_str(first, &piece) ||
            !json_f64(json_next(first), &score))
            return ft_fail(err, FT_EFORMAT, "model.vocab[%lld]: expected [\"piece\", score]",
                           (long long)id);
        if (tok_builder_scored(b, id, piece, score, err) != FT_OK)
            return ft_wrap(err, "model.vocab");
    }
    if (absent(json_get(model, "unk_id")))
        return FT_OK;
    if (json_need_i64(&unk, model, "unk_id", 0, id - 1, err) != FT_OK)
        return ft_wrap(err, "model");
    b->tok->model.unk = (int32_t)unk;
    return FT_OK;
}

/* --- added tokens ------------------------------------------------------------------------------
 */

ft_status tok_json_flags(unsigned *flags, const json *v, ft_error *err)
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
static ft_status read_added_token(struct tok_builder *b, const json *v, int64_t *next,
                                  ft_error *err)
{
    int64_t id;
    str content;
    unsigned flags;
    FT_TRY(json_need_i64(&id, v, "id", 0, TOK_MAX_VOCAB - 1, err));
    FT_TRY(json_need_str(&content, v, "content", err));
    FT_TRY(tok_json_flags(&flags, v, err));
    bool known = tok_builder_find(b, content) >= 0 || tok_builder_find_added(b, content) != NULL;
    if (!known && id != (*next)++)
        return ft_fail(err, FT_EFORMAT, "id %lld, where Hugging Face tokenizers assigns %lld",
                       (long long)id, (long long)*next - 1);
    return tok_builder_added(b, id, content, flags, err);
}

static ft_status read_added(struct tok_builder *b, const json *added, size_t n_vocab, ft_error *err)
{
    int64_t next = (int64_t)n_vocab;
    size_t i = 0;
    for (const json *v = json_first(added); v != NULL; v = json_next(v), i++)
        if (read_added_token(b, v, &next, err) != FT_OK)
            return ft_wrap(err, "added_tokens[%zu]", i);
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

static ft_status read_root(struct source *s, struct tok_builder *b, const json *root, ft_error *err)
{
    const json *model, *added = json_get(root, "added_tokens");
    bool byte_level;
    FT_TRY(check_version(root, err));
    FT_TRY(refuse_unless_absent(root, "truncation", err));
    FT_TRY(refuse_unless_absent(root, "padding", err));
    FT_TRY(tok_json_steps(&byte_level, b, root, err));
    FT_TRY(json_need(&model, root, "model", JSON_OBJECT, err));
    FT_TRY(read_kind(&b->tok->model, model, byte_level, err));
    if (b->tok->model.kind == MODEL_UNIGRAM)
        FT_TRY(read_unigram(b, model, err));
    else
        FT_TRY(read_bpe(s, b, model, err));
    return read_added(b, added, b->n_pieces, err);
}

static ft_status build(struct tok **out, struct source *s, const json *root, ft_error *err)
{
    struct tok_builder b = {0};
    struct json_doc *whole;
    ft_status st = tok_builder_init(&b, err);
    if (st == FT_OK)
        st = read_root(s, &b, root, err);
    if (st != FT_OK)
        st = ft_wrap(err, "%s", s->name);
    if (s->malformed) {
        ft_error better;
        if (json_parse(&whole, s->name, s->text, JSON_STRICT, &better) != FT_OK)
            *err = better;
        else
            json_close(whole);
        FT_GOTO(err->status);
    }
    if (st != FT_OK)
        goto out;
    if (s->neighbours)
        FT_GOTO(tok_json_neighbours(&b, s->name, err));
    st = tok_builder_finish(out, &b, err);
    if (st != FT_OK)
        st = ft_wrap(err, "%s", s->name);
out:
    tok_builder_destroy(&b);
    return st;
}

static ft_status parse(struct tok **out, struct source *s, ft_error *err)
{
    struct json_doc *doc = NULL;
    struct buf rest = {0};
    ft_status st;
    *out = NULL;
    FT_GOTO(tok_json_cut_lists(&s->lists, &rest, s->text, err));
    FT_GOTO(json_parse(&doc, s->name, buf_view(&rest), JSON_STRICT, err));
    st = s->neighbours && tok_tekken_looks_like(json_root(doc))
             ? tok_tekken_build(out, s->name, json_root(doc), err)
             : build(out, s, json_root(doc), err);
out:
    json_close(doc);
    buf_free(&rest);
    return st;
}

ft_status tok_json_parse(struct tok **out, const char *name, str text, ft_error *err)
{
    struct source s = {.name = name, .text = text};
    return parse(out, &s, err);
}

ft_status tok_json_load(struct tok **out, const char *path, ft_error *err)
{
    struct source s = {.name = path, .neighbours = true};
    struct arena a = {0};
    *out = NULL;
    ft_status st = file_read_all(&s.text, &a, path, TOK_MAX_FILE_BYTES, err);
    if (st == FT_OK)
        st = parse(out, &s, err);
    arena_destroy(&a);
    return st;
}
