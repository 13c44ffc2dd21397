/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tok/units.h"

#include <string.h>

/* First bytes of the marks U+2581 in the block. */
static uint64_t wide_marks(const struct pretok_scan *s, size_t n)
{
    const uint8_t *block = s->text + s->at, *p = block;
    uint64_t marks = 0;
    while ((p = memchr(p, 0xE2, n - (size_t)(p - block))) != NULL) {
        size_t i = (size_t)(p - block);
        if (unit_is_mark(s->text, s->at + i, s->to))
            marks |= (uint64_t)1 << i;
        if (++i == n)
            break;
        p = block + i;
    }
    return marks;
}

/* carry.set: places in the block that directly follow a mark of the last one. */
static inline __attribute__((always_inline)) size_t scan_block(struct pretok_scan *s,
                                                               uint32_t *ends, bool runs)
{
    uint8_t padded[CLASSIFY_BLOCK] = {0};
    struct classify_masks m;
    size_t n_bytes = FT_MIN(s->to - s->at, (size_t)CLASSIFY_BLOCK), n = 0;
    const uint8_t *p = s->text + s->at;
    if (n_bytes < CLASSIFY_BLOCK)
        p = memcpy(padded, p, n_bytes);
    s->classify(&m, p);
    uint64_t wide = m.wide == 0 ? 0 : wide_marks(s, n_bytes), starts = m.blank | wide;
    if (runs) {
        uint64_t behind = m.blank << 1 | wide << 3 | s->carry.set;
        s->carry.set = m.blank >> 63 | wide >> 61;
        starts &= ~behind;
    }
    if (s->carry.classes == 0) /* the piece itself starts here */
        starts &= ~(uint64_t)1;
    s->carry.classes = 1;
    for (; starts != 0; starts &= starts - 1)
        ends[n++] = (uint32_t)(s->at + (unsigned)__builtin_ctzll(starts));
    s->at += n_bytes;
    if (s->at == s->to)
        ends[n++] = (uint32_t)s->to;
    return n;
}

size_t units_before_runs(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, true);
}

size_t units_before_marks(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, false);
}
