/* SPDX-License-Identifier: Apache-2.0
 * Figures of a data set from its index: lengths, sources, and the padding of each way to make
 * batches. */
#ifndef TOOLS_STATS_H
#define TOOLS_STATS_H

#include "common/plot.h"
#include "formats/dataset.h"

enum { STATS_BARS = 24, STATS_PERCENTS = 7 };
extern const int stats_percents[STATS_PERCENTS];

struct source_sum {
    uint64_t n_samples, n_tokens, n_trained;
};

/* A pack plan: the data set's own (without a name), or one made by ftprep pack. */
struct plan_sum {
    const char *name; /* NULL = own */
    uint32_t n_bins, length;
    double waste;
};

/* waste = share of the positions of a batch that hold padding. */
struct split_stats {
    const struct split_info *info;
    uint32_t shortest;
    uint32_t percentiles[STATS_PERCENTS];
    struct plot_bar bars[STATS_BARS];
    size_t n_bars;
    double waste_random, waste_grouped;
    struct plan_sum *plans; /* [n_plans], own one first */
    size_t n_plans;
    struct source_sum *sources; /* one per source of the manifest */
    struct arena arena;
};

/* Batches of `batch` samples. dir is where d was opened; plans beside the data set that do not fit
 * it are left out. A split without samples has its sources only. */
FT_NODISCARD ft_status stats_gather(struct split_stats *s, const struct dataset *d, const char *dir,
                                    enum dataset_split split, uint64_t batch, ft_error *err);
void stats_free(struct split_stats *s); /* zeroed is fine */

#endif
