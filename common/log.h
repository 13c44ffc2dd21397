/* SPDX-License-Identifier: Apache-2.0
 * Messages to stderr and the progress line. Results go to stdout, everything else comes through
 * here. Thread-safe. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO };

/* Program name shown in front of each line. Level from FT_LOG=error|warn|info (info). */
void log_init(const char *program);
void log_line(enum log_level level, const char *fmt, ...) FT_PRINTF(2, 3);
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)

/* One progress line: on a terminal a bar with rate and remaining time that is redrawn ten times a
 * second, otherwise a plain line every ten seconds and one at the end. */
struct progress {
    const char *what, *unit; /* "rows", "MB" */
    double total;            /* 0 = unknown */
    double started, last_shown;
    bool terminal;
};

void progress_start(struct progress *p, const char *what, const char *unit, double total);
/* done in units; note is appended when not empty ("loss 1.234"). Called as often as you like. */
void progress_update(struct progress *p, double done, const char *note);
void progress_finish(struct progress *p, double done, const char *note);

/* True when stdout (fd 1) or stderr (fd 2) is a terminal and NO_COLOR is unset. */
bool log_color(int fd);
/* "1.2 GiB", "3 min 05 s" into dst; returns dst. */
const char *format_bytes(char dst[32], double bytes);
const char *format_duration(char dst[32], double seconds);

#endif
