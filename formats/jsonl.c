/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/mem.h"
#include "formats/json.h"

enum { CHUNK = 1 << 18 };

enum form {
    FORM_UNKNOWN,
    FORM_LINES,
    FORM_ARRAY,
    FORM_DONE, /* behind the closing bracket */
};

struct jsonl {
    int fd;
    char *name;
    struct hasher *hash;
    char *data; /* the window of the file that is buffered */
    size_t len, cap;
    size_t at;     /* first byte not consumed */
    uint64_t base; /* file offset of data[0] */
    uint64_t line; /* of data[at], from 1 */
    uint64_t n_rows;
    size_t max_row;
    enum form form;
    bool eof;
};

ft_status jsonl_open(struct jsonl **out, const char *path, size_t max_row, ft_error *err)
{
    struct jsonl *r;
    ft_status st;
    *out = NULL;
    FT_TRY(mem_new(&r, 1, sizeof *r, "a row reader", err));
    *r = (struct jsonl){.fd = -1, .line = 1, .max_row = max_row};
    r->name = mem_strdup(path);
    if (r->name == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(path), "a path"));
    FT_GOTO(hasher_create(&r->hash, err));
    r->fd = fault_hit(FAULT_READ) ? (errno = EIO, -1) : open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        FT_GOTO(ft_fail_errno(err, "%s: cannot open", path));
    *out = r;
    return FT_OK;
out:
    jsonl_close(r);
    return st;
}

void jsonl_close(struct jsonl *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    hasher_destroy(r->hash);
    mem_free(r->name);
    mem_free(r->data);
    mem_free(r);
}

uint64_t jsonl_bytes(const struct jsonl *r)
{
    return r->base + r->len;
}

hash128 jsonl_hash(const struct jsonl *r)
{
    return hasher_digest(r->hash);
}

/* --- the window ------------------------------------------------------------------------------ */

static uint64_t offset_of(const struct jsonl *r, size_t i)
{
    return r->base + i;
}

/* Room for at least one more byte: drops what is consumed, then grows. */
static ft_status make_room(struct jsonl *r, ft_error *err)
{
    if (r->at > 0 && (r->at == r->len || r->len == r->cap)) {
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
    size_t cap = r->cap == 0 ? CHUNK : r->cap * 2;
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
    ssize_t n;
    FT_TRY(make_room(r, err));
    do
        n = fault_hit(FAULT_READ) ? (errno = EIO, -1)
                                  : read(r->fd, r->data + r->len, r->cap - r->len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return ft_fail_errno(err, "%s: read failed at byte %" PRIu64, r->name, jsonl_bytes(r));
    r->eof = n == 0;
    hasher_update(r->hash, r->data + r->len, (size_t)n);
    r->len += (size_t)n;
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
                   r->name, jsonl_bytes(r), r->n_rows, r->n_rows == 1 ? "" : "s");
}

/* Where a scan for the end of a value stands. */
struct scan {
    size_t n; /* bytes seen */
    size_t depth;
    bool in_string, escaped;
};

/* Scans buffered bytes until the comma or bracket that ends the value; true when it is found.
 * Brackets are only counted, not matched: json_parse judges the text. */
static bool scan_value(struct scan *s, const char *p, size_t n)
{
    for (; s->n < n; s->n++) {
        char c = p[s->n];
        if (s->in_string) {
            if (s->escaped)
                s->escaped = false;
            else if (c == '\\')
                s->escaped = true;
            else if (c == '"')
                s->in_string = false;
        } else if (c == '"') {
            s->in_string = true;
        } else if (c == '{' || c == '[') {
            s->depth++;
        } else if (c == '}' || c == ']') {
            if (s->depth == 0)
                return true;
            s->depth--;
        } else if (c == ',' && s->depth == 0) {
            return true;
        }
    }
    return false;
}

/* Bytes from `at` to the end of the value that starts there. */
static ft_status value_length(size_t *n, struct jsonl *r, ft_error *err)
{
    struct scan s = {0};
    while (!scan_value(&s, r->data + r->at, r->len - r->at)) {
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
    r->form = FORM_DONE;
    FT_TRY(skip_space(&c, r, err));
    return c < 0 ? FT_OK : array_error(r, "text after the end of the array", err);
}

/* The comma or bracket behind row n_rows - 1, and the start of what follows it. */
static ft_status next_separator(bool *more, struct jsonl *r, ft_error *err)
{
    int c;
    FT_TRY(skip_space(&c, r, err));
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
        {{"\x1F\x8B", 2}, "gzip data; decompress it first (zcat)"},
        {{"\x28\xB5\x2F\xFD", 4}, "zstd data; decompress it first (zstdcat)"},
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
    r->form = FORM_ARRAY;
    /* Looks ahead without consuming: the element is scanned again as what it turns out to be. */
    while (!scan_value(&s, r->data + r->at + 1, r->len - r->at - 1) && !r->eof)
        FT_TRY(read_more(r, err));
    if (is_message(str_trim((str){r->data + r->at + 1, s.n})))
        r->form = FORM_LINES;
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
    r->form = FORM_LINES;
    FT_TRY(skip_space(&c, r, err));
    return c == '[' ? recognise_list(r, err) : FT_OK;
}

ft_status jsonl_next(struct jsonl_row *out, bool *more, struct jsonl *r, ft_error *err)
{
    if (r->form == FORM_UNKNOWN)
        FT_TRY(recognise(r, err));
    if (r->form == FORM_LINES)
        return next_line(out, more, r, err);
    if (r->form == FORM_ARRAY)
        return next_element(out, more, r, err);
    *more = false;
    return FT_OK;
}
