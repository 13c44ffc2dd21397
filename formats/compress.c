/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/compress.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "common/mem.h"

struct compressor {
    ZSTD_CCtx *ctx;
    int level;
};

struct decompressor {
    ZSTD_DCtx *ctx;
};

ft_status compressor_create(struct compressor **out, int level, ft_error *err)
{
    FT_ASSERT(level >= COMPRESS_LEVEL_MIN && level <= COMPRESS_LEVEL_MAX);
    FT_TRY(mem_new(out, 1, sizeof **out, "the compressor", err));
    (*out)->level = level;
    (*out)->ctx = ZSTD_createCCtx();
    if ((*out)->ctx != NULL)
        return FT_OK;
    compressor_destroy(*out);
    *out = NULL;
    return ft_fail(err, FT_EMEM, "out of memory for the compressor");
}

void compressor_destroy(struct compressor *c)
{
    if (c == NULL)
        return;
    ZSTD_freeCCtx(c->ctx);
    mem_free(c);
}

ft_status compressor_append(struct buf *out, struct compressor *c, const void *src, size_t n,
                            ft_error *err)
{
    size_t bound = ZSTD_compressBound(n);
    void *dst = buf_reserve(out, bound);
    if (dst == NULL)
        return ft_fail_memory(err, bound, "a compressed block");
    size_t got = ZSTD_compressCCtx(c->ctx, dst, bound, src, n, c->level);
    if (ZSTD_isError(got)) /* with room for the bound only memory can be missing */
        return ft_fail(err, FT_EMEM, "compression failed: %s", ZSTD_getErrorName(got));
    out->len += got;
    return FT_OK;
}

ft_status decompressor_create(struct decompressor **out, ft_error *err)
{
    FT_TRY(mem_new(out, 1, sizeof **out, "the decompressor", err));
    (*out)->ctx = ZSTD_createDCtx();
    if ((*out)->ctx != NULL)
        return FT_OK;
    decompressor_destroy(*out);
    *out = NULL;
    return ft_fail(err, FT_EMEM, "out of memory for the decompressor");
}

void decompressor_destroy(struct decompressor *d)
{
    if (d == NULL)
        return;
    ZSTD_freeDCtx(d->ctx);
    mem_free(d);
}

ft_status decompressor_run(void *dst, size_t dst_bytes, struct decompressor *d, const void *src,
                           size_t n, ft_error *err)
{
    size_t got = ZSTD_decompressDCtx(d->ctx, dst, dst_bytes, src, n);
    if (ZSTD_isError(got))
        return ft_fail(err, FT_EFORMAT, "damaged zstd data (%s)", ZSTD_getErrorName(got));
    if (got != dst_bytes)
        return ft_fail(err, FT_EFORMAT, "zstd data holds %zu bytes, expected %zu", got, dst_bytes);
    return FT_OK;
}

/* --- streams --------------------------------------------------------------------------------- */

struct unzstd {
    ZSTD_DCtx *ctx;
    bool complete;
};

ft_status unzstd_create(struct unzstd **out, ft_error *err)
{
    FT_TRY(mem_new(out, 1, sizeof **out, "the decompressor", err));
    (*out)->complete = true;
    (*out)->ctx = ZSTD_createDCtx();
    if ((*out)->ctx != NULL)
        return FT_OK;
    unzstd_destroy(*out);
    *out = NULL;
    return ft_fail(err, FT_EMEM, "out of memory for the decompressor");
}

void unzstd_destroy(struct unzstd *u)
{
    if (u == NULL)
        return;
    ZSTD_freeDCtx(u->ctx);
    mem_free(u);
}

static ft_status stream_error(size_t code, ft_error *err)
{
    ZSTD_ErrorCode kind = ZSTD_getErrorCode(code);
    if (kind == ZSTD_error_memory_allocation)
        return ft_fail(err, FT_EMEM, "out of memory for the decompressor");
    if (kind == ZSTD_error_frameParameter_windowTooLarge)
        return ft_fail(err, FT_EFORMAT,
                       "zstd data with a window above 128 MiB (zstd --long=28 or more); compress "
                       "it again without --long");
    return ft_fail(err, FT_EFORMAT, "damaged zstd data (%s)", ZSTD_getErrorName(code));
}

ft_status unzstd_run(struct unzstd *u, void *dst, size_t *n_dst, const void *src, size_t *n_src,
                     ft_error *err)
{
    ZSTD_outBuffer out = {dst, *n_dst, 0};
    ZSTD_inBuffer in = {src, *n_src, 0};
    size_t left = ZSTD_decompressStream(u->ctx, &out, &in);
    *n_dst = out.pos;
    *n_src = in.pos;
    if (ZSTD_isError(left))
        return stream_error(left, err);
    if (in.pos > 0 || out.pos > 0) /* an idle call asks for the header of a next frame */
        u->complete = left == 0;
    return FT_OK;
}

bool unzstd_complete(const struct unzstd *u)
{
    return u->complete;
}
