/* SPDX-License-Identifier: Apache-2.0
 * Collectives between the ranks of a run. Every rank makes the same calls with the same counts in
 * the same order; what they are is a function of the configuration and the step, never of the
 * data. The first failure is latched, later calls do nothing, comm_status returns it. */
#ifndef TRAINER_COMM_H
#define TRAINER_COMM_H

#include "common/error.h"

struct comm;

/* One row of the driver list in comm.c. */
struct comm_driver {
    const char *name;
    ft_status (*open)(struct comm *c, ft_error *err);
    void (*close)(struct comm *c);
    void (*sum_f32)(struct comm *c, float *data, int64_t n);
    void (*sum_f64)(struct comm *c, double *data, int64_t n);
};

struct comm {
    const struct comm_driver *driver;
    int rank, world;
    ft_error fault; /* status FT_OK = none */
    void *state;    /* of the driver */
};

/* name: "self" (one rank). FT_EUSAGE lists the drivers of this build. */
FT_NODISCARD ft_status comm_open(struct comm *out, const char *name, ft_error *err);
void comm_close(struct comm *c); /* a zeroed one is fine */

/* data[i] becomes the sum over all ranks, the same bits on each. */
void comm_sum_f32(struct comm *c, float *data, int64_t n);
void comm_sum_f64(struct comm *c, double *data, int64_t n);
FT_NODISCARD ft_status comm_status(const struct comm *c, ft_error *err);

extern const struct comm_driver comm_self;

#endif
