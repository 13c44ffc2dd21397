/* SPDX-License-Identifier: Apache-2.0
 * The wire format: a field is a tag (number << 3 | kind) and a value, which is a varint, 8 bytes, a
 * length and bytes, or 4 bytes. Fields may come in any order; unknown ones are passed over. */
#include "formats/tok/spm_file.h"

#include "common/half.h"

enum wire_kind { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire {
    const char *begin; /* of the file: for messages */
    str rest;
    ft_error *err;
};

struct wire_field {
    uint32_t number;
    enum wire_kind kind;
    uint64_t value; /* of varints and fixed widths */
    str bytes;
    size_t at; /* of its tag in the file */
};

static size_t wire_at(const struct wire *w)
{
    return (size_t)(w->rest.ptr - w->begin);
}

static ft_status read_varint(uint64_t *out, struct wire *w)
{
    size_t at = wire_at(w);
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (w->rest.len == 0)
            break;
        uint8_t byte = (uint8_t)w->rest.ptr[0];
        w->rest = str_sub(w->rest, 1, w->rest.len);
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = v;
            return FT_OK;
        }
    }
    return ft_fail(w->err, FT_EFORMAT, "byte %zu: the number that starts here does not end", at);
}

static ft_status read_bytes(str *out, struct wire *w, uint64_t n)
{
    if (n > w->rest.len)
        return ft_fail(w->err, FT_EFORMAT, "byte %zu: a value of %llu bytes, but only %zu are left",
                       wire_at(w), (unsigned long long)n, w->rest.len);
    *out = str_sub(w->rest, 0, (size_t)n);
    w->rest = str_sub(w->rest, (size_t)n, w->rest.len);
    return FT_OK;
}

static ft_status read_value(struct wire_field *f, struct wire *w)
{
    uint64_t n;
    switch (f->kind) {
    case WIRE_VARINT:
        return read_varint(&f->value, w);
    case WIRE_64:
        FT_TRY(read_bytes(&f->bytes, w, 8));
        f->value = load_u64le(f->bytes.ptr);
        return FT_OK;
    case WIRE_32:
        FT_TRY(read_bytes(&f->bytes, w, 4));
        f->value = load_u32le(f->bytes.ptr);
        return FT_OK;
    case WIRE_BYTES:
        FT_TRY(read_varint(&n, w));
        return read_bytes(&f->bytes, w, n);
    }
    return ft_fail(w->err, FT_EFORMAT, "byte %zu: field %u is of kind %d, which is not in use",
                   f->at, f->number, (int)f->kind);
}

static ft_status read_field(struct wire_field *f, struct wire *w)
{
    uint64_t tag;
    *f = (struct wire_field){.at = wire_at(w)};
    FT_TRY(read_varint(&tag, w));
    f->number = (uint32_t)(tag >> 3);
    f->kind = (enum wire_kind)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29)
        return ft_fail(w->err, FT_EFORMAT, "byte %zu: no field begins here", f->at);
    return read_value(f, w);
}

/* A field of another kind than its definition says. */
static ft_status wrong_kind(const struct wire_field *f, const char *name, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT, "byte %zu: %s is of kind %d", f->at, name, (int)f->kind);
}

static ft_status take_bool(bool *out, const struct wire_field *f, const char *name, ft_error *err)
{
    if (f->kind != WIRE_VARINT)
        return wrong_kind(f, name, err);
    *out = f->value != 0;
    return FT_OK;
}

static ft_status take_bytes(str *out, const struct wire_field *f, const char *name, ft_error *err)
{
    if (f->kind != WIRE_BYTES)
        return wrong_kind(f, name, err);
    *out = f->bytes;
    return FT_OK;
}

static ft_status take_text(str *out, const struct wire_field *f, const char *name, ft_error *err)
{
    FT_TRY(take_bytes(out, f, name, err));
    size_t bad = str_utf8_invalid_at(*out);
    if (bad != out->len)
        return ft_fail(err, FT_EFORMAT, "byte %zu: %s is not valid UTF-8 at its byte %zu", f->at,
                       name, bad);
    return FT_OK;
}

/* Goes through the fields of a message. */
typedef ft_status take_fn(void *out, const struct wire_field *f, ft_error *err);

static ft_status read_message(void *out, take_fn *take, str bytes, const char *begin, ft_error *err)
{
    struct wire w = {begin, bytes, err};
    struct wire_field f;
    while (w.rest.len > 0) {
        FT_TRY(read_field(&f, &w));
        FT_TRY(take(out, &f, err));
    }
    return FT_OK;
}

/* --- the messages -----------------------------------------------------------------------------
 */

static ft_status take_piece_field(void *out, const struct wire_field *f, ft_error *err)
{
    struct spm_piece *p = out;
    switch (f->number) {
    case 1:
        return take_text(&p->text, f, "a piece", err);
    case 2:
        if (f->kind != WIRE_32)
            return wrong_kind(f, "the score of a piece", err);
        p->score = bits_to_f32((uint32_t)f->value);
        return FT_OK;
    case 3:
        if (f->kind != WIRE_VARINT)
            return wrong_kind(f, "the type of a piece", err);
        if (f->value < SPM_NORMAL || f->value > SPM_BYTE)
            return ft_fail(err, FT_EFORMAT, "byte %zu: a piece of unknown type %llu", f->at,
                           (unsigned long long)f->value);
        p->type = (enum spm_piece_type)f->value;
        return FT_OK;
    default:
        return FT_OK;
    }
}

static ft_status take_trainer_field(void *out, const struct wire_field *f, ft_error *err)
{
    struct spm_file *s = out;
    switch (f->number) {
    case 3:
        if (f->kind != WIRE_VARINT)
            return wrong_kind(f, "trainer_spec.model_type", err);
        if (f->value < SPM_UNIGRAM || f->value > SPM_CHAR)
            return ft_fail(err, FT_EFORMAT, "byte %zu: trainer_spec.model_type %llu is unknown",
                           f->at, (unsigned long long)f->value);
        s->model_type = (enum spm_model_type)f->value;
        return FT_OK;
    case 24:
        return take_bool(&s->treat_whitespace_as_suffix, f,
                         "trainer_spec.treat_whitespace_as_suffix", err);
    case 35:
        return take_bool(&s->byte_fallback, f, "trainer_spec.byte_fallback", err);
    case 44:
        return take_text(&s->unk_surface, f, "trainer_spec.unk_surface", err);
    case 45:
        return take_text(&s->unk_piece, f, "trainer_spec.unk_piece", err);
    case 46:
        return take_text(&s->bos_piece, f, "trainer_spec.bos_piece", err);
    case 47:
        return take_text(&s->eos_piece, f, "trainer_spec.eos_piece", err);
    case 48:
        return take_text(&s->pad_piece, f, "trainer_spec.pad_piece", err);
    default:
        return FT_OK;
    }
}

static ft_status take_normalizer_field(void *out, const struct wire_field *f, ft_error *err)
{
    struct spm_normalizer_spec *n = out;
    switch (f->number) {
    case 1:
        return take_text(&n->name, f, "normalizer_spec.name", err);
    case 2:
        return take_bytes(&n->charsmap, f, "normalizer_spec.precompiled_charsmap", err);
    case 3:
        return take_bool(&n->add_dummy_prefix, f, "normalizer_spec.add_dummy_prefix", err);
    case 4:
        return take_bool(&n->remove_extra_whitespaces, f,
                         "normalizer_spec.remove_extra_whitespaces", err);
    case 5:
        return take_bool(&n->escape_whitespaces, f, "normalizer_spec.escape_whitespaces", err);
    default:
        return FT_OK;
    }
}

static ft_status take_sample_field(void *out, const struct wire_field *f, ft_error *err)
{
    struct spm_self_test *t = out;
    if (f->number == 1)
        return take_text(&t->input, f, "self_test_data.samples.input", err);
    if (f->number == 2)
        return take_text(&t->output, f, "self_test_data.samples.expected", err);
    return FT_OK;
}

/* The whole file, read in two rounds: the first counts, so that the arrays are made once. */
struct model_reader {
    struct spm_file *file;
    const char *begin;
    bool counting;
};

static ft_status take_piece(struct model_reader *r, const struct wire_field *f, ft_error *err)
{
    str bytes;
    FT_TRY(take_bytes(&bytes, f, "pieces", err));
    if (r->counting) {
        r->file->n_pieces++;
        return FT_OK;
    }
    struct spm_piece *p = &r->file->pieces[r->file->n_pieces++];
    *p = (struct spm_piece){.text = {"", 0}, .type = SPM_NORMAL};
    FT_TRY(read_message(p, take_piece_field, bytes, r->begin, err));
    if (p->text.len == 0 || p->text.len > SPM_MAX_PIECE_BYTES)
        return ft_fail(err, FT_EFORMAT, "byte %zu: piece %zu has %zu bytes; 1 to %d are supported",
                       f->at, r->file->n_pieces - 1, p->text.len, SPM_MAX_PIECE_BYTES);
    if (p->score != p->score || p->score - p->score != 0)
        return ft_fail(err, FT_EFORMAT, "byte %zu: the score of piece %zu is not a number", f->at,
                       r->file->n_pieces - 1);
    return FT_OK;
}

static ft_status take_sample(void *out, const struct wire_field *f, ft_error *err)
{
    struct model_reader *r = out;
    str bytes;
    if (f->number != 1)
        return FT_OK;
    FT_TRY(take_bytes(&bytes, f, "self_test_data.samples", err));
    if (r->counting) {
        r->file->n_tests++;
        return FT_OK;
    }
    struct spm_self_test *t = &r->file->tests[r->file->n_tests++];
    *t = (struct spm_self_test){{"", 0}, {"", 0}};
    return read_message(t, take_sample_field, bytes, r->begin, err);
}

static ft_status take_model_field(void *out, const struct wire_field *f, ft_error *err)
{
    struct model_reader *r = out;
    str bytes;
    switch (f->number) {
    case 1:
        return take_piece(r, f, err);
    case 2:
        FT_TRY(take_bytes(&bytes, f, "trainer_spec", err));
        return read_message(r->file, take_trainer_field, bytes, r->begin, err);
    case 3:
        FT_TRY(take_bytes(&bytes, f, "normalizer_spec", err));
        return read_message(&r->file->normalizer, take_normalizer_field, bytes, r->begin, err);
    case 4:
        FT_TRY(take_bytes(&bytes, f, "self_test_data", err));
        return read_message(r, take_sample, bytes, r->begin, err);
    case 5:
        FT_TRY(take_bytes(&bytes, f, "denormalizer_spec", err));
        return read_message(&r->file->denormalizer, take_normalizer_field, bytes, r->begin, err);
    default:
        return FT_OK;
    }
}

/* The defaults of the format. An empty name of a special piece means its default too. */
static void set_defaults(struct spm_file *s)
{
    const struct spm_normalizer_spec spec = {{"", 0}, {"", 0}, true, true, true};
    *s = (struct spm_file){
        .model_type = SPM_UNIGRAM,
        .unk_piece = STR("<unk>"),
        .bos_piece = STR("<s>"),
        .eos_piece = STR("</s>"),
        .pad_piece = STR("<pad>"),
        .unk_surface = STR(" \xE2\x81\x87 "),
        .normalizer = spec,
        .denormalizer = spec,
    };
}

static void replace_empty(str *name, str fallback)
{
    if (name->len == 0)
        *name = fallback;
}

ft_status spm_file_parse(struct spm_file *out, struct arena *a, str bytes, ft_error *err)
{
    struct model_reader r = {out, bytes.ptr, true};
    if (bytes.len > SPM_MAX_FILE_BYTES)
        return ft_fail(err, FT_ELIMIT, "has %zu bytes; SentencePiece models up to %d are supported",
                       bytes.len, SPM_MAX_FILE_BYTES);
    set_defaults(out);
    FT_TRY(read_message(&r, take_model_field, bytes, r.begin, err));
    if (out->n_pieces == 0)
        return ft_fail(err, FT_EFORMAT, "holds no pieces: not a SentencePiece model");
    if (out->n_pieces > SPM_MAX_PIECES)
        return ft_fail(err, FT_ELIMIT, "%zu pieces, at most %d are supported", out->n_pieces,
                       SPM_MAX_PIECES);
    out->pieces = arena_alloc(a, out->n_pieces, sizeof *out->pieces);
    out->tests = arena_alloc(a, out->n_tests, sizeof *out->tests);
    if (out->pieces == NULL || out->tests == NULL)
        return ft_fail_memory(err, out->n_pieces * sizeof *out->pieces, "the pieces");
    r.counting = false;
    out->n_pieces = out->n_tests = 0;
    FT_TRY(read_message(&r, take_model_field, bytes, r.begin, err));
    replace_empty(&out->unk_piece, STR("<unk>"));
    replace_empty(&out->bos_piece, STR("<s>"));
    replace_empty(&out->eos_piece, STR("</s>"));
    replace_empty(&out->pad_piece, STR("<pad>"));
    return FT_OK;
}

/* --- writing ------------------------------------------------------------------------------------
 */

static void put_varint(struct buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_byte(out, (uint8_t)(v | 0x80));
    buf_byte(out, (uint8_t)v);
}

static void put_number(struct buf *out, uint32_t field, uint64_t v)
{
    put_varint(out, field << 3 | WIRE_VARINT);
    put_varint(out, v);
}

static void put_bytes(struct buf *out, uint32_t field, str bytes)
{
    put_varint(out, field << 3 | WIRE_BYTES);
    put_varint(out, bytes.len);
    buf_str(out, bytes);
}

static void put_piece(struct buf *out, const struct spm_piece *p)
{
    put_bytes(out, 1, p->text);
    put_varint(out, 2 << 3 | WIRE_32);
    buf_u32le(out, f32_to_bits(p->score));
    if (p->type != SPM_NORMAL)
        put_number(out, 3, p->type);
}

static void put_trainer(struct buf *out, const struct spm_file *f)
{
    put_number(out, 3, f->model_type);
    put_number(out, 24, f->treat_whitespace_as_suffix);
    put_number(out, 35, f->byte_fallback);
    put_bytes(out, 44, f->unk_surface);
    put_bytes(out, 45, f->unk_piece);
    put_bytes(out, 46, f->bos_piece);
    put_bytes(out, 47, f->eos_piece);
    put_bytes(out, 48, f->pad_piece);
}

static void put_normalizer(struct buf *out, const struct spm_normalizer_spec *n)
{
    put_bytes(out, 1, n->name);
    put_bytes(out, 2, n->charsmap);
    put_number(out, 3, n->add_dummy_prefix);
    put_number(out, 4, n->remove_extra_whitespaces);
    put_number(out, 5, n->escape_whitespaces);
}

/* Puts what `part` holds as one field and empties it. */
static void put_part(struct buf *out, uint32_t field, struct buf *part)
{
    put_bytes(out, field, buf_view(part));
    out->failed |= part->failed;
    buf_clear(part);
}

void spm_file_write(struct buf *out, const struct spm_file *file)
{
    struct buf part = {0};
    for (size_t i = 0; i < file->n_pieces; i++) {
        put_piece(&part, &file->pieces[i]);
        put_part(out, 1, &part);
    }
    put_trainer(&part, file);
    put_part(out, 2, &part);
    put_normalizer(&part, &file->normalizer);
    put_part(out, 3, &part);
    buf_free(&part);
}

bool spm_file_looks_like(str bytes)
{
    /* pieces = 1, length; piece = 1, length. */
    return bytes.len > 8 && bytes.ptr[0] == 0x0A && (uint8_t)bytes.ptr[1] < 0x80 &&
           bytes.ptr[2] == 0x0A && (uint8_t)bytes.ptr[3] < (uint8_t)bytes.ptr[1];
}
