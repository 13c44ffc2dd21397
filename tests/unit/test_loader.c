/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/loader.h"

#include <math.h>
#include <stdlib.h>

#include "common/file.h"
#include "tests/support/check.h"
#include "tests/support/make_dataset.h"
#include "tools/pack.h"

enum { N_TRAIN = 997, N_EVAL = 41, LONGEST_AT = 613 };

static uint32_t lengths[N_TRAIN + N_EVAL];
static struct made made;
static struct dataset *data;

static int open_data(void **state)
{
    static char dir[256]; /* test_path keeps four names */
    ft_error err;
    snprintf(dir, sizeof dir, "%s", test_path("loader-data"));
    (void)state;
    for (uint32_t i = 0; i < N_TRAIN + N_EVAL; i++)
        lengths[i] = 2 + i * 2654435761u % 47;
    lengths[LONGEST_AT] = 64;
    made = (struct made){.dir = dir,
                         .vocab = 1000,
                         .max_length = 64,
                         .lengths = lengths,
                         .n_train = N_TRAIN,
                         .n_eval = N_EVAL};
    ASSERT_OK(dir_remove(made.dir, &err));
    make_dataset(&made);
    ASSERT_OK(dataset_open(&data, made.dir, &err));
    return 0;
}

static int close_data(void **state)
{
    (void)state;
    dataset_close(data);
    return 0;
}

static struct loader *make(enum batch_mode mode, int64_t micro, int64_t accumulate, uint64_t seed)
{
    const struct loader_options o = {mode, micro, accumulate, seed};
    struct loader *l;
    ft_error err;
    ASSERT_OK(loader_create(&l, data, &o, &err));
    return l;
}

static struct loader_shape measure(enum batch_mode mode, int64_t micro, int64_t accumulate)
{
    const struct loader_options o = {mode, micro, accumulate, 1};
    struct loader_shape shape;
    ft_error err;
    ASSERT_OK(loader_measure(&shape, data, &o, &err));
    return shape;
}

static struct step_batch seek(struct loader *l, int64_t step)
{
    struct step_batch b;
    ft_error err;
    ASSERT_OK(loader_seek(&b, l, step, &err));
    return b;
}

static const enum batch_mode modes[] = {BATCH_PACKED, BATCH_GROUPED, BATCH_SEQUENTIAL};

static void an_epoch_holds_every_sample_once(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
        struct loader_shape shape = measure(modes[k], 3, 4);
        struct loader *l = make(modes[k], 3, 4, 1);
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            int seen[N_TRAIN] = {0};
            for (int64_t s = 0; s < shape.steps_per_epoch; s++) {
                struct step_batch b = seek(l, epoch * shape.steps_per_epoch + s);
                assert_int_equal(b.epoch, epoch);
                for (int64_t i = 0; i < b.n_samples; i++)
                    seen[b.samples[i]]++;
            }
            for (int i = 0; i < N_TRAIN; i++)
                assert_int_equal(seen[i], 1);
        }
        loader_destroy(l);
    }
}

/* The order is a function of (seed, step): what was asked before plays no part. */
static void a_step_does_not_depend_on_the_ones_before(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
        struct loader *walking = make(modes[k], 2, 3, 7);
        int64_t steps = 2 * measure(modes[k], 2, 3).steps_per_epoch;
        for (int64_t s = 0; s < steps; s++) {
            struct step_batch a = seek(walking, s);
            struct loader *fresh = make(modes[k], 2, 3, 7);
            struct step_batch b = seek(fresh, s);
            assert_int_equal(a.n_samples, b.n_samples);
            assert_int_equal(a.n_trained, b.n_trained);
            assert_memory_equal(a.samples, b.samples, (size_t)a.n_samples * sizeof *a.samples);
            assert_memory_equal(a.micro_starts, b.micro_starts,
                                (size_t)(a.n_micro + 1) * sizeof *a.micro_starts);
            loader_destroy(fresh);
        }
        loader_destroy(walking);
    }
}

static bool same_first_steps(struct loader *a, int64_t step_a, struct loader *b, int64_t step_b)
{
    bool same = true;
    for (int64_t i = 0; i < 4; i++) {
        struct step_batch x = seek(a, step_a + i), y = seek(b, step_b + i);
        same = same && x.n_samples == y.n_samples &&
               memcmp(x.samples, y.samples, (size_t)x.n_samples * sizeof *x.samples) == 0;
    }
    return same;
}

static void seeds_and_epochs_shuffle_differently_except_in_sequential_mode(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
        struct loader *a = make(modes[k], 1, 8, 1), *b = make(modes[k], 1, 8, 2);
        int64_t epoch = measure(modes[k], 1, 8).steps_per_epoch;
        bool sequential = modes[k] == BATCH_SEQUENTIAL;
        assert_true(same_first_steps(a, 0, b, 0) == sequential);
        assert_true(same_first_steps(a, 0, b, epoch) == sequential);
        loader_destroy(a);
        loader_destroy(b);
    }
}

static void the_last_step_takes_what_is_left(void **state)
{
    struct loader *l = make(BATCH_SEQUENTIAL, 4, 5, 1);
    struct loader_shape shape = measure(BATCH_SEQUENTIAL, 4, 5);
    struct step_batch b = seek(l, shape.steps_per_epoch - 1);
    int64_t trained = 0, tokens = 0;
    (void)state;
    assert_int_equal(shape.steps_per_epoch, (N_TRAIN + 19) / 20);
    assert_int_equal(b.n_samples, N_TRAIN % 20);
    assert_int_equal(b.n_micro, (N_TRAIN % 20 + 3) / 4);
    assert_int_equal(b.micro_starts[b.n_micro], b.n_samples);
    for (int64_t i = 0; i < b.n_samples; i++) {
        struct sample_info info = dataset_sample_info(data, SPLIT_TRAIN, b.samples[i]);
        trained += info.n_trained;
        tokens += info.n_tokens;
    }
    assert_true(b.n_trained == trained && b.n_tokens == tokens);
    loader_destroy(l);
}

static void grouping_starts_with_the_longest_and_falls_within_a_group(void **state)
{
    enum { PER_STEP = 6 };
    struct loader *l = make(BATCH_GROUPED, 2, 3, 5);
    int64_t steps = measure(BATCH_GROUPED, 2, 3).steps_per_epoch;
    int64_t group = FT_MIN(N_TRAIN / (4 * PER_STEP), 50);
    (void)state;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t before = 0;
        assert_int_equal(seek(l, epoch * steps).samples[0], LONGEST_AT);
        for (int64_t s = 0; s < steps; s++) {
            struct step_batch b = seek(l, epoch * steps + s);
            for (int64_t i = 0; i < b.n_samples; i++) {
                uint32_t n = lengths[b.samples[i]];
                /* The first one of a group may have changed places with the longest of all. */
                if (s % group != 0 || i > 1)
                    assert_true(n <= before);
                before = n;
            }
        }
    }
    loader_destroy(l);
}

/* What length grouping is for: little padding would be needed, and steps still vary. */
static void grouped_micro_batches_are_of_similar_length(void **state)
{
    struct loader *l = make(BATCH_GROUPED, 4, 2, 5);
    int64_t steps = measure(BATCH_GROUPED, 4, 2).steps_per_epoch, padded = 0, tokens = 0;
    (void)state;
    for (int64_t s = 0; s < steps; s++) {
        struct step_batch b = seek(l, s);
        for (int64_t m = 0; m < b.n_micro; m++) {
            int64_t n = b.micro_starts[m + 1] - b.micro_starts[m];
            padded += n * lengths[b.samples[b.micro_starts[m]]];
        }
        tokens += b.n_tokens;
    }
    assert_true((double)tokens > 0.95 * (double)padded);
    loader_destroy(l);
}

enum { COMPARED = 1000, SEEDS = 400 };
static uint32_t of_compared[COMPARED];

/* Lengths in the order of an epoch, and the share of padding in micro-batches of 4. */
static double grouped_epoch(uint32_t *order, const struct dataset *d, uint64_t seed)
{
    const struct loader_options o = {BATCH_GROUPED, 4, 4, seed};
    struct loader *l;
    struct step_batch b;
    ft_error err;
    double room = 0, tokens = 0;
    size_t n = 0;
    ASSERT_OK(loader_create(&l, d, &o, &err));
    for (int64_t s = 0; n < COMPARED; s++) {
        ASSERT_OK(loader_seek(&b, l, s, &err));
        for (int64_t m = 0; m < b.n_micro; m++) {
            uint32_t longest = 0;
            for (int64_t i = b.micro_starts[m]; i < b.micro_starts[m + 1]; i++) {
                order[n++] = of_compared[b.samples[i]];
                longest = FT_MAX(longest, of_compared[b.samples[i]]);
            }
            room += (double)longest * (double)(b.micro_starts[m + 1] - b.micro_starts[m]);
        }
        tokens += (double)b.n_tokens;
    }
    loader_destroy(l);
    return 1 - tokens / room;
}

/* The mean over seeds of a statistic agrees with XTuner's within five standard errors. */
static void expect_mean(const char *what, double mean, double expected, double deviation)
{
    double tolerance = 5 * deviation * sqrt(2.0 / SEEDS) + 1e-6;
    if (fabs(mean - expected) > tolerance)
        fail_msg("%s: %.5f, XTuner has %.5f +- %.5f", what, mean, expected, tolerance);
}

static void grouping_is_distributed_like_xtuners(void **state)
{
    static uint32_t order[COMPARED];
    static double sums[COMPARED];
    struct made m = {.dir = test_path("loader-grouping"),
                     .vocab = 1000,
                     .max_length = 1024,
                     .lengths = of_compared,
                     .n_train = COMPARED};
    struct dataset *d;
    struct arena a = {0};
    str golden, line;
    ft_error err;
    double waste = 0;
    (void)state;
    for (uint32_t i = 0; i < COMPARED; i++)
        of_compared[i] = 16 + i * 2654435761u % 997;
    ASSERT_OK(dir_remove(m.dir, &err));
    make_dataset(&m);
    ASSERT_OK(dataset_open(&d, m.dir, &err));
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        waste += grouped_epoch(order, d, seed);
        for (size_t i = 0; i < COMPARED; i++)
            sums[i] += order[i];
    }
    ASSERT_OK(file_read_all(&golden, &a, "tests/golden/grouping/xtuner.txt", 1 << 16, &err));
    for (line = str_cut(&golden, '\n'); line.len > 0; line = str_cut(&golden, '\n')) {
        char what[16];
        double mean, deviation;
        if (sscanf(line.ptr, "%15s %lf %lf", what, &mean, &deviation) != 3 || what[0] == '#')
            continue;
        bool padding = strcmp(what, "padding") == 0;
        expect_mean(what, (padding ? waste : sums[atoi(what)]) / SEEDS, mean, deviation);
    }
    arena_destroy(&a);
    dataset_close(d);
}

static void check_content(const struct micro_batch *m, enum dataset_split split,
                          const uint64_t *samples)
{
    assert_int_equal(m->seq_starts[0], 0);
    assert_int_equal(m->seq_starts[m->n_seqs], m->n_tokens);
    for (int64_t q = 0; q < m->n_seqs; q++) {
        for (int64_t j = m->seq_starts[q]; j < m->seq_starts[q + 1]; j++) {
            uint32_t at = (uint32_t)(j - m->seq_starts[q]);
            assert_int_equal(m->tokens[j], made_token(&made, split, samples[q], at));
            assert_int_equal(m->trained[j], made_mask(&made, split, samples[q], at));
        }
    }
}

static void micro_batches_hold_the_samples_and_fit_the_announced_size(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(modes); k++) {
        struct loader *l = make(modes[k], 3, 2, 1);
        struct loader_shape shape = measure(modes[k], 3, 2);
        for (int64_t s = 0; s < shape.steps_per_epoch; s++) {
            struct step_batch b = seek(l, s);
            int64_t trained = 0;
            for (int64_t i = 0; i < b.n_micro; i++) {
                struct micro_batch m;
                ft_error err;
                ASSERT_OK(loader_read(&m, l, i, &err));
                assert_int_equal(m.n_seqs, b.micro_starts[i + 1] - b.micro_starts[i]);
                assert_true(m.n_tokens <= shape.max_tokens);
                check_content(&m, SPLIT_TRAIN, b.samples + b.micro_starts[i]);
                for (int64_t t = 0; t < m.n_tokens; t++)
                    trained += m.trained[t];
            }
            assert_int_equal(trained, b.n_trained);
        }
        loader_destroy(l);
    }
}

static void evaluation_reads_each_sample_once_up_to_the_limit(void **state)
{
    static const uint64_t limits[] = {1, 7, N_EVAL};
    struct loader *l = make(BATCH_SEQUENTIAL, 2, 1, 1);
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
        uint64_t next = 0;
        while (next < limits[k]) {
            struct micro_batch m;
            uint64_t ids[N_EVAL];
            int64_t n_trained, counted = 0;
            ft_error err;
            for (uint64_t i = 0; i + next < limits[k]; i++)
                ids[i] = next + i;
            uint64_t before = next;
            ASSERT_OK(loader_read_eval(&m, &n_trained, l, &next, limits[k], &err));
            assert_int_equal(m.n_seqs, next - before);
            assert_true(m.n_tokens <= measure(BATCH_SEQUENTIAL, 2, 1).max_tokens);
            check_content(&m, SPLIT_EVAL, ids);
            for (int64_t t = 0; t < m.n_tokens; t++)
                counted += m.trained[t];
            assert_int_equal(counted, n_trained);
        }
        assert_int_equal(next, limits[k]);
    }
    loader_destroy(l);
}

/* Reading between two evaluations does not disturb the step that was sought. */
static void evaluation_leaves_the_step_alone(void **state)
{
    struct loader *l = make(BATCH_GROUPED, 2, 2, 1);
    struct step_batch b = seek(l, 5);
    struct micro_batch m;
    int64_t n_trained;
    uint64_t next = 3;
    ft_error err;
    (void)state;
    ASSERT_OK(loader_read_eval(&m, &n_trained, l, &next, N_EVAL, &err));
    ASSERT_OK(loader_read(&m, l, 1, &err));
    check_content(&m, SPLIT_TRAIN, b.samples + b.micro_starts[1]);
    loader_destroy(l);
}

static void batches_larger_than_the_data_are_one_step(void **state)
{
    struct loader_shape shape = measure(BATCH_SEQUENTIAL, 60000, 100000);
    struct loader *l = make(BATCH_GROUPED, 400, 1000, 1);
    struct step_batch b = seek(l, 0);
    (void)state;
    assert_int_equal(shape.steps_per_epoch, 1);
    assert_int_equal(shape.max_tokens, dataset_split(data, SPLIT_TRAIN)->n_tokens);
    assert_int_equal(b.n_samples, N_TRAIN);
    assert_int_equal(b.n_micro, 3);
    loader_destroy(l);
}

static void packed_memory_follows_the_fullest_bin_not_the_room_in_it(void **state)
{
    static const uint32_t three[] = {9, 5, 7};
    const struct made roomy = {.dir = test_path("loader-roomy"),
                               .vocab = 100,
                               .max_length = 20000,
                               .lengths = three,
                               .n_train = 3,
                               .n_eval = 0};
    struct made tight = roomy;
    const struct loader_options o = {BATCH_PACKED, 1, 1, 1};
    struct loader_shape shape;
    struct dataset *d;
    ft_error err;
    (void)state;
    make_dataset(&roomy);
    ASSERT_OK(dataset_open(&d, roomy.dir, &err));
    ASSERT_OK(loader_measure(&shape, d, &o, &err));
    assert_int_equal(shape.max_tokens, 9 + 5 + 7);
    dataset_close(d);
    tight.dir = test_path("loader-tight");
    tight.max_length = 15; /* bins of 9 + 5 and 7 */
    make_dataset(&tight);
    ASSERT_OK(dataset_open(&d, tight.dir, &err));
    ASSERT_OK(loader_measure(&shape, d, &o, &err));
    assert_int_equal(shape.max_tokens, 14);
    dataset_close(d);
}

static void an_empty_train_split_is_refused(void **state)
{
    const uint32_t one[] = {5};
    const struct made empty = {.dir = test_path("loader-empty"),
                               .vocab = 100,
                               .max_length = 8,
                               .lengths = one,
                               .n_train = 0,
                               .n_eval = 1};
    const struct loader_options o = {BATCH_SEQUENTIAL, 1, 1, 1};
    struct loader_shape shape;
    struct dataset *d;
    ft_error err;
    (void)state;
    ASSERT_OK(dir_remove(empty.dir, &err));
    make_dataset(&empty);
    ASSERT_OK(dataset_open(&d, empty.dir, &err));
    ASSERT_FAILS(loader_measure(&shape, d, &o, &err), FT_EFORMAT, "no training samples");
    dataset_close(d);
}

/* Writes a chopped plan "chop" beside the data set at dir and opens the data set with it. */
static struct dataset *open_chopped(const char *dir, const uint32_t *of, size_t n, uint32_t length)
{
    struct dataset *d;
    struct packs plan;
    struct arena a = {0};
    const char *path;
    ft_error err;
    ASSERT_OK(dataset_open(&d, dir, &err));
    ASSERT_OK(pack_chop(&plan, of, n, length, NULL, &err));
    ASSERT_OK(pack_count_trained(&plan, d, &err));
    pack_drop_untrained(&plan);
    plan.data = dataset_fingerprint(d);
    ASSERT_OK(dataset_plan_path(&path, &a, dir, "chop", &err));
    ASSERT_OK(packs_write(path, &plan, &err));
    ASSERT_OK(dataset_use_plan(d, "chop", &err));
    assert_false(hash128_eq(dataset_fingerprint(d), plan.data));
    pack_free(&plan);
    arena_destroy(&a);
    return d;
}

static void parts_of_samples_are_sequences_of_their_own(void **state)
{
    const struct loader_options o = {BATCH_PACKED, 2, 3, 5};
    struct loader *l;
    struct micro_batch m;
    struct step_batch b;
    ft_error err;
    uint64_t n_tokens = 0, n_cut = 0;
    (void)state;
    struct dataset *d = open_chopped(made.dir, lengths, N_TRAIN, 20);
    ASSERT_OK(loader_create(&l, d, &o, &err));
    for (int64_t s = 0; n_tokens == 0 || b.epoch == 0; s++) {
        ASSERT_OK(loader_seek(&b, l, s, &err));
        if (b.epoch > 0)
            break;
        int64_t trained = 0;
        for (int64_t i = 0; i < b.n_micro; i++) {
            ASSERT_OK(loader_read(&m, l, i, &err));
            assert_int_equal(m.n_seqs, b.micro_starts[i + 1] - b.micro_starts[i]);
            for (int64_t q = 0; q < m.n_seqs; q++) {
                const struct pack_part *p = &b.parts[b.micro_starts[i] + q];
                int64_t at = m.seq_starts[q];
                assert_int_equal(m.seq_starts[q + 1] - at, p->n_tokens);
                assert_int_equal(m.trained[at], 0);
                n_cut += p->from > 0;
                for (uint32_t k = 0; k < p->n_tokens; k++) {
                    assert_int_equal(m.tokens[at + k],
                                     made_token(&made, SPLIT_TRAIN, p->sample, p->from + k));
                    trained += m.trained[at + k];
                }
            }
            n_tokens += (uint64_t)m.n_tokens;
        }
        assert_int_equal(trained, b.n_trained);
    }
    assert_true(n_cut > 0);
    assert_int_equal(n_tokens + dataset_plan(d, SPLIT_TRAIN)->untrained,
                     dataset_split(d, SPLIT_TRAIN)->n_tokens);
    loader_destroy(l);
    dataset_close(d);
}

static void a_plan_of_another_data_set_is_refused(void **state)
{
    const uint32_t few[] = {5, 9, 3, 7};
    const struct made other = {.dir = test_path("loader-other"),
                               .vocab = 100,
                               .max_length = 16,
                               .lengths = few,
                               .n_train = 4};
    struct dataset *d;
    struct arena a = {0};
    str plan;
    const char *from, *to;
    ft_error err;
    (void)state;
    ASSERT_OK(dir_remove(other.dir, &err));
    make_dataset(&other);
    ASSERT_OK(dataset_open(&d, other.dir, &err));
    ASSERT_FAILS(dataset_use_plan(d, "../x", &err), FT_EUSAGE, "letters, digits");
    ASSERT_FAILS(dataset_use_plan(d, "none", &err), FT_EIO, "train-none.packs");
    ASSERT_OK(dataset_plan_path(&from, &a, made.dir, "chop", &err));
    ASSERT_OK(dataset_plan_path(&to, &a, other.dir, "chop", &err));
    ASSERT_OK(file_read_all(&plan, &a, from, 1 << 20, &err));
    ASSERT_OK(file_publish(to, plan.ptr, plan.len, &err));
    ASSERT_FAILS(dataset_use_plan(d, "chop", &err), FT_EFORMAT, "belongs to another data set");
    ASSERT_OK(dataset_plan_path(&from, &a, other.dir, "own", &err));
    ASSERT_OK(file_read_all(&plan, &a, path_join(&a, other.dir, "train.packs"), 1 << 20, &err));
    ASSERT_OK(file_publish(from, plan.ptr, plan.len, &err));
    ASSERT_FAILS(dataset_use_plan(d, "own", &err), FT_EFORMAT, "belongs to another data set");
    arena_destroy(&a);
    dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_holds_every_sample_once),
        cmocka_unit_test(a_step_does_not_depend_on_the_ones_before),
        cmocka_unit_test(seeds_and_epochs_shuffle_differently_except_in_sequential_mode),
        cmocka_unit_test(the_last_step_takes_what_is_left),
        cmocka_unit_test(grouping_starts_with_the_longest_and_falls_within_a_group),
        cmocka_unit_test(grouped_micro_batches_are_of_similar_length),
        cmocka_unit_test(grouping_is_distributed_like_xtuners),
        cmocka_unit_test(micro_batches_hold_the_samples_and_fit_the_announced_size),
        cmocka_unit_test(evaluation_reads_each_sample_once_up_to_the_limit),
        cmocka_unit_test(evaluation_leaves_the_step_alone),
        cmocka_unit_test(batches_larger_than_the_data_are_one_step),
        cmocka_unit_test(packed_memory_follows_the_fullest_bin_not_the_room_in_it),
        cmocka_unit_test(an_empty_train_split_is_refused),
        cmocka_unit_test(parts_of_samples_are_sequences_of_their_own),
        cmocka_unit_test(a_plan_of_another_data_set_is_refused),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
