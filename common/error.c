/* SPDX-License-Identifier: Apache-2.0
 * Error text construction and the mapping from status to exit code. */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ft_assert_fail(const char *expr, const char *file, int line)
{
    fprintf(stderr, "%s:%d: internal error, please report it: %s\n", file, line, expr);
    abort();
}

ft_status ft_fail(ft_error *err, ft_status status, const char *fmt, ...)
{
    va_list ap;
    err->status = status;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return status;
}

ft_status ft_fail_errno(ft_error *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    err->status = saved == ENOMEM ? FT_EMEM : FT_EIO;
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, ": %s", strerror(saved));
    return err->status;
}

ft_status ft_fail_memory(ft_error *err, size_t bytes, const char *what)
{
    if (bytes < 1024 * 1024)
        return ft_fail(err, FT_EMEM, "out of memory: %zu bytes for %s", bytes, what);
    return ft_fail(err, FT_EMEM, "out of memory: %.1f MiB for %s", (double)bytes / 1048576.0, what);
}

ft_status ft_wrap(ft_error *err, const char *fmt, ...)
{
    char prefix[512];
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    memcpy(text, err->text, sizeof text);
    /* %.*s keeps the compiler sure that the result fits. */
    int room = (int)(sizeof err->text - strlen(prefix) - 3);
    snprintf(err->text, sizeof err->text, "%s: %.*s", prefix, room, text);
    return err->status;
}

int ft_exit_code(ft_status status)
{
    switch (status) {
    case FT_OK:
        return 0;
    case FT_EUSAGE:
        return 2;
    case FT_ESTOP:
        return 3;
    default:
        return 1;
    }
}
