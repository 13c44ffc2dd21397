/* SPDX-License-Identifier: Apache-2.0
 * How failures of the outside world travel: a status, and a message in a caller-owned ft_error.
 * Functions return ft_status and take `ft_error *err` last. Only main() prints a message and
 * chooses the exit code (docs/architecture.md lists the codes). */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include "common/base.h"

typedef enum {
    FT_OK = 0,
    FT_EUSAGE,  /* the command line or the run configuration is wrong */
    FT_EIO,     /* a file could not be read, written, made durable */
    FT_EFORMAT, /* bytes do not follow their format, or two inputs do not fit together */
    FT_ELIMIT,  /* a documented maximum is exceeded */
    FT_EMEM,    /* memory exhausted */
    FT_EDEVICE, /* accelerator */
    FT_ECOMM,   /* another rank or the network */
    FT_ESTATE,  /* the operation does not fit the present state (nothing to resume, run finished) */
    FT_ESTOP,   /* asked to stop (SIGTERM, SIGINT); state is saved */
} ft_status;

typedef struct ft_error {
    ft_status status;
    char text[1024]; /* one line, no trailing newline or full stop */
} ft_error;

/* Fills err and returns status: `return ft_fail(err, FT_EFORMAT, "row %zu: ...", row);` */
FT_NODISCARD ft_status ft_fail(ft_error *err, ft_status status, const char *fmt, ...)
    FT_PRINTF(3, 4);

/* As ft_fail with FT_EIO, appending ": " and the text of errno. ENOMEM becomes FT_EMEM. */
FT_NODISCARD ft_status ft_fail_errno(ft_error *err, const char *fmt, ...) FT_PRINTF(2, 3);

/* FT_EMEM with the amount and the purpose: "out of memory: 12.0 MiB for the vocabulary". */
FT_NODISCARD ft_status ft_fail_memory(ft_error *err, size_t bytes, const char *what);

/* Prefixes the message with "context: " and returns err->status. Use where the caller knows
 * something new (path, row), not at every level. */
FT_NODISCARD ft_status ft_wrap(ft_error *err, const char *fmt, ...) FT_PRINTF(2, 3);

/* Propagates a failure from a place that holds nothing. */
#define FT_TRY(call)                                                                               \
    do {                                                                                           \
        ft_status try_status_ = (call);                                                            \
        if (try_status_ != FT_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

/* Propagates a failure to the single cleanup label `out`; needs a local `ft_status st`. */
#define FT_GOTO(call)                                                                              \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != FT_OK)                                                                           \
            goto out;                                                                              \
    } while (0)

/* Process exit code for a status: 0 ok, 1 failed, 2 usage, 3 stopped on request (resumable). */
int ft_exit_code(ft_status status);

#endif
