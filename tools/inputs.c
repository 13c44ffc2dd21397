/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/inputs.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/mem.h"

enum { MAX_DEPTH = 64 };

/* The lists that grow while arguments are read. */
struct inputs {
    struct arena *arena;
    struct buf groups;  /* struct manifest_group */
    struct buf sources; /* struct manifest_source */
    enum source_use use;
};

/* --- the words before a path ----------------------------------------------------------------- */

static ft_status bad_word(str word, const char *expected, const char *argument, ft_error *err)
{
    return ft_fail(err, FT_EUSAGE, "%s: '%.*s' is not valid, expected %s", argument, STR_ARG(word),
                   expected);
}

static ft_status read_whole(int64_t *out, str value, str word, int64_t max, const char *argument,
                            ft_error *err)
{
    if (str_to_i64(value, out) && *out >= 1 && *out <= max)
        return FT_OK;
    return bad_word(word, "a whole number above 0", argument, err);
}

static ft_status read_word(struct manifest_group *g, struct arena *a, str word,
                           const char *argument, ft_error *err)
{
    str value = word, key = str_cut(&value, '=');
    if (str_is(key, "repeat"))
        return read_whole(&g->repeat, value, word, MANIFEST_MAX_TIMES, argument, err);
    if (str_is(key, "limit"))
        return read_whole(&g->limit, value, word, INT64_C(1) << 53, argument, err);
    if (str_is(key, "weight")) {
        if (str_to_f64(value, &g->weight) && g->weight > 0 && g->weight <= MANIFEST_MAX_TIMES)
            return FT_OK;
        return bad_word(word, "a number above 0", argument, err);
    }
    if (!str_is(key, "name") || value.len == 0)
        return bad_word(word, "name=, weight=, repeat= or limit= with a value", argument, err);
    g->name = arena_cstr(a, value);
    return g->name == NULL ? ft_fail_memory(err, value.len, "a name") : FT_OK;
}

static bool has_words(str argument)
{
    static const str keys[] = {{"name=", 5}, {"weight=", 7}, {"repeat=", 7}, {"limit=", 6}};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_starts(argument, keys[i]))
            return true;
    return false;
}

/* Splits the argument into words and path; a path that looks like words is written ./PATH. */
static ft_status read_argument(struct manifest_group *g, const char **path, struct arena *a,
                               const char *argument, ft_error *err)
{
    str rest = str_from(argument);
    *g = (struct manifest_group){.weight = 1, .repeat = 1};
    *path = argument;
    if (has_words(rest)) {
        str words = str_cut(&rest, ':');
        if (rest.len == 0)
            return ft_fail(err, FT_EUSAGE,
                           "%s: a ':' and the path are missing (a file of that name is ./%s)",
                           argument, argument);
        while (words.len > 0)
            FT_TRY(read_word(g, a, str_cut(&words, ','), argument, err));
        *path = rest.ptr;
    }
    if (g->name == NULL)
        g->name = arena_cstr(a, str_from(*path));
    return g->name == NULL ? ft_fail_memory(err, strlen(argument), "a name") : FT_OK;
}

/* --- files ----------------------------------------------------------------------------------- */

static ft_status add_file(struct inputs *in, const char *path, ft_error *err)
{
    struct manifest_source s = {
        .path = arena_cstr(in->arena, str_from(path)),
        .use = in->use,
        .group = (uint32_t)(in->groups.len / sizeof(struct manifest_group) - 1),
    };
    if (s.path == NULL)
        return ft_fail_memory(err, strlen(path), "a path");
    if (access(path, R_OK) != 0) /* before any work; opening may still fail */
        return ft_fail_errno(err, "%s: cannot be read", path);
    buf_append(&in->sources, &s, sizeof s);
    return buf_status(&in->sources, "the list of sources", err);
}

/* By its name, as a directory may hold anything. */
static bool is_row_file(const char *name)
{
    static const char *const packed[] = {".gz", ".zst"};
    static const char *const kinds[] = {".json", ".jsonl", ".ndjson"};
    str s = str_from(name);
    if (name[0] == '.')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(packed); i++)
        if (str_ends(s, str_from(packed[i])))
            s.len -= strlen(packed[i]);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_ends(s, str_from(kinds[i])))
            return true;
    return false;
}

static ft_status add_directory(struct inputs *in, const char *path, int depth, ft_error *err)
{
    const char **names;
    size_t n;
    if (depth == MAX_DEPTH)
        return ft_fail(err, FT_EIO, "%s: more than %d directories inside each other", path,
                       MAX_DEPTH);
    FT_TRY(dir_list(&names, &n, in->arena, path, err));
    for (size_t i = 0; i < n; i++) {
        const char *child = path_join(in->arena, path, names[i]);
        if (child == NULL)
            return ft_fail_memory(err, strlen(path), "a path");
        if (names[i][0] != '.' && path_is_dir(child))
            FT_TRY(add_directory(in, child, depth + 1, err));
        else if (is_row_file(names[i]))
            FT_TRY(add_file(in, child, err));
    }
    return FT_OK;
}

static ft_status add_path(struct inputs *in, const char *path, ft_error *err)
{
    size_t before = in->sources.len;
    if (strcmp(path, "-") == 0)
        return add_file(in, "/dev/stdin", err);
    if (!path_is_dir(path))
        return add_file(in, path, err);
    FT_TRY(add_directory(in, path, 0, err));
    if (in->sources.len == before)
        return ft_fail(err, FT_EIO,
                       "%s: there is no row file in this directory (*.jsonl, *.json, *.ndjson, "
                       "also with .gz or .zst)",
                       path);
    return FT_OK;
}

static bool is_pattern(const char *path)
{
    return !path_exists(path) && strpbrk(path, "*?[") != NULL;
}

static ft_status add_pattern(struct inputs *in, const char *pattern, ft_error *err)
{
    glob_t found;
    int rc = glob(pattern, GLOB_ERR, NULL, &found);
    ft_status st = FT_OK;
    if (rc == GLOB_NOMATCH)
        return ft_fail(err, FT_EIO, "%s: no file matches", pattern);
    if (rc == GLOB_NOSPACE)
        return ft_fail_memory(err, 0, "a list of files");
    if (rc != 0)
        return ft_fail_errno(err, "%s: cannot be read", pattern);
    for (size_t i = 0; i < found.gl_pathc && st == FT_OK; i++)
        st = add_path(in, found.gl_pathv[i], err);
    globfree(&found);
    return st;
}

static ft_status add_argument(struct inputs *in, const char *argument, ft_error *err)
{
    struct manifest_group g;
    const char *path;
    FT_TRY(read_argument(&g, &path, in->arena, argument, err));
    buf_append(&in->groups, &g, sizeof g);
    FT_TRY(buf_status(&in->groups, "the list of sources", err));
    return is_pattern(path) ? add_pattern(in, path, err) : add_path(in, path, err);
}

/* --- files given twice ----------------------------------------------------------------------- */

struct identity {
    dev_t device;
    ino_t inode;
    size_t source;
};

static int compare_identities(const void *a, const void *b)
{
    const struct identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    return x->source < y->source ? -1 : 1;
}

/* A file under two names counts as one. */
static ft_status refuse_twice(const struct manifest_source *a, const struct manifest_source *b,
                              ft_error *err)
{
    if (a->use != b->use)
        return ft_fail(err, FT_EUSAGE,
                       "%s: is both trained on and held out by --eval; --eval-fraction holds out a "
                       "part of a file",
                       b->path);
    return ft_fail(err, FT_EUSAGE,
                   "%s: is given twice, first as %s (repeat=2:PATH trains on it twice)", b->path,
                   a->path);
}

static ft_status check_distinct(const struct manifest *m, ft_error *err)
{
    struct identity *files = NULL;
    struct stat sb;
    ft_status st;
    FT_GOTO(mem_new(&files, m->n_sources, sizeof *files, "the list of sources", err));
    for (size_t i = 0; i < m->n_sources; i++) {
        if (stat(m->sources[i].path, &sb) != 0)
            FT_GOTO(ft_fail_errno(err, "%s: cannot be read", m->sources[i].path));
        files[i] = (struct identity){sb.st_dev, sb.st_ino, i};
    }
    qsort(files, m->n_sources, sizeof *files, compare_identities);
    for (size_t i = 1; i < m->n_sources; i++)
        if (files[i].device == files[i - 1].device && files[i].inode == files[i - 1].inode)
            FT_GOTO(
                refuse_twice(&m->sources[files[i - 1].source], &m->sources[files[i].source], err));
out:
    mem_free(files);
    return st;
}

/* --- all together ---------------------------------------------------------------------------- */

static ft_status add_arguments(struct inputs *in, enum source_use use, const char *const *arguments,
                               size_t n, ft_error *err)
{
    in->use = use;
    for (size_t i = 0; i < n; i++)
        FT_TRY(add_argument(in, arguments[i], err));
    return FT_OK;
}

static ft_status keep(void *out, struct arena *a, const struct buf *list, ft_error *err)
{
    void *copy = arena_alloc(a, list->len, 1);
    if (copy == NULL)
        return ft_fail_memory(err, list->len, "the list of sources");
    if (list->len > 0)
        memcpy(copy, list->data, list->len);
    memcpy(out, &copy, sizeof copy);
    return FT_OK;
}

ft_status inputs_set(struct manifest *m, enum source_use use, const char *const *inputs,
                     size_t n_inputs, const char *const *eval, size_t n_eval, ft_error *err)
{
    struct inputs in = {.arena = &m->arena};
    ft_status st;
    FT_GOTO(add_arguments(&in, use, inputs, n_inputs, err));
    FT_GOTO(add_arguments(&in, SOURCE_EVAL, eval, n_eval, err));
    FT_GOTO(keep(&m->groups, &m->arena, &in.groups, err));
    FT_GOTO(keep(&m->sources, &m->arena, &in.sources, err));
    m->n_groups = in.groups.len / sizeof *m->groups;
    m->n_sources = in.sources.len / sizeof *m->sources;
    st = check_distinct(m, err);
out:
    buf_free(&in.groups);
    buf_free(&in.sources);
    return st;
}
