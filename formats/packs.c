/* SPDX-License-Identifier: Apache-2.0
 * The arrays are used in place from the map, which is why the format fixes the byte order that all
 * supported machines have. */
#include "formats/packs.h"

#include <string.h>

#include "common/hash.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pack plans are mapped as they are");

static const uint8_t magic[8] = {'F', 'T', 'P', 'A', 'C', 'K', 'S', 0};

enum {
    H_VERSION = 8,
    H_LENGTH = 12,
    H_BINS = 16,
    H_SAMPLES = 20,
    H_STARTS_HASH = 24,
    H_SAMPLES_HASH = 32,
    H_FULLEST = 40,
    H_HASH = 56, /* of the bytes before it */
};

ft_status packs_write(const char *path, const struct packs *p, ft_error *err)
{
    uint8_t h[PACKS_HEADER_BYTES] = {0};
    size_t starts_bytes = ((size_t)p->n_bins + 1) * 4, samples_bytes = (size_t)p->n_samples * 4;
    struct file_writer w;
    memcpy(h, magic, sizeof magic);
    store_u32le(h + H_VERSION, PACKS_VERSION);
    store_u32le(h + H_LENGTH, p->length);
    store_u32le(h + H_BINS, p->n_bins);
    store_u32le(h + H_SAMPLES, p->n_samples);
    store_u64le(h + H_STARTS_HASH, hash64(p->starts, starts_bytes));
    store_u64le(h + H_SAMPLES_HASH, hash64(p->samples, samples_bytes));
    store_u32le(h + H_FULLEST, p->fullest);
    store_u64le(h + H_HASH, hash64(h, H_HASH));
    FT_TRY(file_writer_open(&w, path, err));
    file_write(&w, h, sizeof h);
    file_write(&w, p->starts, starts_bytes);
    file_write(&w, p->samples, samples_bytes);
    return file_writer_commit(&w, err);
}

static ft_status parse(struct packs *p, ft_error *err)
{
    const uint8_t *h = p->map.data;
    if (p->map.bytes < PACKS_HEADER_BYTES || memcmp(h, magic, sizeof magic) != 0)
        return ft_fail(err, FT_EFORMAT, "byte 0: not a pack plan (%zu bytes)", p->map.bytes);
    if (load_u32le(h + H_VERSION) != PACKS_VERSION)
        return ft_fail(err, FT_EFORMAT,
                       "byte %d: pack plan version %u, this program reads version %d; build the "
                       "data set again",
                       H_VERSION, load_u32le(h + H_VERSION), PACKS_VERSION);
    if (load_u64le(h + H_HASH) != hash64(h, H_HASH))
        return ft_fail(err, FT_EFORMAT, "byte %d: the header is damaged (checksum differs)",
                       H_HASH);
    p->length = load_u32le(h + H_LENGTH);
    p->n_bins = load_u32le(h + H_BINS);
    p->n_samples = load_u32le(h + H_SAMPLES);
    p->starts_hash = load_u64le(h + H_STARTS_HASH);
    p->samples_hash = load_u64le(h + H_SAMPLES_HASH);
    p->fullest = load_u32le(h + H_FULLEST);
    if (p->fullest > p->length || (p->fullest == 0) != (p->n_bins == 0))
        return ft_fail(err, FT_EFORMAT,
                       "byte %d: a fullest bin of %u tokens among %u bins of at most %u; build the "
                       "data set again",
                       H_FULLEST, p->fullest, p->n_bins, p->length);
    uint64_t expected = PACKS_HEADER_BYTES + ((uint64_t)p->n_bins + 1 + p->n_samples) * 4;
    if (expected != p->map.bytes)
        return ft_fail(err, FT_EFORMAT, "%zu bytes, but %u bins of %u samples take %llu",
                       p->map.bytes, p->n_bins, p->n_samples, (unsigned long long)expected);
    p->starts = (const uint32_t *)(const void *)(h + PACKS_HEADER_BYTES);
    p->samples = p->starts + p->n_bins + 1;
    return FT_OK;
}

ft_status packs_open(struct packs *out, const char *path, ft_error *err)
{
    *out = (struct packs){0};
    FT_TRY(file_map_open(&out->map, path, err));
    if (parse(out, err) == FT_OK)
        return FT_OK;
    packs_close(out);
    return ft_wrap(err, "%s", path);
}

void packs_close(struct packs *p)
{
    file_map_close(&p->map);
    *p = (struct packs){0};
}

const uint32_t *packs_bin(const struct packs *p, uint32_t b, size_t *n)
{
    FT_ASSERT(b < p->n_bins);
    uint32_t from = p->starts[b], to = p->starts[b + 1];
    *n = 0;
    if (from >= to || to > p->n_samples)
        return NULL;
    for (uint32_t i = from; i < to; i++)
        if (p->samples[i] >= p->n_samples)
            return NULL;
    *n = to - from;
    return p->samples + from;
}
