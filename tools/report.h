/* SPDX-License-Identifier: Apache-2.0
 * The conservation report of a manifest for people and for programs. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "common/buf.h"
#include "formats/manifest.h"

/* A table: rows and tokens by fate, then the first few dropped rows of each kind with their place.
 */
void report_text(struct buf *out, const struct manifest *m);
/* One JSON object without a newline. */
void report_json(struct buf *out, const struct manifest *m);
/* One warning per kind of note, and one for dropped rows, to the log. */
void report_warn(const struct manifest *m);

#endif
