/* SPDX-License-Identifier: Apache-2.0
 * The arrays are used in place from the map, which is why the format fixes the byte order that all
 * supported machines have. */
#include "formats/packs.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pack plans are mapped as they are");
_Static_assert(sizeof(struct pack_part) == 16, "parts are mapped as they are");

static const uint8_t magic[8] = {'F', 'T', 'P', 'A', 'C', 'K', 'S', 0};

enum {
    H_VERSION = 8,
    H_LENGTH = 12,
    H_BINS = 16,
    H_SAMPLES = 20,
    H_STARTS_HASH = 24,
    H_ENTRIES_HASH = 32,
    H_FULLEST = 40,
    H_HASH = 56, /* of the bytes before it; version 1 */
    /* version 2 */
    H_ENTRIES = 44,
    H_KIND = 48,
    H_SHUFFLED = 52,
    H_UNTRAINED = 56,
    H_DATA = 64,
    H_SEED = 80,
    H_PLAN_HASH = 120,
};

enum { KIND_WHOLE, KIND_PARTS };

static size_t header_bytes(const struct packs *p)
{
    return p->version == PACKS_VERSION ? PACKS_HEADER_BYTES : PACKS_PLAN_BYTES;
}

size_t packs_entry_bytes(const struct packs *p)
{
    return p->n_entries * (p->parts != NULL ? sizeof *p->parts : sizeof *p->samples);
}

static const void *entries(const struct packs *p)
{
    return p->parts != NULL ? (const void *)p->parts : p->samples;
}

static void fill_plan_header(uint8_t *h, const struct packs *p)
{
    store_u32le(h + H_ENTRIES, p->n_entries);
    store_u32le(h + H_KIND, p->parts != NULL ? KIND_PARTS : KIND_WHOLE);
    store_u32le(h + H_SHUFFLED, p->shuffled);
    store_u64le(h + H_UNTRAINED, p->untrained);
    store_u64le(h + H_DATA, p->data.lo);
    store_u64le(h + H_DATA + 8, p->data.hi);
    store_u64le(h + H_SEED, p->seed);
    store_u64le(h + H_PLAN_HASH, hash64(h, H_PLAN_HASH));
}

ft_status packs_write(const char *path, const struct packs *p, ft_error *err)
{
    uint8_t h[PACKS_PLAN_BYTES] = {0};
    size_t starts_bytes = ((size_t)p->n_bins + 1) * 4;
    struct file_writer w;
    FT_ASSERT(p->version == PACKS_PLAN_VERSION ||
              (p->version == PACKS_VERSION && p->parts == NULL));
    memcpy(h, magic, sizeof magic);
    store_u32le(h + H_VERSION, p->version);
    store_u32le(h + H_LENGTH, p->length);
    store_u32le(h + H_BINS, p->n_bins);
    store_u32le(h + H_SAMPLES, p->n_samples);
    store_u64le(h + H_STARTS_HASH, hash64(p->starts, starts_bytes));
    store_u64le(h + H_ENTRIES_HASH, hash64(entries(p), packs_entry_bytes(p)));
    store_u32le(h + H_FULLEST, p->fullest);
    if (p->version == PACKS_VERSION)
        store_u64le(h + H_HASH, hash64(h, H_HASH));
    else
        fill_plan_header(h, p);
    FT_TRY(file_writer_open(&w, path, err));
    file_write(&w, h, header_bytes(p));
    file_write(&w, p->starts, starts_bytes);
    /* Parts start at a multiple of 4, as their fields need. */
    file_write(&w, entries(p), packs_entry_bytes(p));
    return file_writer_commit(&w, err);
}

/* --- reading --------------------------------------------------------------------------------- */

static ft_status parse_version(struct packs *p, ft_error *err)
{
    const uint8_t *h = p->map.data;
    if (p->map.bytes < PACKS_HEADER_BYTES || memcmp(h, magic, sizeof magic) != 0)
        return ft_fail(err, FT_EFORMAT, "byte 0: not a pack plan (%zu bytes)", p->map.bytes);
    p->version = load_u32le(h + H_VERSION);
    if (p->version != PACKS_VERSION && p->version != PACKS_PLAN_VERSION)
        return ft_fail(err, FT_EFORMAT,
                       "byte %d: pack plan version %u, this program reads versions %d and %d; "
                       "build the data set again",
                       H_VERSION, p->version, PACKS_VERSION, PACKS_PLAN_VERSION);
    int hash_at = p->version == PACKS_VERSION ? H_HASH : H_PLAN_HASH;
    if (p->map.bytes < header_bytes(p) || load_u64le(h + hash_at) != hash64(h, (size_t)hash_at))
        return ft_fail(err, FT_EFORMAT, "byte %d: the header is damaged (checksum differs)",
                       hash_at);
    return FT_OK;
}

/* What version 2 has more. */
static ft_status parse_plan(struct packs *p, bool *parts, ft_error *err)
{
    const uint8_t *h = p->map.data;
    uint32_t kind = load_u32le(h + H_KIND);
    p->n_entries = load_u32le(h + H_ENTRIES);
    p->shuffled = load_u32le(h + H_SHUFFLED) != 0;
    p->untrained = load_u64le(h + H_UNTRAINED);
    p->data = (hash128){load_u64le(h + H_DATA), load_u64le(h + H_DATA + 8)};
    p->seed = load_u64le(h + H_SEED);
    *parts = kind == KIND_PARTS;
    if (kind > KIND_PARTS || (kind == KIND_WHOLE && p->n_entries != p->n_samples))
        return ft_fail(err, FT_EFORMAT, "byte %d: entries of kind %u, %u of them for %u samples",
                       H_KIND, kind, p->n_entries, p->n_samples);
    return FT_OK;
}

static ft_status place_arrays(struct packs *p, bool parts, ft_error *err)
{
    uint64_t starts_bytes = ((uint64_t)p->n_bins + 1) * 4, at = header_bytes(p);
    uint64_t entry_bytes = p->n_entries * (uint64_t)(parts ? sizeof *p->parts : 4);
    if (at + starts_bytes + entry_bytes != p->map.bytes)
        return ft_fail(err, FT_EFORMAT, "%zu bytes, but %u bins with %u entries take %llu",
                       p->map.bytes, p->n_bins, p->n_entries,
                       (unsigned long long)(at + starts_bytes + entry_bytes));
    const void *behind = p->map.data + at + starts_bytes;
    p->starts = (const uint32_t *)(const void *)(p->map.data + at);
    p->samples = parts ? NULL : behind;
    p->parts = parts ? behind : NULL;
    return FT_OK;
}

static ft_status parse(struct packs *p, ft_error *err)
{
    const uint8_t *h = p->map.data;
    bool parts = false;
    FT_TRY(parse_version(p, err));
    p->length = load_u32le(h + H_LENGTH);
    p->n_bins = load_u32le(h + H_BINS);
    p->n_samples = p->n_entries = load_u32le(h + H_SAMPLES);
    p->starts_hash = load_u64le(h + H_STARTS_HASH);
    p->entries_hash = load_u64le(h + H_ENTRIES_HASH);
    p->fullest = load_u32le(h + H_FULLEST);
    if (p->fullest > p->length || (p->fullest == 0) != (p->n_bins == 0))
        return ft_fail(err, FT_EFORMAT,
                       "byte %d: a fullest bin of %u tokens among %u bins of at most %u; build the "
                       "data set again",
                       H_FULLEST, p->fullest, p->n_bins, p->length);
    if (p->version == PACKS_PLAN_VERSION)
        FT_TRY(parse_plan(p, &parts, err));
    return place_arrays(p, parts, err);
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

/* --- bins ------------------------------------------------------------------------------------ */

/* The range of bin b; empty when it is impossible. */
static uint32_t bin_range(const struct packs *p, uint32_t b, size_t *n)
{
    FT_ASSERT(b < p->n_bins);
    uint32_t from = p->starts[b], to = p->starts[b + 1];
    *n = from < to && to <= p->n_entries ? to - from : 0;
    return from;
}

const uint32_t *packs_bin(const struct packs *p, uint32_t b, size_t *n)
{
    FT_ASSERT(p->parts == NULL);
    const uint32_t *samples = p->samples + bin_range(p, b, n);
    for (size_t i = 0; i < *n; i++)
        if (samples[i] >= p->n_samples)
            *n = 0;
    return *n == 0 ? NULL : samples;
}

static bool is_possible(const struct packs *p, const struct pack_part *t)
{
    return t->sample < p->n_samples && t->n_tokens > 0 && t->n_tokens <= p->length &&
           t->n_trained < t->n_tokens && t->from <= UINT32_MAX - t->n_tokens;
}

const struct pack_part *packs_bin_parts(const struct packs *p, uint32_t b, size_t *n)
{
    FT_ASSERT(p->parts != NULL);
    const struct pack_part *parts = p->parts + bin_range(p, b, n);
    for (size_t i = 0; i < *n; i++)
        if (!is_possible(p, &parts[i]))
            *n = 0;
    return *n == 0 ? NULL : parts;
}
