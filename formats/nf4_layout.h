/* SPDX-License-Identifier: Apache-2.0
 * Where the parts of an .nf4 file lie: shared by its writer and its reader, not used elsewhere. The
 * position of every part follows from the sizes before it, so a reader can demand the exact value.
 */
#ifndef FORMATS_NF4_LAYOUT_H
#define FORMATS_NF4_LAYOUT_H

#include "formats/nf4_file.h"

enum {
    NF4_FILE_VERSION = 1,
    NF4_PREAMBLE = 64,
    NF4_ALIGN = 64,
    NF4_PAGE = 4096,
    NF4_BIG_PART = 65536, /* parts from this size on start on a page */
    NF4_MAX_HEADER = 256 << 20,
    NF4_MAP_BYTES = NF4_MAP * 4, /* the map is the first part of the data section */
    NF4_MAX_PARTS = 3,
};

#define NF4_MAGIC "FTNF4\r\n\x1a"

/* Byte sizes of the parts of a tensor: {codes, absmax, absmax2} or {data}. False on overflow or
 * when a row is not a whole number of blocks. */
bool nf4_part_sizes(size_t sizes[NF4_MAX_PARTS], int *n, enum dtype t, int64_t rows, int64_t cols);
/* Aligns *at for a part of this size, returns its start and moves *at to its end. */
uint64_t nf4_place_part(uint64_t *at, size_t bytes);

/* The fingerprint: what is hashed first, and before the parts of each tensor. */
FT_NODISCARD ft_status nf4_hash_start(struct hasher *h, const struct model_config *c,
                                      const float *map, ft_error *err);
void nf4_hash_tensor(struct hasher *h, const char *name, enum dtype t);

extern const char *const nf4_from_names[NF4_FROMS];

#endif
