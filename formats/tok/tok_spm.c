/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece .model files as tokenizers. Their control pieces are the special tokens: text never
 * becomes one unless special tokens are parsed, and then what lies between them is encoded by
 * itself, as by a call of SentencePiece each. */
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"
#include "formats/tok/tok_internal.h"

static ft_status no_memory(size_t bytes, ft_error *err)
{
    return ft_fail_memory(err, bytes, "a vocabulary");
}

/* What decides ids is the file without the rest. */
static ft_status fingerprint(struct tok *t, ft_error *err)
{
    struct buf file = {0};
    spm_file_write(&file, spm_contents(t->spm));
    ft_status st = buf_status(&file, "a SentencePiece model", err);
    if (st == FT_OK)
        t->fingerprint = hash128_of(file.data, file.len);
    buf_free(&file);
    return st;
}

static ft_status add_control_pieces(struct tok *t, ft_error *err)
{
    const struct spm_file *f = spm_contents(t->spm);
    struct added_token *added = arena_alloc(&t->arena, f->n_pieces, sizeof *added);
    size_t n = 0;
    if (added == NULL)
        return no_memory(f->n_pieces * sizeof *added, err);
    for (size_t id = 0; id < f->n_pieces; id++) {
        if (f->pieces[id].type != SPM_CONTROL)
            continue;
        t->special[id] = 1;
        added[n++] = (struct added_token){f->pieces[id].text, (int32_t)id, ADDED_SPECIAL,
                                          f->pieces[id].text};
    }
    qsort(added, n, sizeof *added, added_compare);
    return added_init(&t->added, &t->arena, added, n, err);
}

static ft_status fill(struct tok *t, const struct spm_file *file, ft_error *err)
{
    FT_TRY(spm_create(&t->spm, file, err));
    const struct spm_file *f = spm_contents(t->spm);
    t->n_vocab = (int32_t)f->n_pieces;
    t->bos = spm_bos(t->spm);
    t->eos = spm_eos(t->spm);
    t->pieces = arena_alloc(&t->arena, f->n_pieces, sizeof *t->pieces);
    t->bytes = arena_alloc(&t->arena, f->n_pieces, sizeof *t->bytes);
    t->special = arena_alloc(&t->arena, f->n_pieces, 1);
    t->chat_template = arena_str(&t->arena, STR(""));
    if (t->pieces == NULL || t->bytes == NULL || t->special == NULL || t->chat_template.ptr == NULL)
        return no_memory(f->n_pieces * sizeof *t->pieces, err);
    for (int32_t id = 0; id < t->n_vocab; id++) {
        t->pieces[id] = f->pieces[id].text;
        t->bytes[id] =
            f->pieces[id].type == SPM_CONTROL ? f->pieces[id].text : spm_text(t->spm, id);
    }
    FT_TRY(add_control_pieces(t, err));
    return fingerprint(t, err);
}

ft_status tok_spm_make(struct tok **out, const struct spm_file *file, ft_error *err)
{
    struct tok *t;
    *out = NULL;
    FT_TRY(mem_new(&t, 1, sizeof *t, "a tokenizer", err));
    ft_status st = fill(t, file, err);
    if (st != FT_OK) {
        tok_close(t);
        return st;
    }
    *out = t;
    return FT_OK;
}

ft_status tok_spm_parse(struct tok **out, const char *name, str bytes, ft_error *err)
{
    struct arena scratch = {0};
    struct spm_file file;
    *out = NULL;
    ft_status st = spm_file_parse(&file, &scratch, bytes, err);
    if (st == FT_OK)
        st = tok_spm_make(out, &file, err);
    arena_destroy(&scratch);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", name);
}

ft_status tok_spm_load(struct tok **out, const char *path, ft_error *err)
{
    struct file_map m;
    FT_TRY(file_map_open(&m, path, err));
    ft_status st = tok_spm_parse(out, path, (str){(const char *)m.data, m.bytes}, err);
    file_map_close(&m);
    return st;
}
