/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/comm.h"

#include <stdio.h>
#include <string.h>

static const struct comm_driver *const drivers[] = {&comm_self};

ft_status comm_open(struct comm *out, const char *name, ft_error *err)
{
    char known[256] = "";
    *out = (struct comm){0};
    for (size_t i = 0; i < ARRAY_LEN(drivers); i++) {
        size_t n = strlen(known);
        if (strcmp(drivers[i]->name, name) == 0) {
            out->driver = drivers[i];
            return out->driver->open(out, err);
        }
        snprintf(known + n, sizeof known - n, "%s%s", i == 0 ? "" : ", ", drivers[i]->name);
    }
    return ft_fail(err, FT_EUSAGE, "unknown communication '%s'; this build has %s", name, known);
}

void comm_close(struct comm *c)
{
    if (c->driver != NULL)
        c->driver->close(c);
    *c = (struct comm){0};
}

void comm_sum_f32(struct comm *c, float *data, int64_t n)
{
    if (c->fault.status == FT_OK)
        c->driver->sum_f32(c, data, n);
}

void comm_sum_f64(struct comm *c, double *data, int64_t n)
{
    if (c->fault.status == FT_OK)
        c->driver->sum_f64(c, data, n);
}

ft_status comm_status(const struct comm *c, ft_error *err)
{
    if (c->fault.status != FT_OK)
        *err = c->fault;
    return c->fault.status;
}
