/* SPDX-License-Identifier: Apache-2.0
 * ftprep tokenize, detokenize and count: a tokenizer on standard input and output, line by line, in
 * memory of the order of the longest line. */
#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "formats/tok/tok.h"
#include "tools/commands.h"

struct options {
    const char *tokenizer;
    bool json;
    int specials; /* enum tok_specials, in the order of the choices */
    bool skip_specials;
};

enum { CHUNK_BYTES = 1 << 16 };

/* One run of a command. */
struct filter {
    const struct options *o;
    struct tok *tok;
    struct tok_encoder *encoder;
    struct tok_ids ids;
    struct buf decoded;
    struct tok_decoding decoding; /* of the line */
    struct buf out;               /* written to standard output when it is large enough */
    uint64_t n_lines, n_tokens, n_bytes;
};

/* --- lines -------------------------------------------------------------------------------------
 */

struct lines {
    struct buf pending; /* read but not yet given out from `at` on */
    size_t at;
    bool ended;
};

static ft_status read_more(struct lines *l, ft_error *err)
{
    if (l->at > 0) {
        memmove(l->pending.data, l->pending.data + l->at, l->pending.len - l->at);
        l->pending.len -= l->at;
        l->at = 0;
    }
    void *dst = buf_reserve(&l->pending, CHUNK_BYTES);
    if (dst == NULL)
        return buf_status(&l->pending, "a line of input", err);
    size_t n = fread(dst, 1, CHUNK_BYTES, stdin);
    l->pending.len += n;
    l->ended = n == 0;
    return n == 0 && ferror(stdin) ? ft_fail_errno(err, "standard input: cannot read") : FT_OK;
}

/* The next line without its newline; *found is false at the end. Valid until the next call. */
static ft_status next_line(str *line, bool *found, struct lines *l, ft_error *err)
{
    size_t searched = 0; /* bytes behind `at` known to hold no newline */
    for (;;) {
        str rest = str_sub(buf_view(&l->pending), l->at, l->pending.len);
        const char *end =
            rest.len > searched ? memchr(rest.ptr + searched, '\n', rest.len - searched) : NULL;
        if (end != NULL || l->ended) {
            *line = end == NULL ? rest : str_sub(rest, 0, (size_t)(end - rest.ptr));
            *found = end != NULL || rest.len > 0;
            l->at += line->len + (end != NULL);
            return FT_OK;
        }
        searched = rest.len;
        FT_TRY(read_more(l, err));
    }
}

static ft_status flush(struct filter *f, size_t at_least, ft_error *err)
{
    FT_TRY(buf_status(&f->out, "the output", err));
    if (f->out.len < at_least)
        return FT_OK;
    if (f->out.len > 0 && fwrite(f->out.data, 1, f->out.len, stdout) != f->out.len)
        return ft_fail_errno(err, "standard output: cannot write");
    buf_clear(&f->out);
    return FT_OK;
}

/* Calls fn for every line and writes what it appended to f->out. */
static ft_status for_each_line(struct filter *f,
                               ft_status (*fn)(struct filter *f, str line, ft_error *err),
                               ft_error *err)
{
    struct lines l = {0};
    ft_status st = FT_OK;
    for (;;) {
        str line;
        bool found;
        FT_GOTO(next_line(&line, &found, &l, err));
        if (!found)
            break;
        f->n_lines++;
        st = fn(f, line, err);
        if (st != FT_OK)
            FT_GOTO(ft_wrap(err, "standard input: line %llu", (unsigned long long)f->n_lines));
        FT_GOTO(flush(f, CHUNK_BYTES, err));
    }
out:
    buf_free(&l.pending);
    return st;
}

/* --- text to ids -------------------------------------------------------------------------------
 */

static ft_status encode_text(struct filter *f, str text, ft_error *err)
{
    f->ids.n = 0;
    FT_TRY(tok_encode(f->encoder, &f->ids, text, (enum tok_specials)f->o->specials, err));
    f->n_tokens += f->ids.n;
    f->n_bytes += text.len;
    return FT_OK;
}

/* Encodes a line, or with --json the string it holds, into f->ids. */
static ft_status encode_line(struct filter *f, str line, ft_error *err)
{
    struct json_doc *doc;
    str text;
    if (!f->o->json) {
        size_t bad = str_utf8_invalid_at(line);
        if (bad != line.len)
            return ft_fail(err, FT_EFORMAT, "byte %zu is not valid UTF-8", bad + 1);
        return encode_text(f, line, err);
    }
    FT_TRY(json_parse(&doc, "JSON", line, JSON_STRICT, err));
    ft_status st = json_str(json_root(doc), &text)
                       ? encode_text(f, text, err)
                       : ft_fail(err, FT_EFORMAT, "expected a JSON string, found %s",
                                 json_kind_name(json_kind(json_root(doc))));
    json_close(doc);
    return st;
}

static void put_number(struct buf *out, uint64_t v)
{
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    buf_append(out, digits + n, sizeof digits - n);
}

static ft_status tokenize_line(struct filter *f, str line, ft_error *err)
{
    FT_TRY(encode_line(f, line, err));
    if (f->o->json)
        buf_byte(&f->out, '[');
    for (size_t i = 0; i < f->ids.n; i++) {
        if (i > 0)
            buf_byte(&f->out, f->o->json ? ',' : ' ');
        put_number(&f->out, (uint64_t)f->ids.ids[i]);
    }
    buf_cstr(&f->out, f->o->json ? "]\n" : "\n");
    return FT_OK;
}

static ft_status count_line(struct filter *f, str line, ft_error *err)
{
    FT_TRY(encode_line(f, line, err));
    put_number(&f->out, f->ids.n);
    buf_byte(&f->out, '\n');
    return FT_OK;
}

/* --- ids to text -------------------------------------------------------------------------------
 */

static ft_status decode_id(struct filter *f, int64_t id, ft_error *err)
{
    if (id < 0 || id >= tok_n_vocab(f->tok))
        return ft_fail(err, FT_EFORMAT, "%lld is not a token id, they are 0 to %d", (long long)id,
                       tok_n_vocab(f->tok) - 1);
    int32_t id32 = (int32_t)id;
    tok_decode_next(&f->decoding, f->tok, &f->decoded, id32, f->o->skip_specials);
    return FT_OK;
}

static ft_status decode_words(struct filter *f, str line, ft_error *err)
{
    while (line.len > 0) {
        str word = str_cut(&line, ' ');
        int64_t id;
        if (word.len == 0)
            continue;
        if (!str_to_i64(word, &id))
            return ft_fail(err, FT_EFORMAT, "'%.*s' is not a token id", STR_ARG(word));
        FT_TRY(decode_id(f, id, err));
    }
    return FT_OK;
}

static ft_status decode_array(struct filter *f, const json *array, ft_error *err)
{
    if (json_kind(array) != JSON_ARRAY)
        return ft_fail(err, FT_EFORMAT, "expected a JSON array of token ids, found %s",
                       json_kind_name(json_kind(array)));
    for (const json *v = json_first(array); v != NULL; v = json_next(v)) {
        int64_t id;
        if (!json_i64(v, &id))
            return ft_fail(err, FT_EFORMAT, "the array holds something that is not a token id");
        FT_TRY(decode_id(f, id, err));
    }
    return FT_OK;
}

static ft_status detokenize_line(struct filter *f, str line, ft_error *err)
{
    struct json_doc *doc;
    buf_clear(&f->decoded);
    f->decoding = (struct tok_decoding){0};
    if (!f->o->json) {
        FT_TRY(decode_words(f, line, err));
        tok_decode_end(&f->decoding, &f->decoded);
        buf_str(&f->out, buf_view(&f->decoded));
    } else {
        FT_TRY(json_parse(&doc, "JSON", line, JSON_STRICT, err));
        ft_status st = decode_array(f, json_root(doc), err);
        json_close(doc);
        FT_TRY(st);
        tok_decode_end(&f->decoding, &f->decoded);
        json_write_str(&f->out, buf_view(&f->decoded));
    }
    buf_byte(&f->out, '\n');
    return buf_status(&f->decoded, "decoded text", err);
}

/* --- commands ----------------------------------------------------------------------------------
 */

static ft_status filter_open(struct filter *f, const struct options *o, ft_error *err)
{
    *f = (struct filter){.o = o};
    FT_TRY(tok_open(&f->tok, o->tokenizer, err));
    return tok_encoder_create(&f->encoder, f->tok, err);
}

static void filter_close(struct filter *f)
{
    tok_encoder_destroy(f->encoder);
    tok_close(f->tok);
    tok_ids_free(&f->ids);
    buf_free(&f->decoded);
    buf_free(&f->out);
}

static void put_totals(struct filter *f)
{
    if (f->o->json)
        buf_printf(&f->out, "{\"lines\":%llu,\"bytes\":%llu,\"tokens\":%llu}\n",
                   (unsigned long long)f->n_lines, (unsigned long long)f->n_bytes,
                   (unsigned long long)f->n_tokens);
    else
        buf_printf(&f->out, "total %llu\n", (unsigned long long)f->n_tokens);
}

static ft_status run(const struct options *o,
                     ft_status (*fn)(struct filter *f, str line, ft_error *err), bool totals,
                     ft_error *err)
{
    struct filter f;
    ft_status st;
    FT_GOTO(filter_open(&f, o, err));
    FT_GOTO(for_each_line(&f, fn, err));
    if (totals)
        put_totals(&f);
    FT_GOTO(flush(&f, 0, err));
    if (fflush(stdout) != 0)
        st = ft_fail_errno(err, "standard output: cannot write");
out:
    filter_close(&f);
    return st;
}

static ft_status run_tokenize(void *values, int n_args, const char **args, ft_error *err)
{
    (void)n_args, (void)args;
    return run(values, tokenize_line, false, err);
}

static ft_status run_detokenize(void *values, int n_args, const char **args, ft_error *err)
{
    (void)n_args, (void)args;
    return run(values, detokenize_line, false, err);
}

static ft_status run_count(void *values, int n_args, const char **args, ft_error *err)
{
    (void)n_args, (void)args;
    return run(values, count_line, true, err);
}

#define TOKENIZER_OPT                                                                              \
    {                                                                                              \
        .name = "tokenizer", .type = OPT_STRING, .offset = offsetof(struct options, tokenizer),    \
        .metavar = "PATH", .required = true,                                                       \
        .help = "tokenizer.json or its directory, GGUF file, .nf4 file or data set directory"      \
    }
#define JSON_OPT(text)                                                                             \
    {                                                                                              \
        .name = "json", .type = OPT_BOOL, .offset = offsetof(struct options, json),                \
        .def = "false", .help = text                                                               \
    }
#define SPECIALS_OPT                                                                               \
    {                                                                                              \
        .name = "content-specials", .type = OPT_CHOICE,                                            \
        .offset = offsetof(struct options, specials), .def = "literal",                            \
        .choices = "literal|parse",                                                                \
        .help = "whether the text of a special token is ordinary text or becomes that token"       \
    }

static const struct opt encode_options[] = {
    TOKENIZER_OPT,
    JSON_OPT("each line is a JSON string and gives a JSON array of ids"),
    SPECIALS_OPT,
};

static const struct opt count_options[] = {
    TOKENIZER_OPT,
    JSON_OPT("each line is a JSON string, and the totals are a JSON object"),
    SPECIALS_OPT,
};

static const struct opt decode_options[] = {
    TOKENIZER_OPT,
    JSON_OPT("each line is a JSON array of ids and gives a JSON string"),
    {.name = "skip-specials",
     .type = OPT_BOOL,
     .offset = offsetof(struct options, skip_specials),
     .def = "false",
     .help = "leave out special tokens"},
};

const struct command cmd_tokenize = {
    .name = "tokenize",
    .summary = "Turn text into token ids, line by line",
    .usage = "",
    .details =
        "Reads standard input and writes the ids of each line to one line of standard output.\n"
        "Nothing is added in front or behind: no begin-of-text token.",
    .examples = "  echo 'Hello world' | ftprep tokenize --tokenizer model.gguf   # ids of one line",
    .options = encode_options,
    .n_options = ARRAY_LEN(encode_options),
    .values_bytes = sizeof(struct options),
    .run = run_tokenize,
};

const struct command cmd_detokenize = {
    .name = "detokenize",
    .summary = "Turn token ids into text, line by line",
    .usage = "",
    .details = "The inverse of tokenize. With --json, bytes that are not valid UTF-8 (an id can "
               "stand for\n"
               "half a character) become U+FFFD.",
    .examples = "  echo '19556 905' | ftprep detokenize --tokenizer model.gguf   # text of two ids",
    .options = decode_options,
    .n_options = ARRAY_LEN(decode_options),
    .values_bytes = sizeof(struct options),
    .run = run_detokenize,
};

const struct command cmd_count = {
    .name = "count",
    .summary = "Count the tokens of each line and in all",
    .usage = "",
    .details = "Reads standard input as tokenize does and writes one number per line, then the "
               "total.",
    .examples = "  ftprep count --tokenizer model.gguf < notes.txt | tail -1   # tokens of a file",
    .options = count_options,
    .n_options = ARRAY_LEN(count_options),
    .values_bytes = sizeof(struct options),
    .run = run_count,
};
