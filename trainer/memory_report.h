/* SPDX-License-Identifier: Apache-2.0
 * What a run will need, said and checked before anything is allocated. */
#ifndef TRAINER_MEMORY_REPORT_H
#define TRAINER_MEMORY_REPORT_H

#include "trainer/inputs.h"

/* Logs one line per class of memory and compares the total with memory.limit or what the machine
 * has. FT_EMEM says what would fit. */
FT_NODISCARD ft_status memory_report(const struct inputs *in, const struct train_options *o,
                                     const struct model_options *model, ft_error *err);

#endif
