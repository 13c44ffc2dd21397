/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json and tokenizer_config.json. Added tokens that the model does not know and whose ids
 * count on behind the vocabulary are written as such alone; where ids do not, they are written into
 * the vocabulary by their content, so that each keeps its id. */
#include "formats/tok/tok_export.h"

#include <string.h>

#include "common/mem.h"
#include "formats/json.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_export_priv.h"

/* --- pieces ---------------------------------------------------------------------------------- */

/* How each id is spelled in the file. */
struct spelling {
    const struct tok *tok;
    const struct added_token **added; /* [n_vocab], NULL for tokens of the model */
    bool added_in_vocabulary;
    uint32_t character[256]; /* of each byte in the byte-level alphabet */
};

/* Whether Hugging Face gives each added token its id when the model does not know it. */
static bool ids_count_on(const struct spelling *s)
{
    int32_t n = 0, next;
    for (int32_t id = 0; id < s->tok->n_vocab; id++)
        n += s->tok->pieces[id].ptr != NULL && (s->added[id] == NULL || s->tok->in_model[id]);
    next = n;
    for (int32_t id = 0; id < s->tok->n_vocab; id++)
        if (s->added[id] != NULL && !s->tok->in_model[id] && id != next++)
            return false;
    return true;
}

static ft_status spelling_init(struct spelling *s, const struct tok *t, ft_error *err)
{
    *s = (struct spelling){.tok = t};
    FT_TRY(mem_new(&s->added, (size_t)t->n_vocab, sizeof *s->added, "a token table", err));
    for (size_t i = 0; i < t->added.n; i++)
        s->added[t->added.tokens[i].id] = &t->added.tokens[i];
    for (uint32_t c = 0; c < 0x180; c++) {
        int byte = byte_level_byte(c);
        if (byte >= 0)
            s->character[byte] = c;
    }
    s->added_in_vocabulary = !ids_count_on(s);
    return FT_OK;
}

static bool in_vocabulary(const struct spelling *s, int32_t id)
{
    if (s->tok->pieces[id].ptr == NULL)
        return false;
    return s->added[id] == NULL || s->tok->in_model[id] || s->added_in_vocabulary;
}

/* Replaces the content of out by the piece of one id. */
static void spell(struct buf *out, const struct spelling *s, int32_t id)
{
    str piece = s->tok->pieces[id];
    char character[4];
    buf_clear(out);
    if (s->added[id] != NULL) {
        buf_str(out, s->added[id]->content);
        return;
    }
    /* Pieces outside of the alphabet are kept as they were. */
    if (s->tok->model.kind != MODEL_BPE_BYTES || !s->tok->in_model[id]) {
        buf_str(out, piece);
        return;
    }
    for (size_t i = 0; i < piece.len; i++)
        buf_append(out, character, str_utf8_put(character, s->character[(uint8_t)piece.ptr[i]]));
}

/* --- the parts of the file ------------------------------------------------------------------- */

static void write_flag(struct buf *out, const char *key, const struct added_token *token,
                       unsigned flag)
{
    buf_printf(out, ", \"%s\": %s", key, token->flags & flag ? "true" : "false");
}

static void write_added(struct buf *out, const struct spelling *s)
{
    const char *separator = "\n";
    for (int32_t id = 0; id < s->tok->n_vocab; id++) {
        const struct added_token *token = s->added[id];
        if (token == NULL)
            continue;
        buf_printf(out, "%s    {\"id\": %d, \"content\": ", separator, id);
        json_write_str(out, token->content);
        write_flag(out, "single_word", token, ADDED_SINGLE_WORD);
        write_flag(out, "lstrip", token, ADDED_LSTRIP);
        write_flag(out, "rstrip", token, ADDED_RSTRIP);
        write_flag(out, "normalized", token, ADDED_NORMALIZED);
        write_flag(out, "special", token, ADDED_SPECIAL);
        buf_byte(out, '}');
        separator = ",\n";
    }
}

static void write_vocabulary(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const char *separator = "\n";
    bool scored = s->tok->scores != NULL;
    for (int32_t id = 0; id < s->tok->n_vocab; id++) {
        if (!in_vocabulary(s, id))
            continue;
        spell(piece, s, id);
        buf_printf(out, "%s      %s", separator, scored ? "[" : "");
        json_write_str(out, buf_view(piece));
        if (scored)
            buf_printf(out, ", %.17g]", s->tok->scores[id]);
        else
            buf_printf(out, ": %d", id);
        separator = ",\n";
    }
}

/* "left right" is the older of the two forms, which every version reads; pieces that may hold a
 * space need the other. */
static void write_merges(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const struct bpe *bpe = &s->tok->model.bpe;
    bool joined = s->tok->model.kind == MODEL_BPE_BYTES;
    struct buf pair = {0};
    for (size_t i = 0; i < bpe->n_merges; i++) {
        buf_printf(out, "%s      ", i == 0 ? "\n" : ",\n");
        buf_clear(&pair);
        spell(piece, s, bpe->merges[i].left);
        buf_str(&pair, buf_view(piece));
        if (!joined) {
            buf_byte(out, '[');
            json_write_str(out, buf_view(&pair));
            buf_cstr(out, ", ");
            buf_clear(&pair);
        } else {
            buf_byte(&pair, ' ');
        }
        spell(piece, s, bpe->merges[i].right);
        buf_str(&pair, buf_view(piece));
        json_write_str(out, buf_view(&pair));
        if (!joined)
            buf_byte(out, ']');
    }
    out->failed |= pair.failed;
    buf_free(&pair);
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void write_bpe(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const struct tok_model *m = &s->tok->model;
    buf_cstr(out, "    \"type\": \"BPE\",\n"
                  "    \"dropout\": null,\n"
                  "    \"unk_token\": ");
    if (m->unk < 0) {
        buf_cstr(out, "null");
    } else {
        spell(piece, s, m->unk);
        json_write_str(out, buf_view(piece));
    }
    buf_printf(out,
               ",\n"
               "    \"continuing_subword_prefix\": null,\n"
               "    \"end_of_word_suffix\": null,\n"
               "    \"fuse_unk\": %s,\n"
               "    \"byte_fallback\": %s,\n"
               "    \"ignore_merges\": %s,\n"
               "    \"vocab\": {",
               truth(m->flags & MODEL_FUSE_UNK), truth(m->flags & MODEL_BYTE_FALLBACK),
               truth(m->flags & MODEL_IGNORE_MERGES));
    write_vocabulary(out, s, piece);
    buf_cstr(out, "\n    },\n"
                  "    \"merges\": [");
    write_merges(out, s, piece);
    buf_cstr(out, "\n    ]\n");
}

static void write_unigram(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const struct tok_model *m = &s->tok->model;
    buf_cstr(out, "    \"type\": \"Unigram\",\n");
    if (m->unk >= 0)
        buf_printf(out, "    \"unk_id\": %d,\n", m->unk);
    buf_printf(out,
               "    \"byte_fallback\": %s,\n"
               "    \"vocab\": [",
               truth(m->flags & MODEL_BYTE_FALLBACK));
    write_vocabulary(out, s, piece);
    buf_cstr(out, "\n    ]\n");
}

static void write_json(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const struct tok *t = s->tok;
    buf_cstr(out, "{\n"
                  "  \"version\": \"1.0\",\n"
                  "  \"truncation\": null,\n"
                  "  \"padding\": null,\n"
                  "  \"added_tokens\": [");
    write_added(out, s);
    buf_cstr(out, "\n  ],\n"
                  "  \"normalizer\": ");
    tok_export_normalizer(out, &t->steps);
    buf_cstr(out, ",\n"
                  "  \"pre_tokenizer\": ");
    tok_export_pre_tokenizer(out, &t->steps, t->model.kind == MODEL_BPE_BYTES);
    buf_cstr(out, ",\n"
                  "  \"post_processor\": null,\n"
                  "  \"decoder\": ");
    tok_export_decoder(out, &t->steps);
    buf_cstr(out, ",\n"
                  "  \"model\": {\n");
    if (t->model.kind == MODEL_UNIGRAM)
        write_unigram(out, s, piece);
    else
        write_bpe(out, s, piece);
    buf_cstr(out, "  }\n}\n");
}

/* What the format cannot say. */
static ft_status check_expressible(const struct spelling *s, ft_error *err)
{
    const struct tok *t = s->tok;
    for (size_t i = 0; i < t->steps.n_stages; i++)
        if (t->steps.stages[i].dialect == PRETOK_FANCY)
            return ft_fail(err, FT_EFORMAT,
                           "tokenizer.json cannot hold a pattern in the dialect of tiktoken");
    if (t->model.flags & MODEL_EXPLICIT_RANKS)
        return ft_fail(err, FT_EFORMAT, "tokenizer.json cannot hold merges of equal rank");
    if (s->added_in_vocabulary &&
        (t->model.kind == MODEL_UNIGRAM || (t->model.flags & MODEL_IGNORE_MERGES)))
        return ft_fail(err, FT_EFORMAT,
                       "tokenizer.json cannot hold added tokens with these ids and this model");
    return FT_OK;
}

ft_status tok_to_json(struct buf *out, const struct tok *t, ft_error *err)
{
    struct spelling s;
    struct buf piece = {0};
    if (t->spm != NULL)
        return ft_fail(err, FT_EFORMAT,
                       "a SentencePiece model cannot be written as tokenizer.json "
                       "to the same ids: use its .model file");
    FT_TRY(spelling_init(&s, t, err));
    ft_status st = check_expressible(&s, err);
    if (st == FT_OK)
        write_json(out, &s, &piece);
    out->failed |= piece.failed;
    buf_free(&piece);
    mem_free(s.added);
    return st == FT_OK ? buf_status(out, "tokenizer.json", err) : st;
}

const char *tok_file_name(const struct tok *t)
{
    return t->spm != NULL ? "tokenizer.model" : "tokenizer.json";
}

ft_status tok_to_file(struct buf *out, const struct tok *t, ft_error *err)
{
    if (t->spm == NULL)
        return tok_to_json(out, t, err);
    spm_file_write(out, spm_contents(t->spm));
    return buf_status(out, "tokenizer.model", err);
}

/* The class of transformers that reads the file. */
static const char *class_name(const struct tok *t)
{
    if (t->spm == NULL)
        return "PreTrainedTokenizerFast";
    return spm_contents(t->spm)->model_type == SPM_UNIGRAM ? "T5Tokenizer" : "LlamaTokenizer";
}

static void write_token(struct buf *out, const char *key, const struct tok *t, int32_t id)
{
    if (id < 0)
        return;
    buf_printf(out, "  \"%s\": ", key);
    json_write_str(out, t->bytes[id]);
    buf_cstr(out, ",\n");
}

void tok_to_config_json(struct buf *out, const struct tok *t, int64_t max_positions)
{
    buf_cstr(out, "{\n  \"add_prefix_space\": false,\n");
    write_token(out, "bos_token", t, t->bos);
    if (t->chat_template.len > 0) {
        buf_cstr(out, "  \"chat_template\": ");
        json_write_str(out, t->chat_template);
        buf_cstr(out, ",\n");
    }
    buf_cstr(out, "  \"clean_up_tokenization_spaces\": false,\n");
    write_token(out, "eos_token", t, t->eos);
    buf_printf(out,
               "  \"model_max_length\": %lld,\n"
               "  \"tokenizer_class\": \"%s\"\n"
               "}\n",
               (long long)max_positions, class_name(t));
}
