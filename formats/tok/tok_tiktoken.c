/* SPDX-License-Identifier: Apache-2.0
 * tiktoken rank files: lines of base64, a space, a rank. The file holds neither the pattern nor the
 * special tokens: both come from FILE.json beside it, or the file is one of those known here. */
#include <stdio.h>
#include <string.h>

#include "common/base64.h"
#include "common/file.h"
#include "formats/json.h"
#include "formats/tok/pretok_patterns.h"
#include "formats/tok/tok_ranks.h"

#define PATTERN_QWEN3                                                                              \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                  \
    "?[^\\s\\p{L}\\p{M}"                                                                           \
    "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Special tokens have ids that count on from first_id and stand in a list separated by blanks:
 * "<|x|>" is one, "<|x_#|>:2-245" one for each number in place of the #, and "@300" makes the next
 * id 300. */
struct known {
    const char *name;
    uint64_t hash; /* XXH3-64 of the file */
    const char *pattern;
    int64_t first_id;
    const char *specials, *bos, *eos;
};

enum { MAX_SIDECAR_BYTES = 16 << 20 };

static const struct known known[] = {
    {"Llama 3", UINT64_C(0xE7339703BB9E9D7B), PATTERN_LLAMA3, 128000,
     "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "
     "<|finetune_right_pad_id|> <|step_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> "
     "<|eot_id|> <|python_tag|> <|image|> <|reserved_special_token_#|>:2-245",
     "<|begin_of_text|>", "<|end_of_text|>"},
    {"Llama 4", UINT64_C(0xD2FC82DAE9636E64), PATTERN_O200K, 200000,
     "<|begin_of_text|> <|end_of_text|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> "
     "<|header_start|> <|header_end|> <|eom|> <|eot|> <|step|> "
     "<|text_post_train_reserved_special_token_#|>:0-5 <|python_start|> <|python_end|> "
     "<|finetune_right_pad|> <|text_post_train_reserved_special_token_#|>:8-68 <|image_start|> "
     "<|image_end|> <|vision_reserved_special_token_#|>:0-1 <|tile_x_separator|> "
     "<|tile_y_separator|> <|vision_reserved_special_token_#|>:2-5 <|image|> "
     "<|vision_reserved_special_token_6|> <|patch|> <|vision_reserved_special_token_#|>:7-1047 "
     "<|reasoning_reserved_special_token_#|>:0-7 <|reasoning_thinking_start|> "
     "<|reasoning_thinking_end|> <|reserved_special_token_#|>:0-903",
     "<|begin_of_text|>", "<|end_of_text|>"},
    {"Qwen", UINT64_C(0x9F288EFCB5368AAB), PATTERN_QWEN2, 151643,
     "<|endoftext|> <|im_start|> <|im_end|> <|extra_#|>:0-204", NULL, "<|endoftext|>"},
    {"Qwen 3.5", UINT64_C(0x2A38D0D36C85CBAE), PATTERN_QWEN3, 248044,
     "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> "
     "<|box_end|> <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> "
     "<|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> "
     "<|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> "
     "<think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> "
     "<tts_text_bos_single> <|audio_pad|>",
     NULL, "<|endoftext|>"},
    {"cl100k", UINT64_C(0xAA5D7BF38900641A), PATTERN_CL100K, 100257,
     "<|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> @100276 <|endofprompt|>", NULL,
     "<|endoftext|>"},
    {"o200k", UINT64_C(0x72A095E82CA109D6), PATTERN_O200K, 199999,
     "<|endoftext|> @200018 <|endofprompt|>", NULL, "<|endoftext|>"},
};

/* --- ranks ------------------------------------------------------------------------------------ */

static ft_status read_line(struct tok_ranks *r, str line, ft_error *err)
{
    str rest = line, token = str_cut(&rest, ' ');
    int64_t rank;
    if (!str_to_i64(rest, &rank) || rank < 0 || rank >= TOK_MAX_VOCAB)
        return ft_fail(err, FT_EFORMAT,
                       "expected a token in base64, a space and its rank, found \"%.*s\"",
                       (int)FT_MIN(line.len, (size_t)60), line.ptr);
    return tok_ranks_add(r, token, rank, err);
}

static ft_status read_ranks(struct tok_ranks *r, str text, ft_error *err)
{
    for (size_t n = 1; text.len > 0; n++) {
        str line = str_cut(&text, '\n');
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0 && read_line(r, line, err) != FT_OK)
            return ft_wrap(err, "line %zu", n);
    }
    return r->n > 0 ? FT_OK : ft_fail(err, FT_EFORMAT, "no tokens in the file");
}

/* --- known files ------------------------------------------------------------------------------ */

/* "<|x_#|>:2-245" */
static ft_status add_numbered(struct tok_builder *b, int64_t *id, str entry, ft_error *err)
{
    str range = entry, name = str_cut(&range, ':'), last = range, first = str_cut(&last, '-');
    str tail = name, head = str_cut(&tail, '#');
    int64_t from, to;
    char text[64];
    FT_ASSERT(str_to_i64(first, &from) && str_to_i64(last, &to));
    for (int64_t i = from; i <= to; i++) {
        int n = snprintf(text, sizeof text, "%.*s%d%.*s", STR_ARG(head), (int)i, STR_ARG(tail));
        FT_TRY(tok_builder_added(b, (*id)++, (str){text, (size_t)n}, ADDED_SPECIAL, err));
    }
    return FT_OK;
}

static ft_status add_known(struct tok_builder *b, const struct known *k, ft_error *err)
{
    str rest = str_from(k->specials);
    int64_t id = k->first_id;
    while (rest.len > 0) {
        str entry = str_cut(&rest, ' ');
        if (entry.ptr[0] == '@')
            FT_ASSERT(str_to_i64(str_sub(entry, 1, entry.len), &id));
        else if (memchr(entry.ptr, '#', entry.len) != NULL)
            FT_TRY(add_numbered(b, &id, entry, err));
        else
            FT_TRY(tok_builder_added(b, id++, entry, ADDED_SPECIAL, err));
    }
    b->tok->bos = k->bos == NULL ? -1 : tok_ranks_special(b, str_from(k->bos));
    b->tok->eos = tok_ranks_special(b, str_from(k->eos));
    return FT_OK;
}

static ft_status add_pattern(struct tok_builder *b, str pattern, ft_error *err)
{
    return tok_builder_stage(b,
                             (struct pretok_stage){.kind = PRETOK_SPLIT,
                                                   .behavior = PRETOK_ISOLATED,
                                                   .dialect = PRETOK_FANCY,
                                                   .pattern = pattern},
                             err);
}

static ft_status build_known(struct tok_builder *b, struct tok_ranks *r, str text, ft_error *err)
{
    uint64_t hash = hash64(text.ptr, text.len);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].hash != hash)
            continue;
        FT_TRY(tok_ranks_build(b, r, 0, err));
        FT_TRY(add_known(b, &known[i], err));
        return add_pattern(b, str_from(known[i].pattern), err);
    }
    return ft_fail(err, FT_EFORMAT,
                   "not one of the known rank files (Llama 3, Llama 4, Qwen, Qwen 3.5, cl100k, "
                   "o200k), and the file says neither how text is cut nor which special tokens "
                   "there are: write {\"pattern\": \"...\", \"special_tokens\": {\"<|x|>\": "
                   "id}} into the same name with .json behind it");
}

/* --- FILE.json -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *pattern;
} named_patterns[] = {
    {"llama3", PATTERN_LLAMA3}, {"qwen2", PATTERN_QWEN2}, {"qwen3.5", PATTERN_QWEN3},
    {"cl100k", PATTERN_CL100K}, {"r50k", PATTERN_R50K},   {"o200k", PATTERN_O200K},
    {"tekken", PATTERN_TEKKEN},
};

static ft_status add_special(struct tok_builder *b, const json *v, ft_error *err)
{
    int64_t id;
    if (!json_i64(v, &id) || id < 0 || id >= TOK_MAX_VOCAB)
        return ft_fail(err, FT_EFORMAT, "special_tokens.\"%.*s\": expected an id",
                       STR_ARG(json_key(v)));
    return tok_builder_added(b, id, json_key(v), ADDED_SPECIAL, err);
}

static ft_status read_role(int32_t *id, const struct tok_builder *b, const json *root,
                           const char *key, ft_error *err)
{
    str content;
    *id = -1;
    if (!json_str(json_get(root, key), &content))
        return FT_OK;
    *id = tok_ranks_special(b, content);
    return *id >= 0 ? FT_OK
                    : ft_fail(err, FT_EFORMAT, "%s: \"%.*s\" is not among special_tokens", key,
                              STR_ARG(content));
}

static ft_status build_described(struct tok_builder *b, struct tok_ranks *r, const json *root,
                                 ft_error *err)
{
    str pattern;
    const json *specials = json_get(root, "special_tokens");
    FT_TRY(json_need_str(&pattern, root, "pattern", err));
    for (size_t i = 0; i < ARRAY_LEN(named_patterns); i++)
        if (str_is(pattern, named_patterns[i].name))
            pattern = str_from(named_patterns[i].pattern);
    FT_TRY(tok_ranks_build(b, r, 0, err));
    for (const json *v = json_first(specials); v != NULL; v = json_next(v))
        FT_TRY(add_special(b, v, err));
    FT_TRY(read_role(&b->tok->bos, b, root, "bos_token", err));
    FT_TRY(read_role(&b->tok->eos, b, root, "eos_token", err));
    return add_pattern(b, pattern, err);
}

static ft_status build_from_sidecar(struct tok_builder *b, struct tok_ranks *r, const char *path,
                                    ft_error *err)
{
    struct json_doc *doc;
    FT_TRY(json_load(&doc, path, JSON_STRICT, MAX_SIDECAR_BYTES, err));
    ft_status st = build_described(b, r, json_root(doc), err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

/* --- the file --------------------------------------------------------------------------------- */

bool tok_tiktoken_looks_like(str bytes)
{
    struct buf decoded = {0};
    str line = str_cut(&bytes, '\n'), rank = line, token = str_cut(&rank, ' ');
    int64_t number;
    if (rank.len > 0 && rank.ptr[rank.len - 1] == '\r')
        rank.len--;
    bool ok = token.len > 0 && token.len < 64 && str_to_i64(rank, &number) && number >= 0 &&
              base64_decode(&decoded, token);
    buf_free(&decoded);
    return ok;
}

static ft_status build(struct tok **out, const char *path, str text, ft_error *err)
{
    struct tok_builder b;
    struct tok_ranks r = {0};
    char sidecar[4096];
    ft_status st = tok_builder_init(&b, err);
    if (st == FT_OK)
        st = read_ranks(&r, text, err);
    bool described = (size_t)snprintf(sidecar, sizeof sidecar, "%s.json", path) < sizeof sidecar &&
                     path_exists(sidecar);
    if (st == FT_OK)
        st = described ? build_from_sidecar(&b, &r, sidecar, err) : build_known(&b, &r, text, err);
    if (st == FT_OK)
        st = tok_builder_finish(out, &b, err);
    tok_ranks_free(&r);
    tok_builder_destroy(&b);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

ft_status tok_tiktoken_load(struct tok **out, const char *path, ft_error *err)
{
    struct file_map m;
    *out = NULL;
    FT_TRY(file_map_open(&m, path, err));
    ft_status st =
        m.bytes > TOK_MAX_FILE_BYTES
            ? ft_fail(err, FT_ELIMIT, "%s: more than %d MiB", path, TOK_MAX_FILE_BYTES >> 20)
            : build(out, path, (str){(const char *)m.data, m.bytes}, err);
    file_map_close(&m);
    return st;
}
