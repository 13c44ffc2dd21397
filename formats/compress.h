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

#endif
