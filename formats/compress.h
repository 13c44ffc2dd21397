/* SPDX-License-Identifier: Apache-2.0
 * zstd frames, the only owner of its header. A frame depends on the input, the level and the zstd
 * version alone. */
#ifndef FORMATS_COMPRESS_H
#define FORMATS_COMPRESS_H

#include "common/buf.h"

enum { COMPRESS_LEVEL_MIN = 1, COMPRESS_LEVEL_MAX = 19 };

/* Reusable contexts of one thread. destroy accepts NULL. */
struct compressor;
FT_NODISCARD ft_status compressor_create(struct compressor **out, int level, ft_error *err);
void compressor_destroy(struct compressor *c);
/* Appends one frame that holds src. */
FT_NODISCARD ft_status compressor_append(struct buf *out, struct compressor *c, const void *src,
                                         size_t n, ft_error *err);

struct decompressor;
FT_NODISCARD ft_status decompressor_create(struct decompressor **out, ft_error *err);
void decompressor_destroy(struct decompressor *d);
/* FT_EFORMAT unless src decodes to exactly dst_bytes. Never writes beyond dst_bytes. */
FT_NODISCARD ft_status decompressor_run(void *dst, size_t dst_bytes, struct decompressor *d,
                                        const void *src, size_t n, ft_error *err);

/* Frames of unknown size, piece by piece. */
struct unzstd;
FT_NODISCARD ft_status unzstd_create(struct unzstd **out, ft_error *err);
void unzstd_destroy(struct unzstd *u); /* NULL is fine */
/* Decompresses from src[*n_src] into dst[*n_dst]; both are set to what was used of them. Frames
 * follow one another without a border in the output, skippable ones give nothing. FT_EFORMAT on
 * damage and on windows above 128 MiB. */
FT_NODISCARD ft_status unzstd_run(struct unzstd *u, void *dst, size_t *n_dst, const void *src,
                                  size_t *n_src, ft_error *err);
/* The input may end here: no frame is open. */
bool unzstd_complete(const struct unzstd *u);

#endif
