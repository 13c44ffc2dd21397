/* SPDX-License-Identifier: Apache-2.0
 * adapter_config.json. Written: the keys every PEFT since 0.10 understands. Read: anything PEFT
 * writes, as long as every key that changes the result has a value this project implements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/file.h"
#include "formats/adapter.h"
#include "formats/adapter_priv.h"

static const size_t MAX_CONFIG_BYTES = 1 << 20;

double adapter_scaling(const struct adapter_config *c)
{
    return c->alpha / (c->rslora ? sqrt((double)c->rank) : (double)c->rank);
}

/* --- writing --------------------------------------------------------------------------------- */

/* The shortest decimal that reads back as v. */
static void write_number(struct buf *out, double v)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    buf_cstr(out, text);
}

static void write_targets(struct buf *out, const struct adapter_config *c)
{
    const char *separator = "";
    for (int k = 0; k < LINEAR_KINDS; k++) {
        if (!c->target[k])
            continue;
        buf_printf(out, "%s\n    \"%s\"", separator, linear_names[k]);
        separator = ",";
    }
}

void adapter_config_text(struct buf *out, const struct adapter_config *c)
{
    buf_cstr(out, "{\n"
                  "  \"alpha_pattern\": {},\n"
                  "  \"auto_mapping\": null,\n"
                  "  \"base_model_name_or_path\": ");
    if (c->base_name == NULL)
        buf_cstr(out, "null");
    else
        json_write_str(out, str_from(c->base_name));
    buf_cstr(out, ",\n"
                  "  \"bias\": \"none\",\n"
                  "  \"fan_in_fan_out\": false,\n"
                  "  \"inference_mode\": true,\n"
                  "  \"init_lora_weights\": true,\n"
                  "  \"layer_replication\": null,\n"
                  "  \"layers_pattern\": null,\n"
                  "  \"layers_to_transform\": null,\n"
                  "  \"loftq_config\": {},\n"
                  "  \"lora_alpha\": ");
    write_number(out, c->alpha);
    buf_cstr(out, ",\n  \"lora_dropout\": ");
    write_number(out, c->dropout);
    buf_printf(out,
               ",\n"
               "  \"megatron_config\": null,\n"
               "  \"megatron_core\": \"megatron.core\",\n"
               "  \"modules_to_save\": null,\n"
               "  \"peft_type\": \"LORA\",\n"
               "  \"r\": %lld,\n"
               "  \"rank_pattern\": {},\n"
               "  \"revision\": null,\n"
               "  \"target_modules\": [",
               (long long)c->rank);
    write_targets(out, c);
    buf_printf(out,
               "\n  ],\n"
               "  \"task_type\": \"CAUSAL_LM\",\n"
               "  \"use_dora\": false,\n"
               "  \"use_rslora\": %s\n"
               "}\n",
               c->rslora ? "true" : "false");
}

/* --- reading --------------------------------------------------------------------------------- */

/* Keys with a reader of their own, and keys whose value has no influence on a finished adapter:
 * notes, how A and B were initialised, options of features that another key switches on. Every
 * other key, known to PEFT today or not, must hold a value that means "not used". */
static const char *const read_keys[] = {
    "base_model_name_or_path",
    "bias",
    "init_lora_weights",
    "lora_alpha",
    "lora_dropout",
    "peft_type",
    "r",
    "target_modules",
    "task_type",
    "use_rslora",
};
static const char *const free_keys[] = {
    "auto_mapping",  "eva_config",   "inference_mode",    "loftq_config",
    "megatron_core", "peft_version", "qalora_group_size", "revision",
};

static bool listed(str key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(key, keys[i]))
            return true;
    return false;
}

/* null, false, "", [] or {}. */
static bool means_unused(const json *v)
{
    str s;
    bool b;
    switch (json_kind(v)) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return json_bool(v, &b) && !b;
    case JSON_STRING:
        return json_str(v, &s) && s.len == 0;
    case JSON_ARRAY:
    case JSON_OBJECT:
        return json_count(v) == 0;
    case JSON_NUMBER:
        return false;
    }
    return false;
}

static ft_status check_unused_keys(const json *root, ft_error *err)
{
    for (const json *m = json_first(root); m != NULL; m = json_next(m)) {
        str key = json_key(m);
        if (listed(key, read_keys, ARRAY_LEN(read_keys)) ||
            listed(key, free_keys, ARRAY_LEN(free_keys)) || means_unused(m))
            continue;
        return ft_fail(err, FT_EFORMAT,
                       "\"%.*s\": this feature of PEFT is not supported (only null, false or an "
                       "empty value is)",
                       STR_ARG(key));
    }
    return FT_OK;
}

/* A string member that must be one of the choices; absent and null are fine when optional. */
static ft_status check_choice(const json *root, const char *key, const char *const *choices,
                              size_t n, bool optional, ft_error *err)
{
    const json *v = json_get(root, key);
    str s;
    if (optional && (v == NULL || json_kind(v) == JSON_NULL))
        return FT_OK;
    FT_TRY(json_need_str(&s, root, key, err));
    if (listed(s, choices, n))
        return FT_OK;
    return ft_fail(err, FT_EFORMAT, "\"%s\": \"%.*s\" is not supported, only \"%s\"", key,
                   STR_ARG(s), choices[0]);
}

/* Methods that also rewrite the base weights (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) leave an adapter
 * that is wrong on the original base. */
static ft_status check_init(const json *root, ft_error *err)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const json *v = json_get(root, "init_lora_weights");
    str s;
    if (v == NULL || json_kind(v) == JSON_NULL || json_kind(v) == JSON_BOOL)
        return FT_OK;
    if (!json_str(v, &s))
        return ft_fail(err, FT_EFORMAT, "\"init_lora_weights\": expected true, false or a string");
    if (listed(s, harmless, ARRAY_LEN(harmless)))
        return FT_OK;
    return ft_fail(err, FT_EFORMAT,
                   "\"init_lora_weights\": \"%.*s\" changes the base weights, so this adapter does "
                   "not fit the original base; convert it to a plain LoRA with PEFT first "
                   "(save_pretrained with path_initial_model_for_weight_conversion)",
                   STR_ARG(s));
}

static ft_status unknown_target(str name, ft_error *err)
{
    return ft_fail(err, FT_EFORMAT,
                   "\"target_modules\": \"%.*s\" is not supported; expected names out of q_proj, "
                   "k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or \"all-linear\"",
                   STR_ARG(name));
}

/* PEFT selects every module whose path is the entry or ends with "." and the entry. For a small
 * model "all-linear" is saved as the full paths of all modules. Whether the list leaves out layers
 * shows in the tensors, which must cover all of them. */
static bool target_matches(str entry, enum linear_kind k)
{
    char module[96];
    int64_t layer = 0;
    str rest = entry;
    while (rest.len > 0 && !str_is(str_cut(&rest, '.'), "layers"))
        continue;
    if (rest.len > 0 && (!str_to_i64(str_cut(&rest, '.'), &layer) || layer < 0))
        return false;
    linear_module(module, layer, k);
    str path = str_from(module);
    return str_eq(path, entry) || (str_ends(path, entry) && entry.len > 0 && entry.len < path.len &&
                                   path.ptr[path.len - entry.len - 1] == '.');
}

static ft_status read_target(struct adapter_config *out, const json *item, ft_error *err)
{
    str entry;
    if (!json_str(item, &entry))
        return ft_fail(err, FT_EFORMAT, "\"target_modules\": expected strings, found %s",
                       json_kind_name(json_kind(item)));
    for (int k = 0; k < LINEAR_KINDS; k++) {
        if (target_matches(entry, (enum linear_kind)k)) {
            out->target[k] = true;
            return FT_OK;
        }
    }
    return unknown_target(entry, err);
}

static ft_status read_targets(struct adapter_config *out, const json *root, ft_error *err)
{
    const json *v = json_get(root, "target_modules");
    str name;
    if (json_str(v, &name)) {
        if (!str_is(name, "all-linear"))
            return unknown_target(name, err);
        for (int k = 0; k < LINEAR_KINDS; k++)
            out->target[k] = true;
        return FT_OK;
    }
    FT_TRY(json_need(&v, root, "target_modules", JSON_ARRAY, err));
    if (json_count(v) == 0)
        return ft_fail(err, FT_EFORMAT, "\"target_modules\": the list is empty");
    for (const json *item = json_first(v); item != NULL; item = json_next(item))
        FT_TRY(read_target(out, item, err));
    return FT_OK;
}

static ft_status read_base_name(struct adapter_config *out, struct arena *a, const json *root,
                                ft_error *err)
{
    str name;
    if (!json_str(json_get(root, "base_model_name_or_path"), &name) || name.len == 0)
        return FT_OK;
    out->base_name = arena_cstr(a, name);
    return out->base_name == NULL ? ft_fail_memory(err, name.len, "the name of the base model")
                                  : FT_OK;
}

static ft_status read_config(struct adapter_config *out, struct arena *a, const json *root,
                             ft_error *err)
{
    static const char *const lora[] = {"LORA"}, *const none[] = {"none"},
                             *const task[] = {"CAUSAL_LM"};
    const json *alpha;
    if (json_kind(root) != JSON_OBJECT)
        return ft_fail(err, FT_EFORMAT, "expected an object, found %s",
                       json_kind_name(json_kind(root)));
    FT_TRY(check_choice(root, "peft_type", lora, 1, false, err));
    FT_TRY(check_choice(root, "task_type", task, 1, true, err));
    FT_TRY(check_choice(root, "bias", none, 1, true, err));
    FT_TRY(check_init(root, err));
    FT_TRY(check_unused_keys(root, err));
    FT_TRY(json_need_i64(&out->rank, root, "r", 1, ADAPTER_MAX_RANK, err));
    FT_TRY(json_need(&alpha, root, "lora_alpha", JSON_NUMBER, err));
    if (!json_f64(alpha, &out->alpha) || !isfinite(out->alpha) || out->alpha <= 0)
        return ft_fail(err, FT_EFORMAT, "\"lora_alpha\": expected a number above 0");
    FT_TRY(json_opt_f64(&out->dropout, root, "lora_dropout", 0, err));
    if (!(out->dropout >= 0 && out->dropout < 1))
        return ft_fail(err, FT_EFORMAT, "\"lora_dropout\": expected a number from 0 to below 1");
    FT_TRY(json_opt_bool(&out->rslora, root, "use_rslora", false, err));
    FT_TRY(read_targets(out, root, err));
    return read_base_name(out, a, root, err);
}

ft_status adapter_load_config(struct adapter_config *out, struct arena *a, const char *dir,
                              ft_error *err)
{
    struct json_doc *doc = NULL;
    *out = (struct adapter_config){0};
    const char *path = path_join(a, dir, ADAPTER_CONFIG_NAME);
    if (path == NULL)
        return ft_fail_memory(err, 0, "a path");
    FT_TRY(json_load(&doc, path, JSON_STRICT, MAX_CONFIG_BYTES, err));
    ft_status st = read_config(out, a, json_root(doc), err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}
