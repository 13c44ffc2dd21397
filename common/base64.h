/* SPDX-License-Identifier: Apache-2.0
 * Base64 with the alphabet of RFC 4648 and padding. */
#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include "common/buf.h"

/* Appends the bytes of text; false when it is not such text: another character (white space too),
 * wrong padding, bits that are not used but set. A failed append is latched in out. */
FT_NODISCARD bool base64_decode(struct buf *out, str text);
/* Appends bytes as base64, padded, on one line. */
void base64_write(struct buf *out, str bytes);

#endif
