/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "common/mem.h"
#include "formats/json.h"

enum { CHUNK = 1 << 18 };

const char *const jsonl_form_names[] = {"unknown", "lines", "array"};

struct jsonl {
    struct input *input;
    const char *name;
    char *data; /* the window of the file that is buffered */
    size_t len, cap;
    size_t at;     /* first byte not consumed */
    uint64_t base; /* file offset of data[0] */
    uint64_t end;  /* where the piece ends; UINT64_MAX = with the file */
    uint64_t line; /* of data[at], from 1 */
    uint64_t n_rows;
    size_t max_row;
    enum jsonl_form form;
    bool closed; /* behind the closing bracket of the array */
    bool eof;
    struct jsonl_piece piece; /* from, row, line and form of what is being read */
    struct hasher *hash;      /* of its bytes up to `hashed` */
    size_t hashed;            /* index into data */
};

static ft_status create(struct jsonl **out, const char *path, size_t max_row, ft_error *err)
{
    struct jsonl *r;
    ft_status st;
    *out = NULL;
    FT_TRY(mem_new(&r, 1, sizeof *r, "a row reader", err));
    *r = (struct jsonl){.line = 1, .max_row = max_row, .end = UINT64_MAX};
    FT_GOTO(hasher_create(&r->hash, err));
    FT_GOTO(input_open(&r->input, path, err));
    r->name = input_path(r->input);
    *out = r;
    return FT_OK;
out:
    jsonl_close(r);
    return st;
}

ft_status jsonl_open(struct jsonl **out, const char *path, size_t max_row, ft_error *err)
{
    FT_TRY(create(out, path, max_row, err));
    (*out)->piece.line = 1;
    return FT_OK;
}

/* Sets the reader to the state it had when the piece was cut. */
static ft_status enter_piece(struct jsonl *r, const struct jsonl_piece *piece, ft_error *err)
{
    r->piece = *piece;
    r->line = piece->line;
    r->n_rows = piece->row;
    r->form = piece->form;
    if (input_kind(r->input) != INPUT_PLAIN) {
        if (piece->from == 0)
            return FT_OK;
        return ft_fail(err, FT_EFORMAT, "%s: is compressed, which it was not when it was planned",
                       r->name);
    }
    r->base = piece->from;
    r->end = piece->to;
    return piece->from == 0 ? FT_OK : input_seek(r->input, piece->from, err);
}

ft_status jsonl_open_piece(struct jsonl **out, const char *path, const struct jsonl_piece *piece,
                           size_t max_row, ft_error *err)
{
    FT_ASSERT((piece->from == 0) == (piece->form == JSONL_UNKNOWN) && piece->to >= piece->from);
    FT_TRY(create(out, path, max_row, err));
    ft_status st = enter_piece(*out, piece, err);
    if (st != FT_OK) {
        jsonl_close(*out);
        *out = NULL;
    }
    return st;
}

void jsonl_close(struct jsonl *r)
{
    if (r == NULL)
        return;
    input_close(r->input);
    hasher_destroy(r->hash);
    mem_free(r->data);
    mem_free(r);
}

struct input *jsonl_input(struct jsonl *r)
{
    return r->input;
}

/* --- the window ------------------------------------------------------------------------------ */

static uint64_t offset_of(const struct jsonl *r, size_t i)
{
    return r->base + i;
}

static void hash_consumed(struct jsonl *r)
{
    if (r->at > r->hashed)
        hasher_update(r->hash, r->data + r->hashed, r->at - r->hashed);
    r->hashed = r->at;
}

/* Room for at least one more byte: drops what is consumed, then grows. */
static ft_status make_room(struct jsonl *r, ft_error *err)
{
    if (r->at > 0 && (r->at == r->len || r->len == r->cap)) {
        hash_consumed(r);
        r->hashed = 0;
        memmove(r->data, r->data + r->at, r->len - r->at);
        r->base += r->at;
        r->len -= r->at;
        r->at = 0;
    }
    if (r->len < r->cap)
        return FT_OK;
    if (r->len > r->max_row)
        return ft_fail(err, FT_ELIMIT,
                       "%s: line %" PRIu64 ": row %" PRIu64
                       " is longer than %zu bytes, the most a row may take",
                       r->name, r->line, r->n_rows, r->max_row);
    size_t cap = r->cap == 0 ? (size_t)CHUNK : FT_MIN(r->cap * 2, r->max_row + CHUNK);
    char *grown = mem_realloc(r->data, cap, 1);
    if (grown == NULL)
        return ft_fail_memory(err, cap, "a row");
    r->data = grown;
    r->cap = cap;
    return FT_OK;
}

/* Reads on. Afterwards either len grew or eof is set. Positions relative to `at` stay valid. */
static ft_status read_more(struct jsonl *r, ft_error *err)
{
    size_t n = 0;
    FT_TRY(make_room(r, err));
    size_t room = (size_t)FT_MIN((uint64_t)(r->cap - r->len), r->end - offset_of(r, r->len));
    if (room > 0)
        FT_TRY(input_read(&n, r->input, r->data + r->len, room, err));
    r->eof = n == 0;
    r->len += n;
    return FT_OK;
}

static void consume(struct jsonl *r, size_t n)
{
    const char *p = r->data + r->at, *end = p + n;
    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        r->line++;
        p++;
    }
    r->at += n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Moves to the next byte that is not white space; *c = -1 at the end of the file. */
static ft_status skip_space(int *c, struct jsonl *r, ft_error *err)
{
    for (;;) {
        size_t n = 0;
        while (r->at + n < r->len && is_space(r->data[r->at + n]))
            n++;
        if (n > 0)
            consume(r, n);
        if (r->at < r->len) {
            *c = (unsigned char)r->data[r->at];
            return FT_OK;
        }
        *c = -1;
        if (r->eof)
            return FT_OK;
        FT_TRY(read_more(r, err));
    }
}

/* Takes n bytes, the first of which is no white space, as a row. */
static void take_row(struct jsonl_row *out, struct jsonl *r, size_t n)
{
    str text = {r->data + r->at, n};
    while (text.len > 0 && is_space(text.ptr[text.len - 1]))
        text.len--;
    *out = (struct jsonl_row){text, r->n_rows++, r->line, offset_of(r, r->at)};
    consume(r, n);
}

/* --- JSON Lines ------------------------------------------------------------------------------ */

static ft_status next_line(struct jsonl_row *out, bool *more, struct jsonl *r, ft_error *err)
{
    int c;
    FT_TRY(skip_space(&c, r, err)); /* blank lines, and a row may be indented */
    *more = c >= 0;
    for (size_t scanned = 0; *more;) {
        const char *from = r->data + r->at + scanned;
        const char *end = memchr(from, '\n', r->len - r->at - scanned);
        if (end != NULL || r->eof) {
            take_row(out, r, end == NULL ? r->len - r->at : (size_t)(end - r->data) - r->at);
            break;
        }
        scanned = r->len - r->at;
        FT_TRY(read_more(r, err));
    }
    return FT_OK;
}

/* --- one array ------------------------------------------------------------------------------- */

static ft_status array_error(const struct jsonl *r, const char *what, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "%s: line %" PRIu64 ", byte %" PRIu64 ": not JSON: %s", r->name,
                   r->line, offset_of(r, r->at), what);
}

static ft_status cut_off(const struct jsonl *r, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "%s: unexpected end at byte %" PRIu64 ", after %" PRIu64
                   " complete row%s: the file is cut off",
                   r->name, offset_of(r, r->len), r->n_rows, r->n_rows == 1 ? "" : "s");
}

/* Where a scan for the end of a value stands. */
struct scan {
    size_t n; /* bytes seen */
    size_t depth;
    bool in_string;
    size_t string_at; /* first byte of the string */
};

/* A quote behind an odd number of backslashes is part of the string. */
static bool is_escaped(const struct scan *s, const char *p, size_t quote)
{
    size_t first = quote;
    while (first > s->string_at && p[first - 1] == '\\')
        first--;
    return (quote - first) % 2 == 1;
}

/* Moves behind the closing quote, or to n when it is not there. */
static void scan_string(struct scan *s, const char *p, size_t n)
{
    while (s->in_string && s->n < n) {
        const char *quote = memchr(p + s->n, '"', n - s->n);
        s->n = quote == NULL ? n : (size_t)(quote - p) + 1;
        s->in_string = quote == NULL || is_escaped(s, p, s->n - 1);
    }
}

/* Scans buffered bytes until the comma or bracket that ends the value; true when it is found.
 * Brackets are only counted, not matched: json_parse judges the text. */
static bool scan_value(struct scan *s, const char *p, size_t n)
{
    scan_string(s, p, n);
    while (s->n < n) {
        char c = p[s->n];
        if (s->depth == 0 && (c == ',' || c == '}' || c == ']'))
            return true;
        s->n++;
        s->depth += (size_t)(c == '{' || c == '[') - (size_t)(c == '}' || c == ']');
        s->in_string = c == '"';
        s->string_at = s->n;
        scan_string(s, p, n);
    }
    return false;
}

/* Nothing comes behind what is buffered but other pieces of the file. */
static bool at_piece_end(const struct jsonl *r)
{
    return r->eof && offset_of(r, r->len) == r->end;
}

/* Bytes from `at` to the end of the value that starts there. */
static ft_status value_length(size_t *n, struct jsonl *r, ft_error *err)
{
    struct scan s = {0};
    while (!scan_value(&s, r->data + r->at, r->len - r->at)) {
        if (at_piece_end(r) && s.depth == 0 && !s.in_string)
            break;
        if (r->eof)
            return cut_off(r, err);
        FT_TRY(read_more(r, err));
    }
    *n = s.n;
    return FT_OK;
}

/* Behind the closing bracket only white space may follow. */
static ft_status finish_array(struct jsonl *r, ft_error *err)
{
    int c;
    consume(r, 1);
    r->closed = true;
    FT_TRY(skip_space(&c, r, err));
    return c < 0 ? FT_OK : array_error(r, "text after the end of the array", err);
}

/* The comma or bracket behind row n_rows - 1, and the start of what follows it. */
static ft_status next_separator(bool *more, struct jsonl *r, ft_error *err)
{
    int c;
    FT_TRY(skip_space(&c, r, err));
    if (c < 0 && at_piece_end(r)) {
        *more = false;
        return FT_OK;
    }
    if (c < 0)
        return cut_off(r, err);
    if (c == ']') {
        *more = false;
        return finish_array(r, err);
    }
    if (r->n_rows == 0)
        return FT_OK; /* the first row has no comma before it */
    if (c != ',')
        return array_error(r, "expected ',' or ']' between rows", err);
    consume(r, 1);
    FT_TRY(skip_space(&c, r, err));
    if (c < 0)
        return cut_off(r, err);
    return FT_OK;
}

static ft_status next_element(struct jsonl_row *out, bool *more, struct jsonl *r, ft_error *err)
{
    size_t n = 0;
    *more = true;
    FT_TRY(next_separator(more, r, err));
    if (!*more)
        return FT_OK;
    FT_TRY(value_length(&n, r, err));
    if (n == 0)
        return array_error(r, "a value is missing (trailing or doubled comma?)", err);
    take_row(out, r, n);
    return FT_OK;
}

/* --- which of the two ------------------------------------------------------------------------ */

static ft_status refuse_other_formats(const struct jsonl *r, ft_error *err)
{
    static const struct {
        str magic;
        const char *what;
    } known[] = {
        {{"\xFF\xFE", 2}, "UTF-16 text; convert it to UTF-8"},
        {{"\xFE\xFF", 2}, "UTF-16 text; convert it to UTF-8"},
        {{"\x1F\x8B", 2}, "gzip data inside compressed data; unpack it once"},
        {{"\x28\xB5\x2F\xFD", 4}, "zstd data inside compressed data; unpack it once"},
        {{"PAR1", 4}, "a Parquet file; export it as JSON Lines first"},
        {{"PK\x03\x04", 4}, "a zip archive; unpack it first"},
    };
    str head = {r->data, r->len};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (str_starts(head, known[i].magic))
            return ft_fail(err, FT_EFORMAT, "%s: byte 0: expected JSON, found %s", r->name,
                           known[i].what);
    return FT_OK;
}

/* An array opens either one file-wide array of rows or the first of many lines that are bare lists
 * of messages. The first element tells: a message has a role and is no row. */
static bool is_message(str text)
{
    struct json_doc *doc;
    ft_error ignored;
    bool message = false;
    if (json_parse(&doc, "", text, JSON_STRICT, &ignored) == FT_OK) {
        const json *v = json_root(doc);
        message = (json_get(v, "role") != NULL || json_get(v, "from") != NULL) &&
                  json_get(v, "messages") == NULL;
    }
    json_close(doc);
    return message;
}

static ft_status recognise_list(struct jsonl *r, ft_error *err)
{
    struct scan s = {0};
    r->form = JSONL_ARRAY;
    /* Looks ahead without consuming: the element is scanned again as what it turns out to be. */
    while (!scan_value(&s, r->data + r->at + 1, r->len - r->at - 1) && !r->eof)
        FT_TRY(read_more(r, err));
    if (is_message(str_trim((str){r->data + r->at + 1, s.n})))
        r->form = JSONL_LINES;
    else
        consume(r, 1);
    return FT_OK;
}

static ft_status recognise(struct jsonl *r, ft_error *err)
{
    int c;
    while (r->len < 4 && !r->eof)
        FT_TRY(read_more(r, err));
    FT_TRY(refuse_other_formats(r, err));
    if (str_starts((str){r->data, r->len}, STR("\xEF\xBB\xBF")))
        r->at = 3;
    r->form = JSONL_LINES;
    FT_TRY(skip_space(&c, r, err));
    return c == '[' ? recognise_list(r, err) : FT_OK;
}

ft_status jsonl_next(struct jsonl_row *out, bool *more, struct jsonl *r, ft_error *err)
{
    *more = false;
    if (r->form == JSONL_UNKNOWN)
        FT_TRY(recognise(r, err));
    if (r->form == JSONL_LINES)
        return next_line(out, more, r, err);
    return r->closed ? FT_OK : next_element(out, more, r, err);
}

/* --- pieces ---------------------------------------------------------------------------------- */

uint64_t jsonl_piece_bytes(const struct jsonl *r)
{
    return offset_of(r, r->at) - r->piece.from;
}

ft_status jsonl_cut(struct jsonl_piece *out, struct jsonl *r, ft_error *err)
{
    hash_consumed(r);
    *out = r->piece;
    out->to = offset_of(r, r->at);
    out->n_rows = r->n_rows - r->piece.row;
    out->hash = hasher_digest(r->hash);
    r->piece =
        (struct jsonl_piece){.from = out->to, .row = r->n_rows, .line = r->line, .form = r->form};
    hasher_destroy(r->hash);
    return hasher_create(&r->hash, err);
}
