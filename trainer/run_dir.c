/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/file.h"

static ft_status name_files(struct run_dir *d, ft_error *err)
{
    const struct {
        const char **path, *name;
    } files[] = {
        {&d->config, "config.json"},    {&d->metrics, "metrics.jsonl"},
        {&d->samples, "samples.jsonl"}, {&d->checkpoints, "checkpoints"},
        {&d->adapter, "adapter"},       {&d->picture, "loss.svg"},
        {&d->summary, "summary.json"},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        *files[i].path = path_join(&d->arena, d->path, files[i].name);
        if (*files[i].path == NULL)
            return ft_fail_memory(err, strlen(d->path), "a path");
    }
    return FT_OK;
}

static ft_status refuse_locked(const struct run_dir *d, const char *lock, ft_error *err)
{
    char holder[32] = "";
    ssize_t n = read(d->lock_fd, holder, sizeof holder - 1);
    (void)n; /* unreadable: the process stays unnamed */
    holder[strspn(holder, "0123456789")] = '\0';
    return ft_fail(err, FT_ESTATE,
                   "%s: another fttrain (process %s) writes this run (lock %s); wait for it or "
                   "choose another run.dir",
                   d->path, holder[0] == '\0' ? "unknown" : holder, lock);
}

static ft_status take_lock(struct run_dir *d, ft_error *err)
{
    char text[32];
    const char *lock = path_join(&d->arena, d->path, "lock");
    if (lock == NULL)
        return ft_fail_memory(err, strlen(d->path), "a path");
    d->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d->lock_fd < 0)
        return ft_fail_errno(err, "%s: cannot create", lock);
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return refuse_locked(d, lock, err);
        return ft_fail_errno(err, "%s: cannot lock", lock);
    }
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(d->lock_fd, 0) != 0 || pwrite(d->lock_fd, text, (size_t)n, 0) != n)
        return ft_fail_errno(err, "%s: cannot write", lock);
    return FT_OK;
}

ft_status run_dir_open(struct run_dir *out, const char *path, ft_error *err)
{
    *out = (struct run_dir){.path = path, .lock_fd = -1};
    FT_TRY(name_files(out, err));
    FT_TRY(dir_create(path, err));
    return take_lock(out, err);
}

/* Cuts path down to its nearest part that exists. */
static void cut_to_existing(char *path)
{
    while (path[0] != '\0' && !path_exists(path)) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            snprintf(path, 2, ".");
        else
            slash[slash == path] = '\0'; /* "/x" becomes "/" */
    }
}

/* Permissions do not tell (root, read-only and pseudo file systems): a directory is made and
 * removed. */
static ft_status probe_writable(const char *path, ft_error *err)
{
    char parent[PATH_MAX], probe[PATH_MAX + 32];
    if (path[0] == '\0' || strlen(path) >= sizeof parent)
        return ft_fail(err, FT_EUSAGE, "run.dir: the path is empty or too long");
    snprintf(parent, sizeof parent, "%s", path);
    cut_to_existing(parent);
    snprintf(probe, sizeof probe, "%s/.fttrain-XXXXXX", parent);
    if (mkdtemp(probe) == NULL)
        return ft_fail_errno(err, "run.dir: cannot make a directory in %s", parent);
    if (rmdir(probe) != 0)
        return ft_fail_errno(err, "%s: cannot remove", probe);
    return FT_OK;
}

static ft_status probe_lock(struct run_dir *d, ft_error *err)
{
    const char *lock = path_join(&d->arena, d->path, "lock");
    if (lock == NULL)
        return ft_fail_memory(err, strlen(d->path), "a path");
    d->lock_fd = open(lock, O_RDWR | O_CLOEXEC);
    if (d->lock_fd < 0)
        return errno == ENOENT ? FT_OK : ft_fail_errno(err, "%s: cannot open", lock);
    return flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0 ? FT_OK : refuse_locked(d, lock, err);
}

ft_status run_dir_probe(struct run_dir *out, const char *path, ft_error *err)
{
    *out = (struct run_dir){.path = path, .lock_fd = -1};
    FT_TRY(name_files(out, err));
    FT_TRY(probe_writable(path, err));
    return probe_lock(out, err);
}

void run_dir_close(struct run_dir *d)
{
    if (d->path != NULL && d->lock_fd >= 0)
        close(d->lock_fd);
    arena_destroy(&d->arena);
    *d = (struct run_dir){.lock_fd = -1};
}
