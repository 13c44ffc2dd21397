/* SPDX-License-Identifier: Apache-2.0
 * The pack plan of a split: which samples share a training sequence. Byte level:
 * docs/formats/packs.md. The plan itself is made in tools/pack.c. */
#ifndef FORMATS_PACKS_H
#define FORMATS_PACKS_H

#include "common/file.h"

enum { PACKS_VERSION = 1, PACKS_HEADER_BYTES = 64 };

/* Bin b holds samples[starts[b] .. starts[b + 1]). */
struct packs {
    uint32_t n_bins, n_samples;
    uint32_t length;                    /* tokens a bin holds at most */
    uint32_t fullest;                   /* tokens in the fullest bin */
    const uint32_t *starts;             /* [n_bins + 1], first 0, last n_samples */
    const uint32_t *samples;            /* [n_samples], indices into the split */
    struct file_map map;                /* when read from a file */
    uint64_t starts_hash, samples_hash; /* XXH3-64 as stored in the header */
};

FT_NODISCARD ft_status packs_write(const char *path, const struct packs *p, ft_error *err);
/* Maps and checks header and sizes; the content is not read: packs_bin checks what it returns. */
FT_NODISCARD ft_status packs_open(struct packs *out, const char *path, ft_error *err);
void packs_close(struct packs *p); /* zeroed is fine */
/* Sample indices of bin b; NULL when the stored plan is damaged there (empty or impossible range,
 * an index beyond n_samples). Asserts b < n_bins. */
const uint32_t *packs_bin(const struct packs *p, uint32_t b, size_t *n);

#endif
