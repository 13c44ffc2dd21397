/* SPDX-License-Identifier: Apache-2.0
 * SIGINT and SIGTERM as a request that long work polls, so that it can remove what it wrote. One
 * command at a time; its threads share the request. */
#ifndef TOOLS_STOP_H
#define TOOLS_STOP_H

#include <signal.h>
#include <stdatomic.h>

#include "common/error.h"

struct stop {
    struct sigaction saved[2];
};

/* Forgets earlier requests. A second signal ends the process at once. */
void stop_catch(struct stop *s);
void stop_restore(const struct stop *s); /* the handlers from before */
const atomic_bool *stop_flag(void);      /* set by the signal */
/* FT_ESTOP once a signal came: "stopped on request; nothing was written". */
FT_NODISCARD ft_status stop_check(ft_error *err);
/* The same for a flag that was handed on. */
FT_NODISCARD ft_status stop_check_flag(const atomic_bool *flag, ft_error *err);

#endif
