/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/data_set.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"
#include "common/log.h"
#include "formats/input.h"
#include "tools/report.h"

/* Names that builds write: nothing else is ever removed. */
static bool is_ours(const char *name)
{
    str s = str_from(name);
    return str_is(s, MANIFEST_FILE) || str_is(s, TOKENIZER_FILE) ||
           ((str_starts(s, STR("train")) || str_starts(s, STR("eval"))) &&
            (str_ends(s, STR(".shard")) || str_ends(s, STR(".packs"))));
}

ft_status data_set_check_place(bool *there, const char *dir, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n = 0;
    *there = false;
    if (!path_exists(dir))
        return FT_OK;
    if (!path_is_dir(dir))
        return ft_fail(err, FT_ESTATE, "%s: exists and is not a directory", dir);
    ft_status st = dir_list(&names, &n, &a, dir, err);
    for (size_t i = 0; st == FT_OK && i < n; i++)
        if (!is_ours(names[i]))
            st = ft_fail(err, FT_ESTATE,
                         "%s: holds \"%s\", which is no part of a data set: choose another --out",
                         dir, names[i]);
    *there = n > 0;
    arena_destroy(&a);
    return st;
}

static ft_status hash_file(hash128 *out, const char *path, ft_error *err)
{
    struct input *in;
    FT_TRY(input_open(&in, path, err));
    ft_status st = input_drain(in, err);
    *out = input_hash(in);
    input_close(in);
    return st;
}

/* A pipe cannot be read twice: it always counts as new. */
static bool hash_all(struct manifest *m)
{
    struct stat sb;
    ft_error ignored;
    for (size_t i = 0; i < m->n_sources; i++) {
        struct manifest_source *s = &m->sources[i];
        if (stat(s->path, &sb) != 0 || !S_ISREG(sb.st_mode) ||
            hash_file(&s->hash, s->path, &ignored) != FT_OK)
            return false;
    }
    return true;
}

/* What differs first between the data set there and the one asked for; NULL when nothing does. */
static const char *first_difference(const struct manifest *old, struct manifest *new,
                                    bool hash_sources)
{
    hash128 a, b;
    ft_error ignored;
    if (!hash128_eq(old->tokenizer_fingerprint, new->tokenizer_fingerprint))
        return "with another tokenizer";
    if (strcmp(old->chat_template, new->chat_template) != 0 ||
        strcmp(old->template_source, new->template_source) != 0 ||
        !hash128_eq(old->template_hash, new->template_hash))
        return "with another template";
    if (old->n_sources != new->n_sources || (hash_sources && !hash_all(new)))
        return "from other inputs";
    if (manifest_build_key(&a, old, &ignored) == FT_OK &&
        manifest_build_key(&b, new, &ignored) == FT_OK && hash128_eq(a, b))
        return NULL;
    return "from other inputs or with other options";
}

static ft_status render_report(struct buf *out, const struct manifest *m, bool as_json,
                               ft_error *err)
{
    if (as_json)
        report_json(out, m);
    else
        report_text(out, m);
    buf_cstr(out, as_json ? "\n" : "");
    return buf_status(out, "the report", err);
}

/* A data set that lost a file, or a bit, is not taken for the same. */
static bool is_whole(const struct manifest *m, const char *dir)
{
    ft_error ignored;
    ft_status st = manifest_check_file(&m->tokenizer, dir, &ignored);
    for (int s = 0; s < SPLITS && st == FT_OK; s++) {
        st = manifest_check_file(&m->splits[s].packs, dir, &ignored);
        for (size_t i = 0; i < m->splits[s].n_shards && st == FT_OK; i++)
            st = manifest_check_file(&m->splits[s].shards[i].file, dir, &ignored);
    }
    return st == FT_OK;
}

static ft_status refuse_broken(const char *dir, bool replace, ft_error *err)
{
    if (replace)
        return FT_OK;
    return ft_fail(err, FT_ESTATE,
                   "%s: holds a data set that is not whole or not readable; --force replaces it",
                   dir);
}

static ft_status compare(bool *same, struct buf *report, const struct manifest *old,
                         const char *dir, struct manifest *new, bool hash_sources, bool replace,
                         bool as_json, ft_error *err)
{
    const char *difference = first_difference(old, new, hash_sources);
    if (difference != NULL && !replace)
        return ft_fail(err, FT_ESTATE,
                       "%s: another data set is there, built %s: choose another --out, or replace "
                       "it with --force",
                       dir, difference);
    if (difference != NULL)
        return FT_OK;
    if (!is_whole(old, dir))
        return refuse_broken(dir, replace, err);
    *same = true;
    log_info("%s is up to date: nothing to do", dir);
    return render_report(report, old, as_json, err);
}

ft_status data_set_same(bool *same, struct buf *report, const char *dir, struct manifest *new,
                        bool hash_sources, bool replace, bool as_json, ft_error *err)
{
    struct manifest old;
    *same = false;
    if (manifest_load(&old, dir, err) != FT_OK)
        return refuse_broken(dir, replace, err);
    ft_status st = compare(same, report, &old, dir, new, hash_sources, replace, as_json, err);
    manifest_free(&old);
    return st;
}

static void warn_of_leaks(uint64_t n)
{
    if (n > 0)
        log_warn("%" PRIu64 " training sample%s also in the --eval files: the evaluation measures "
                 "what was learnt by heart; --dedup leaves them out",
                 n, n == 1 ? " is" : "s are");
}

/* The report is rendered before the commit: once the data set is in its place, nothing fails. */
ft_status data_set_publish(struct buf *report, struct out_dir *out, struct assemble *a,
                           bool replace, bool as_json, ft_error *err)
{
    const struct manifest *m = &a->plan->manifest;
    a->dir = out->work;
    ft_status st = assemble_run(a, err);
    if (st == FT_OK)
        st = render_report(report, m, as_json, err);
    if (st != FT_OK) {
        out_dir_abort(out);
        return st;
    }
    FT_TRY(out_dir_commit(out, replace, err));
    warn_of_leaks(a->n_leaked);
    report_warn(m);
    return FT_OK;
}
