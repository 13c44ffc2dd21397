/* SPDX-License-Identifier: Apache-2.0
 * Between source.c and the readers of the shapes a row can have. Their error messages start with
 * the rest of the path, ".role: ..." or ": ...", and callers put in front what they know. */
#ifndef TOOLS_SOURCE_SHAPES_H
#define TOOLS_SOURCE_SHAPES_H

#include "tools/source.h"

/* The key that tells a shape. */
const char *source_telling_key(const struct row_shape *s);
/* The one shape of the table whose key the row has. */
FT_NODISCARD ft_status source_tell_shape(const struct row_shape **out, const json *row,
                                         ft_error *err);

/* Readers append to out. path names the list in messages. */
FT_NODISCARD ft_status source_read_messages(struct conversation *out, const char *path,
                                            const json *list, ft_error *err);
FT_NODISCARD ft_status source_read_turns(struct conversation *out, const char *path,
                                         const json *list, ft_error *err);
FT_NODISCARD ft_status source_read_columns(struct conversation *out, const struct row_shape *shape,
                                           const json *row, ft_error *err);

FT_NODISCARD ft_status source_add(struct conversation *out, const struct chat_message *m,
                                  ft_error *err);
/* An empty system text is no message. */
FT_NODISCARD ft_status source_add_system(struct conversation *out, str text, ft_error *err);

enum { SHOWN_BYTES = 48 };
/* Foreign text for a one-line message: cut at a character, control characters as '?'. */
const char *source_shown(char dst[SHOWN_BYTES], str s);
/* The keys that are there instead of `wanted`, with a likely typing error pointed out. */
FT_NODISCARD ft_status source_missing_key(const json *object, const char *const *wanted, size_t n,
                                          ft_error *err);
/* "PATH: expected WHAT, found a number" */
FT_NODISCARD ft_status source_wrong_kind(const char *path, const char *what, const json *v,
                                         ft_error *err);
/* Put "place", ".key" and "list[i]" in front of the message. */
FT_NODISCARD ft_status source_after(const char *place, ft_error *err);
FT_NODISCARD ft_status source_after_key(const char *key, ft_error *err);
FT_NODISCARD ft_status source_inside(const char *list, size_t i, ft_error *err);

bool source_is_absent(const json *v); /* missing or null */
/* Absent gives an empty string. */
FT_NODISCARD ft_status source_opt_str(str *out, const json *object, const char *key, ft_error *err);
/* true, false, 0, 1 or their names; null is as good as absent. */
FT_NODISCARD ft_status source_read_flag(enum chat_loss *out, const json *object, const char *key,
                                        ft_error *err);
/* Other keys are ignored, but a misspelt flag would train what it means to leave out. keys: those
 * that are spelt right, the flags first. */
FT_NODISCARD ft_status source_refuse_misspelt(const json *object, const char *const *keys,
                                              size_t n_keys, size_t n_flags, ft_error *err);
/* Room for a content made of several strings. */
FT_NODISCARD ft_status source_room(char **out, struct conversation *c, size_t bytes, ft_error *err);

#endif
