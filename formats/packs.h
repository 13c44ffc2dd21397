/* SPDX-License-Identifier: Apache-2.0
 * The pack plan of a split: which samples share a training sequence. Byte level:
 * docs/formats/packs.md. The plan itself is made in tools/pack.c.
 *
 * A data set comes with a plan of whole samples (version 1, named by the manifest). Plans made
 * beside it later name the data set they belong to, and may hold parts of samples (version 2). */
#ifndef FORMATS_PACKS_H
#define FORMATS_PACKS_H

#include "common/file.h"
#include "common/hash.h"

enum { PACKS_VERSION = 1, PACKS_PLAN_VERSION = 2, PACKS_HEADER_BYTES = 64, PACKS_PLAN_BYTES = 128 };

/* Tokens [from, from + n_tokens) of a sample, n_trained of which are targets. The first token of a
 * part is none: nothing before it could predict it. */
struct pack_part {
    uint32_t sample, from, n_tokens, n_trained;
};

/* Bin b holds the entries starts[b] .. starts[b + 1], of samples or of parts: the other is NULL. */
struct packs {
    uint32_t version;
    uint32_t n_bins, n_samples;
    uint32_t n_entries;                 /* n_samples unless there are parts */
    uint32_t length;                    /* tokens a bin holds at most */
    uint32_t fullest;                   /* tokens in the fullest bin */
    const uint32_t *starts;             /* [n_bins + 1], first 0, last n_entries */
    const uint32_t *samples;            /* [n_entries], indices into the split */
    const struct pack_part *parts;      /* [n_entries] */
    struct file_map map;                /* when read from a file */
    uint64_t starts_hash, entries_hash; /* XXH3-64 as stored in the header */

    /* version 2 */
    hash128 data;       /* fingerprint of the data set */
    uint64_t untrained; /* tokens of bins that had no target and were left out */
    bool shuffled;      /* by this seed */
    uint64_t seed;
};

FT_NODISCARD ft_status packs_write(const char *path, const struct packs *p, ft_error *err);
/* Maps and checks header and sizes; the content is not read: packs_bin checks what it returns. */
FT_NODISCARD ft_status packs_open(struct packs *out, const char *path, ft_error *err);
void packs_close(struct packs *p); /* zeroed is fine */
/* Bytes of the entries and of the starts before them. */
size_t packs_entry_bytes(const struct packs *p);
/* Sample indices or parts of bin b; NULL when the stored plan is damaged there (empty or impossible
 * range, an index beyond n_samples, an impossible part). Assert b < n_bins and that the plan is of
 * this kind. */
const uint32_t *packs_bin(const struct packs *p, uint32_t b, size_t *n);
const struct pack_part *packs_bin_parts(const struct packs *p, uint32_t b, size_t *n);

#endif
