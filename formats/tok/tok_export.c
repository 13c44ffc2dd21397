/* SPDX-License-Identifier: Apache-2.0
 * tokenizer.json and tokenizer_config.json. Every token is written into the vocabulary, added
 * tokens by their content: so each keeps its id, whatever it is. */
#include "formats/tok/tok_export.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "formats/json.h"
#include "formats/tok/byte_level.h"
#include "formats/tok/tok_internal.h"

/* --- pieces ---------------------------------------------------------------------------------- */

/* How each id is spelled in the file. */
struct spelling {
    const struct tok *tok;
    const struct added_token **added; /* [n_vocab], NULL for tokens of the model */
    uint32_t character[256];          /* of each byte in the byte-level alphabet */
};

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
    return FT_OK;
}

/* Replaces the content of out by the piece of one id. */
static void spell(struct buf *out, const struct spelling *s, int32_t id)
{
    str bytes = s->tok->bytes[id];
    char character[4];
    buf_clear(out);
    if (s->added[id] != NULL) {
        buf_str(out, s->added[id]->content);
        return;
    }
    for (size_t i = 0; i < bytes.len; i++)
        buf_append(out, character, str_utf8_put(character, s->character[(uint8_t)bytes.ptr[i]]));
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
    for (int32_t id = 0; id < s->tok->n_vocab; id++) {
        if (s->tok->bytes[id].ptr == NULL)
            continue;
        spell(piece, s, id);
        buf_printf(out, "%s      ", separator);
        json_write_str(out, buf_view(piece));
        buf_printf(out, ": %d", id);
        separator = ",\n";
    }
}

/* "left right": the older of the two forms, which every version reads. The pieces of merges are in
 * the byte-level alphabet, which has no space. */
static void write_merges(struct buf *out, const struct spelling *s, struct buf *piece)
{
    const struct bpe *bpe = &s->tok->model.bpe;
    struct buf pair = {0};
    for (size_t i = 0; i < bpe->n_merges; i++) {
        buf_clear(&pair);
        spell(piece, s, bpe->merges[i].left);
        buf_str(&pair, buf_view(piece));
        buf_byte(&pair, ' ');
        spell(piece, s, bpe->merges[i].right);
        buf_str(&pair, buf_view(piece));
        buf_printf(out, "%s      ", i == 0 ? "\n" : ",\n");
        json_write_str(out, buf_view(&pair));
    }
    out->failed |= pair.failed;
    buf_free(&pair);
}

static void write_pre_tokenizer(struct buf *out, const struct tok *t)
{
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                     "\"trim_offsets\": true, \"use_regex\": true}";
    if (strcmp(t->pretok->name, "gpt2") == 0) {
        buf_cstr(out, byte_level);
        return;
    }
    FT_ASSERT(strcmp(t->pretok->name, "digits+gpt2") == 0);
    buf_printf(out,
               "{\"type\": \"Sequence\", \"pretokenizers\": [\n"
               "    {\"type\": \"Digits\", \"individual_digits\": true},\n"
               "    %s\n  ]}",
               byte_level);
}

static void write_json(struct buf *out, const struct spelling *s, struct buf *piece)
{
    buf_cstr(out, "{\n"
                  "  \"version\": \"1.0\",\n"
                  "  \"truncation\": null,\n"
                  "  \"padding\": null,\n"
                  "  \"added_tokens\": [");
    write_added(out, s);
    buf_cstr(out, "\n  ],\n"
                  "  \"normalizer\": null,\n"
                  "  \"pre_tokenizer\": ");
    write_pre_tokenizer(out, s->tok);
    buf_cstr(out, ",\n"
                  "  \"post_processor\": null,\n"
                  "  \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                  "\"trim_offsets\": true, \"use_regex\": true},\n"
                  "  \"model\": {\n"
                  "    \"type\": \"BPE\",\n"
                  "    \"dropout\": null,\n"
                  "    \"unk_token\": null,\n"
                  "    \"continuing_subword_prefix\": null,\n"
                  "    \"end_of_word_suffix\": null,\n"
                  "    \"fuse_unk\": false,\n"
                  "    \"byte_fallback\": false,\n"
                  "    \"ignore_merges\": false,\n"
                  "    \"vocab\": {");
    write_vocabulary(out, s, piece);
    buf_cstr(out, "\n    },\n"
                  "    \"merges\": [");
    write_merges(out, s, piece);
    buf_cstr(out, "\n    ]\n  }\n}\n");
}

ft_status tok_to_json(struct buf *out, const struct tok *t, ft_error *err)
{
    struct spelling s;
    struct buf piece = {0};
    if (t->model.kind != MODEL_BPE_BYTES || t->model.flags != 0 || t->pretok == NULL ||
        (strcmp(t->pretok->name, "gpt2") != 0 && strcmp(t->pretok->name, "digits+gpt2") != 0))
        return ft_fail(err, FT_EFORMAT,
                       "this kind of tokenizer cannot be written as "
                       "tokenizer.json");
    FT_TRY(spelling_init(&s, t, err));
    write_json(out, &s, &piece);
    out->failed |= piece.failed;
    buf_free(&piece);
    mem_free(s.added);
    return buf_status(out, "tokenizer.json", err);
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
               "  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n"
               "}\n",
               (long long)max_positions);
}
