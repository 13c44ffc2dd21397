/* SPDX-License-Identifier: Apache-2.0
 * Foreign text shown to people: what is no character, steers a terminal or turns the direction of
 * writing around appears as an escape. */
#ifndef TOOLS_VISIBLE_H
#define TOOLS_VISIBLE_H

#include "common/buf.h"

/* For a terminal or a text file; line breaks and tabs stay. */
void visible_text(struct buf *out, str s);
/* The same as HTML text or inside a quoted attribute. */
void visible_html(struct buf *out, str s);

#endif
