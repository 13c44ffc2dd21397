/* SPDX-License-Identifier: Apache-2.0
 * Candidates leave a binary heap in order of probability, so that top_k and top_p cost a pass over
 * the vocabulary and a few pops instead of a sort. */
#include "trainer/sampler.h"

#include <math.h>

#include "common/mem.h"
#include "common/rng.h"

ft_status sampler_open(struct sampler *out, const struct sampler_options *o, int64_t n_vocab,
                       ft_error *err)
{
    *out = (struct sampler){.o = *o, .n_vocab = n_vocab};
    FT_TRY(mem_new(&out->weights, (size_t)n_vocab, sizeof *out->weights, "sampling", err));
    return mem_new(&out->heap, (size_t)n_vocab, sizeof *out->heap, "sampling", err);
}

void sampler_close(struct sampler *s)
{
    mem_free(s->weights);
    mem_free(s->heap);
    *s = (struct sampler){0};
}

static int32_t most_likely(const float *logits, int64_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static bool before(const struct sampler *s, int32_t a, int32_t b)
{
    return s->weights[a] > s->weights[b] || (s->weights[a] == s->weights[b] && a < b);
}

static void sift_down(struct sampler *s, int64_t at, int64_t n)
{
    int32_t moving = s->heap[at];
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && before(s, s->heap[child + 1], s->heap[child]))
            child++;
        if (!before(s, s->heap[child], moving))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = moving;
}

/* Moves the first n_wanted candidates in order to the end of the heap array: the i-th lies at
 * heap[n_vocab - 1 - i]. Stops early when they hold `enough` weight; returns how many there are. */
static int64_t take_candidates(struct sampler *s, int64_t n_wanted, double enough)
{
    int64_t n = s->n_vocab, taken = 0;
    double sum = 0;
    while (taken < n_wanted && sum < enough) {
        int32_t top = s->heap[0];
        s->heap[0] = s->heap[--n];
        sift_down(s, 0, n);
        s->heap[n] = top;
        sum += s->weights[top];
        taken++;
    }
    return taken;
}

static double sum_candidates(const struct sampler *s, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->weights[s->heap[s->n_vocab - 1 - i]];
    return sum;
}

/* How many tokens remain after top_k and top_p; they lie as take_candidates leaves them. */
static int64_t cut(struct sampler *s, double total)
{
    bool all_ranks = s->o.top_k == 0 || s->o.top_k >= s->n_vocab;
    for (int32_t i = 0; i < s->n_vocab; i++)
        s->heap[i] = i;
    if (all_ranks && s->o.top_p >= 1)
        return s->n_vocab; /* the order does not matter then */
    for (int64_t i = s->n_vocab / 2 - 1; i >= 0; i--)
        sift_down(s, i, s->n_vocab);
    if (all_ranks)
        return take_candidates(s, s->n_vocab, s->o.top_p * total);
    int64_t n = take_candidates(s, s->o.top_k, INFINITY);
    double enough = s->o.top_p * sum_candidates(s, n), sum = 0;
    for (int64_t i = 0; i < n && s->o.top_p < 1; i++) {
        sum += s->weights[s->heap[s->n_vocab - 1 - i]];
        if (sum >= enough)
            return i + 1;
    }
    return n;
}

int32_t sampler_pick(struct sampler *s, const float *logits, uint64_t text, uint64_t position)
{
    int32_t best = most_likely(logits, s->n_vocab);
    if (s->o.temperature == 0)
        return best;
    double total = 0;
    for (int64_t i = 0; i < s->n_vocab; i++) {
        s->weights[i] = exp(((double)logits[i] - (double)logits[best]) / s->o.temperature);
        total += s->weights[i];
    }
    int64_t n = cut(s, total);
    double left = rng_unit(s->o.seed, text, position) * sum_candidates(s, n);
    for (int64_t i = 0; i < n; i++) {
        int32_t id = s->heap[s->n_vocab - 1 - i];
        left -= s->weights[id];
        if (left < 0)
            return id;
    }
    return best; /* rounding left a rest behind the last candidate */
}
