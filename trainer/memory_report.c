/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/memory_report.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"

static void log_class(const char *what, uint64_t bytes)
{
    char text[32];
    if (bytes > 0)
        log_info("  %-24s %10s", what, format_bytes(text, (double)bytes));
}

static void log_plan(const struct memory_plan *p)
{
    log_info("memory:");
    log_class("base weights (mapped)", p->base_mapped);
    log_class("adapter", p->adapter);
    log_class("gradients", p->gradients);
    log_class("optimiser state", p->optimizer);
    log_class("activations", p->activations);
    log_class("workspaces", p->scratch);
    log_class("key/value cache", p->kv_cache);
}

static uint64_t total_with(const struct inputs *in, struct model_options m, bool recompute,
                           int64_t max_tokens)
{
    struct memory_plan p;
    m.recompute = recompute;
    m.max_tokens = max_tokens;
    model_plan_memory(&p, in->base, &m, in->n_threads);
    return p.total;
}

static void add_advice(char *dst, size_t cap, const char *change, uint64_t bytes)
{
    char text[32];
    size_t n = strlen(dst);
    snprintf(dst + n, cap - n, "%s%s needs %s", n == 0 ? "" : ", ", change,
             format_bytes(text, (double)bytes));
}

/* Names the changes that save memory with what each would leave. */
static void advise(char *dst, size_t cap, const struct inputs *in, const struct train_options *o,
                   const struct model_options *m)
{
    int64_t one = FT_MAX(m->max_tokens / o->batch.micro, (int64_t)1);
    dst[0] = '\0';
    if (!m->recompute)
        add_advice(dst, cap, "memory.recompute=true", total_with(in, *m, true, m->max_tokens));
    if (o->batch.micro > 1)
        add_advice(dst, cap, "batch.micro=1", total_with(in, *m, m->recompute, one));
    if (!m->recompute && o->batch.micro > 1)
        add_advice(dst, cap, "both together", total_with(in, *m, true, one));
    if (m->recompute && o->batch.micro == 1)
        add_advice(dst, cap, "a data set with half the --max-length",
                   total_with(in, *m, true, FT_MAX(one / 2, (int64_t)1)));
}

ft_status memory_report(const struct inputs *in, const struct train_options *o,
                        const struct model_options *model, ft_error *err)
{
    char need[32], have[32], advice[256];
    struct memory_plan plan;
    uint64_t limit = (uint64_t)o->memory.limit << 20;
    uint64_t available = limit > 0 ? limit : mem_available();
    model_plan_memory(&plan, in->base, model, in->n_threads);
    log_plan(&plan);
    format_bytes(need, (double)plan.total);
    format_bytes(have, (double)available);
    const char *source = limit > 0 ? "memory.limit" : "available";
    if (available == 0) {
        log_info("  %-24s %10s (available: unknown)", "total", need);
        return FT_OK;
    }
    log_info("  %-24s %10s of %s (%s)", "total", need, have, source);
    if (plan.total <= available)
        return FT_OK;
    advise(advice, sizeof advice, in, o, model);
    return ft_fail(err, FT_EMEM, "the run needs %s, %s is %s; %s", need, source, have, advice);
}
