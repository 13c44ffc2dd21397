/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/export_files.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "formats/tok/tok_export.h"
#include "tools/modelfile.h"

static ft_status publish_text(const char *path, const struct buf *text, ft_error *err)
{
    FT_TRY(buf_status(text, path, err));
    return file_publish(path, text->data, text->len, err);
}

/* dir/name with the text, which is freed. */
static ft_status publish_in(const char *dir, const char *name, struct buf *text, ft_error *err)
{
    struct arena a = {0};
    const char *path = path_join(&a, dir, name);
    ft_status st =
        path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : publish_text(path, text, err);
    arena_destroy(&a);
    buf_free(text);
    return st;
}

ft_status export_chat_template(const struct export_files *f, const char *path, ft_error *err)
{
    str jinja = f->tok == NULL ? (str){NULL, 0} : tok_chat_template(f->tok);
    return jinja.len == 0 ? FT_OK : file_publish(path, jinja.ptr, jinja.len, err);
}

/* --- Modelfile ------------------------------------------------------------------------------- */

static ft_status write_modelfile(const struct export_files *f, struct modelfile *m,
                                 const char *path, ft_error *err)
{
    struct buf text = {0};
    bool has_template = false;
    ft_status st = modelfile_write(&text, &has_template, m, err);
    if (st == FT_OK)
        st = publish_text(path, &text, err);
    buf_free(&text);
    if (st == FT_OK && !has_template)
        log_warn("%s: no TEMPLATE, because %s has no chat template that is known here",
                 path_base(path), f->base_path);
    return st;
}

ft_status export_modelfile(const struct export_files *f, const char *path, const char *adapter,
                           ft_error *err)
{
    struct modelfile m = {.from = ".", .adapter = adapter, .tok = f->tok};
    char *absolute = NULL;
    if (adapter != NULL && export_base_is_nf4(f->base)) {
        m.note = "Put the path of the model that was quantised here:";
        m.from = export_base_source(f->base);
    } else if (adapter != NULL) {
        /* Ollama resolves relative paths from the Modelfile. */
        m.from = absolute = realpath(f->base_path, NULL);
        if (absolute == NULL)
            return ft_fail_errno(err, "%s", f->base_path);
    }
    ft_status st = write_modelfile(f, &m, path, err);
    free(absolute);
    return st;
}

/* --- a whole model --------------------------------------------------------------------------- */

/* Copies a file when it exists. */
static ft_status copy_file(const char *from, const char *to, ft_error *err)
{
    struct file_map map;
    if (!path_exists(from))
        return FT_OK;
    FT_TRY(file_map_open(&map, from, err));
    ft_status st = file_publish(to, map.data, map.bytes, err);
    file_map_close(&map);
    return st;
}

static ft_status copy_tokenizer(const struct export_files *f, const char *dir, ft_error *err)
{
    static const char *const names[] = {
        "tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json",
        "added_tokens.json", "tokenizer.model",       "vocab.json",
        "merges.txt",        "chat_template.jinja",
    };
    struct arena a = {0};
    ft_status st = FT_OK;
    for (size_t i = 0; i < ARRAY_LEN(names) && st == FT_OK; i++) {
        const char *from = path_join(&a, export_base_dir(f->base), names[i]);
        const char *to = path_join(&a, dir, names[i]);
        st = from == NULL || to == NULL ? ft_fail_memory(err, strlen(dir), "a path")
                                        : copy_file(from, to, err);
    }
    arena_destroy(&a);
    return st;
}

static ft_status verify_tokenizer(const struct export_files *f, const char *path, ft_error *err)
{
    struct tok *written;
    FT_TRY(tok_open(&written, path, err));
    hash128 was = tok_fingerprint(f->tok), is = tok_fingerprint(written);
    tok_close(written);
    if (was.lo != is.lo || was.hi != is.hi)
        return ft_fail(err, FT_EFORMAT,
                       "the tokenizer of %s cannot be written as %s: it reads back differently",
                       f->base_path, tok_file_name(f->tok));
    return FT_OK;
}

static ft_status write_tokenizer(const struct export_files *f, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct buf model = {0}, config = {0};
    const char *path = path_join(&a, dir, tok_file_name(f->tok));
    const char *jinja = path_join(&a, dir, "chat_template.jinja");
    ft_status st;
    if (path == NULL || jinja == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(dir), "a path"));
    FT_GOTO(tok_to_file(&model, f->tok, err));
    FT_GOTO(publish_text(path, &model, err));
    FT_GOTO(verify_tokenizer(f, path, err));
    FT_GOTO(export_chat_template(f, jinja, err));
    tok_to_config_json(&config, f->tok, export_base_config(f->base)->max_positions);
    FT_GOTO(publish_in(dir, "tokenizer_config.json", &config, err));
out:
    buf_free(&model);
    arena_destroy(&a);
    return st;
}

/* The token that ends a turn of the model's own template; -1 when that is not known. */
static ft_status find_stop(int32_t *out, const struct tok *tok, ft_error *err)
{
    const char *name = tok == NULL ? NULL : chat_known_for(tok_chat_template(tok));
    struct chat_template *t;
    const int32_t *ids;
    *out = -1;
    if (name == NULL)
        return FT_OK;
    FT_TRY(chat_template_open(&t, name, tok, err));
    if (chat_stop_ids(t, &ids) > 0)
        *out = ids[0];
    chat_template_close(t);
    return FT_OK;
}

/* The ids that end generation: the model's EOS and the token that ends a turn. */
static void generation_config(struct buf *out, const struct export_files *f, int32_t stop)
{
    const struct model_config *c = export_base_config(f->base);
    int32_t eos = c->eos_id >= 0 ? c->eos_id : stop;
    buf_cstr(out, "{");
    if (c->bos_id >= 0)
        buf_printf(out, "\n  \"bos_token_id\": %d%s", c->bos_id, eos >= 0 ? "," : "");
    if (eos >= 0 && stop >= 0 && stop != eos)
        buf_printf(out, "\n  \"eos_token_id\": [%d, %d]", eos, stop);
    else if (eos >= 0)
        buf_printf(out, "\n  \"eos_token_id\": %d", eos);
    buf_cstr(out, "\n}\n");
}

static ft_status write_generation_config(const struct export_files *f, const char *dir,
                                         ft_error *err)
{
    static const char name[] = "generation_config.json";
    struct arena a = {0};
    struct buf text = {0};
    const char *from = NULL, *to = path_join(&a, dir, name);
    ft_status st;
    if (export_base_dir(f->base) != NULL)
        from = path_join(&a, export_base_dir(f->base), name);
    if (to == NULL || (export_base_dir(f->base) != NULL && from == NULL)) {
        st = ft_fail_memory(err, strlen(dir), "a path");
    } else if (from != NULL && path_exists(from)) {
        st = copy_file(from, to, err);
    } else {
        int32_t stop;
        st = find_stop(&stop, f->tok, err);
        if (st == FT_OK) {
            generation_config(&text, f, stop);
            st = publish_text(to, &text, err);
        }
    }
    buf_free(&text);
    arena_destroy(&a);
    return st;
}

ft_status export_companions(const struct export_files *f, const char *dir, ft_error *err)
{
    struct arena a = {0};
    struct buf config = {0};
    const char *modelfile = path_join(&a, dir, "Modelfile");
    ft_status st;
    if (modelfile == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(dir), "a path"));
    model_config_to_hf(&config, export_base_config(f->base));
    FT_GOTO(publish_in(dir, "config.json", &config, err));
    FT_GOTO(write_generation_config(f, dir, err));
    if (export_base_dir(f->base) != NULL)
        FT_GOTO(copy_tokenizer(f, dir, err));
    else if (f->tok != NULL)
        FT_GOTO(write_tokenizer(f, dir, err));
    FT_GOTO(export_modelfile(f, modelfile, NULL, err));
out:
    arena_destroy(&a);
    return st;
}
