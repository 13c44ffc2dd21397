/* SPDX-License-Identifier: Apache-2.0
 * The merge core of BPE: a sequence of symbols is reduced by the merge of lowest rank, leftmost
 * first, until none applies. */
#ifndef FORMATS_TOK_BPE_H
#define FORMATS_TOK_BPE_H

#include "common/error.h"

/* Lower ranks first. Ranks of a merge list are its order; those made from scores may be equal, and
 * then the leftmost pair goes first. */
struct bpe_merge {
    int32_t left, right, result;
    uint32_t rank;
};

struct bpe_slot {
    uint64_t pair; /* left << 32 | right; BPE_NO_PAIR = empty */
    uint32_t rank;
    int32_t result;
};

enum { BPE_LOW_LOG2 = 8, BPE_LOW = 1 << BPE_LOW_LOG2 };

/* Every piece starts from symbols of low ids, so most lookups end here. */
struct bpe_low {
    uint32_t not_rank; /* ~rank, so that zeroed means no merge */
    int32_t result;
};

struct bpe {
    struct bpe_merge *merges; /* [n_merges], by ascending rank; owned by the caller */
    size_t n_merges;
    struct bpe_slot *slots; /* open addressing, power of two, at most half full */
    unsigned shift;         /* 64 - log2 of the slot count */
    uint64_t *filter;       /* a bit of every pair's hash: most pairs merge to nothing, which need
                               not touch the slots */
    unsigned filter_shift;  /* 64 - log2 of its bits */
    struct bpe_low *low;    /* the pairs of ids below BPE_LOW again, in a grid */
};

/* Builds the pair table over merges (ids >= 0, ranks below 2^32 - 1). When a pair occurs twice the
 * later one counts, as in Hugging Face tokenizers: the earlier is removed from the list. */
FT_NODISCARD ft_status bpe_init(struct bpe *b, struct bpe_merge *merges, size_t n_merges,
                                ft_error *err);
void bpe_destroy(struct bpe *b);

/* Symbols of one piece of text and the memory for merging them. Zeroed = empty; reusable. */
struct bpe_work {
    int32_t *ids;     /* [n] */
    uint32_t *starts; /* [n]: byte offset at which each symbol starts */
    size_t n, cap;
    uint32_t *links; /* neighbours of long pieces */
    uint64_t *heap;
    size_t long_cap;
};
FT_NODISCARD ft_status bpe_work_reserve(struct bpe_work *w, size_t n, ft_error *err);
void bpe_work_free(struct bpe_work *w);
/* Merges the symbols in place. O(n log n). */
FT_NODISCARD ft_status bpe_merge(const struct bpe *b, struct bpe_work *w, ft_error *err);
/* Merges the symbols [from, from + *n) alone; *n becomes how many of them are left, from `from` on.
 * w->n is not used. */
FT_NODISCARD ft_status bpe_merge_range(const struct bpe *b, struct bpe_work *w, size_t from,
                                       size_t *n, ft_error *err);

#endif
