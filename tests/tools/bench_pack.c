/* SPDX-License-Identifier: Apache-2.0
 * Packing speed and fill: bench_pack [SAMPLES]. One JSON line per length distribution and capacity.
 */
#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/rng.h"
#include "tests/support/check.h"
#include "tools/pack.h"

/* Log-normal, as chat data is: median m, shape s; cut at the capacity. */
static void fill(uint32_t *lengths, size_t n, double median, double shape, uint32_t capacity)
{
    for (size_t i = 0; i < n; i++) {
        double u = rng_unit(1, 0, 2 * i) + 1e-12, v = rng_unit(1, 0, 2 * i + 1);
        double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        lengths[i] = (uint32_t)fmax(8, fmin(median * exp(shape * normal), capacity));
    }
}

static void bench(uint32_t *lengths, size_t n, const char *name, uint32_t capacity)
{
    struct packs p;
    ft_error err;
    double start = clock_seconds(), tokens = 0;
    if (pack_plan(&p, lengths, n, capacity, &err) != FT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    double seconds = clock_seconds() - start;
    for (size_t i = 0; i < n; i++)
        tokens += lengths[i];
    printf("{\"bench\": \"pack\", \"lengths\": \"%s\", \"samples\": %zu, \"capacity\": %u, "
           "\"seconds\": %.3f, \"samples_per_s\": %.0f, \"fill\": %.5f, \"peak_mib\": %.0f}\n",
           name, n, capacity, seconds, (double)n / seconds, tokens / ((double)p.n_bins * p.length),
           (double)mem_peak_rss() / 1048576);
    pack_free(&p);
}

int main(int argc, char **argv)
{
    int64_t n = 5000000;
    if (argc > 1 && (!str_to_i64(str_from(argv[1]), &n) || n < 1)) {
        fprintf(stderr, "usage: bench_pack [SAMPLES]\n");
        return 2;
    }
    uint32_t *lengths = malloc((size_t)n * sizeof *lengths);
    FT_ASSERT(lengths != NULL);
    for (uint32_t capacity = 2048; capacity <= 8192; capacity *= 2) {
        fill(lengths, (size_t)n, 250, 0.9, capacity);
        bench(lengths, (size_t)n, "chat, median 250", capacity);
        fill(lengths, (size_t)n, 700, 1.0, capacity);
        bench(lengths, (size_t)n, "long, median 700", capacity);
    }
    free(lengths);
    return 0;
}
