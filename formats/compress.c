/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/compress.h"

#include <zstd.h>

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
