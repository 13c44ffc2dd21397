/* SPDX-License-Identifier: Apache-2.0
 * All pieces that are a prefix of a text, in one walk: a double array made from a list of strings.
 * From node n, byte c leads to place n.base ^ c if that names n as its parent. */
#ifndef FORMATS_TOK_SPM_TRIE_H
#define FORMATS_TOK_SPM_TRIE_H

#include "common/arena.h"
#include "common/error.h"

struct spm_trie_key {
    str text; /* not empty */
    int32_t value;
    float score; /* carried along for the caller */
};

struct spm_trie_node {
    uint32_t base, parent;
    int32_t value; /* of the string that ends here, -1 = none does */
    float score;
};

struct spm_trie {
    struct spm_trie_node *nodes; /* whole blocks of 256; [0] is the root */
    size_t n_nodes;
};

enum { SPM_TRIE_NONE = 0 }; /* no node: the root is nobody's child */

/* Keys are sorted by text, in place; equal ones are not allowed. No keys give a trie that matches
 * nothing. The nodes are in the arena. */
FT_NODISCARD ft_status spm_trie_init(struct spm_trie *t, struct arena *a, struct spm_trie_key *keys,
                                     size_t n, ft_error *err);

/* Where byte c leads from a node, or SPM_TRIE_NONE. */
static inline uint32_t spm_trie_step(const struct spm_trie *t, uint32_t node, uint8_t c)
{
    uint32_t next = t->nodes[node].base ^ c;
    return t->nodes[next].parent == node ? next : SPM_TRIE_NONE;
}

/* Bytes of the longest string that is a prefix of text, 0 when none is. */
size_t spm_trie_longest(int32_t *value, const struct spm_trie *t, str text);
/* The value of exactly this string, -1 when it is not one of them. */
int32_t spm_trie_find(const struct spm_trie *t, str text);

#endif
