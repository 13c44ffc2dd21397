/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thread.h"

#include <stdatomic.h>
#include <string.h>

#include "common/cpu.h"
#include "common/mem.h"

/* Loops often follow each other within microseconds, while waking a thread takes tens of them where
 * its processor has gone idle. So both sides look again this often, about 20 us, before they
 * sleep; not when there are more threads than processors. */
enum { SPINS = 300 };

/* A call is open until its tasks are handed out. A worker that wakes up later does not take part,
 * so nobody waits for a thread that is asleep or without a processor. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    pthread_t *threads;
    int n_threads; /* including the caller */
    int n_started, spins;
    atomic_uint generation; /* counts pool_run calls and the stop; a change wakes the workers */
    atomic_int n_active;    /* workers taking part; grows only under the lock and while open */
    bool open, stop;
    void (*fn)(void *ctx, int task);
    void *ctx;
    int n_tasks;
    atomic_int next_task;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void run_tasks(struct pool *p)
{
    for (;;) {
        int task = atomic_fetch_add_explicit(&p->next_task, 1, memory_order_relaxed);
        if (task >= p->n_tasks)
            return;
        p->fn(p->ctx, task);
    }
}

/* Returns with the lock held. */
static void wait_for_call(struct pool *p, unsigned seen)
{
    for (int i = 0; i < p->spins && atomic_load(&p->generation) == seen; i++)
        relax();
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->generation) == seen)
        pthread_cond_wait(&p->start, &p->lock);
}

static void leave(struct pool *p)
{
    if (atomic_fetch_sub(&p->n_active, 1) > 1)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    struct pool *p = arg;
    unsigned seen = 0;
    for (;;) {
        wait_for_call(p, seen);
        bool open = p->open, stop = p->stop;
        seen = atomic_load(&p->generation);
        if (open)
            atomic_fetch_add(&p->n_active, 1);
        pthread_mutex_unlock(&p->lock);
        if (stop)
            return NULL;
        if (open) {
            run_tasks(p);
            leave(p);
        }
    }
}

static void open_call(struct pool *p, int n_tasks, void (*fn)(void *ctx, int task), void *ctx)
{
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->ctx = ctx;
    p->n_tasks = n_tasks;
    p->open = true;
    atomic_store(&p->next_task, 0);
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
}

static void close_call(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->open = false;
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->spins && atomic_load(&p->n_active) > 0; i++)
        relax();
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->n_active) > 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
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
    p->spins = n_threads <= cpu_count() ? SPINS : 0;
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
    atomic_fetch_add(&p->generation, 1);
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
    open_call(p, n_tasks, fn, ctx);
    run_tasks(p);
    close_call(p);
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
