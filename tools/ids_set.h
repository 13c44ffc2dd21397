/* SPDX-License-Identifier: Apache-2.0
 * Which samples were seen already: a set of their 128-bit hashes of fixed size, 20 bytes a sample.
 */
#ifndef TOOLS_IDS_SET_H
#define TOOLS_IDS_SET_H

#include "common/hash.h"

struct ids_set {
    hash128 *slots; /* open addressing; zero = free */
    size_t n_slots, n;
    bool has_zero;
};

/* For at most n hashes. */
FT_NODISCARD ft_status ids_set_create(struct ids_set *s, uint64_t n, ft_error *err);
void ids_set_free(struct ids_set *s); /* zeroed is fine */
/* False when it was there already. Asserts that no more than n are added. */
bool ids_set_add(struct ids_set *s, hash128 h);
bool ids_set_has(const struct ids_set *s, hash128 h);

#endif
