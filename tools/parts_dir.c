/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/parts_dir.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "formats/part.h"
#include "tools/out_dir.h"

/* "<32 digits>.<suffix>" gives the key; other files are none of ours. */
static bool key_of(hash128 *key, const char *name)
{
    str rest = str_from(name), hex = str_cut(&rest, '.');
    return hash128_parse(key, hex) && rest.len > 0;
}

static bool is_description(const char *name)
{
    hash128 key;
    return key_of(&key, name) && strcmp(name + HASH_HEX_LEN, ".json") == 0;
}

static char *beside(const char *path, const char *suffix)
{
    size_t n = strlen(path);
    char *out = mem_alloc(n + strlen(suffix) + 1, 1);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (out != NULL) {
        memcpy(out, path, n);
        memcpy(out + n, suffix, strlen(suffix) + 1);
    }
    return out;
}

static ft_status look_inside(struct parts_dir *d, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n;
    ft_status st = dir_list(&names, &n, &a, d->path, err);
    d->is_empty = true;
    for (size_t i = 0; st == FT_OK && i < n; i++)
        d->is_empty &= !is_description(names[i]);
    arena_destroy(&a);
    return st;
}

/* In the working directory, which nobody else knows. */
static ft_status make_private(struct parts_dir *d, const char *work, ft_error *err)
{
    mem_free(d->path);
    d->path = beside(work, "/parts");
    if (d->path == NULL)
        return ft_fail_memory(err, strlen(work), "a path");
    log_info("another build into this place is running: its parts are not shared");
    return dir_create(d->path, err);
}

ft_status parts_dir_open(struct parts_dir *d, const char *out, const char *work, ft_error *err)
{
    ft_status st;
    *d = (struct parts_dir){.path = beside(out, ".parts"), .lock = -1};
    if (d->path == NULL)
        return ft_fail_memory(err, strlen(out), "a path");
    FT_GOTO(dir_create(d->path, err));
    d->lock = dir_lock(d->path);
    if (d->lock < 0)
        FT_GOTO(make_private(d, work, err));
    st = look_inside(d, err);
out:
    if (st != FT_OK)
        parts_dir_close(d, false);
    return st;
}

static int compare_keys(const void *a, const void *b)
{
    const hash128 *x = a, *y = b;
    if (x->hi != y->hi)
        return x->hi < y->hi ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* keys[n] of the plan in ascending order. */
static ft_status sorted_keys(hash128 **keys, size_t *n, const struct plan *plan, ft_error *err)
{
    *n = plan == NULL ? 0 : plan->n_parts;
    FT_TRY(mem_new(keys, *n, sizeof **keys, "the keys of parts", err));
    for (size_t i = 0; i < *n; i++)
        (*keys)[i] = plan->parts[i].key;
    qsort(*keys, *n, sizeof **keys, compare_keys);
    return FT_OK;
}

ft_status parts_dir_prune(const struct parts_dir *d, const struct plan *plan, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    hash128 *keys = NULL, key;
    size_t n, n_keys;
    ft_status st;
    FT_GOTO(dir_list(&names, &n, &a, d->path, err));
    FT_GOTO(sorted_keys(&keys, &n_keys, plan, err));
    for (size_t i = 0; i < n; i++) {
        bool stale = key_of(&key, names[i]) &&
                     (strstr(names[i], ".tmp.") != NULL ||
                      bsearch(&key, keys, n_keys, sizeof key, compare_keys) == NULL);
        const char *path = path_join(&a, d->path, names[i]);
        if (path == NULL)
            FT_GOTO(ft_fail_memory(err, strlen(d->path), "a path"));
        if (stale && unlink(path) != 0)
            FT_GOTO(ft_fail_errno(err, "%s: cannot be removed", path));
    }
out:
    mem_free(keys);
    arena_destroy(&a);
    return st;
}

void parts_dir_close(struct parts_dir *d, bool finished)
{
    ft_error ignored;
    if (d->path != NULL && d->lock < 0 && dir_remove(d->path, &ignored) != FT_OK)
        log_warn("%s", ignored.text);
    if (d->path != NULL && d->lock >= 0) {
        bool stays = rmdir(d->path) != 0; /* succeeds when it is empty */
        if (stays && !finished)
            log_info("what was mapped stays in %s: the same command goes on from there", d->path);
        close(d->lock);
    }
    mem_free(d->path);
    *d = (struct parts_dir){.lock = -1};
}

bool parts_dir_has(const char *dir, const struct plan *plan, size_t part)
{
    struct part p;
    ft_error ignored;
    if (part_load(&p, dir, plan->parts[part].key, plan->manifest.n_sources, &ignored) != FT_OK)
        return false;
    bool whole = part_check(&p, dir, &ignored) == FT_OK;
    part_free(&p);
    return whole;
}
