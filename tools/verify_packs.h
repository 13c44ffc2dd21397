/* SPDX-License-Identifier: Apache-2.0
 * Pack plans: that of a data set, and those made beside it. */
#ifndef TOOLS_VERIFY_PACKS_H
#define TOOLS_VERIFY_PACKS_H

#include "formats/dataset.h"

/* Every sample of a split is in exactly one bin, or every token in at most one part and the rest
 * accounted for; no bin is too full; the header's totals are right. */
FT_NODISCARD ft_status verify_packs(const struct dataset *d, ft_error *err);
/* The same, and the checksums, for every train-NAME.packs in dir. */
FT_NODISCARD ft_status verify_plans(const char *dir, ft_error *err);

#endif
