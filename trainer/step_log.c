/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/step_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/file.h"
#include "common/mem.h"

typedef ft_status keep_fn(bool *keep, void *ctx, const json *line, ft_error *err);

/* A line that does not parse was cut by a crash and is dropped. */
static ft_status judge_line(bool *kept, const char *path, str line, keep_fn *keep, void *ctx,
                            ft_error *err)
{
    struct json_doc *doc = NULL;
    *kept = false;
    ft_status st = json_parse(&doc, path, line, JSON_STRICT, err);
    if (st == FT_OK)
        st = keep(kept, ctx, json_root(doc), err);
    json_close(doc);
    return st == FT_EFORMAT ? FT_OK : st;
}

static ft_status measure_kept(size_t *bytes, const char *path, keep_fn *keep, void *ctx,
                              ft_error *err)
{
    struct file_map map;
    ft_status st = FT_OK;
    bool kept = true;
    *bytes = 0;
    if (keep == NULL || !path_exists(path))
        return FT_OK;
    FT_TRY(file_map_open(&map, path, err));
    str rest = {(const char *)map.data, map.bytes};
    while (kept && st == FT_OK && rest.len > 0 && memchr(rest.ptr, '\n', rest.len) != NULL) {
        st = judge_line(&kept, path, str_cut(&rest, '\n'), keep, ctx, err);
        if (kept)
            *bytes = map.bytes - rest.len;
    }
    file_map_close(&map);
    return st;
}

ft_status step_log_open(struct step_log *out, const char *path, keep_fn *keep, void *ctx,
                        ft_error *err)
{
    size_t kept;
    *out = (struct step_log){.fd = -1};
    FT_TRY(measure_kept(&kept, path, keep, ctx, err));
    out->path = mem_strdup(path);
    if (out->path == NULL)
        return ft_fail_memory(err, strlen(path), "a path");
    out->fd = fault_hit(FAULT_WRITE) ? (errno = EACCES, -1)
                                     : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out->fd < 0)
        return ft_fail_errno(err, "%s: cannot create", path);
    if (ftruncate(out->fd, (off_t)kept) != 0)
        return ft_fail_errno(err, "%s: cannot cut back to %zu bytes", path, kept);
    return FT_OK;
}

ft_status step_log_append(struct step_log *l, const struct buf *record, ft_error *err)
{
    struct buf line = {0};
    buf_str(&line, buf_view(record));
    buf_byte(&line, '\n');
    ft_status st = record->failed ? ft_fail_memory(err, record->len, "a record")
                                  : buf_status(&line, "a record", err);
    /* One write per record, so that a reader of the growing file sees whole lines. */
    for (size_t done = 0; st == FT_OK && done < line.len;) {
        ssize_t n = fault_hit(FAULT_WRITE) ? (errno = ENOSPC, -1)
                                           : write(l->fd, line.data + done, line.len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            st = ft_fail_errno(err, "%s: write failed", l->path);
    }
    buf_free(&line);
    return st;
}

ft_status step_log_sync(struct step_log *l, ft_error *err)
{
    if (fsync(l->fd) != 0)
        return ft_fail_errno(err, "%s: cannot make the file durable", l->path);
    return FT_OK;
}

void step_log_close(struct step_log *l)
{
    if (l->path != NULL && l->fd >= 0)
        close(l->fd);
    mem_free(l->path);
    *l = (struct step_log){.fd = -1};
}
