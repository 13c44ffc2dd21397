/* SPDX-License-Identifier: Apache-2.0
 * Pack plans: whole samples into training sequences of a fixed capacity, from the lengths alone. */
#ifndef TOOLS_PACK_H
#define TOOLS_PACK_H

#include "formats/dataset.h"
#include "formats/packs.h"

/* Best-fit decreasing: from the longest sample to the shortest, ties by index, each into the
 * fullest bin that still holds it. O(n + capacity) but for the search for that bin, which looks at
 * one word per 64 capacities at worst. A pure function of (lengths, capacity). Bins are in order of
 * their longest sample, samples in a bin in index order. Asserts 1 <= lengths[i] <= capacity and n
 * <= UINT32_MAX. Release with pack_free. */
FT_NODISCARD ft_status pack_plan(struct packs *out, const uint32_t *lengths, size_t n,
                                 uint32_t capacity, ft_error *err);
/* The same with ties in a shuffled order: other samples meet, in bins of the same lengths. */
FT_NODISCARD ft_status pack_plan_shuffled(struct packs *out, const uint32_t *lengths, size_t n,
                                          uint32_t capacity, uint64_t seed, ft_error *err);
/* Concatenates the samples, in index order or shuffled by *seed, and chops the row into bins of
 * `capacity`; the last one holds what is left. The trained tokens of parts are not counted yet.
 * Asserts 1 <= lengths[i]. */
FT_NODISCARD ft_status pack_chop(struct packs *out, const uint32_t *lengths, size_t n,
                                 uint32_t capacity, const uint64_t *seed, ft_error *err);
/* Fills in the trained tokens of each part; reads the samples that are cut, in storage order. */
FT_NODISCARD ft_status pack_count_trained(struct packs *p, const struct dataset *d, ft_error *err);
/* Removes bins without a trained token, and counts their tokens in `untrained`. */
void pack_drop_untrained(struct packs *p);
void pack_free(struct packs *p); /* of the functions above only; zeroed is fine */

#endif
