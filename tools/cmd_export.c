/* SPDX-License-Identifier: Apache-2.0
 * ftprep export: a trained adapter -> what other programs load (docs/export.md). A directory is
 * built under a temporary name and renamed when it is whole. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cpu.h"
#include "common/file.h"
#include "common/log.h"
#include "tools/commands.h"
#include "tools/export_files.h"
#include "tools/export_merged.h"
#include "tools/gguf_lora.h"
#include "tools/out_dir.h"
#include "tools/stop.h"

enum format { FORMAT_PEFT, FORMAT_MERGED, FORMAT_GGUF_LORA };
enum dtype_choice { DTYPE_AUTO, DTYPE_F32, DTYPE_F16, DTYPE_BF16 };
enum { DEFAULT_SHARD_MIB = 5000 };

struct values {
    int format;
    const char *adapter, *base, *out;
    int dtype;
    int64_t shard_size; /* MiB; 0 = not given */
    int64_t threads;
    bool force;
};

struct export
{
    const struct values *v;
    struct arena arena;
    struct adapter *adapter;  /* NULL = none */
    struct export_base *base; /* NULL = none */
    struct tok *tok;          /* of the base; NULL = none, or not understood */
    struct export_files files;
    enum dtype dtype;
};

static ft_status no_memory(ft_error *err)
{
    return ft_fail_memory(err, 0, "a path");
}

/* --- inputs ---------------------------------------------------------------------------------- */

static ft_status check_options(const struct values *v, ft_error *err)
{
    if (v->adapter == NULL && v->format != FORMAT_MERGED)
        return ft_fail(err, FT_EUSAGE, "this format needs --adapter");
    if (v->base == NULL && v->format != FORMAT_PEFT)
        return ft_fail(err, FT_EUSAGE,
                       "this format needs --base, the model the adapter belongs to");
    if (v->shard_size != 0 && v->format != FORMAT_MERGED)
        return ft_fail(err, FT_EUSAGE, "--shard-size has no effect with this --format");
    return FT_OK;
}

/* A tokenizer that is not understood costs the files derived from it, not the export. */
static ft_status open_tok(struct export *x, ft_error *err)
{
    ft_status st = export_base_tok(&x->tok, x->base, err);
    if (st == FT_EFORMAT) {
        log_warn("the tokenizer of the base is not understood: %s", err->text);
        st = FT_OK;
    }
    x->files = (struct export_files){x->base, x->v->base, x->tok};
    return st;
}

static ft_status open_adapter(struct export *x, ft_error *err)
{
    const char *dir;
    FT_TRY(adapter_locate(&dir, &x->arena, x->v->adapter, err));
    FT_TRY(adapter_open(&x->adapter, dir, err));
    const struct adapter_config *c = adapter_config_of(x->adapter);
    log_info("adapter of rank %" PRId64 " for %" PRId64 " layers%s%s", c->rank,
             adapter_layers(x->adapter), c->base_name == NULL ? "" : ", trained on ",
             c->base_name == NULL ? "" : c->base_name);
    return FT_OK;
}

static ft_status open_base(struct export *x, ft_error *err)
{
    FT_TRY(export_base_open(&x->base, x->v->base, err));
    if (x->adapter != NULL &&
        adapter_check_model(x->adapter, export_base_config(x->base), err) != FT_OK)
        return ft_wrap(err, "%s and %s", x->v->adapter, x->v->base);
    return open_tok(x, err);
}

static ft_status open_inputs(struct export *x, ft_error *err)
{
    if (x->v->adapter != NULL)
        FT_TRY(open_adapter(x, err));
    return x->v->base == NULL ? FT_OK : open_base(x, err);
}

/* --- formats --------------------------------------------------------------------------------- */

/* Said before the work is done. --force replaces an earlier export, which has the marker file, and
 * never a directory of something else. */
static ft_status check_replaceable(struct export *x, const char *marker, ft_error *err)
{
    const char *out = x->v->out, *path = path_join(&x->arena, out, marker);
    const char **names;
    size_t n;
    if (path == NULL)
        return no_memory(err);
    if (!path_exists(out))
        return FT_OK;
    if (!x->v->force)
        return ft_fail(err, FT_EIO, "%s exists; --force replaces it", out);
    if (!path_is_dir(out))
        return ft_fail(err, FT_EIO, "%s exists and is not a directory", out);
    FT_TRY(dir_list(&names, &n, &x->arena, out, err));
    if (n > 0 && !path_exists(path))
        return ft_fail(err, FT_EIO,
                       "%s exists and is not an earlier export (there is no %s in it); it is not "
                       "replaced",
                       out, marker);
    return FT_OK;
}

static ft_status write_peft(struct export *x, const char *dir, ft_error *err)
{
    const char *jinja = path_join(&x->arena, dir, "chat_template.jinja");
    const char *modelfile = path_join(&x->arena, dir, "Modelfile");
    if (jinja == NULL || modelfile == NULL)
        return no_memory(err);
    FT_TRY(adapter_convert(x->adapter, dir, x->dtype, err));
    FT_TRY(stop_check(err));
    if (x->base == NULL)
        return FT_OK;
    FT_TRY(export_chat_template(&x->files, jinja, err));
    return export_modelfile(&x->files, modelfile, ".", err);
}

static ft_status export_peft(struct export *x, ft_error *err)
{
    struct out_dir out;
    FT_TRY(check_replaceable(x, "adapter_config.json", err));
    FT_TRY(out_dir_begin(&out, x->v->out, err));
    ft_status st = write_peft(x, out.work, err);
    if (st == FT_OK)
        st = out_dir_commit(&out, x->v->force, err);
    out_dir_abort(&out);
    return st;
}

static ft_status write_weights(struct export_merged_result *result, struct export *x,
                               const char *dir, ft_error *err)
{
    int64_t mib = x->v->shard_size > 0 ? x->v->shard_size : DEFAULT_SHARD_MIB;
    int n_threads = x->v->threads > 0 ? (int)x->v->threads : cpu_count();
    struct export_merged m = {
        .base = x->base,
        .adapter = x->adapter,
        .dtype = x->dtype,
        .shard_bytes = (uint64_t)mib << 20,
        .dir = dir,
    };
    FT_TRY(pool_create(&m.pool, n_threads, err));
    ft_status st = export_merged_write(result, &m, err);
    pool_destroy(m.pool);
    return st;
}

static void say_what_was_merged(const struct export *x)
{
    if (x->adapter != NULL && export_base_is_nf4(x->base))
        log_info("merged into the dequantised NF4 weights, those the adapter was trained on");
    else if (x->adapter != NULL)
        log_info("merged into the original weights; the adapter was trained on their NF4 form "
                 "(docs/export.md says what that means)");
}

static ft_status export_merged(struct export *x, ft_error *err)
{
    struct out_dir out;
    struct export_merged_result r;
    char size[32];
    FT_TRY(check_replaceable(x, "config.json", err));
    FT_TRY(out_dir_begin(&out, x->v->out, err));
    ft_status st = export_companions(&x->files, out.work, err);
    if (st == FT_OK)
        st = write_weights(&r, x, out.work, err);
    if (st == FT_OK)
        st = out_dir_commit(&out, x->v->force, err);
    out_dir_abort(&out);
    if (st != FT_OK)
        return st;
    say_what_was_merged(x);
    printf("%s: %" PRId64 " tensors in %s, %" PRId64 " file%s, %s\n", x->v->out, r.n_tensors,
           dtype_name(x->dtype), r.n_files, r.n_files == 1 ? "" : "s",
           format_bytes(size, (double)r.bytes));
    return FT_OK;
}

/* The name of the GGUF file with another ending; NULL on exhaustion. */
static const char *neighbour(struct export *x, const char *ending)
{
    str stem = str_sub(str_from(x->v->out), 0, strlen(x->v->out) - strlen(".gguf"));
    size_t n = stem.len + strlen(ending) + 1;
    char *path = arena_alloc(&x->arena, n, 1);
    if (path != NULL)
        snprintf(path, n, "%.*s%s", STR_ARG(stem), ending);
    return path;
}

/* As check_replaceable; the files beside the GGUF file belong to it. */
static ft_status check_files(const struct export *x, const char *const *files, size_t n,
                             ft_error *err)
{
    const char *out = x->v->out;
    for (size_t i = 0; i < n; i++) {
        FT_TRY(file_check_target(files[i], err));
        if (path_exists(files[i]) && !x->v->force)
            return ft_fail(err, FT_EIO, "%s exists; --force replaces it", files[i]);
    }
    if (path_same(out, x->v->base))
        return ft_fail(err, FT_EUSAGE, "--out: %s is the base", out);
    if (path_exists(out) && gguf_lora_check(out, err) != FT_OK)
        return ft_wrap(err, "--force replaces GGUF adapters only");
    return FT_OK;
}

static ft_status export_gguf_lora(struct export *x, ft_error *err)
{
    struct gguf_writer file = {0};
    ft_status st;
    if (!str_ends(str_from(x->v->out), STR(".gguf")))
        return ft_fail(err, FT_EUSAGE, "--out: expected a file name that ends in .gguf");
    const char *jinja = neighbour(x, ".jinja"), *modelfile = neighbour(x, ".Modelfile");
    if (jinja == NULL || modelfile == NULL)
        return no_memory(err);
    const char *const files[] = {x->v->out, jinja, modelfile};
    FT_TRY(check_files(x, files, ARRAY_LEN(files), err));
    FT_GOTO(
        gguf_lora_write(&file, x->v->out, x->adapter, export_base_config(x->base), x->dtype, err));
    FT_GOTO(export_chat_template(&x->files, jinja, err));
    FT_GOTO(export_modelfile(&x->files, modelfile, path_base(x->v->out), err));
    FT_GOTO(gguf_write_commit(&file, err));
out:
    gguf_write_abort(&file);
    return st;
}

/* --- command --------------------------------------------------------------------------------- */

static enum dtype choose_dtype(const struct values *v)
{
    switch ((enum dtype_choice)v->dtype) {
    case DTYPE_F32:
        return DT_F32;
    case DTYPE_F16:
        return DT_F16;
    case DTYPE_BF16:
        return DT_BF16;
    case DTYPE_AUTO:
        break;
    }
    return v->format == FORMAT_MERGED ? DT_BF16 : DT_F32;
}

static ft_status export_adapter(struct export *x, ft_error *err)
{
    bool peft = x->v->format == FORMAT_PEFT;
    FT_TRY(peft ? export_peft(x, err) : export_gguf_lora(x, err));
    printf("%s: %s adapter, rank %" PRId64 ", %" PRId64 " layers, %s\n", x->v->out,
           peft ? "PEFT" : "GGUF LoRA", adapter_config_of(x->adapter)->rank,
           adapter_layers(x->adapter), dtype_name(x->dtype));
    return FT_OK;
}

static ft_status run(void *values, int n_args, const char **args, ft_error *err)
{
    struct export x = {.v = values, .dtype = choose_dtype(values)};
    struct stop stop;
    ft_status st;
    (void)n_args;
    (void)args;
    stop_catch(&stop);
    FT_GOTO(check_options(x.v, err));
    FT_GOTO(open_inputs(&x, err));
    st = x.v->format == FORMAT_MERGED ? export_merged(&x, err) : export_adapter(&x, err);
out:
    stop_restore(&stop);
    tok_close(x.tok);
    adapter_close(x.adapter);
    export_base_close(x.base);
    arena_destroy(&x.arena);
    return st;
}

static const struct opt options[] = {
    {.name = "format",
     .type = OPT_CHOICE,
     .offset = offsetof(struct values, format),
     .choices = "peft|merged|gguf-lora",
     .help = "what to write",
     .required = true},
    {.name = "adapter",
     .type = OPT_STRING,
     .offset = offsetof(struct values, adapter),
     .metavar = "DIR",
     .help = "a PEFT adapter, or a run or checkpoint of fttrain; merged works without"},
    {.name = "base",
     .type = OPT_STRING,
     .offset = offsetof(struct values, base),
     .metavar = "MODEL",
     .help = "the base model: GGUF file, Hugging Face directory or .nf4 file"},
    {.name = "out",
     .type = OPT_STRING,
     .offset = offsetof(struct values, out),
     .metavar = "PATH",
     .help = "directory to write; for gguf-lora a file NAME.gguf",
     .required = true},
    {.name = "dtype",
     .type = OPT_CHOICE,
     .offset = offsetof(struct values, dtype),
     .def = "auto",
     .choices = "auto|f32|f16|bf16",
     .help = "type of the values; auto is bf16 for merged, f32 for adapters"},
    {.name = "shard-size",
     .type = OPT_INT,
     .offset = offsetof(struct values, shard_size),
     .min = 1,
     .max = 1 << 30,
     .metavar = "MIB",
     .help = "largest file of a merged model, 5000 when not given"},
    {.name = "threads",
     .type = OPT_INT,
     .offset = offsetof(struct values, threads),
     .def = "0",
     .min = 0,
     .max = 1024,
     .metavar = "N",
     .help = "worker threads, 0 = all processors"},
    {.name = "force",
     .type = OPT_BOOL,
     .offset = offsetof(struct values, force),
     .def = "false",
     .help = "replace an earlier export"},
};

const struct command cmd_export = {
    .name = "export",
    .summary = "Write a trained adapter in the forms other programs load",
    .usage = "",
    .details =
        "peft copies or converts the adapter; --base adds the chat template and a Modelfile.\n"
        "merged folds the adapter into the base and writes a Hugging Face model: safetensors,\n"
        "config.json, tokenizer and a Modelfile. With an .nf4 base the adapter is folded into the\n"
        "dequantised weights it was trained on, with a GGUF or Hugging Face base into the "
        "original\n"
        "ones. Without --adapter the base is converted as it is.\n"
        "gguf-lora writes NAME.gguf for llama.cpp and Ollama, with NAME.Modelfile and NAME.jinja.\n"
        "Nothing appears under its name before it is complete.",
    .examples = "  ftprep export --format merged --base SmolLM2-135M-Instruct.Q4_1.gguf --adapter "
                "run --out "
                "merged\n"
                "  ftprep export --format gguf-lora --base smollm2.nf4 --adapter run/adapter --out "
                "lora.gguf\n"
                "  ftprep export --format peft --adapter run --out adapter-bf16 --dtype bf16",
    .options = options,
    .n_options = ARRAY_LEN(options),
    .values_bytes = sizeof(struct values),
    .min_args = 0,
    .max_args = 0,
    .run = run,
};
