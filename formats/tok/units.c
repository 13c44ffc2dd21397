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

static uint64_t line_feeds(const uint8_t block[CLASSIFY_BLOCK])
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < CLASSIFY_BLOCK; i++)
        mask |= (uint64_t)(block[i] == '\n') << i;
    return mask;
}

/* carry.set: places in the block that directly follow a mark of the last one; carry.clear: whether
 * its last byte is a line feed. */
static inline __attribute__((always_inline)) size_t
scan_block(struct pretok_scan *s, uint32_t *ends, bool runs, bool lines)
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
    if (lines) {
        uint64_t feeds = (m.space & ~m.blank) == 0 ? 0 : line_feeds(p);
        starts |= feeds | feeds << 1 | s->carry.clear;
        s->carry.clear = feeds >> 63;
        starts &= n_bytes < CLASSIFY_BLOCK ? ((uint64_t)1 << n_bytes) - 1 : ~(uint64_t)0;
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
    return scan_block(scan, ends, true, false);
}

size_t units_before_runs_and_lines(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, true, true);
}

size_t units_before_marks(struct pretok_scan *scan, uint32_t ends[PRETOK_BATCH])
{
    return scan_block(scan, ends, false, false);
}
