/* SPDX-License-Identifier: Apache-2.0
 * Conversations with the text, ids and mask that the reference gives them: tests/golden/chat/. */
#ifndef TESTS_SUPPORT_GOLDEN_CHAT_H
#define TESTS_SUPPORT_GOLDEN_CHAT_H

#include "formats/tok/tok.h"

/* Renders and encodes every conversation of the file; FT_EFORMAT names the first that differs. */
FT_NODISCARD ft_status golden_chat_check(size_t *n_rows, const struct tok *tok, const char *path,
                                         ft_error *err);

#endif
