/* SPDX-License-Identifier: Apache-2.0
 * Pack plans: whole samples into training sequences of a fixed capacity, from the lengths alone. */
#ifndef TOOLS_PACK_H
#define TOOLS_PACK_H

#include "formats/packs.h"

/* Best-fit decreasing: from the longest sample to the shortest, ties by index, each into the
 * fullest bin that still holds it. O(n + capacity) but for the search for that bin, which looks at
 * one word per 64 capacities at worst. A pure function of (lengths, capacity). Bins are in order of
 * their longest sample, samples in a bin in index order. Asserts 1 <= lengths[i] <= capacity and n
 * <= UINT32_MAX. Release with pack_free. */
FT_NODISCARD ft_status pack_plan(struct packs *out, const uint32_t *lengths, size_t n,
                                 uint32_t capacity, ft_error *err);
void pack_free(struct packs *p); /* of pack_plan only; zeroed is fine */

#endif
