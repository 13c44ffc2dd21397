/* SPDX-License-Identifier: Apache-2.0
 * Vocabulary and merges are nearly all of a tokenizer.json: hundreds of thousands of strings, for
 * which a tree of nodes costs most of the time. They are cut out of the text and read in place. */
#ifndef FORMATS_TOK_TOK_JSON_LISTS_H
#define FORMATS_TOK_TOK_JSON_LISTS_H

#include "formats/tok/tok_internal.h"

/* "vocab": {...} and "merges": [...] of "model", with their brackets; .ptr NULL = not there. */
struct tok_json_lists {
    str vocab, merges;
};

/* Finds them; what does not look like JSON has none. rest gets the text with both lists empty and
 * line ends kept, so that places in it are those of the text. */
FT_NODISCARD ft_status tok_json_cut_lists(struct tok_json_lists *out, struct buf *rest, str text,
                                          ft_error *err);

/* At most how many entries they have. */
size_t tok_json_count_pieces(const struct tok_json_lists *l);
size_t tok_json_count_merges(const struct tok_json_lists *l);
/* Give the entries to the builder. *malformed is true when the text itself is to blame, and then
 * its parser has the better message. */
FT_NODISCARD ft_status tok_json_read_pieces(struct tok_builder *b, const struct tok_json_lists *l,
                                            bool *malformed, ft_error *err);
FT_NODISCARD ft_status tok_json_read_merges(struct tok_builder *b, const struct tok_json_lists *l,
                                            bool *malformed, ft_error *err);

#endif
