/* SPDX-License-Identifier: Apache-2.0
 * gzip streams, the only owner of zlib's header. */
#ifndef FORMATS_GZIP_H
#define FORMATS_GZIP_H

#include "common/error.h"

struct gunzip;
FT_NODISCARD ft_status gunzip_create(struct gunzip **out, ft_error *err);
void gunzip_destroy(struct gunzip *g); /* NULL is fine */

/* Decompresses from src[*n_src] into dst[*n_dst]; both are set to what was used of them. Members
 * follow one another without a border in the output, zeros behind the last one are padding.
 * FT_EFORMAT on damage and on other bytes behind a member. */
FT_NODISCARD ft_status gunzip_run(struct gunzip *g, void *dst, size_t *n_dst, const void *src,
                                  size_t *n_src, ft_error *err);
/* The input may end here: nothing came yet, or a member is complete. */
bool gunzip_complete(const struct gunzip *g);

#endif
