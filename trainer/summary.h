/* SPDX-License-Identifier: Apache-2.0
 * What a finished run reports: summary.json and a few lines on stdout. */
#ifndef TRAINER_SUMMARY_H
#define TRAINER_SUMMARY_H

#include "formats/checkpoint.h"
#include "trainer/run_dir.h"

struct summary {
    const struct checkpoint_state *state; /* at the end */
    double epochs;
    int64_t session_tokens;       /* trained on by this process, not before a resume */
    double session_seconds;       /* of its steps */
    double seconds_to_ready;      /* from exec until the first evaluation or step could begin */
    double seconds_to_first_step; /* from exec until the first step was done; 0 = took none */
    double wall_seconds;          /* of this process */
    uint64_t peak_memory;
    hash128 adapter;   /* XXH3-128 of the adapter's values */
    bool best_is_kept; /* the checkpoint of state->best_step is there */
};

FT_NODISCARD ft_status summary_write(const struct summary *s, const struct run_dir *dir,
                                     ft_error *err);
void summary_print(const struct summary *s, const struct run_dir *dir);

#endif
