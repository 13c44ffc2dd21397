/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/recipe.h"

#include <string.h>

#include "common/file.h"
#include "common/log.h"
#include "tools/inputs.h"

static ft_status keep_text(const char **out, struct arena *a, str text, ft_error *err)
{
    *out = arena_cstr(a, text);
    return *out == NULL ? ft_fail_memory(err, text.len, "the recipe") : FT_OK;
}

/* The program itself: parts of another version are not taken for those of this one. */
static hash128 program_hash(void)
{
    struct file_map map;
    ft_error ignored;
    if (file_map_open(&map, "/proc/self/exe", &ignored) != FT_OK)
        return hash128_of(FT_VERSION, strlen(FT_VERSION));
    hash128 h = hash128_of(map.data, map.bytes);
    file_map_close(&map);
    return h;
}

/* The value of --rows, or the items of --columns. */
static ft_status describe_rows(const char **out, struct arena *a, const struct recipe_options *o,
                               ft_error *err)
{
    struct buf text = {0};
    for (size_t i = 0; i < o->columns.n; i++)
        buf_printf(&text, "%s%s", i == 0 ? "" : ",", o->columns.items[i]);
    ft_status st = buf_status(&text, "the columns", err);
    if (st == FT_OK)
        st = keep_text(out, a, o->columns.n == 0 ? str_from(o->rows) : buf_view(&text), err);
    buf_free(&text);
    return st;
}

/* What describe_rows wrote. */
static ft_status restore_rows(struct source_options *out, struct arena *a, const char *rows,
                              ft_error *err)
{
    str rest = str_from(rows);
    struct opt_list columns = {0};
    if (strchr(rows, '=') == NULL)
        return source_set_rows(out, rows, &columns, err);
    columns.items = arena_alloc(a, rest.len + 1, sizeof *columns.items);
    if (columns.items == NULL)
        return ft_fail_memory(err, rest.len, "the columns");
    while (rest.len > 0)
        FT_TRY(keep_text(&columns.items[columns.n++], a, str_cut(&rest, ','), err));
    return source_set_rows(out, "auto", &columns, err);
}

static ft_status set_manifest(struct manifest *m, const struct recipe *r, ft_error *err)
{
    str jinja = tok_chat_template(r->tok);
    m->tool = "ftprep " FT_VERSION;
    m->template_hash = hash128_of(jinja.ptr, jinja.len);
    m->n_vocab = tok_n_vocab(r->tok);
    m->token_bytes = shard_token_bytes(m->n_vocab);
    m->tokenizer_fingerprint = tok_fingerprint(r->tok);
    FT_TRY(keep_text(&m->chat_template, &m->arena, str_from(chat_template_name(r->chat_template)),
                     err));
    return keep_text(&m->template_source, &m->arena, chat_template_source(r->chat_template), err);
}

static struct manifest_options manifest_options(const struct recipe_options *o)
{
    return (struct manifest_options){
        .max_length = o->max_length,
        .too_long = (enum too_long)o->too_long,
        .skip_errors = o->on_error == 1,
        .strict = o->strict,
        .merge = o->merge,
        .train_on = o->train_on,
        .parse_specials = o->content_specials == 1,
        .dedup = o->dedup,
        .eval_fraction = o->eval_fraction,
        .seed = o->seed,
        .part_bytes = o->part_bytes,
        .shard_bytes = o->shard_bytes,
        .compression_level = o->compression_level,
    };
}

/* Several tokens where the model knows one: the template is another model's. Users know their own.
 */
static void warn_about_stops(const struct chat_template *t)
{
    const str *words;
    size_t n = chat_template_source(t).len > 0 ? 0 : chat_stop_words(t, &words);
    for (size_t i = 0; i < n; i++)
        log_warn("--template %s ends answers with %.*s, which is no token of this tokenizer: is it "
                 "the model's template?",
                 chat_template_name(t), STR_ARG(words[i]));
}

ft_status recipe_open(struct recipe *r, const struct recipe_options *o, int n_inputs,
                      const char **inputs, ft_error *err)
{
    struct manifest *m = &r->plan.manifest;
    enum source_use use = o->eval_fraction > 0 ? SOURCE_BOTH : SOURCE_TRAIN;
    *r = (struct recipe){.source = {.strict = o->strict, .merge = o->merge}};
    FT_TRY(source_set_rows(&r->source, o->rows, &o->columns, err));
    FT_TRY(source_set_train_on(&r->source, o->train_on, err));
    if (o->eval.n > 0 && o->eval_fraction > 0)
        return ft_fail(err, FT_EUSAGE, "--eval and --eval-fraction exclude each other");
    FT_TRY(tok_open(&r->tok, o->tokenizer, err));
    FT_TRY(chat_template_open(&r->chat_template, o->chat_template, r->tok, err));
    warn_about_stops(r->chat_template);
    FT_TRY(set_manifest(m, r, err));
    m->options = manifest_options(o);
    FT_TRY(describe_rows(&m->options.rows, &m->arena, o, err));
    r->plan.tool_hash = program_hash();
    return inputs_set(m, use, inputs, (size_t)n_inputs, o->eval.items, o->eval.n, err);
}

ft_status recipe_restore(struct recipe *r, const char *dir, ft_error *err)
{
    struct manifest *m = &r->plan.manifest;
    *r = (struct recipe){0};
    FT_TRY(plan_load(&r->plan, dir, err));
    if (strcmp(m->tool, "ftprep " FT_VERSION) != 0)
        return ft_fail(err, FT_EFORMAT, "%s/" PLAN_FILE ": made by %s, this is ftprep " FT_VERSION,
                       dir, m->tool);
    FT_TRY(tok_open(&r->tok, dir, err));
    if (!hash128_eq(tok_fingerprint(r->tok), m->tokenizer_fingerprint))
        return ft_fail(err, FT_EFORMAT, "%s/" TOKENIZER_FILE ": not the tokenizer of the plan",
                       dir);
    r->source = (struct source_options){.strict = m->options.strict, .merge = m->options.merge};
    FT_TRY(restore_rows(&r->source, &m->arena, m->options.rows, err));
    FT_TRY(source_set_train_on(&r->source, m->options.train_on, err));
    return chat_template_restore(&r->chat_template, m->chat_template, str_from(m->template_source),
                                 r->tok, err);
}

void recipe_close(struct recipe *r)
{
    plan_free(&r->plan);
    chat_template_close(r->chat_template);
    tok_close(r->tok);
    *r = (struct recipe){0};
}
