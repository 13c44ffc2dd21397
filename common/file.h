/* SPDX-License-Identifier: Apache-2.0
 * Files: read-only maps, whole-file reads, writers that publish atomically, directories. */
#ifndef COMMON_FILE_H
#define COMMON_FILE_H

#include <stdio.h>

#include "common/arena.h"
#include "common/error.h"

/* Read-only mapping of a whole regular file. Zeroed = closed. A file that is truncated while
 * mapped raises SIGBUS on access, as any mapping does. */
struct file_map {
    const uint8_t *data; /* page-aligned; NULL for an empty file */
    size_t bytes;
};

FT_NODISCARD ft_status file_map_open(struct file_map *out, const char *path, ft_error *err);
void file_map_close(struct file_map *m);
/* Tells the kernel how the map will be read next. */
void file_map_advise_sequential(const struct file_map *m);
/* Drops the resident pages of [from, to): lets a scan of a file larger than memory stay small. */
void file_map_release(const struct file_map *m, size_t from, size_t to);

/* Whole file into the arena, NUL-terminated. FT_ELIMIT above max_bytes. */
FT_NODISCARD ft_status file_read_all(str *out, struct arena *a, const char *path, size_t max_bytes,
                                     ft_error *err);

/* Writes to "<path>.tmp.<pid>"; commit makes it durable (fsync) and renames it to path, then syncs
 * the directory; abort removes it. Whatever happens, `path` holds the old or the whole new
 * content. A write error is remembered and returned by commit. */
struct file_writer {
    int fd; /* -1 = closed */
    char *path, *tmp_path;
    uint8_t *buffer;
    size_t n_buffered;
    uint64_t written; /* bytes accepted so far, including the buffered ones */
    uint64_t started; /* of them, on their way to the disk already */
    int error;        /* first errno; 0 = none */
};

/* FT_EIO when something other than a regular file is in the place of path: a rename would replace
 * even a device. */
FT_NODISCARD ft_status file_check_target(const char *path, ft_error *err);
/* Begins with file_check_target. */
FT_NODISCARD ft_status file_writer_open(struct file_writer *w, const char *path, ft_error *err);
void file_write(struct file_writer *w, const void *data, size_t n);
/* Overwrites bytes already written (headers that are known last). */
void file_write_at(struct file_writer *w, uint64_t offset, const void *data, size_t n);
FT_NODISCARD ft_status file_writer_commit(struct file_writer *w, ft_error *err);
void file_writer_abort(struct file_writer *w); /* no effect after commit or on a zeroed writer */

/* open + write + commit. */
FT_NODISCARD ft_status file_publish(const char *path, const void *data, size_t n, ft_error *err);

FT_NODISCARD ft_status dir_create(const char *path, ft_error *err); /* with parents; existing ok */
FT_NODISCARD ft_status dir_sync(const char *path, ft_error *err);
/* Names (not paths) sorted by byte value, without "." and "..". */
FT_NODISCARD ft_status dir_list(const char ***names, size_t *n, struct arena *a, const char *path,
                                ft_error *err);
/* Removes a directory and everything in it; a missing one is fine. Does not follow links. */
FT_NODISCARD ft_status dir_remove(const char *path, ft_error *err);

bool path_exists(const char *path);
bool path_is_dir(const char *path);
bool path_same(const char *a, const char *b); /* both exist and are one file */
/* "dir/name", in the arena; NULL on exhaustion. */
const char *path_join(struct arena *a, const char *dir, const char *name);
const char *path_base(const char *path);

#endif
