/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/out_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
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

int dir_lock(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}

/* --- what killed processes left -------------------------------------------------------------- */

/* Names the boot of the machine under which a working directory is filled. A lock says something
 * about the processes of this boot only: file systems need not carry it to other machines. */
#define OWNER_FILE ".owner"

enum { BOOT_ID_BYTES = 36 };

static bool read_boot_id(char id[BOOT_ID_BYTES], const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, id, BOOT_ID_BYTES) == BOOT_ID_BYTES;
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool this_boot(char id[BOOT_ID_BYTES])
{
    return read_boot_id(id, "/proc/sys/kernel/random/boot_id");
}

/* Marks the working directory as ours. Without a whole mark it is never removed by others, so a
 * failure does not matter. It means nothing after the next boot: no need to make it durable. */
static ft_status mark_owner(const struct out_dir *o, struct arena *a, ft_error *err)
{
    char id[BOOT_ID_BYTES];
    const char *path = path_join(a, o->work, OWNER_FILE);
    if (path == NULL)
        return ft_fail_memory(err, strlen(o->work), "a path");
    if (o->lock < 0 || !this_boot(id))
        return FT_OK;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && write(fd, id, sizeof id) != (ssize_t)sizeof id)
        log_warn("%s: cannot be written", path);
    if (fd >= 0)
        close(fd);
    return FT_OK;
}

static ft_status unmark_owner(const struct out_dir *o, ft_error *err)
{
    struct arena a = {0};
    const char *path = path_join(&a, o->work, OWNER_FILE);
    ft_status st = FT_OK;
    if (path == NULL)
        st = ft_fail_memory(err, strlen(o->work), "a path");
    else if (unlink(path) != 0 && errno != ENOENT)
        st = ft_fail_errno(err, "%s: cannot be removed", path);
    arena_destroy(&a);
    return st;
}

/* True when its process ran under this boot and holds the lock no more. */
static bool is_abandoned(const char *dir, struct arena *a)
{
    char theirs[BOOT_ID_BYTES], ours[BOOT_ID_BYTES];
    const char *owner = path_join(a, dir, OWNER_FILE);
    if (owner == NULL || !read_boot_id(theirs, owner) || !this_boot(ours) ||
        memcmp(theirs, ours, sizeof ours) != 0)
        return false;
    int lock = dir_lock(dir);
    if (lock >= 0)
        close(lock);
    return lock >= 0;
}

static void clear_leftover(const char *dir, struct arena *a)
{
    ft_error err;
    if (!is_abandoned(dir, a))
        log_warn("%s is left from a command that did not finish (or still runs); remove it when "
                 "none is running",
                 dir);
    else if (dir_remove(dir, &err) != FT_OK)
        log_warn("%s", err.text);
    else
        log_info("removed %s, left by a command that was killed", dir);
}

static ft_status clear_leftovers(const struct out_dir *o, ft_error *err)
{
    struct arena a = {0};
    const char **names, *base = path_base(o->path);
    size_t n, prefix = strlen(base);
    ft_status st = dir_list(&names, &n, &a, o->parent, err);
    for (size_t i = 0; st == FT_OK && i < n; i++) {
        if (strncmp(names[i], base, prefix) != 0 || strncmp(names[i] + prefix, ".tmp.", 5) != 0)
            continue;
        const char *dir =
            strcmp(o->parent, ".") == 0 ? names[i] : path_join(&a, o->parent, names[i]);
        if (dir == NULL)
            st = ft_fail_memory(err, strlen(names[i]), "a path");
        else
            clear_leftover(dir, &a);
    }
    arena_destroy(&a);
    return st;
}

/* --- the directory --------------------------------------------------------------------------- */

ft_status out_dir_begin(struct out_dir *o, const char *path, ft_error *err)
{
    struct arena a = {0};
    ft_status st;
    *o = (struct out_dir){.path = mem_strdup(path), .lock = -1};
    for (size_t n = strlen(path); o->path != NULL && n > 1 && path[n - 1] == '/'; n--)
        o->path[n - 1] = '\0';
    if (o->path != NULL) {
        o->work = with_suffix(o->path, ".tmp.");
        o->parent = parent_of(o->path);
    }
    if (o->work == NULL || o->parent == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(path), "a path"));
    FT_GOTO(dir_create(o->parent, err));
    FT_GOTO(clear_leftovers(o, err));
    FT_GOTO(dir_remove(o->work, err)); /* of an earlier process with our number */
    FT_GOTO(dir_create(o->work, err));
    o->lock = dir_lock(o->work);
    FT_GOTO(mark_owner(o, &a, err));
out:
    arena_destroy(&a);
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
    if (st == FT_OK) /* the last thing before the move: a killed process leaves its mark */
        st = unmark_owner(o, err);
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
    if (o->work != NULL && o->lock >= 0)
        close(o->lock);
    mem_free(o->path);
    mem_free(o->work);
    mem_free(o->parent);
    *o = (struct out_dir){0};
}
