/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ids_set.h"

#include "common/mem.h"

ft_status ids_set_create(struct ids_set *s, uint64_t n, ft_error *err)
{
    *s = (struct ids_set){0};
    if (n > SIZE_MAX / 2)
        return ft_fail(err, FT_ELIMIT, "too many samples to compare");
    s->n_slots = (size_t)n + (size_t)n / 4 + 1; /* four fifths full at most */
    return mem_new(&s->slots, s->n_slots, sizeof *s->slots, "the hashes of samples", err);
}

void ids_set_free(struct ids_set *s)
{
    mem_free(s->slots);
    *s = (struct ids_set){0};
}

static bool is_zero(hash128 h)
{
    return h.lo == 0 && h.hi == 0;
}

/* The slot of h, or the free one where it belongs. The high half picks it: the share of the range
 * that it stands at, so that no division is needed. */
static size_t find(const struct ids_set *s, hash128 h)
{
    size_t i = (size_t)((unsigned __int128)h.hi * s->n_slots >> 64);
    while (!is_zero(s->slots[i]) && !hash128_eq(s->slots[i], h))
        i = i + 1 == s->n_slots ? 0 : i + 1;
    return i;
}

bool ids_set_add(struct ids_set *s, hash128 h)
{
    if (is_zero(h)) {
        bool first = !s->has_zero;
        s->has_zero = true;
        return first;
    }
    size_t i = find(s, h);
    if (!is_zero(s->slots[i]))
        return false;
    FT_ASSERT(s->n + 1 < s->n_slots); /* one slot stays free, where searches end */
    s->slots[i] = h;
    s->n++;
    return true;
}

bool ids_set_has(const struct ids_set *s, hash128 h)
{
    return is_zero(h) ? s->has_zero : s->n > 0 && !is_zero(s->slots[find(s, h)]);
}
