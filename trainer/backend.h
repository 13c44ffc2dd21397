/* SPDX-License-Identifier: Apache-2.0
 * A device: memory and the operations of trainer/ops.h. CPU and later CUDA stand behind one table;
 * model code never sees which. Operations return void; the first failure is latched here with the
 * operation's name, later calls do nothing, and backend_sync returns it. */
#ifndef TRAINER_BACKEND_H
#define TRAINER_BACKEND_H

#include "common/error.h"

struct backend;

enum matmul_kind {
    MATMUL_FAST,      /* the backend's best product */
    MATMUL_REFERENCE, /* plain loops in a fixed order: the specification, bit-exact everywhere */
};

struct backend_options {
    int n_threads; /* >= 1 */
    enum matmul_kind matmul;
};

/* name: "cpu". FT_EUSAGE lists the backends of this build. */
FT_NODISCARD ft_status backend_check_name(const char *name, ft_error *err);
FT_NODISCARD ft_status backend_open(struct backend **out, const char *name,
                                    const struct backend_options *o, ft_error *err);
void backend_close(struct backend *be); /* NULL is fine */
const char *backend_name(const struct backend *be);
int backend_threads(const struct backend *be);

/* What a backend takes at open for the workspaces of its operations: the largest of this build, so
 * that memory can be planned before one is opened. */
size_t backend_workspace_bytes(int n_threads);

/* 64-byte aligned, zeroed device memory; `what` names the class in messages. */
FT_NODISCARD ft_status backend_alloc(void *out, struct backend *be, size_t bytes, const char *what,
                                     ft_error *err);
void backend_free(struct backend *be, void *p);

/* Waits for all work and returns the first latched failure. */
FT_NODISCARD ft_status backend_sync(struct backend *be, ft_error *err);

#endif
