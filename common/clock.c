/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "common/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double clock_since_exec(void)
{
    char text[2048];
    unsigned long long start_ticks;
    struct timespec now;
    FILE *f = fopen("/proc/self/stat", "r");
    if (f == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    /* Field 22; the name in field 2 may hold spaces, so count from its closing parenthesis. */
    const char *p = strrchr(text, ')');
    if (p == NULL || sscanf(p + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                            "%*d %*d %*d %*d %llu",
                            &start_ticks) != 1)
        return 0;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 -
           (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
}
