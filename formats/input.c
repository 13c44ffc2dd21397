/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/fault.h"
#include "common/mem.h"
#include "formats/compress.h"
#include "formats/gzip.h"

enum { WINDOW = 1 << 18 };

struct input {
    int fd;
    char *path;
    enum input_kind kind;
    struct hasher *hash;
    uint64_t bytes; /* read from the file */
    bool eof;
    uint8_t *window; /* stored bytes read ahead: [at, len) */
    size_t at, len;
    struct gunzip *gunzip;
    struct unzstd *unzstd;
};

/* Up to cap bytes of the file as stored; 0 at its end. */
static ft_status read_stored(size_t *n, struct input *in, void *dst, size_t cap, ft_error *err)
{
    ssize_t got;
    do
        got = fault_hit(FAULT_READ) ? (errno = EIO, -1) : read(in->fd, dst, cap);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return ft_fail_errno(err, "%s: read failed at byte %" PRIu64, in->path, in->bytes);
    in->eof = got == 0;
    in->bytes += (uint64_t)got;
    hasher_update(in->hash, dst, (size_t)got);
    *n = (size_t)got;
    return FT_OK;
}

/* Afterwards the window has bytes, or the file is at its end. */
static ft_status fill_window(struct input *in, ft_error *err)
{
    if (in->at < in->len || in->eof)
        return FT_OK;
    in->at = in->len = 0;
    return read_stored(&in->len, in, in->window, WINDOW, err);
}

/* A pipe may give single bytes: reads until the longest magic is there. */
static ft_status recognise(struct input *in, ft_error *err)
{
    while (in->len < 4 && !in->eof) {
        size_t n = 0;
        FT_TRY(read_stored(&n, in, in->window + in->len, WINDOW - in->len, err));
        in->len += n;
    }
    str head = {(const char *)in->window, in->len};
    if (str_starts(head, (str){"\x1F\x8B", 2})) {
        in->kind = INPUT_GZIP;
        return gunzip_create(&in->gunzip, err);
    }
    /* An ordinary frame, or a skippable one, which pzstd puts first. */
    if (str_starts(head, (str){"\x28\xB5\x2F\xFD", 4}) ||
        (head.len >= 4 && (load_u32le(head.ptr) & ~15u) == 0x184D2A50u)) {
        in->kind = INPUT_ZSTD;
        return unzstd_create(&in->unzstd, err);
    }
    return FT_OK;
}

ft_status input_open(struct input **out, const char *path, ft_error *err)
{
    struct input *in;
    ft_status st;
    *out = NULL;
    FT_TRY(mem_new(&in, 1, sizeof *in, "an input file", err));
    in->fd = -1;
    in->path = mem_strdup(path);
    if (in->path == NULL)
        FT_GOTO(ft_fail_memory(err, strlen(path), "a path"));
    FT_GOTO(hasher_create(&in->hash, err));
    FT_GOTO(mem_new(&in->window, WINDOW, 1, "an input file", err));
    in->fd = fault_hit(FAULT_READ) ? (errno = EIO, -1) : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        FT_GOTO(ft_fail_errno(err, "%s: cannot open", path));
    FT_GOTO(recognise(in, err));
    *out = in;
    return FT_OK;
out:
    input_close(in);
    return st;
}

void input_close(struct input *in)
{
    if (in == NULL)
        return;
    if (in->fd >= 0)
        close(in->fd);
    gunzip_destroy(in->gunzip);
    unzstd_destroy(in->unzstd);
    hasher_destroy(in->hash);
    mem_free(in->window);
    mem_free(in->path);
    mem_free(in);
}

enum input_kind input_kind(const struct input *in)
{
    return in->kind;
}

const char *input_path(const struct input *in)
{
    return in->path;
}

uint64_t input_bytes(const struct input *in)
{
    return in->bytes;
}

hash128 input_hash(const struct input *in)
{
    return hasher_digest(in->hash);
}

/* What was read ahead to recognise the file, then straight into the caller's memory. */
static ft_status read_plain(size_t *n, struct input *in, void *dst, size_t cap, ft_error *err)
{
    *n = FT_MIN(in->len - in->at, cap);
    if (*n == 0)
        return in->eof ? FT_OK : read_stored(n, in, dst, cap, err);
    memcpy(dst, in->window + in->at, *n);
    in->at += *n;
    return FT_OK;
}

static ft_status decompress(size_t *n_dst, struct input *in, void *dst, size_t *n_src,
                            ft_error *err)
{
    const uint8_t *src = in->window + in->at;
    if (in->kind == INPUT_GZIP)
        return gunzip_run(in->gunzip, dst, n_dst, src, n_src, err);
    return unzstd_run(in->unzstd, dst, n_dst, src, n_src, err);
}

static bool complete(const struct input *in)
{
    return in->kind == INPUT_GZIP ? gunzip_complete(in->gunzip) : unzstd_complete(in->unzstd);
}

static ft_status read_compressed(size_t *n, struct input *in, void *dst, size_t cap, ft_error *err)
{
    for (*n = 0; *n == 0;) {
        size_t n_src;
        FT_TRY(fill_window(in, err));
        n_src = in->len - in->at;
        *n = cap;
        if (decompress(n, in, dst, &n_src, err) != FT_OK)
            return ft_wrap(err, "%s: near byte %" PRIu64, in->path, in->bytes - (in->len - in->at));
        in->at += n_src;
        if (*n > 0 || n_src > 0)
            continue;
        /* Nothing in, nothing out: the end, or a stream that waits for more. */
        if (in->at == in->len && in->eof && complete(in))
            return FT_OK;
        if (in->at < in->len || in->eof)
            return ft_fail(err, FT_EFORMAT,
                           "%s: unexpected end at byte %" PRIu64 ": the compressed file is cut off",
                           in->path, in->bytes);
    }
    return FT_OK;
}

ft_status input_read(size_t *n, struct input *in, void *dst, size_t cap, ft_error *err)
{
    FT_ASSERT(cap > 0);
    return in->kind == INPUT_PLAIN ? read_plain(n, in, dst, cap, err)
                                   : read_compressed(n, in, dst, cap, err);
}

ft_status input_seek(struct input *in, uint64_t offset, ft_error *err)
{
    FT_ASSERT(in->kind == INPUT_PLAIN && in->at == 0);
    if (lseek(in->fd, (off_t)offset, SEEK_SET) < 0)
        return ft_fail_errno(err, "%s: cannot go to byte %" PRIu64, in->path, offset);
    in->len = 0;
    in->eof = false;
    return FT_OK;
}

ft_status input_drain(struct input *in, ft_error *err)
{
    while (!in->eof) {
        in->at = in->len;
        FT_TRY(fill_window(in, err));
    }
    return FT_OK;
}
