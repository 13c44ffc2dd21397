/* SPDX-License-Identifier: Apache-2.0
 * The components of a tokenizer.json around its model. Whatever decides ids and is not reproduced
 * exactly is refused by its name and place in the file. */
#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "formats/json.h"
#include "formats/tok/tok_internal.h"

struct reader {
    struct tok_builder *b;
    bool byte_level; /* ByteLevel was met */
    ft_error *err;
};

/* "path: model.dropout: ..." is completed by the callers of these from inside out. */
static ft_status refuse(struct reader *r, const char *path, const char *what)
{
    return ft_fail(r->err, FT_EFORMAT, "%s: %s is not supported", path, what);
}

static bool absent(const json *v)
{
    return v == NULL || json_kind(v) == JSON_NULL;
}

static str type_of(const json *component)
{
    str type;
    return json_str(json_get(component, "type"), &type) ? type : (str){"", 0};
}

static ft_status refuse_type(struct reader *r, const char *path, const json *component)
{
    return ft_fail(r->err, FT_EFORMAT, "%s: the component \"%.*s\" is not supported", path,
                   STR_ARG(type_of(component)));
}

typedef ft_status component_fn(struct reader *r, const json *c, const char *path);

/* A component, or the members of a Sequence one after the other. */
static ft_status read_sequence(struct reader *r, const json *c, const char *path, const char *list,
                               component_fn *fn)
{
    char inner[128];
    size_t i = 0;
    if (!str_is(type_of(c), "Sequence"))
        return fn(r, c, path);
    if (json_kind(json_get(c, list)) != JSON_ARRAY)
        return ft_fail(r->err, FT_EFORMAT, "%s: the Sequence has no list \"%s\"", path, list);
    for (const json *v = json_first(json_get(c, list)); v != NULL; v = json_next(v)) {
        snprintf(inner, sizeof inner, "%.90s.%s[%zu]", path, list, i++);
        FT_TRY(fn(r, v, inner));
    }
    return FT_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static ft_status read_pattern(str *pattern, bool *regex, struct reader *r, const json *c,
                              const char *path)
{
    const json *p = json_get(c, "pattern");
    *regex = json_str(json_get(p, "Regex"), pattern);
    if (!*regex && !json_str(json_get(p, "String"), pattern))
        return ft_fail(r->err, FT_EFORMAT,
                       "%s: pattern: expected {\"String\": ...} or "
                       "{\"Regex\": ...}",
                       path);
    return FT_OK;
}

static ft_status need_str(str *out, struct reader *r, const json *c, const char *key,
                          const char *path)
{
    return json_need_str(out, c, key, r->err) == FT_OK ? FT_OK : ft_wrap(r->err, "%s", path);
}

static ft_status opt_bool(bool *out, struct reader *r, const json *c, const char *key,
                          bool fallback, const char *path)
{
    return json_opt_bool(out, c, key, fallback, r->err) == FT_OK ? FT_OK
                                                                 : ft_wrap(r->err, "%s", path);
}

/* --- normalizer -------------------------------------------------------------------------------
 */

static ft_status read_replace(struct reader *r, const json *c, const char *path)
{
    struct normalize_step step = {0};
    bool regex;
    FT_TRY(read_pattern(&step.pattern, &regex, r, c, path));
    FT_TRY(need_str(&step.content, r, c, "content", path));
    step.kind = regex ? NORMALIZE_REGEX : NORMALIZE_REPLACE;
    return tok_builder_normalize(r->b, step, r->err);
}

static ft_status read_strip(struct reader *r, const json *c, const char *path)
{
    bool left, right;
    FT_TRY(opt_bool(&left, r, c, "strip_left", true, path));
    FT_TRY(opt_bool(&right, r, c, "strip_right", true, path));
    return tok_builder_normalize(r->b,
                                 (struct normalize_step){.kind = NORMALIZE_STRIP,
                                                         .flags = (left ? NORMALIZE_LEFT : 0u) |
                                                                  (right ? NORMALIZE_RIGHT : 0u)},
                                 r->err);
}

static ft_status read_precompiled(struct reader *r, const json *c, const char *path)
{
    struct buf bytes = {0};
    str text;
    FT_TRY(need_str(&text, r, c, "precompiled_charsmap", path));
    bool valid = base64_decode(&bytes, text);
    ft_status st = buf_status(&bytes, "a normalizer", r->err);
    if (st == FT_OK && !valid)
        st = ft_fail(r->err, FT_EFORMAT, "%s: precompiled_charsmap is not base64", path);
    if (st == FT_OK)
        st = tok_builder_normalize(
            r->b,
            (struct normalize_step){.kind = NORMALIZE_PRECOMPILED, .content = buf_view(&bytes)},
            r->err);
    buf_free(&bytes);
    return st;
}

static ft_status read_normalizer(struct reader *r, const json *c, const char *path)
{
    static const struct {
        const char *type;
        enum normalize_kind kind;
    } simple[] = {
        {"NFC", NORMALIZE_NFC},
        {"NFD", NORMALIZE_NFD},
        {"NFKC", NORMALIZE_NFKC},
        {"NFKD", NORMALIZE_NFKD},
        {"Lowercase", NORMALIZE_LOWERCASE},
        {"StripAccents", NORMALIZE_STRIP_ACCENTS},
    };
    str type = type_of(c);
    struct normalize_step step = {.kind = NORMALIZE_PREPEND};
    if (str_is(type, "Sequence"))
        return read_sequence(r, c, path, "normalizers", read_normalizer);
    if (str_is(type, "Replace"))
        return read_replace(r, c, path);
    if (str_is(type, "Strip"))
        return read_strip(r, c, path);
    if (str_is(type, "Precompiled"))
        return read_precompiled(r, c, path);
    if (str_is(type, "Prepend")) {
        FT_TRY(need_str(&step.content, r, c, "prepend", path));
        return step.content.len == 0 ? FT_OK : tok_builder_normalize(r->b, step, r->err);
    }
    for (size_t i = 0; i < ARRAY_LEN(simple); i++) {
        if (str_is(type, simple[i].type)) {
            step.kind = simple[i].kind;
            return tok_builder_normalize(r->b, step, r->err);
        }
    }
    return refuse_type(r, path, c);
}

/* --- pre_tokenizer ----------------------------------------------------------------------------
 */

static ft_status read_behavior(enum pretok_behavior *out, struct reader *r, const json *c,
                               const char *path)
{
    static const char *const names[PRETOK_BEHAVIORS] = {
        [PRETOK_ISOLATED] = "Isolated",
        [PRETOK_REMOVED] = "Removed",
        [PRETOK_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [PRETOK_MERGED_WITH_NEXT] = "MergedWithNext",
        [PRETOK_CONTIGUOUS] = "Contiguous",
    };
    str name;
    FT_TRY(need_str(&name, r, c, "behavior", path));
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(name, names[i])) {
            *out = (enum pretok_behavior)i;
            return FT_OK;
        }
    }
    return ft_fail(r->err, FT_EFORMAT, "%s: behavior: \"%.*s\" is not supported", path,
                   STR_ARG(name));
}

/* The pattern leaves its own pieces whole, so a second time changes nothing. */
static ft_status add_gpt2(struct reader *r)
{
    const struct tok_steps *s = &r->b->tok->steps;
    if (s->n_stages > 0 && s->stages[s->n_stages - 1].kind == PRETOK_BYTE_LEVEL)
        return FT_OK;
    return tok_builder_stage(r->b, (struct pretok_stage){.kind = PRETOK_BYTE_LEVEL}, r->err);
}

/* The two characters \\n and a line end mean the same in a pattern; one of them is kept, so that
 * equal pre-tokenizers have equal fingerprints. */
static ft_status escape_line_ends(str *pattern, struct reader *r)
{
    struct buf out = {0};
    if (str_find(*pattern, STR("(?x")) < pattern->len)
        return FT_OK;
    for (size_t i = 0; i < pattern->len; i++) {
        char c = pattern->ptr[i];
        bool quoted = i > 0 && pattern->ptr[i - 1] == '\\';
        if ((c == '\n' || c == '\r') && !quoted)
            buf_cstr(&out, c == '\n' ? "\\n" : "\\r");
        else
            buf_byte(&out, (uint8_t)c);
    }
    ft_status st = buf_status(&out, "a pattern", r->err);
    if (st == FT_OK) {
        *pattern = arena_str(&r->b->scratch, buf_view(&out));
        st = pattern->ptr == NULL ? ft_fail_memory(r->err, out.len, "a pattern") : FT_OK;
    }
    buf_free(&out);
    return st;
}

static ft_status read_split(struct reader *r, const json *c, const char *path)
{
    struct pretok_stage stage = {.kind = PRETOK_SPLIT};
    bool regex;
    FT_TRY(read_pattern(&stage.pattern, &regex, r, c, path));
    FT_TRY(read_behavior(&stage.behavior, r, c, path));
    FT_TRY(opt_bool(&stage.invert, r, c, "invert", false, path));
    stage.dialect = regex ? PRETOK_ONIGURUMA : PRETOK_LITERAL;
    if (regex)
        FT_TRY(escape_line_ends(&stage.pattern, r));
    if (!regex && str_is(stage.pattern, " ") && !stage.invert &&
        tok_steps_leave_no_space(&r->b->tok->steps))
        return FT_OK;
    if (regex && str_is(stage.pattern, TOK_GPT2_PATTERN) && !stage.invert &&
        stage.behavior == PRETOK_ISOLATED)
        return add_gpt2(r);
    return tok_builder_stage(r->b, stage, r->err);
}

static ft_status read_byte_level(struct reader *r, const json *c, const char *path)
{
    struct tok_steps *s = &r->b->tok->steps;
    bool prefix, pattern;
    FT_TRY(opt_bool(&prefix, r, c, "add_prefix_space", true, path));
    FT_TRY(opt_bool(&pattern, r, c, "use_regex", true, path));
    if (prefix && s->n_stages > 0)
        return refuse(r, path, "ByteLevel with add_prefix_space: true behind other stages");
    if (prefix)
        s->lead = TOK_LEAD_SPACE;
    r->byte_level = true;
    return pattern ? add_gpt2(r) : FT_OK;
}

/* prepend_scheme, and add_prefix_space of older files. */
static ft_status read_lead(struct reader *r, const json *c, const char *path)
{
    struct tok_steps *s = &r->b->tok->steps;
    str scheme = STR("always");
    bool prefix;
    if (!absent(json_get(c, "prepend_scheme")))
        FT_TRY(need_str(&scheme, r, c, "prepend_scheme", path));
    FT_TRY(opt_bool(&prefix, r, c, "add_prefix_space", true, path));
    if (str_is(scheme, "never"))
        s->lead = TOK_LEAD_NONE;
    else if (str_is(scheme, "first"))
        s->lead = TOK_LEAD_FIRST;
    else if (str_is(scheme, "always"))
        s->lead = TOK_LEAD_ALWAYS;
    else
        return ft_fail(r->err, FT_EFORMAT, "%s: prepend_scheme: \"%.*s\" is not supported", path,
                       STR_ARG(scheme));
    if (!prefix && s->lead != TOK_LEAD_NONE)
        return ft_fail(r->err, FT_EFORMAT,
                       "%s: add_prefix_space: false contradicts prepend_scheme: \"%.*s\"", path,
                       STR_ARG(scheme));
    return FT_OK;
}

static ft_status read_metaspace(struct reader *r, const json *c, const char *path)
{
    str mark;
    FT_TRY(need_str(&mark, r, c, "replacement", path));
    if (!str_is(mark, MODEL_MARK))
        return refuse(r, path, "Metaspace with a replacement other than U+2581");
    FT_TRY(read_lead(r, c, path));
    r->b->tok->steps.metaspace = true;
    return opt_bool(&r->b->tok->steps.split, r, c, "split", true, path);
}

static ft_status read_digits(struct reader *r, const json *c, const char *path)
{
    bool individual;
    FT_TRY(opt_bool(&individual, r, c, "individual_digits", false, path));
    return tok_builder_stage(
        r->b,
        (struct pretok_stage){.kind = PRETOK_DIGITS,
                              .behavior = individual ? PRETOK_ISOLATED : PRETOK_CONTIGUOUS},
        r->err);
}

static ft_status read_punctuation(struct reader *r, const json *c, const char *path)
{
    struct pretok_stage stage = {.kind = PRETOK_PUNCTUATION};
    if (!absent(json_get(c, "behavior")))
        FT_TRY(read_behavior(&stage.behavior, r, c, path));
    return tok_builder_stage(r->b, stage, r->err);
}

static ft_status read_white_space(struct reader *r, const json *c, const char *path)
{
    (void)path;
    bool split = str_is(type_of(c), "WhitespaceSplit");
    return tok_builder_stage(
        r->b, (struct pretok_stage){.kind = split ? PRETOK_WHITESPACE_SPLIT : PRETOK_WHITESPACE},
        r->err);
}

static ft_status read_pre_tokenizer(struct reader *r, const json *c, const char *path)
{
    static const struct {
        const char *type;
        component_fn *read;
    } kinds[] = {
        {"Split", read_split},
        {"ByteLevel", read_byte_level},
        {"Metaspace", read_metaspace},
        {"Digits", read_digits},
        {"Punctuation", read_punctuation},
        {"Whitespace", read_white_space},
        {"WhitespaceSplit", read_white_space},
    };
    if (str_is(type_of(c), "Sequence"))
        return read_sequence(r, c, path, "pretokenizers", read_pre_tokenizer);
    if (r->byte_level)
        return refuse(r, path, "a pre-tokenizer behind ByteLevel");
    if (r->b->tok->steps.metaspace)
        return refuse(r, path, "a pre-tokenizer behind Metaspace");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_is(type_of(c), kinds[i].type))
            return kinds[i].read(r, c, path);
    return refuse_type(r, path, c);
}

/* --- decoder ----------------------------------------------------------------------------------
 */

static ft_status read_decode_replace(struct reader *r, const json *c, const char *path)
{
    struct decode_step step = {.kind = DECODE_REPLACE};
    bool regex;
    FT_TRY(read_pattern(&step.pattern, &regex, r, c, path));
    FT_TRY(need_str(&step.content, r, c, "content", path));
    if (regex)
        return refuse(r, path, "Replace with a regular expression");
    return tok_builder_decode(r->b, step, r->err);
}

static ft_status read_decode_strip(struct reader *r, const json *c, const char *path)
{
    struct decode_step step = {.kind = DECODE_STRIP};
    int64_t start, stop;
    FT_TRY(need_str(&step.content, r, c, "content", path));
    if (json_need_i64(&start, c, "start", 0, 1 << 20, r->err) != FT_OK ||
        json_need_i64(&stop, c, "stop", 0, 1 << 20, r->err) != FT_OK)
        return ft_wrap(r->err, "%s", path);
    if (stop != 0)
        return refuse(r, path, "Strip at the end");
    step.n = (unsigned)start;
    return step.n == 0 ? FT_OK : tok_builder_decode(r->b, step, r->err);
}

static ft_status read_decode_metaspace(struct reader *r, const json *c, const char *path)
{
    struct decode_step step = {.kind = DECODE_METASPACE, .n = 1};
    str mark, scheme;
    FT_TRY(need_str(&mark, r, c, "replacement", path));
    if (!str_is(mark, MODEL_MARK))
        return refuse(r, path, "Metaspace with a replacement other than U+2581");
    bool prefix;
    FT_TRY(opt_bool(&prefix, r, c, "add_prefix_space", true, path));
    if (!prefix || (json_str(json_get(c, "prepend_scheme"), &scheme) && str_is(scheme, "never")))
        step.n = 0;
    return tok_builder_decode(r->b, step, r->err);
}

static ft_status read_decoder(struct reader *r, const json *c, const char *path)
{
    str type = type_of(c);
    struct decode_step step = {.kind = DECODE_FUSE};
    if (str_is(type, "Sequence"))
        return read_sequence(r, c, path, "decoders", read_decoder);
    if (str_is(type, "Replace"))
        return read_decode_replace(r, c, path);
    if (str_is(type, "Strip"))
        return read_decode_strip(r, c, path);
    if (str_is(type, "Metaspace"))
        return read_decode_metaspace(r, c, path);
    if (str_is(type, "ByteLevel"))
        step.kind = DECODE_BYTE_LEVEL;
    else if (str_is(type, "ByteFallback"))
        step.kind = DECODE_BYTE_FALLBACK;
    else if (!str_is(type, "Fuse"))
        return refuse_type(r, path, c);
    return tok_builder_decode(r->b, step, r->err);
}

/* --- all of them ------------------------------------------------------------------------------
 */

ft_status tok_json_steps(bool *byte_level, struct tok_builder *b, const json *root, ft_error *err)
{
    struct reader r = {.b = b, .err = err};
    const json *normalizer = json_get(root, "normalizer");
    const json *pre_tokenizer = json_get(root, "pre_tokenizer");
    const struct tok_steps *s = &b->tok->steps;
    if (!absent(normalizer))
        FT_TRY(read_normalizer(&r, normalizer, "normalizer"));
    if (!absent(pre_tokenizer))
        FT_TRY(read_pre_tokenizer(&r, pre_tokenizer, "pre_tokenizer"));
    FT_TRY(read_decoder(&r, json_get(root, "decoder"), "decoder"));
    bool bytes = s->n_decode == 1 && s->decode[0].kind == DECODE_BYTE_LEVEL;
    if (bytes != r.byte_level)
        return refuse(&r, "decoder",
                      bytes ? "ByteLevel without the pre-tokenizer ByteLevel"
                            : "a decoder other than ByteLevel behind the pre-tokenizer ByteLevel");
    *byte_level = r.byte_level;
    return FT_OK;
}
