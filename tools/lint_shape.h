/* SPDX-License-Identifier: Apache-2.0
 * What makes tools with one schema per file fail: the type of each path of a row, compared with the
 * rows before it. */
#ifndef TOOLS_LINT_SHAPE_H
#define TOOLS_LINT_SHAPE_H

#include "tools/lint.h"

/* Types seen so far. Memory is bounded: paths beyond the first LINT_SHAPE_PATHS are not watched. */
enum { LINT_SHAPE_PATHS = 4096 };
struct lint_shape;

FT_NODISCARD ft_status lint_shape_create(struct lint_shape **out, ft_error *err);
void lint_shape_destroy(struct lint_shape *s); /* NULL is fine */
/* Rows of one file, in their order. Adds J01, J02, J06 and M13. */
void lint_shape_row(struct lint_shape *s, struct lint_list *l, const json *row);

#endif
