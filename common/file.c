/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sync_file_range */
#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/mem.h"

enum {
    WRITE_BUFFER = 1 << 18,
    WRITE_BEHIND = 4 << 20, /* bytes after which the kernel is told to begin with the disk */
};

static ft_status open_regular(int *fd, size_t *bytes, const char *path, ft_error *err)
{
    struct stat sb;
    *fd = fault_hit(FAULT_READ) ? (errno = EIO, -1) : open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return ft_fail_errno(err, "%s: cannot open", path);
    ft_status st = FT_OK;
    if (fstat(*fd, &sb) != 0)
        st = ft_fail_errno(err, "%s: cannot stat", path);
    else if (S_ISDIR(sb.st_mode))
        st = ft_fail(err, FT_EIO, "%s: is a directory, expected a file", path);
    else if (!S_ISREG(sb.st_mode))
        st = ft_fail(err, FT_EIO, "%s: not a regular file", path);
    if (st != FT_OK) {
        close(*fd);
        *fd = -1;
        return st;
    }
    *bytes = (size_t)sb.st_size;
    return FT_OK;
}

ft_status file_map_open(struct file_map *out, const char *path, ft_error *err)
{
    int fd;
    size_t bytes;
    *out = (struct file_map){0};
    FT_TRY(open_regular(&fd, &bytes, path, err));
    if (bytes > 0) {
        void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            ft_status st = ft_fail_errno(err, "%s: cannot map %zu bytes", path, bytes);
            close(fd);
            return st;
        }
        *out = (struct file_map){p, bytes};
    }
    close(fd);
    return FT_OK;
}

void file_map_close(struct file_map *m)
{
    if (m->data != NULL)
        munmap((void *)(uintptr_t)m->data, m->bytes);
    *m = (struct file_map){0};
}

void file_map_advise_sequential(const struct file_map *m)
{
    if (m->data != NULL)
        madvise((void *)(uintptr_t)m->data, m->bytes, MADV_SEQUENTIAL);
}

void file_map_release(const struct file_map *m, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    from = size_align(from, page);
    to &= ~(page - 1);
    if (m->data != NULL && from < to)
        madvise((void *)(uintptr_t)(m->data + from), to - from, MADV_DONTNEED);
}

ft_status file_read_all(str *out, struct arena *a, const char *path, size_t max_bytes,
                        ft_error *err)
{
    int fd;
    size_t bytes, done = 0;
    FT_TRY(open_regular(&fd, &bytes, path, err));
    if (bytes > max_bytes) {
        close(fd);
        return ft_fail(err, FT_ELIMIT, "%s: %zu bytes, at most %zu are accepted", path, bytes,
                       max_bytes);
    }
    char *data = arena_alloc(a, bytes + 1, 1);
    ft_status st = data == NULL ? ft_fail_memory(err, bytes, path) : FT_OK;
    while (st == FT_OK && done < bytes) {
        ssize_t n = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(fd, data + done, bytes - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            st = ft_fail(err, FT_EIO, "%s: ended at byte %zu of %zu while being read", path, done,
                         bytes);
        else if (errno != EINTR)
            st = ft_fail_errno(err, "%s: read failed at byte %zu", path, done);
    }
    close(fd);
    *out = (str){data, done};
    return st;
}

/* --- writers ------------------------------------------------------------------------------- */

static int write_full(int fd, const uint8_t *data, size_t n)
{
    while (n > 0) {
        ssize_t k = fault_hit(FAULT_WRITE) ? (errno = ENOSPC, -1) : write(fd, data, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return errno;
        data += k;
        n -= (size_t)k;
    }
    return 0;
}

ft_status file_check_target(const char *path, ft_error *err)
{
    struct stat sb;
    if (stat(path, &sb) != 0 || S_ISREG(sb.st_mode))
        return FT_OK;
    return ft_fail(err, FT_EIO, "%s: is a %s, expected a file name", path,
                   S_ISDIR(sb.st_mode)                          ? "directory"
                   : S_ISCHR(sb.st_mode) || S_ISBLK(sb.st_mode) ? "device"
                                                                : "pipe or socket");
}

ft_status file_writer_open(struct file_writer *w, const char *path, ft_error *err)
{
    size_t n = strlen(path) + 32;
    *w = (struct file_writer){.fd = -1};
    FT_TRY(file_check_target(path, err));
    w->path = mem_strdup(path);
    w->tmp_path = mem_alloc(n, 1);
    w->buffer = mem_alloc_aligned(WRITE_BUFFER);
    if (w->path == NULL || w->tmp_path == NULL || w->buffer == NULL) {
        file_writer_abort(w);
        return ft_fail_memory(err, WRITE_BUFFER, path);
    }
    snprintf(w->tmp_path, n, "%s.tmp.%ld", path, (long)getpid());
    w->fd = fault_hit(FAULT_WRITE)
                ? (errno = EACCES, -1)
                : open(w->tmp_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        ft_status st = ft_fail_errno(err, "%s: cannot create", path);
        file_writer_abort(w);
        return st;
    }
    return FT_OK;
}

static void flush_buffer(struct file_writer *w)
{
    if (w->error == 0)
        w->error = write_full(w->fd, w->buffer, w->n_buffered);
    w->n_buffered = 0;
}

/* The disk works while the next bytes are computed, and the fsync of commit has little left to wait
 * for. Only a hint: what it misses, fsync does. */
static void write_behind(struct file_writer *w)
{
    uint64_t in_file = w->written - w->n_buffered;
    if (in_file - w->started < WRITE_BEHIND)
        return;
    (void)sync_file_range(w->fd, (off_t)w->started, (off_t)(in_file - w->started),
                          SYNC_FILE_RANGE_WRITE);
    w->started = in_file;
}

void file_write(struct file_writer *w, const void *data, size_t n)
{
    FT_ASSERT(w->fd >= 0);
    w->written += n;
    if (n > WRITE_BUFFER - w->n_buffered)
        flush_buffer(w);
    if (n >= WRITE_BUFFER) {
        if (w->error == 0)
            w->error = write_full(w->fd, data, n);
    } else if (n > 0) {
        memcpy(w->buffer + w->n_buffered, data, n);
        w->n_buffered += n;
    }
    write_behind(w);
}

void file_write_at(struct file_writer *w, uint64_t offset, const void *data, size_t n)
{
    FT_ASSERT(w->fd >= 0 && offset + n <= w->written);
    flush_buffer(w);
    if (w->error != 0)
        return;
    if (lseek(w->fd, (off_t)offset, SEEK_SET) < 0)
        w->error = errno;
    else
        w->error = write_full(w->fd, data, n);
    if (w->error == 0 && lseek(w->fd, 0, SEEK_END) < 0)
        w->error = errno;
}

static void path_parent(char *dst, size_t cap, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    if (slash == NULL)
        snprintf(dst, cap, ".");
    else
        snprintf(dst, cap, "%.*s", n == 0 ? 1 : (int)n, path);
}

ft_status file_writer_commit(struct file_writer *w, ft_error *err)
{
    char parent[4096];
    ft_status st = FT_OK;
    FT_ASSERT(w->fd >= 0);
    flush_buffer(w);
    if (w->error == 0 && (fault_hit(FAULT_WRITE) ? (errno = EIO, -1) : fsync(w->fd)) != 0)
        w->error = errno;
    int closed = close(w->fd);
    w->fd = -1;
    if (w->error == 0 && closed != 0)
        w->error = errno;
    if (w->error != 0) {
        errno = w->error;
        st = ft_fail_errno(err, "%s: write failed after %llu bytes", w->path,
                           (unsigned long long)w->written);
    } else if ((fault_hit(FAULT_WRITE) ? (errno = EIO, -1) : rename(w->tmp_path, w->path)) != 0) {
        st = ft_fail_errno(err, "%s: cannot rename the finished file into place", w->path);
    } else {
        path_parent(parent, sizeof parent, w->path);
        mem_free(w->tmp_path);
        w->tmp_path = NULL; /* published: nothing left to remove */
        st = dir_sync(parent, err);
    }
    file_writer_abort(w);
    return st;
}

void file_writer_abort(struct file_writer *w)
{
    if (w->path == NULL && w->tmp_path == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->tmp_path != NULL)
        unlink(w->tmp_path);
    mem_free(w->path);
    mem_free(w->tmp_path);
    mem_free(w->buffer);
    *w = (struct file_writer){.fd = -1};
}

ft_status file_publish(const char *path, const void *data, size_t n, ft_error *err)
{
    struct file_writer w;
    FT_TRY(file_writer_open(&w, path, err));
    file_write(&w, data, n);
    return file_writer_commit(&w, err);
}

/* --- directories --------------------------------------------------------------------------- */

ft_status dir_create(const char *path, ft_error *err)
{
    char *copy = mem_strdup(path);
    if (copy == NULL)
        return ft_fail_memory(err, strlen(path), "a path");
    ft_status st = FT_OK;
    for (char *p = copy + 1; st == FT_OK; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && !(errno == EEXIST && path_is_dir(copy)))
            st = ft_fail_errno(err, "%s: cannot create the directory", copy);
        *p = end;
        if (end == '\0')
            break;
    }
    mem_free(copy);
    return st;
}

ft_status dir_sync(const char *path, ft_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ft_fail_errno(err, "%s: cannot open the directory", path);
    /* Some network file systems cannot sync a directory; the rename itself is then what they give.
     */
    ft_status st = FT_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        st = ft_fail_errno(err, "%s: cannot make the directory durable", path);
    close(fd);
    return st;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ft_status dir_list(const char ***names, size_t *n, struct arena *a, const char *path, ft_error *err)
{
    DIR *dir = fault_hit(FAULT_READ) ? (errno = EIO, NULL) : opendir(path);
    const char **list = NULL;
    size_t count = 0, cap = 0;
    ft_status st = FT_OK;
    if (dir == NULL)
        return ft_fail_errno(err, "%s: cannot list the directory", path);
    for (struct dirent *e = readdir(dir); e != NULL && st == FT_OK; e = readdir(dir)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (count == cap) {
            const char **grown = arena_alloc(a, cap * 2 + 16, sizeof *list);
            if (grown != NULL && count > 0)
                memcpy(grown, list, count * sizeof *list);
            list = grown;
            cap = cap * 2 + 16;
        }
        const char *name = list == NULL ? NULL : arena_cstr(a, str_from(e->d_name));
        if (name == NULL)
            st = ft_fail_memory(err, cap, "a directory listing");
        else
            list[count++] = name;
    }
    closedir(dir);
    if (st == FT_OK && count > 0)
        qsort(list, count, sizeof *list, compare_names);
    *names = list;
    *n = count;
    return st;
}

ft_status dir_remove(const char *path, ft_error *err)
{
    struct arena a = {0};
    const char **names;
    size_t n;
    struct stat sb;
    if (lstat(path, &sb) != 0)
        return errno == ENOENT ? FT_OK : ft_fail_errno(err, "%s: cannot stat", path);
    if (!S_ISDIR(sb.st_mode)) {
        if (unlink(path) != 0)
            return ft_fail_errno(err, "%s: cannot remove", path);
        return FT_OK;
    }
    ft_status st = dir_list(&names, &n, &a, path, err);
    for (size_t i = 0; i < n && st == FT_OK; i++) {
        const char *child = path_join(&a, path, names[i]);
        st = child == NULL ? ft_fail_memory(err, strlen(path), "a path") : dir_remove(child, err);
    }
    if (st == FT_OK && rmdir(path) != 0)
        st = ft_fail_errno(err, "%s: cannot remove the directory", path);
    arena_destroy(&a);
    return st;
}

bool path_exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

bool path_is_dir(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

bool path_same(const char *a, const char *b)
{
    struct stat sa, sb;
    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

const char *path_join(struct arena *a, const char *dir, const char *name)
{
    size_t n = strlen(dir) + strlen(name) + 2;
    char *p = arena_alloc(a, n, 1);
    if (p != NULL)
        snprintf(p, n, "%s%s%s", dir, str_ends(str_from(dir), STR("/")) ? "" : "/", name);
    return p;
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
