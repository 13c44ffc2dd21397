/* SPDX-License-Identifier: Apache-2.0
 * One rank: every sum is the value itself. */
#include "trainer/comm.h"

static ft_status self_open(struct comm *c, ft_error *err)
{
    (void)err;
    c->world = 1;
    return FT_OK;
}

static void self_close(struct comm *c)
{
    (void)c;
}

static void self_sum_f32(struct comm *c, float *data, int64_t n)
{
    (void)c, (void)data, (void)n;
}

static void self_sum_f64(struct comm *c, double *data, int64_t n)
{
    (void)c, (void)data, (void)n;
}

const struct comm_driver comm_self = {"self", self_open, self_close, self_sum_f32, self_sum_f64};
