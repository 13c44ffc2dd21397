/* SPDX-License-Identifier: Apache-2.0
 * The list of backends, and what all of them share: allocation with messages, the latched fault. */
#include "trainer/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "trainer/backend_ops.h"

static const struct backend_driver *const drivers[] = {&cpu_driver};

static const struct backend_driver *find_driver(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
        if (strcmp(drivers[i]->name, name) == 0)
            return drivers[i];
    return NULL;
}

ft_status backend_check_name(const char *name, ft_error *err)
{
    char list[128] = "";
    if (find_driver(name) != NULL)
        return FT_OK;
    for (size_t i = 0, at = 0; i < ARRAY_LEN(drivers) && at < sizeof list; i++)
        at +=
            (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", drivers[i]->name);
    return ft_fail(err, FT_EUSAGE, "unknown backend '%s'; this build has: %s", name, list);
}

ft_status backend_open(struct backend **out, const char *name, const struct backend_options *o,
                       ft_error *err)
{
    *out = NULL;
    FT_ASSERT(o->n_threads >= 1);
    FT_TRY(backend_check_name(name, err));
    return find_driver(name)->open(out, o, err);
}

void backend_close(struct backend *be)
{
    if (be != NULL)
        be->ops->close(be);
}

const char *backend_name(const struct backend *be)
{
    return be->ops->name;
}

int backend_threads(const struct backend *be)
{
    return be->n_threads;
}

size_t backend_workspace_bytes(int n_threads)
{
    size_t most = 0;
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
        most = FT_MAX(most, drivers[i]->workspace_bytes(n_threads));
    return most;
}

ft_status backend_alloc(void *out, struct backend *be, size_t bytes, const char *what,
                        ft_error *err)
{
    void *p = be->ops->alloc(be, bytes);
    memcpy(out, &p, sizeof p);
    return p != NULL ? FT_OK : ft_fail_memory(err, bytes, what);
}

void backend_free(struct backend *be, void *p)
{
    if (p != NULL)
        be->ops->free(be, p);
}

void backend_fault(struct backend *be, ft_status status, const char *fmt, ...)
{
    char text[sizeof be->fault.text];
    va_list args;
    if (be->fault.status != FT_OK)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    be->fault.status = status;
    snprintf(be->fault.text, sizeof be->fault.text, "%s: %.900s", be->op, text);
}

ft_status backend_sync(struct backend *be, ft_error *err)
{
    be->ops->sync(be);
    if (be->fault.status == FT_OK)
        return FT_OK;
    *err = be->fault;
    be->fault.status = FT_OK;
    return err->status;
}
