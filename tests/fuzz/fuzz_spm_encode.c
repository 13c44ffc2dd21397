/* SPDX-License-Identifier: Apache-2.0
 * A model made of the input, compared with the definition: one byte for the kind of model and one
 * for its flags; then pieces, each a byte for type and score and a text up to NUL; an empty piece
 * ends them, what follows is the text to encode, twice, so that the cache is used. */
#include <stdlib.h>
#include <string.h>

#include "formats/tok/spm.h"
#include "tests/support/naive_spm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_PIECES = 64, MAX_PIECE = 12, MAX_TEXT = 200, N_BYTES = 256 };

struct input {
    struct spm_piece pieces[MAX_PIECES + N_BYTES + 1];
    char names[N_BYTES][8];
    struct spm_file file;
};

static void add_piece(struct input *in, str text, float score, enum spm_piece_type type)
{
    in->pieces[in->file.n_pieces++] = (struct spm_piece){text, score, type};
}

static void add_bytes(struct input *in)
{
    static const char digits[] = "0123456789ABCDEF";
    for (unsigned c = 0; c < N_BYTES; c++) {
        char name[8] = {'<', '0', 'x', digits[c >> 4], digits[c & 15], '>'};
        memcpy(in->names[c], name, sizeof name);
        add_piece(in, (str){in->names[c], 6}, 0, SPM_BYTE);
    }
}

static str read_pieces(struct input *in, str rest)
{
    static const enum spm_piece_type types[] = {SPM_NORMAL, SPM_NORMAL, SPM_NORMAL,
                                                SPM_NORMAL, SPM_NORMAL, SPM_USER_DEFINED,
                                                SPM_UNUSED, SPM_CONTROL};
    static const float scores[] = {0.0f,  -0.0f, -1.0f,  -1.5f, -2.25f,    -3.1f,
                                   -1e9f, 0.7f,  -10.3f, -5.5f, -60000.0f, 3e4f};
    while (rest.len > 1 && in->file.n_pieces < MAX_PIECES) {
        uint8_t kind = (uint8_t)rest.ptr[0];
        rest = str_sub(rest, 1, rest.len);
        str text = str_cut(&rest, '\0');
        if (text.len == 0)
            break;
        if (text.len <= MAX_PIECE && str_utf8_invalid_at(text) == text.len)
            add_piece(in, text, scores[(kind >> 3) % ARRAY_LEN(scores)], types[kind & 7]);
    }
    return rest;
}

static str read_input(struct input *in, str rest)
{
    uint8_t kind = (uint8_t)rest.ptr[0], flags = (uint8_t)rest.ptr[1];
    static const enum spm_model_type types[] = {SPM_UNIGRAM, SPM_BPE, SPM_CHAR};
    struct spm_file *f = &in->file;
    *f = (struct spm_file){
        .pieces = in->pieces,
        .model_type = types[kind % 3],
        .byte_fallback = flags & 1,
        .treat_whitespace_as_suffix = flags & 2,
        .unk_piece = STR("<unk>"),
        .bos_piece = STR("<s>"),
        .eos_piece = STR("</s>"),
        .pad_piece = STR("<pad>"),
        .unk_surface = STR("?"),
        .normalizer = {.name = STR(""),
                       .charsmap = STR(""),
                       .add_dummy_prefix = flags & 4,
                       .remove_extra_whitespaces = flags & 8,
                       .escape_whitespaces = flags & 16},
        .denormalizer = {.name = STR(""), .charsmap = STR("")},
    };
    add_piece(in, STR("<unk>"), 0, SPM_UNKNOWN);
    rest = read_pieces(in, str_sub(rest, 2, rest.len));
    if (f->byte_fallback)
        add_bytes(in);
    rest = str_sub(rest, 0, FT_MIN(rest.len, (size_t)MAX_TEXT));
    return str_sub(rest, 0, str_utf8_invalid_at(rest));
}

static void compare(const struct spm *s, const struct spm_file *f, str text)
{
    struct spm_encoder *e;
    struct tok_ids want = {0}, first = {0}, again = {.want_offsets = true};
    ft_error err;
    if (spm_encoder_create(&e, s, &err) != FT_OK || spm_encode(e, &first, text, 0, &err) != FT_OK ||
        spm_encode(e, &again, text, 0, &err) != FT_OK)
        abort();
    naive_spm_encode(&want, f, spm_normalized(e));
    if (want.n != first.n || want.n != again.n ||
        (want.n > 0 && (memcmp(want.ids, first.ids, want.n * sizeof *want.ids) != 0 ||
                        memcmp(want.ids, again.ids, want.n * sizeof *want.ids) != 0)))
        abort();
    for (size_t i = 0; i < again.n; i++)
        if (again.offsets[i] > text.len || (i > 0 && again.offsets[i] < again.offsets[i - 1]))
            abort();
    tok_ids_free(&want);
    tok_ids_free(&first);
    tok_ids_free(&again);
    spm_encoder_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in;
    struct spm *s;
    ft_error err;
    if (size < 2)
        return 0;
    str text = read_input(&in, (str){(const char *)data, size});
    if (spm_create(&s, &in.file, &err) != FT_OK)
        return 0;
    compare(s, &in.file, text);
    spm_destroy(s);
    return 0;
}
