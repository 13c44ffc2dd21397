/* SPDX-License-Identifier: Apache-2.0
 * bench_read DATA: the time to read one sample of a data set whose pages are in memory, in random
 * order (a block is decompressed nearly each time) and in order. */
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/mem.h"
#include "common/rng.h"
#include "formats/dataset.h"

enum { READS = 20000 };

static ft_status read_some(double *seconds, struct dataset_reader *r, const struct split_info *info,
                           bool random, int32_t *tokens, uint8_t *mask, ft_error *err)
{
    double start = clock_seconds();
    for (uint64_t i = 0; i < READS; i++) {
        uint64_t sample =
            random ? rng_permute(1, 2, info->n_samples, i % info->n_samples) : i % info->n_samples;
        FT_TRY(dataset_read(r, SPLIT_TRAIN, sample, tokens, mask, err));
    }
    *seconds = clock_seconds() - start;
    return FT_OK;
}

static ft_status bench(const char *dir, ft_error *err)
{
    struct dataset *d = NULL;
    struct dataset_reader *r = NULL;
    int32_t *tokens = NULL;
    uint8_t *mask = NULL;
    double warm, in_order, random;
    ft_status st;
    FT_GOTO(dataset_open(&d, dir, err));
    const struct split_info *info = dataset_split(d, SPLIT_TRAIN);
    FT_GOTO(dataset_reader_create(&r, d, err));
    FT_GOTO(mem_new(&tokens, info->longest, sizeof *tokens, "a sample", err));
    FT_GOTO(mem_new(&mask, info->longest, sizeof *mask, "a sample", err));
    FT_GOTO(read_some(&warm, r, info, false, tokens, mask, err));
    FT_GOTO(read_some(&in_order, r, info, false, tokens, mask, err));
    FT_GOTO(read_some(&random, r, info, true, tokens, mask, err));
    printf("{\"bench\": \"read\", \"samples\": %llu, \"in_order_us\": %.2f, \"random_us\": %.2f}\n",
           (unsigned long long)info->n_samples, in_order / READS * 1e6, random / READS * 1e6);
out:
    dataset_reader_destroy(r);
    dataset_close(d);
    mem_free(tokens);
    mem_free(mask);
    return st;
}

int main(int argc, char **argv)
{
    ft_error err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: bench_read DATA\n");
        return 2;
    }
    if (bench(argv[1], &err) != FT_OK)
        fprintf(stderr, "bench_read: %s\n", err.text);
    return ft_exit_code(err.status);
}
