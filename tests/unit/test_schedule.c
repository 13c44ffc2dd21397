/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/schedule.h"

#include <math.h>

#include "tests/support/check.h"

static struct schedule make(enum schedule_kind kind, int64_t total, int64_t warmup, double min)
{
    return (struct schedule){kind, total, warmup, 2e-4, min};
}

static void warm_up_rises_linearly_and_reaches_the_peak(void **state)
{
    struct schedule s = make(SCHEDULE_COSINE, 100, 5, 0);
    (void)state;
    assert_true(schedule_lr(&s, 0) == 2e-4 * 1e-5);
    assert_true(fabs(schedule_lr(&s, 2) - 2e-4 * (1e-5 + (1 - 1e-5) / 2)) < 1e-18);
    assert_true(schedule_lr(&s, 4) == 2e-4);
    assert_true(schedule_lr(&s, 5) == 2e-4);
    assert_true(schedule_lr(&s, 6) < 2e-4);
}

static void without_warm_up_the_first_step_is_the_peak(void **state)
{
    struct schedule s = make(SCHEDULE_COSINE, 10, 0, 0);
    (void)state;
    assert_true(schedule_lr(&s, 0) == 2e-4);
    s.warmup = 1; /* one step at the start factor, then the peak */
    assert_true(schedule_lr(&s, 0) == 2e-4 * 1e-5);
    assert_true(schedule_lr(&s, 1) == 2e-4);
}

static void decay_ends_at_the_minimum(void **state)
{
    struct schedule cosine = make(SCHEDULE_COSINE, 100, 0, 0.1);
    struct schedule linear = make(SCHEDULE_LINEAR, 100, 0, 0.1);
    struct schedule constant = make(SCHEDULE_CONSTANT, 100, 0, 0);
    (void)state;
    assert_true(fabs(schedule_lr(&cosine, 50) - 2e-4 * 0.55) < 1e-17);
    assert_true(fabs(schedule_lr(&linear, 50) - 2e-4 * 0.55) < 1e-17);
    assert_true(fabs(schedule_lr(&cosine, 100) - 2e-5) < 1e-17);
    assert_true(fabs(schedule_lr(&linear, 100) - 2e-5) < 1e-17);
    assert_true(schedule_lr(&constant, 99) == 2e-4);
}

/* The chained recursion by which mmengine arrives at the cosine, starting from the peak. */
static void cosine_equals_the_recursion_of_mmengine(void **state)
{
    enum { TOTAL = 1000, WARMUP = 30 };
    const double pi = 3.14159265358979323846;
    struct schedule s = make(SCHEDULE_COSINE, TOTAL, WARMUP, 0);
    double lr = 2e-4;
    (void)state;
    for (int k = 1; k < TOTAL - WARMUP; k++) {
        double t = TOTAL - WARMUP;
        lr = (1 + cos(pi * k / t)) / (1 + cos(pi * (k - 1) / t)) * lr;
        assert_true(fabs(schedule_lr(&s, WARMUP + k) - lr) <= 1e-12 * 2e-4);
    }
}

static void warm_up_length_comes_from_ratio_or_steps(void **state)
{
    struct train_options o = {.optimizer.lr = 1, .schedule = {.warmup_ratio = 0.03}};
    struct schedule s;
    (void)state;
    schedule_init(&s, &o, false, 1000);
    assert_int_equal(s.warmup, 30);
    schedule_init(&s, &o, false, 33);
    assert_int_equal(s.warmup, 0);
    o.schedule.warmup_steps = 50;
    schedule_init(&s, &o, true, 20);
    assert_int_equal(s.warmup, 20); /* all of a run that is shorter */
    assert_true(schedule_lr(&s, 19) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_rises_linearly_and_reaches_the_peak),
        cmocka_unit_test(without_warm_up_the_first_step_is_the_peak),
        cmocka_unit_test(decay_ends_at_the_minimum),
        cmocka_unit_test(cosine_equals_the_recursion_of_mmengine),
        cmocka_unit_test(warm_up_length_comes_from_ratio_or_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
