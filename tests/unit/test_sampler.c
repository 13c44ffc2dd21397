/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/sampler.h"

#include <math.h>

#include "tests/support/check.h"

enum { VOCAB = 7, DRAWS = 20000 };

/* Probabilities 0.4, 0.3, 0.2, 0.1 for ids 5, 2, 6, 0; almost nothing for the others. */
static const float logits[VOCAB] = {-2.302585f, -90, -1.203973f, -90, -90, -0.916291f, -1.609438f};

static void count(int counts[VOCAB], struct sampler_options o)
{
    struct sampler s;
    ft_error err;
    ASSERT_OK(sampler_open(&s, &o, VOCAB, &err));
    memset(counts, 0, VOCAB * sizeof *counts);
    for (uint64_t i = 0; i < DRAWS; i++)
        counts[sampler_pick(&s, logits, 3, i)]++;
    sampler_close(&s);
}

static bool near(int n, double p)
{
    return fabs(n / (double)DRAWS - p) < 0.02;
}

static void temperature_zero_takes_the_most_likely_and_the_lower_id_of_equals(void **state)
{
    const float equal[4] = {1, 3, 3, 0};
    struct sampler_options o = {.top_p = 1};
    struct sampler s;
    ft_error err;
    (void)state;
    ASSERT_OK(sampler_open(&s, &o, 4, &err));
    assert_int_equal(sampler_pick(&s, equal, 0, 0), 1);
    sampler_close(&s);
}

static void draws_follow_the_distribution(void **state)
{
    int n[VOCAB];
    (void)state;
    count(n, (struct sampler_options){.temperature = 1, .top_p = 1, .seed = 1});
    assert_true(near(n[5], 0.4) && near(n[2], 0.3) && near(n[6], 0.2) && near(n[0], 0.1));
    assert_int_equal(n[1] + n[3] + n[4], 0);
    count(n, (struct sampler_options){.temperature = 0.5, .top_p = 1, .seed = 1});
    assert_true(near(n[5], 0.16 / 0.30) && near(n[0], 0.01 / 0.30));
}

static void top_k_keeps_the_most_likely(void **state)
{
    int n[VOCAB];
    (void)state;
    count(n, (struct sampler_options){.temperature = 1, .top_p = 1, .top_k = 2, .seed = 1});
    assert_true(near(n[5], 0.4 / 0.7) && near(n[2], 0.3 / 0.7));
    assert_int_equal(n[6] + n[0], 0);
}

static void top_p_keeps_the_fewest_that_reach_it(void **state)
{
    int n[VOCAB];
    (void)state;
    count(n, (struct sampler_options){.temperature = 1, .top_p = 0.65, .seed = 1});
    assert_true(near(n[5], 0.4 / 0.7) && near(n[2], 0.3 / 0.7));
    assert_int_equal(n[6] + n[0], 0);
    count(n, (struct sampler_options){.temperature = 1, .top_p = 0.75, .seed = 1});
    assert_true(near(n[6], 0.2 / 0.9));
    assert_int_equal(n[0], 0);
}

static void top_p_applies_to_what_top_k_left(void **state)
{
    int n[VOCAB];
    (void)state;
    /* Of 5 and 2 the first holds 0.571: enough for 0.55, though not of the whole. */
    count(n, (struct sampler_options){.temperature = 1, .top_p = 0.55, .top_k = 2, .seed = 1});
    assert_int_equal(n[5], DRAWS);
}

static void the_same_seed_text_and_position_give_the_same_token(void **state)
{
    struct sampler_options o = {.temperature = 1, .top_p = 0.95, .seed = 9};
    struct sampler a, b;
    ft_error err;
    int differ = 0;
    (void)state;
    ASSERT_OK(sampler_open(&a, &o, VOCAB, &err));
    o.seed = 10;
    ASSERT_OK(sampler_open(&b, &o, VOCAB, &err));
    for (uint64_t i = 0; i < 100; i++) {
        int32_t id = sampler_pick(&a, logits, 1, i);
        assert_int_equal(id, sampler_pick(&a, logits, 1, i));
        differ += id != sampler_pick(&b, logits, 1, i);
        differ += id != sampler_pick(&a, logits, 2, i);
    }
    assert_true(differ > 50);
    sampler_close(&a);
    sampler_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_takes_the_most_likely_and_the_lower_id_of_equals),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(top_k_keeps_the_most_likely),
        cmocka_unit_test(top_p_keeps_the_fewest_that_reach_it),
        cmocka_unit_test(top_p_applies_to_what_top_k_left),
        cmocka_unit_test(the_same_seed_text_and_position_give_the_same_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
