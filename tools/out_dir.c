/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/out_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"

static char *with_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path) + strlen(suffix) + 24;
    char *out = mem_alloc(n, 1);
    if (out != NULL)
        snprintf(out, n, "%s%s%ld", path, suffix, (long)getpid());
    return out;
}

/* "a/b/" of "a/b/c"; "." when there is none. */
static char *parent_of(const char *path)
{
    size_t n = (size_t)(path_base(path) - path);
    char *out = mem_strdup(n == 0 ? "." : path);
    if (out != NULL && n > 0)
        out[n] = '\0';
    return out;
}

/* Builds that were killed leave their working directory. It is only named: a process on another
 * machine may be using it. */
static ft_status name_leftovers(const char *parent, const char *base, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n, prefix = strlen(base);
    ft_status st = dir_list(&names, &n, &a, parent, err);
    for (size_t i = 0; st == FT_OK && i < n; i++)
        if (strncmp(names[i], base, prefix) == 0 && strncmp(names[i] + prefix, ".tmp.", 5) == 0)
            log_warn("%s%s is left from a build that did not finish (or still runs); remove it "
                     "when none is running",
                     strcmp(parent, ".") == 0 ? "" : parent, names[i]);
    arena_destroy(&a);
    return st;
}

ft_status out_dir_begin(struct out_dir *o, const char *path, ft_error *err)
{
    ft_status st;
    *o = (struct out_dir){.path = mem_strdup(path)};
    for (size_t n = strlen(path); o->path != NULL && n > 1 && path[n - 1] == '/'; n--)
        o->path[n - 1] = '\0';
    if (o->path != NULL) {
        o->work = with_suffix(o->path, ".tmp.");
        o->parent = parent_of(o->path);
    }
    if (o->work == NULL || o->parent == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(path), "a path"));
    FT_GOTO(dir_create(o->parent, err));
    FT_GOTO(name_leftovers(o->parent, path_base(o->path), err));
    FT_GOTO(dir_remove(o->work, err)); /* of an earlier process with our number */
    FT_GOTO(dir_create(o->work, err));
out:
    if (st != FT_OK)
        out_dir_abort(o);
    return st;
}

static ft_status move(const char *work, const char *path, ft_error *err)
{
    if (rename(work, path) == 0)
        return FT_OK;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return ft_fail(err, FT_ESTATE,
                       "%s: another command finished it meanwhile; --force replaces it", path);
    return ft_fail_errno(err, "%s: the finished directory cannot be moved into place", path);
}

/* Swaps two directories in one step where the kernel and the file system can, else in two. */
static ft_status swap(const char *work, const char *path, ft_error *err)
{
    const unsigned exchange = 2; /* RENAME_EXCHANGE; its header needs _GNU_SOURCE */
    if (syscall(SYS_renameat2, AT_FDCWD, work, AT_FDCWD, path, exchange) == 0)
        return FT_OK;
    char *aside = with_suffix(path, ".old.");
    ft_status st = FT_OK;
    if (aside == NULL)
        return ft_fail_memory(err, strlen(path), "a path");
    if (rename(path, aside) != 0 || rename(work, path) != 0 || rename(aside, work) != 0)
        st = ft_fail_errno(err, "%s: cannot be replaced", path);
    mem_free(aside);
    return st;
}

ft_status out_dir_commit(struct out_dir *o, bool replace, ft_error *err)
{
    ft_status st = dir_sync(o->work, err);
    if (st == FT_OK && replace && path_exists(o->path))
        st = swap(o->work, o->path, err);
    else if (st == FT_OK)
        st = move(o->work, o->path, err);
    if (st == FT_OK)
        st = dir_sync(o->parent, err);
    out_dir_abort(o); /* after a swap this removes the old content */
    return st;
}

void out_dir_abort(struct out_dir *o)
{
    ft_error ignored;
    if (o->work != NULL && dir_remove(o->work, &ignored) != FT_OK)
        log_warn("%s", ignored.text);
    mem_free(o->path);
    mem_free(o->work);
    mem_free(o->parent);
    *o = (struct out_dir){0};
}
