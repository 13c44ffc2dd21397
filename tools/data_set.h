/* SPDX-License-Identifier: Apache-2.0
 * The place of a data set: what is there, and putting a new one there. */
#ifndef TOOLS_DATA_SET_H
#define TOOLS_DATA_SET_H

#include "common/buf.h"
#include "tools/assemble.h"
#include "tools/out_dir.h"

/* Only nothing, an empty directory, or a data set may be in the place of dir; *there tells whether
 * something is. FT_ESTATE. */
FT_NODISCARD ft_status data_set_check_place(bool *there, const char *dir, ft_error *err);
/* *same: the data set there is the one that `new` would give, and nothing needs to be done; its
 * report is rendered. Another one is FT_ESTATE unless it is to be replaced. hash_sources: the
 * hashes of new's sources are not known yet. */
FT_NODISCARD ft_status data_set_same(bool *same, struct buf *report, const char *dir,
                                     struct manifest *new, bool hash_sources, bool replace,
                                     bool as_json, ft_error *err);
/* Assembles the plan's parts in out, which becomes the data set in its place, and renders the
 * report. Ends the use of out either way. */
FT_NODISCARD ft_status data_set_publish(struct buf *report, struct out_dir *out, struct assemble *a,
                                        bool replace, bool as_json, ft_error *err);

#endif
