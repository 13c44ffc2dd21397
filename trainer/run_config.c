/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/run_config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "formats/json.h"

enum { MAX_FILE = 4 << 20, MAX_KEY = 128 };

/* --- values ---------------------------------------------------------------------------------- */

/* Assigns text, first putting base_dir in front of a relative path. */
static ft_status assign_text(struct run_config *c, const struct opt *o, str text,
                             const char *base_dir, ft_error *err)
{
    if (!train_options_is_path(o, text) || base_dir == NULL || str_starts(text, STR("/")))
        return opt_assign(&c->set, o, text, err);
    const char *value = arena_cstr(&c->set.arena, text);
    const char *joined = value == NULL ? NULL : path_join(&c->set.arena, base_dir, value);
    if (joined == NULL)
        return ft_fail_memory(err, text.len, "a path");
    return opt_assign(&c->set, o, str_from(joined), err);
}

static ft_status wrong_kind(const struct opt *o, const char *expected, const json *v, ft_error *err)
{
    return ft_fail(err, FT_EUSAGE, "%s: expected %s, found %s", o->name, expected,
                   json_kind_name(json_kind(v)));
}

static ft_status assign_list(struct run_config *c, const struct opt *o, const json *v,
                             ft_error *err)
{
    if (json_kind(v) != JSON_ARRAY)
        return wrong_kind(o, "a list of strings", v, err);
    FT_TRY(opt_assign(&c->set, o, STR(""), err)); /* an empty list replaces the default too */
    for (const json *item = json_first(v); item != NULL; item = json_next(item)) {
        str text;
        if (!json_str(item, &text))
            return wrong_kind(o, "a list of strings", item, err);
        FT_TRY(opt_append(&c->set, o, text, err));
    }
    return FT_OK;
}

static ft_status assign_number(struct run_config *c, const struct opt *o, const json *v,
                               ft_error *err)
{
    char text[40];
    int64_t i = 0;
    double d = 0;
    if (!json_f64(v, &d))
        return wrong_kind(o, o->type == OPT_INT ? "a whole number" : "a number", v, err);
    if (o->type == OPT_INT && !json_i64(v, &i))
        return ft_fail(err, FT_EUSAGE, "%s: expected a whole number, found %.17g", o->name, d);
    if (o->type == OPT_INT)
        snprintf(text, sizeof text, "%" PRId64, i);
    else
        snprintf(text, sizeof text, "%.17g", d);
    return opt_assign(&c->set, o, str_from(text), err);
}

static ft_status assign_json(struct run_config *c, const struct opt *o, const json *v,
                             const char *base_dir, ft_error *err)
{
    str text;
    bool flag;
    switch (o->type) {
    case OPT_BOOL:
        if (!json_bool(v, &flag))
            return wrong_kind(o, "true or false", v, err);
        return opt_assign(&c->set, o, flag ? STR("true") : STR("false"), err);
    case OPT_INT:
    case OPT_FLOAT:
        return assign_number(c, o, v, err);
    case OPT_STRING:
    case OPT_CHOICE:
        if (!json_str(v, &text))
            return wrong_kind(o, "a string", v, err);
        return assign_text(c, o, text, base_dir, err);
    case OPT_LIST:
        return assign_list(c, o, v, err);
    }
    FT_ASSERT(false);
    return FT_OK;
}

/* --- the file -------------------------------------------------------------------------------- */

static str section_of(const struct opt *o)
{
    str rest = str_from(o->name);
    return str_cut(&rest, '.');
}

static bool section_known(const struct run_config *c, str section)
{
    for (size_t i = 0; i < c->set.n; i++)
        if (str_eq(section_of(&c->set.table[i]), section))
            return true;
    return false;
}

static ft_status apply_key(struct run_config *c, str name, const json *v, const char *base_dir,
                           ft_error *err)
{
    const struct opt *o = opt_find(&c->set, name);
    if (o == NULL)
        return opt_unknown(&c->set, "key", name, err);
    if (opt_given(&c->set, o->name))
        return ft_fail(err, FT_EUSAGE,
                       "%s is given twice, with a dot and in its section; remove one", o->name);
    return assign_json(c, o, v, base_dir, err);
}

/* A member of the root: a section, or one key as "section.key". */
static ft_status apply_member(struct run_config *c, const json *section, const char *base_dir,
                              ft_error *err)
{
    char name[MAX_KEY];
    str prefix = json_key(section);
    if (prefix.len > 0 && memchr(prefix.ptr, '.', prefix.len) != NULL)
        return apply_key(c, prefix, section, base_dir, err);
    if (!section_known(c, prefix) && json_count(section) == 0)
        return opt_unknown(&c->set, "section", prefix, err);
    if (json_kind(section) != JSON_OBJECT)
        return ft_fail(err, FT_EUSAGE,
                       "%.*s: expected an object with the keys of the section, "
                       "found %s",
                       STR_ARG(prefix), json_kind_name(json_kind(section)));
    for (const json *v = json_first(section); v != NULL; v = json_next(v)) {
        str key = json_key(v);
        int n = snprintf(name, sizeof name, "%.*s.%.*s", STR_ARG(prefix), STR_ARG(key));
        str full = {name, FT_MIN((size_t)n, sizeof name - 1)};
        FT_TRY(apply_key(c, full, v, base_dir, err));
    }
    return FT_OK;
}

static ft_status parent_dir(const char **out, struct arena *a, const char *path, ft_error *err)
{
    const char *base = path_base(path);
    *out = NULL; /* no directory part: the current directory */
    if (base == path)
        return FT_OK;
    *out = arena_cstr(a, (str){path, (size_t)(base - path)});
    return *out == NULL ? ft_fail_memory(err, strlen(path), "a path") : FT_OK;
}

static ft_status apply_file(struct run_config *c, const char *path, ft_error *err)
{
    struct json_doc *doc = NULL;
    const char *base_dir;
    FT_TRY(parent_dir(&base_dir, &c->set.arena, path, err));
    ft_status st = json_load(&doc, path, JSON_COMMENTS, MAX_FILE, err);
    if (st == FT_EFORMAT) /* the message names the file, line and column already */
        return err->status = FT_EUSAGE;
    if (st != FT_OK)
        return st;
    if (json_kind(json_root(doc)) != JSON_OBJECT)
        st = ft_fail(err, FT_EUSAGE, "expected an object, found %s",
                     json_kind_name(json_kind(json_root(doc))));
    for (const json *s = json_first(json_root(doc)); s != NULL && st == FT_OK; s = json_next(s))
        st = apply_member(c, s, base_dir, err);
    json_close(doc);
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", path);
}

/* --- overrides ------------------------------------------------------------------------------- */

/* A list is given as "a,b", or as a JSON list when items hold commas. */
static ft_status assign_override_list(struct run_config *c, const struct opt *o, str text,
                                      ft_error *err)
{
    struct json_doc *doc = NULL;
    FT_TRY(opt_assign(&c->set, o, STR(""), err));
    *(struct opt_list *)((char *)&c->values + o->offset) = (struct opt_list){0};
    if (!str_starts(text, STR("[")))
        return opt_assign(&c->set, o, text, err);
    FT_TRY(json_parse(&doc, o->name, text, JSON_STRICT, err));
    ft_status st = assign_list(c, o, json_root(doc), err);
    json_close(doc);
    return st;
}

static ft_status apply_override(struct run_config *c, const char *text, ft_error *err)
{
    str value = str_from(text), key = str_cut(&value, '=');
    if (key.len == strlen(text))
        return ft_fail(err, FT_EUSAGE, "'%s': expected key=value after the run file", text);
    const struct opt *o = opt_find(&c->set, key);
    if (o == NULL)
        return opt_unknown(&c->set, "key", key, err);
    const char *other = train_options_alternative(o);
    if (other != NULL)
        FT_TRY(opt_reset(&c->set, opt_find(&c->set, str_from(other)), err));
    ft_status st = o->type == OPT_LIST ? assign_override_list(c, o, value, err)
                                       : assign_text(c, o, value, NULL, err);
    if (st == FT_EFORMAT)
        err->status = FT_EUSAGE;
    return st == FT_OK ? FT_OK : err->status;
}

ft_status run_config_load(struct run_config *out, const char *path, const char *const *overrides,
                          size_t n_overrides, ft_error *err)
{
    *out = (struct run_config){0};
    FT_TRY(opt_set_init(&out->set, train_options_table, TRAIN_OPTIONS, &out->values, err));
    FT_TRY(apply_file(out, path, err));
    for (size_t i = 0; i < n_overrides; i++)
        FT_TRY(apply_override(out, overrides[i], err));
    FT_TRY(opt_check_required(&out->set, "", err));
    return train_options_check(&out->values, &out->set, err);
}

void run_config_close(struct run_config *c)
{
    opt_set_destroy(&c->set);
}

/* --- the resolved dump ----------------------------------------------------------------------- */

/* The real path of what exists, so that the same file is the same text; otherwise made absolute. */
static void write_path(struct buf *out, const char *path)
{
    char real[PATH_MAX], cwd[PATH_MAX];
    struct buf full = {0};
    if (realpath(path, real) != NULL)
        buf_cstr(&full, real);
    else if (path[0] != '/' && getcwd(cwd, sizeof cwd) != NULL)
        buf_printf(&full, "%s/%s", cwd, path);
    else
        buf_cstr(&full, path);
    opt_json_string(out, buf_view(&full));
    out->failed |= full.failed;
    buf_free(&full);
}

static void write_value(struct buf *out, const struct run_config *c, const struct opt *o)
{
    const char *text =
        o->type == OPT_STRING ? *(const char *const *)((const char *)&c->values + o->offset) : NULL;
    if (text != NULL && train_options_is_path(o, str_from(text)))
        write_path(out, text);
    else
        opt_value_json(out, &c->set, o);
}

/* Unset strings and keys without effect stay out: loading them again would be an error. */
static bool dumped(const struct run_config *c, const struct opt *o)
{
    if (o->type == OPT_STRING &&
        *(const char *const *)((const char *)&c->values + o->offset) == NULL)
        return false;
    return train_options_no_effect(&c->values, &c->set, o) == NULL;
}

ft_status run_config_json(struct buf *out, const struct run_config *c, ft_error *err)
{
    str section = {0};
    buf_cstr(out, "{");
    for (size_t i = 0; i < c->set.n; i++) {
        const struct opt *o = &c->set.table[i];
        str s = section_of(o);
        if (!dumped(c, o))
            continue;
        bool first = !str_eq(s, section);
        if (first)
            buf_printf(out, "%s\n  \"%.*s\": {", section.len == 0 ? "" : "\n  },", STR_ARG(s));
        section = s;
        buf_printf(out, "%s\n    \"%s\": ", first ? "" : ",", o->name + s.len + 1);
        write_value(out, c, o);
    }
    buf_cstr(out, "\n  }\n}\n");
    return buf_status(out, "the resolved configuration", err);
}

ft_status run_config_check_same(const struct run_config *now, const struct run_config *saved,
                                const char *saved_path, ft_error *err)
{
    struct buf a = {0}, b = {0};
    ft_status st = FT_OK;
    for (size_t i = 0; i < now->set.n && st == FT_OK; i++) {
        const struct opt *o = &now->set.table[i];
        bool fixed_now = train_options_fixed(&now->values, &now->set, o);
        bool fixed_saved = train_options_fixed(&saved->values, &saved->set, o);
        if (!fixed_now && !fixed_saved)
            continue;
        buf_clear(&a);
        buf_clear(&b);
        if (fixed_now)
            write_value(&a, now, o);
        if (fixed_saved)
            write_value(&b, saved, o);
        st = buf_status(&a, "a comparison", err);
        if (st == FT_OK)
            st = buf_status(&b, "a comparison", err);
        if (st == FT_OK && !str_eq(buf_view(&a), buf_view(&b)))
            st = ft_fail(err, FT_ESTATE,
                         "%s is %.*s now, but %.*s in the checkpoint (%s); use the old value, or "
                         "another run.dir for a new run",
                         o->name, STR_ARG(a.len > 0 ? buf_view(&a) : STR("not set")),
                         STR_ARG(b.len > 0 ? buf_view(&b) : STR("not set")), saved_path);
    }
    buf_free(&a);
    buf_free(&b);
    return st;
}
