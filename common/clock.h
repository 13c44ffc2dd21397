/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

/* Seconds on the monotonic clock; only differences mean anything. */
double clock_seconds(void);
/* Seconds since this process was started by exec, 0 when unknown. */
double clock_since_exec(void);

#endif
