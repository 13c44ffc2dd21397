/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/pack.h"

#include <math.h>
#include <stdlib.h>

#include "common/rng.h"
#include "tests/support/check.h"

/* Every sample once, no bin above the capacity, samples of a bin ascending. Returns the fill. */
static double check_plan(const struct packs *p, const uint32_t *lengths, size_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    uint64_t tokens = 0, fullest = 0;
    assert_non_null(seen);
    assert_int_equal(p->n_samples, n);
    assert_int_equal(p->starts[0], 0);
    assert_int_equal(p->starts[p->n_bins], n);
    for (uint32_t b = 0; b < p->n_bins; b++) {
        uint64_t sum = 0;
        assert_true(p->starts[b] < p->starts[b + 1]);
        for (uint32_t i = p->starts[b]; i < p->starts[b + 1]; i++) {
            uint32_t sample = p->samples[i];
            assert_true(sample < n && !seen[sample]);
            assert_true(i == p->starts[b] || p->samples[i - 1] < sample);
            seen[sample] = 1;
            sum += lengths[sample];
        }
        assert_true(sum <= p->length);
        tokens += sum;
        fullest = FT_MAX(fullest, sum);
    }
    assert_int_equal(p->fullest, fullest);
    free(seen);
    return p->n_bins == 0 ? 1 : (double)tokens / ((double)p->n_bins * p->length);
}

/* A direct O(n * bins) best-fit decreasing. */
static uint32_t slow_bins(const uint32_t *lengths, size_t n, uint32_t capacity)
{
    uint32_t n_bins = 0, *room = calloc(n + 1, sizeof *room);
    assert_non_null(room);
    for (uint32_t length = capacity; length > 0; length--)
        for (size_t i = 0; i < n; i++) {
            if (lengths[i] != length)
                continue;
            uint32_t best = UINT32_MAX, at = n_bins;
            for (uint32_t b = 0; b < n_bins; b++)
                if (room[b] >= length && room[b] < best) {
                    best = room[b];
                    at = b;
                }
            if (at == n_bins)
                room[n_bins++] = capacity;
            room[at] -= length;
        }
    free(room);
    return n_bins;
}

static void plan_equals_a_direct_best_fit(void **state)
{
    uint32_t lengths[300];
    ft_error err;
    (void)state;
    for (uint64_t turn = 0; turn < 200; turn++) {
        size_t n = rng_u64(turn, 0, 0) % ARRAY_LEN(lengths);
        uint32_t capacity = 1 + (uint32_t)(rng_u64(turn, 0, 1) % 700);
        uint32_t longest = 1 + (uint32_t)(rng_u64(turn, 0, 2) % capacity);
        struct packs p;
        for (size_t i = 0; i < n; i++)
            lengths[i] = 1 + (uint32_t)(rng_u64(turn, 1, i) % longest);
        ASSERT_OK(pack_plan(&p, lengths, n, capacity, &err));
        check_plan(&p, lengths, n);
        assert_int_equal(p.n_bins, slow_bins(lengths, n, capacity));
        pack_free(&p);
    }
}

/* Log-normal lengths as chat data has them: median about 250, a long tail, cut at the capacity. */
static void realistic_lengths_fill_their_bins(void **state)
{
    enum { N = 100000 };
    static uint32_t lengths[N];
    const uint32_t capacities[] = {1024, 2048, 4096, 8192};
    ft_error err;
    (void)state;
    for (size_t c = 0; c < ARRAY_LEN(capacities); c++) {
        struct packs p;
        for (size_t i = 0; i < N; i++) {
            double u = rng_unit(9, 0, 2 * i) + 1e-12, v = rng_unit(9, 0, 2 * i + 1);
            double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
            double length = fmin(exp(5.5 + 0.9 * normal), capacities[c]);
            lengths[i] = (uint32_t)fmax(length, 8);
        }
        ASSERT_OK(pack_plan(&p, lengths, N, capacities[c], &err));
        double fill = check_plan(&p, lengths, N);
        if (fill < 0.995)
            fail_msg("capacity %u: %.4f full", capacities[c], fill);
        pack_free(&p);
    }
}

static void edges(void **state)
{
    const uint32_t full[] = {7, 7, 7}, ones[] = {1, 1, 1, 1, 1, 1, 1, 1}, one[] = {1 << 24};
    struct packs p;
    ft_error err;
    (void)state;
    ASSERT_OK(pack_plan(&p, NULL, 0, 100, &err));
    assert_int_equal(p.n_bins, 0);
    pack_free(&p);
    ASSERT_OK(pack_plan(&p, full, 3, 7, &err));
    assert_int_equal(p.n_bins, 3);
    check_plan(&p, full, 3);
    pack_free(&p);
    ASSERT_OK(pack_plan(&p, ones, 8, 1, &err));
    assert_int_equal(p.n_bins, 8);
    pack_free(&p);
    ASSERT_OK(pack_plan(&p, one, 1, 1 << 24, &err));
    assert_int_equal(p.n_bins, 1);
    pack_free(&p);
}

static void plan_survives_the_file(void **state)
{
    const uint32_t lengths[] = {5, 3, 8, 2, 2, 6};
    struct packs made, read;
    ft_error err;
    size_t n;
    (void)state;
    ASSERT_OK(pack_plan(&made, lengths, 6, 10, &err));
    ASSERT_OK(packs_write(test_path("plan.packs"), &made, &err));
    ASSERT_OK(packs_open(&read, test_path("plan.packs"), &err));
    assert_int_equal(check_plan(&read, lengths, 6) * 1000, check_plan(&made, lengths, 6) * 1000);
    for (uint32_t b = 0; b < read.n_bins; b++) {
        const uint32_t *bin = packs_bin(&read, b, &n);
        assert_int_equal(n, made.starts[b + 1] - made.starts[b]);
        assert_memory_equal(bin, made.samples + made.starts[b], n * 4);
    }
    packs_close(&read);
    made.fullest = 11;
    ASSERT_OK(packs_write(test_path("plan.packs"), &made, &err));
    ASSERT_FAILS(packs_open(&read, test_path("plan.packs"), &err), FT_EFORMAT, "fullest bin of 11");
    pack_free(&made);
}

/* A plan shuffled by another seed has other samples in bins of the same lengths. */
static void shuffling_changes_company_and_not_the_fill(void **state)
{
    enum { N = 5000, CAPACITY = 256 };
    static uint32_t lengths[N];
    struct packs p[3], again;
    ft_error err;
    (void)state;
    for (size_t i = 0; i < N; i++)
        lengths[i] = 1 + (uint32_t)(rng_u64(3, 0, i) % 100);
    ASSERT_OK(pack_plan(&p[0], lengths, N, CAPACITY, &err));
    ASSERT_OK(pack_plan_shuffled(&p[1], lengths, N, CAPACITY, 1, &err));
    ASSERT_OK(pack_plan_shuffled(&p[2], lengths, N, CAPACITY, 2, &err));
    ASSERT_OK(pack_plan_shuffled(&again, lengths, N, CAPACITY, 2, &err));
    assert_memory_equal(again.samples, p[2].samples, N * sizeof *again.samples);
    for (int k = 0; k < 3; k++) {
        check_plan(&p[k], lengths, N);
        assert_int_equal(p[k].n_bins, p[0].n_bins);
        if (k > 0)
            assert_memory_not_equal(p[k].samples, p[k - 1].samples, N * sizeof *again.samples);
    }
    for (int k = 0; k < 3; k++)
        pack_free(&p[k]);
    pack_free(&again);
}

/* Parts in the order of the bins are the samples one after the other; every bin but the last is
 * full. */
static void check_chopped(const struct packs *p, const uint32_t *lengths, size_t n)
{
    uint8_t *seen = calloc(n + 1, 1);
    uint32_t at = 0;
    assert_non_null(seen);
    assert_int_equal(p->starts[p->n_bins], p->n_entries);
    for (uint32_t b = 0; b < p->n_bins; b++) {
        uint32_t sum = 0;
        for (uint32_t i = p->starts[b]; i < p->starts[b + 1]; i++) {
            const struct pack_part *t = &p->parts[i];
            assert_true(t->sample < n && t->n_tokens > 0);
            assert_int_equal(t->from, at);
            assert_int_equal(seen[t->sample], at > 0 && t->sample == p->parts[i - 1].sample);
            sum += t->n_tokens;
            at = t->from + t->n_tokens == lengths[t->sample] ? 0 : at + t->n_tokens;
            seen[t->sample] = 1;
        }
        assert_true(b + 1 == p->n_bins ? sum <= p->length : sum == p->length);
        assert_true(sum <= p->fullest);
    }
    assert_int_equal(at, 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
}

static void chopping_loses_no_token(void **state)
{
    uint32_t lengths[200];
    ft_error err;
    (void)state;
    for (uint64_t turn = 0; turn < 300; turn++) {
        size_t n = rng_u64(turn, 7, 0) % ARRAY_LEN(lengths);
        uint32_t capacity = 1 + (uint32_t)(rng_u64(turn, 7, 1) % 64);
        struct packs p;
        for (size_t i = 0; i < n; i++)
            lengths[i] = 1 + (uint32_t)(rng_u64(turn, 8, i) % 150);
        ASSERT_OK(pack_chop(&p, lengths, n, capacity, turn % 2 == 0 ? NULL : &turn, &err));
        check_chopped(&p, lengths, n);
        pack_free(&p);
    }
}

static void bins_without_a_target_are_left_out_and_counted(void **state)
{
    const uint32_t lengths[] = {4, 4, 4, 3};
    struct packs p;
    ft_error err;
    (void)state;
    ASSERT_OK(pack_chop(&p, lengths, 4, 4, NULL, &err));
    struct pack_part *parts = (struct pack_part *)(uintptr_t)p.parts;
    parts[1].n_trained = parts[3].n_trained = 2;
    pack_drop_untrained(&p);
    assert_int_equal(p.n_bins, 2);
    assert_int_equal(p.n_entries, 2);
    assert_int_equal(p.untrained, 8);
    assert_int_equal(p.fullest, 4);
    assert_int_equal(p.parts[0].sample, 1);
    assert_int_equal(p.parts[1].sample, 3);
    assert_int_equal(p.starts[2], 2);
    pack_free(&p);
}

static void parts_survive_the_file(void **state)
{
    const uint32_t lengths[] = {5, 3, 8, 2, 2, 6};
    const uint64_t seed = 77;
    struct packs made, read;
    ft_error err;
    size_t n;
    (void)state;
    ASSERT_OK(pack_chop(&made, lengths, 6, 10, &seed, &err));
    made.data = (hash128){1, 2};
    made.untrained = 9;
    ASSERT_OK(packs_write(test_path("parts.packs"), &made, &err));
    ASSERT_OK(packs_open(&read, test_path("parts.packs"), &err));
    assert_true(hash128_eq(read.data, made.data) && read.shuffled && read.seed == 77);
    assert_int_equal(read.untrained, 9);
    check_chopped(&read, lengths, 6);
    for (uint32_t b = 0; b < read.n_bins; b++)
        assert_non_null(packs_bin_parts(&read, b, &n));
    packs_close(&read);
    ((struct pack_part *)(uintptr_t)made.parts)[1].n_tokens = 11; /* more than a bin holds */
    ASSERT_OK(packs_write(test_path("parts.packs"), &made, &err));
    ASSERT_OK(packs_open(&read, test_path("parts.packs"), &err));
    assert_null(packs_bin_parts(&read, 0, &n));
    assert_int_equal(n, 0);
    packs_close(&read);
    pack_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_equals_a_direct_best_fit),
        cmocka_unit_test(realistic_lengths_fill_their_bins),
        cmocka_unit_test(edges),
        cmocka_unit_test(plan_survives_the_file),
        cmocka_unit_test(shuffling_changes_company_and_not_the_fill),
        cmocka_unit_test(chopping_loses_no_token),
        cmocka_unit_test(bins_without_a_target_are_left_out_and_counted),
        cmocka_unit_test(parts_survive_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
