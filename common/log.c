/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *program_name = "ft";
static enum log_level max_level = LOG_INFO;
static bool bar_on_screen; /* a progress bar occupies the current terminal line */

void log_init(const char *program)
{
    static const char *const names[] = {"error", "warn", "info"};
    const char *wanted = getenv("FT_LOG");
    program_name = program;
    for (size_t i = 0; wanted != NULL && i < ARRAY_LEN(names); i++)
        if (strcmp(wanted, names[i]) == 0)
            max_level = (enum log_level)i;
}

static void clear_bar(void)
{
    if (bar_on_screen)
        fputs("\r\033[K", stderr);
    bar_on_screen = false;
}

void log_line(enum log_level level, const char *fmt, ...)
{
    static const char *const prefix[] = {"error: ", "warning: ", ""};
    va_list ap;
    if (level > max_level)
        return;
    pthread_mutex_lock(&lock);
    clear_bar();
    fprintf(stderr, "%s: %s", program_name, prefix[level]);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    pthread_mutex_unlock(&lock);
}

bool log_color(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0');
}

const char *format_bytes(char dst[32], double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t u = 0;
    while (bytes >= 1024 && u + 1 < ARRAY_LEN(units)) {
        bytes /= 1024;
        u++;
    }
    snprintf(dst, 32, u == 0 ? "%.0f %s" : "%.1f %s", bytes, units[u]);
    return dst;
}

const char *format_duration(char dst[32], double s)
{
    if (s < 0.9995)
        snprintf(dst, 32, "%.0f ms", s * 1e3);
    else if (s < 60)
        snprintf(dst, 32, "%.1f s", s);
    else if (s < 3600)
        snprintf(dst, 32, "%d min %02d s", (int)s / 60, (int)s % 60);
    else
        snprintf(dst, 32, "%.0f h %02d min", s / 3600 - 0.5 < 0 ? 0 : (double)((long)s / 3600),
                 (int)((long)s / 60 % 60));
    return dst;
}

/* 12345678 -> "12.3 M" for quantities that only need three digits. */
static const char *format_count(char dst[32], double v)
{
    if (v >= 1e9)
        snprintf(dst, 32, "%.2fG", v / 1e9);
    else if (v >= 1e6)
        snprintf(dst, 32, "%.2fM", v / 1e6);
    else if (v >= 1e4)
        snprintf(dst, 32, "%.1fk", v / 1e3);
    else
        snprintf(dst, 32, v < 10 && v != (double)(long)v ? "%.2f" : "%.0f", v);
    return dst;
}

void progress_start(struct progress *p, const char *what, const char *unit, double total)
{
    double now = clock_seconds();
    *p = (struct progress){what, unit, total, now, now, isatty(2) != 0};
}

static void show(struct progress *p, double done, const char *note, bool last)
{
    char text[3][32], bar[48] = "", eta[48] = "", of[48] = "";
    double elapsed = clock_seconds() - p->started;
    double rate = elapsed > 0 ? done / elapsed : 0;
    if (p->total > 0) {
        double fraction = FT_MIN(done / p->total, 1.0);
        snprintf(of, sizeof of, "/%s", format_count(text[0], p->total));
        if (p->terminal && !last) {
            int filled = (int)(fraction * 20);
            snprintf(bar, sizeof bar, "[%.*s%.*s] ", filled, "####################", 20 - filled,
                     "....................");
        }
        if (!last && rate > 0)
            snprintf(eta, sizeof eta, ", %s left",
                     format_duration(text[1], (p->total - done) / rate));
    }
    if (last)
        snprintf(eta, sizeof eta, ", %s", format_duration(text[1], elapsed));
    char done_text[32];
    pthread_mutex_lock(&lock);
    clear_bar();
    fprintf(stderr, "%s: %s %s%s%s %s, %s %s/s%s%s%s", program_name, p->what, bar,
            format_count(done_text, done), of, p->unit, format_count(text[2], rate), p->unit, eta,
            note != NULL && note[0] != '\0' ? ", " : "", note == NULL ? "" : note);
    bar_on_screen = p->terminal && !last;
    if (!bar_on_screen)
        fputc('\n', stderr);
    fflush(stderr);
    pthread_mutex_unlock(&lock);
}

void progress_update(struct progress *p, double done, const char *note)
{
    double now = clock_seconds();
    if (max_level < LOG_INFO || now - p->last_shown < (p->terminal ? 0.1 : 10.0))
        return;
    p->last_shown = now;
    show(p, done, note, false);
}

void progress_finish(struct progress *p, double done, const char *note)
{
    if (max_level >= LOG_INFO)
        show(p, done, note, true);
}
