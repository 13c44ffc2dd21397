/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/gzip.h"

#include <zlib.h>

#include "common/mem.h"

enum where { MEMBER_START, INSIDE, PADDING };

struct gunzip {
    z_stream z;
    enum where where;
};

static void *take(void *opaque, uInt count, uInt size)
{
    (void)opaque;
    return mem_alloc(count, size);
}

static void give(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

ft_status gunzip_create(struct gunzip **out, ft_error *err)
{
    struct gunzip *g;
    *out = NULL;
    FT_TRY(mem_new(&g, 1, sizeof *g, "the gzip reader", err));
    g->z = (z_stream){.zalloc = take, .zfree = give};
    if (inflateInit2(&g->z, 15 + 16) != Z_OK) { /* the largest window, gzip wrapping only */
        mem_free(g);
        return ft_fail(err, FT_EMEM, "out of memory for the gzip reader");
    }
    *out = g;
    return FT_OK;
}

void gunzip_destroy(struct gunzip *g)
{
    if (g == NULL)
        return;
    inflateEnd(&g->z);
    mem_free(g);
}

/* Another member, or zeros up to the end. */
static ft_status begin_member(struct gunzip *g, ft_error *err)
{
    while (g->z.avail_in > 0 && *g->z.next_in == 0) {
        g->where = PADDING;
        g->z.next_in++;
        g->z.avail_in--;
    }
    if (g->z.avail_in == 0)
        return FT_OK;
    if (g->where == PADDING)
        return ft_fail(err, FT_EFORMAT, "damaged gzip data (text behind the end)");
    inflateReset(&g->z);
    g->where = INSIDE;
    return FT_OK;
}

static ft_status inflate_some(struct gunzip *g, ft_error *err)
{
    int rc = inflate(&g->z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END)
        g->where = MEMBER_START;
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR)
        return FT_OK;
    if (rc == Z_MEM_ERROR)
        return ft_fail(err, FT_EMEM, "out of memory for the gzip reader");
    return ft_fail(err, FT_EFORMAT, "damaged gzip data (%s)",
                   g->z.msg == NULL ? "unknown form" : g->z.msg);
}

ft_status gunzip_run(struct gunzip *g, void *dst, size_t *n_dst, const void *src, size_t *n_src,
                     ft_error *err)
{
    uInt in = (uInt)FT_MIN(*n_src, (size_t)INT32_MAX);
    uInt out = (uInt)FT_MIN(*n_dst, (size_t)INT32_MAX);
    g->z.next_in = (Bytef *)(uintptr_t)src;
    g->z.avail_in = in;
    g->z.next_out = dst;
    g->z.avail_out = out;
    ft_status st = g->where == INSIDE ? FT_OK : begin_member(g, err);
    if (st == FT_OK && g->where == INSIDE)
        st = inflate_some(g, err);
    *n_src = in - g->z.avail_in;
    *n_dst = out - g->z.avail_out;
    return st;
}

bool gunzip_complete(const struct gunzip *g)
{
    return g->where != INSIDE;
}
