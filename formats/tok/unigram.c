/* SPDX-License-Identifier: Apache-2.0
 * Places of the text are visited from left to right; from each, all pieces that begin there are
 * offered to the places where they end. The first offer wins a tie. */
#include "formats/tok/unigram.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"

static const uint32_t NONE = UINT32_MAX; /* no way leads here yet */

static const float RESET = 100000.0f; /* as in unigram_begin */

static size_t char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

void unigram_work_free(struct unigram_work *w)
{
    mem_free(w->nodes);
    mem_free(w->exact);
    mem_free(w->ids);
    mem_free(w->starts);
    *w = (struct unigram_work){0};
}

static ft_status grow(void *array, size_t count, size_t size, ft_error *err)
{
    void *old;
    memcpy(&old, array, sizeof old);
    void *p = mem_realloc(old, count, size);
    if (p == NULL)
        return ft_fail_memory(err, count * size, "the ways to cut a text");
    memcpy(array, &p, sizeof p);
    return FT_OK;
}

/* Room for a text of `bytes` and the result. */
static ft_status reserve(struct unigram_work *w, size_t bytes, ft_error *err)
{
    if (bytes < w->cap)
        return FT_OK;
    size_t cap = FT_MAX(bytes + 1, (size_t)256);
    FT_TRY(grow(&w->nodes, cap, sizeof *w->nodes, err));
    FT_TRY(grow(&w->ids, cap, sizeof *w->ids, err));
    FT_TRY(grow(&w->starts, cap, sizeof *w->starts, err));
    w->cap = cap;
    return FT_OK;
}

static ft_status reserve_exact(struct unigram_work *w, size_t bytes, ft_error *err)
{
    FT_TRY(reserve(w, bytes, err));
    if (bytes < w->exact_cap)
        return FT_OK;
    FT_TRY(grow(&w->exact, w->cap, sizeof *w->exact, err));
    w->exact_cap = w->cap;
    return FT_OK;
}

/* The result was found from the end. */
static void reverse(struct unigram_work *w)
{
    for (size_t i = 0, k = w->n; i + 1 < k; i++) {
        k--;
        int32_t id = w->ids[i];
        uint32_t start = w->starts[i];
        w->ids[i] = w->ids[k];
        w->starts[i] = w->starts[k];
        w->ids[k] = id;
        w->starts[k] = start;
    }
}

static void push(struct unigram_work *w, int32_t id, uint32_t start)
{
    w->ids[w->n] = id;
    w->starts[w->n++] = start;
}

/* --- SentencePiece ------------------------------------------------------------------------------
 */

static void offer(struct unigram_node *node, float score, int32_t id, size_t start)
{
    if (node->start == NONE || score > node->score)
        *node = (struct unigram_node){score, id, (uint32_t)start};
}

/* Takes the sum at a place from it and from all places that are reached already. */
static void start_anew(struct unigram_node *nodes, size_t at, size_t frontier)
{
    float sum = nodes[at].score;
    for (size_t i = at; i <= frontier; i++)
        if (i == at || nodes[i].start != NONE)
            nodes[i].score -= sum;
}

/* Offers all pieces that begin at `at`; returns the farthest place that one reached. */
static size_t offer_pieces(const struct unigram *u, struct unigram_node *nodes, str text, size_t at)
{
    const struct spm_trie *t = &u->trie;
    float sum = nodes[at].score;
    size_t first = at + char_bytes((uint8_t)text.ptr[at]), farthest = first;
    bool has_char = false;
    uint32_t node = 0;
    for (size_t i = at; i < text.len;) {
        node = spm_trie_step(t, node, (uint8_t)text.ptr[i]);
        if (node == SPM_TRIE_NONE)
            break;
        i++;
        if (t->nodes[node].value < 0)
            continue;
        offer(&nodes[i], t->nodes[node].score + sum, t->nodes[node].value, at);
        has_char |= i == first;
        farthest = FT_MAX(farthest, i);
    }
    if (!has_char)
        offer(&nodes[first], u->unk_score + sum, u->unk, at);
    return farthest;
}

ft_status unigram_run(const struct unigram *u, struct unigram_work *w, str text, float *sum,
                      ft_error *err)
{
    size_t frontier = 0;
    FT_TRY(reserve(w, text.len, err));
    struct unigram_node *nodes = w->nodes;
    for (size_t i = 0; i <= text.len; i++)
        nodes[i].start = NONE;
    nodes[0].score = *sum;
    for (size_t at = 0; at < text.len; at += char_bytes((uint8_t)text.ptr[at])) {
        if (nodes[at].score < -RESET || nodes[at].score > RESET)
            start_anew(nodes, at, frontier);
        size_t farthest = offer_pieces(u, nodes, text, at);
        frontier = FT_MAX(frontier, farthest);
    }
    *sum = nodes[text.len].score;
    w->n = 0;
    for (size_t end = text.len; end > 0; end = nodes[end].start)
        push(w, nodes[end].id, nodes[end].start);
    reverse(w);
    return FT_OK;
}

/* --- exact arithmetic ---------------------------------------------------------------------------
 */

static void offer_exact(struct unigram_exact_node *node, double score, int32_t id, size_t start)
{
    if (node->start == NONE || score > node->score) {
        node->second = node->start == NONE ? -INFINITY : node->score;
        node->score = score;
        node->id = id;
        node->start = (uint32_t)start;
    } else if (score > node->second) {
        node->second = score;
    }
}

/* Not fmax, which is a call. */
static double higher(double a, double b)
{
    return a > b ? a : b;
}

static void clear_exact(struct unigram_work *w, size_t bytes)
{
    for (size_t i = 0; i <= bytes; i++)
        w->exact[i].start = NONE;
    w->exact[0].score = 0;
}

static void offer_all_exact(const struct unigram *u, struct unigram_exact_node *nodes, str text,
                            size_t at, const double *scores, double unk_score, double *reach)
{
    const struct spm_trie *t = &u->trie;
    size_t first = at + char_bytes((uint8_t)text.ptr[at]);
    bool has_char = false;
    uint32_t node = 0;
    for (size_t i = at; i < text.len;) {
        node = spm_trie_step(t, node, (uint8_t)text.ptr[i]);
        if (node == SPM_TRIE_NONE)
            break;
        i++;
        int32_t id = t->nodes[node].value;
        if (id < 0)
            continue;
        double score =
            (scores == NULL ? (double)t->nodes[node].score : scores[id]) + nodes[at].score;
        offer_exact(&nodes[i], score, id, at);
        *reach = higher(*reach, fabs(score));
        has_char |= i == first;
    }
    if (!has_char) {
        double score = unk_score + nodes[at].score;
        offer_exact(&nodes[first], score, u->unk, at);
        *reach = higher(*reach, fabs(score));
    }
}

ft_status unigram_measure(const struct unigram *u, struct unigram_work *w, str text, float *limit,
                          ft_error *err)
{
    double reach = 0, lead = INFINITY;
    size_t n_chars = 0;
    FT_TRY(reserve_exact(w, text.len, err));
    clear_exact(w, text.len);
    for (size_t at = 0; at < text.len; at += char_bytes((uint8_t)text.ptr[at])) {
        offer_all_exact(u, w->exact, text, at, NULL, (double)u->unk_score, &reach);
        n_chars++;
    }
    w->n = 0;
    for (size_t end = text.len; end > 0; end = w->exact[end].start) {
        const struct unigram_exact_node *node = &w->exact[end];
        lead = fmin(lead, node->score - node->second);
        push(w, node->id, node->start);
    }
    reverse(w);
    /* A sum of absolute value m or less is rounded by at most m * 2^-24 in each of at most n_chars
     * additions, on both of two ways that are compared. 0.98, 1.01 and 1 are for the roundings of
     * this bound itself. */
    double bound = fmin(0.98 * lead * 0x1p23 / (double)n_chars, 0.99 * (double)RESET);
    *limit = (float)(bound - 1.01 * reach - 1);
    return FT_OK;
}

ft_status unigram_run_exact(const struct unigram *u, struct unigram_work *w, str text,
                            ft_error *err)
{
    double reach = 0;
    FT_TRY(reserve_exact(w, text.len, err));
    clear_exact(w, text.len);
    for (size_t at = 0; at < text.len; at += char_bytes((uint8_t)text.ptr[at]))
        offer_all_exact(u, w->exact, text, at, u->exact_scores, u->exact_unk_score, &reach);
    w->n = 0;
    for (size_t end = text.len; end > 0; end = w->exact[end].start)
        push(w, w->exact[end].id, w->exact[end].start);
    reverse(w);
    return FT_OK;
}
