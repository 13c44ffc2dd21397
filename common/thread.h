/* SPDX-License-Identifier: Apache-2.0
 * A fixed pool for fork-join loops, and a bounded queue between pipeline stages. */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>

#include "common/error.h"

struct pool;

/* n_threads >= 1 workers in all, the caller included: n = 1 starts no thread. */
FT_NODISCARD ft_status pool_create(struct pool **out, int n_threads, ft_error *err);
void pool_destroy(struct pool *p); /* NULL is fine */
int pool_threads(const struct pool *p);

/* Runs fn(ctx, task) for every task in [0, n_tasks) and returns when all are done. Tasks are
 * handed out one by one; several may run at once, the caller works too. Not reentrant: fn must
 * not call pool_run on the same pool. Which thread runs a task is unspecified, so results must
 * not depend on it. */
void pool_run(struct pool *p, int n_tasks, void (*fn)(void *ctx, int task), void *ctx);

/* Splits [0, n) into at most pool_threads(p) contiguous ranges of at least `grain` and runs
 * fn(ctx, from, to). */
void pool_range(struct pool *p, int64_t n, int64_t grain,
                void (*fn)(void *ctx, int64_t from, int64_t to), void *ctx);

/* Bounded first-in first-out queue of pointers. After close, push fails and pop drains the rest. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    void **items;
    size_t cap, head, n;
    bool closed;
};

FT_NODISCARD ft_status queue_init(struct queue *q, size_t cap, ft_error *err);
void queue_destroy(struct queue *q);
bool queue_push(struct queue *q, void *item); /* waits while full; false when closed */
void *queue_pop(struct queue *q);             /* waits while empty; NULL when closed and drained */
void queue_close(struct queue *q);

#endif
