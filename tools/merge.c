/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/merge.h"

#include "common/cpu.h"

/* Columns whose sums are held at once: 8 KiB, well inside the first-level cache. */
enum { COLUMNS = 1024 };

/* Written once and inlined into one function per CPU tier. A tier changes how many columns go side
 * by side, not the order of the operations on one, so all give the same bits. */
static inline __attribute__((always_inline)) void merge_part(float *w, const float *a,
                                                             const float *b, int64_t cols,
                                                             int64_t n, const struct merge_pair *p)
{
    double sum[COLUMNS] = {0};
    for (int64_t r = 0; r < p->rank; r++) {
        const float *row = a + r * cols;
        double factor = b[r];
        for (int64_t c = 0; c < n; c++)
            sum[c] += factor * (double)row[c];
    }
    for (int64_t c = 0; c < n; c++)
        w[c] = (float)((double)w[c] + p->scaling * sum[c]);
}

static inline __attribute__((always_inline)) void
merge_all(float *w, int64_t from, int64_t to, int64_t cols, const struct merge_pair *p)
{
    for (int64_t row = from; row < to; row++, w += cols)
        for (int64_t c = 0; c < cols; c += COLUMNS)
            merge_part(w + c, p->a + c, p->b + row * p->rank, cols,
                       FT_MIN(cols - c, (int64_t)COLUMNS), p);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void merge_avx2(float *w, int64_t from, int64_t to,
                                                       int64_t cols, const struct merge_pair *p)
{
    merge_all(w, from, to, cols, p);
}

__attribute__((target("avx512f,avx512vl"))) static void
merge_avx512(float *w, int64_t from, int64_t to, int64_t cols, const struct merge_pair *p)
{
    merge_all(w, from, to, cols, p);
}
#endif

void merge_rows(float *w, int64_t from, int64_t to, int64_t cols, const struct merge_pair *p)
{
#ifdef __x86_64__
    if (cpu_tier() >= CPU_AVX512) {
        merge_avx512(w, from, to, cols, p);
        return;
    }
    if (cpu_tier() >= CPU_AVX2) {
        merge_avx2(w, from, to, cols, p);
        return;
    }
#endif
    merge_all(w, from, to, cols, p);
}
