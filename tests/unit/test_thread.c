/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thread.h"

#include <stdatomic.h>

#include "tests/support/check.h"

struct job {
    atomic_int runs[1000];
    atomic_llong sum;
};

static void count_run(void *ctx, int task)
{
    struct job *j = ctx;
    atomic_fetch_add(&j->runs[task], 1);
}

static void add_range(void *ctx, int64_t from, int64_t to)
{
    struct job *j = ctx;
    for (int64_t i = from; i < to; i++)
        atomic_fetch_add(&j->sum, i);
}

static void every_task_runs_once_for_any_thread_count(void **state)
{
    static struct job j;
    ft_error err;
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        struct pool *p;
        ASSERT_OK(pool_create(&p, threads, &err));
        for (int n = 0; n <= 1000; n += 111) {
            memset(&j, 0, sizeof j);
            pool_run(p, n, count_run, &j);
            for (int i = 0; i < 1000; i++)
                assert_int_equal(j.runs[i], i < n);
            pool_range(p, n, 7, add_range, &j);
            assert_true(j.sum == (long long)n * (n - 1) / 2);
        }
        pool_destroy(p);
    }
}

static void *consume(void *arg)
{
    intptr_t sum = 0, v;
    while ((v = (intptr_t)queue_pop(arg)) != 0)
        sum += v;
    return (void *)sum;
}

static void queue_delivers_everything_before_it_ends(void **state)
{
    struct queue q;
    ft_error err;
    pthread_t consumers[3];
    intptr_t total = 0;
    (void)state;
    ASSERT_OK(queue_init(&q, 4, &err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, &q), 0);
    for (intptr_t i = 1; i <= 1000; i++)
        assert_true(queue_push(&q, (void *)i));
    queue_close(&q);
    assert_false(queue_push(&q, (void *)1));
    for (int i = 0; i < 3; i++) {
        void *sum;
        pthread_join(consumers[i], &sum);
        total += (intptr_t)sum;
    }
    assert_int_equal(total, 500500);
    queue_destroy(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_for_any_thread_count),
        cmocka_unit_test(queue_delivers_everything_before_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
