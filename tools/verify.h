/* SPDX-License-Identifier: Apache-2.0
 * The complete check of a data set: everything that dataset_open takes on trust. */
#ifndef TOOLS_VERIFY_H
#define TOOLS_VERIFY_H

#include "formats/dataset.h"

/* Recomputes every hash and count; every token id, loss span, source and row; the held-out rule;
 * that packs hold each sample once and fit; that the report adds up. The first difference is the
 * error. */
FT_NODISCARD ft_status verify_dataset(const char *dir, ft_error *err);

#endif
