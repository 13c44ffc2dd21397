/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thread.h"

#include <stdatomic.h>
#include <string.h>

#include "common/mem.h"

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    pthread_t *threads;
    int n_threads; /* including the caller */
    int n_started;
    uint64_t generation; /* counts pool_run calls; a change wakes the workers */
    int n_busy;
    bool stop;
    void (*fn)(void *ctx, int task);
    void *ctx;
    int n_tasks;
    atomic_int next_task;
};

static void run_tasks(struct pool *p)
{
    for (;;) {
        int task = atomic_fetch_add_explicit(&p->next_task, 1, memory_order_relaxed);
        if (task >= p->n_tasks)
            return;
        p->fn(p->ctx, task);
    }
}

static void *worker_main(void *arg)
{
    struct pool *p = arg;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->generation == seen && !p->stop)
            pthread_cond_wait(&p->start, &p->lock);
        if (p->stop)
            break;
        seen = p->generation;
        pthread_mutex_unlock(&p->lock);
        run_tasks(p);
        pthread_mutex_lock(&p->lock);
        if (--p->n_busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

ft_status pool_create(struct pool **out, int n_threads, ft_error *err)
{
    struct pool *p;
    FT_ASSERT(n_threads >= 1);
    *out = NULL;
    FT_TRY(mem_new(&p, 1, sizeof *p, "the thread pool", err));
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    p->n_threads = n_threads;
    ft_status st = mem_new(&p->threads, (size_t)n_threads, sizeof *p->threads, "threads", err);
    while (st == FT_OK && p->n_started < n_threads - 1) {
        int e = pthread_create(&p->threads[p->n_started], NULL, worker_main, p);
        if (e != 0)
            st = ft_fail(err, FT_EMEM, "cannot start thread %d of %d: %s", p->n_started + 2,
                         n_threads, strerror(e));
        else
            p->n_started++;
    }
    if (st != FT_OK)
        pool_destroy(p);
    else
        *out = p;
    return st;
}

void pool_destroy(struct pool *p)
{
    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->threads);
    mem_free(p);
}

int pool_threads(const struct pool *p)
{
    return p->n_threads;
}

void pool_run(struct pool *p, int n_tasks, void (*fn)(void *ctx, int task), void *ctx)
{
    if (n_tasks <= 1 || p->n_started == 0) {
        for (int i = 0; i < n_tasks; i++)
            fn(ctx, i);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->ctx = ctx;
    p->n_tasks = n_tasks;
    atomic_store_explicit(&p->next_task, 0, memory_order_relaxed);
    p->n_busy = p->n_started;
    p->generation++;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    run_tasks(p);
    pthread_mutex_lock(&p->lock);
    while (p->n_busy > 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

struct range_job {
    int64_t n;
    int parts;
    void (*fn)(void *ctx, int64_t from, int64_t to);
    void *ctx;
};

static void run_range(void *arg, int task)
{
    const struct range_job *j = arg;
    j->fn(j->ctx, j->n * task / j->parts, j->n * (task + 1) / j->parts);
}

void pool_range(struct pool *p, int64_t n, int64_t grain,
                void (*fn)(void *ctx, int64_t from, int64_t to), void *ctx)
{
    int64_t parts =
        FT_MIN((int64_t)p->n_threads, FT_MAX(n / FT_MAX(grain, (int64_t)1), (int64_t)1));
    if (n <= 0)
        return;
    if (parts == 1) {
        fn(ctx, 0, n);
        return;
    }
    struct range_job job = {n, (int)parts, fn, ctx};
    pool_run(p, (int)parts, run_range, &job);
}

ft_status queue_init(struct queue *q, size_t cap, ft_error *err)
{
    *q = (struct queue){.cap = cap};
    FT_TRY(mem_new(&q->items, cap, sizeof *q->items, "a queue", err));
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    pthread_cond_init(&q->not_full, NULL);
    return FT_OK;
}

void queue_destroy(struct queue *q)
{
    if (q->items == NULL)
        return;
    pthread_cond_destroy(&q->not_empty);
    pthread_cond_destroy(&q->not_full);
    pthread_mutex_destroy(&q->lock);
    mem_free(q->items);
    q->items = NULL;
}

bool queue_push(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    while (q->n == q->cap && !q->closed)
        pthread_cond_wait(&q->not_full, &q->lock);
    bool ok = !q->closed;
    if (ok) {
        q->items[(q->head + q->n++) % q->cap] = item;
        pthread_cond_signal(&q->not_empty);
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void *queue_pop(struct queue *q)
{
    void *item = NULL;
    pthread_mutex_lock(&q->lock);
    while (q->n == 0 && !q->closed)
        pthread_cond_wait(&q->not_empty, &q->lock);
    if (q->n > 0) {
        item = q->items[q->head];
        q->head = (q->head + 1) % q->cap;
        q->n--;
        pthread_cond_signal(&q->not_full);
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->not_empty);
    pthread_cond_broadcast(&q->not_full);
    pthread_mutex_unlock(&q->lock);
}
